"""What a run that is cleared after its date finds again."""

from tests import airflow_home  # isort: skip  # before anything of Airflow

from datetime import UTC, datetime

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.model.errors import ObjectDamagedError
from kafka_maintenance import hooks
from kafka_maintenance.tasks import snapshots
from tests.kafka_maintenance.snapshot_world import stored_day

assert airflow_home

NOW = datetime(2026, 6, 30, 12, tzinfo=UTC)


def test_a_damaged_snapshot_of_the_date_hides_not_that_of_the_run(request, monkeypatch):
    store = MemoryStore(request.node.name)
    own, other = (stored_day(store, NOW, 3, hour=hour) for hour in (1, 2))
    monkeypatch.setattr(hooks, "store", lambda: store)
    monkeypatch.setattr(snapshots, "tell_lineage", lambda **_: None)
    store.put(other.key, b"{")
    day = own.taken_at.date()
    assert snapshots.stored_snapshot("alpha", day, own.run_id)["digest"] == own.digest
    with pytest.raises(ObjectDamagedError):
        snapshots.stored_snapshot("alpha", day, other.run_id)
    store.delete(other.key)
    assert snapshots.stored_snapshot("alpha", day, other.run_id) is None
