"""The DAGs of a migration to KRaft: the watch on a real ZooKeeper, the rehearsal with a real controller."""

import json
from datetime import UTC, datetime

import pytest

from controller_core.adapters.object_store.open import open_store
from controller_core.adapters.zookeeper.address import ClusterAddress
from tests.dags.connections import airflow_knows
from tests.kafka_maintenance.operations.kraft.trees import MIGRATION, encoded, write_healthy

pytestmark = pytest.mark.kafka


@pytest.fixture(scope="module")
def hosts():
    """A real ZooKeeper with a healthy tree under the chroot /kafka; its brokers live as long as this session."""
    from controller_core.adapters.zookeeper.session import connect
    from kafka_maintenance.servers.zookeeper import ZooKeeperServer

    with ZooKeeperServer() as server, connect(f"{server.hosts}/kafka", create_chroot=True) as session:
        write_healthy(session)
        yield server.hosts


@pytest.fixture
def alpha(hosts, monkeypatch, tmp_path):
    """The cluster as Airflow knows it, and a session on it."""
    from controller_core.adapters.zookeeper.session import connect

    airflow_knows(monkeypatch, tmp_path, alpha={"host": hosts, "extra": {"chroot": "/kafka"}})
    with connect(f"{hosts}/kafka") as session:
        yield session


def outcome(bag, dag_id, task_id, **conf):
    run = bag.dags[dag_id].test(logical_date=None, run_conf=conf)
    return [each.state for each in run.get_task_instances() if each.task_id == task_id]


def test_the_watch_goes_on_or_fails_with_the_way_back(bag, alpha, tmp_path, monkeypatch):
    from kafka_maintenance.tasks import kraft_watch

    monkeypatch.setattr(kraft_watch, "_PAUSE_S", 0.1)  # in ZooKeeper mode no version has to rise
    assert outcome(bag, "kraft_watch", "watch_migration", cluster="alpha") == ["success"]
    assert len(list(open_store(str(tmp_path)).list("v1/runs/"))) == 2  # a snapshot before, one after
    alpha.create("/migration", encoded(MIGRATION))
    try:
        assert outcome(bag, "kraft_watch", "watch_migration", cluster="alpha") == ["failed"]
    finally:
        alpha.delete("/migration", -1)


def test_a_rehearsal_succeeds_or_fails_with_its_obstacles(bag, alpha, hosts, tmp_path):
    from kafka_maintenance.operations.snapshots.take import take_snapshot

    def taken(run):
        address, store = ClusterAddress(f"{hosts}/kafka"), open_store(str(tmp_path))
        take_snapshot(address=address, cluster="alpha", store=store, run_id=run, now=datetime.now(UTC))

    taken("healthy")
    assert outcome(bag, "kraft_rehearsal", "rehearse", with_brokers=1) == ["success"]
    store = open_store(str(tmp_path))
    (kept,) = (json.loads(store.get(key)) for key in store.list("v1/rehearsals/"))
    assert kept["real_brokers"]["brokers"] == [1]
    alpha.set("/controller_epoch", b"", -1)
    try:
        taken("damaged")
    finally:
        alpha.set("/controller_epoch", b"1", -1)
    assert outcome(bag, "kraft_rehearsal", "rehearse") == ["failed"]
