"""The tree of a ZooKeeper server, as its files hold it, and what a transaction does to it.

A snapshot file is written while the server goes on: it may hold changes of transactions after the one that it is named
after. Replayed over it, such a transaction changes nothing that it had changed already; after the last of them the tree is
exact. Since 3.6 snapshots and transactions hold a digest of the whole tree, which tells.
Source: Apache ZooKeeper 3.9 `DataTree`, `DataNode`, `DigestCalculator`, `NodeHashMapImpl`.
"""

import struct
import zlib
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from controller_core.adapters.zookeeper.multi_read import STAT
from controller_core.adapters.zookeeper_files.jute import OPEN_ACL, READ_ACL, Acl
from controller_core.adapters.zookeeper_files.transactions import (
    Change,
    CloseSession,
    Create,
    Delete,
    OpenSession,
    SetAcl,
    SetData,
    Transaction,
    is_session,
)

ROOT: Final = ""
"""Path of the root in ZooKeeper's files."""
OWN_TREE: Final = "/zookeeper"
DIGEST_MASK: Final = 0xFFFF_FFFF_FFFF_FFFF
_NOT_IN_DIGEST: Final = f"{OWN_TREE}/"
_DIGESTED: Final = struct.Struct("!qqqqqiiiq")


@dataclass(slots=True)
class Node:
    """A znode as it is stored: `cversion` counts creations of children, `owner` marks containers and TTL znodes, too."""

    data: bytes | None
    acl: Acl
    czxid: int
    mzxid: int
    ctime: int
    mtime: int
    version: int
    cversion: int
    aversion: int
    owner: int
    pzxid: int
    child_count: int = 0
    digest: int = 0

    def stat(self) -> bytes:
        """The stat as a client gets it: every deletion of a child counts, too; only ephemeral znodes have an owner."""
        return STAT.pack(
            self.czxid,
            self.mzxid,
            self.ctime,
            self.mtime,
            self.version,
            self.cversion * 2 - self.child_count,
            self.aversion,
            self.owner if is_session(self.owner) else 0,
            len(self.data or b""),
            self.child_count,
            self.pzxid,
        )


def digest_of(path: str, node: Node) -> int:
    """What a znode adds to the digest of its tree."""
    if path.startswith(_NOT_IN_DIGEST):
        return 0
    stat = _DIGESTED.pack(
        node.czxid,
        node.mzxid,
        node.pzxid,
        node.ctime,
        node.mtime,
        node.version,
        node.cversion,
        node.aversion,
        node.owner,
    )
    return zlib.crc32(stat, zlib.crc32(node.data or b"", zlib.crc32(path.encode())))


@dataclass(slots=True)
class DataTree:
    """All znodes of a server and its sessions, after transaction `zxid`.

    Attributes:
        nodes: path → znode; the root is `ROOT`.
        sessions: session → its time-out in ms.
        ephemerals: session → paths of its ephemeral znodes.
        zxid: of the last transaction.
        digest: of the tree, as ZooKeeper 3.6 and newer compute it.
    """

    nodes: dict[str, Node] = field(default_factory=dict, repr=False)
    sessions: dict[int, int] = field(default_factory=dict, repr=False)
    ephemerals: dict[int, set[str]] = field(default_factory=dict, repr=False)
    zxid: int = 0
    digest: int = 0

    def put(self, path: str, node: Node) -> None:
        """Adds a znode, or replaces the one there, as it stands in a snapshot file: its parent comes before it."""
        self.nodes[path] = node
        node.digest = digest_of(path, node)
        self.digest = (self.digest + node.digest) & DIGEST_MASK
        if path:
            self.nodes[path.rpartition("/")[0]].child_count += 1
            if is_session(node.owner):
                self.ephemerals.setdefault(node.owner, set()).add(path)

    def apply(self, transaction: Transaction) -> None:
        """Brings the tree to the state after the next transaction."""
        for change in transaction.changes:
            self._apply(change, transaction)
        self.zxid = transaction.zxid

    def closed(self, transaction: Transaction, change: CloseSession) -> Iterable[str]:
        """The znodes that end with the transaction's session."""
        own = self.ephemerals.get(transaction.session, set())
        return sorted(own.union(change.paths or ()))

    def _apply(self, change: Change, by: Transaction) -> None:
        match change:
            case Create():
                self._create(change, by)
            case Delete(path):
                self._delete(path, by)
            case SetData(path, data, version):
                node = self.nodes.get(path.rstrip("/"))
                if node is not None:
                    node.data, node.version, node.mtime, node.mzxid = data, version, by.time_ms, by.zxid
                    self._changed(path.rstrip("/"), node)
            case SetAcl(path, acl, version):
                node = self.nodes.get(path.rstrip("/"))
                if node is not None:
                    node.acl, node.aversion = acl, version
                    self._changed(path.rstrip("/"), node)
            case OpenSession(timeout_ms):
                self.sessions[by.session] = timeout_ms
            case CloseSession():
                for path in self.closed(by, change):
                    self._delete(path, by)
                self.ephemerals.pop(by.session, None)
                self.sessions.pop(by.session, None)

    def _create(self, change: Create, by: Transaction) -> None:
        above = change.path.rpartition("/")[0]
        parent = self.nodes.get(above)
        if parent is None:  # deleted later, while the snapshot was written
            return
        cversion = parent.cversion + 1 if change.parent_cversion == -1 else change.parent_cversion
        if cversion > parent.cversion:
            parent.cversion, parent.pzxid = cversion, by.zxid
            self._changed(above, parent)
        there = self.nodes.get(change.path)
        if there is not None:
            there.acl = change.acl
            return
        node = Node(change.data, change.acl, by.zxid, by.zxid, by.time_ms, by.time_ms, 0, 0, 0, change.owner, by.zxid)
        self.put(change.path, node)

    def _delete(self, path: str, by: Transaction) -> None:
        above = path.rpartition("/")[0]
        parent = self.nodes.get(above)
        if parent is None:
            return
        node = self.nodes.pop(path, None)
        if by.zxid > parent.pzxid:
            parent.pzxid = by.zxid
            self._changed(above, parent)
        if node is not None:
            parent.child_count -= 1
            self.digest = (self.digest - node.digest) & DIGEST_MASK
            if is_session(node.owner):
                self.ephemerals.get(node.owner, set()).discard(path)

    def _changed(self, path: str, node: Node) -> None:
        new = digest_of(path, node)
        self.digest = (self.digest + new - node.digest) & DIGEST_MASK
        node.digest = new


def new_tree() -> DataTree:
    """What a new server begins with."""
    tree = DataTree()
    for path in (ROOT, OWN_TREE, f"{OWN_TREE}/quota", f"{OWN_TREE}/config"):
        acl = READ_ACL if path.endswith("/config") else OPEN_ACL
        tree.put(path, Node(b"", acl, 0, 0, 0, 0, 0, 0, 0, 0, 0))
    return tree
