"""The reader of whole trees against real ZooKeepers: cuts, chroots, followers, broken connections, old servers."""

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss
from kazoo.protocol.connection import _CONNECTION_DROP, _SESSION_EXPIRED
from kazoo.security import ACL, Id

from controller_core.adapters.snapshot import reader
from controller_core.adapters.snapshot.format import known_acls, raw_layer
from controller_core.adapters.snapshot.reader import ReadOptions, Znode, read_cut
from controller_core.adapters.snapshot.two_passes import held_at
from controller_core.adapters.snapshot.wire import Wire
from controller_core.adapters.zookeeper.multi_read import STAT, MultiRead
from controller_core.model.errors import NoNodeError, ZooKeeperUnreachableError
from controller_core.znodes import ROOTS
from kafka_maintenance.servers import ZooKeeperEnsemble, ZooKeeperServer
from kafka_maintenance.servers.process import wait_until
from tests import snapshot_consistency
from tests.snapshot_writer import client_of

pytestmark = pytest.mark.services

TOPICS, PARTITIONS = 60, 20
ZNODES = 4 + TOPICS * (2 + 2 * PARTITIONS)


@pytest.fixture(scope="module")
def server():
    with ZooKeeperServer(tick_time_ms=500) as server:
        yield server


@pytest.fixture(scope="module")
def filled(server):
    snapshot_consistency.fill(f"{server.hosts}/kafka", TOPICS, PARTITIONS)
    return f"{server.hosts}/kafka"


@pytest.fixture
def client(filled):
    with client_of(filled) as client:
        yield client


def test_a_quiet_tree(client):
    cut = read_cut(client)
    assert (cut.consistent, cut.reason, cut.unresolved, cut.method, cut.rounds, cut.attempts) == (
        True,
        None,
        0,
        "cut",
        0,
        1,
    )
    assert len(cut.znodes) == ZNODES
    assert cut.server_version.startswith("3.9")
    data, stat = client.get("/brokers/topics/topic-00003/partitions/7/state")
    znode = cut.znodes["/brokers/topics/topic-00003/partitions/7/state"]
    assert (znode.data, tuple(znode.decoded_stat)) == (data, tuple(stat))


def test_a_chroot_is_the_subtree(server, filled, client):
    inside = read_cut(client)
    with client_of(server.hosts) as root:
        outside = read_cut(root, ReadOptions(roots=ROOTS | {"/kafka"}))
        assert read_cut(root).neighbours == ("/kafka",)
    below = {
        path.removeprefix("/kafka") or "/": znode for path, znode in outside.znodes.items() if path.startswith("/kafka")
    }
    assert below == inside.znodes
    assert not any(path.startswith("/zookeeper") for path in outside.znodes)
    assert (outside.neighbours, inside.neighbours) == ((), ())


@pytest.mark.parametrize("kind", ["standalone", "ensemble"])
def test_no_cut_is_wrong_while_a_writer_writes(tmp_path, kind):
    """A few runs here; docs/snapshots.md has the counts of many."""
    from contextlib import ExitStack

    with ExitStack() as stack:
        hosts, reader_hosts = snapshot_consistency.started(stack, kind)
        snapshot_consistency.fill(f"{hosts}/kafka", TOPICS, PARTITIONS)
        verdicts = snapshot_consistency.judged(
            f"{hosts}/kafka", f"{reader_hosts}/kafka", server=kind, rate=300, cuts=8, folder=tmp_path, seed=1
        )
    assert [verdict.wrong for verdict in verdicts if verdict.consistent] == [0] * sum(v.consistent for v in verdicts)
    assert any(verdict.consistent and verdict.evidence for verdict in verdicts)


def test_the_judge_finds_a_torn_scan(client):
    cut = read_cut(client)
    tree = snapshot_consistency.expected_tree(cut)
    path = "/brokers/topics/topic-00001/partitions/1/state"
    snapshot_consistency.replay(tree, cut.zxid + 1, [["set", path, "{}"]])
    assert snapshot_consistency.wrong_znodes(tree, cut) == [path]


