"""What reading a tree may cost, how far it is, and what comes out of it."""

from dataclasses import dataclass, field
from typing import Literal

from controller_core.adapters.zookeeper.multi_read import Data
from controller_core.znodes import ROOTS

Znode = Data
"""A znode as it was read: its data, and its stat as ZooKeeper's 68 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far a read is: znodes so far, how many there may be (all of the server's; None unknown), seconds since the start."""

    phase: Literal["scan", "settle", "second pass", "acls"]
    read: int
    expected: int | None
    elapsed_s: float

    @property
    def rate(self) -> float:
        """Znodes per second since the start."""
        return self.read / self.elapsed_s if self.elapsed_s else 0.0

    @property
    def eta_s(self) -> float | None:
        """Seconds that the phase may still take; None when nobody knows."""
        if not self.expected or not self.rate:
            return None
        return max(self.expected - self.read, 0) / self.rate


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadOptions:
    """What a read may cost the cluster, and how sure it must be.

    One connection, at most `window` requests in flight, each of at most `batch_count` znodes and (from the second of a
    kind on) about `reply_bytes` of reply, with `pause_s` between them.
    `method`: "auto" takes the cut where the server can (3.6+), else the two passes.
    `acls`: read the ACL of every znode, too.
    `roots`: what is read at the root of an ensemble, where neighbours' trees may stand; below a chroot all is.
    """

    batch_count: int = 1000
    reply_bytes: int = 4 << 20
    window: int = 3
    pause_s: float = 0.0
    method: Literal["auto", "cut", "two_pass", "plain"] = "auto"
    acls: bool = True
    rounds_max: int = 1000
    attempts_max: int = 5
    reply_timeout_s: float = 60.0
    roots: frozenset[str] = ROOTS


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A tree, and how sure it is.

    Attributes:
        znodes: path below the chroot → znode; of all that could be read.
        unreadable: paths that ZooKeeper refused, with their stat at the cut (None when it changed since); what lies below
            them is unknown.
        zxid: the tree is the state after this transaction, if `consistent`.
        consistent: proven; `reason` says why it is not.
        unresolved: how many paths stayed uncertain.
        rounds: how often changed znodes were read again; `attempts`: starts, more than one after a lost connection.
        method: "cut", "two_pass" or "plain" (a scan without a proof, for measurements).
        acls: path → JSON `[[perms, scheme, id], …]`; a znode that is absent here has an unknown ACL.
        acls_carried: how many of them an earlier snapshot knew, and were not read again.
        secured: an ACL is not open to everybody, or a znode could not be read.
        server_version: as the server says, or "unknown".
        scan_zxids: first and last zxid seen while scanning.
        seconds: of the successful attempt: (scan, settle).
        neighbours: znodes at the root of the ensemble that are not Kafka's; neither they nor what is below them was read.
    """

    znodes: dict[str, Znode] = field(repr=False)
    unreadable: dict[str, bytes | None] = field(repr=False)
    zxid: int
    consistent: bool
    reason: str | None
    unresolved: int
    rounds: int
    attempts: int
    method: str
    acls: dict[str, str] = field(repr=False)
    secured: bool
    server_version: str
    scan_zxids: tuple[int, int]
    seconds: tuple[float, float]
    acls_carried: int = 0
    neighbours: tuple[str, ...] = ()
