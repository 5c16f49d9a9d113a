"""Snapshots of a filled tree on several dates."""

from datetime import timedelta

import pytest

from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import ZooKeeperAuth
from controller_core.ports.zookeeper import Acl
from kafka_maintenance.operations.snapshots.take import take_snapshot
from tests.kafka_maintenance import snapshot_world as world

OPS = ZooKeeperAuth(scheme="digest", username="ops", password="secret")
OWN = (Acl(31, "auth", ""),)


def take(chroot, store, day=0, auth=None, **how):
    now = world.NOON + timedelta(days=day)
    return take_snapshot(
        address=ClusterAddress(chroot, auth=auth), cluster="alpha", store=store, run_id=f"date {day}", now=now, **how
    ).manifest


def delete_topic(session, topic):
    for path in sorted((path for path in world.PERSISTENT if f"/{topic}" in path), reverse=True):
        session.delete(path, -1)


@pytest.fixture
def half_open(chroot):
    """Only `ops` may read these: configs of users and topics, a registration, deletions, the states of `orders`."""
    open_parents = ("/brokers/topics/orders", "/config/changes", "/admin")
    closed = ("/admin/delete_topics", "/brokers/topics/orders/partitions", "/config/topics", "/config/users")
    with world.session(chroot, auth=OPS) as session:
        for path in (*open_parents, *closed, *world.PERSISTENT):
            if session.exists(path) is None:
                acl = OWN if path in closed else world.OPEN
                session.create(path, world.PERSISTENT.get(path, b""), make_parents=True, acl=acl)
        session.create("/brokers/ids/1", world.broker(1), ephemeral=True, acl=OWN)
        session.create("/admin/delete_topics/payments", b"")
        yield tuple(sorted((*closed, "/brokers/ids/1")))
