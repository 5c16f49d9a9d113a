"""Kafka's own methods, under Kafka's names: state machines, elections, topic deletion, brokers, controller election."""
