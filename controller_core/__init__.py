"""The Kafka controller of ZooKeeper mode as a pure library: state and command in, state and effects out."""
