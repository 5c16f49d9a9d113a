"""A server's data directory: which moments it holds, and the tree of each of them.

A moment is a zxid. Its tree is the newest snapshot file before it with the transactions of the logs between the two. It is
certain where the digest that the server logged for it is that of the tree, or, without digests (before 3.6), where no
snapshot file can hold changes of later transactions. The first transaction that is missing ends what a snapshot file leads to.
Source: Apache ZooKeeper 3.9 `FileTxnSnapLog.restore`, `FileTxnLog`; a server starts no snapshot before the one before is written.
"""

from array import array
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from typing import Final

from controller_core.adapters.zookeeper_files.snapshot_file import TreeDigest, read_snapshot
from controller_core.adapters.zookeeper_files.transactions import LogFile, Transaction
from controller_core.adapters.zookeeper_files.tree import DataTree, new_tree
from controller_core.model.errors import ZooKeeperFileError

_VERSION_FOLDER: Final = "version-2"
_SNAPSHOTS_TRIED: Final = 3
_SHOWN_MAX: Final = 5


@dataclass(frozen=True, slots=True)
class Moment:
    """The tree after transaction `zxid`; `doubt` says why it may differ from the server's, None where it does not.

    The tree is changed when the next moment is asked for.
    """

    zxid: int
    tree: DataTree
    doubt: str | None


