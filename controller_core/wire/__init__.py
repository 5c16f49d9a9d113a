"""Kafka's binary protocol, as far as a controller speaks it: which fields each version of a message has, and their bytes."""
