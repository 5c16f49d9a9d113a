"""Reading a tree from a server before 3.6: twice, by single requests, and telling what is certain of the moment between.

Source: docs/snapshots.md, "How a cut is taken".
"""

import time
from collections import deque
from typing import Any

from kazoo.exceptions import NoAuthError as KazooNoAuthError
from kazoo.exceptions import NoNodeError as KazooNoNodeError

from controller_core.adapters.snapshot.cut import Cut, ReadOptions, Znode
from controller_core.adapters.snapshot.wire import Teller, Wire, note_failure, stats_of_denied
from controller_core.adapters.zookeeper.multi_read import GET_CHILDREN, GET_DATA, NO_AUTH, NO_NODE, STAT
from controller_core.model.words import counted


def two_passes(wire: Wire, options: ReadOptions, told: Teller) -> Cut:
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
        held, certain = held_at(zxid, first.get(path), znode)
        unresolved += not certain
        if held is not None:
            znodes[path] = held
    unresolved += sum(path not in second for path in first)
    reason = None
    if unresolved:
        reason = f"two passes on a server without multi-read left {counted(unresolved, 'path')} uncertain; snapshot at a quieter time"
    return Cut(
        znodes=znodes,
        unreadable=stats_of_denied(wire, denied, zxid),
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


def held_at(zxid: int, first: Znode | None, second: Znode) -> tuple[Znode | None, bool]:
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


def _single_reads(wire: Wire, options: ReadOptions, told: Teller) -> tuple[dict[str, Znode], set[str]]:
    """Every znode by single requests, 64 times `window` in flight."""
    client = wire.client
    znodes: dict[str, Znode] = {}
    denied: set[str] = set()
    todo: deque[tuple[int, str]] = deque([(GET_DATA, "/")])
    in_flight: deque[tuple[int, str, Any]] = deque()
    roots = wire.own(options.roots)
    while todo or in_flight:
        while todo and len(in_flight) < options.window * 64:
            kind, path = todo.popleft()
            ask = client.get_async if kind == GET_DATA else client.get_children_async
            in_flight.append((kind, path, ask(path)))
        kind, path, pending = in_flight.popleft()
        try:
            answer = wire.result(pending)
        except KazooNoNodeError:
            note_failure(NO_NODE, kind, path, denied, wire)
            continue
        except KazooNoAuthError:
            note_failure(NO_AUTH, kind, path, denied, wire)
            continue
        if kind == GET_DATA:
            data, stat = answer
            znodes[path] = Znode(data, STAT.pack(*stat))
            if stat.numChildren:
                todo.append((GET_CHILDREN, path))
        else:
            parent = "" if path == "/" else path
            children = (f"{parent}/{name}" for name in answer)
            todo.extend((GET_DATA, child) for child in children if path != "/" or roots is None or child in roots)
        if not len(znodes) % 1000:
            told.tell(len(znodes))
    return znodes, denied