def test_a_change_during_the_scan_is_seen(filled, client):
    """A znode that was read already changes, another appears, a third vanishes: all before the scan ends."""
    with client_of(filled) as writer:
        writer.ensure_path("/consumers/gone")
        changes = iter(
            [
                lambda: writer.set("/brokers/topics/topic-00000", b'{"version":1,"partitions":{}}'),
                lambda: writer.create("/consumers/new"),
                lambda: writer.delete("/consumers/gone"),
            ]
        )
        cut = read_cut(client, ReadOptions(batch_count=50, window=1), lambda _: next(changes, lambda: None)())
        assert cut.consistent
        assert cut.znodes["/brokers/topics/topic-00000"].data == b'{"version":1,"partitions":{}}'
        assert "/consumers/new" in cut.znodes
        assert "/consumers/gone" not in cut.znodes
        writer.delete("/consumers", recursive=True)


@pytest.mark.parametrize(
    ("roots", "method"), [(ROOTS, "cut"), (ROOTS | {"/zookeeper-other"}, "cut"), (ROOTS, "two_pass")]
)
def test_only_a_neighbours_tree_may_change_unseen(server, filled, roots, method):
    """Without a chroot; the neighbour's name begins as that of ZooKeeper's own tree, and holds what must not be copied."""
    with client_of(server.hosts) as client, client_of(server.hosts) as writer:
        writer.create("/zookeeper-other/x", b"early", makepath=True)
        writer.create("/brokers/ids", makepath=True)
        late = iter([lambda: writer.set("/zookeeper-other/x", b"late"), lambda: writer.create("/zookeeper-other/new")])

        def change(progress):
            if progress.phase == "scan":
                next(late, lambda: None)()

        cut = read_cut(client, ReadOptions(batch_count=1, window=1, roots=roots, method=method), change)
        writer.delete("/zookeeper-other", recursive=True)
        writer.delete("/brokers", recursive=True)
    read = {"/zookeeper-other": b"", "/zookeeper-other/x": b"late", "/zookeeper-other/new": b""}
    assert cut.consistent
    assert "/brokers/ids" in cut.znodes
    found = {path: znode.data for path, znode in cut.znodes.items() if path.startswith("/zookeeper")}
    assert found == (read if "/zookeeper-other" in roots else {})
    assert set(cut.neighbours) == {"/kafka", "/zookeeper-other"} - roots


def test_a_tree_that_never_rests_is_reported_as_such(filled, client, monkeypatch):
    """One znode changes before every reading of it."""
    hot = "/brokers/topics/topic-00000/partitions/0/state"
    phases = ["scan"]
    real = MultiRead.serialize
    with client_of(filled) as writer:

        def serialize(self):
            if phases[-1] == "settle":
                writer.set(hot, b"{}")
            return real(self)

        def change(progress):
            phases.append(progress.phase)
            if progress.read > ZNODES // 2:
                writer.set(hot, b"{}")

        monkeypatch.setattr(MultiRead, "serialize", serialize)
        cut = read_cut(client, ReadOptions(rounds_max=3, batch_count=50), change)
    assert (cut.consistent, cut.unresolved, cut.rounds) == (False, 1, 3)
    assert cut.reason == "1 path still changed after 3 settling rounds; snapshot at a quieter time"


@pytest.mark.parametrize(
    "accident", [pytest.param(_CONNECTION_DROP, id="dropped"), pytest.param(_SESSION_EXPIRED, id="session expired")]
)
def test_a_broken_connection_starts_the_cut_again(client, accident):
    accidents = iter([lambda: client._call(accident, client.handler.async_result())])
    cut = read_cut(client, ReadOptions(batch_count=50), lambda _: next(accidents, lambda: None)())
    assert cut.consistent
    assert cut.attempts > 1
    assert len(cut.znodes) == ZNODES


def test_a_connection_that_breaks_between_scan_and_settling_is_noticed(client, monkeypatch):
    """The watch is gone with the connection: what came before proves nothing."""
    real = reader._settle
    accidents = iter([True])

    def settle(wire, *rest):
        if next(accidents, False):
            client._call(_CONNECTION_DROP, client.handler.async_result())
            wait_until(lambda: wire._broken, what="the connection is broken", timeout_s=30)
        return real(wire, *rest)

    monkeypatch.setattr(reader, "_settle", settle)
    cut = read_cut(client)
    assert cut.consistent
    assert cut.attempts == 2


