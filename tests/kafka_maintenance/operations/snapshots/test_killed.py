"""Kill -9 at every step of publishing, restoring and removing: nothing half-visible, and a second run finishes."""

import os
import shutil
import signal
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest

from controller_core.adapters.object_store.open import FolderStore
from controller_core.adapters.snapshot.reader import read_cut
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import connect
from kafka_maintenance.operations.restore.content import RestoreScope
from kafka_maintenance.operations.restore.plan import plan_restore
from kafka_maintenance.operations.retention.plan import RetentionPolicy, apply_retention, plan_retention
from kafka_maintenance.operations.retention.store import store_retention
from kafka_maintenance.operations.snapshots import catalog as snapshots
from kafka_maintenance.operations.snapshots.take import take_snapshot
from kafka_maintenance.operations.snapshots.verify import verify_snapshot
from kafka_maintenance.servers import ZooKeeperServer
from tests.kafka_maintenance import killed
from tests.kafka_maintenance import snapshot_world as world
from tests.visible_snapshots import visible_snapshots

pytestmark = pytest.mark.services

KILLED = -signal.SIGKILL
STEPS_MAX = 400


@pytest.fixture(scope="module")
def server():
    with ZooKeeperServer(tick_time_ms=150) as server:
        yield server


@pytest.fixture(autouse=True)
def no_syncs(monkeypatch):
    """A killed process loses nothing that it has written; a disk that is waited for makes the loops long."""
    monkeypatch.setattr(os, "fsync", lambda _: None)


def steps_until_done(attempt, check) -> int:
    """Kills at step 1, 2, 3, … until an attempt gets through; `check` looks at what each one left."""
    for step in count(1):
        assert step < STEPS_MAX
        status = attempt(step)
        check(step, status)
        if status == 0:
            print(
                f"{attempt.__qualname__.partition('.')[0]}: killed {step - 1} times, nothing half-visible, finished each time"
            )
            return step - 1
        assert status == KILLED
    raise AssertionError("never")


def test_publishing(kafka, chroot, tmp_path):
    def attempt(step):
        return killed.in_child(killed.publish, step, chroot, str(tmp_path / str(step)))

    def check(step, status):
        store = FolderStore(tmp_path / str(step))
        visible = visible_snapshots(store) if (tmp_path / str(step)).exists() else []
        assert len(visible) <= 1
        assert all(verify_snapshot(store, manifest) == [] for manifest in visible)
        result = take_snapshot(
            address=ClusterAddress(chroot), cluster="alpha", store=store, run_id="run", now=world.NOON
        )
        assert not (result.created and visible)
        (only,) = visible_snapshots(store)
        assert only.digest == result.digest
        assert verify_snapshot(store, only) == []
        shutil.rmtree(tmp_path / str(step))

    kills = steps_until_done(attempt, check)
    assert kills > 30, "every object, the note and the manifest have their steps"


@pytest.fixture
def stored(kafka, chroot, tmp_path):
    store = FolderStore(tmp_path / "store")
    return store, take_snapshot(
        address=ClusterAddress(chroot), cluster="alpha", store=store, run_id="r", now=world.NOON
    ).manifest


def tree(hosts):
    with connect(hosts) as session:
        return {path: znode.data for path, znode in read_cut(session.client).znodes.items()}


def test_restoring_a_whole_tree(stored, server, tmp_path):
    store, manifest = stored
    plans = {}

    def target(step):
        return f"{server.hosts}/whole-{step}"

    def attempt(step):
        plan = plan_restore(
            store=store, manifest=manifest, target=ClusterAddress(target(step)), scope=RestoreScope(whole=True)
        )
        plans[step] = plan
        return killed.in_child(killed.restore_whole, step, target(step), store.uri, plan.uri, plan.digest)

    def check(step, status):
        plan = plans[step]
        killed._apply(target(step), store.uri, plan.uri, plan.digest)
        found = tree(target(step))
        assert found.keys() == {path for path in tree_of(manifest, store) if path != "/config/users/alice"}
        assert all(
            (found[path] or b"") == (data or b"") for path, data in tree_of(manifest, store).items() if path in found
        )

    assert steps_until_done(attempt, check) > 10


