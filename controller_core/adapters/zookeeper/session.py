"""ZooKeeper over the network: the port, spoken through kazoo.

Source: kazoo 2.11; `docs/zookeeper.md` says which rights a session needs.
"""

# ruff: noqa: SLF001 -- kazoo offers no public way to submit a multi-read; kazoo is pinned and a test holds it

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, assert_never

from kazoo import exceptions as kazoo_errors
from kazoo.client import KazooClient
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.serialization import CheckVersion, SetData, Transaction
from kazoo.protocol.serialization import Create as CreateRequest
from kazoo.protocol.serialization import Delete as DeleteRequest
from kazoo.security import ACL, Id

from controller_core.adapters.host_names import hosts_in, unknown_hosts
from controller_core.adapters.zookeeper import kerberos
from controller_core.adapters.zookeeper.multi_read import (
    GET_DATA,
    NO_AUTH,
    NO_NODE,
    STAT,
    Data,
    MultiRead,
    ReadAnswer,
    bounded,
)
from controller_core.adapters.zookeeper.tls import ZooKeeperTls, client_options, tls_refusal
from controller_core.model.errors import (
    BadVersionError,
    ConnectionLostError,
    EphemeralParentError,
    InvalidHostsError,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    ZooKeeperError,
    ZooKeeperUnreachableError,
)
from controller_core.ports.zookeeper import (
    ANYONE_ALL,
    CREATOR_ALL_WORLD_READ,
    Acl,
    Check,
    Create,
    Delete,
    Operation,
    Set,
    Watcher,
    WatchEvent,
    WatchEventKind,
    ZnodeStat,
    require_path,
)

__all__ = ["KazooZooKeeper", "ZooKeeperAuth", "ZooKeeperTls", "acl_beside", "connect"]

_EPHEMERAL_FLAG, _SEQUENTIAL_FLAG = 1, 2
_READ, _ALL = 1, 31
_READ_COUNT_MAX = 1000
_IN_FLIGHT_MAX = 100
_SESSION_TIMEOUT_S = 30.0
_OPERATION_TIMEOUT_S = 60.0
_RECONNECT_S = 1.0
"""Longest pause between two tries to connect again; kazoo's own grows to 60 s, longer than most sessions."""


