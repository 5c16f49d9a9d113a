"""What differs between two snapshots, in Kafka's words."""

import json
from itertools import permutations

import pyarrow as pa
import pytest
from kazoo.security import ACL, Id

from controller_core import znodes
from controller_core.adapters.snapshot.reader import ReadOptions
from controller_core.adapters.zookeeper.address import ClusterAddress
from kafka_maintenance.operations.snapshots.blame import blame, blame_text
from kafka_maintenance.operations.snapshots.catalog import read_raw, read_table
from kafka_maintenance.operations.snapshots.diff import diff, side_of_cluster, side_of_snapshot, sides_of_snapshots
from kafka_maintenance.operations.snapshots.diff_text import diff_json, diff_text
from kafka_maintenance.operations.snapshots.diff_znodes import without_equal
from tests.kafka_maintenance import snapshot_world as world
from tests.kafka_maintenance.operations.snapshots.taken import OPS, delete_topic, take

pytestmark = pytest.mark.services


def compared(store, before, after, **how):
    """Two snapshots; what they have alike is not decoded, which changes nothing."""
    found = diff(*sides_of_snapshots(store, before, after), **how)
    assert found == diff(side_of_snapshot(store, before), side_of_snapshot(store, after), **how)
    return found


def shake(session):
    """Changes of every kind."""
    session.set("/brokers/topics/orders/partitions/0/state", world.state(2, 1, (2,)), -1)
    session.set("/brokers/topics/orders", b'{"version":1,"partitions":{"0":[1,2],"1":[2,3],"2":[1,2]}}', -1)
    session.set("/config/topics/orders", world.config(retention_ms="2000", segment_ms="9"), -1)
    session.create("/brokers/topics/fresh", b'{"version":1,"partitions":{"0":[1]}}')
    delete_topic(session, "payments")
    session.create("/brokers/topics/payments", b'{"version":1,"partitions":{"0":[1]}}')
    session.delete("/brokers/ids/2", -1)
    session.create("/brokers/ids/3", world.broker(3), ephemeral=True)
    session.delete("/brokers/ids/1", -1)
    session.create("/brokers/ids/1", world.broker(1, rack="r9"), ephemeral=True)
    session.delete("/controller", -1)
    session.create(
        "/controller", b'{"version":2,"brokerid":3,"timestamp":"1","kraftControllerEpoch":-1}', ephemeral=True
    )
    session.set("/controller_epoch", b"4", -1)
    session.create("/admin/delete_topics/fresh", b"")
    session.create(
        "/admin/reassign_partitions", b'{"version":1,"partitions":[{"topic":"orders","partition":0,"replicas":[3,1]}]}'
    )
    session.create(
        "/isr_change_notification/isr_change_",
        b'{"version":1,"partitions":[{"topic":"orders","partition":0}]}',
        sequential=True,
    )
    session.create("/config/ips/odd", b"broken", make_parents=True)


def test_diff_speaks_of_kafka(kafka, chroot, store):
    before = take(chroot, store)
    shake(kafka)
    after = take(chroot, store, 1)
    found = compared(store, before.uri, after.uri)
    changes = {(change.kind, change.subject): (change.before, change.after) for change in found.changes}
    assert changes["controller_changed", "controller_id"] == (1, 3)
    assert changes["controller_epoch_changed", "controller_epoch"] == (3, 4)
    assert changes["broker_gone", "broker 2"] == (["PLAINTEXT://h2:9092"], None)
    assert changes["broker_came", "broker 3"] == (None, ["PLAINTEXT://h3:9092"])
    assert changes["broker_changed", "broker 1 rack"] == ("r1", "r9")
    assert ("broker_restarted", "broker 1") in changes
    assert changes["topic_created", "fresh"] == (None, "1 partition")
    assert ("topic_recreated", "payments") in changes
    assert changes["partitions_added", "orders-2"] == (None, [1, 2])
    assert changes["replicas_moved", "orders-1"] == ([2, 1], [2, 3])
    assert changes["leader_changed", "orders-0"] == (1, 2)
    assert changes["isr_shrunk", "orders-0"] == ([1, 2], [2])
    assert changes["config_changed", "topics/orders retention.ms"] == ("1000", "2000")
    assert changes["config_removed", "topics/orders cleanup.policy"] == ("compact", None)
    assert changes["config_added", "topics/orders segment.ms"] == (None, "9")
    assert ("request_made", "delete_topics fresh") in changes
    assert ("request_made", "reassign_partitions orders-0 to [3,1]") in changes
    assert ("notification_made", "isr_change isr_change_0000000000 orders-0") in changes
    assert ("bad_znode_found", "/config/ips/odd") in changes
    assert not any(kind == "epoch_changed" for kind, _ in changes)
    text = diff_text(found)
    assert "leaders changed: 1\n  orders-0: 1 → 2" in text
    assert json.loads(json.dumps(diff_json(found)))["counts"]["replicas_moved"] == 1


