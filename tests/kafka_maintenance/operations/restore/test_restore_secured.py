"""Restoring what the session of the snapshot, or the server of the target, does not let through: ACLs and large znodes."""

import os
import re

import pytest
from kazoo.client import KazooClient
from kazoo.security import ACL, Id

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.adapters.snapshot import tree_writer
from controller_core.adapters.snapshot.reader import ReadOptions, read_cut
from controller_core.adapters.snapshot.tree_writer import NewZnode, WriteOptions, write_tree
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import ZooKeeperAuth, connect
from controller_core.model.errors import NoAuthError, TooLargeZnodeError
from controller_core.ports.zookeeper import ANYONE_ALL, Acl
from kafka_maintenance.operations.errors import NothingToRestoreError, RefusedError
from kafka_maintenance.operations.restore.apply import apply_restore
from kafka_maintenance.operations.restore.content import RestoreScope, known_acl
from kafka_maintenance.operations.restore.drill import drill_json, drill_text, restore_drill
from kafka_maintenance.operations.restore.plan import plan_restore
from kafka_maintenance.operations.snapshots.take import take_snapshot
from kafka_maintenance.servers import KafkaCluster, ZooKeeperServer
from kafka_maintenance.servers.process import wait_until
from tests.kafka_maintenance import snapshot_world as world

OPEN = '[[31, "world", "anyone"]]'
OWNER = ZooKeeperAuth(scheme="digest", username="ops", password="secret")
OWNER_ID = "ops:w4PIv8/Wzcq4qj4/MfEQ8pvUSS4="  # base64 of SHA-1 of ops:secret


@pytest.mark.parametrize(
    ("acl", "restored"),
    [
        pytest.param(None, '[[31, "auth", ""]]', id="not read: closed to others"),
        pytest.param(OPEN, OPEN, id="open, and known to be"),
        pytest.param(
            '[[31, "digest", "ops:qL9fkf3o8f6gyt1wmQ4NYl1PfIQ="]]',
            '[[31, "digest", "ops:qL9fkf3o8f6gyt1wmQ4NYl1PfIQ="]]',
            id="a digest that was shown",
        ),
        pytest.param(
            '[[31, "digest", "ops:x"], [1, "world", "anyone"]]',
            '[[31, "auth", ""], [1, "world", "anyone"]]',
            id="masked: the reader could not log in as ops",
        ),
        pytest.param('[[1, "digest", "audit:x"], [31, "digest", "ops:x"]]', '[[31, "auth", ""]]', id="masked twice"),
        pytest.param('[[31, "sasl", "host:x"]]', '[[31, "sasl", "host:x"]]', id="only digests are masked"),
    ],
)
def test_known_acl(acl, restored):
    assert known_acl(acl) == restored


# ------------------------------------------------------------------------------------------------- real servers


@pytest.fixture
def store(request):
    return MemoryStore(request.node.name)


@pytest.fixture
def owned(chroot):
    """A tree that `OWNER` may change, everybody may read, and of which `/config/ips` is closed."""
    with connect(chroot, auth=OWNER, create_chroot=True) as session:
        for path, data in world.PERSISTENT.items():
            session.create(path, data, make_parents=True)
        session.create("/config/ips", b"", acl=(Acl(31, "auth", ""),))
        session.create("/config/ips/10.0.0.1", world.config(producer_byte_rate="5"), acl=(Acl(31, "auth", ""),))
        session.create(
            "/config/clients/near",
            world.config(producer_byte_rate="5"),
            acl=(Acl(31, "auth", ""), Acl(31, "ip", "10.0.0.1")),
        )
        yield session


def take(chroot, store, auth=None):
    return take_snapshot(
        address=ClusterAddress(chroot, auth=auth), cluster="alpha", store=store, run_id="r", now=world.NOON
    ).manifest


def restored(store, manifest, target, **scope):
    """The plan, applied; and the ACLs of the tree that came of it."""
    stored = plan_restore(store=store, manifest=manifest, target=target, scope=RestoreScope(whole=True, **scope))
    apply_restore(
        store=store, plan_uri=stored.uri, approved_digest=stored.digest, approver="ada", target=target, now=world.NOON
    )
    with connect(target.zookeeper, auth=target.auth) as session:
        return stored, read_cut(session.client).acls


def applied(store, stored, target):
    return apply_restore(
        store=store, plan_uri=stored.uri, approved_digest=stored.digest, approver="ada", target=target, now=world.NOON
    )