log = logging.getLogger(__name__)
_kazoo_log = logging.getLogger("kazoo.client.without_requests")
_kazoo_log.addFilter(lambda record: record.levelno >= logging.INFO)
"""Below INFO kazoo logs each request and answer whole: logins, and the credentials in znodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ZooKeeperAuth:
    """As whom a session writes.

    Attributes:
        scheme: `sasl` is SASL DIGEST-MD5, `kerberos` SASL GSSAPI.
        username: for Kerberos the principal.
        password: none for Kerberos, whose keys are in a keytab (`adapters.zookeeper.kerberos`).
    """

    scheme: Literal["digest", "sasl", "kerberos"]
    username: str
    password: str = ""

    def __repr__(self) -> str:
        return f"ZooKeeperAuth(scheme={self.scheme!r}, username={self.username!r}, password=…)"


@contextmanager
def connect(
    hosts: str,
    *,
    auth: ZooKeeperAuth | None = None,
    tls: ZooKeeperTls | None = None,
    acl: tuple[Acl, ...] | None = None,
    timeout_s: float = 15.0,
    session_timeout_s: float = _SESSION_TIMEOUT_S,
    create_chroot: bool = False,
) -> Iterator["KazooZooKeeper"]:
    """A session for the length of a `with` block.

    Args:
        hosts: `host:port,host:port/chroot`.
        auth: credentials of digest, SASL DIGEST-MD5 or Kerberos; None: anonymous.
        tls: None: plain text; else the port is the servers' secureClientPort.
        acl: what znodes are created with. None: a session with credentials or a client certificate follows the parent (`acl_beside`); any
            other creates znodes that are open to everybody, as Kafka does without `zookeeper.set.acl`.
        timeout_s: how long to wait for a server.
        session_timeout_s: how long the session outlives a broken connection; the server may shorten it.
        create_chroot: make a missing chroot, as a broker does.

    Raises:
        ZooKeeperUnreachableError: nobody answered in time, or nobody with a certificate that we trust.
        NoAuthError: the credentials, or our certificate, were refused, or Kerberos gave no ticket.
        TlsSettingsError: a file of `tls` cannot be used.
        NoNodeError: the chroot does not exist.
    """
    client = _client(hosts, auth, tls, session_timeout_s)
    try:
        _start(client, hosts, timeout_s, auth, tls)
        authenticated = auth is not None or (tls is not None and tls.certificate is not None)
        session = KazooZooKeeper(client, default_acl=acl or (None if authenticated else ANYONE_ALL))
        _require_chroot(session, hosts, create=create_chroot)
        yield session
    finally:
        client.stop()
        client.close()


class KazooZooKeeper:
    """A session through kazoo; implements `ports.ZooKeeper`. Made by `connect`.

    When it has expired, kazoo opens another one in silence: calls in between raise `SessionExpiredError`, later ones
    succeed. Who must not go on then checks an ephemeral znode that only the first session can have made.

    Attributes:
        client: the kazoo client, for reading a whole tree (`adapters.snapshot`).
    """

    def __init__(self, client: KazooClient, *, default_acl: tuple[Acl, ...] | None = ANYONE_ALL) -> None:
        self.client = client
        self._default_acl = default_acl
        self._beside: dict[str, tuple[Acl, ...]] = {}
        self._multi_read_known = True

    def when_suspended(self, hear: Callable[[], None]) -> None:
        """Calls `hear`, from a thread of kazoo's, when the connection breaks or the session ends."""

        def changed(state: str) -> None:
            if state != "CONNECTED":
                hear()

        self.client.add_listener(changed)

    @property
    def session_id(self) -> int:
        """See `ports.ZooKeeper`."""
        return int(self.client.client_id[0]) if self.client.client_id else 0

    def get(self, path: str, *, watch: Watcher | None = None) -> tuple[bytes, ZnodeStat]:
        """See `ports.ZooKeeper`."""
        data, stat = self._answer("get", path, lambda: self.client.get_async(path, watch=_kazoo_watch(watch)))
        return data or b"", ZnodeStat(*stat)

    def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, ZnodeStat] | None]:
        """See `ports.ZooKeeper`; up to 1,000 paths or 900,000 bytes are one multi-read."""
        found: list[tuple[bytes, ZnodeStat] | None] = []
        for group in bounded(paths, count_max=_READ_COUNT_MAX):
            found += self._multi_read(group) if self._multi_read_known else self._single_reads(group)
        return found

    def exists(self, path: str, *, watch: Watcher | None = None) -> ZnodeStat | None:
        """See `ports.ZooKeeper`."""
        stat = self._answer("look for", path, lambda: self.client.exists_async(path, watch=_kazoo_watch(watch)))
        return None if stat is None else ZnodeStat(*stat)

    def children(self, path: str, *, watch: Watcher | None = None) -> list[str]:
        """See `ports.ZooKeeper`."""
        names = self._answer(
            "list the children of", path, lambda: self.client.get_children_async(path, watch=_kazoo_watch(watch))
        )
        return sorted(names)

    def create(
        self,
        path: str,
        data: bytes = b"",
        *,
        ephemeral: bool = False,
        sequential: bool = False,
        make_parents: bool = False,
        acl: tuple[Acl, ...] | None = None,
    ) -> str:
        """See `ports.ZooKeeper`."""
        created = self._answer(
            "create",
            path,
            lambda: self.client.create_async(
                path, data, self._acl(path, acl), ephemeral=ephemeral, sequence=sequential, makepath=make_parents
            ),
        )
        return str(created)

    def set(self, path: str, data: bytes, version: int) -> ZnodeStat:
        """See `ports.ZooKeeper`."""
        return ZnodeStat(*self._answer("set", path, lambda: self.client.set_async(path, data, version), version))

    def delete(self, path: str, version: int) -> None:
        """See `ports.ZooKeeper`."""
        self._answer("delete", path, lambda: self.client.delete_async(path, version), version)

    def multi(self, operations: Sequence[Operation]) -> list[str | ZnodeStat | None]:
        """See `ports.ZooKeeper`."""
        promise = self._submit(Transaction([self._request(operation) for operation in operations]))
        return self._committed(operations, promise)

    def multi_all(
        self, transactions: Sequence[Sequence[Operation]]
    ) -> list[list[str | ZnodeStat | None] | ZooKeeperError]:
        """See `ports.ZooKeeper`; up to 100 are in flight."""
        results: list[list[str | ZnodeStat | None] | ZooKeeperError] = []
        for start in range(0, len(transactions), _IN_FLIGHT_MAX):
            window = transactions[start : start + _IN_FLIGHT_MAX]
            promises = [self._submit(Transaction([self._request(each) for each in one])) for one in window]
            for operations, promise in zip(window, promises, strict=True):
                try:
                    results.append(self._committed(operations, promise))
                except ZooKeeperError as error:
                    results.append(error)
        return results

    def sync(self, path: str) -> None:
        """See `ports.ZooKeeper`."""
        self._answer("sync", path, lambda: self.client.sync_async(path))

    def _answer(self, attempt: str, path: str, ask: Callable[[], Any], version: int | None = None) -> Any:
        """What kazoo answers, its exceptions translated; an answer that never comes is a lost connection."""
        require_path(path)
        try:
            return self._wait(attempt, path, ask(), version)
        except kazoo_errors.KazooException as error:
            raise _translated(error, attempt, path, version) from error

    def _wait(self, attempt: str, path: str, promise: Any, version: int | None = None) -> Any:
        try:
            return promise.get(timeout=_OPERATION_TIMEOUT_S)
        except (kazoo_errors.KazooException, KazooTimeoutError) as error:
            raise _translated(error, attempt, path, version) from error

    def _committed(self, operations: Sequence[Operation], promise: Any) -> list[str | ZnodeStat | None]:
        answers = self._wait(f"transaction of {len(operations)}", _first_path(operations), promise)
        for index, (operation, answer) in enumerate(zip(operations, answers, strict=True)):
            if isinstance(answer, Exception) and not isinstance(answer, _ROLLED_BACK):
                attempt = f"{type(operation).__name__.lower()} (operation {index} of {len(operations)})"
                error = _translated(answer, attempt, operation.path, getattr(operation, "version", None))
                error.failed_operation = index
                raise error
        return [self._result(operation, answer) for operation, answer in zip(operations, answers, strict=True)]

    def _submit(self, request: Any) -> Any:
        pending = self.client.handler.async_result()
        self.client._call(request, pending)
        return pending

    def _multi_read(self, paths: Sequence[str]) -> list[tuple[bytes, ZnodeStat] | None]:
        request = MultiRead((GET_DATA, self._full(path)) for path in paths)
        try:
            reply = self._answer("read many from", paths[0], lambda: self._submit(request))
        except _UnimplementedError:  # the server is older than 3.6
            self._multi_read_known = False
            return self._single_reads(paths)
        return [_found(path, answer) for path, answer in zip(paths, reply.answers(), strict=True)]

    def _single_reads(self, paths: Sequence[str]) -> list[tuple[bytes, ZnodeStat] | None]:
        found: list[tuple[bytes, ZnodeStat] | None] = []
        for start in range(0, len(paths), _IN_FLIGHT_MAX):
            pending = [(path, self.client.get_async(path)) for path in paths[start : start + _IN_FLIGHT_MAX]]
            for path, promise in pending:
                try:
                    data, stat = self._wait("get", path, promise)
                except NoNodeError:
                    found.append(None)
                else:
                    found.append((data or b"", ZnodeStat(*stat)))
        return found

    def _request(self, operation: Operation) -> Any:
        path = self._full(operation.path)
        match operation:
            case Create(data=data, ephemeral=ephemeral, sequential=sequential, acl=acl):
                flags = _EPHEMERAL_FLAG * ephemeral | _SEQUENTIAL_FLAG * sequential
                return CreateRequest(path, data, self._acl(operation.path, acl), flags)
            case Set(data=data, version=version):
                return SetData(path, data, version)
            case Delete(version=version):
                return DeleteRequest(path, version)
            case Check(version=version):
                return CheckVersion(path, version)
            case _:
                assert_never(operation)

    def _result(self, operation: Operation, answer: Any) -> str | ZnodeStat | None:
        match operation:
            case Create():
                return str(answer).removeprefix(self.client.chroot)
            case Set():
                return ZnodeStat(*answer)
            case Delete() | Check():
                return None
            case _:
                assert_never(operation)

    def _acl(self, path: str, acl: tuple[Acl, ...] | None) -> list[Any]:
        chosen = acl or self._default_acl or self._acl_of_children(path.rpartition("/")[0] or "/")
        return [ACL(entry.permissions, Id(entry.scheme, entry.id)) for entry in chosen]

    def _acl_of_children(self, parent: str) -> tuple[Acl, ...]:
        """What an authenticated session creates below `parent` with; asked once per parent and session."""
        if parent not in self._beside:
            try:
                found, _ = self._answer("read the ACL of", parent, lambda: self.client.get_acls_async(parent))
            except (NoNodeError, NoAuthError):  # made by this very call, or hidden from us
                return CREATOR_ALL_WORLD_READ
            self._beside[parent] = acl_beside([Acl(each.perms, each.id.scheme, each.id.id) for each in found])
        return self._beside[parent]

    def _full(self, path: str) -> str:
        return (self.client.chroot + require_path(path)).rstrip("/") or "/"