def test_noise_is_left_out_unless_asked_for(kafka, chroot, store):
    before = take(chroot, store)
    kafka.set("/brokers/topics/orders/partitions/0/state", world.state(1, 5), -1)
    kafka.set("/config/topics/orders", world.PERSISTENT["/config/topics/orders"], -1)
    after = take(chroot, store, 1)
    found = compared(store, before, after)
    assert found.changes == ()
    assert "nothing changed but what --noise shows\n1 znodes differ in epochs" in diff_text(found)
    (change,) = compared(store, before, after, noise=True).changes
    assert (change.kind, change.before["leader_epoch"], change.after["leader_epoch"]) == ("epoch_changed", 0, 5)


def test_what_nobody_wrote_to_is_not_decoded(kafka, chroot, store):
    before = take(chroot, store)
    kafka.set("/config/topics/payments", world.config(retention_ms="7"), -1)
    kafka.set("/brokers/topics/orders/partitions/0/state", world.state(2, 1, (2,)), -1)
    after = take(chroot, store, 1)
    assert len(compared(store, before, after).changes) > 1
    for side, changed in zip(sides_of_snapshots(store, before, after), (set(), {"payments"}), strict=True):
        assert side.tables["topics"]["topic"].to_pylist() == ["orders"]
        partitions = side.tables["partitions"]
        numbers = partitions["partition"].filter(partitions["leader"].is_valid()).to_pylist()
        assert numbers == [0]  # of the state of which is read
        assert {*side.tables["configs"]["entity_name"].to_pylist()} == {
            "alice",
            *changed,
        }  # of a secret raw tells not all


def test_a_zxid_that_an_ensemble_issued_twice_hides_no_other_data(kafka, chroot, store):
    raw = read_raw(store, take(chroot, store))
    path, data = "/brokers/topics/orders/partitions/0/state", world.state(2, 1, (2,))
    other = [
        data if each == path else value
        for each, value in zip(*raw.select(["path", "data"]).to_pydict().values(), strict=True)
    ]
    set_back = raw.set_column(
        raw.schema.get_field_index("data"), raw.schema.field("data"), pa.array(other, raw.schema.field("data").type)
    )
    for found in without_equal(raw, set_back):
        assert path in found["path"].to_pylist()
        assert "/brokers/topics/payments" not in found["path"].to_pylist()


def test_a_deleted_topic_is_one_change(kafka, chroot, store):
    before = take(chroot, store)
    delete_topic(kafka, "payments")
    found = diff(side_of_snapshot(store, before), side_of_cluster(ClusterAddress(chroot), now=world.NOON))
    assert [(change.kind, change.subject) for change in found.changes] == [("topic_deleted", "payments")]
    assert found.after.startswith("live ")


def test_an_isr_whose_member_is_replaced(kafka, chroot, store):
    before = take(chroot, store)
    kafka.set("/brokers/topics/orders/partitions/0/state", world.state(1, 0, (1, 3)), -1)
    (change,) = diff(side_of_snapshot(store, before), side_of_cluster(ClusterAddress(chroot), now=world.NOON)).changes
    assert (change.kind, change.before, change.after) == ("isr_changed", [1, 2], [1, 3])


def test_a_topic_that_gets_its_id_is_no_other_topic(kafka, chroot, store):
    before = take(chroot, store)
    kafka.set(
        "/brokers/topics/orders",
        b'{"partitions":{"0":[1,2],"1":[2,1]},"topic_id":"3tRvjlrmRXmsYOMp9Fg0AA","adding_replicas":{},'
        b'"removing_replicas":{},"version":3}',
        -1,
    )
    assert diff(side_of_snapshot(store, before), side_of_cluster(ClusterAddress(chroot), now=world.NOON)).changes == ()