def tree_of(manifest, store):
    """The persistent znodes of the snapshot."""
    raw = snapshots.read_raw(store, manifest)
    rows = zip(raw["path"].to_pylist(), raw["data"].to_pylist(), raw["ephemeral_owner"].to_pylist(), strict=True)
    return {path: data for path, data, owner in rows if not owner}


def test_restoring_a_part(stored, kafka, chroot):
    store, manifest = stored
    wanted = [f"/config/{name}" for name in ("topics/orders", "clients/slow", "users/bob")]
    plans = {}

    def attempt(step):
        for path in wanted:
            kafka.set(path, world.config(broken=str(step)), -1)
        for change in kafka.children("/config/changes"):
            kafka.delete(f"/config/changes/{change}", -1)
        scope = RestoreScope(topics=("orders",), configs=("clients/*", "users/bob"))
        plan = plans[step] = plan_restore(store=store, manifest=manifest, target=ClusterAddress(chroot), scope=scope)
        return killed.in_child(killed.restore_part, step, chroot, store.uri, plan.uri, plan.digest)

    def check(step, status):
        right = [kafka.get(path)[0] == world.PERSISTENT[path] for path in wanted]
        assert len(kafka.children("/config/changes")) == sum(right), "a config and its notice come together"
        killed._apply(chroot, store.uri, plans[step].uri, plans[step].digest)
        assert all(kafka.get(path)[0] == world.PERSISTENT[path] for path in wanted)
        assert len(kafka.children("/config/changes")) == len(wanted)

    assert steps_until_done(attempt, check) >= 2 * len(wanted)


@pytest.fixture
def three_days(kafka, chroot, tmp_path):
    original = FolderStore(tmp_path / "original")
    for day in range(3):
        now = world.NOON + timedelta(days=day)
        take_snapshot(address=ClusterAddress(chroot), cluster="alpha", store=original, run_id=f"r{day}", now=now)
    return original


LATER = world.NOON + timedelta(days=40)
LAST_ONE = RetentionPolicy(last=1, daily=0, weekly=0, monthly=0)


def require_whole(store):
    for manifest in visible_snapshots(store):
        assert verify_snapshot(store, manifest) == []


def require_the_last_alone(store):
    (only,) = visible_snapshots(store)
    assert only.run_id == "r2"
    assert sum(key.endswith(".parquet") for key in store.list("v1/")) == len(only.objects)
    assert list(store.list("v1/runs/")) == [key for key in store.list("v1/runs/") if "r2" in key]
    shutil.rmtree(Path(store.uri))


def test_removing(three_days, tmp_path):
    def attempt(step):
        shutil.copytree(three_days.uri, tmp_path / str(step))
        digest = plan_retention(FolderStore(tmp_path / str(step)), LAST_ONE, now=LATER).digest
        return killed.in_child(killed.retain, step, str(tmp_path / str(step)), digest)

    def check(step, status):
        store = FolderStore(tmp_path / str(step))
        require_whole(store)
        apply_retention(store, LAST_ONE, plan_retention(store, LAST_ONE, now=LATER).digest, now=LATER, approver="ada")
        require_the_last_alone(store)

    assert steps_until_done(attempt, check) > 20


def test_removing_by_an_approved_plan(three_days, tmp_path):
    """A second run of the same approval finishes: nobody is asked again."""
    plans = {}

    def attempt(step):
        shutil.copytree(three_days.uri, tmp_path / str(step))
        store = FolderStore(tmp_path / str(step))
        plan = plans[step] = store_retention(
            store, plan_retention(store, LAST_ONE, now=LATER, cluster="alpha"), "alpha"
        )
        return killed.in_child(killed.retain_approved, step, store.uri, plan.uri, plan.digest)

    def check(step, status):
        store = FolderStore(tmp_path / str(step))
        require_whole(store)
        killed.apply_approved(store.uri, plans[step].uri, plans[step].digest)
        require_the_last_alone(store)

    assert steps_until_done(attempt, check) > 22
