"""Bringing snapshots back into real ZooKeepers: whole, in part, refused, interrupted, secured."""

import base64
import json
import os
from datetime import timedelta

import pytest

from controller_core.adapters.object_store.open import FolderStore
from controller_core.adapters.snapshot.reader import ReadOptions, read_cut
from controller_core.adapters.snapshot.tree_writer import WriteOptions
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import ZooKeeperAuth, connect
from controller_core.model.errors import InvalidPlanError, NoAuthError
from controller_core.ports.zookeeper import Acl
from kafka_maintenance.operations.apply.cluster_lock import LOCK_PATH
from kafka_maintenance.operations.apply.execution import EXECUTION_PATH, Road
from kafka_maintenance.operations.apply.executions import request_stop
from kafka_maintenance.operations.errors import (
    BadInputError,
    ClusterBusyError,
    NotFinishedError,
    PlanChangedError,
    RefusedError,
)
from kafka_maintenance.operations.record.receipts import read_events
from kafka_maintenance.operations.restore import apply as restore
from kafka_maintenance.operations.restore.apply import apply_restore, load_restore, plan_restore
from kafka_maintenance.operations.restore.content import RestoreScope
from kafka_maintenance.operations.restore.document import plan_digest
from kafka_maintenance.operations.snapshots import catalog as snapshots
from kafka_maintenance.operations.snapshots.take import take_snapshot
from kafka_maintenance.servers import ZooKeeperServer
from tests.kafka_maintenance import snapshot_world as world

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


@pytest.fixture
def store(tmp_path):
    return FolderStore(tmp_path / "store")


@pytest.fixture
def snapshot(kafka, chroot, store):
    return take_snapshot(
        address=ClusterAddress(chroot), cluster="alpha", store=store, run_id="r", now=world.NOON
    ).manifest


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


# ------------------------------------------------------------------------------------------------- the whole tree


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


# ------------------------------------------------------------------------------------------------- a part


def test_a_config_comes_back_and_the_brokers_are_told(kafka, snapshot, store, chroot):
    kafka.set("/config/topics/orders", world.config(retention_ms="5"), -1)
    stored = plan(store, snapshot, chroot, topics=("orders",))
    assert "    - " in stored.text
    assert '"5"' in stored.text
    receipt = apply(store, stored, chroot)
    assert kafka.get("/config/topics/orders")[0] == world.PERSISTENT["/config/topics/orders"]
    (change,) = kafka.children("/config/changes")
    assert kafka.get(f"/config/changes/{change}")[0] == b'{"version":2,"entity_path":"topics/orders"}'
    assert receipt.written == 1
    apply(store, stored, chroot)
    assert kafka.children("/config/changes") == [change]


@pytest.mark.parametrize(("word", "says"), [("before", "{}"), ("after", "the same as now")])
def test_a_plan_that_tells_its_approver_something_else_is_not_carried_out(kafka, snapshot, store, chroot, word, says):
    """Whoever writes the store can store a plan with a right digest: what it says of a znode is looked at again."""
    kafka.set("/config/topics/orders", world.config(retention_ms="5"), -1)
    before = kafka.get("/config/topics/orders")[0]
    stored = plan(store, snapshot, chroot, topics=("orders",))
    document = json.loads(json.dumps(dict(stored.document)))
    document["steps"][0][word] = says
    digest = plan_digest(document)
    key = f"{snapshot.prefix}/plans/restore-{digest[:12]}.json"
    store.put(key, json.dumps({**document, "digest": digest}).encode())
    forged = load_restore(store, store.uri_of(key))
    assert says in forged.text
    with pytest.raises(PlanChangedError, match="somebody wrote that plan by hand"):
        apply(store, forged, chroot)
    assert kafka.get("/config/topics/orders")[0] == before


