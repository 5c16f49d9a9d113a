"""The ACLs of a tree: a pass of its own after the cut, because no event tells of a change of one.

A znode whose creation (czxid and ctime) and ACL version (aversion) are those of an earlier snapshot has the ACL that this
snapshot knows, and is not asked for again, unless the ensemble may have been rolled back in between. The first snapshot of a cluster asks for every ACL, pipelined.
Source: ZooKeeper `ZooDefs.Perms`; docs/snapshots.md, "What is stored".
"""

import json
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from kazoo.exceptions import NoAuthError as KazooNoAuthError
from kazoo.exceptions import NoNodeError as KazooNoNodeError

from controller_core.adapters.snapshot.cut import Cut, ReadOptions, Znode
from controller_core.adapters.snapshot.wire import CONNECTION_ERRORS, Teller, Wire
from controller_core.adapters.zookeeper.multi_read import STAT

OPEN_ACL: Final = '[[31, "world", "anyone"]]'
"""What ZooKeeper calls `OPEN_ACL_UNSAFE`, as a snapshot stores it."""

ACL_KEY: Final = np.dtype([("czxid", ">i8"), ("ctime", ">i8"), ("aversion", ">i4")])
"""`acl_key` as numpy reads it."""

_COUNTER_BITS: Final = 32
"""Of a zxid; the bits above are the epoch, a new one with each elected leader."""


@dataclass(frozen=True, slots=True, eq=False)
class KnownAcls:
    """The ACLs that an earlier snapshot knows, in columns: as a dictionary, those of 400,000 znodes took 110 MB more.

    Attributes:
        zxid: of that snapshot.
        paths: strings, each once.
        keys: `acl_key` of their stats; dtype `ACL_KEY`.
        acls: their ACLs as JSON, dictionary-encoded.
    """

    zxid: int
    paths: pa.Array
    keys: Any
    acls: pa.DictionaryArray

    def still_valid(self, znodes: Mapping[str, Znode], zxid: int) -> dict[str, str]:
        """Path → ACL of those znodes of a cut at `zxid` whose key is still the one that the snapshot knows.

        An ensemble that was rolled back keeps czxid and ctime, and counts the changes of an ACL (aversion) once more. Where the cut
        does not follow the snapshot in one ZooKeeper epoch, only ACLs that were never changed (aversion 0) are known for certain. The
        session of a cut is a transaction of its own: an equal zxid is of another history.
        """
        paths = list(znodes)
        rows = pc.index_in(pa.array(paths, pa.string()), value_set=self.paths).fill_null(-1).to_numpy()
        keys = np.frombuffer(b"".join(acl_key(znode.stat) for znode in znodes.values()), dtype=ACL_KEY)
        known = np.flatnonzero(rows >= 0)
        same = known[self.keys[rows[known]] == keys[known]]
        if self.zxid >= zxid or self.zxid >> _COUNTER_BITS != zxid >> _COUNTER_BITS:
            same = same[keys[same]["aversion"] == 0]
        texts, text_of = self.acls.dictionary.to_pylist(), self.acls.indices.to_numpy()
        return {paths[at]: texts[text] for at, text in zip(same.tolist(), text_of[rows[same]].tolist(), strict=True)}


@dataclass(frozen=True, slots=True)
class Acls:
    """What is known of the ACLs of a cut.

    Attributes:
        by_path: path → JSON `[[perms, scheme, id], …]`. A znode that is absent here was not read: its ACL is unknown. A
            digest entry `user:hash` is shown as `user:x` to a session that may not change it, and kept so.
            An entry that stands twice, as a session with two logins leaves it, is kept once, as ZooKeeper does when it is set.
        carried: how many of them were taken over from an earlier snapshot.
        secured: an ACL is not open to everybody, or a znode could not be read.
    """

    by_path: dict[str, str]
    carried: int
    secured: bool


def acl_key(stat: bytes) -> bytes:
    """czxid, ctime and aversion of a stat as ZooKeeper sends it: where they are equal, and nobody rolled back, the ACL is the same one."""
    return stat[0:8] + stat[16:24] + stat[40:44]


def read_acls(wire: Wire, cut: Cut, options: ReadOptions, told: Teller, known: KnownAcls | None) -> Acls:
    """The ACL of every znode of the cut that the session may see. Not part of the cut: ZooKeeper has no event for them.

    Args:
        wire: the session's connection.
        cut: the znodes whose ACLs are read.
        options: how much is asked at once.
        told: hears how many were read.
        known: ACLs of an earlier snapshot; those that are still valid are not read again.
    """
    if not options.acls:
        return Acls({}, 0, bool(cut.unreadable))
    found = known.still_valid(cut.znodes, cut.zxid) if known else {}
    carried = len(found)
    told.begin("acls", expected=len(cut.znodes) - carried)
    for attempt in range(options.attempts_max):
        try:
            _read_missing(wire, cut, found, options, told)
            break
        except CONNECTION_ERRORS:
            if attempt == options.attempts_max - 1:
                raise
            wire.wait_until_connected()
    secured = bool(cut.unreadable) or any(acl != OPEN_ACL for acl in set(found.values()))
    return Acls(found, carried, secured)


def _read_missing(wire: Wire, cut: Cut, found: dict[str, str], options: ReadOptions, told: Teller) -> None:
    texts: dict[tuple[Any, ...], str] = {}
    in_flight: deque[tuple[str, Any]] = deque()
    ahead: Iterator[str] = iter([path for path in cut.znodes if path not in found])
    read = 0
    while True:
        for path in islice(ahead, max(options.window * 64 - len(in_flight), 0)):
            in_flight.append((path, wire.client.get_acls_async(path)))
        if not in_flight:
            return
        path, pending = in_flight.popleft()
        try:
            acl, stat = wire.result(pending)
        except (KazooNoNodeError, KazooNoAuthError):  # gone since the cut, or not to be seen: unknown
            continue
        if stat.czxid != STAT.unpack(cut.znodes[path].stat)[0]:  # made again since the cut: the ACL is another znode's
            continue
        entries = tuple(dict.fromkeys((entry.perms, entry.id.scheme, entry.id.id) for entry in acl))
        found[path] = texts.setdefault(entries, json.dumps(entries))
        read += 1
        if not read % 1000:
            told.tell(read)
