"""What comes back by the login that restores."""

import pytest

from controller_core.adapters.snapshot.reader import read_cut
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import ZooKeeperAuth, connect
from controller_core.model.errors import NoAuthError
from controller_core.ports.zookeeper import Acl
from kafka_maintenance.operations.restore.apply import apply_restore
from kafka_maintenance.operations.restore.content import RestoreScope
from kafka_maintenance.operations.restore.plan import plan_restore
from kafka_maintenance.operations.snapshots import catalog as snapshots
from kafka_maintenance.operations.snapshots.take import take_snapshot
from kafka_maintenance.servers import ZooKeeperServer
from tests.kafka_maintenance import snapshot_world as world

pytestmark = pytest.mark.services


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
