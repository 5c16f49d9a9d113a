"""ZooKeeper in memory: one tree, many sessions, transactions, watches, and a clock that moves when the caller moves it to.

The contract tests (`tests/contracts/test_zookeeper.py`) hold it to a real server.
Source: ZooKeeper 3.9 `DataTree`, `PrepRequestProcessor`, `DataNode.copyStat`.
"""

import threading
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Self

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
)
from controller_core.ports.zookeeper import (
    ANY_VERSION,
    Acl,
    Check,
    Create,
    Delete,
    Operation,
    Set,
    Watcher,
    WatchEvent,
    WatchEventKind,
    ZnodeStat,
    require_path,
)

REQUEST_BYTES_MAX = 1_048_575
"""The server drops the connection of a longer request (`jute.maxbuffer`)."""
_START_MS = 1_700_000_000_000
_FIRST_SESSION = 0x1000_0000_0000


class Applied(NamedTuple):
    """A transaction that took effect: who did it, and the paths it touched, with what happened to each."""

    zxid: int
    changes: tuple[WatchEvent, ...]
    session_id: int


@dataclass(slots=True)
class _Znode:
    data: bytes
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    owner: int
    pzxid: int
    version: int = 0
    births: int = 0  # of children; numbers the sequential ones
    children: set[str] = field(default_factory=set)

    def stat(self) -> ZnodeStat:
        cversion = 2 * self.births - len(self.children)  # the server counts births and deaths
        return ZnodeStat(
            *(self.czxid, self.mzxid, self.ctime, self.mtime, self.version, cversion, 0),
            *(self.owner, len(self.data), len(self.children), self.pzxid),
        )