def test_a_connection_that_breaks_while_acls_are_looked_at_costs_nothing(client, monkeypatch):
    real, accidents = client.get_acls_async, iter([True])

    def get_acls_async(path):
        if not next(accidents, False):
            return real(path)
        lost = client.handler.async_result()
        lost.set_exception(ConnectionLoss())
        return lost

    monkeypatch.setattr(client, "get_acls_async", get_acls_async)
    cut = read_cut(client)
    assert (cut.consistent, cut.attempts) == (True, 1)
    assert next(accidents, None) is None


@pytest.fixture
def half_closed(filled):
    """A session that may do everything, and the name of a znode whose children nobody else may read."""
    with client_of(filled) as owner:
        owner.add_auth("digest", "owner:secret")
        owner.ensure_path("/config/users")
        for number in range(5):
            owner.create(f"/config/users/u{number}", b"{}", acl=[ACL(31, Id("auth", ""))])
        yield owner
        owner.delete("/config", recursive=True)


def test_children_that_may_not_be_read_come_and_go_while_their_parent_is_read(half_closed, client):
    """ZooKeeper tells nobody of them who may not read them: each cut holds its parent's stat as of the cut's zxid."""
    stats = {}
    owner = half_closed

    def come_and_go(progress):
        if progress.phase == "settle" and len(stats) % 3:
            return
        owner.create(f"/config/users/n{len(stats)}", b"{}", acl=[ACL(31, Id("auth", ""))])
        if len(stats) % 2:
            owner.delete(f"/config/users/n{len(stats) - 1}")
        stat = owner.exists("/config/users")
        stats[stat.pzxid] = stat

    for _ in range(8):
        cut = read_cut(client, ReadOptions(batch_count=200, window=1, acls=False), come_and_go)
        assert cut.consistent
        newest = stats[max(zxid for zxid in stats if zxid <= cut.zxid)]
        assert tuple(cut.znodes["/config/users"].decoded_stat) == tuple(newest)
        assert len([path for path in cut.unreadable if path.startswith("/config/users/")]) == newest.numChildren


def test_children_that_may_not_be_read_elsewhere_are_found_by_the_scan(half_closed, client):
    owner = half_closed
    owner.ensure_path("/config/other")
    owner.create("/config/other/first", b"", acl=[ACL(31, Id("auth", ""))])
    cut = read_cut(client, ReadOptions(acls=False))
    assert (cut.consistent, cut.rounds) == (True, 1)
    assert "/config/other/first" in cut.unreadable


def test_a_child_of_the_root_that_may_not_be_read_leaves_the_cut_without_a_proof(half_closed, client):
    half_closed.create("/closed", b"", acl=[ACL(31, Id("auth", ""))])
    cut = read_cut(client, ReadOptions(acls=False))
    half_closed.delete("/closed")
    assert not cut.consistent
    assert cut.reason.startswith("the session may not read '/closed', and no event tells")


def test_acls_are_read_once_and_again_only_where_they_may_be_others(filled, client, monkeypatch):
    with client_of(filled) as owner:
        owner.create("/acls/a", b"", makepath=True)
        owner.create("/acls/b", b"")
        first = read_cut(client)
        assert (len(first.acls), first.acls_carried, first.secured) == (len(first.znodes), 0, False)
        owner.set_acls("/acls/a", [ACL(31, Id("ip", "127.0.0.1")), ACL(1, Id("world", "anyone"))])
        owner.delete("/acls/b")
        owner.create("/acls/b", b"", acl=[ACL(1, Id("world", "anyone"))])
        asked = []
        real = client.get_acls_async
        monkeypatch.setattr(client, "get_acls_async", lambda path: (asked.append(path), real(path))[1])
        second = read_cut(client, known_acls=known_acls(raw_layer(first).table, first.zxid))
        owner.delete("/acls/b")
        owner.delete("/acls", recursive=True)
    assert sorted(asked) == ["/acls/a", "/acls/b"]
    assert (second.acls_carried, second.secured) == (len(second.znodes) - 2, True)
    assert second.acls["/acls/b"] == '[[1, "world", "anyone"]]'
    assert {path: acl for path, acl in second.acls.items() if acl != first.acls.get(path)}.keys() == {
        "/acls/a",
        "/acls/b",
    }


