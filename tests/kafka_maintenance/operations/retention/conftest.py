"""The store that the tests of this folder share."""

from tests.kafka_maintenance.operations.retention.days import store

__all__ = ["store"]
