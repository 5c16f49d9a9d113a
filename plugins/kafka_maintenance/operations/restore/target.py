"""The ZooKeeper to restore into."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from controller_core.adapters.zookeeper.session import KazooZooKeeper, ZooKeeperAuth, ZooKeeperTls, connect


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The ZooKeeper to restore into."""

    zookeeper: str
    auth: ZooKeeperAuth | None = None
    tls: ZooKeeperTls | None = None
    timeout_s: float = 15.0

    @contextmanager
    def session(self, *, create_chroot: bool) -> Iterator[KazooZooKeeper]:
        """A session for the length of a `with` block."""
        with connect(
            self.zookeeper, auth=self.auth, tls=self.tls, timeout_s=self.timeout_s, create_chroot=create_chroot
        ) as session:
            yield session
