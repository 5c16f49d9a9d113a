"""Two requests that kazoo lacks: reading many znodes at one moment, and watching a whole tree.

They are submitted with kazoo's private `_call`; a test of both against a real server holds the pinned kazoo to it.
Source: ZooKeeper 3.6 `MultiOperationRecord` (opcode 22, `multiRead`), `AddWatchRequest` (opcode 106).
"""

import struct
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

from controller_core.ports.zookeeper import ZnodeStat

MULTI_READ: Final = 22
ADD_WATCH: Final = 106
GET_DATA: Final = 4
GET_CHILDREN: Final = 8
PERSISTENT: Final = 0
PERSISTENT_RECURSIVE: Final = 1
STAT: Final = struct.Struct("!qqqqiiiqiiq")
"""A stat as it is sent: the fields of `ZnodeStat`."""
STAT_BYTES: Final = 68
REQUEST_BYTES_MAX: Final = 900_000  # the server drops the connection of a request over 1,048,575 bytes
READ_OVERHEAD_BYTES: Final = 14  # header, length and watch flag around each path

NO_NODE: Final = -101
NO_AUTH: Final = -102

_INT: Final = struct.Struct("!i")
_HEADER: Final = struct.Struct("!iBi")
_END: Final = _HEADER.pack(-1, 1, -1)
_HEADERS: Final = {kind: _HEADER.pack(kind, 0, -1) for kind in (GET_DATA, GET_CHILDREN)}


class Data(NamedTuple):
    """Answer to GET_DATA: data as stored (None: null) and the stat as ZooKeeper's 68 bytes."""

    data: bytes | None
    stat: bytes

    @property
    def decoded_stat(self) -> ZnodeStat:
        """The stat as numbers."""
        return ZnodeStat(*STAT.unpack(self.stat))


class Children(NamedTuple):
    """Answer to GET_CHILDREN: the names, in no order."""

    names: list[str]


class ReadFailed(NamedTuple):
    """A read that failed, with ZooKeeper's error code (`NO_NODE`, `NO_AUTH`, …); the others are answered nevertheless."""

    code: int


ReadAnswer = Data | Children | ReadFailed


class MultiReadReply(NamedTuple):
    """A reply not yet taken apart, the zxid of the state it shows, and what the caller noted at its arrival."""

    buffer: bytes
    offset: int
    zxid: int
    noted: Any

    def answers(self) -> list[ReadAnswer]:
        """One answer per read, in the order of the request."""
        return _answers(self.buffer, self.offset)


class MultiRead:
    """Reads znodes in one request, all from one state of the tree; kazoo request object.

    Args:
        reads: pairs of GET_DATA or GET_CHILDREN and an absolute path, with the chroot.
        zxid: called in the connection thread when the reply arrives; the header's zxid (`client.last_zxid`).
        note: called at the same moment; its result is kept in the reply. Events that came before are recorded by then.
    """

    type: Final = MULTI_READ

    def __init__(
        self,
        reads: Iterable[tuple[int, str]],
        *,
        zxid: Callable[[], int] = lambda: 0,
        note: Callable[[], Any] = lambda: None,
    ) -> None:
        self._reads = tuple(reads)
        self._zxid = zxid
        self._note = note

    def serialize(self) -> bytes:
        """The body of the request."""
        parts: list[bytes] = []
        for kind, path in self._reads:
            name = path.encode()
            parts += (_HEADERS[kind], _INT.pack(len(name)), name, b"\0")
        parts.append(_END)
        return b"".join(parts)

    def deserialize(self, buffer: bytes, offset: int) -> MultiReadReply:
        """Called by kazoo in its connection thread, in the order of the wire."""
        return MultiReadReply(buffer, offset, self._zxid(), self._note())

    def __repr__(self) -> str:
        return f"MultiRead({len(self._reads)} reads)"


class AddWatch(NamedTuple):
    """Watches a path, and everything below it in mode PERSISTENT_RECURSIVE, until the connection ends; kazoo request object.

    kazoo does not set it again after a reconnect: the caller must.
    """

    path: str
    mode: int = PERSISTENT_RECURSIVE

    @property
    def type(self) -> int:
        """ZooKeeper's opcode."""
        return ADD_WATCH

    def serialize(self) -> bytes:
        """The body of the request."""
        name = self.path.encode()
        return b"".join((_INT.pack(len(name)), name, _INT.pack(self.mode)))

    def deserialize(self, _buffer: bytes, _offset: int) -> bool:
        """The reply says nothing but that it worked."""
        return True


def bounded(paths: Iterable[str], *, count_max: int, bytes_max: int = REQUEST_BYTES_MAX) -> Iterable[Sequence[str]]:
    """`paths` in groups that fit one request: at most `count_max` paths and `bytes_max` bytes each, never empty."""
    group: list[str] = []
    size = 0
    for path in paths:
        cost = len(path.encode()) + READ_OVERHEAD_BYTES
        if group and (len(group) >= count_max or size + cost > bytes_max):
            yield group
            group, size = [], 0
        group.append(path)
        size += cost
    if group:
        yield group


def _answers(buffer: bytes, offset: int) -> list[ReadAnswer]:
    answers: list[ReadAnswer] = []
    append = answers.append
    header, integer, header_bytes = _HEADER.unpack_from, _INT.unpack_from, _HEADER.size
    while True:
        kind, done, _ = header(buffer, offset)
        offset += header_bytes
        if done:
            return answers
        (value,) = integer(buffer, offset)
        offset += 4
        if kind == GET_DATA:
            end = offset + value if value > 0 else offset
            append(Data(buffer[offset:end] if value >= 0 else None, buffer[end : end + STAT_BYTES]))
            offset = end + STAT_BYTES
        elif kind == GET_CHILDREN:
            names: list[str] = []
            for _ in range(value):
                (length,) = integer(buffer, offset)
                names.append(buffer[offset + 4 : offset + 4 + length].decode())
                offset += 4 + length
            append(Children(names))
        else:
            append(ReadFailed(value))
