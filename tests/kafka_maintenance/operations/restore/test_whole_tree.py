"""A whole tree comes back into an empty ZooKeeper: once, after an interruption, with its secrets."""

import base64
import os

import pytest

from controller_core.adapters.snapshot.reader import read_cut
from controller_core.adapters.snapshot.tree_writer import WriteOptions
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import connect
from kafka_maintenance.operations.errors import RefusedError
from kafka_maintenance.operations.snapshots.take import take_snapshot
from tests.kafka_maintenance import snapshot_world as world
from tests.kafka_maintenance.operations.restore.restored import apply, plan, tree

pytestmark = pytest.mark.services
PERSISTENT_ABOVE = {
    "/",
    "/brokers",
    "/brokers/topics",
    "/cluster",
    "/admin",
    "/config",
    "/config/topics",
    "/config/clients",
}


def test_a_whole_tree_comes_back(kafka, snapshot, store, chroot):
    kafka.create("/admin/delete_topics/late", b"")
    stored = plan(store, snapshot, f"{chroot}-new", whole=True)
    assert "restore the whole tree of alpha" in stored.text
    receipt = apply(store, stored, f"{chroot}-new")
    before, after = tree(chroot), tree(f"{chroot}-new")
    del before["/config/users/alice"], before["/admin/delete_topics/late"]
    assert after == before
    assert receipt.written == stored.step_count
    assert receipt.left_out["/config/users/alice"].startswith("secret")
    assert receipt.left_out["/controller"].startswith("ephemeral")
    assert set(receipt.left_out) == {"/config/users/alice", "/controller", "/brokers/ids/1", "/brokers/ids/2"}


def test_a_whole_restore_twice_is_a_restore_once(snapshot, store, chroot):
    stored = plan(store, snapshot, f"{chroot}-new", whole=True)
    first, second = apply(store, stored, f"{chroot}-new"), apply(store, stored, f"{chroot}-new")
    assert (first.already_there, second.written, second.already_there) == (0, 0, stored.step_count)
    with pytest.raises(RefusedError, match="there already"):
        plan(store, snapshot, f"{chroot}-new", whole=True)


def test_an_interrupted_restore_goes_on(snapshot, store, chroot):
    stored = plan(store, snapshot, f"{chroot}-new", whole=True)

    class Killed(BaseException):
        pass

    def die(written):
        if written >= 6:
            raise Killed

    with pytest.raises(Killed):
        apply(store, stored, f"{chroot}-new", progress=die, write_options=WriteOptions(count_max=3, window=1))
    left = len(tree(f"{chroot}-new"))
    assert 6 <= left - 1 < stored.step_count
    receipt = apply(store, stored, f"{chroot}-new")
    assert receipt.written + receipt.already_there == stored.step_count
    assert tree(f"{chroot}-new") == {path: data for path, data in tree(chroot).items() if path != "/config/users/alice"}


def test_secrets_come_back_with_their_key(kafka, store, chroot, tmp_path):
    key_file = tmp_path / "key"
    key_file.write_bytes(base64.b64encode(os.urandom(32)))
    manifest = take_snapshot(
        address=ClusterAddress(chroot), cluster="alpha", store=store, run_id="r", now=world.NOON, key_file=key_file
    ).manifest
    stored = plan(store, manifest, f"{chroot}-new", key_file, whole=True)
    assert "s3cr3t" not in stored.text
    with pytest.raises(RefusedError, match="same key file"):
        apply(store, stored, f"{chroot}-new")
    apply(store, stored, f"{chroot}-new", key_file=key_file)
    assert tree(f"{chroot}-new")["/config/users/alice"] == world.PERSISTENT["/config/users/alice"]


def test_requests_and_notifications_only_when_asked(kafka, store, chroot):
    kafka.create("/admin/delete_topics/orders", b"")
    kafka.create("/isr_change_notification/isr_change_", b'{"version":1,"partitions":[]}', sequential=True)
    manifest = take_snapshot(
        address=ClusterAddress(chroot), cluster="alpha", store=store, run_id="r", now=world.NOON
    ).manifest
    apply(store, plan(store, manifest, f"{chroot}-a", whole=True), f"{chroot}-a")
    apply(store, plan(store, manifest, f"{chroot}-b", whole=True, requests=True, notifications=True), f"{chroot}-b")
    extra = {"/admin/delete_topics/orders", "/isr_change_notification/isr_change_0000000000"}
    assert set(tree(f"{chroot}-b")) - set(tree(f"{chroot}-a")) == extra


def test_the_generator_of_broker_ids_goes_on_where_it_was(kafka, store, chroot):
    for _ in range(5):
        kafka.set("/brokers/seqid", b"", -1)
    manifest = take_snapshot(
        address=ClusterAddress(chroot), cluster="alpha", store=store, run_id="r", now=world.NOON
    ).manifest
    apply(store, plan(store, manifest, f"{chroot}-new", whole=True), f"{chroot}-new")
    with connect(f"{chroot}-new") as session:
        assert session.exists("/brokers/seqid").version == 5


def test_null_and_empty_data_are_kept_apart(server, store, chroot):
    with world.session(chroot) as session:
        world.fill(session)
        cut = read_cut(session.client)
        manifest = take_snapshot(
            address=ClusterAddress(chroot), cluster="alpha", store=store, run_id="r", now=world.NOON
        ).manifest
    apply(store, plan(store, manifest, f"{chroot}-new", whole=True), f"{chroot}-new")
    with connect(f"{chroot}-new") as session:
        after = read_cut(session.client)
    assert {path: znode.data for path, znode in after.znodes.items()} == {
        path: cut.znodes[path].data for path in after.znodes
    }


def test_a_tree_that_is_not_empty_is_refused(snapshot, store, chroot):
    with world.session(f"{chroot}-new") as session:
        session.create("/mine", b"precious")
    with pytest.raises(RefusedError, match=r"expected an empty tree.*'/mine'"):
        plan(store, snapshot, f"{chroot}-new", whole=True)


def test_a_tree_with_other_data_is_refused(snapshot, store, chroot):
    with world.session(f"{chroot}-new") as session:
        session.create("/controller_epoch", b"99")
    with pytest.raises(RefusedError, match=r"other data.*'/controller_epoch'"):
        plan(store, snapshot, f"{chroot}-new", whole=True)


def test_a_tree_with_living_brokers_is_refused(snapshot, store, chroot):
    with pytest.raises(RefusedError, match=r"brokers 1, 2 run.*stop all brokers"):
        plan(store, snapshot, chroot, whole=True)
