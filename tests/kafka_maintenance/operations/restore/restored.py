"""Snapshots of a filled tree, and plans to bring them back."""

from datetime import timedelta

import pytest

from controller_core.adapters.object_store.open import FolderStore
from controller_core.adapters.snapshot.reader import ReadOptions, read_cut
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import connect
from kafka_maintenance.operations.restore.apply import apply_restore
from kafka_maintenance.operations.restore.content import RestoreScope
from kafka_maintenance.operations.restore.plan import plan_restore
from kafka_maintenance.operations.snapshots.take import take_snapshot
from tests.kafka_maintenance import snapshot_world as world


@pytest.fixture
def store(tmp_path):
    return FolderStore(tmp_path / "store")


def taken(chroot, store, **kwargs):
    return take_snapshot(
        address=ClusterAddress(chroot), cluster="alpha", store=store, run_id="r", now=world.NOON, **kwargs
    ).manifest


@pytest.fixture
def snapshot(kafka, chroot, store):
    return taken(chroot, store)


def plan(store, manifest, target, key_file=None, **scope):
    return plan_restore(
        store=store, manifest=manifest, target=ClusterAddress(target), scope=RestoreScope(**scope), key_file=key_file
    )


def apply(store, stored, target, digest=None, **kwargs):
    return apply_restore(
        store=store,
        plan_uri=stored.uri,
        approved_digest=digest or stored.digest,
        approver="ada",
        target=ClusterAddress(target),
        now=world.NOON + timedelta(hours=1),
        **kwargs,
    )


def tree(hosts, auth=None):
    """Path → data of the persistent znodes."""
    with connect(hosts, auth=auth) as session:
        cut = read_cut(session.client, ReadOptions(acls=False))
    return {path: znode.data or b"" for path, znode in cut.znodes.items() if not znode.decoded_stat.ephemeral_owner}


@pytest.fixture
def stopped(chroot):
    """A cluster whose brokers are stopped."""
    with world.session(chroot) as session:
        world.fill(session, brokers=(), controller=None)
        yield session
