"""The maintenance pipeline around ZooKeeper-mode Kafka: operations, tasks, command, pages, local stack."""

__version__ = "0.2.0"  # the only place: pyproject.toml, manifests, plans and receipts take it from here
