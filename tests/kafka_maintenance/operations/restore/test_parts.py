"""Topics, configs and paths come back under brokers that run or are stopped."""

import re

import pytest

from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.znodes.configs import ConfigZnode, encode_config
from kafka_maintenance.operations.apply.execution import EXECUTION_PATH
from kafka_maintenance.operations.errors import BadInputError, RefusedError
from kafka_maintenance.operations.restore.content import RestoreScope
from kafka_maintenance.operations.snapshots.take import take_snapshot
from tests.kafka_maintenance import snapshot_world as world
from tests.kafka_maintenance.operations.restore.restored import apply, plan, taken, tree

pytestmark = pytest.mark.services


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


def test_a_throttle_that_would_come_back_is_told(kafka, store, chroot):
    throttled = {"leader.replication.throttled.replicas": "0:1", "follower.replication.throttled.replicas": "0:2"}
    kafka.set("/config/topics/orders", encode_config(ConfigZnode(throttled)), -1)
    manifest = taken(chroot, store)
    kafka.set("/config/topics/orders", world.config(retention_ms="5"), -1)
    kafka.set("/config/topics/payments", world.config(retention_ms="5"), -1)
    told = "1 config, such as /config/topics/orders, would have a replication throttle"
    assert told in plan(store, manifest, chroot, topics=("*",)).text
    assert told not in plan(store, manifest, chroot, topics=("payments",)).text


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


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"topics": ("orders", "nosuch", "tmp-*")}, "topic 'nosuch'; topic 'tmp-*'"),
        ({"topics": ("orders",), "configs": ("clients/*", "topic/orders")}, "config 'topic/orders'"),
        ({"paths": ("/config/topics/", "config/topics")}, "path 'config/topics'"),
    ],
)
def test_of_several_names_one_that_the_snapshot_does_not_have_is_told(kafka, snapshot, store, chroot, asked, said):
    kafka.delete("/config/topics/orders", -1)
    with pytest.raises(BadInputError, match=f"found nothing for {re.escape(said)}; "):
        plan(store, snapshot, chroot, **asked)


@pytest.mark.parametrize(
    ("path", "parent", "notice"),
    [
        pytest.param("/config/topics/new", "/config/changes", b'{"version":2,"entity_path":"topics/new"}', id="config"),
        pytest.param("/kafka-acl/Topic/new", "/kafka-acl-changes", b"Topic:new", id="ACL"),
    ],
)
def test_the_brokers_are_told_what_mirror_removes(kafka, store, chroot, path, parent, notice):
    for each in ("/kafka-acl/Topic", "/kafka-acl-changes"):
        kafka.create(each, make_parents=True)
    manifest = taken(chroot, store)
    kafka.create(path, b"{}")
    stored = plan(store, manifest, chroot, paths=(path.rpartition("/")[0],), mirror=True)
    assert [step["notice"] for step in stored.document["steps"]] == [True]
    apply(store, stored, chroot)
    assert kafka.exists(path) is None
    (told,) = kafka.children(parent)
    assert kafka.get(f"{parent}/{told}")[0] == notice
    apply(store, stored, chroot)
    assert kafka.children(parent) == [told]


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


def test_a_secret_config_is_named_when_it_cannot_come_back(kafka, snapshot, store, chroot):
    kafka.delete("/config/users/bob", -1)
    stored = plan(store, snapshot, chroot, configs=("users/*",))
    assert "/config/users/alice is left out: secret" in stored.text


@pytest.mark.parametrize("scope", [{}, {"whole": True, "topics": ("a",)}])
def test_a_scope_is_whole_or_parts(scope):
    with pytest.raises(ValueError, match="either the whole tree or"):
        RestoreScope(**scope)
