"""Reads a whole tree as it was after one transaction, while the cluster goes on writing.

The tree is scanned in large multi-reads while a recursive watch names every change. The end of the scan is the moment of
the cut: what changed before it is read again, and shows that moment unless it changed once more before it was read.
Where one did, the moment moves on to the end of that reading, and only what changed in between is read again. ZooKeeper
delivers the event of a transaction before any reply that shows it; nothing else is assumed, and no quiet gap is needed.
Of children that the session may not read it sends no event: their parents have a watch of their own, see `_HiddenChildren`.
Servers older than 3.6 have neither: two passes are compared instead.
Source: docs/snapshots.md, "How a cut is taken", holds the proof and the measurements.
"""

import struct
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import UnimplementedError

from controller_core.adapters.snapshot.acls import KnownAcls, read_acls
from controller_core.adapters.snapshot.cut import Cut, Progress, ReadOptions, Znode
from controller_core.adapters.snapshot.two_passes import two_passes
from controller_core.adapters.snapshot.wire import (
    CONNECTION_ERRORS,
    Teller,
    Wire,
    note_failure,
    stats_of_denied,
    translated_errors,
)
from controller_core.adapters.zookeeper.multi_read import (
    GET_CHILDREN,
    GET_DATA,
    PERSISTENT,
    READ_OVERHEAD_BYTES,
    REQUEST_BYTES_MAX,
    STAT_BYTES,
    AddWatch,
    Children,
    Data,
    MultiReadReply,
    ReadAnswer,
    ReadFailed,
)
from controller_core.model.errors import ZooKeeperUnreachableError
from controller_core.model.gc_pause import collector_paused
from controller_core.model.words import counted
from controller_core.znodes import SENSITIVE_ROOTS

__all__ = ["Cut", "Progress", "ReadOptions", "Znode", "read_cut"]

_NUM_CHILDREN: Final = struct.Struct("!56xi8x")
_MULTI_READ_SINCE: Final = (3, 6)
_ZXIDS: Final = struct.Struct("!qq44xq")
"""czxid, mzxid and pzxid of a stat."""


def read_cut(
    client: KazooClient,
    options: ReadOptions | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
    *,
    known_acls: KnownAcls | None = None,
) -> Cut:
    """The tree below the client's chroot as of one transaction.

    Args:
        client: started; its session should serve nothing else, for the watch stays until the connection ends.
        options: None for the defaults.
        progress: told after every reply, in this thread.
        known_acls: the ACLs of an earlier snapshot of the same cluster; those that still stand are not read again.

    Raises:
        NoNodeError: the chroot does not exist.
        NoAuthError: its root may not be read.
        ZooKeeperUnreachableError: the connection could not be kept.
        ZooKeeperError: what else the server refuses.
    """
    options = options or ReadOptions()
    with translated_errors(client), collector_paused(), Wire(client, options.reply_timeout_s) as wire:
        version, node_count = wire.server()
        method = options.method
        if method == "auto":
            method = "cut" if version is None or version >= _MULTI_READ_SINCE else "two_pass"
        told = Teller(progress, node_count)
        try:
            cut = _with_attempts(wire, options, told, method)
        except UnimplementedError:
            if options.method != "auto":
                raise
            cut = _with_attempts(wire, options, told, "two_pass")  # an older server that does not tell its version
        acls = read_acls(wire, cut, options, told, known_acls)
        return replace(
            cut,
            acls=acls.by_path,
            acls_carried=acls.carried,
            secured=acls.secured,
            server_version=_version_text(version),
            neighbours=wire.neighbours(options.roots),
        )


def _with_attempts(wire: Wire, options: ReadOptions, told: Teller, method: str) -> Cut:
    attempt = 0
    while True:
        attempt += 1
        # A server drops the connection of a request or reply that it finds too large: each new attempt asks for less.
        smaller = replace(options, batch_count=max(1, options.batch_count >> 2 * (attempt - 1)))
        try:
            if method == "two_pass":
                cut = two_passes(wire, smaller, told)
            else:
                cut = _one_cut(wire, smaller, told, settle=method == "cut")
        except CONNECTION_ERRORS as error:
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


class Moment(NamedTuple):
    """A point in the stream of a session: after transaction `zxid`, when `events` events had come."""

    zxid: int
    events: int