def test_what_may_not_be_read_is_not_gone(half_open, chroot, store):
    """The date of somebody who may read everything, that of a stranger, and the other way round."""
    whole = take(chroot, store, auth=OPS)
    partial = take(chroot, store, 1)
    assert (whole.unreadable, partial.unreadable) == ((), half_open)
    live = side_of_cluster(ClusterAddress(chroot), now=world.NOON)
    for sides in permutations([side_of_snapshot(store, whole), side_of_snapshot(store, partial), live], 2):
        found = diff(*sides, noise=True)
        assert found.changes == ()
        assert found.not_compared == half_open
        assert f"not compared: {', '.join(half_open)} and what lies below" in diff_text(found)
        assert diff_json(found)["not_compared"] == list(half_open)


def test_changes_beside_what_may_not_be_read_are_told(half_open, chroot, store):
    whole = take(chroot, store, auth=OPS)
    with world.session(chroot, auth=OPS) as session:
        session.set("/config/clients/slow", world.config(producer_byte_rate="1"), -1)
        session.set("/config/topics/orders", world.config(retention_ms="2"), -1)
        session.set("/brokers/topics/orders", b'{"version":1,"partitions":{"0":[1,2],"1":[2,3]}}', -1)
        session.set("/brokers/topics/orders/partitions/1/state", world.state(2, 9, (2, 3)), -1)
    found = compared(store, whole, take(chroot, store, 1))
    assert [(change.kind, change.subject) for change in found.changes] == [
        ("replicas_moved", "orders-1"),
        ("config_changed", "clients/slow producer_byte_rate"),
    ]
    sides = side_of_snapshot(store, whole), side_of_snapshot(store, take(chroot, store, 2, auth=OPS))
    kinds = [change.kind for change in diff(*sides).changes]
    assert kinds == ["replicas_moved", "isr_changed", "config_removed", "config_changed", "config_changed"]
    assert "not compared" not in diff_text(diff(*sides))


def test_a_side_that_is_not_consistent_is_named(kafka, chroot, store):
    before = side_of_snapshot(store, take(chroot, store))
    after = side_of_snapshot(store, take(chroot, store, 1, options=ReadOptions(method="plain")))
    found = diff(before, after)
    first, second, _ = diff_text(found).splitlines()
    assert [first.endswith(")"), second.partition("), ")[2]] == [
        True,
        "NOT consistent: plain scan, as asked: no proof was tried",
    ]
    assert diff_json(found)["after_torn"] == "plain scan, as asked: no proof was tried"
    live = side_of_cluster(ClusterAddress(chroot), now=world.NOON, options=ReadOptions(method="plain"))
    assert "NOT consistent" in diff_text(diff(live, before)).splitlines()[0]


def test_what_cannot_be_parsed_is_unknown_and_not_deleted(kafka, chroot, store):
    before = take(chroot, store)
    kafka.set("/brokers/topics/orders", b"{broken", -1)
    kafka.set("/config/topics/payments", b"{broken", -1)
    after = take(chroot, store, 1)
    found = compared(store, before, after)
    assert [(change.kind, change.subject) for change in found.changes] == [
        ("bad_znode_found", "/brokers/topics/orders"),
        ("bad_znode_found", "/brokers/topics/orders/partitions/0/state"),  # of no assigned partition
        ("bad_znode_found", "/brokers/topics/orders/partitions/1/state"),
        ("bad_znode_found", "/config/topics/payments"),
    ]
    assert set(found.not_compared) == {change.subject for change in found.changes}
    kafka.set("/brokers/topics/orders", b"{broken otherwise", -1)
    (change,) = compared(store, after, take(chroot, store, 2)).changes
    assert (change.kind, change.subject, change.before) == ("znode_changed", "/brokers/topics/orders", "{broken")
    histories = {each.field: each.history for each in blame(store, "alpha", "orders").blames}
    assert [seen.value for seen in histories["exists"]] == [True]
    assert [seen.value for seen in histories["topic_id"]] == [None]


