"""A watch outlives a broken connection, and is told what it missed, as ZooKeeper's own client has it."""

import pytest

from controller_core.ports.zookeeper import ANY_VERSION, WatchEvent, WatchEventKind
from controller_core.runtime.retrying_session import RetryingZooKeeper
from controller_core.runtime.simulated.zookeeper import MemoryServer, MemoryZooKeeper

K = WatchEventKind


class Breaking(MemoryZooKeeper):
    """Its connection can break: watches are lost, the session is not."""

    def break_connection(self, meanwhile):
        watches = [
            each for table in (self._data_watches, self._child_watches) for all_ in table.values() for each in all_
        ]
        self._data_watches, self._child_watches = {}, {}
        meanwhile()
        for each in watches:
            each(WatchEvent(K.LOST, "/"))


def nothing(_=None):
    pass


@pytest.fixture
def there():
    """A session that can break, the one that is kept, another one, and what a watch was told."""
    server = MemoryServer()
    breaking = Breaking(server)
    other, told = server.session(), []
    other.create("/a")
    return breaking, RetryingZooKeeper(breaking), other, told


@pytest.mark.parametrize("begin", ["exists", "get"])
@pytest.mark.parametrize(
    ("meanwhile", "missed"),
    [
        (nothing, []),
        (lambda other: other.set("/a", b"1", ANY_VERSION), [K.CHANGED]),
        (lambda other: other.delete("/a", ANY_VERSION), [K.DELETED]),
        (lambda other: other.create("/a/b"), []),
    ],
)
def test_what_happened_to_a_znode_meanwhile_is_told(there, begin, meanwhile, missed):
    breaking, kept, other, told = there
    getattr(kept, begin)("/a", watch=told.append)
    breaking.break_connection(lambda: meanwhile(other))
    assert told == [WatchEvent(kind, "/a") for kind in missed]


def test_a_birth_is_told(there):
    breaking, kept, other, told = there
    kept.exists("/x", watch=told.append)
    breaking.break_connection(nothing)
    assert told == []
    breaking.break_connection(lambda: other.create("/x"))
    assert told == [WatchEvent(K.CREATED, "/x")]


@pytest.mark.parametrize(
    ("meanwhile", "missed"),
    [
        (nothing, []),
        (lambda other: other.create("/a/b"), [K.CHILDREN]),
        (lambda other: other.set("/a", b"1", ANY_VERSION), []),
        (lambda other: other.delete("/a", ANY_VERSION), [K.DELETED]),
    ],
)
def test_what_happened_to_children_meanwhile_is_told(there, meanwhile, missed):
    breaking, kept, other, told = there
    kept.children("/a", watch=told.append)
    breaking.break_connection(lambda: meanwhile(other))
    assert told == [WatchEvent(kind, "/a") for kind in missed]


def test_the_watch_goes_on(there):
    breaking, kept, other, told = there
    kept.exists("/a", watch=told.append)
    kept.children("/a", watch=told.append)
    for _ in range(2):
        breaking.break_connection(nothing)
    other.set("/a", b"1", ANY_VERSION)
    other.create("/a/b")
    assert told == [WatchEvent(K.CHANGED, "/a"), WatchEvent(K.CHILDREN, "/a")]


def test_it_is_lost_with_the_session(there):
    breaking, kept, _, told = there
    kept.exists("/a", watch=told.append)
    breaking.close()
    assert [event.kind for event in told] == [K.LOST]
