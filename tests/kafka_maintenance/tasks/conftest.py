"""The store of an approval, and what its gate shows."""

from datetime import UTC, datetime

import pytest

from tests.kafka_maintenance.tasks.approving import KIND


@pytest.fixture
def store():
    from controller_core.adapters.object_store.open import MemoryStore

    return MemoryStore()


@pytest.fixture
def text(store):
    """What the gate shows of a stored plan of one election on `alpha`."""
    from kafka_maintenance.operations.gate.shown import shown
    from kafka_maintenance.operations.plans.elections import plan_elections
    from tests.dags.world import World

    made = plan_elections(store, "alpha", zookeeper=World().zookeeper, now=datetime(2026, 11, 21, tzinfo=UTC))
    return shown(store, kind=KIND, cluster="alpha", digest=made.digest)