def test_a_server_that_goes_away_for_good():
    with ZooKeeperServer(tick_time_ms=500) as server:
        snapshot_consistency.fill(f"{server.hosts}/kafka", 5, 5)
        with client_of(f"{server.hosts}/kafka") as client:
            accidents = iter([server.kill])
            with pytest.raises(ZooKeeperUnreachableError, match="did not come back"):
                read_cut(
                    client, ReadOptions(batch_count=5, reply_timeout_s=3), lambda _: next(accidents, lambda: None)()
                )


def test_a_chroot_that_is_not_there(server):
    with client_of(f"{server.hosts}/absent") as client, pytest.raises(NoNodeError, match="no znode '/absent'"):
        read_cut(client)


def test_pauses_and_small_batches_read_the_same(client):
    gentle = read_cut(client, ReadOptions(batch_count=100, pause_s=0.001, window=1))
    assert gentle.znodes == read_cut(client).znodes


def test_large_replies_make_smaller_batches(client, monkeypatch):
    sizes = []
    real = MultiRead.serialize

    def serialize(self):
        sizes.append(len(self._reads))
        return real(self)

    monkeypatch.setattr(MultiRead, "serialize", serialize)
    cut = read_cut(client, ReadOptions(reply_bytes=10_000))
    assert len(cut.znodes) == ZNODES
    assert sorted(sizes)[-3:] != [1000] * 3


@pytest.mark.parametrize(
    ("bound", "most"), [({"batch_count": 16}, 16), pytest.param({"reply_bytes": 1500}, 20, id="75 bytes each")]
)
def test_settling_keeps_the_bounds_of_the_scan(filled, client, monkeypatch, bound, most):
    states = [f"/brokers/topics/topic-{topic:05}/partitions/0/state" for topic in range(TOPICS)]
    phases, sizes = ["scan"], []
    real = MultiRead.serialize

    def serialize(self):
        if phases[-1] == "settle":
            sizes.append(len(self._reads))
        return real(self)

    monkeypatch.setattr(MultiRead, "serialize", serialize)
    with client_of(filled) as writer:
        changed = []

        def change_all_on_the_way(progress):
            phases.append(progress.phase)
            if progress.read > ZNODES // 2 and not changed:
                changed.extend(writer.set(path, b"changed") for path in states)

        cut = read_cut(client, ReadOptions(window=1, **bound), change_all_on_the_way)
    assert cut.consistent
    assert all(cut.znodes[path].data == b"changed" for path in states)
    assert sum(sizes) == TOPICS
    assert max(sizes) <= most


def test_a_server_with_a_small_jute_maxbuffer(tmp_path):
    """It drops the connection of a request that is too large for it; each new attempt asks for less."""
    import os

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JAVA_TOOL_OPTIONS", f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -Djute.maxbuffer=20000")
        with ZooKeeperServer(tick_time_ms=500) as server:
            patch.undo()
            with client_of(server.hosts) as client:
                client.ensure_path("/kafka")
            with client_of(f"{server.hosts}/kafka") as client:
                from controller_core.adapters.snapshot.tree_writer import WriteOptions, write_tree

                write_tree(client, snapshot_consistency.topics_tree(30, 20), WriteOptions(bytes_max=8000))
                cut = read_cut(client, ReadOptions(reply_timeout_s=20))
    assert cut.consistent
    assert cut.attempts > 1
    assert len(cut.znodes) == 4 + 30 * 42


def test_two_passes_of_a_quiet_tree_are_certain(client):
    cut = read_cut(client, ReadOptions(method="two_pass"))
    assert (cut.consistent, cut.method, cut.unresolved) == (True, "two_pass", 0)
    assert cut.znodes == read_cut(client).znodes


def test_two_passes_under_change_say_how_many_are_uncertain(filled, client):
    path = "/brokers/topics/topic-00000/partitions/0/state"
    with client_of(filled) as writer:
        told = []

        def change(progress):
            told.append(progress.phase)
            if progress.phase == "second pass" and told.count("second pass") == 1:
                writer.set(path, b"one")
                writer.set(path, b"two")
                writer.set("/brokers/topics/topic-00059/partitions/19/state", b"once")

        cut = read_cut(client, ReadOptions(method="two_pass", window=1), change)
        assert not cut.consistent
        assert "two passes" in cut.reason
        assert 1 <= cut.unresolved <= 2