def acl_beside(parent: Sequence[Acl]) -> tuple[Acl, ...]:
    """The ACL of a znode that an authenticated session of ours creates below a znode with the ACL `parent`.

    All rights for the creator; for whoever else is named at the parent, what he may do there, so that brokers of another principal can rewrite
    our requests; for the world to read and no more, and not even that where the parent is hidden from it.
    Source: Kafka 3.9 `ZkData.defaultAcls`; ZooKeeper shows a digest as `user:x` to sessions that may not administer the znode.
    """
    others = [
        each for each in parent if each.scheme != "world" and not (each.scheme == "digest" and each.id.endswith(":x"))
    ]
    readable = not parent or any(each.scheme == "world" and each.permissions & _READ for each in parent)
    return (Acl(_ALL, "auth", ""), *others, *((Acl(_READ, "world", "anyone"),) if readable else ()))


class _UnimplementedError(ZooKeeperError):
    """The server does not know the request."""


_ROLLED_BACK = (kazoo_errors.RolledBackError, kazoo_errors.RuntimeInconsistency)
_TRANSLATIONS: tuple[tuple[type[Exception], type[ZooKeeperError], str], ...] = (
    (kazoo_errors.NoNodeError, NoNodeError, "expected a znode, found none"),
    (kazoo_errors.NodeExistsError, NodeExistsError, "expected none, found one"),
    (kazoo_errors.NotEmptyError, NotEmptyError, "expected no children, found some; delete them first"),
    (kazoo_errors.NoChildrenForEphemeralsError, EphemeralParentError, "the parent is ephemeral, cannot have children"),
    (kazoo_errors.NoAuthError, NoAuthError, "the session has no permission; authenticate as the brokers do"),
    # of a session that stood: kazoo says so also where the connection broke while it logged in again
    (kazoo_errors.AuthFailedError, SessionExpiredError, "the session ended while it logged in again; open another one"),
    (kazoo_errors.InvalidACLError, NoAuthError, "the ACL was refused; authenticate before creating with it"),
    (kazoo_errors.ConnectionClosedError, SessionExpiredError, "the session was closed; open another one"),
    (kazoo_errors.SessionExpiredError, SessionExpiredError, "the session is over; open another one"),
    (kazoo_errors.UnimplementedError, _UnimplementedError, "the server does not know this request; it is too old"),
)
_LOST = "the connection broke before an answer came; a write may have happened, read before you repeat it"