def test_an_approval_that_was_taken_back_is_looked_at_right_before_the_first_write(kafka, snapshot, store, chroot):
    kafka.set("/config/topics/orders", world.config(retention_ms="5"), -1)
    before = kafka.get("/config/topics/orders")[0]
    stored = plan(store, snapshot, chroot, topics=("orders",))

    def taken_back():
        raise RefusedError("withdrawn")

    with pytest.raises(RefusedError, match="withdrawn"):
        apply(store, stored, chroot, permit=taken_back)
    assert kafka.get("/config/topics/orders")[0] == before
    assert [each.event for each in read_events(store, "alpha", stored.digest)] == ["started"]
    apply(store, stored, chroot)
    assert [each.event for each in read_events(store, "alpha", stored.digest)][2:] == ["intended", "done"]


def test_a_restore_waits_for_a_plan_that_waits_between_its_steps_or_for_a_person_who_stops_it(
    kafka, snapshot, store, chroot
):
    kafka.set("/config/topics/orders", world.config(retention_ms="5"), -1)
    before = kafka.get("/config/topics/orders")[0]
    stored = plan(store, snapshot, chroot, topics=("orders",))
    digest = world.waiting_plan(kafka, store)
    with pytest.raises(
        ClusterBusyError,
        match=f"plan {digest}, approved by 'olivia', is begun, .* waits with step 2 .*`kafka-maintenance stop`",
    ):
        apply(store, stored, chroot)
    assert kafka.get("/config/topics/orders")[0] == before
    assert [each.event for each in read_events(store, "alpha", stored.digest)] == ["started"]
    request_stop(store, "alpha", digest, by="ben", reason="a restore", now=world.NOON)
    apply(store, stored, chroot)
    assert kafka.get("/config/topics/orders")[0] == world.PERSISTENT["/config/topics/orders"]
    assert kafka.exists(EXECUTION_PATH) is None


def test_a_restore_waits_for_a_step_that_kafka_was_asked_for(kafka, snapshot, store, chroot):
    kafka.set("/config/topics/orders", world.config(retention_ms="5"), -1)
    stored = plan(store, snapshot, chroot, topics=("orders",))
    digest = world.waiting_plan(kafka, store, Road.REQUEST_ZNODES)
    with pytest.raises(ClusterBusyError, match=f"step 2 of plan {digest}, .* `kafka-maintenance unlock`"):
        apply(store, stored, chroot)


def test_the_execution_of_another_day_does_not_come_back(kafka, store, chroot):
    world.waiting_plan(kafka, store)
    manifest = taken(chroot, store)
    receipt = apply(store, plan(store, manifest, f"{chroot}-new", whole=True), f"{chroot}-new")
    assert receipt.left_out[EXECUTION_PATH].startswith("of a run of ours")
    assert EXECUTION_PATH not in tree(f"{chroot}-new")


def test_a_deleted_config_is_made_again(kafka, snapshot, store, chroot):
    kafka.delete("/config/clients/slow", -1)
    apply(store, plan(store, snapshot, chroot, configs=("clients/*",)), chroot)
    assert kafka.get("/config/clients/slow")[0] == world.PERSISTENT["/config/clients/slow"]


def test_a_deleted_topic_is_made_anew_only_when_asked(kafka, snapshot, store, chroot):
    for path in sorted((path for path in world.PERSISTENT if "payments" in path), reverse=True):
        kafka.delete(path, -1)
    with pytest.raises(RefusedError, match="payments: was deleted, its data is gone"):
        plan(store, snapshot, chroot, topics=("payments",))
    assert plan(store, snapshot, chroot, configs=("topics/payments",)).step_count == 1
    stored = plan(store, snapshot, chroot, topics=("payments",), recreate=True)
    apply(store, stored, chroot)
    assert kafka.get("/brokers/topics/payments")[0] == b'{"version":1,"partitions":{"0":[1,2]}}'
    assert kafka.exists("/brokers/topics/payments/partitions") is None, "the controller makes the states"
    assert kafka.exists("/config/topics/payments").czxid < kafka.exists("/brokers/topics/payments").czxid + 1


