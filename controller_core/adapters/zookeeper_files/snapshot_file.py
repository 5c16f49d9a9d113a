"""A snapshot file of a ZooKeeper server, `snapshot.N`: reading those of 3.4 to 3.9, writing one that all of them load.

Header, sessions, ACLs by number, znodes with each parent before its children, checksum. The ACL of a znode that was made while
the file was written may be missing; the transaction that made it has it. Since 3.6 the digest of the tree
with its zxid, and a checksum; since 3.9 the last zxid, and a checksum. Older servers ignore what they do not know.
Source: Apache ZooKeeper 3.9 `FileSnap`, `SnapStream`, `SerializeUtils`, `DataTree.deserialize`; snappy-java `SnappyInputStream`.
"""

import gzip
import os
import struct
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final

import pyarrow as pa

from controller_core.adapters.zookeeper_files.jute import (
    INT,
    LONG,
    OPEN_ACL,
    UNKNOWN_ACL,
    Acl,
    TooShortError,
    acl_bytes,
    buffer_bytes,
    take_acl,
    take_buffer,
    take_text,
    text_bytes,
)
from controller_core.adapters.zookeeper_files.transactions import DIGEST_VERSION
from controller_core.adapters.zookeeper_files.tree import DIGEST_MASK, DataTree, Node, digest_of
from controller_core.model.errors import ZooKeeperFileError
from controller_core.model.gc_pause import collector_paused

SNAPSHOT_MAGIC: Final = b"ZKSN"
_HEADER: Final = struct.Struct("!4siq")
_VERSION: Final = 2
_SESSION: Final = struct.Struct("!qi")
_STAT: Final = struct.Struct("!qqqqiiiqq")
_SEAL_BYTES: Final = 13
_LAST_ZXID_BYTES: Final = LONG.size + _SEAL_BYTES
_END: Final = text_bytes("/")
_OPEN_ACL_NUMBER: Final = -1
_SNAPPY_MAGIC: Final = b"\x82SNAPPY\x00"
_SNAPPY_HEADER_BYTES: Final = 16
_WRITE_BYTES: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class TreeDigest:
    """The digest that a server computed of its tree after transaction `zxid`."""

    zxid: int
    value: int


@dataclass(frozen=True, slots=True)
class SnapshotFile:
    """What a file holds: the tree, after the transaction in the file's name, and its digest, where the server had one."""

    tree: DataTree
    digest: TreeDigest | None


def read_snapshot(path: Path, zxid: int) -> SnapshotFile:
    """Reads a file and compares its checksums.

    Args:
        path: plain, or compressed as its name says (`.gz`, `.snappy`).
        zxid: the one in its name.

    Raises:
        ZooKeeperFileError: it is no snapshot, damaged, or torn.
        OSError: it cannot be read.
    """
    try:
        content = _content(path)
        if content[:4] != SNAPSHOT_MAGIC:
            raise ZooKeeperFileError(
                f"snapshot {str(path)!r} not read: expected a snapshot of ZooKeeper, which begins with {SNAPSHOT_MAGIC!r}, "
                f"found {content[:4]!r}; name the server's data directory"
            )
        with collector_paused():
            return _parsed(content, path, zxid)
    except (
        TooShortError,
        UnicodeDecodeError,
        KeyError,
        EOFError,
        gzip.BadGzipFile,
        zlib.error,
        pa.ArrowException,
    ) as error:
        raise ZooKeeperFileError(
            f"snapshot {str(path)!r} not read: expected a whole file, found one that is damaged or torn "
            f"({type(error).__name__}: {error}); use another one"
        ) from error


def _content(path: Path) -> bytes:
    content = path.read_bytes()
    match path.suffix:
        case ".gz":
            return gzip.decompress(content)
        case ".snappy":
            return _from_snappy(content)
        case _:
            return content


def _from_snappy(content: bytes) -> bytes:
    """The content of snappy-java's stream: a header, then blocks with their length before them."""
    codec = pa.Codec("snappy")
    blocks: list[bytes] = []
    if content[: len(_SNAPPY_MAGIC)] != _SNAPPY_MAGIC:
        raise TooShortError(f"expected a stream of snappy-java, found {content[:8]!r}")
    at = _SNAPPY_HEADER_BYTES
    while at < len(content):
        block, at = take_buffer(content, at)
        blocks.append(codec.decompress(block or b"", decompressed_size=_snappy_size(block or b""), asbytes=True))
    return b"".join(blocks)


def _snappy_size(block: bytes) -> int:
    """How many bytes a block becomes: its first bytes, seven bits each, the lowest first."""
    size = 0
    for at, byte in enumerate(block[:5]):
        size |= (byte & 0x7F) << 7 * at
        if byte < 0x80:  # noqa: PLR2004 -- the highest bit says that another byte follows
            break
    return size


