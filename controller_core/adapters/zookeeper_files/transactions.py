"""The transactions of a log file, `log.N`: who changed what, when, in the order in which ZooKeeper did it.

A file is a header and entries of checksum, length, content and the letter B. A server fills it up with zeros ahead of
what it writes; zeros, or an entry that its last write left incomplete, are the end of a file.
Source: Apache ZooKeeper 3.9 `FileTxnLog`, `SerializeUtils.deserializeTxn`, `zookeeper.jute`; 3.4 `CreateTxnV0`.
"""

import mmap
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Final, TypeAlias

from controller_core.adapters.zookeeper_files.jute import (
    INT,
    Acl,
    TooShortError,
    take_acl,
    take_buffer,
    take_text,
    take_texts,
)
from controller_core.model.errors import ZooKeeperFileError

LOG_MAGIC: Final = b"ZKLG"
LOG_HEADER_BYTES: Final = 16
DIGEST_VERSION: Final = 2
"""How the digest of a tree is computed since ZooKeeper 3.6; other versions are not compared."""
CONTAINER_OWNER: Final = -(1 << 63)
TTL_MASK: Final = -(1 << 56)
_TTL_RESERVED: Final = 0xFFFF << 40
_ENTRY: Final = struct.Struct("!qi")
_TRANSACTION: Final = struct.Struct("!qiqqi")
_DIGEST: Final = struct.Struct("!iq")


class _Kind(IntEnum):
    """The kinds of transactions that a log holds. Source: ZooKeeper `ZooDefs.OpCode`."""

    CREATE = 1
    DELETE = 2
    SET_DATA = 5
    SET_ACL = 7
    CHECK = 13
    MULTI = 14
    CREATE_2 = 15
    RECONFIG = 16
    CREATE_CONTAINER = 19
    DELETE_CONTAINER = 20
    CREATE_TTL = 21
    OPEN_SESSION = -10
    CLOSE_SESSION = -11
    ERROR = -1


@dataclass(frozen=True, slots=True)
class Create:
    """A znode was made. `owner` is the session of an ephemeral one, 0, or what marks a container or TTL znode.

    `parent_cversion` is the parent's number of creations after it; -1 in the logs of ZooKeeper before 3.4: one more.
    """

    path: str
    data: bytes | None
    acl: Acl
    owner: int
    parent_cversion: int


@dataclass(frozen=True, slots=True)
class Delete:
    """A znode was deleted."""

    path: str


@dataclass(frozen=True, slots=True)
class SetData:
    """A znode got data, and this version."""

    path: str
    data: bytes | None
    version: int


@dataclass(frozen=True, slots=True)
class SetAcl:
    """A znode got an ACL, and this aversion."""

    path: str
    acl: Acl
    version: int


@dataclass(frozen=True, slots=True)
class OpenSession:
    """The transaction's session began."""

    timeout_ms: int


@dataclass(frozen=True, slots=True)
class CloseSession:
    """The transaction's session ended, and with it its ephemeral znodes; `paths` are unknown before ZooKeeper 3.6."""

    paths: tuple[str, ...] | None


Change: TypeAlias = Create | Delete | SetData | SetAcl | OpenSession | CloseSession


@dataclass(frozen=True, slots=True)
class Transaction:
    """One transaction; one that failed changes nothing, and has a zxid nevertheless.

    `time_ms` is the leader's clock, `digest` that of the whole tree afterwards (None: not logged, as before 3.6).
    """

    zxid: int
    time_ms: int
    session: int
    cxid: int
    changes: tuple[Change, ...]
    digest: int | None


@dataclass(frozen=True, slots=True)
class Entry:
    """A transaction that is not yet taken apart."""

    zxid: int
    time_ms: int
    content: bytes

    def transaction(self) -> Transaction:
        """What it says.

        Raises:
            ZooKeeperFileError: a kind of transaction that is unknown here, or bytes that are none.
        """
        try:
            return _transaction(self.content)
        except TooShortError as error:
            raise ZooKeeperFileError(
                f"transaction {self.zxid:#x} not read: expected a whole record, found {len(self.content)} bytes ({error})"
            ) from error