@pytest.mark.parametrize("topic_id", ["3tRvjlrmRXmsYOMp9Fg0AA", "AAAAAAAAAAAAAAAAAAAAAQ"])
def test_a_topic_made_anew_stays_so_when_the_controller_gave_it_an_id(kafka, snapshot, store, chroot, topic_id):
    for path in sorted((path for path in world.PERSISTENT if "payments" in path), reverse=True):
        kafka.delete(path, -1)
    stored = plan(store, snapshot, chroot, topics=("payments",), recreate=True)
    apply(store, stored, chroot)
    with_id = (
        b'{"partitions":{"0":[1,2]},"topic_id":"%s","adding_replicas":{},"removing_replicas":{},"version":3}'
        % topic_id.encode()
    )
    kafka.set("/brokers/topics/payments", with_id, -1)
    receipt = apply(store, stored, chroot)
    assert (receipt.written, receipt.already_there) == (0, stored.step_count)
    with pytest.raises(RefusedError, match="everything asked for is there already"):
        plan(store, snapshot, chroot, topics=("payments",), recreate=True)
    kafka.set("/brokers/topics/payments", with_id.replace(b"[1,2]", b"[2,1]"), -1)
    with pytest.raises(RefusedError, match="the cluster changed since the plan"):
        apply(store, stored, chroot)
    with pytest.raises(RefusedError, match="payments: its assignment differs and is not touched"):
        plan(store, snapshot, chroot, topics=("payments",), recreate=True)


def test_a_topic_whose_brokers_are_gone_is_not_made_anew(snapshot, store, server, chroot):
    with world.session(chroot) as session:
        for path in sorted((path for path in world.PERSISTENT if "payments" in path), reverse=True):
            session.delete(path, -1)
        session.delete("/brokers/ids/2", -1)
        with pytest.raises(RefusedError, match=r"brokers \[2\] do not run"):
            plan(store, snapshot, chroot, topics=("payments",), recreate=True)


@pytest.mark.parametrize(
    "path", ["/brokers/topics/orders/partitions/0/state", "/controller_epoch", "/brokers/topics/orders"]
)
def test_what_brokers_hold_in_memory_is_not_written_under_them(kafka, snapshot, store, chroot, path):
    kafka.set(path, b"1", -1)
    with pytest.raises(RefusedError, match="may not change under running brokers"):
        plan(store, snapshot, chroot, paths=(path,))


def test_subtrees_come_back_under_running_brokers_with_their_notices_where_somebody_reads_them(kafka, store, chroot):
    """The parent of notices is gone, too, and sorted behind the first config; nobody reads notices of ACLs here."""
    kafka.create("/config/brokers/1", world.config(log_cleaner_threads="2"))
    kafka.create("/kafka-acl/Topic/orders", b'{"version":1,"acls":[]}', make_parents=True)
    manifest = taken(chroot, store)
    held = {path: kafka.get(path)[0] for path in ("/config/brokers/1", "/kafka-acl/Topic/orders", "/cluster/id")}
    for path in ("/config", "/kafka-acl", "/cluster"):
        kafka.client.delete(path, recursive=True)
    apply(store, plan(store, manifest, chroot, paths=("/config", "/kafka-acl", "/cluster")), chroot)
    assert {path: kafka.get(path)[0] for path in held} == held
    notices = [kafka.get(f"/config/changes/{name}")[0] for name in kafka.children("/config/changes")]
    assert any(b"brokers/1" in notice for notice in notices)
    assert kafka.exists("/kafka-acl-changes") is None


def test_with_stopped_brokers_any_path_comes_back(store, chroot):
    with world.session(chroot) as session:
        world.fill(session, brokers=(), controller=None)
        manifest = take_snapshot(
            address=ClusterAddress(chroot), cluster="alpha", store=store, run_id="r", now=world.NOON
        ).manifest
        session.set("/brokers/topics/orders/partitions/0/state", world.state(2, 9), -1)
        apply(store, plan(store, manifest, chroot, paths=("/brokers/topics/orders",)), chroot)
        assert session.get("/brokers/topics/orders/partitions/0/state")[0] == world.state(1)
        assert session.children("/config/changes") == []