@pytest.mark.services
def test_what_a_stranger_saw_of_digest_acls_is_restored_for_the_owner_and_nobody_else(owned, store, chroot):
    manifest = take(chroot, store)
    target = ClusterAddress(f"{chroot}-new", auth=OWNER)
    stored, acls = restored(store, manifest, target)
    assert re.search(
        r"note: the snapshot does not know the whole ACL of \d+ znodes, such as /.* nobody else", stored.text
    )
    assert acls["/brokers/topics/orders"] == f'[[31, "digest", "{OWNER_ID}"], [1, "world", "anyone"]]'
    assert not [path for path, acl in acls.items() if path != "/" and "ops:x" in acl]
    with connect(target.zookeeper) as stranger, pytest.raises(NoAuthError):
        stranger.create("/admin/delete_topics/orders")
    with connect(target.zookeeper, auth=OWNER) as session:
        session.create("/admin/delete_topics/orders")


@pytest.mark.services
def test_a_stranger_cannot_restore_acls_that_a_stranger_saw_and_is_told_the_way_out(owned, store, chroot):
    manifest = take(chroot, store)
    with pytest.raises(RefusedError, match=r"log in as the brokers do, or leave all ACLs out \(--without-acls\)"):
        restored(store, manifest, ClusterAddress(f"{chroot}-new"))
    _, acls = restored(store, manifest, ClusterAddress(f"{chroot}-new"), acls=False)
    assert set(acls.values()) <= {OPEN}


@pytest.mark.services
def test_an_acl_that_was_not_read_is_not_restored_as_open(owned, store, chroot, monkeypatch):
    real = KazooClient.get_acls_async

    def vanished(client, path):
        return real(client, "/gone" if path == "/config/topics/orders" else path)

    monkeypatch.setattr(KazooClient, "get_acls_async", vanished)
    manifest = take(chroot, store, OWNER)
    monkeypatch.undo()
    stored, acls = restored(store, manifest, ClusterAddress(f"{chroot}-new", auth=OWNER))
    assert "the whole ACL of 1 znode, such as /config/topics/orders" in stored.text
    assert acls["/config/topics/orders"] == f'[[31, "digest", "{OWNER_ID}"]]'
    assert '"world"' in acls["/config/topics/payments"]


@pytest.mark.services
def test_an_acl_that_was_not_read_is_not_made_open_by_restoring_a_part(owned, store, chroot, monkeypatch):
    real = KazooClient.get_acls_async
    monkeypatch.setattr(
        KazooClient, "get_acls_async", lambda client, path: real(client, "/gone" if "orders" in path else path)
    )
    manifest = take(chroot, store, OWNER)
    monkeypatch.undo()
    owned.delete("/config/topics/orders", -1)
    scope = RestoreScope(configs=("topics/orders",))
    with connect(chroot) as stranger, pytest.raises(NoAuthError):
        stranger.create("/config/topics/orders")
    with pytest.raises(RefusedError, match=r"'/config/topics/orders'; expected a login"):
        plan_restore(store=store, manifest=manifest, target=ClusterAddress(chroot), scope=scope)
    target = ClusterAddress(chroot, auth=OWNER)
    stored = plan_restore(store=store, manifest=manifest, target=target, scope=scope)
    apply_restore(
        store=store, plan_uri=stored.uri, approved_digest=stored.digest, approver="ada", target=target, now=world.NOON
    )
    assert owned.client.get_acls("/config/topics/orders")[0][0].id.id == OWNER_ID


@pytest.mark.services
def test_acls_that_were_opened_are_a_difference_and_come_back(owned, store, chroot):
    """Somebody ran `setAcl -R / world:anyone:cdrwa`; the data are as they were."""
    manifest = take(chroot, store, OWNER)
    opened = [path for path in read_cut(owned.client).znodes if path != "/" and path.startswith("/config")]
    for path in opened:
        owned.client.set_acls(path, [ACL(31, Id("world", "anyone"))])
    target = ClusterAddress(chroot, auth=OWNER)
    scope = RestoreScope(paths=("/config",))
    stored = plan_restore(store=store, manifest=manifest, target=target, scope=scope)
    assert f"0 znodes: 0 created, 0 set, 0 deleted\n0 bytes; {len(opened)} ACLs set" in stored.text
    assert f'- {OPEN}\n    + [[31, "digest", "{OWNER_ID}"]]' in stored.text
    applied(store, stored, target)
    with pytest.raises(
        NothingToRestoreError, match="nothing is to be written: /config/users/alice is left out: secret"
    ) as nothing:
        plan_restore(store=store, manifest=manifest, target=target, scope=scope)
    assert nothing.value.notes[0].startswith("/config/users/alice is left out: secret")
    assert read_cut(owned.client).acls["/config/ips/10.0.0.1"] == f'[[31, "digest", "{OWNER_ID}"]]'


