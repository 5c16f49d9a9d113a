"""What the tests of this folder restore."""

from tests.kafka_maintenance.operations.restore.restored import snapshot, stopped, store

__all__ = ["snapshot", "stopped", "store"]
