"""A real ZooKeeper with the tree of a small cluster, and a store with snapshots of it, for the DAGs that take and read snapshots."""

import base64
import json
import os
from dataclasses import replace
from datetime import datetime
from pathlib import Path

import pytest
from pyarrow.fs import LocalFileSystem

from controller_core.adapters.object_store.open import open_store
from controller_core.adapters.zookeeper.address import ClusterAddress
from tests.dags.connections import airflow_knows
from tests.dags.world import BROKERS, registration
from tests.kafka_maintenance.operations.analysis.analysed import table_of

REPORT = "<h1>Kafka maintenance report</h1>"
OLD_DAYS = ("2026-11-02", "2026-11-05")


@pytest.fixture(scope="session")
def zookeeper():
    """A real ZooKeeper with the tree of a small cluster under the chroot /kafka."""
    from controller_core.adapters.zookeeper.session import connect
    from kafka_maintenance.servers.zookeeper import ZooKeeperServer

    with ZooKeeperServer() as server, connect(f"{server.hosts}/kafka", create_chroot=True) as session:
        session.create("/cluster/id", b'{"version":"1","id":"real"}', make_parents=True)
        session.create("/controller_epoch", b"3")
        session.create("/brokers/ids", make_parents=True)
        for broker in BROKERS:  # ephemeral, as brokers do: they live as long as this session
            session.create(f"/brokers/ids/{broker}", json.dumps(registration(broker)).encode(), ephemeral=True)
        topic = {"version": 2, "partitions": {"0": [1, 2, 3]}, "adding_replicas": {}, "removing_replicas": {}}
        session.create("/brokers/topics/orders", json.dumps(topic).encode(), make_parents=True)
        state = {"controller_epoch": 3, "leader": 1, "version": 1, "leader_epoch": 0, "isr": [1, 2, 3]}
        path = "/brokers/topics/orders/partitions/0/state"
        session.create(path, json.dumps(state).encode(), make_parents=True)
        yield server


@pytest.fixture
def store(zookeeper, monkeypatch, tmp_path):
    """A folder store; Airflow knows `alpha` (the real tree) and `old` (archived, its ZooKeeper is gone)."""
    alpha = {"host": zookeeper.hosts, "extra": {"chroot": "/kafka"}}
    airflow_knows(monkeypatch, tmp_path, alpha=alpha, old={"host": "127.0.0.1:1", "extra": {"archived": True}})
    return str(tmp_path)


@pytest.fixture
def key_file(monkeypatch, tmp_path_factory):
    """A key that the tasks take, as `KAFKA_MAINTENANCE_SNAPSHOT_KEY_FILE` names it."""
    from kafka_maintenance.tasks import restore_drill, snapshots

    path = tmp_path_factory.mktemp("key") / "day.key"
    path.write_bytes(base64.b64encode(os.urandom(32)))
    for tasks in (snapshots, restore_drill):
        monkeypatch.setattr(tasks, "SETTINGS", replace(tasks.SETTINGS, snapshot_key_file=path))
    return path


@pytest.fixture
def spark(monkeypatch, request):
    """Spark replaced by the files that its job leaves, the param as its findings; yields of each job its command line, and the problems that it is told."""
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook

    from spark_jobs.io.delivery import deliver
    from spark_jobs.io.folders import Folder
    from tests.visible_snapshots import visible_snapshots

    jobs = []

    def submit(hook, application):
        arguments = hook._application_args
        problems = json.loads(Path(arguments[arguments.index("--problems") + 1]).read_text())
        jobs.append((arguments, problems))
        output = Path(arguments[arguments.index("--output") + 1])
        output.mkdir(parents=True, exist_ok=True)
        clusters = {
            manifest.cluster: {"snapshot_id": manifest.snapshot_id, "snapshot_digest": manifest.digest}
            for manifest in visible_snapshots(open_store(os.environ["AIRFLOW_VAR_KAFKA_MAINTENANCE_STORE"]))
        }
        gaps = [{"cluster": "old", "stage": "history", "reason": "an earlier date is damaged"}]
        missed = [{"cluster": each["cluster"], "stage": "fetch", "reason": each["reason"]} for each in problems]
        (output / "summary.json").write_text(json.dumps({"clusters": clusters, "not_analysed": gaps + missed}))
        (output / "report.html").write_text(REPORT)
        (output / "report.md").write_text("# Report")
        (output / "findings").mkdir(exist_ok=True)
        (output / "findings" / "part-0.parquet").write_bytes(table_of(*getattr(request, "param", ())))
        files = ["report.html", "report.md", "summary.json", "findings/part-0.parquet"]
        deliver(Folder(LocalFileSystem(), str(output), str(output)), files)

    monkeypatch.setattr(SparkSubmitHook, "submit", submit)
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_MAINTENANCE_SPARK", '{"conn_type": "spark", "host": "local[2]"}')
    return jobs


def write_over(store, key, content):
    path = Path(store) / key
    path.chmod(0o644)
    path.write_bytes(content)


def take_old(zookeeper, store, day, cluster="old"):
    """A snapshot of an earlier date, recorded under another name."""
    from kafka_maintenance.operations.snapshots.take import take_snapshot

    now = datetime.fromisoformat(f"{day}T01:30:00+00:00")
    return take_snapshot(
        address=ClusterAddress(f"{zookeeper.hosts}/kafka"),
        cluster=cluster,
        store=open_store(store),
        run_id=f"date-{day}",
        now=now,
    )


def snapshots_in(store, cluster=None):
    from tests.visible_snapshots import visible_snapshots

    return visible_snapshots(open_store(store), cluster)
