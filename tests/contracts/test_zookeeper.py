"""One contract for ZooKeeper: the memory that tests trust, and a real server over the network."""

import threading

import pytest
from kazoo.client import KazooClient, KazooState
from kazoo.handlers.threading import KazooTimeoutError

from controller_core.adapters.zookeeper.session import ZooKeeperAuth, connect
from controller_core.model.errors import (
    BadVersionError,
    ConnectionLostError,
    EphemeralParentError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    ZooKeeperError,
    ZooKeeperUnreachableError,
)
from controller_core.ports.zookeeper import (
    ANY_VERSION,
    CREATOR_ALL,
    Check,
    Create,
    Delete,
    Set,
    WatchEventKind,
    ZooKeeper,
)
from controller_core.runtime.simulated.zookeeper import REQUEST_BYTES_MAX, MemoryServer
from kafka_maintenance.operations.apply.cluster_lock import Holder, cluster_lock
from kafka_maintenance.servers.process import wait_until

EVENT_TIMEOUT_S = 20.0


class Heard:
    """A watch that remembers."""

    def __init__(self) -> None:
        self.events: list[tuple[WatchEventKind, str]] = []
        self._arrived = threading.Semaphore(0)

    def __call__(self, event) -> None:
        self.events.append((event.kind, event.path))
        self._arrived.release()

    def wait(self, count: int = 1) -> list[tuple[WatchEventKind, str]]:
        for _ in range(count):
            assert self._arrived.acquire(timeout=EVENT_TIMEOUT_S)
        return self.events


def test_both_implement_the_port(zookeeper):
    assert isinstance(zookeeper, ZooKeeper)


def test_what_is_created_can_be_read(zookeeper):
    assert zookeeper.create("/a", b"x") == "/a"
    data, stat = zookeeper.get("/a")
    assert data == b"x"
    assert (stat.version, stat.cversion, stat.ephemeral_owner, stat.data_length, stat.num_children) == (0, 0, 0, 1, 0)
    assert stat.czxid == stat.mzxid == stat.pzxid
    assert stat.ctime == stat.mtime > 0
    assert zookeeper.exists("/a") == stat


def test_a_write_raises_version_and_mzxid(zookeeper):
    zookeeper.create("/a", b"x")
    before = zookeeper.exists("/a")
    after = zookeeper.set("/a", b"longer", before.version)
    assert (after.version, after.czxid, after.data_length) == (1, before.czxid, 6)
    assert after.mzxid > before.mzxid
    assert zookeeper.get("/a") == (b"longer", after)
    assert zookeeper.set("/a", b"", ANY_VERSION).version == 2


def test_children_count_in_the_parents_stat(zookeeper):
    zookeeper.create("/a")
    assert zookeeper.create("/a/c") == "/a/c"
    zookeeper.create("/a/b")
    zookeeper.delete("/a/c", 0)
    stat = zookeeper.exists("/a")
    assert (stat.cversion, stat.num_children, stat.version) == (3, 1, 0)
    assert stat.pzxid > stat.mzxid
    assert zookeeper.children("/a") == ["b"]


def test_sequential_znodes_count_per_parent(zookeeper):
    zookeeper.create("/a")
    assert zookeeper.create("/a/n_", sequential=True) == "/a/n_0000000000"
    assert zookeeper.create("/a/m_", sequential=True) == "/a/m_0000000001"
    zookeeper.delete("/a/m_0000000001", ANY_VERSION)
    assert zookeeper.create("/a/n_", b"d", sequential=True) == "/a/n_0000000002"
    assert zookeeper.children("/a") == ["n_0000000000", "n_0000000002"]


def test_missing_parents_are_made_when_asked_for(zookeeper):
    assert zookeeper.create("/a/b/c", b"d", make_parents=True) == "/a/b/c"
    assert zookeeper.get("/a/b")[0] == b""
    zookeeper.create("/a/b/d", make_parents=True)
    assert zookeeper.children("/a/b") == ["c", "d"]