@pytest.fixture
def stopped(chroot):
    """A cluster whose brokers are stopped."""
    with world.session(chroot) as session:
        world.fill(session, brokers=(), controller=None)
        yield session


def taken(chroot, store, **kwargs):
    return take_snapshot(
        address=ClusterAddress(chroot), cluster="alpha", store=store, run_id="r", now=world.NOON, **kwargs
    ).manifest


def test_brokers_that_started_after_the_plan_are_told(stopped, store, chroot):
    manifest = taken(chroot, store)
    stopped.set("/config/topics/orders", world.config(retention_ms="5"), -1)
    stored = plan(store, manifest, chroot, topics=("orders",))
    stopped.create("/brokers/ids/1", world.broker(1), ephemeral=True)
    apply(store, stored, chroot)
    (change,) = stopped.children("/config/changes")
    assert stopped.get(f"/config/changes/{change}")[0] == b'{"version":2,"entity_path":"topics/orders"}'


def test_brokers_that_stopped_after_the_plan_are_not_told(kafka, snapshot, store, chroot):
    kafka.set("/config/topics/orders", world.config(retention_ms="5"), -1)
    stored = plan(store, snapshot, chroot, topics=("orders",))
    for number in (1, 2):
        kafka.delete(f"/brokers/ids/{number}", -1)
    apply(store, stored, chroot)
    assert kafka.children("/config/changes") == []


@pytest.mark.parametrize("path", ["/brokers/topics/orders/partitions/0/state", "/latest_producer_id_block"])
def test_nothing_is_written_under_brokers_that_started_after_the_plan(stopped, store, chroot, path):
    manifest = taken(chroot, store)
    for changed in (path, "/config/topics/orders"):
        stopped.set(changed, b"{}", -1)
    stored = plan(store, manifest, chroot, topics=("orders",), paths=(path,))
    stopped.create("/brokers/ids/1", world.broker(1), ephemeral=True)
    with pytest.raises(
        RefusedError, match=rf"expected no running brokers, as when it was planned, found 1; .*'{path}'"
    ):
        apply(store, stored, chroot)
    assert [stopped.get(each)[0] for each in (path, "/config/topics/orders")] == [b"{}", b"{}"]


def test_what_was_restored_before_the_brokers_started_is_there(stopped, store, chroot):
    manifest = taken(chroot, store)
    stopped.set("/latest_producer_id_block", b"{}", -1)
    stored = plan(store, manifest, chroot, paths=("/latest_producer_id_block",))
    apply(store, stored, chroot)
    stopped.create("/brokers/ids/1", world.broker(1), ephemeral=True)
    assert apply(store, stored, chroot).already_there == 1


def test_a_snapshot_of_no_one_moment_is_told_to_the_approver(kafka, store, chroot):
    torn = taken(chroot, store, options=ReadOptions(method="plain"))
    kafka.delete("/config/clients/slow", -1)
    first = plan(store, torn, chroot, configs=("clients/*",))
    assert "note: NOT of one moment: plain scan, as asked: no proof was tried; no snapshot of" in first.text
    later = take_snapshot(
        address=ClusterAddress(chroot), cluster="alpha", store=store, run_id="sure", now=world.NOON + timedelta(days=1)
    ).manifest
    second = plan(store, torn, chroot, configs=("clients/*",))
    assert f"the newest that is of one moment is {later.snapshot_id}, of 2026-03-02" in second.text
    assert first.digest != second.digest, "the note is what is approved, too"
    assert "NOT of one moment" not in plan(store, later, f"{chroot}-new", whole=True).text


def test_another_cluster_is_refused(snapshot, store, server, chroot):
    with world.session(f"{chroot}-other") as session:
        world.fill(session)
        session.set("/cluster/id", b'{"version":"1","id":"another"}', -1)
        session.set("/config/topics/orders", world.config(), -1)
        with pytest.raises(RefusedError, match=r"expected Kafka cluster id.*found 'another'"):
            plan(store, snapshot, f"{chroot}-other", topics=("orders",))