@dataclass(frozen=True, slots=True)
class _Numbered:
    zxid: int
    path: Path


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A snapshot file, or what a new server begins with."""

    zxid: int
    path: Path | None

    @property
    def name(self) -> str:
        return self.path.name if self.path else "the empty tree of a new server"


class DataDirectory:
    """The files of one server.

    Attributes:
        zxids: of all transactions in the logs, rising.
        clocks_ms: the latest time of a leader's clock until each of them.
        notes: what of the files could not be used, and why.
    """

    def __init__(self, folder: Path, log_folder: Path | None = None) -> None:
        """Looks at the files, and reads zxid and time of each transaction.

        Args:
            folder: `dataDir` of zoo.cfg, or `version-2` in it.
            log_folder: `dataLogDir`, where the server has one.

        Raises:
            ZooKeeperFileError: there is no such folder or no snapshot file in it, no log in `log_folder`, or a log is none.
            OSError: they cannot be read.
        """
        self.folder = folder
        self._snapshots = [_Candidate(each.zxid, each.path) for each in _numbered(folder, "snapshot")]
        self._logs = _numbered(log_folder or folder, "log")
        if log_folder is not None and not self._logs:
            raise ZooKeeperFileError(
                f"logs of {str(log_folder)!r} not read: expected files log.N in it, or in version-2 below it, found none; name the server's dataLogDir"
            )
        self.zxids = array("q")
        self.clocks_ms = array("q")
        self.notes: list[str] = []
        if not self._logs:
            self.notes.append("no file log.N is there: what was written after the newest snapshot file is not known")
        self._read_index()
        if self.zxids and self.zxids[0] == 1 and not any(each.zxid == 0 for each in self._snapshots):
            self._snapshots.insert(0, _Candidate(0, None))  # a server before 3.5 writes no file of its empty tree
        if not self._snapshots:
            raise ZooKeeperFileError(
                f"data directory {str(folder)!r} not read: expected files snapshot.N in it, or in version-2 below it, found "
                "none; name the server's dataDir"
            )
        self._base: _Base | None = None

    @property
    def newest(self) -> int:
        """The last zxid that the files hold."""
        return max(self.zxids[-1] if self.zxids else 0, self._snapshots[-1].zxid)

    @property
    def oldest(self) -> int:
        """The first zxid whose tree the files hold."""
        return self._snapshots[0].zxid

    def zxid_at(self, time_ms: int) -> int | None:
        """The last transaction before the first one that is later than a time; None where the files do not reach back.

        A snapshot file without the transactions before it holds no time; it is found by its zxid.
        """
        later = bisect_right(self.clocks_ms, time_ms)
        zxid = self.zxids[later - 1] if later else None
        return zxid if zxid is not None and zxid >= self.oldest else None

    def time_of(self, zxid: int) -> int | None:
        """When a transaction was made, or the last one before it; None where the logs do not tell."""
        at = bisect_right(self.zxids, zxid)
        return self.clocks_ms[at - 1] if at else None

    def moment(self, zxid: int) -> Moment:
        """The tree after a transaction. Rising zxids are quick: the tree is brought forward.

        Raises:
            ZooKeeperFileError: the files do not hold it.
        """
        if zxid > self.newest:
            return self._uncertain(zxid, (), ())
        if self._base is not None and self._base.certain and self._base.leads_to(zxid):
            self._base.advance(zxid)
            if self._base.certain:
                return Moment(zxid, self._base.tree, None)
        return self._from_a_snapshot(zxid)

    def transactions(self, after: int, until: int | None = None) -> Iterator[Transaction]:
        """The transactions after a zxid, until another one, in their order."""
        starts = [log.zxid for log in self._logs]
        last = after
        for log in self._logs[max(bisect_right(starts, after + 1) - 1, 0) :]:
            for entry in LogFile(log.path).entries():
                if until is not None and entry.zxid > until:
                    return
                if entry.zxid > last:
                    last = entry.zxid
                    yield entry.transaction()

    # ----------------------------------------------------------------------------------------------------- within

    def _read_index(self) -> None:
        for log in self._logs:
            file = LogFile(log.path)
            for entry in file.entries():
                if not self.zxids or entry.zxid > self.zxids[-1]:
                    self.zxids.append(entry.zxid)
                    self.clocks_ms.append(max(entry.time_ms, self.clocks_ms[-1] if self.clocks_ms else 0))
            if file.torn:
                self.notes.append(f"{log.path.name}: {file.torn}; what follows in it is not read")

    def _from_a_snapshot(self, zxid: int) -> Moment:
        """Tried from several snapshot files, until the tree is certain; else the one of the newest file."""
        candidates = [each for each in self._snapshots if each.zxid <= zxid]
        doubts: list[str] = []
        tried = 0
        for candidate in reversed(candidates):
            try:
                base = self._loaded(candidate)
            except ZooKeeperFileError as error:
                doubts.append(str(error))
                if str(error) not in self.notes:
                    self.notes.append(str(error))
                continue
            tried += 1
            if base.leads_to(zxid):
                base.advance(zxid)
                if base.certain:
                    self._base = base
                    return Moment(zxid, base.tree, None)
            doubts.append(f"from {candidate.name}: {base.doubt(zxid)}")
            if tried == _SNAPSHOTS_TRIED:
                break
        return self._uncertain(zxid, candidates, doubts)

    def _uncertain(self, zxid: int, candidates: Sequence[_Candidate], doubts: Sequence[str]) -> Moment:
        """The tree as the newest snapshot file leads to it, which may not be the server's."""
        self._base = None
        for candidate in reversed(candidates):
            try:
                base = self._loaded(candidate)
            except ZooKeeperFileError:
                continue
            if base.leads_to(zxid):
                base.advance(zxid)
                return Moment(zxid, base.tree, "; ".join(doubts[:_SHOWN_MAX]))
        raise ZooKeeperFileError(
            f"tree at zxid {zxid:#x} not found in {str(self.folder)!r}: expected a snapshot file before it and all "
            f"transactions from there, found zxids {self.oldest:#x} to {self.newest:#x}"
            + (f" ({'; '.join(doubts[:_SHOWN_MAX])})" if doubts else "")
            + "; choose another moment, or add the missing files"
        )

    def _loaded(self, candidate: _Candidate) -> "_Base":
        if candidate.path is None:
            return _Base(self, new_tree(), None, None)
        found = read_snapshot(candidate.path, candidate.zxid)
        later = [each.zxid for each in self._snapshots if each.zxid > candidate.zxid]
        return _Base(self, found.tree, found.digest, min(later, default=None))