@pytest.mark.services
def test_a_restore_does_not_open_what_is_closed_now(kafka, store, chroot):
    """The snapshot was taken before `zookeeper.set.acl` was switched on."""
    manifest = take(chroot, store)
    assert not manifest.secured
    owner = [ACL(31, Id("digest", OWNER_ID)), ACL(1, Id("world", "anyone"))]
    kafka.delete("/config/users/bob", -1)
    kafka.client.set_acls("/config/users", owner)
    kafka.client.set_acls("/config/topics/orders", owner)
    target = ClusterAddress(chroot, auth=OWNER)
    for scope, named in (
        (("/config/users",), "'/config/users"),
        (("/config/topics/orders",), "'/config/topics/orders'"),
    ):
        with pytest.raises(RefusedError, match=f"give everybody more rights than the target does now, such as {named}"):
            plan_restore(store=store, manifest=manifest, target=target, scope=RestoreScope(paths=scope))
    kept = RestoreScope(paths=("/config/users",), acls=False)
    applied(store, plan_restore(store=store, manifest=manifest, target=target, scope=kept), target)
    with connect(chroot, auth=OWNER) as session:
        acls = read_cut(session.client).acls
    assert acls["/config/users/bob"] == f'[[31, "digest", "{OWNER_ID}"], [1, "world", "anyone"]]', "the session's own"
    widened = RestoreScope(paths=("/config/topics/orders",), widen_acls=True)
    stored = plan_restore(store=store, manifest=manifest, target=target, scope=widened)
    applied(store, stored, target)
    assert read_cut(kafka.client).acls["/config/topics/orders"] == OPEN


@pytest.mark.services
def test_a_snapshot_that_knows_no_acls_opens_nothing(kafka, store, chroot):
    manifest = take_snapshot(
        address=ClusterAddress(chroot),
        cluster="alpha",
        store=store,
        run_id="r",
        now=world.NOON,
        options=ReadOptions(acls=False),
    ).manifest
    with pytest.raises(RefusedError, match="does not know the whole ACL of"):
        restored(store, manifest, ClusterAddress(f"{chroot}-new"))
    stored, acls = restored(store, manifest, ClusterAddress(f"{chroot}-new"), acls=False)
    assert "WITHOUT ACLs: every znode becomes open to everybody" in stored.text
    assert set(acls.values()) == {OPEN}


# ------------------------------------------------------------------------------------------------- the drill


@pytest.mark.services
@pytest.mark.parametrize("auth", [pytest.param(OWNER, id="the owner's"), pytest.param(None, id="a stranger's")])
@pytest.mark.parametrize("by_transactions", [False, True], ids=["from a file", "by transactions"])
def test_a_drill_of_a_snapshot_with_digest_and_ip_acls(owned, store, chroot, auth, by_transactions):
    take(chroot, store, auth)
    report = restore_drill(store=store, cluster="alpha", now=world.NOON, by_transactions=by_transactions)
    assert report.passed, drill_text(report)
    assert report.acls_compared
    assert bool(report.acls_unknown) == (auth is None)
    assert any("the whole ACL" in note for note in report.notes) == (auth is None)


@pytest.mark.services
def test_a_drill_of_a_tree_whose_owner_has_a_kerberos_name(store):
    owner = ZooKeeperAuth(scheme="sasl", username="tool", password="t")
    acl = (Acl(31, "sasl", "kafka/h1@EXAMPLE.COM"), Acl(31, "sasl", "tool"))
    with ZooKeeperServer(users={"tool": "t"}) as server:
        with connect(f"{server.hosts}/k", auth=owner, create_chroot=True) as session:
            for path, data in world.PERSISTENT.items():
                session.create(path, data, make_parents=True, acl=acl)
        take(f"{server.hosts}/k", store, owner)
    report = restore_drill(store=store, cluster="alpha", now=world.NOON)
    assert report.passed, drill_text(report)
    assert report.acls_compared