def _translated(error: Exception, attempt: str, path: str, version: int | None = None) -> ZooKeeperError:
    if isinstance(error, kazoo_errors.BadVersionError):
        return BadVersionError(f"{attempt} {path}: expected version {version}, found another; read it again")
    for theirs, ours, text in _TRANSLATIONS:
        if isinstance(error, theirs):
            return ours(f"{attempt} {path}: {text}")
    return ConnectionLostError(f"{attempt} {path}: {_LOST} ({type(error).__name__})")


def _found(path: str, answer: ReadAnswer) -> tuple[bytes, ZnodeStat] | None:
    if isinstance(answer, Data):
        return answer.data or b"", ZnodeStat(*STAT.unpack(answer.stat))
    code = getattr(answer, "code", None)
    if code == NO_NODE:
        return None
    if code == NO_AUTH:
        raise NoAuthError(f"get {path}: the session has no permission; authenticate as the brokers do")
    raise ZooKeeperError(f"get {path}: ZooKeeper answered with code {code}; look it up in its KeeperException.Code")


@dataclass(frozen=True, slots=True)
class _KazooWatch:
    """A watch as kazoo calls it; equal for equal watches, so that setting one twice is setting it once."""

    watch: Watcher

    def __call__(self, event: Any) -> None:
        self.watch(WatchEvent(_WATCH_KINDS.get(event.type, WatchEventKind.LOST), event.path or "/"))


