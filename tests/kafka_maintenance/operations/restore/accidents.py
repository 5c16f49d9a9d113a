"""Accidents of a cluster, and what restoring it comes to."""

import json
import re
from collections.abc import Callable
from typing import Any

from kazoo.security import ACL, Id

from controller_core import znodes
from controller_core.adapters.snapshot.reader import read_cut
from controller_core.adapters.zookeeper.session import ZooKeeperAuth
from tests.kafka_maintenance import snapshot_world as world
from tests.source_files import ROOT

DOCUMENT = (ROOT / "docs" / "accidents.md").read_text(encoding="utf-8")
ROWS = dict(re.findall(r"^\| \d+ \| ([^|]+) \| [^|]+ \| `([^`]+)` \|", DOCUMENT, re.MULTILINE))
"""Accident → the command that repairs it."""
OWNER = ZooKeeperAuth(scheme="digest", username="ops", password="secret")
OTHER_ID = "AAAAAAAAAAAAAAAAAAAAAA"
SECURED = "ZooKeeper's ACLs opened to the world"
RULES = znodes.encode_acl([znodes.AclEntry("User:ada", "Allow", "Read", "*")])


def removed(session, path):
    session.client.delete(path, recursive=True)


def opened_to_the_world(session):
    for path in read_cut(session.client).znodes:
        if path != "/":
            session.client.set_acls(path, [ACL(31, Id("world", "anyone"))])


def a_week_old(session):
    """An old copy of ZooKeeper's data came up: later topics are missing, earlier ones are there again."""
    removed(session, "/brokers/topics/payments")
    session.set("/brokers/topics/orders/partitions/0/state", world.state(2, 0, (2,)), -1)
    session.set("/config/topics/orders", world.config(retention_ms="7"), -1)
    session.create("/brokers/topics/deleted-since", b'{"version":1,"partitions":{"0":[1]}}')
    session.create("/config/topics/deleted-since", world.config())


def another_cluster_copied_over(session):
    """`zkcopy` with the wrong target: the other cluster's id, topics and configs lie over ours."""
    session.set("/cluster/id", json.dumps({"version": "1", "id": OTHER_ID}).encode(), -1)
    session.set("/brokers/topics/orders", b'{"version":1,"partitions":{"0":[7]}}', -1)
    session.set("/brokers/topics/orders/partitions/0/state", world.state(7, 900, (7,)), -1)
    session.create("/brokers/topics/foreign", b'{"version":1,"partitions":{"0":[7]}}')


def all_gone(session):
    for name in session.children("/"):
        if name != "config_before":
            removed(session, f"/{name}")


def brokers_started_on_an_empty_one(session):
    """The disks were lost, and brokers made a new cluster of the empty ensemble before anybody saw it."""
    all_gone(session)
    session.create("/cluster/id", json.dumps({"version": "1", "id": OTHER_ID}).encode(), make_parents=True)
    for path in ("/brokers/ids", "/brokers/topics", "/config/topics", "/admin/delete_topics", "/consumers"):
        session.create(path, b"", make_parents=True)
    session.create("/controller_epoch", b"1")


def half_deleted(session):
    for path in ("/config", "/cluster", "/brokers/topics/orders"):
        removed(session, path)
    session.set("/config_before", b"kept", -1)


def every_config_altered(session):
    for topic in ("orders", "payments"):
        session.set(f"/config/topics/{topic}", world.config(retention_ms="1"), -1)


def configs_littered(session):
    for number in range(5):
        session.create(f"/config/topics/orders-{number}", world.config(retention_ms="1"))


ACCIDENTS: dict[str, Callable[[Any], None]] = {
    "`deleteall /brokers/topics`": lambda session: removed(session, "/brokers/topics"),
    "`/config` gone": lambda session: removed(session, "/config"),
    "`/brokers` gone": lambda session: removed(session, "/brokers"),
    "`/cluster` gone": lambda session: removed(session, "/cluster"),
    "`/controller_epoch` gone": lambda session: removed(session, "/controller_epoch"),
    "one topic's znodes gone": lambda session: removed(session, "/brokers/topics/orders"),
    SECURED: opened_to_the_world,
    "SCRAM users gone": lambda session: removed(session, "/config/users/alice"),
    "Kafka's ACLs gone": lambda session: removed(session, "/kafka-acl"),
    "`/latest_producer_id_block` gone": lambda session: removed(session, "/latest_producer_id_block"),
    "a restored ZooKeeper is a week old": a_week_old,
    "another cluster's chroot copied over": another_cluster_copied_over,
    "an automation altered every topic config": every_config_altered,
    "an automation littered `/config/topics`": configs_littered,
    "an ensemble lost its disks": all_gone,
    "brokers started on an empty ensemble": brokers_started_on_an_empty_one,
    "a `deleteall /` that was stopped half-way": half_deleted,
    "`/admin` gone": lambda session: removed(session, "/admin"),
}