@pytest.mark.services
@pytest.mark.kafka
def test_a_drill_of_a_secured_tree_with_real_brokers(store):
    brokers = ZooKeeperAuth(scheme="sasl", username="kafka", password="geheim")
    with (
        ZooKeeperServer(users={"kafka": "geheim"}) as server,
        KafkaCluster("3.9", server, brokers=2, chroot="/real", mode="shared_jvm", login=("kafka", "geheim")) as cluster,
    ):
        with connect(cluster.zookeeper_connect, auth=brokers) as session:
            session.create("/brokers/topics/orders", b'{"version":1,"partitions":{"0":[1,2],"1":[2,1]}}')
            state = "/brokers/topics/orders/partitions/1/state"
            wait_until(lambda: session.exists(state) is not None, what="the topic has its states", timeout_s=60)
        assert take(cluster.zookeeper_connect, store, brokers).secured
    report = restore_drill(store=store, cluster="alpha", now=world.NOON, kafka_version="3.9")
    assert report.passed, drill_text(report)
    assert report.acls_compared
    assert report.brokers.startswith("2 brokers of Kafka 3.9 came up with 1 topic, every partition led")


@pytest.mark.services
def test_a_drill_says_that_its_snapshot_is_of_no_one_moment(chroot, store):
    with world.session(chroot) as session:
        world.fill(session)
        sure = take(chroot, store)
        torn = take_snapshot(
            address=ClusterAddress(chroot),
            cluster="alpha",
            store=store,
            run_id="torn",
            now=world.NOON,
            options=ReadOptions(method="plain"),
        ).manifest
    report = restore_drill(store=store, manifest=torn, now=world.NOON)
    (note,) = report.notes
    assert note.startswith("NOT of one moment: plain scan")
    assert sure.snapshot_id in note
    assert f"note: {note}" in drill_text(report)
    assert (drill_json(report)["consistent"], drill_json(report)["notes"]) == (False, (note,))


# ------------------------------------------------------------------------------------------------- large znodes


@pytest.fixture(scope="module")
def small():
    """A server that takes requests of up to 20,000 bytes."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -Djute.maxbuffer=20000")
        with ZooKeeperServer(tick_time_ms=500) as server:
            patch.undo()
            yield server


def tree_of(count, **data):
    """A parent and its children, 500 bytes each, but for those that are named."""
    return [
        NewZnode("/p", b""),
        *(NewZnode(f"/p/{number:03}", data.get(f"z{number}", b"x" * 500)) for number in range(count)),
    ]


@pytest.mark.services
def test_a_znode_too_large_for_the_server_is_named(small):
    with connect(f"{small.hosts}/large", create_chroot=True) as session:
        with pytest.raises(TooLargeZnodeError, match=r"znode '/p/020' not written.* its 30000 bytes .*jute.maxbuffer"):
            write_tree(session.client, tree_of(40, z20=b"x" * 30_000), WriteOptions(count_max=10))
        assert set(session.children("/p")) >= {f"{number:03}" for number in range(20)}, "what is before it is written"


@pytest.mark.services
def test_transactions_too_large_for_the_server_are_sent_znode_by_znode(small):
    with connect(f"{small.hosts}/sums", create_chroot=True) as session:
        write_tree(session.client, tree_of(120), WriteOptions(count_max=60))
        assert len(session.children("/p")) == 120


@pytest.mark.services
def test_a_connection_that_breaks_for_another_reason_does_not_stop_the_writing(server, chroot, monkeypatch):
    real, sent = tree_writer._submit, []

    def drop(client, batch, acls):
        pending = real(client, batch, acls)
        sent.append(len(batch))
        if len(sent) == 3:
            client._connection._socket.shutdown(2)
        return pending

    monkeypatch.setattr(tree_writer, "_submit", drop)
    with connect(chroot, create_chroot=True) as session:
        write_tree(session.client, tree_of(100), WriteOptions(count_max=10))
        assert len(session.children("/p")) == 100
    assert 1 in sent, "what was not answered is sent one by one"


@pytest.mark.services
def test_a_plan_warns_of_znodes_that_a_server_may_refuse(store):
    """A whole restore into a server that takes less than the snapshot's."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -Djute.maxbuffer=4000000")
        with ZooKeeperServer() as roomy:
            patch.undo()
            with world.session(f"{roomy.hosts}/k") as session:
                world.fill(session)
                session.create("/config/topics/large", b"x" * 1_100_000, acl=ANYONE_ALL)
                manifest = take(f"{roomy.hosts}/k", store)
    with ZooKeeperServer() as usual:
        target = ClusterAddress(f"{usual.hosts}/k")
        stored = plan_restore(store=store, manifest=manifest, target=target, scope=RestoreScope(whole=True))
        assert "1 znode of more than 1,000,000 bytes, the largest /config/topics/large with 1,100,000" in stored.text
        with pytest.raises(TooLargeZnodeError, match="'/config/topics/large'"):
            apply_restore(
                store=store,
                plan_uri=stored.uri,
                approved_digest=stored.digest,
                approver="ada",
                target=target,
                now=world.NOON,
            )