_WATCH_KINDS = {
    "CREATED": WatchEventKind.CREATED, "DELETED": WatchEventKind.DELETED, "CHANGED": WatchEventKind.CHANGED, "CHILD": WatchEventKind.CHILDREN,
}  # fmt: skip


def _kazoo_watch(watch: Watcher | None) -> _KazooWatch | None:
    return None if watch is None else _KazooWatch(watch)


def _first_path(operations: Sequence[Operation]) -> str:
    return operations[0].path if operations else "/"


def _client(hosts: str, auth: ZooKeeperAuth | None, tls: ZooKeeperTls | None, session_timeout_s: float) -> KazooClient:
    options: dict[str, Any] = {}
    if auth is not None and auth.scheme == "sasl":
        options["sasl_options"] = {"mechanism": "DIGEST-MD5", "username": auth.username, "password": auth.password}
    elif auth is not None and auth.scheme == "kerberos":
        options |= kerberos.client_options(auth.username)
    elif auth is not None:
        if tls is None and not _is_loopback(hosts):
            log.warning(
                "ZooKeeper login %r travels in clear text to %s: scheme digest without TLS; use tls, or sasl or kerberos, which send no password",
                *(auth.username, hosts),
            )
        options["auth_data"] = [("digest", f"{auth.username}:{auth.password}")]
    if tls is not None:
        options |= client_options(tls, hosts)
    try:
        again = {"max_tries": -1, "max_delay": _RECONNECT_S}
        return KazooClient(hosts, timeout=session_timeout_s, connection_retry=again, logger=_kazoo_log, **options)
    except ValueError as error:
        raise InvalidHostsError(
            f"hosts {hosts!r} not connected to: expected host:port,host:port/chroot ({error}); correct the address"
        ) from error


def _is_loopback(hosts: str) -> bool:
    """Whether every server is this machine."""
    names = [each.strip().rpartition(":")[0] or each.strip() for each in hosts.partition("/")[0].split(",")]
    return all(name in {"localhost", "[::1]"} or name.startswith("127.") for name in names)


def _start(
    client: KazooClient, hosts: str, timeout_s: float, auth: ZooKeeperAuth | None, tls: ZooKeeperTls | None
) -> None:
    states: set[str] = set()  # kazoo closes a client whose credentials were refused, and then says no more than that
    client.add_listener(lambda _: states.add(client.client_state))
    if unknown := unknown_hosts(hosts_in(hosts)):
        raise ZooKeeperUnreachableError(
            f"{hosts}: no host of that name is known: {', '.join(unknown)}; check the spelling and the name service"
        )
    if auth is not None and auth.scheme == "kerberos":
        kerberos.require_tickets(auth.username, hosts)
    try:
        with warnings.catch_warnings(action="ignore", category=UserWarning):  # a missing chroot is our own error
            client.start(timeout=timeout_s)
    except KazooTimeoutError as error:
        if "AUTH_FAILED" in states:
            raise NoAuthError(f"{hosts}: the credentials were refused; check user and password") from error
        refusal = None if tls is None else tls_refusal(hosts, tls)
        if refusal is not None:
            raise refusal from error
        hint = "" if tls else " (a secureClientPort answers only to TLS)"
        raise ZooKeeperUnreachableError(
            f"{hosts}: no ZooKeeper server answered within {timeout_s:g} s; check the addresses, the network and whether "
            f"the servers run{hint}"
        ) from error
    except kazoo_errors.KazooException as error:
        raise _translated(error, "connect to", hosts) from error


def _require_chroot(session: KazooZooKeeper, hosts: str, *, create: bool) -> None:
    client = session.client
    try:
        found = session.exists("/")
    except SessionExpiredError as error:  # refused SASL credentials show at the first request
        if isinstance(error.__cause__, kazoo_errors.AuthFailedError):
            raise NoAuthError(f"{hosts}: the credentials were refused; check user and password") from error
        raise
    if found is not None:
        return
    if not create:
        raise NoNodeError(
            f"{hosts}: chroot {client.chroot} does not exist on this ensemble; check the part after the slash (brokers "
            "create it at their first start)"
        )
    try:
        client.ensure_path("/")
    except kazoo_errors.KazooException as error:
        raise _translated(error, "create chroot", client.chroot) from error
