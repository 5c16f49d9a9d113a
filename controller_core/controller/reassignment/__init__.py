"""Reassignment of partitions: through request znodes up to Kafka 2.3, and KIP-455 from 2.4 on."""