def test_every_znode_is_compared(kafka, chroot, store):
    """Kafka's ACLs, secrets, ZooKeeper's ACLs, and znodes that no table knows."""
    rules = znodes.encode_acl([znodes.AclEntry("User:ada", "Allow", "Read", "*")])
    token = b'{"version":3,"owner":"User:ada","tokenId":"t"}'
    for path in ("/kafka-acl/Topic", "/kafka-acl-extended/prefixed/Group", "/delegation_token/tokens", "/other"):
        kafka.create(path, b"", make_parents=True)
    kafka.create("/kafka-acl/Topic/orders", rules)
    kafka.create("/delegation_token/tokens/t", token)
    kafka.create("/other/kept", b"1")
    before = take(chroot, store)
    same = compared(store, before, take(chroot, store, 1))
    assert diff_text(same).endswith("\nnothing changed")
    kafka.set(
        "/kafka-acl/Topic/orders", znodes.encode_acl([znodes.AclEntry("User:bob", "Deny", "Write", "10.0.0.1")]), -1
    )
    kafka.create("/kafka-acl-extended/prefixed/Group/g-", rules)
    kafka.set("/config/users/alice", world.PERSISTENT["/config/users/alice"].replace(b"s3cr3t", b"0ther"), -1)
    kafka.set("/delegation_token/tokens/t", token, -1)
    kafka.set("/other/kept", b"2", -1)
    kafka.create("/other/new", b"x")
    kafka.client.set_acls("/config/topics/orders", [ACL(31, Id("world", "anyone")), ACL(1, Id("ip", "10.0.0.1"))])
    after = take(chroot, store, 2)
    for side in (side_of_snapshot(store, after), side_of_cluster(ClusterAddress(chroot), now=world.NOON)):
        found = diff(side_of_snapshot(store, before), side)
        told = [(change.kind, change.subject, change.before, change.after) for change in found.changes]
        written = [each for each in told if each[0] == "secret_changed"]
        assert [each[1] for each in written] == ["/config/users/alice", "/delegation_token/tokens/t"]
        assert all(each[3].startswith("changed at 20") for each in written)
        assert [each for each in told if each not in written] == [
            ("acl_added", "Group g- (PREFIXED): User:ada Allow Read from *", None, None),
            ("acl_added", "Topic orders (LITERAL): User:bob Deny Write from 10.0.0.1", None, None),
            ("acl_removed", "Topic orders (LITERAL): User:ada Allow Read from *", None, None),
            ("znode_created", "/other/new", None, "x"),
            ("znode_changed", "/other/kept", "1", "2"),
            (
                "zookeeper_acl_changed",
                "/config/topics/orders",
                '[[31, "world", "anyone"]]',
                '[[31, "world", "anyone"], [1, "ip", "10.0.0.1"]]',
            ),
        ]
    assert "s3cr3t" not in json.dumps(diff_json(found))
    rows = read_table(store, after, "acls").to_pylist()
    assert [(row["resource_type"], row["pattern_type"], row["operation"]) for row in rows] == [
        ("Group", "PREFIXED", "Read"),
        ("Topic", "LITERAL", "Write"),
    ]
    histories = {each.field: each.history for each in blame(store, "alpha", "/delegation_token/tokens/t").blames}
    assert len(histories["last write"]) == 2
    assert "data" not in histories
    assert "znode last written 20" in blame_text(blame(store, "alpha", "/other/kept"))


def test_no_leader_has_a_name_and_a_border_between_clusters_is_told(kafka, chroot, store):
    before = take(chroot, store)
    kafka.set("/brokers/topics/orders/partitions/0/state", world.state(-1, 1, (2,)), -1)
    kafka.set("/cluster/id", json.dumps({"version": "1", "id": "A" * 22}).encode(), -1)
    after = take(chroot, store, 1, new_cluster_id=True)
    text = diff_text(compared(store, before, after))
    assert "orders-0: 1 → no leader" in text
    told = blame_text(blame(store, "alpha", "orders-0"))
    assert "leader = no leader  (changed between " in told
    assert f"is of Kafka cluster {'A' * 22}, those before are of {world.CLUSTER_ID}" in told