class LogFile:
    """A file `log.N`.

    Attributes:
        path: where it is.
        torn: why reading ended before the end that a server makes; None: it did not. Known when all was read.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn: str | None = None

    def entries(self) -> Iterator[Entry]:
        """Its entries, each with its checksum compared.

        Raises:
            ZooKeeperFileError: it is no log.
        """
        if self.path.stat().st_size == 0:  # its server died before it wrote the header
            return
        with self.path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            if content[:4] != LOG_MAGIC:
                raise ZooKeeperFileError(
                    f"log {str(self.path)!r} not read: expected a transaction log of ZooKeeper, which begins with "
                    f"{LOG_MAGIC!r}, found {content[:4]!r}; name the server's data directory"
                )
            yield from self._entries(content)

    def _entries(self, content: Any) -> Iterator[Entry]:
        at, size = LOG_HEADER_BYTES, len(content)
        while at + _ENTRY.size <= size:
            checksum, length = _ENTRY.unpack_from(content, at)
            end = at + _ENTRY.size + length
            if length == 0:
                return
            if length < 0 or end >= size or content[end] != ord("B"):
                self.torn = f"the entry at byte {at} is incomplete"
                return
            record = content[at + _ENTRY.size : end]
            if zlib.adler32(record) != checksum or length < _TRANSACTION.size:
                self.torn = f"the entry at byte {at} does not have its checksum"
                return
            _, _, zxid, time_ms, _ = _TRANSACTION.unpack_from(record)
            yield Entry(zxid, time_ms, record)
            at = end + 1
        if at < size:
            self.torn = f"the entry at byte {at} is incomplete"


def is_session(owner: int) -> bool:
    """Whether an owner is a session: neither 0, nor the mark of a container, nor that of a TTL znode.

    Source: ZooKeeper `EphemeralType`.
    """
    ttl = owner & TTL_MASK == TTL_MASK and not owner & _TTL_RESERVED
    return owner not in (0, CONTAINER_OWNER) and not ttl


def _transaction(content: bytes) -> Transaction:
    session, cxid, zxid, time_ms, kind = _TRANSACTION.unpack_from(content)
    at = _TRANSACTION.size
    changes: tuple[Change, ...]
    if kind == _Kind.MULTI:
        changes, at = _multi(content, at, session)
    elif kind == _Kind.CLOSE_SESSION:
        paths, at = _closed_paths(content, at)
        changes = (CloseSession(paths),)
    else:
        change, at = _change(kind, content, at, session)
        changes = () if change is None else (change,)
    return Transaction(zxid, time_ms, session, cxid, changes, _digest(content, at))


def _digest(content: bytes, at: int) -> int | None:
    if at + _DIGEST.size > len(content):
        return None
    version, value = _DIGEST.unpack_from(content, at)
    return int(value) & 0xFFFF_FFFF_FFFF_FFFF if version == DIGEST_VERSION else None


def _closed_paths(content: bytes, at: int) -> tuple[tuple[str, ...] | None, int]:
    """The paths that a closed session left; servers before 3.6 write none, and some write a digest only."""
    left = len(content) - at
    if not left or (left == _DIGEST.size and INT.unpack_from(content, at)[0] == DIGEST_VERSION):
        return None, at
    return take_texts(content, at)


def _multi(content: bytes, at: int, session: int) -> tuple[tuple[Change, ...], int]:
    """The changes of a multi transaction; none, if one of its operations failed."""
    count, at = INT.unpack_from(content, at)[0], at + 4
    changes: list[Change] = []
    failed = False
    for _ in range(count):
        kind, at = INT.unpack_from(content, at)[0], at + 4
        operation, at = take_buffer(content, at)
        failed = failed or kind == _Kind.ERROR
        change, _ = _change(kind, operation or b"", 0, session)
        if change is not None:
            changes.append(change)
    return () if failed else tuple(changes), at


def _change(kind: int, content: bytes, at: int, session: int) -> tuple[Change | None, int]:
    match kind:
        case _Kind.CREATE | _Kind.CREATE_2 | _Kind.CREATE_CONTAINER | _Kind.CREATE_TTL:
            return _create(kind, content, at, session)
        case _Kind.DELETE | _Kind.DELETE_CONTAINER:
            path, at = take_text(content, at)
            return Delete(path), at
        case _Kind.SET_DATA | _Kind.RECONFIG:
            path, at = take_text(content, at)
            data, at = take_buffer(content, at)
            return SetData(path, data, INT.unpack_from(content, at)[0]), at + 4
        case _Kind.SET_ACL:
            path, at = take_text(content, at)
            acl, at = take_acl(content, at)
            return SetAcl(path, acl, INT.unpack_from(content, at)[0]), at + 4
        case _Kind.CHECK:
            _, at = take_text(content, at)
            return None, at + 4
        case _Kind.ERROR:
            return None, at + 4
        case _Kind.OPEN_SESSION:
            return OpenSession(INT.unpack_from(content, at)[0]), at + 4
        case _:
            raise ZooKeeperFileError(
                f"transaction not read: expected a kind of ZooKeeper 3.4 to 3.9, found number {kind}; its server is newer"
            )


def _create(kind: int, content: bytes, at: int, session: int) -> tuple[Create, int]:
    path, at = take_text(content, at)
    data, at = take_buffer(content, at)
    acl, at = take_acl(content, at)
    owner = 0
    if kind in {_Kind.CREATE, _Kind.CREATE_2}:
        owner, at = session if content[at : at + 1] == b"\x01" else 0, at + 1
        if at == len(content):  # ZooKeeper before 3.4 wrote no version of the parent
            return Create(path, data, acl, owner, -1), at
    (parent_cversion,), at = INT.unpack_from(content, at), at + 4
    if kind == _Kind.CREATE_CONTAINER:
        owner = CONTAINER_OWNER
    elif kind == _Kind.CREATE_TTL:
        (ttl_ms,), at = struct.unpack_from("!q", content, at), at + 8
        owner = TTL_MASK | ttl_ms
    return Create(path, data, acl, owner, parent_cversion), at