class _Base:
    """A snapshot file's tree on its way through the transactions after it."""

    def __init__(
        self, directory: DataDirectory, tree: DataTree, digest: TreeDigest | None, next_snapshot: int | None
    ) -> None:
        self.tree = tree
        self._digest = digest
        self._start = tree.zxid
        self._stream = directory.transactions(tree.zxid - (digest is None))
        self._waiting: Transaction | None = next(self._stream, None)
        if self._waiting is not None and self._waiting.zxid == tree.zxid:
            # Before 3.5.5 a file can be named after a multi-transaction of which it holds only the first operations
            # (ZOOKEEPER-3127). Like every transaction after it, it may be applied to a tree that holds it already.
            self._apply_waiting()
        self._gap = _first_gap(tree.zxid, directory.zxids)
        logged = directory.zxids[-1] if directory.zxids and directory.zxids[-1] > tree.zxid else None
        self._exact_from = self._end_of_changes(next_snapshot, logged)
        self._compared: bool | None = None
        self._compare(None)

    @property
    def certain(self) -> bool:
        """Whether the tree is what the server had."""
        if self._compared is not None:
            return self._compared
        return self._exact_from is not None and self.tree.zxid >= self._exact_from

    def leads_to(self, zxid: int) -> bool:
        """Whether the transactions between here and a zxid are all there."""
        if zxid == self.tree.zxid:
            return True
        return self._waiting is not None and zxid > self.tree.zxid and (self._gap is None or zxid < self._gap[1])

    def advance(self, zxid: int) -> None:
        """Applies the transactions up to a zxid."""
        while self._waiting is not None and self._waiting.zxid <= zxid:
            self._compare(self._apply_waiting().digest)

    def _apply_waiting(self) -> Transaction:
        assert self._waiting is not None, "there is no further transaction"
        applied = self._waiting
        self.tree.apply(applied)
        self._waiting = next(self._stream, None)
        return applied

    def doubt(self, zxid: int) -> str:
        """Why the tree at a zxid is not certain, or cannot be reached."""
        if not self.leads_to(zxid):
            if self._gap is None:
                return f"no transaction after {self.tree.zxid:#x} is there"
            return f"the transactions between {self._gap[0]:#x} and {self._gap[1]:#x} are missing"
        if self._compared is False:
            return f"the tree's digest at {self.tree.zxid:#x} is not the one that the server logged"
        return "the file may hold changes of later transactions, and nothing tells where they end"

    def _end_of_changes(self, next_snapshot: int | None, logged: int | None) -> int | None:
        """The zxid from which on the file holds no changes of later transactions; None: nobody knows."""
        if self._digest is not None:
            return max(self._digest.zxid, self._start)
        if self._start == 0 and not self.tree.sessions and len(self.tree.nodes) <= len(new_tree().nodes):
            return 0
        return next_snapshot if next_snapshot is not None else logged

    def _compare(self, logged: int | None) -> None:
        """Compares digests, where there is one of this very transaction."""
        if logged is None and self._digest is not None and self._digest.zxid == self.tree.zxid:
            logged = self._digest.value
        if logged is not None:
            self._compared = logged == self.tree.digest
        elif self._compared is False:  # it stays wrong until a digest says otherwise
            self._compared = False
        else:
            self._compared = None


def _first_gap(start: int, zxids: Sequence[int]) -> tuple[int, int] | None:
    """The first two zxids from a snapshot file on between which transactions are missing."""
    following = chain([start], zxids[bisect_right(zxids, start) :])
    return next(((one, two) for one, two in pairwise(following) if not _follows(one, two)), None)


def _follows(before: int, after: int) -> bool:
    """Whether a zxid comes right after another one: counted on, or the first one of a later leader."""
    return after == before + 1 or (after >> 32 > before >> 32 and after & 0xFFFF_FFFF == 1)


def _numbered(folder: Path, prefix: str) -> list[_Numbered]:
    """The files `prefix.N` of a folder or of version-2 below it, by their zxid."""
    below = folder / _VERSION_FOLDER
    found: list[_Numbered] = []
    if not folder.is_dir():
        raise ZooKeeperFileError(
            f"{str(folder)!r} not read: expected a folder of a ZooKeeper server, found none; correct the path"
        )
    try:
        paths = sorted((below if below.is_dir() else folder).iterdir())
    except OSError as error:
        raise ZooKeeperFileError(
            f"{str(folder)!r} not read: {error.strerror}; read it as a user who may, or name a copy of it"
        ) from error
    for path in paths:
        name, _, rest = path.name.partition(".")
        if name == prefix and path.is_file():
            try:
                found.append(_Numbered(int(rest.partition(".")[0], 16), path))
            except ValueError:
                continue
    return sorted(found, key=lambda each: each.zxid)
