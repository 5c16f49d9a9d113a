"""What the report tells of a day beside topics and partitions: rights, secrets, configs, and every other znode."""

from datetime import timedelta

import pytest
from kazoo.security import ACL, Id

from controller_core import znodes
from controller_core.adapters.object_store.open import MemoryStore
from controller_core.adapters.zookeeper.address import ClusterAddress
from kafka_maintenance.operations.analysis.changed import changed_since
from kafka_maintenance.operations.snapshots.take import take_snapshot
from tests.kafka_maintenance import snapshot_world as world

pytestmark = pytest.mark.services

STATE = "/brokers/topics/orders/partitions/0/state"
RULES = "/kafka-acl/Topic/orders"
COUNTED = (
    "configs removed",
    "configs changed",
    "Kafka ACLs added",
    "Kafka ACLs removed",
    "znodes with secrets written",
    "other znodes changed",
    "ZooKeeper ACLs changed",
)


def taken(store, chroot, days):
    now = world.NOON + timedelta(days=days)
    address = ClusterAddress(chroot)
    return take_snapshot(address=address, cluster="blue", store=store, run_id=f"r{days}", now=now).manifest


@pytest.mark.parametrize("of_topic", [False, True], ids=["topics have one ACL", "an ACL of a topic changed"])
def test_what_no_result_tells_is_told(kafka, chroot, of_topic):
    store = MemoryStore("changed")
    kafka.create(RULES, znodes.encode_acl([znodes.AclEntry("User:ada", "Allow", "Read", "*")]), make_parents=True)
    kafka.create("/mine", b"1")
    before = taken(store, chroot, 0)
    kafka.set(RULES, znodes.encode_acl([znodes.AclEntry("User:eve", "Allow", "All", "*")]), -1)
    kafka.set("/config/users/alice", kafka.get("/config/users/alice")[0], -1)
    kafka.set("/config/topics/orders", world.config(retention_ms="7"), -1)
    kafka.set("/mine", b"2\n* forged", -1)
    kafka.set(STATE, world.state(2), -1)
    closed = STATE if of_topic else "/mine"
    kafka.client.set_acls(closed, [ACL(31, Id("world", "anyone")), ACL(1, Id("ip", "10.0.0.1"))])
    after = taken(store, chroot, 1)
    told = changed_since(store, [before], [after])["blue"]
    wanted = dict.fromkeys(COUNTED, 1)
    assert told["counts"] == wanted
    text = "\n".join(told["lines"])
    for words in (
        "  Topic orders (LITERAL): User:eve Allow All from *",
        "  /config/users/alice: changed at ",
        f"  {closed}: [[31, ",
        r"  /mine: 1 → 2\n* forged",
    ):
        assert words in text
    assert "leader" not in text, "the results tell that"
    assert changed_since(store, [], [after]) == {}
    store.delete(before.object("raw").key)
    damaged = changed_since(store, [before], [after])["blue"]
    assert damaged["lines"][0].startswith(f"not compared with {before.snapshot_id}: ")
