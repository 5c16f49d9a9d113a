"""Stored snapshots and a tree of which parts may not be read, for the tests of this folder."""

from tests.kafka_maintenance.operations.snapshots.corpus import corpus
from tests.kafka_maintenance.operations.snapshots.taken import half_open

__all__ = ["corpus", "half_open"]
