"""What Kafka's own tools compute: replica placement and throttles."""