@pytest.mark.kafka
@pytest.mark.parametrize(("kafka", "version"), [("1.1", "3.4.10"), ("2.4", "3.5.7")])
def test_servers_without_multi_read(monkeypatch, kafka, version):
    """Real old servers: the jars of old brokers hold one."""
    from kafka_maintenance.servers import zookeeper as local
    from tests.kafka_versions import class_path_of

    monkeypatch.setattr(local, "class_path", lambda: class_path_of(kafka))
    monkeypatch.setenv("JAVA_TOOL_OPTIONS", "-Dzookeeper.jmx.log4j.disable=true")
    with ZooKeeperServer() as server:
        monkeypatch.undo()
        snapshot_consistency.fill(f"{server.hosts}/kafka", 5, 5)
        with client_of(f"{server.hosts}/kafka") as client:
            cut = read_cut(client)
            assert (cut.server_version, cut.method, cut.consistent) == (version, "two_pass", True)
            assert len(cut.znodes) == 4 + 5 * 12


@pytest.mark.kafka
def test_an_old_server_that_hides_its_version(monkeypatch):
    from kafka_maintenance.servers import zookeeper as local
    from tests.kafka_versions import class_path_of

    monkeypatch.setattr(local, "class_path", lambda: class_path_of("2.4"))
    monkeypatch.setattr(Wire, "server", lambda _: (None, None))
    with ZooKeeperServer() as server:
        snapshot_consistency.fill(f"{server.hosts}/kafka", 5, 5)
        with client_of(f"{server.hosts}/kafka") as client:
            cut = read_cut(client)
    assert (cut.server_version, cut.method, cut.consistent) == ("unknown", "two_pass", True)


def znode(data, czxid=1, mzxid=1, pzxid=1, version=0, cversion=0):
    stat = STAT.pack(czxid, mzxid, 0, 0, version, cversion, 0, 0, len(data), 0, pzxid)
    return Znode(data, stat)


@pytest.mark.parametrize(
    ("first", "second", "held", "certain"),
    [
        pytest.param(znode(b"a"), znode(b"a"), b"a", True, id="unchanged"),
        pytest.param(znode(b"a"), znode(b"b", mzxid=9, version=1), b"b", True, id="changed before C"),
        pytest.param(None, znode(b"b", czxid=9, mzxid=9), b"b", True, id="made before C"),
        pytest.param(znode(b"a"), znode(b"b", mzxid=11, version=1), b"a", True, id="changed once, after C"),
        pytest.param(znode(b"a"), znode(b"c", mzxid=11, version=2), b"a", False, id="changed twice"),
        pytest.param(None, znode(b"b", czxid=11, mzxid=11, pzxid=11), None, True, id="made after C"),
        pytest.param(None, znode(b"b", czxid=9, mzxid=11, version=1), b"b", False, id="made before, changed after C"),
        pytest.param(znode(b"a"), znode(b"a", pzxid=11, cversion=1), b"a", True, id="one child came after C"),
        pytest.param(znode(b"a"), znode(b"a", pzxid=11, cversion=2), b"a", False, id="two children came"),
        pytest.param(znode(b"a"), znode(b"b", czxid=11, mzxid=11, pzxid=11), b"a", False, id="made again"),
    ],
)
def test_what_two_readings_tell_of_the_moment_between_them(first, second, held, certain):
    found, sure = held_at(10, first, second)
    assert (found.data if found else None, sure) == (held, certain)


def test_a_leader_that_dies_during_the_cut():
    with ZooKeeperEnsemble(size=3, tick_time_ms=500) as ensemble:
        snapshot_consistency.fill(f"{ensemble.hosts}/kafka", 30, 20)
        leader = ensemble.leader()
        with client_of(f"{ensemble.hosts}/kafka") as client:
            accidents = iter([leader.kill])
            cut = read_cut(
                client, ReadOptions(batch_count=20, reply_timeout_s=30), lambda _: next(accidents, lambda: None)()
            )
    assert cut.consistent
    assert len(cut.znodes) == 4 + 30 * 42


def test_kazoo_still_has_what_we_lean_on():
    client = KazooClient("127.0.0.1:1")
    assert callable(client._call)
    assert callable(client._connection._read_watch_event)
    assert client._connection._socket is None
    assert not client._data_watchers
    assert not client._child_watchers
