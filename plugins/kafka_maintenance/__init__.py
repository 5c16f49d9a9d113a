"""The maintenance pipeline around ZooKeeper-mode Kafka: operations, tasks, command, pages, local stack."""
