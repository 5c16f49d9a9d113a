"""What a whole restore does to the root of its target, and to the ACLs of what is there already: planned, shown, never wider than now."""

import pytest
from kazoo.security import ACL, Id

from controller_core.adapters.snapshot.live_acls import live_acls
from controller_core.adapters.snapshot.reader import read_cut
from controller_core.adapters.snapshot.tree_writer import WriteOptions
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import ZooKeeperAuth, connect
from controller_core.ports.zookeeper import Acl
from kafka_maintenance.operations.errors import NothingToRestoreError, RefusedError
from kafka_maintenance.operations.restore.apply import apply_restore
from kafka_maintenance.operations.restore.content import RestoreScope
from kafka_maintenance.operations.restore.plan import plan_restore
from kafka_maintenance.operations.snapshots.take import take_snapshot
from kafka_maintenance.servers import ZooKeeperServer
from tests.kafka_maintenance import snapshot_world as world

pytestmark = pytest.mark.services

OPEN = '[[31, "world", "anyone"]]'
OWNER = ZooKeeperAuth(scheme="digest", username="ops", password="secret")
OWNED = '[[31, "digest", "ops:w4PIv8/Wzcq4qj4/MfEQ8pvUSS4="]]'  # base64 of SHA-1 of ops:secret
CLOSED = (Acl(31, "auth", ""),)


def taken(zookeeper, store):
    return take_snapshot(
        address=ClusterAddress(zookeeper, auth=OWNER), cluster="alpha", store=store, run_id="r", now=world.NOON
    ).manifest


@pytest.fixture
def owned(chroot, store):
    """The snapshot of a tree that belongs to `OWNER`, its root included."""
    with connect(chroot, auth=OWNER, create_chroot=True) as session:
        for path, data in world.PERSISTENT.items():
            session.create(path, data, make_parents=True, acl=CLOSED)
        session.client.set_acls("/", [ACL(31, Id("auth", ""))])
        return taken(chroot, store)


@pytest.fixture
def target(chroot):
    return ClusterAddress(f"{chroot}-new", auth=OWNER)


def made(target, **acls):
    """The target's chroot, and below it what an earlier try left; names of ACLs: `root` and `below`."""
    with connect(target.zookeeper, auth=OWNER, create_chroot=True) as session:
        for path in ("/brokers", "/brokers/topics", "/config"):
            session.create(path, b"", acl=acls.get("below", (Acl(31, "world", "anyone"),)))
        if "root" in acls:
            session.client.set_acls("/", acls["root"])


def plan(store, manifest, target, **scope):
    return plan_restore(store=store, manifest=manifest, target=target, scope=RestoreScope(whole=True, **scope))


def apply(store, stored, target, **kwargs):
    return apply_restore(
        store=store, plan_uri=stored.uri, approved_digest=stored.digest, approver="ada", target=target, now=world.NOON,
        **kwargs,
    )  # fmt: skip


def acls_of(target):
    with target.session() as session:
        return read_cut(session.client).acls


def test_a_new_chroot_gets_the_acl_of_the_snapshot_when_it_is_made(owned, store, target):
    stored = plan(store, owned, target)
    assert f"  create /\n  ACL    /\n    + {OWNED}" in stored.text
    receipt = apply(store, stored, target)
    assert (receipt.written, receipt.already_there) == (stored.step_count, 0)
    assert set(acls_of(target).values()) == {OWNED}
    with target.session() as session:
        assert live_acls(session.client, ["/"]) == {"/": (OWNED, 0)}, "it was never open"
    assert apply(store, stored, target).written == 0


def test_a_chroot_without_acls_is_open(owned, store, target):
    apply(store, plan(store, owned, target, acls=False), target)
    assert set(acls_of(target).values()) == {OPEN}


def test_what_is_there_already_gets_the_acl_of_the_snapshot(owned, store, target):
    """An earlier try restored without ACLs."""
    made(target)
    stored = plan(store, owned, target)
    changed = ["/", "/brokers", "/brokers/topics", "/config"]
    assert [(step["path"], step["before"], step["after"]) for step in stored.document["steps"]] == [
        (path, OPEN, OWNED) for path in changed
    ]
    assert f"  ACL    /config\n    - {OPEN}\n    + {OWNED}" in stored.text
    assert f"{stored.step_count - 4} created, 0 set, 0 deleted\n4 ACLs set" in stored.text
    assert apply(store, stored, target).written == stored.step_count
    assert set(acls_of(target).values()) == {OWNED}
    with pytest.raises(NothingToRestoreError, match="there already"):
        plan(store, owned, target)


def test_without_acls_what_is_there_keeps_its_own(owned, store, target):
    made(target, below=CLOSED)
    apply(store, plan(store, owned, target, acls=False), target)
    acls = acls_of(target)
    assert (acls["/config"], acls["/config/topics"]) == (OWNED, OPEN)