class MemoryServer:
    """The tree that sessions share.

    Attributes:
        clock_ms: the time that new znodes carry, milliseconds since 1970; `advance` moves it.
        zxid: id of the last transaction.
        denied: paths whose subtree no session may read or write.
    """

    def __init__(self) -> None:
        self.clock_ms = _START_MS
        self.zxid = 0
        self.denied: set[str] = set()
        self._lock = threading.RLock()
        self._znodes = {"/": _Znode(b"", 0, 0, 0, 0, 0, 0)}
        self._sessions: dict[int, MemoryZooKeeper] = {}
        self._next_session = _FIRST_SESSION
        self._listeners: list[Callable[[Applied], None]] = []

    def session(self, *, chroot: str = "") -> "MemoryZooKeeper":
        """A new session; `chroot` is "" or a path without a trailing slash."""
        return MemoryZooKeeper(self, chroot=chroot)

    def advance(self, milliseconds: int) -> None:
        """Let time pass."""
        self.clock_ms += milliseconds

    def listen(self, listener: Callable[[Applied], None]) -> None:
        """Call `listener` after each transaction that took effect, before any watch hears of it."""
        self._listeners.append(listener)

    def expire(self, session_id: int) -> None:
        """End a session as the server does when it hears nothing of it: its ephemeral znodes vanish."""
        with self._lock:
            session = self._sessions.pop(session_id, None)
            if session is None:
                return
            owned = [path for path, znode in self._znodes.items() if znode.owner == session_id]
            self._commit([_Delete(path, ANY_VERSION) for path in sorted(owned)], session_id)
            session.lose()

    def snapshot(self) -> dict[str, bytes]:
        """Path → data of the whole tree."""
        return {path: znode.data for path, znode in sorted(self._znodes.items())}

    # ---- what sessions call; paths are the server's ----

    def _join(self, session: "MemoryZooKeeper") -> int:
        with self._lock:
            session_id = self._next_session
            self._next_session += 1
            self._sessions[session_id] = session
            self.zxid += 1  # a session's birth is a transaction
            return session_id

    def _find(self, path: str, attempt: str) -> _Znode:
        self._permit(path, attempt)
        znode = self._znodes.get(path)
        if znode is None:
            raise NoNodeError(f"{attempt} {path}: expected a znode, found none")
        return znode

    def _permit(self, path: str, attempt: str) -> None:
        if any(path == root or path.startswith(f"{root}/") for root in self.denied):
            raise NoAuthError(f"{attempt} {path}: the session has no permission; authenticate as the brokers do")

    def _commit(self, operations: Sequence["_Change"], session_id: int) -> list[str | ZnodeStat | None]:
        """Carry out all or nothing; watches hear of it when all is done."""
        zxid = self.zxid + 1
        undo: list[tuple[str, _Znode | None]] = []
        changes: list[WatchEvent] = []
        results: list[str | ZnodeStat | None] = []
        for index, operation in enumerate(operations):
            try:
                results.append(self._apply(operation, zxid, session_id, undo, changes))
            except ZooKeeperError as error:
                for path, before in reversed(undo):
                    self._restore(path, before)
                error.failed_operation = index
                raise
        self.zxid = zxid
        if changes:
            self._announce(Applied(zxid, tuple(changes), session_id))
        return results

    def _apply(
        self,
        operation: "_Change",
        zxid: int,
        session_id: int,
        undo: list[tuple[str, _Znode | None]],
        changes: list[WatchEvent],
    ) -> str | ZnodeStat | None:
        match operation:
            case _Create():
                return self._create(operation, zxid, session_id, undo, changes)
            case _Set(path, data, version):
                znode = self._versioned(path, version, "set")
                undo.append((path, _copy(znode)))
                znode.data, znode.mzxid, znode.mtime = data, zxid, self.clock_ms
                znode.version += 1
                changes.append(WatchEvent(WatchEventKind.CHANGED, path))
                return znode.stat()
            case _Delete(path, version):
                self._delete(path, version, zxid, undo, changes)
                return None
            case _Check(path, version):
                self._versioned(path, version, "check")
                return None

    def _create(
        self,
        operation: "_Create",
        zxid: int,
        session_id: int,
        undo: list[tuple[str, _Znode | None]],
        changes: list[WatchEvent],
    ) -> str:
        path, above = operation.path, _parent(operation.path)
        self._permit(path, "create")
        parent = self._znodes.get(above)
        if parent is None:
            raise NoNodeError(f"create {path}: expected a parent {above}, found none; create it first")
        if operation.sequential:
            path = f"{path}{parent.births:010d}"
        if path in self._znodes:
            raise NodeExistsError(f"create {path}: expected none, found one")
        if parent.owner:
            raise EphemeralParentError(f"create {path}: {above} is ephemeral and cannot have children")
        undo += [(path, None), (above, _copy(parent))]
        owner = session_id if operation.ephemeral else 0
        self._znodes[path] = _Znode(operation.data, zxid, zxid, self.clock_ms, self.clock_ms, owner, zxid)
        parent.children.add(path.rpartition("/")[2])
        parent.births += 1
        parent.pzxid = zxid
        changes += [WatchEvent(WatchEventKind.CREATED, path), WatchEvent(WatchEventKind.CHILDREN, above)]
        return path

    def _delete(
        self, path: str, version: int, zxid: int, undo: list[tuple[str, _Znode | None]], changes: list[WatchEvent]
    ) -> None:
        znode = self._versioned(path, version, "delete")
        if znode.children:
            raise NotEmptyError(f"delete {path}: expected no children, found {len(znode.children)}; delete them first")
        above = _parent(path)
        parent = self._znodes[above]
        undo += [(above, _copy(parent)), (path, _copy(znode))]
        del self._znodes[path]
        parent.children.discard(path.rpartition("/")[2])
        parent.pzxid = zxid
        changes += [WatchEvent(WatchEventKind.DELETED, path), WatchEvent(WatchEventKind.CHILDREN, above)]

    def _versioned(self, path: str, version: int, attempt: str) -> _Znode:
        znode = self._find(path, attempt)
        if version not in {ANY_VERSION, znode.version}:
            raise BadVersionError(f"{attempt} {path}: expected version {version}, found {znode.version}; read it again")
        return znode

    def _restore(self, path: str, before: _Znode | None) -> None:
        if before is None:
            self._znodes.pop(path, None)
        else:
            self._znodes[path] = before

    def _announce(self, applied: Applied) -> None:
        for listener in self._listeners:
            listener(applied)
        for session in list(self._sessions.values()):
            session.hear(applied.changes)


