"""Where a cluster's tree is, and as whom it is read or written."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from controller_core.adapters.zookeeper.session import KazooZooKeeper, ZooKeeperAuth, ZooKeeperTls, connect


@dataclass(frozen=True, slots=True)
class ClusterAddress:
    """Where a cluster's tree is, and as whom.

    Attributes:
        zookeeper: `host:port,host:port/chroot`, as zookeeper.connect of the brokers.
        auth: credentials; None: anonymous.
        tls: certificates; None: plain text.
    """

    zookeeper: str
    auth: ZooKeeperAuth | None = None
    tls: ZooKeeperTls | None = None

    def __str__(self) -> str:
        return self.zookeeper

    @property
    def chroot(self) -> str:
        """`/kafka`, or empty text for the root."""
        _, slash, path = self.zookeeper.partition("/")
        return f"{slash}{path}".rstrip("/")

    @property
    def principal(self) -> str:
        """As whom ZooKeeper sees a session: `sasl:kafka`, the certificate's file, or `anonymous`."""
        if self.auth is not None:
            return f"{self.auth.scheme}:{self.auth.username}"
        certificate = self.tls.certificate if self.tls is not None else None
        return f"x509 of {certificate}" if certificate else "anonymous"

    @contextmanager
    def session(
        self, *, timeout_s: float = 15.0, session_timeout_s: float = 30.0, create_chroot: bool = False
    ) -> Iterator[KazooZooKeeper]:
        """A session for the length of a `with` block; arguments and errors: see `connect`."""
        with connect(
            self.zookeeper,
            auth=self.auth,
            tls=self.tls,
            timeout_s=timeout_s,
            session_timeout_s=session_timeout_s,
            create_chroot=create_chroot,
        ) as opened:
            yield opened
