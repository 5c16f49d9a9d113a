"""What the core's surroundings must offer: ZooKeeper as a small protocol, and the operations of a transaction as data.

Source: `KafkaZkClient` needs no more than this; ZooKeeper's `Stat` and `multi`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple, Protocol, runtime_checkable

from controller_core.model.errors import ZooKeeperError

ANY_VERSION = -1
"""A write or a deletion with this version is unconditional."""


class ZnodeStat(NamedTuple):
    """ZooKeeper's `Stat`: zxids are transaction ids, times are milliseconds since 1970-01-01 UTC.

    `ephemeral_owner` is the session id of an ephemeral znode's owner, 0 for a persistent one.
    """

    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    ephemeral_owner: int
    data_length: int
    num_children: int
    pzxid: int


class Acl(NamedTuple):
    """One entry of an ACL; `permissions` is ZooKeeper's bit set (31: all, 1: read)."""

    permissions: int
    scheme: str
    id: str


ANYONE_ALL = (Acl(31, "world", "anyone"),)
CREATOR_ALL_WORLD_READ = (Acl(31, "auth", ""), Acl(1, "world", "anyone"))
"""What brokers with `zookeeper.set.acl=true` create their znodes with; a writer to such a cluster must do so too."""
CREATOR_ALL = (Acl(31, "auth", ""),)
"""The same for the sensitive trees `/config/users`, `/config/brokers` and `/delegation_token/tokens`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Create:
    """Create a znode; answered by the path created."""

    path: str
    data: bytes = b""
    ephemeral: bool = False
    sequential: bool = False
    acl: tuple[Acl, ...] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Set:
    """Set a znode's data if it has this version; answered by the new `ZnodeStat`."""

    path: str
    data: bytes
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """Delete a znode that has this version and no children; answered by None."""

    path: str
    version: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """Fail the transaction unless the znode has this version; answered by None."""

    path: str
    version: int


Operation = Create | Set | Delete | Check


class WatchEventKind(Enum):
    """What a watch reports, by ZooKeeper's names; LOST when the session or the connection ended."""

    CREATED = "NodeCreated"
    DELETED = "NodeDeleted"
    CHANGED = "NodeDataChanged"
    CHILDREN = "NodeChildrenChanged"
    LOST = "None"


class WatchEvent(NamedTuple):
    """What happened to the watched `path`; a watch fires once."""

    kind: WatchEventKind
    path: str


Watcher = Callable[[WatchEvent], None]


@runtime_checkable
class ZooKeeper(Protocol):
    """One session with ZooKeeper. Paths are absolute, below the session's chroot.

    All methods raise `ZooKeeperError` subclasses: `NoNodeError`, `NodeExistsError`, `NotEmptyError`, `BadVersionError`,
    `NoAuthError`, `SessionExpiredError`, `ConnectionLostError`. After `ConnectionLostError` a write may have happened.
    """

    @property
    def session_id(self) -> int:
        """Id of the session, as it appears in `ZnodeStat.ephemeral_owner`."""

    def get(self, path: str, *, watch: Watcher | None = None) -> tuple[bytes, ZnodeStat]:
        """Data and stat of a znode; null data is b"". `watch` hears of the next change or deletion."""

    def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, ZnodeStat] | None]:
        """What `get` answers for each path, None for one that does not exist.

        Paths of one batch (up to 1,000) are read at one moment where the server is 3.6 or newer. `NoAuthError` for
        one path fails the call.
        """

    def exists(self, path: str, *, watch: Watcher | None = None) -> ZnodeStat | None:
        """Stat of a znode, or None. `watch` hears of its creation, next change or deletion."""

    def children(self, path: str, *, watch: Watcher | None = None) -> list[str]:
        """Names of the children, sorted. `watch` hears of the next birth or death among them."""

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
        """Create a znode and return its path, which for a sequential one ends in ten digits.

        `make_parents` creates missing parents first, persistent and empty; `acl` None means the session's default.

        Args:
            path: relative to the session's chroot.
            data: of the new znode.
            ephemeral: whether it ends with the session.
            sequential: whether ZooKeeper appends ten digits to the path.
            make_parents: whether missing parents are created first, persistent and empty.
            acl: None is the session's default.
        """

    def set(self, path: str, data: bytes, version: int) -> ZnodeStat:
        """Set a znode's data if its version is `version` (`ANY_VERSION`: whatever it is); the new stat."""

    def delete(self, path: str, version: int) -> None:
        """Delete a znode without children, if its version is `version` (`ANY_VERSION`: whatever it is)."""

    def multi(self, operations: Sequence[Operation]) -> list[str | ZnodeStat | None]:
        """Carry out all operations in one transaction, or none; one answer each.

        Raises:
            ZooKeeperError: the subclass that the failing operation would raise, with `failed_operation` set to its
                index in `operations`.
        """

    def multi_all(
        self, transactions: Sequence[Sequence[Operation]]
    ) -> list[list[str | ZnodeStat | None] | ZooKeeperError]:
        """Carry out each transaction by itself, in order and without waiting in between.

        What `multi` returns or raises, for each. After a lost connection the rest answer `ConnectionLostError` too.
        """

    def sync(self, path: str) -> None:
        """Wait until the server answers with all writes that happened before this call."""


def require_path(path: str) -> str:
    """`path` itself.

    Raises:
        ValueError: it is not absolute, ends in a slash, or has an empty name.
    """
    if not path.startswith("/") or (len(path) > 1 and path.endswith("/")) or "//" in path or "\0" in path:
        raise ValueError(f"path {path!r}: expected an absolute path such as /brokers/topics, without empty names")
    return path