class MemoryZooKeeper:
    """A session with a `MemoryServer`; implements `ports.ZooKeeper`.

    Watches are called as soon as the transaction that they report is over, before the call that caused it returns.
    """

    def __init__(self, server: MemoryServer | None = None, *, chroot: str = "") -> None:
        self.server = server or MemoryServer()
        self.chroot = chroot
        self._data_watches: dict[str, list[Watcher]] = {}
        self._child_watches: dict[str, list[Watcher]] = {}
        self._expired = False
        self._session_id = self.server._join(self)  # noqa: SLF001 -- server and session are one module

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def session_id(self) -> int:
        """As in the stat of its ephemeral znodes."""
        return self._session_id

    def close(self) -> None:
        """End the session; its ephemeral znodes vanish."""
        self.server.expire(self._session_id)

    def get(self, path: str, *, watch: Watcher | None = None) -> tuple[bytes, ZnodeStat]:
        """See `ports.ZooKeeper`."""
        with self._turn():
            znode = self.server._find(self._full(path), "get")  # noqa: SLF001
            self._watch(self._data_watches, path, watch)
            return znode.data, znode.stat()

    def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, ZnodeStat] | None]:
        """See `ports.ZooKeeper`; all are read at one moment."""
        with self._turn():
            return [self._data_or_none(path) for path in paths]

    def exists(self, path: str, *, watch: Watcher | None = None) -> ZnodeStat | None:
        """See `ports.ZooKeeper`."""
        with self._turn():
            found = self.server._znodes.get(self._full(path))  # noqa: SLF001
            self._watch(self._data_watches, path, watch)
            return found.stat() if found else None

    def children(self, path: str, *, watch: Watcher | None = None) -> list[str]:
        """See `ports.ZooKeeper`."""
        with self._turn():
            znode = self.server._find(self._full(path), "list the children of")  # noqa: SLF001
            self._watch(self._child_watches, path, watch)
            return sorted(znode.children)

    def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        make_parents: bool = False,
        acl: tuple[Acl, ...] | None = None,
    ) -> str:
        """See `ports.ZooKeeper`; ACLs are not kept."""
        operation = Create(path=path, data=data, ephemeral=ephemeral, sequential=sequential, acl=acl)
        if make_parents:
            for parent in _parents(path):
                if self.exists(parent) is None:
                    self.create(parent)
        (created,) = self.multi([operation])
        return str(created)

    def set(self, path: str, data: bytes, version: int) -> ZnodeStat:
        """See `ports.ZooKeeper`."""
        (stat,) = self.multi([Set(path=path, data=data, version=version)])
        assert isinstance(stat, ZnodeStat)
        return stat

    def delete(self, path: str, version: int) -> None:
        """See `ports.ZooKeeper`."""
        self.multi([Delete(path=path, version=version)])

    def multi(self, operations: Sequence[Operation]) -> list[str | ZnodeStat | None]:
        """See `ports.ZooKeeper`."""
        with self._turn():
            size = sum(len(each.path) + len(getattr(each, "data", b"")) for each in operations)
            if size > REQUEST_BYTES_MAX:
                raise ConnectionLostError(
                    f"{len(operations)} operations of {size} bytes: the server drops requests over {REQUEST_BYTES_MAX}; "
                    "write less at once"
                )
            results = self.server._commit([self._change(each) for each in operations], self._session_id)  # noqa: SLF001
        return [self._visible(result) if isinstance(result, str) else result for result in results]

    def multi_all(
        self, transactions: Sequence[Sequence[Operation]]
    ) -> list[list[str | ZnodeStat | None] | ZooKeeperError]:
        """See `ports.ZooKeeper`."""
        results: list[list[str | ZnodeStat | None] | ZooKeeperError] = []
        for operations in transactions:
            try:
                results.append(self.multi(operations))
            except ZooKeeperError as error:
                results.append(error)
        return results

    def sync(self, path: str) -> None:
        """See `ports.ZooKeeper`; there is one server, which knows everything."""
        with self._turn():
            self._full(path)

    # ---- called by the server ----

    def hear(self, changes: Iterable[WatchEvent]) -> None:
        """Call the watches that these changes, by the server's paths, fire."""
        for change in changes:
            if not f"{change.path}/".startswith(f"{self.chroot}/"):
                continue
            event = WatchEvent(change.kind, self._visible(change.path))
            for watch in self._fired(event):
                watch(event)

    def lose(self) -> None:
        """The session ended: every call fails from now on, every watch hears of it."""
        self._expired = True
        watches = [each for table in (self._data_watches, self._child_watches) for each in table.items()]
        self._data_watches, self._child_watches = {}, {}
        for path, waiting in watches:
            for watch in waiting:
                watch(WatchEvent(WatchEventKind.LOST, path))

    def _fired(self, event: WatchEvent) -> list[Watcher]:
        match event.kind:
            case WatchEventKind.CHILDREN:
                return self._child_watches.pop(event.path, [])
            case WatchEventKind.DELETED:
                return self._data_watches.pop(event.path, []) + self._child_watches.pop(event.path, [])
            case _:
                return self._data_watches.pop(event.path, [])

    def _turn(self) -> threading.RLock:
        if self._expired:
            raise SessionExpiredError(f"session {self._session_id:#x} is over; open another one")
        return self.server._lock  # noqa: SLF001

    def _data_or_none(self, path: str) -> tuple[bytes, ZnodeStat] | None:
        full = self._full(path)
        self.server._permit(full, "get")  # noqa: SLF001
        znode = self.server._znodes.get(full)  # noqa: SLF001
        return None if znode is None else (znode.data, znode.stat())

    def _watch(self, table: dict[str, list[Watcher]], path: str, watch: Watcher | None) -> None:
        waiting = table.setdefault(path, []) if watch else []
        if watch and watch not in waiting:
            waiting.append(watch)

    def _change(self, operation: Operation) -> "_Change":
        path = self._full(operation.path)
        match operation:
            case Create(data=data, ephemeral=ephemeral, sequential=sequential):
                return _Create(path, data, ephemeral, sequential)
            case Set(data=data, version=version):
                return _Set(path, data, version)
            case Delete(version=version):
                return _Delete(path, version)
            case Check(version=version):
                return _Check(path, version)

    def _full(self, path: str) -> str:
        return (self.chroot + require_path(path)).rstrip("/") or "/"

    def _visible(self, path: str) -> str:
        return path.removeprefix(self.chroot) or "/"


class _Create(NamedTuple):
    path: str
    data: bytes
    ephemeral: bool
    sequential: bool


class _Set(NamedTuple):
    path: str
    data: bytes
    version: int


class _Delete(NamedTuple):
    path: str
    version: int


class _Check(NamedTuple):
    path: str
    version: int


_Change = _Create | _Set | _Delete | _Check
"""Operations with the server's paths."""


def _copy(znode: _Znode) -> _Znode:
    return _Znode(
        *(znode.data, znode.czxid, znode.mzxid, znode.ctime, znode.mtime, znode.owner, znode.pzxid),
        *(znode.version, znode.births, set(znode.children)),
    )


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def _parents(path: str) -> list[str]:
    names = path.split("/")[1:-1]
    return ["/" + "/".join(names[: index + 1]) for index in range(len(names))]