@pytest.mark.parametrize(
    ("attempt", "error"),
    [
        pytest.param(lambda zk: zk.get("/none"), NoNodeError, id="get what is not there"),
        pytest.param(lambda zk: zk.children("/none"), NoNodeError, id="list what is not there"),
        pytest.param(lambda zk: zk.set("/none", b"", ANY_VERSION), NoNodeError, id="set what is not there"),
        pytest.param(lambda zk: zk.delete("/none", ANY_VERSION), NoNodeError, id="delete what is not there"),
        pytest.param(lambda zk: zk.create("/none/child"), NoNodeError, id="create without parent"),
        pytest.param(lambda zk: zk.create("/a"), NodeExistsError, id="create twice"),
        pytest.param(lambda zk: zk.set("/a", b"", 5), BadVersionError, id="set another version"),
        pytest.param(lambda zk: zk.delete("/a/b", 5), BadVersionError, id="delete another version"),
        pytest.param(lambda zk: zk.delete("/a", 0), NotEmptyError, id="delete a parent"),
        pytest.param(lambda zk: zk.delete("/a", 5), BadVersionError, id="delete another version of a parent"),
        pytest.param(lambda zk: zk.create("/e/child"), EphemeralParentError, id="create below an ephemeral znode"),
        pytest.param(lambda zk: zk.multi([Check(path="/a", version=5)]), BadVersionError, id="check another version"),
        pytest.param(lambda zk: zk.multi([Check(path="/none", version=0)]), NoNodeError, id="check nothing"),
        pytest.param(
            lambda zk: zk.create("/big", b"x" * REQUEST_BYTES_MAX), ConnectionLostError, id="a request too long"
        ),
    ],
)
def test_what_fails_says_why(zookeeper, attempt, error):
    zookeeper.create("/a")
    zookeeper.create("/a/b")
    zookeeper.create("/e", ephemeral=True)
    with pytest.raises(error):
        attempt(zookeeper)


@pytest.mark.parametrize("path", ["relative", "/a//b", "/a/"])
def test_a_path_that_is_none_is_refused(zookeeper, path):
    with pytest.raises((ValueError, ZooKeeperError)):
        zookeeper.create(path)


def test_ephemeral_znodes_end_with_their_session(world):
    other = world.open()
    other.create("/e", b"here", ephemeral=True)
    assert world.zookeeper.get("/e")[1].ephemeral_owner == other.session_id
    heard = Heard()
    world.zookeeper.exists("/e", watch=heard)
    world.expire(other)
    assert heard.wait() == [(WatchEventKind.DELETED, "/e")]
    assert world.zookeeper.exists("/e") is None


def test_an_expired_session_can_do_nothing_more(world):
    other = world.open()
    world.expire(other)
    with pytest.raises(SessionExpiredError):
        other.get("/")


def test_a_transaction_does_all_at_one_zxid(zookeeper):
    zookeeper.create("/a", b"0")
    zookeeper.create("/old")
    created, stat, checked, deleted, numbered = zookeeper.multi(
        [
            Create(path="/b", data=b"1"),
            Set(path="/a", data=b"2", version=0),
            Check(path="/a", version=1),
            Delete(path="/old", version=0),
            Create(path="/b/n_", sequential=True),
        ]
    )
    assert (created, checked, deleted, numbered) == ("/b", None, None, "/b/n_0000000000")
    assert stat == zookeeper.exists("/a")
    assert zookeeper.exists("/b").czxid == stat.mzxid == zookeeper.exists("/b/n_0000000000").czxid
    assert zookeeper.exists("/old") is None


@pytest.mark.parametrize(
    ("culprit", "error"),
    [
        pytest.param(Check(path="/a", version=9), BadVersionError, id="a version"),
        pytest.param(Create(path="/a"), NodeExistsError, id="a creation"),
        pytest.param(Delete(path="/none", version=ANY_VERSION), NoNodeError, id="a deletion"),
    ],
)
def test_a_failed_transaction_does_nothing_and_names_its_culprit(zookeeper, culprit, error):
    zookeeper.create("/a", b"0")
    before = zookeeper.exists("/a")
    parent = zookeeper.exists("/")
    with pytest.raises(error) as failure:
        zookeeper.multi([Set(path="/a", data=b"1", version=0), Create(path="/b"), culprit, Create(path="/c")])
    assert failure.value.failed_operation == 2
    assert zookeeper.get("/a") == (b"0", before)
    assert zookeeper.exists("/") == parent
    assert zookeeper.children("/") == ["a"]


