"""Reads a whole tree as it was after one transaction, while the cluster goes on writing.

The tree is scanned in large multi-reads while a recursive watch names every change. The end of the scan is the moment of
the cut: what changed before it is read again, and shows that moment unless it changed once more before it was read.
Where one did, the moment moves on to the end of that reading, and only what changed in between is read again. ZooKeeper
delivers the event of a transaction before any reply that shows it; nothing else is assumed, and no quiet gap is needed.
Servers older than 3.6 have neither: two passes are compared instead.
Source: snapshot-design §2; docs/snapshots.md holds the proof and the measurements.
"""

import struct
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import UnimplementedError

from controller_core.adapters.snapshot.acls import read_acls
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
    READ_OVERHEAD_BYTES,
    REQUEST_BYTES_MAX,
    STAT_BYTES,
    AddWatch,
    Answer,
    Children,
    Data,
    Failed,
    MultiReadReply,
)
from controller_core.model.errors import ZooKeeperUnreachableError
from controller_core.model.gc_pause import collector_paused

__all__ = ["Cut", "Progress", "ReadOptions", "Znode", "read_cut"]

_NUM_CHILDREN: Final = struct.Struct("!56xi8x")
_MULTI_READ_SINCE: Final = (3, 6)
_ZXIDS: Final = struct.Struct("!qq44xq")
"""czxid, mzxid and pzxid of a stat."""


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
        acls, secured = read_acls(wire, cut, options, told)
        return replace(cut, acls=acls, secured=secured, server_version=_version_text(version))


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


def _one_cut(wire: Wire, options: ReadOptions, told: Teller, *, settle: bool) -> Cut:
    wire.begin()
    began = time.monotonic()
    told.begin("scan")
    if settle:
        wire.call(AddWatch(wire.full("/")))
    wire.sync()
    first_zxid = wire.zxid()
    znodes, denied, moment = _scan(wire, options, told)
    scanned = time.monotonic()
    scan_zxids = (first_zxid, moment.zxid)
    unresolved = rounds = 0
    if settle:
        moment, unresolved, rounds = _settle(wire, options, told, moment, znodes, denied)
    wire.require_unbroken()
    reason = None
    if not settle:
        reason = "plain scan, as asked: no proof was tried"
    elif unresolved:
        reason = f"{unresolved} paths still changed after {rounds} settling rounds; snapshot at a quieter time"
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
    left_alone = _left_alone(wire, options)
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
                    todo.extend((GET_DATA, child) for child in children if child not in left_alone)
                case Failed(code):
                    note_failure(code, kind, path, denied, wire)
        told.tell(len(znodes))
    return znodes, denied, moment


def _left_alone(wire: Wire, options: ReadOptions) -> frozenset[str]:
    """Trees that are not part of the cut; below a chroot there are none of ZooKeeper's own."""
    return frozenset() if wire.chroot else frozenset(options.left_alone)


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
    wire: Wire, options: ReadOptions, told: Teller, moment: Moment, znodes: dict[str, Znode], denied: set[str]
) -> tuple[Moment, int, int]:
    """Brings `znodes` to one moment, at first `moment`. (That moment, paths still uncertain, rounds.)

    Before each round every znode without an event since it was read shows `moment`; `dirty` are the others. A round
    reads them; what had no event between the moment and its reply shows the moment, too. If all do, that is the cut.
    Otherwise the last reply becomes the moment, and what had events since the one before is dirty.
    """
    told.begin("settle")
    told.tell(len(znodes))
    left_alone = _left_alone(wire, options)
    dirty = wire.touched(0, moment.events, left_alone)
    uncertain: set[str] = set()
    for round_number in range(options.rounds_max):
        if not dirty:
            return moment, 0, round_number
        uncertain = set()
        reached = moment
        for paths, reply in _read_again(wire, options, dirty, znodes):
            reached = Moment(reply.zxid, reply.noted)
            answers = reply.answers()
            _apply(paths, answers, znodes, denied, wire)
            news = wire.touched(moment.events, reply.noted, left_alone)
            uncertain |= news.intersection(paths)
            uncertain.update(
                path for path, answer in zip(paths, answers, strict=True) if _newest_zxid(answer) > moment.zxid
            )
        told.tell(len(znodes))
        if not uncertain:
            return moment, 0, round_number + 1
        dirty = uncertain | wire.touched(moment.events, reached.events, left_alone)
        moment = reached
    return moment, len(dirty), options.rounds_max


def _read_again(
    wire: Wire, options: ReadOptions, paths: Iterable[str], znodes: Mapping[str, Znode]
) -> Iterator[tuple[Sequence[str], MultiReadReply]]:
    """Each group of paths with its reply, several requests in flight."""
    todo = _groups(wire, options, paths, znodes)
    in_flight: deque[tuple[Sequence[str], Any]] = deque()
    while True:
        for group in islice(todo, options.window - len(in_flight)):
            in_flight.append((group, wire.submit_reads((GET_DATA, path) for path in group)))
            if options.pause_s:
                time.sleep(options.pause_s)  # as in the scan
        if not in_flight:
            return
        group, pending = in_flight.popleft()
        yield group, wire.result(pending)


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


def _newest_zxid(answer: Answer) -> int:
    """The transaction that a znode shows; 0 where there is none."""
    return max(_ZXIDS.unpack(answer.stat)) if isinstance(answer, Data) else 0


def _apply(
    paths: Sequence[str], answers: Sequence[Answer], znodes: dict[str, Znode], denied: set[str], wire: Wire
) -> None:
    for path, answer in zip(paths, answers, strict=True):
        match answer:
            case Data():
                znodes[path] = answer
                denied.discard(path)
            case Failed(code):
                znodes.pop(path, None)
                denied.discard(path)
                note_failure(code, GET_DATA, path, denied, wire)


def _version_text(version: tuple[int, ...] | None) -> str:
    return ".".join(map(str, version)) if version else "unknown"
