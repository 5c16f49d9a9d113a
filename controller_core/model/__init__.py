"""Nouns: partitions, brokers, states, the dialect of a Kafka version, errors. Values without behaviour."""
