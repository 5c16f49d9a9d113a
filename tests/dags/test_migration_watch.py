"""The watch on a migration leaves its worker: what the task does with each advice, and what wakes it. On a real ZooKeeper."""

import asyncio
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from controller_core.adapters.object_store.open import open_store
from controller_core.adapters.zookeeper.address import ClusterAddress
from tests.dags.connections import airflow_knows
from tests.kafka_maintenance.operations.kraft.trees import MIGRATION, encoded, write_healthy

pytestmark = pytest.mark.services
NOTICE = "/isr_change_notification/isr_change_0000000001"


@pytest.fixture(scope="module")
def hosts():
    from kafka_maintenance.servers.zookeeper import ZooKeeperServer

    with ZooKeeperServer() as server:
        yield server.hosts


@pytest.fixture
def alpha(hosts, monkeypatch, tmp_path):
    """A session on a healthy cluster that Airflow knows, and the snapshot taken before."""
    from controller_core.adapters.zookeeper.session import connect
    from kafka_maintenance.operations.snapshots.take import take_snapshot
    from kafka_maintenance.tasks import kraft_watch

    chroot = f"/{tmp_path.name}"
    airflow_knows(monkeypatch, tmp_path, alpha={"host": hosts, "extra": {"chroot": chroot}})
    monkeypatch.setattr(kraft_watch, "_PAUSE_S", 0.1)  # in ZooKeeper mode no version has to rise
    with connect(f"{hosts}{chroot}", create_chroot=True) as session:
        write_healthy(session)
        store, address = open_store(str(tmp_path)), ClusterAddress(f"{hosts}{chroot}")
        taken = take_snapshot(address=address, cluster="alpha", store=store, run_id="r", now=datetime.now(UTC)).manifest
        session.before = {"cluster": "alpha", "date": taken.date, "snapshot": taken.snapshot_id}
        yield session


def operator(alpha, metadata_log=None):
    from kafka_maintenance.tasks.kraft_watch import WatchMigrationOperator

    return WatchMigrationOperator(task_id="watch", cluster="alpha", metadata_log=metadata_log, before=alpha.before)


def deferred(task, **event):
    """How the task leaves its worker."""
    from airflow.sdk.exceptions import TaskDeferred

    with pytest.raises(TaskDeferred) as left:
        task.execute({}, **event)
    return left.value


def quick(trigger, **more):
    """The trigger as Airflow makes it again in the triggerer, with other times."""
    from airflow.sdk._shared.module_loading import import_string

    path, arguments = trigger.serialize()
    return import_string(path)(**{**arguments, "look_every_s": 0.1, **more})


async def event_of(trigger):
    return (await anext(trigger.run())).payload


def test_a_retry_compares_with_the_snapshot_of_the_first_try_and_a_clear_with_a_new_one(alpha, monkeypatch):
    from kafka_maintenance.tasks import kraft_watch, snapshots

    run = SimpleNamespace(dag_id="kraft_watch", run_id="manual", start_date=datetime.now(UTC), clear_number=0)
    monkeypatch.setattr(kraft_watch, "context_of_run", lambda: {"dag_run": run})
    monkeypatch.setattr(snapshots, "tell_lineage", lambda **_: None)
    first, retried = (kraft_watch.snapshot_of_phase.function("alpha", "before") for _ in range(2))
    run.clear_number = 1
    assert first == retried
    assert kraft_watch.snapshot_of_phase.function("alpha", "before") != first


def test_go_ends_it_at_once(alpha):
    assert operator(alpha).execute({})["advice"] == "go"


def test_wait_leaves_the_worker_until_the_tree_says_go(alpha):
    alpha.create(NOTICE, encoded({"version": 1, "partitions": []}), make_parents=True)
    left = deferred(operator(alpha))
    trigger = quick(left.trigger)
    looked, look = [], trigger._look

    def looking():
        looked.append(look())
        if len(looked) == 2:
            alpha.delete(NOTICE, -1)
        return looked[-1]

    trigger._look = looking
    assert asyncio.run(event_of(trigger)).startswith("go: phase P0")
    assert looked[:2] == [None, None]
    again = operator(alpha).execute({}, event="go", **left.kwargs)
    assert (again["advice"], left.method_name) == ("go", "execute")


def test_a_task_that_compares_with_a_metadata_log_is_woken_to_read_it_and_by_the_way_back(alpha):
    alpha.create(NOTICE, encoded({"version": 1, "partitions": []}), make_parents=True)
    trigger = deferred(operator(alpha)).trigger
    alpha.delete(NOTICE, -1)
    assert asyncio.run(event_of(quick(trigger, wants_go=False, wake_after_s=0.5))) == "time to look at everything"
    alpha.create("/migration", encoded(MIGRATION | {"kraft_metadata_offset": 3}))
    assert asyncio.run(event_of(quick(trigger, wants_go=False))).startswith("go back: phase left over")


def test_go_back_and_the_end_of_two_weeks_fail(alpha):
    from airflow.sdk.exceptions import AirflowFailException

    alpha.create(NOTICE, encoded({"version": 1, "partitions": []}), make_parents=True)
    with pytest.raises(AirflowFailException, match="WAIT"):
        operator(alpha).execute({}, event="time", until="2026-01-01T00:00:00+00:00")
    alpha.create("/migration", encoded(MIGRATION | {"kraft_metadata_offset": 3}))
    with pytest.raises(AirflowFailException, match="GO BACK"):
        operator(alpha).execute({})
