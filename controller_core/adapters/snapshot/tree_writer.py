"""Writes many znodes in few transactions: how a whole tree is restored.

Transactions are cut by bytes and by count and sent several at a time on one session, which keeps their order, so parents
need not be waited for. A second writing of the same tree finds what the first one left and goes on from there. A server
drops the connection of a request that it finds too large: what was under way is then sent again, znode by znode.
Source: ZooKeeper `multi`; 50 creations a transaction were the fastest when it was measured.
"""

# ruff: noqa: SLF001 -- kazoo's own transaction cannot write null data; kazoo is pinned

import json
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from kazoo.client import KazooClient
from kazoo.exceptions import ConnectionLoss, NodeExistsError, SessionExpiredError
from kazoo.protocol.serialization import Create, Transaction
from kazoo.security import ACL, OPEN_ACL_UNSAFE, Id

from controller_core.adapters.snapshot.wire import translated_errors
from controller_core.model.errors import RestoreConflictError, TooLargeZnodeError

OVERHEAD_BYTES: Final = 64  # around each creation: header, lengths, flags, a short ACL
_TIMEOUT_S: Final = 60.0
_BROKEN: Final = (ConnectionLoss, SessionExpiredError)
"""The request may have been carried out, or not; kazoo connects again."""
_TRIES_MAX: Final = 3  # of one znode by itself, before its size is to blame and not the network
_RECONNECT_POLL_S: Final = 0.05


class NewZnode(NamedTuple):
    """A znode to create: data as stored (None: null) and its ACL as JSON `[[perms, scheme, id], …]` (None: open)."""

    path: str
    data: bytes | None
    acl: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteOptions:
    """How much goes into one transaction, and how many transactions are under way.

    The server refuses a request over its jute.maxbuffer (1 MiB by default) by dropping the connection.
    """

    count_max: int = 100
    bytes_max: int = 400_000
    window: int = 16


def write_tree(
    client: KazooClient,
    znodes: Iterable[NewZnode],
    options: WriteOptions | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> int:
    """Creates the znodes, parents before children as given; how many it created.

    A znode that exists with the same data counts as done. The root is never created. When the
    connection breaks, what was not answered is sent again, znode by znode.

    Args:
        client: a session below whose chroot the znodes are created.
        znodes: parents before children.
        options: how many are created in one transaction, and with what ACL; None: the defaults.
        progress: hears how many were created so far.

    Everything before an error is written, and writing again goes on from there.

    Raises:
        RestoreConflictError: one exists with other data.
        TooLargeZnodeError: one breaks the connection again and again.
        ZooKeeperError: what else the server refuses.
    """
    options = options or WriteOptions()
    acls = _Acls()
    created = 0
    failed: list[Sequence[NewZnode]] = []
    in_flight: deque[tuple[Sequence[NewZnode], Any]] = deque()

    def settle() -> int:
        batch, pending = in_flight.popleft()
        try:
            done = not any(isinstance(answer, Exception) for answer in pending.get(timeout=_TIMEOUT_S))
        except _BROKEN:
            done = False
        if not done:
            failed.append(batch)  # something was there already, or is too large: one by one, after those under way
        return len(batch) if done else 0

    with translated_errors(client, "written"):
        for batch in _batches(znodes, options):
            while len(in_flight) >= options.window or (failed and in_flight):
                created += settle()
            for late in failed:
                created += _one_by_one(client, late, acls)
            failed.clear()
            in_flight.append((batch, _submit(client, batch, acls)))
            progress(created)
        while in_flight:
            created += settle()
        for late in failed:
            created += _one_by_one(client, late, acls)
        progress(created)
    return created


def raise_version(client: KazooClient, path: str, version: int) -> None:
    """Sets a znode's data to what it is until its version is `version`: for `/brokers/seqid`, whose version is its value."""
    with translated_errors(client, "written"):
        data, stat = client.get(path)
        while stat.version < version:
            stat = client.set(path, data, stat.version)


class _Acls:
    """JSON → kazoo's ACLs, each made once."""

    def __init__(self) -> None:
        self._made: dict[str, list[Any]] = {}

    def of(self, text: str | None) -> list[Any]:
        if text is None:
            return list(OPEN_ACL_UNSAFE)
        made = self._made.get(text)
        if made is None:
            made = [ACL(perms, Id(scheme, name)) for perms, scheme, name in json.loads(text)]
            self._made[text] = made
        return made


def _batches(znodes: Iterable[NewZnode], options: WriteOptions) -> Iterator[Sequence[NewZnode]]:
    batch: list[NewZnode] = []
    size = 0
    for znode in znodes:
        cost = len(znode.path.encode()) + len(znode.data or b"") + OVERHEAD_BYTES + len(znode.acl or "")
        if batch and (len(batch) >= options.count_max or size + cost > options.bytes_max):
            yield batch
            batch, size = [], 0
        batch.append(znode)
        size += cost
    if batch:
        yield batch


def _submit(client: Any, batch: Sequence[NewZnode], acls: _Acls) -> Any:
    chroot = client.chroot or ""
    request = Transaction([Create(chroot + znode.path, znode.data, acls.of(znode.acl), 0) for znode in batch])
    pending = client.handler.async_result()
    client._call(request, pending)
    return pending


def _one_by_one(client: Any, batch: Sequence[NewZnode], acls: _Acls) -> int:
    created = 0
    for znode in batch:
        answer = _alone(client, znode, acls)
        if isinstance(answer, NodeExistsError):
            found, _ = client.get(znode.path)
            if (found or b"") != (znode.data or b""):
                raise RestoreConflictError(
                    f"znode {znode.path!r} not written: expected none, or one with the {len(znode.data or b'')} bytes to "
                    f"restore, found {len(found or b'')} other bytes; somebody else writes here: stop that, plan again"
                )
        elif isinstance(answer, Exception):
            raise answer
        else:
            created += 1
    return created


def _alone(client: Any, znode: NewZnode, acls: _Acls) -> Any:
    """What the server answers to the creation of one znode; nothing else is under way, so a break of the connection is its own."""
    for _ in range(_TRIES_MAX):
        _wait_until_connected(client)
        try:
            return _submit(client, [znode], acls).get(timeout=_TIMEOUT_S)[0]
        except _BROKEN as error:
            last: Exception = error
    raise TooLargeZnodeError(
        f"znode {znode.path!r} not written: expected an answer, but the connection broke at each of {_TRIES_MAX} tries "
        f"({type(last).__name__}); its {len(znode.data or b'')} bytes are likely more than the server's jute.maxbuffer "
        "(1,048,575 by default): raise that on every server, then run again"
    ) from last


def _wait_until_connected(client: Any) -> None:
    """Until kazoo has connected again; `ConnectionLoss` when it does not."""
    deadline = time.monotonic() + _TIMEOUT_S
    while not client.connected:
        if time.monotonic() > deadline:
            raise ConnectionLoss
        time.sleep(_RECONNECT_POLL_S)
