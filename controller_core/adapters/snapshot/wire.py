"""A kazoo client as the reader of trees needs it: events in wire order, breaks noticed, errors in our words."""

# ruff: noqa: SLF001 -- kazoo lacks public ways to submit these requests and to see events in wire order; kazoo is pinned

import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager
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
from kazoo.exceptions import NoAuthError as KazooNoAuthError
from kazoo.exceptions import SessionExpiredError as KazooSessionExpiredError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.connection import WATCH_XID
from kazoo.protocol.serialization import Watch
from kazoo.protocol.states import KazooState

from controller_core.adapters.snapshot.cut import Progress
from controller_core.adapters.zookeeper.multi_read import GET_CHILDREN, NO_AUTH, NO_NODE, STAT, MultiRead
from controller_core.model.errors import (
    ConnectionLostError,
    NoAuthError,
    NoNodeError,
    ZooKeeperError,
    ZooKeeperUnreachableError,
)

CONNECTION_ERRORS: Final = (
    ConnectionLoss,
    ConnectionClosedError,
    KazooSessionExpiredError,
    OperationTimeoutError,
    KazooTimeoutError,
)
_CHANGED: Final = 3
_CHILDREN_CHANGED: Final = 4
_WAITING_BYTES: Final = 1 << 18
_LENGTH_BYTES: Final = 4
_EVENT: Final = struct.Struct("!ii12xi4xi")
"""Frame of an event: length, xid, (zxid, error), kind, (state), bytes of the path that follows."""


class Wire:
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

    def own(self, roots: Collection[str]) -> Collection[str] | None:
        """What is read of the znodes directly below `/`: those of `roots` at the root of an ensemble, everything below a chroot (None)."""
        return None if self.chroot else roots

    def neighbours(self, roots: Collection[str]) -> tuple[str, ...]:
        """Znodes beside `roots` at the root of an ensemble, without ZooKeeper's own."""
        if self.chroot:
            return ()
        names: list[str] = self.result(self.client.get_children_async("/"))
        return tuple(sorted({f"/{name}" for name in names} - {*roots, "/zookeeper"}))

    def touched(self, start: int, end: int, roots: Collection[str] | None = None) -> set[str]:
        """Paths that the events [start, end) may have changed: the znode, and its parent when it came or went.

        Of other trees than `roots` there are none: nobody reads them. None: everything is read.
        """
        paths: set[str] = set()
        for kind, full in self._events[start:end]:
            path = full[len(self.chroot) :] or "/"
            paths.add(path)
            if kind not in (_CHANGED, _CHILDREN_CHANGED) and path != "/":
                paths.add(path.rpartition("/")[0] or "/")
        if roots is None:
            return paths
        return {path for path in paths if path == "/" or path[: (path + "/").index("/", 1)] in roots}

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
        if not (self.client._data_watchers or self.client._child_watchers):
            self._record_waiting()

    def _record_waiting(self) -> None:
        """Takes the events that have come by now, up to the first reply, all together.

        kazoo makes two selectors for each; at some thousands a second it would never catch up on a busy machine.
        """
        connection = self.client._connection._socket
        if isinstance(connection, ssl.SSLSocket):  # what is decrypted cannot be looked at without taking it
            return
        try:
            waiting: bytes = connection.recv(_WAITING_BYTES, socket.MSG_PEEK)
        except OSError:  # nothing there, or broken, which kazoo's next read will tell
            return
        end = 0
        while len(waiting) >= end + _EVENT.size:
            length, xid, kind, path_bytes = _EVENT.unpack_from(waiting, end)
            if xid != WATCH_XID or len(waiting) < end + _LENGTH_BYTES + length:
                break
            start = end + _EVENT.size
            self._events.append((kind, waiting[start : start + path_bytes].decode()))
            end += _LENGTH_BYTES + length
        while end:
            end -= len(connection.recv(end))

    def _note_state(self, state: str) -> None:
        if state == KazooState.CONNECTED:
            self._connected.set()
        else:
            self._broken = True
            self._connected.clear()


class Teller:
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


def note_failure(code: int, kind: int, path: str, denied: set[str], wire: Wire) -> None:
    """Remembers a path that may not be read; a path that is gone is none; anything else, or the root, is an error.

    Args:
        code: ZooKeeper's error code.
        kind: number of the request that failed.
        path: what was read.
        denied: paths that may not be read; the path joins them.
        wire: the connection, for the message.

    Raises:
        NoNodeError, NoAuthError: the root does not exist, or may not be read.
        ZooKeeperError: any other code.
    """
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


def stats_of_denied(wire: Wire, denied: Iterable[str], zxid: int) -> dict[str, bytes | None]:
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


@contextmanager
def translated_errors(client: Any, action: str = "read") -> Iterator[None]:
    """What kazoo raises and nobody below expects, in our words; `action` is what did not happen."""
    hosts = ",".join(f"{host}:{port}" for host, port in client.hosts) + (client.chroot or "")
    try:
        yield
    except AuthFailedError as error:
        raise NoAuthError(
            f"tree at {hosts} not {action}: the server refuses the login; correct user and password"
        ) from error
    except KazooNoAuthError as error:
        raise NoAuthError(
            f"tree at {hosts} not {action}: the session has no permission; log in as the brokers do"
        ) from error
    except UnimplementedError as error:
        raise ZooKeeperError(
            f"tree at {hosts} not {action}: the server knows no multi-read or recursive watch (older than 3.6); "
            "ask for the two-pass method"
        ) from error
    except CONNECTION_ERRORS as error:
        raise ConnectionLostError(
            f"tree at {hosts} not {action}: the connection broke ({type(error).__name__}); run again"
        ) from error
    except KazooException as error:
        raise ZooKeeperError(
            f"tree at {hosts} not {action}: {type(error).__name__} {error}; see the server's log"
        ) from error
