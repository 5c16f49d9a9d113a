"""Effects on the znodes of Kafka, as `KafkaZkClient` performs them."""
