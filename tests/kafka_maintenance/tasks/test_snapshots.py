"""What a run that is cleared after its date finds again."""

from tests import airflow_home  # isort: skip  # before anything of Airflow

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

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


@pytest.fixture
def cleared(request, monkeypatch):
    """A task that was cleared, beside a snapshot of its date that cannot be read."""
    store = MemoryStore(request.node.name)
    store.put(stored_day(store, NOW, 3, hour=2).key, b"{")
    context = {"dag_run": SimpleNamespace(clear_number=1)}
    taken = {"consistent": True, "snapshot": "s", "manifest": "m"}
    monkeypatch.setattr(hooks, "store", lambda: store)
    for name, value in {
        "label": lambda _: None,
        "context_of_run": lambda: context,
        "day_of": lambda _: (NOW - timedelta(days=3)).date(),
        "run_name": lambda _: "r",
        "beginning_name": lambda _: "r",
        "snapshot_of_run": lambda *_, **__: taken,
    }.items():
        monkeypatch.setattr(snapshots, name, value)
    return SimpleNamespace(store=store, taken=taken)


def test_a_damaged_snapshot_of_today_keeps_no_cleared_task_from_taking_its_own(cleared, monkeypatch):
    class Today(datetime):
        now = staticmethod(lambda *_: NOW - timedelta(days=3))

    with pytest.raises(ObjectDamagedError):
        snapshots.take_snapshot.function("alpha")
    monkeypatch.setattr(snapshots, "datetime", Today)
    assert snapshots.take_snapshot.function("alpha") == cleared.taken
    cleared.store.put("v1/kraft/cluster=alpha/20261124T120000.000Z-left.json", b"{")
    with pytest.raises(ObjectDamagedError, match=r"-left\.json"):
        snapshots.take_snapshot.function("alpha")