class _HiddenChildren:
    """Parents of children that the session may not read, each with a watch that tells of every change of its children.

    ZooKeeper 3.8.4 and 3.9.2 send a recursive watch no event for a znode that its session may not read; the parent's
    cversion, pzxid and number of children change unseen. A watch on the parent alone needs the right to read the parent.
    Where Kafka keeps credentials such children are expected, and watched for from the start.
    Source: ZooKeeper CVE-2024-23944, `WatchManager.triggerWatch`, `DataTree.createNode`.
    """

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self.parents: set[str] = set()

    def watch(self, denied: Iterable[str]) -> set[str]:
        """Watches the parents of these paths; those that were not watched before, which are to be read again."""
        new = {path.rpartition("/")[0] or "/" for path in denied} - self.parents
        for parent in sorted(new - {"/"}):  # the root has the recursive watch, which the other kind would replace
            self._wire.call(AddWatch(self._wire.full(parent), PERSISTENT))
        self.parents |= new
        return new


def _one_cut(wire: Wire, options: ReadOptions, told: Teller, *, settle: bool) -> Cut:
    wire.begin()
    began = time.monotonic()
    told.begin("scan")
    hidden = _HiddenChildren(wire)
    if settle:
        wire.call(AddWatch(wire.full("/")))
        hidden.watch(f"{root}/*" for root in SENSITIVE_ROOTS)
    wire.sync()
    first_zxid = wire.zxid()
    znodes, denied, moment = _scan(wire, options, told)
    scanned = time.monotonic()
    scan_zxids = (first_zxid, moment.zxid)
    unresolved = rounds = 0
    if settle:
        moment, unresolved, rounds = _settle(wire, options, told, moment, znodes, denied, hidden)
    wire.require_unbroken()
    reason = None
    if not settle:
        reason = "plain scan, as asked: no proof was tried"
    elif unresolved:
        reason = f"{counted(unresolved, 'path')} still changed after {counted(rounds, 'settling round')}; snapshot at a quieter time"
    elif "/" in hidden.parents:
        reason = (
            f"the session may not read {min(path for path in denied if path.count('/') == 1)!r}, and no event tells of such "
            "a child of the root; log in as the brokers do"
        )
    return Cut(
        znodes=znodes,
        unreadable=stats_of_denied(wire, denied, moment.zxid),
        zxid=moment.zxid,
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


def _scan(wire: Wire, options: ReadOptions, told: Teller) -> tuple[dict[str, Znode], set[str], Moment]:
    """Every znode once, level by level, several requests in flight; and the moment of the last reply.

    What it returns is torn on a busy cluster.
    """
    znodes: dict[str, Znode] = {}
    denied: set[str] = set()
    moment = Moment(0, 0)
    todo: deque[tuple[int, str]] = deque([(GET_DATA, "/")])
    in_flight: deque[tuple[list[tuple[int, str]], Any]] = deque()
    batch = min(64, options.batch_count)  # grows with the replies: nobody knows yet how large the znodes are
    roots = wire.own(options.roots)
    while todo or in_flight:
        while todo and len(in_flight) < options.window:
            reads = _taken(todo, batch, wire.chroot_bytes)
            in_flight.append((reads, wire.submit_reads(reads)))
            if options.pause_s:
                time.sleep(options.pause_s)  # the pause itself is what was asked for
        reads, pending = in_flight.popleft()
        reply = wire.result(pending)
        moment = Moment(reply.zxid, reply.noted)
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
                    todo.extend(
                        (GET_DATA, child) for child in children if path != "/" or roots is None or child in roots
                    )
                case ReadFailed(code):
                    note_failure(code, kind, path, denied, wire)
        told.tell(len(znodes))
    return znodes, denied, moment


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


def _settle(
    wire: Wire,
    options: ReadOptions,
    told: Teller,
    moment: Moment,
    znodes: dict[str, Znode],
    denied: set[str],
    hidden: _HiddenChildren,
) -> tuple[Moment, int, int]:
    """Brings `znodes` to one moment, at first `moment`. (That moment, paths still uncertain, rounds.)

    Before each round every znode without an event since it was read shows `moment`; `dirty` are the others. A round
    reads them; what had no event between the moment and its reply shows the moment, too. If all do, that is the cut.
    Otherwise the last reply becomes the moment, and what had events since the one before is dirty.
    """
    told.begin("settle")
    told.tell(len(znodes))
    roots = wire.own(options.roots)
    dirty = wire.touched(0, moment.events, roots) | hidden.watch(denied)
    uncertain: set[str] = set()
    for round_number in range(options.rounds_max):
        if not dirty:
            return moment, 0, round_number
        uncertain = set()
        reached = moment
        for reads, reply in _read_again(wire, options, dirty, znodes, hidden.parents):
            reached = Moment(reply.zxid, reply.noted)
            answers = reply.answers()
            _apply(reads, answers, znodes, denied, wire)
            news = wire.touched(moment.events, reply.noted, roots)
            uncertain |= news.intersection(path for _, path in reads)
            uncertain.update(
                path for (_, path), answer in zip(reads, answers, strict=True) if _newest_zxid(answer) > moment.zxid
            )
        uncertain |= hidden.watch(denied)
        told.tell(len(znodes))
        if not uncertain:
            return moment, 0, round_number + 1
        dirty = uncertain | wire.touched(moment.events, reached.events, roots)
        moment = reached
    return moment, len(dirty), options.rounds_max


def _read_again(
    wire: Wire,
    options: ReadOptions,
    paths: Iterable[str],
    znodes: Mapping[str, Znode],
    listed: Collection[str],
) -> Iterator[tuple[Sequence[tuple[int, str]], MultiReadReply]]:
    """Reads (kind, path) in groups, each with its reply, several requests in flight; children too of those `listed`."""
    todo = _groups(wire, options, paths, znodes)
    in_flight: deque[tuple[Sequence[tuple[int, str]], Any]] = deque()
    while True:
        for group in islice(todo, options.window - len(in_flight)):
            reads = [(GET_DATA, path) for path in group]
            reads += [(GET_CHILDREN, path) for path in group if path in listed and path != "/"]
            in_flight.append((reads, wire.submit_reads(reads)))
            if options.pause_s:
                time.sleep(options.pause_s)  # as in the scan
        if not in_flight:
            return
        group_reads, pending = in_flight.popleft()
        yield group_reads, wire.result(pending)


def _groups(
    wire: Wire, options: ReadOptions, paths: Iterable[str], znodes: Mapping[str, Znode]
) -> Iterator[Sequence[str]]:
    """The paths in groups within the bounds of a request and, as far as their sizes are known, of a reply."""
    group: list[str] = []
    request_bytes = reply_bytes = 0
    for path in sorted(paths):
        known = znodes.get(path)
        asks = len(path.encode()) + wire.chroot_bytes + READ_OVERHEAD_BYTES
        brings = STAT_BYTES + len(known.data or b"" if known else b"")
        full = request_bytes + asks > REQUEST_BYTES_MAX // 2 or reply_bytes + brings > options.reply_bytes
        if group and (full or len(group) >= options.batch_count):
            yield group
            group, request_bytes, reply_bytes = [], 0, 0
        group.append(path)
        request_bytes += asks
        reply_bytes += brings
    if group:
        yield group


def _newest_zxid(answer: ReadAnswer) -> int:
    """The transaction that a znode shows; 0 where there is none."""
    return max(_ZXIDS.unpack(answer.stat)) if isinstance(answer, Data) else 0


def _apply(
    reads: Sequence[tuple[int, str]],
    answers: Sequence[ReadAnswer],
    znodes: dict[str, Znode],
    denied: set[str],
    wire: Wire,
) -> None:
    for (kind, path), answer in zip(reads, answers, strict=True):
        match answer:
            case Data():
                znodes[path] = answer
                denied.discard(path)
            case Children(names):  # those that are not read are denied; of one that may be read an event tells
                parent = "" if path == "/" else path
                there = {f"{parent}/{name}" for name in names}
                denied -= {child for child in denied if (child.rpartition("/")[0] or "/") == path} - there
                denied |= there - znodes.keys()
            case ReadFailed() if kind == GET_CHILDREN:  # its data, in the same reply, say the same
                continue
            case ReadFailed(code):
                znodes.pop(path, None)
                denied.discard(path)
                note_failure(code, GET_DATA, path, denied, wire)


def _version_text(version: tuple[int, ...] | None) -> str:
    return ".".join(map(str, version)) if version else "unknown"