def test_a_change_after_the_plan_is_refused(kafka, snapshot, store, chroot):
    kafka.set("/config/topics/orders", world.config(retention_ms="5"), -1)
    stored = plan(store, snapshot, chroot, topics=("orders",))
    kafka.set("/config/topics/orders", world.config(retention_ms="6"), -1)
    with pytest.raises(RefusedError, match=r"expected one last written in transaction 0x.* found one last written in"):
        apply(store, stored, chroot)
    assert kafka.get("/config/topics/orders")[0] == world.config(retention_ms="6")


def test_a_config_made_anew_after_the_plan_is_another_one(kafka, snapshot, store, chroot):
    kafka.delete("/config/topics/orders", -1)
    kafka.create("/config/topics/orders", world.config(retention_ms="5"))
    stored = plan(store, snapshot, chroot, topics=("orders",))
    kafka.delete("/config/topics/orders", -1)
    kafka.create("/config/topics/orders", world.config(retention_ms="6"))  # of the same version as before
    with pytest.raises(RefusedError, match="the cluster changed since the plan"):
        apply(store, stored, chroot)
    assert kafka.get("/config/topics/orders")[0] == world.config(retention_ms="6")


def test_a_restore_that_lost_its_lock_stops_and_can_be_applied_again(kafka, snapshot, store, chroot, monkeypatch):
    monkeypatch.setattr(restore, "TRANSACTION_STEPS_MAX", 1)
    for path in ("/config/clients/slow", "/config/topics/orders"):
        kafka.delete(path, -1)
    stored = plan(store, snapshot, chroot, configs=("*",))

    def lose(_):
        for name in kafka.children("/admin"):
            if name.startswith(LOCK_PATH.rpartition("/")[2]):
                kafka.delete(f"/admin/{name}", -1)

    with pytest.raises(NotFinishedError, match="lock /admin/kafka_maintenance_lock was lost; what was written stays"):
        apply(store, stored, chroot, progress=lose)
    receipt = apply(store, stored, chroot)
    assert (receipt.written, receipt.already_there) == (1, 1)


def test_only_the_approved_plan_is_applied(kafka, snapshot, store, chroot):
    kafka.delete("/config/clients/slow", -1)
    stored = plan(store, snapshot, chroot, configs=("clients/slow",))
    with pytest.raises(PlanChangedError, match="approved digest 000"):
        apply(store, stored, chroot, digest="0" * 64)
    key = stored.uri.removeprefix(f"{store.uri}/")
    store.put(key, store.get(key).replace(b"clients/slow", b"clients/fast"))
    with pytest.raises(InvalidPlanError, match="altered"):
        load_restore(store, stored.uri)
    with pytest.raises(InvalidPlanError):
        apply(store, stored, chroot)
    assert kafka.exists("/config/clients/slow") is None


def test_a_plan_is_for_one_zookeeper(kafka, snapshot, store, chroot):
    kafka.delete("/config/clients/slow", -1)
    stored = plan(store, snapshot, chroot, configs=("clients/slow",))
    with pytest.raises(RefusedError, match="it was made for"):
        apply(store, stored, f"{chroot}-other")


def test_nothing_to_do_is_said(kafka, snapshot, store, chroot):
    with pytest.raises(RefusedError, match="everything asked for is there already"):
        plan(store, snapshot, chroot, topics=("orders",))
    with pytest.raises(BadInputError, match="check names and patterns"):
        plan(store, snapshot, chroot, topics=("no-such-topic",))


def test_a_secret_config_is_named_when_it_cannot_come_back(kafka, snapshot, store, chroot):
    kafka.delete("/config/users/bob", -1)
    stored = plan(store, snapshot, chroot, configs=("users/*",))
    assert "/config/users/alice is left out: secret" in stored.text


