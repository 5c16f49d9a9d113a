"""The maintenance pipeline around ZooKeeper-mode Kafka: operations, tasks, command, pages, local stack."""

__version__ = "0.1.0"