def test_many_transactions_each_stand_alone(zookeeper):
    zookeeper.create("/a", b"0")
    taken, refused, last = zookeeper.multi_all(
        [
            [Set(path="/a", data=b"1", version=0)],
            [Check(path="/a", version=1), Create(path="/a")],
            [Create(path="/b")],
        ]
    )
    assert taken == [zookeeper.exists("/a")]
    assert isinstance(refused, NodeExistsError)
    assert refused.failed_operation == 1
    assert last == ["/b"]


def test_two_hundred_transactions_are_answered_in_order(zookeeper):
    zookeeper.create("/a")
    results = zookeeper.multi_all([[Create(path="/a/n_", sequential=True)] for _ in range(210)])
    assert results == [[f"/a/n_{number:010d}"] for number in range(210)]


def test_many_are_read_at_once(zookeeper):
    zookeeper.create("/a", b"x")
    zookeeper.create("/b")
    assert zookeeper.get_many(["/b", "/none", "/a", "/"]) == [
        zookeeper.get("/b"),
        None,
        zookeeper.get("/a"),
        zookeeper.get("/"),
    ]
    assert zookeeper.get_many([]) == []


def test_more_are_read_than_fit_one_request(zookeeper):
    zookeeper.multi([Create(path=f"/n{number}", data=b"%d" % number) for number in range(2100)])
    found = zookeeper.get_many([f"/n{number}" for number in range(2100)])
    assert [data for data, _ in found] == [b"%d" % number for number in range(2100)]


WATCHED = [
    pytest.param("exists", "/new", lambda zk: zk.create("/new"), WatchEventKind.CREATED, id="a birth"),
    pytest.param("exists", "/a", lambda zk: zk.set("/a", b"1", ANY_VERSION), WatchEventKind.CHANGED, id="a change"),
    pytest.param(
        "get", "/a", lambda zk: zk.set("/a", b"1", ANY_VERSION), WatchEventKind.CHANGED, id="a change of what was read"
    ),
    pytest.param("get", "/a/b", lambda zk: zk.delete("/a/b", 0), WatchEventKind.DELETED, id="a death"),
    pytest.param("children", "/a", lambda zk: zk.create("/a/c"), WatchEventKind.CHILDREN, id="a child's birth"),
    pytest.param("children", "/a", lambda zk: zk.delete("/a/b", 0), WatchEventKind.CHILDREN, id="a child's death"),
    pytest.param(
        "children", "/a/b", lambda zk: zk.delete("/a/b", 0), WatchEventKind.DELETED, id="death of what was listed"
    ),
]


@pytest.mark.parametrize(("method", "path", "change", "kind"), WATCHED)
def test_a_watch_hears_of(world, method, path, change, kind):
    world.zookeeper.create("/a")
    world.zookeeper.create("/a/b")
    heard = Heard()
    getattr(world.zookeeper, method)(path, watch=heard)
    change(world.open())
    assert heard.wait() == [(kind, path)]


def test_a_watch_fires_once(world):
    world.zookeeper.create("/a")
    first, second = Heard(), Heard()
    world.zookeeper.get("/a", watch=first)
    world.zookeeper.set("/a", b"1", ANY_VERSION)
    first.wait()
    world.zookeeper.get("/a", watch=second)
    world.zookeeper.set("/a", b"2", ANY_VERSION)
    second.wait()
    assert len(first.events) == 1


def test_a_watch_on_data_does_not_hear_of_children(world):
    world.zookeeper.create("/a")
    heard = Heard()
    world.zookeeper.get("/a", watch=heard)
    world.zookeeper.create("/a/b")
    world.zookeeper.set("/a", b"1", ANY_VERSION)
    assert heard.wait() == [(WatchEventKind.CHANGED, "/a")]


def test_sync_waits_for_earlier_writes(world):
    world.zookeeper.create("/a")
    other = world.open()
    other.sync("/a")
    assert other.exists("/a") is not None


def test_the_memory_denies_what_it_is_told_to():
    server = MemoryServer()
    zookeeper = server.session()
    zookeeper.create("/config/users/alice", make_parents=True)
    server.denied.add("/config/users")
    for attempt in (zookeeper.get, zookeeper.children, lambda path: zookeeper.get_many([path])):
        with pytest.raises(NoAuthError):
            attempt("/config/users/alice")