@pytest.mark.parametrize("scope", [{}, {"whole": True, "topics": ("a",)}])
def test_a_scope_is_whole_or_parts(scope):
    with pytest.raises(ValueError, match="either the whole tree or"):
        RestoreScope(**scope)


# ------------------------------------------------------------------------------------------------- secured


@pytest.fixture(scope="module")
def secured():
    with ZooKeeperServer(users={"kafka": "kafka-secret", "tool": "tool-secret"}) as server:
        yield server


def test_acls_come_back_and_sensitive_trees_are_left_out_for_strangers(secured, store):
    brokers = ZooKeeperAuth(scheme="sasl", username="kafka", password="kafka-secret")
    all_and_read = (Acl(31, "sasl", "kafka"), Acl(1, "world", "anyone"))
    with connect(f"{secured.hosts}/k", auth=brokers, create_chroot=True) as session:
        for path, data in world.PERSISTENT.items():
            sensitive = path.startswith(("/config/users", "/config/brokers"))
            if sensitive and session.exists("/config/users") is None:
                session.create("/config/users", b"", make_parents=True, acl=(Acl(31, "sasl", "kafka"),))
            session.create(
                path, data, make_parents=True, acl=(Acl(31, "sasl", "kafka"),) if sensitive else all_and_read
            )
    taken = {
        name: take_snapshot(
            address=ClusterAddress(f"{secured.hosts}/k", auth=auth),
            cluster="alpha",
            store=store,
            run_id=name,
            now=world.NOON,
        ).manifest
        for name, auth in {"brokers": brokers, "stranger": None}.items()
    }
    assert taken["brokers"].secured
    assert taken["brokers"].unreadable == ()
    assert taken["stranger"].unreadable == ("/config/brokers", "/config/users")
    assert taken["stranger"].consistent
    target = ClusterAddress(f"{secured.hosts}/copy", auth=brokers)
    stored = plan_restore(store=store, manifest=taken["brokers"], target=target, scope=RestoreScope(whole=True))
    apply_restore(
        store=store, plan_uri=stored.uri, approved_digest=stored.digest, approver="ada", target=target, now=world.NOON
    )
    with connect(f"{secured.hosts}/copy", auth=brokers) as session:
        copy = read_cut(session.client)
    with connect(f"{secured.hosts}/k", auth=brokers) as session:
        original = read_cut(session.client)
    assert {path: original.acls[path] for path in copy.acls if path != "/"} == {
        path: acl for path, acl in copy.acls.items() if path != "/"
    }
    with connect(f"{secured.hosts}/k") as session, pytest.raises(NoAuthError):
        session.create("/admin/delete_topics/orders")


def test_a_digest_login_reads_what_strangers_may_not(server, chroot, store):
    owner = ZooKeeperAuth(scheme="digest", username="ops", password="secret")
    with connect(chroot, auth=owner, create_chroot=True) as session:
        for path, data in world.PERSISTENT.items():
            session.create(path, data, make_parents=True)
        session.create("/config/ips", b"", acl=(Acl(31, "auth", ""),))
        session.create("/config/ips/10.0.0.1", world.config(connection_creation_rate="5"), acl=(Acl(31, "auth", ""),))
    taken = {
        name: take_snapshot(
            address=ClusterAddress(chroot, auth=auth), cluster="alpha", store=store, run_id=name, now=world.NOON
        ).manifest
        for name, auth in {"owner": owner, "stranger": None}.items()
    }
    assert (taken["owner"].unreadable, taken["stranger"].unreadable) == ((), ("/config/ips",))
    assert (taken["owner"].secured, taken["stranger"].secured) == (True, True)
    assert {row["entity_type"] for row in snapshots.read_table(store, taken["owner"], "configs").to_pylist()} >= {"ips"}
    acls = {row["acl"] for row in snapshots.read_raw(store, taken["owner"]).to_pylist()}
    assert any('"digest", "ops:' in acl for acl in acls)
