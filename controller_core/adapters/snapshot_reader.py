"""Reads a whole tree as it was after one transaction, while the cluster goes on writing.

The tree is scanned in large multi-reads while a recursive watch names every change; then the changed znodes alone are read
again, in one multi-read, until no change outside that set came before its reply. ZooKeeper delivers the event of a
transaction before any reply that shows it, and answers one multi-read from one state, so the tree is then exactly the
state after the reply's zxid. Servers older than 3.6 have neither: two passes are compared instead.
Source: snapshot-design §2; docs/snapshots.md holds the proof and the measurements.
"""

# ruff: noqa: SLF001 -- kazoo lacks public ways to submit these requests and to see events in wire order; kazoo is pinned

import gc
import json
import struct
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, Final, Literal, Self

from kazoo.client import KazooClient
from kazoo.exceptions import (
    AuthFailedError,
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    OperationTimeoutError,
    UnimplementedError,
)
from kazoo.exceptions import (
    NoAuthError as KazooNoAuthError,
)
from kazoo.exceptions import (
    NoNodeError as KazooNoNodeError,
)
from kazoo.exceptions import (
    SessionExpiredError as KazooSessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.serialization import Watch
from kazoo.protocol.states import KazooState

from controller_core.adapters.zookeeper_requests import (
    GET_CHILDREN,
    GET_DATA,
    NO_AUTH,
    NO_NODE,
    READ_OVERHEAD_BYTES,
    REQUEST_BYTES_MAX,
    STAT,
    AddWatch,
    Answer,
    Children,
    Data,
    Failed,
    MultiRead,
    bounded,
)
from controller_core.errors import (
    ConnectionLostError,
    NoAuthError,
    NoNodeError,
    ZooKeeperError,
    ZooKeeperUnreachableError,
)

_NUM_CHILDREN: Final = struct.Struct("!56xi8x")
_MULTI_READ_SINCE: Final = (3, 6)
_CHANGED: Final = 3
_HOTTEST_COUNT: Final = 128
_HOTTEST_FROM_ROUND: Final = 3
_OPEN_ACL: Final = '[[31, "world", "anyone"]]'
_CONNECTION_ERRORS: Final = (
    ConnectionLoss,
    ConnectionClosedError,
    KazooSessionExpiredError,
    OperationTimeoutError,
    KazooTimeoutError,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a read is: znodes so far, how many there may be (all of the server's; None unknown), seconds since the start."""

    phase: Literal["scan", "settle", "second pass", "acls"]
    read: int
    expected: int | None
    elapsed_s: float

    @property
    def rate(self) -> float:
        """Znodes per second since the start."""
        return self.read / self.elapsed_s if self.elapsed_s else 0.0

    @property
    def eta_s(self) -> float | None:
        """Seconds that the phase may still take; None when nobody knows."""
        if not self.expected or not self.rate:
            return None
        return max(self.expected - self.read, 0) / self.rate


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What a read may cost the cluster, and how sure it must be.

    One connection, at most `window` requests in flight, each of at most `batch_count` znodes and (from the second of a
    kind on) about `reply_bytes` of reply, with `pause_s` between them.
    `rule`: "events" accepts a cut when no event came from outside the znodes just read; "strict" when none came at all.
    `method`: "auto" takes the cut where the server can (3.6+), else the two passes.
    `acls`: "auto" reads all ACLs when one of a few looked at is not open to everybody.
    """

    batch_count: int = 1000
    reply_bytes: int = 4 << 20
    window: int = 3
    pause_s: float = 0.0
    rule: Literal["events", "strict"] = "events"
    method: Literal["auto", "cut", "two_pass", "plain"] = "auto"
    acls: Literal["auto", "always", "never"] = "auto"
    rounds_max: int = 1000
    attempts_max: int = 5
    reply_timeout_s: float = 60.0
    left_alone: tuple[str, ...] = ("/zookeeper",)  # ZooKeeper's own, at the root of the ensemble


Znode = Data
"""A znode as it was read: its data, and its stat as ZooKeeper's 68 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A tree, and how sure it is.

    Attributes:
        znodes: path below the chroot → znode; of all that could be read.
        unreadable: paths that ZooKeeper refused, with their stat at the cut (None when it changed since); what lies below
            them is unknown.
        zxid: the tree is the state after this transaction, if `consistent`.
        consistent: proven; `reason` says why it is not.
        unresolved: how many paths stayed uncertain.
        rounds: settling reads; `attempts`: starts, more than one after a lost connection.
        method: "cut", "two_pass" or "plain" (a scan without a proof, for measurements).
        acls: path → JSON `[[perms, scheme, id], …]`; empty when the cluster is not secured.
        server_version: as the server says, or "unknown".
        scan_zxids: first and last zxid seen while scanning.
        seconds: of the successful attempt: (scan, settle).
    """

    znodes: dict[str, Znode] = field(repr=False)
    unreadable: dict[str, bytes | None] = field(repr=False)
    zxid: int
    consistent: bool
    reason: str | None
    unresolved: int
    rounds: int
    attempts: int
    method: str
    acls: dict[str, str] = field(repr=False)
    secured: bool
    server_version: str
    scan_zxids: tuple[int, int]
    seconds: tuple[float, float]


def read_cut(
    client: KazooClient,
    options: ReadOptions | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Cut:
    """The tree below the client's chroot as of one transaction.

    Args:
        client: started; its session should serve nothing else, for the watch stays until the connection ends.
        options: None for the defaults.
        progress: told after every reply, in this thread.

    Errors: `NoNodeError` when the chroot does not exist, `NoAuthError` when its root may not be read,
    `ZooKeeperUnreachableError` when the connection could not be kept, `ZooKeeperError` for what the server refuses.
    """
    options = options or ReadOptions()
    with translated_errors(client), _no_garbage_collection(), _Wire(client, options.reply_timeout_s) as wire:
        version, node_count = wire.server()
        method = options.method
        if method == "auto":
            method = "cut" if version is None or version >= _MULTI_READ_SINCE else "two_pass"
        told = _Teller(progress, node_count)
        try:
            cut = _with_attempts(wire, options, told, method)
        except UnimplementedError:
            if options.method != "auto":
                raise
            cut = _with_attempts(wire, options, told, "two_pass")  # an older server that does not tell its version
        acls, secured = _read_acls(wire, cut, options, told)
        return replace(cut, acls=acls, secured=secured, server_version=_version_text(version))


def _with_attempts(wire: "_Wire", options: ReadOptions, told: "_Teller", method: str) -> Cut:
    attempt = 0
    while True:
        attempt += 1
        # A server drops the connection of a request or reply that it finds too large: each new attempt asks for less.
        smaller = replace(options, batch_count=max(1, options.batch_count >> 2 * (attempt - 1)))
        try:
            if method == "two_pass":
                cut = _two_passes(wire, smaller, told)
            else:
                cut = _one_cut(wire, smaller, told, settle=method == "cut")
        except _CONNECTION_ERRORS as error:
            if attempt >= options.attempts_max:
                raise ZooKeeperUnreachableError(
                    f"tree at {wire.hosts} not read: the connection broke {attempt} times, last with "
                    f"{type(error).__name__} at {smaller.batch_count} znodes per request; expected one connection to last "
                    "for the whole read: check the server's log, jute.maxbuffer and the session timeout, then run again"
                ) from error
            wire.wait_until_connected()
        else:
            return replace(cut, attempts=attempt)


# ------------------------------------------------------------------------------------------------- the consistent cut


def _one_cut(wire: "_Wire", options: ReadOptions, told: "_Teller", *, settle: bool) -> Cut:
    wire.begin()
    began = time.monotonic()
    told.begin("scan")
    if settle:
        wire.call(AddWatch(wire.full("/")))
    wire.sync()
    first_zxid = wire.zxid()
    znodes, denied = _scan(wire, options, told)
    scanned = time.monotonic()
    scan_zxids = (first_zxid, wire.zxid())
    if settle:
        zxid, unresolved, rounds = _settle(wire, options, told, znodes, denied)
    else:
        zxid, unresolved, rounds = scan_zxids[1], 0, 0
    wire.require_unbroken()
    reason = None
    if not settle:
        reason = "plain scan, as asked: no proof was tried"
    elif unresolved:
        reason = f"{unresolved} paths still changed after {rounds} settling reads; snapshot at a quieter time"
    return Cut(
        znodes=znodes,
        unreadable=_stats_of_denied(wire, denied, zxid),
        zxid=zxid,
        consistent=reason is None,
        reason=reason,
        unresolved=unresolved,
        rounds=rounds,
        attempts=1,
        method="cut" if settle else "plain",
        acls={},
        secured=False,
        server_version="",
        scan_zxids=scan_zxids,
        seconds=(scanned - began, time.monotonic() - scanned),
    )


def _scan(wire: "_Wire", options: ReadOptions, told: "_Teller") -> tuple[dict[str, Znode], set[str]]:
    """Every znode once, level by level, several requests in flight. What it returns is torn on a busy cluster."""
    znodes: dict[str, Znode] = {}
    denied: set[str] = set()
    todo: deque[tuple[int, str]] = deque([(GET_DATA, "/")])
    in_flight: deque[tuple[list[tuple[int, str]], Any]] = deque()
    batch = min(64, options.batch_count)  # grows with the replies: nobody knows yet how large the znodes are
    left_alone = frozenset(options.left_alone if not wire.chroot else ())
    while todo or in_flight:
        while todo and len(in_flight) < options.window:
            reads = _taken(todo, batch, wire.chroot_bytes)
            in_flight.append((reads, wire.submit_reads(reads)))
            if options.pause_s:
                time.sleep(options.pause_s)  # the pause itself is what was asked for
        reads, pending = in_flight.popleft()
        reply = wire.result(pending)
        batch = _next_batch(batch, len(reply.buffer), options)
        for (kind, path), answer in zip(reads, reply.answers(), strict=True):
            match answer:
                case Data(_, stat):
                    znodes[path] = answer
                    if _NUM_CHILDREN.unpack(stat)[0]:
                        todo.append((GET_CHILDREN, path))
                case Children(names):
                    parent = "" if path == "/" else path
                    children = (f"{parent}/{name}" for name in names)
                    todo.extend((GET_DATA, child) for child in children if child not in left_alone)
                case Failed(code):
                    _note_failure(code, kind, path, denied, wire)
        told.tell(len(znodes))
    return znodes, denied


def _taken(todo: deque[tuple[int, str]], count_max: int, chroot_bytes: int) -> list[tuple[int, str]]:
    reads: list[tuple[int, str]] = []
    size = 0
    while todo and len(reads) < count_max:
        size += len(todo[0][1].encode()) + chroot_bytes + READ_OVERHEAD_BYTES
        if reads and size > REQUEST_BYTES_MAX // 2:
            break
        reads.append(todo.popleft())
    return reads


def _next_batch(batch: int, reply_bytes: int, options: ReadOptions) -> int:
    if reply_bytes > options.reply_bytes:
        return max(1, batch // 2)
    if reply_bytes < options.reply_bytes // 4:
        return min(options.batch_count, batch * 2)
    return batch


def _note_failure(code: int, kind: int, path: str, denied: set[str], wire: "_Wire") -> None:
    if code == NO_NODE and path == "/":
        raise NoNodeError(
            f"tree at {wire.hosts} not read: there is no znode {wire.chroot or '/'!r}; correct the chroot after the hosts"
        )
    if code == NO_AUTH and path == "/":
        raise NoAuthError(
            f"tree at {wire.hosts} not read: reading {wire.chroot or '/'!r} is not permitted; log in as the brokers do"
        )
    if code == NO_AUTH:
        denied.add(path)
    elif code != NO_NODE:  # gone between listing and reading: its event is on record
        raise ZooKeeperError(
            f"tree at {wire.hosts} not read: {'listing' if kind == GET_CHILDREN else 'reading'} {path!r} gave ZooKeeper's "
            f"error {code}; see the server's log"
        )


def _settle(
    wire: "_Wire", options: ReadOptions, told: "_Teller", znodes: dict[str, Znode], denied: set[str]
) -> tuple[int, int, int]:
    """Brings `znodes` to one moment. (zxid of that moment, paths still uncertain, rounds)."""
    told.begin("settle")
    seen = wire.event_count()
    dirty = wire.touched(0, seen)
    heat: Counter[str] = Counter(dirty)
    for round_number in range(1, options.rounds_max + 1):
        if round_number >= _HOTTEST_FROM_ROUND:
            dirty = dirty | {path for path, _ in heat.most_common(_HOTTEST_COUNT)}
        # With nothing to read, one read of the root still brings the zxid and the events before it.
        groups = list(bounded(sorted(dirty) or ["/"], count_max=1 << 30, bytes_max=_group_bytes(wire, dirty)))
        zxid, noted = 0, seen
        for group in groups:
            reply = wire.result(wire.submit_reads([(GET_DATA, path) for path in group]))
            zxid, noted = reply.zxid, reply.noted
            _apply(group, reply.answers(), znodes, denied, wire)
        news = wire.touched(seen, noted)
        seen = noted
        heat.update(news)
        at_one_moment = len(groups) == 1 and options.rule == "events"
        outside = news - dirty if at_one_moment else news
        told.tell(len(znodes))
        if not outside:
            return zxid, 0, round_number
        dirty = outside
    return zxid, len(outside), options.rounds_max


def _group_bytes(wire: "_Wire", dirty: Iterable[str]) -> int:
    """Room for paths in one request; `bounded` does not know of the chroot."""
    longest = max((len(path.encode()) for path in dirty), default=1) + READ_OVERHEAD_BYTES
    return REQUEST_BYTES_MAX * longest // (longest + wire.chroot_bytes)


def _apply(
    paths: Sequence[str], answers: Sequence[Answer], znodes: dict[str, Znode], denied: set[str], wire: "_Wire"
) -> None:
    for path, answer in zip(paths, answers, strict=True):
        match answer:
            case Data():
                znodes[path] = answer
                denied.discard(path)
            case Failed(code):
                znodes.pop(path, None)
                denied.discard(path)
                _note_failure(code, GET_DATA, path, denied, wire)


def _stats_of_denied(wire: "_Wire", denied: Iterable[str], zxid: int) -> dict[str, bytes | None]:
    """Older servers show the stat without permission. One that is newer than the cut says nothing about it: None."""
    found: dict[str, bytes | None] = {}
    for path in sorted(denied):
        try:
            stat = wire.client.exists(path)
        except KazooNoAuthError:  # 3.9.4 and newer
            stat = None
        known = stat is not None and max(stat.mzxid, stat.pzxid) <= zxid
        found[path] = STAT.pack(*stat) if known else None
    return found


# ------------------------------------------------------------------------------------------------- servers before 3.6


def _two_passes(wire: "_Wire", options: ReadOptions, told: "_Teller") -> Cut:
    """Reads everything twice; C is the zxid in between. A znode not changed after C is as it was at C.

    One that changed exactly once after the first reading, and that after C, was at C as first read. The rest is unresolved.
    """
    wire.begin()
    began = time.monotonic()
    told.begin("scan")
    wire.sync()
    first_zxid = wire.zxid()
    first, _ = _single_reads(wire, options, told)
    wire.sync()
    zxid = wire.zxid()
    between = time.monotonic()
    told.begin("second pass")
    second, denied = _single_reads(wire, options, told)
    wire.require_unbroken()
    znodes: dict[str, Znode] = {}
    unresolved = 0
    for path, znode in second.items():
        held, certain = _held_at(zxid, first.get(path), znode)
        unresolved += not certain
        if held is not None:
            znodes[path] = held
    unresolved += sum(path not in second for path in first)
    reason = None
    if unresolved:
        reason = (
            f"two passes on a server without multi-read left {unresolved} paths uncertain; snapshot at a quieter time"
        )
    return Cut(
        znodes=znodes,
        unreadable=_stats_of_denied(wire, denied, zxid),
        zxid=zxid,
        consistent=reason is None,
        reason=reason,
        unresolved=unresolved,
        rounds=2,
        attempts=1,
        method="two_pass",
        acls={},
        secured=False,
        server_version="",
        scan_zxids=(first_zxid, wire.zxid()),
        seconds=(between - began, time.monotonic() - between),
    )


def _held_at(zxid: int, first: Znode | None, second: Znode) -> tuple[Znode | None, bool]:
    """The znode as of `zxid` (None: not there), and whether that is certain."""
    after = second.decoded_stat
    if after.mzxid <= zxid and after.pzxid <= zxid:
        return second, True
    if first is None:
        return (None, True) if after.czxid > zxid else (second, False)
    before = first.decoded_stat
    if after.czxid != before.czxid:
        return first, False
    data_held = after.mzxid == before.mzxid or (after.mzxid > zxid and after.version == before.version + 1)
    children_held = after.pzxid == before.pzxid or (after.pzxid > zxid and after.cversion == before.cversion + 1)
    return first, data_held and children_held


def _single_reads(wire: "_Wire", options: ReadOptions, told: "_Teller") -> tuple[dict[str, Znode], set[str]]:
    """Every znode by single requests, 64 times `window` in flight."""
    client = wire.client
    znodes: dict[str, Znode] = {}
    denied: set[str] = set()
    todo: deque[tuple[int, str]] = deque([(GET_DATA, "/")])
    in_flight: deque[tuple[int, str, Any]] = deque()
    left_alone = frozenset(options.left_alone if not wire.chroot else ())
    while todo or in_flight:
        while todo and len(in_flight) < options.window * 64:
            kind, path = todo.popleft()
            ask = client.get_async if kind == GET_DATA else client.get_children_async
            in_flight.append((kind, path, ask(path)))
        kind, path, pending = in_flight.popleft()
        try:
            answer = wire.result(pending)
        except KazooNoNodeError:
            _note_failure(NO_NODE, kind, path, denied, wire)
            continue
        except KazooNoAuthError:
            _note_failure(NO_AUTH, kind, path, denied, wire)
            continue
        if kind == GET_DATA:
            data, stat = answer
            znodes[path] = Znode(data, STAT.pack(*stat))
            if stat.numChildren:
                todo.append((GET_CHILDREN, path))
        else:
            parent = "" if path == "/" else path
            children = (f"{parent}/{name}" for name in answer)
            todo.extend((GET_DATA, child) for child in children if child not in left_alone)
        if not len(znodes) % 1000:
            told.tell(len(znodes))
    return znodes, denied


# ------------------------------------------------------------------------------------------------- ACLs


def _read_acls(wire: "_Wire", cut: Cut, options: ReadOptions, told: "_Teller") -> tuple[dict[str, str], bool]:
    """ACLs of all znodes where the cluster is secured. Not part of the cut: ZooKeeper has no event for them."""
    if options.acls == "never":
        return {}, bool(cut.unreadable)
    secured = bool(cut.unreadable)
    if options.acls == "auto" and not secured:
        looked_at = _acls_of(wire, _sample(cut.znodes), options, None)
        secured = any(acl != _OPEN_ACL for acl in looked_at.values())
        if not secured:
            return {}, False
    told.begin("acls", expected=len(cut.znodes))
    for attempts_left in reversed(range(options.attempts_max)):
        try:
            acls = _acls_of(wire, cut.znodes, options, told)
        except _CONNECTION_ERRORS:
            if not attempts_left:
                raise
            wire.wait_until_connected()
        else:
            break
    return acls, secured or any(acl != _OPEN_ACL for acl in acls.values())


def _sample(znodes: dict[str, Znode]) -> list[str]:
    """Paths whose ACLs tell whether the cluster is secured: the top of the tree and a few of everything."""
    top = [path for path in znodes if path.count("/") <= 2]  # noqa: PLR2004 -- /brokers/topics
    return [*top[:200], *islice(znodes, 0, None, max(1, len(znodes) // 50))]


def _acls_of(wire: "_Wire", paths: Iterable[str], options: ReadOptions, told: "_Teller | None") -> dict[str, str]:
    found: dict[str, str] = {}
    texts: dict[tuple[Any, ...], str] = {}
    in_flight: deque[tuple[str, Any]] = deque()
    ahead: Iterator[str] = iter(paths)
    while True:
        for path in islice(ahead, max(options.window * 64 - len(in_flight), 0)):
            in_flight.append((path, wire.client.get_acls_async(path)))
        if not in_flight:
            return found
        path, pending = in_flight.popleft()
        try:
            acl, _ = wire.result(pending)
        except (KazooNoNodeError, KazooNoAuthError):  # gone since the cut, or not ours to see: unknown
            continue
        entries = tuple((entry.perms, entry.id.scheme, entry.id.id) for entry in acl)
        found[path] = texts.setdefault(entries, json.dumps(entries))
        if told and not len(found) % 1000:
            told.tell(len(found))


# ------------------------------------------------------------------------------------------------- the connection


class _Wire:
    """A kazoo client whose watch events are recorded in the order of the wire, in its connection thread.

    kazoo's own callbacks come through a queue of their own and lose the order against replies.
    """

    def __init__(self, client: KazooClient, reply_timeout_s: float) -> None:
        self.client: Any = client
        self.chroot: str = self.client.chroot or ""
        self.chroot_bytes = len(self.chroot.encode())
        self.hosts = ",".join(f"{host}:{port}" for host, port in self.client.hosts) + self.chroot
        self._reply_timeout_s = reply_timeout_s
        self._events: list[tuple[int, str]] = []
        self._broken = False
        self._connected = threading.Event()

    def __enter__(self) -> Self:
        connection = self.client._connection
        self._kazoo_reads_event = connection._read_watch_event
        connection._read_watch_event = self._record
        self.client.add_listener(self._note_state)
        if self.client.state == KazooState.CONNECTED:
            self._connected.set()
        return self

    def __exit__(self, *_: object) -> None:
        self.client._connection._read_watch_event = self._kazoo_reads_event
        self.client.remove_listener(self._note_state)

    def begin(self) -> None:
        """A new attempt: nothing is known, nothing is broken."""
        self._broken = False
        self._events = []
        self.wait_until_connected()

    def wait_until_connected(self) -> None:
        if not self._connected.wait(self._reply_timeout_s):
            raise ZooKeeperUnreachableError(
                f"tree at {self.hosts} not read: the connection broke and did not come back within "
                f"{self._reply_timeout_s:.0f} s; check that the servers run, then run again"
            )

    def require_unbroken(self) -> None:
        """The watch survives no reconnect: what was read before proves nothing any more."""
        if self._broken:
            raise ConnectionLoss

    def submit_reads(self, reads: Iterable[tuple[int, str]]) -> Any:
        events = self._events
        full = self.full
        return self.submit(
            MultiRead([(kind, full(path)) for kind, path in reads], zxid=self.zxid, note=lambda: len(events))
        )

    def submit(self, request: Any) -> Any:
        pending = self.client.handler.async_result()
        self.client._call(request, pending)
        return pending

    def call(self, request: Any) -> Any:
        return self.result(self.submit(request))

    def result(self, pending: Any) -> Any:
        return pending.get(timeout=self._reply_timeout_s)

    def sync(self) -> None:
        self.result(self.client.sync_async("/"))

    def zxid(self) -> int:
        zxid: int = self.client.last_zxid
        return zxid

    def full(self, path: str) -> str:
        if not self.chroot:
            return path
        return self.chroot if path == "/" else self.chroot + path

    def event_count(self) -> int:
        return len(self._events)

    def touched(self, start: int, end: int) -> set[str]:
        """Paths that the events [start, end) may have changed: the znode, and its parent when it came or went."""
        paths: set[str] = set()
        for kind, full in self._events[start:end]:
            path = full[len(self.chroot) :] or "/"
            paths.add(path)
            if kind != _CHANGED and path != "/":
                paths.add(path.rpartition("/")[0] or "/")
        return paths if self.chroot else {path for path in paths if not path.startswith("/zookeeper")}

    def server(self) -> tuple[tuple[int, ...] | None, int | None]:
        """The server's version and how many znodes it has; None where `srvr` is not permitted."""
        try:
            text: str = self.client.command(b"srvr")
        except (OSError, KazooException, AttributeError, ValueError):
            return None, None
        version: tuple[int, ...] | None = None
        count: int | None = None
        for line in text.splitlines():
            name, _, value = line.partition(": ")
            if name == "Zookeeper version":
                digits = value.partition("-")[0].split(".")
                version = tuple(int(part) for part in digits if part.isdecimal())
            elif name == "Node count" and value.isdecimal():
                count = int(value)
        return version or None, count

    def _record(self, buffer: bytes, offset: int) -> None:
        watch, _ = Watch.deserialize(buffer, offset)
        self._events.append((watch.type, watch.path))
        self._kazoo_reads_event(buffer, offset)

    def _note_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._connected.set()
        else:
            self._broken = True
            self._connected.clear()


class _Teller:
    """Passes progress on."""

    def __init__(self, progress: Callable[[Progress], None], node_count: int | None) -> None:
        self._progress = progress
        self._node_count = node_count
        self.begin("scan")

    def begin(self, phase: Literal["scan", "settle", "second pass", "acls"], expected: int | None = None) -> None:
        self._phase = phase
        self._expected = expected or self._node_count
        self._began = time.monotonic()

    def tell(self, read: int) -> None:
        elapsed = time.monotonic() - self._began
        self._progress(Progress(phase=self._phase, read=read, expected=self._expected, elapsed_s=elapsed))


def _version_text(version: tuple[int, ...] | None) -> str:
    return ".".join(map(str, version)) if version else "unknown"


@contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Hundreds of thousands of znodes hold no cycles, and looking for some among them takes longer than reading them."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@contextmanager
def translated_errors(client: Any, deed: str = "read") -> Iterator[None]:
    """What kazoo raises and nobody below expects, in our words; `deed` is what did not happen."""
    hosts = ",".join(f"{host}:{port}" for host, port in client.hosts) + (client.chroot or "")
    try:
        yield
    except AuthFailedError as error:
        raise NoAuthError(
            f"tree at {hosts} not {deed}: the server refuses the login; correct user and password"
        ) from error
    except KazooNoAuthError as error:
        raise NoAuthError(
            f"tree at {hosts} not {deed}: the session has no permission; log in as the brokers do"
        ) from error
    except UnimplementedError as error:
        raise ZooKeeperError(
            f"tree at {hosts} not {deed}: the server knows no multi-read or recursive watch (older than 3.6); "
            "ask for the two-pass method"
        ) from error
    except _CONNECTION_ERRORS as error:
        raise ConnectionLostError(
            f"tree at {hosts} not {deed}: the connection broke ({type(error).__name__}); run again"
        ) from error
    except KazooException as error:
        raise ZooKeeperError(
            f"tree at {hosts} not {deed}: {type(error).__name__} {error}; see the server's log"
        ) from error