@pytest.mark.parametrize(
    ("acls", "named"),
    [
        pytest.param({"root": [ACL(31, Id("auth", ""))]}, "'/", id="the root"),
        pytest.param({"below": CLOSED}, "'/brokers/", id="below it"),
    ],
)
def test_a_whole_restore_does_not_open_what_is_closed_now(kafka, chroot, store, target, acls, named):
    manifest = taken(chroot, store)
    made(target, **acls)
    with pytest.raises(RefusedError, match=f"more rights than the target does now, such as {named}") as refused:
        plan(store, manifest, target)
    assert "--widen-acls" in str(refused.value)
    assert "--without-acls" not in str(refused.value), "that would open the new znodes as well"
    stored = plan(store, manifest, target, widen_acls=True)
    assert f"    - {OWNED}\n    + {OPEN}" in stored.text
    apply(store, stored, target)
    assert set(acls_of(target).values()) == {OPEN}


def test_what_a_half_known_acl_gives_to_everybody_opens_nothing_either(chroot, store, target):
    """The session of the snapshot saw `ops:x`: the ACL is not known whole, but what it gives to everybody is."""
    with world.session(chroot) as session:
        world.fill(session)
        session.client.set_acls(
            "/consumers", [ACL(31, Id("digest", "ops:w4PIv8/Wzcq4qj4/MfEQ8pvUSS4=")), ACL(1, Id("world", "anyone"))]
        )
        for path in read_cut(session.client).znodes:
            if path != "/consumers":
                session.client.set_acls(path, [ACL(16, Id("ip", "127.0.0.1")), ACL(1, Id("ip", "127.0.0.1"))])
        manifest = take_snapshot(
            address=ClusterAddress(chroot), cluster="alpha", store=store, run_id="r", now=world.NOON
        ).manifest
    made(target, root=[ACL(31, Id("auth", ""))])
    with pytest.raises(RefusedError, match="such as '/consumers'"):
        plan(store, manifest, target)


def test_the_data_of_the_root_is_a_difference(chroot, store, target):
    with world.session(chroot) as session:
        world.fill(session)
        session.set("/", b"ours", -1)
        manifest = taken(chroot, store)
    made(target)
    with target.session() as session:
        session.set("/", b"theirs", -1)
    stored = plan(store, manifest, target)
    assert "  set    /\n    - theirs\n    + ours" in stored.text
    apply(store, stored, target)
    with target.session() as session:
        assert session.get("/")[0] == b"ours"
    assert apply(store, stored, target).written == 0


# ------------------------------------------------------------------------------------------------- since the plan


def closed_by_another(session):
    session.client.set_acls("/", [ACL(31, Id("auth", "")), ACL(1, Id("ip", "10.0.0.1"))])


def altered_by_another(session):
    session.set("/", b"theirs", -1)


@pytest.mark.parametrize("change", [closed_by_another, altered_by_another])
def test_a_root_that_changed_since_the_plan_stops_the_restore(owned, store, target, change):
    made(target)
    stored = plan(store, owned, target)
    with target.session() as session:
        change(session)
        with pytest.raises(RefusedError, match=r"expected ACLs and the root as planned, found others.*'/'.*plan again"):
            apply(store, stored, target)
        assert session.children("/config") == []


def test_a_chroot_that_somebody_else_made_since_the_plan_stops_the_restore(owned, store, target):
    stored = plan(store, owned, target)
    with connect(target.zookeeper, create_chroot=True) as session:
        with pytest.raises(RefusedError, match=r"expected ACLs and the root as planned.*'/'"):
            apply(store, stored, target)
        assert session.children("/") == []


def test_a_chroot_that_is_gone_since_the_plan_stops_the_restore(owned, store, target, server):
    made(target)
    stored = plan(store, owned, target)
    with connect(server.hosts) as session:
        session.client.delete(target.chroot, recursive=True)
        with pytest.raises(RefusedError, match="expected the chroot, as when it was planned, found none; plan again"):
            apply(store, stored, target)
        assert session.exists(target.chroot) is None


def test_a_znode_that_somebody_else_makes_meanwhile_is_not_left_open(owned, store, target):
    stored = plan(store, owned, target)

    def other(written):
        with target.session() as session:
            if written == 1:
                session.create("/consumers", b"", acl=(Acl(31, "world", "anyone"),))

    with pytest.raises(RefusedError, match=r"found others at 1 znode, such as '/consumers'"):
        apply(store, stored, target, progress=other, write_options=WriteOptions(count_max=1, window=1))


# ------------------------------------------------------------------------------------------------- an ensemble


@pytest.mark.parametrize(
    "scope", [{"whole": True}, {"whole": True, "mirror": True}, {"paths": ("/",)}], ids=["whole", "mirror", "path"]
)
def test_a_snapshot_of_a_chroot_leaves_the_root_of_an_ensemble_alone(owned, store, scope):
    with ZooKeeperServer() as ensemble:
        target = ClusterAddress(ensemble.hosts, auth=OWNER)
        if "whole" not in scope or "mirror" in scope:
            with target.session() as session:
                session.create("/cluster/id", world.PERSISTENT["/cluster/id"], make_parents=True)
        stored = plan_restore(store=store, manifest=owned, target=target, scope=RestoreScope(**scope))
        assert (
            "left out: 1 the root of a chroot: the target has none, and the root of its ensemble stays" in stored.text
        )
        assert "/" not in {step["path"] for step in stored.document["steps"]}
        apply(store, stored, target)
        with target.session() as session:
            assert live_acls(session.client, ["/", "/brokers"]) == {"/": (OPEN, 0), "/brokers": (OWNED, 0)}