def test_the_clock_of_the_memory_moves_when_told():
    server = MemoryServer()
    zookeeper = server.session()
    zookeeper.create("/a")
    before = zookeeper.exists("/a")
    server.advance(1500)
    after = zookeeper.set("/a", b"", ANY_VERSION)
    assert (after.ctime, after.mtime) == (before.ctime, before.mtime + 1500)


# ---- what only a real server shows -----------------------------------------------------------------------------------


@pytest.mark.services
def test_a_missing_chroot_is_named(server):
    with pytest.raises(NoNodeError, match="/no/such/chroot"), connect(f"{server.hosts}/no/such/chroot"):
        pass


def test_a_server_that_is_not_there_is_named():
    with pytest.raises(ZooKeeperUnreachableError, match=r"127\.0\.0\.1:1"), connect("127.0.0.1:1", timeout_s=0.5):
        pass


@pytest.mark.services
@pytest.mark.parametrize("world", ["real"], indirect=True)
def test_a_session_that_kazoo_replaced_in_silence_is_stopped_by_the_fence_of_its_lock(world):
    world.zookeeper.create("/admin")
    ours = world.open()
    first, second = (Holder("f" * 64, run, "eve", "2026-11-21T02:59:00+00:00") for run in ("run-1", "run-2"))
    with cluster_lock(ours, first, wait_s=0) as fence:
        expired = ours.session_id
        world.expire(ours)
        with cluster_lock(world.open(), second, wait_s=0):
            wait_until(
                lambda: ours.session_id not in {0, expired}, what="kazoo has opened another session", timeout_s=20
            )
            with pytest.raises(NoNodeError):
                ours.multi([fence, Create(path="/written")])
        assert world.zookeeper.children("/admin") == []
    assert world.zookeeper.exists("/written") is None


@pytest.mark.services
def test_an_older_server_is_read_one_by_one(server):
    with connect(f"{server.hosts}/old", create_chroot=True) as zookeeper:
        zookeeper.create("/a", b"x")
        together = zookeeper.get_many(["/a", "/none"])
        zookeeper._multi_read_known = False
        assert zookeeper.get_many(["/a", "/none"]) == together == [zookeeper.get("/a"), None]


@pytest.mark.services
def test_digest_credentials_open_what_they_closed(server):
    owner = ZooKeeperAuth(scheme="digest", username="kafka", password="secret")
    with connect(f"{server.hosts}/digest", auth=owner, acl=CREATOR_ALL, create_chroot=True) as zookeeper:
        zookeeper.create("/mine", b"x")
        assert zookeeper.get("/mine")[0] == b"x"
        with connect(server.hosts) as stranger:
            for attempt in (
                lambda: stranger.get("/digest/mine"),
                lambda: stranger.get_many(["/digest/mine"]),
                lambda: stranger.multi([Set(path="/digest/mine", data=b"", version=0)]),
            ):
                with pytest.raises(NoAuthError, match="/digest/mine"):
                    attempt()


@pytest.mark.services
def test_a_sasl_session_writes_as_the_brokers_do(secured_server):
    brokers = ZooKeeperAuth(scheme="sasl", username="kafka", password="kafka-secret")
    with connect(secured_server.hosts, auth=brokers) as zookeeper, connect(secured_server.hosts) as anonymous:
        zookeeper.create("/admin", b"x")
        assert anonymous.get("/admin")[0] == b"x"
        with pytest.raises(NoAuthError):
            anonymous.create("/admin/child")
        zookeeper.create("/admin/child")


def close_before_it_is_heard(client, timeout):
    """`KazooClient.start` on a busy machine: the refusal comes before the session was seen."""
    heard = []
    client.add_listener(heard.append)
    client.start_async()
    wait_until(lambda: KazooState.LOST in heard, what="kazoo has closed the client", timeout_s=timeout)
    client.stop()
    client.close()
    raise KazooTimeoutError("Connection time-out")


@pytest.mark.services
@pytest.mark.parametrize("start", [KazooClient.start, close_before_it_is_heard], ids=["at once", "after the refusal"])
def test_refused_credentials_are_named(secured_server, start, monkeypatch):
    monkeypatch.setattr(KazooClient, "start", start)
    wrong = ZooKeeperAuth(scheme="sasl", username="kafka", password="wrong")
    with pytest.raises(NoAuthError, match="credentials"), connect(secured_server.hosts, auth=wrong, timeout_s=10):
        pass
    assert "wrong" not in repr(wrong)