def _parsed(content: bytes, path: Path, zxid: int) -> SnapshotFile:
    tree = DataTree(zxid=zxid)
    at = _HEADER.size
    (count,), at = INT.unpack_from(content, at), at + 4
    for _ in range(count):
        session, timeout_ms = _SESSION.unpack_from(content, at)
        tree.sessions[session] = timeout_ms
        at += _SESSION.size
    acls: dict[int, Acl] = {_OPEN_ACL_NUMBER: OPEN_ACL}
    (count,), at = INT.unpack_from(content, at), at + 4
    for _ in range(count):
        (number,), at = LONG.unpack_from(content, at), at + 8
        acls[number], at = take_acl(content, at)
    while True:
        name, at = take_text(content, at)
        if name == "/":
            break
        data, at = take_buffer(content, at)
        (number,) = LONG.unpack_from(content, at)
        tree.put(name, Node(data, acls.get(number, UNKNOWN_ACL), *_STAT.unpack_from(content, at + 8)))
        at += 8 + _STAT.size
    at = _sealed(content, at, path)
    digest = None
    if len(content) - at not in (0, _LAST_ZXID_BYTES):
        digest, at = _digest(content, at)
        at = _sealed(content, at, path)
    if at < len(content):
        at = _sealed(content, at + LONG.size, path)
    return SnapshotFile(tree, digest)


def _digest(content: bytes, at: int) -> tuple[TreeDigest | None, int]:
    (zxid,), (version,) = LONG.unpack_from(content, at), INT.unpack_from(content, at + 8)
    at += 12
    if version < DIGEST_VERSION:  # as hexadecimal text, computed in another way
        return None, take_text(content, at)[1]
    (value,) = LONG.unpack_from(content, at)
    known = zxid > 0 and version == DIGEST_VERSION
    return TreeDigest(zxid, value & DIGEST_MASK) if known else None, at + 8


def _sealed(content: bytes, at: int, path: Path) -> int:
    """The offset after a checksum of all before it; the checksum is compared."""
    (expected,) = LONG.unpack_from(content, at)
    found = zlib.adler32(memoryview(content)[:at])
    if expected != found:
        raise ZooKeeperFileError(
            f"snapshot {str(path)!r} not read: it is damaged, expected checksum {expected:#x} at byte {at}, found {found:#x}; "
            "use another one"
        )
    return at + _SEAL_BYTES


class _Sealing:
    """Writes bytes, and the checksum of all of them where it is asked for."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file = file
        self._waiting: list[bytes] = []
        self._size = 0
        self._checksum = zlib.adler32(b"")

    def write(self, *parts: bytes) -> None:
        self._waiting.extend(parts)
        self._size += sum(map(len, parts))
        if self._size > _WRITE_BYTES:
            self.flush()

    def seal(self) -> None:
        self.flush()
        self.write(LONG.pack(self._checksum), _END)

    def flush(self) -> None:
        content = b"".join(self._waiting)
        self._waiting, self._size = [], 0
        self._checksum = zlib.adler32(content, self._checksum)
        self._file.write(content)


def write_snapshot(path: Path, zxid: int, nodes: Iterable[tuple[str, Node]], sessions: Mapping[int, int]) -> int:
    """Writes a file from which ZooKeeper 3.4 to 3.9 starts; it appears whole or not at all, for its owner alone.

    Args:
        path: of the file, which must not exist; its name is `snapshot.` and the zxid in hexadecimal.
        zxid: the last transaction of the tree.
        nodes: path and znode, the root (`tree.ROOT`) first and each parent before its children.
        sessions: session → time-out in ms; the server ends them, and their ephemeral znodes, when nobody claims them.

    Returns:
        The digest of the tree.

    Raises:
        ZooKeeperFileError: the file exists.
        OSError: it cannot be written.
    """
    if path.exists():
        raise ZooKeeperFileError(
            f"snapshot {str(path)!r} not written: expected no such file, found one; remove it first"
        )
    nodes = list(nodes)
    numbers = {acl: number for number, acl in enumerate(dict.fromkeys(node.acl for _, node in nodes), start=1)}
    scratch = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with os.fdopen(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            digest = _write(_Sealing(file), zxid, nodes, numbers, sessions)
            file.flush()
            os.fsync(file.fileno())
        scratch.rename(path)
    finally:
        scratch.unlink(missing_ok=True)
    return digest


def _write(
    out: _Sealing,
    zxid: int,
    nodes: Iterable[tuple[str, Node]],
    numbers: Mapping[Acl, int],
    sessions: Mapping[int, int],
) -> int:
    out.write(_HEADER.pack(SNAPSHOT_MAGIC, _VERSION, -1), INT.pack(len(sessions)))
    out.write(*(_SESSION.pack(session, timeout_ms) for session, timeout_ms in sessions.items()))
    out.write(INT.pack(len(numbers)))
    for acl, number in numbers.items():
        out.write(LONG.pack(number), acl_bytes(acl))
    digest = 0
    for path, node in nodes:
        stat = _STAT.pack(
            node.czxid,
            node.mzxid,
            node.ctime,
            node.mtime,
            node.version,
            node.cversion,
            node.aversion,
            node.owner,
            node.pzxid,
        )
        out.write(text_bytes(path), buffer_bytes(node.data), LONG.pack(numbers[node.acl]), stat)
        digest += digest_of(path, node)
    digest &= DIGEST_MASK
    signed = digest - (1 << 64) if digest >> 63 else digest
    out.write(_END)
    out.seal()
    out.write(LONG.pack(zxid), INT.pack(DIGEST_VERSION), LONG.pack(signed))
    out.seal()
    out.write(LONG.pack(zxid))
    out.seal()
    out.flush()
    return digest
