"""What a mirror removes, and what it keeps because children stay below."""

import pytest

from controller_core.adapters.zookeeper.session import KazooZooKeeper
from controller_core.model.errors import TooLargeZnodeError
from controller_core.ports.zookeeper import Acl
from kafka_maintenance.operations.errors import NothingToRestoreError, RefusedError
from kafka_maintenance.operations.record.receipts import read_events
from kafka_maintenance.operations.restore import apply_steps
from tests.kafka_maintenance.operations.restore.restored import apply, plan, taken

pytestmark = pytest.mark.services


@pytest.mark.parametrize(
    "child",
    [
        pytest.param({"path": "/config/topics/a/b/e", "ephemeral": True}, id="ephemeral"),
        pytest.param({"path": "/config/topics/a/b/c", "acl": (Acl(31, "digest", "ops:x"),)}, id="not readable"),
    ],
)
def test_a_mirror_of_a_path_keeps_znodes_whose_children_stay(kafka, store, chroot, child):
    manifest = taken(chroot, store)
    for path in ("/config/topics/a", "/config/topics/a/b", "/config/topics/new"):
        kafka.create(path, b"{}")
    kafka.create(child.pop("path"), b"", **child)
    stored = plan(store, manifest, chroot, paths=("/config/topics",), mirror=True)
    assert [step["path"] for step in stored.document["steps"]] == ["/config/topics/new"]
    kept = "note: kept, 2 znodes that the snapshot does not have, for children stay below"
    assert kept in stored.text
    assert "/config/topics/a, /config/topics/a/b" in stored.text
    apply(store, stored, chroot)
    assert kafka.exists("/config/topics/new") is None
    with pytest.raises(NothingToRestoreError, match=kept.removeprefix("note: ")):
        plan(store, manifest, chroot, paths=("/config/topics",), mirror=True)


@pytest.mark.parametrize("way", ["fill", "mirror"])
def test_a_whole_restore_over_a_tree_keeps_the_parent_of_notifications(stopped, store, chroot, way):
    manifest = taken(chroot, store)
    stopped.create("/kafka-acl-changes", b"")
    stopped.create("/kafka-acl-changes/acl_changes_0000000000", b"Topic:orders")
    stopped.delete("/config/clients/slow", -1)
    stored = plan(store, manifest, chroot, whole=True, **{way: True})
    assert "note: kept, 1 znode that the snapshot does not have" in stored.text
    apply(store, stored, chroot)
    assert stopped.children("/kafka-acl-changes") == ["acl_changes_0000000000"]
    assert stopped.exists("/config/clients/slow") is not None


def test_a_child_that_somebody_created_since_the_plan_stops_the_removal(kafka, store, chroot, monkeypatch):
    monkeypatch.setattr(apply_steps, "TRANSACTION_STEPS_MAX", 1)
    manifest = taken(chroot, store)
    for name in ("a", "b"):
        kafka.create(f"/config/topics/{name}", b"{}")
    stored = plan(store, manifest, chroot, paths=("/config/topics",), mirror=True)
    kafka.create("/config/topics/a/child", b"")
    with pytest.raises(
        RefusedError, match=r"restore stopped: delete .*/config/topics/a: expected no children.*plan again"
    ):
        apply(store, stored, chroot)
    assert [kafka.exists(f"/config/topics/{name}") is None for name in ("a", "b")] == [False, True]
    assert [each.event for each in read_events(store, "alpha", stored.digest)] == ["started", "intended"]


def test_a_znode_that_fits_a_request_of_its_own_and_no_transaction_is_named(stopped, store, chroot):
    """What Kafka wrote by a request of its own is around it in a transaction with the guards of the restore."""
    path = "/config/topics/large"
    stopped.create(path, b"")
    stopped.set(path, b"x" * 1_048_450, 0)
    manifest = taken(chroot, store)
    stopped.delete(path, -1)
    stored = plan(store, manifest, chroot, whole=True, fill=True)
    with pytest.raises(TooLargeZnodeError, match=f"'{path}' not written: .* its 1048450 bytes .*jute.maxbuffer"):
        apply(store, stored, chroot)


def test_what_stands_there_is_read_many_znodes_at_a_time(stopped, store, chroot, monkeypatch):
    """One by one, a tree of 200,000 partitions would be waited for in 400,000 round trips."""
    for number in range(60):
        stopped.create(f"/config/topics/t{number}", b"{}")
    manifest = taken(chroot, store)
    for number in range(60):
        stopped.delete(f"/config/topics/t{number}", -1)
    stored = plan(store, manifest, chroot, whole=True, fill=True)
    read, real = [], KazooZooKeeper.get
    monkeypatch.setattr(
        KazooZooKeeper, "get", lambda self, path, **given: (read.append(path), real(self, path, **given))[1]
    )
    assert apply(store, stored, chroot).written == 60
    assert not any(path.startswith("/config/topics/") for path in read)
