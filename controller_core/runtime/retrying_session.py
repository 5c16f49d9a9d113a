"""A session that repeats what a broken connection left unanswered, as Kafka's own client does.

A repeated write may meet its own first success: then it answers NODEEXISTS, BADVERSION or NONODE, and the caller must read
again, as Kafka's controller does.
Source: Kafka 3.9 `KafkaZkClient.retryRequestsUntilConnected`.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

from controller_core.model.errors import ConnectionLostError, ZooKeeperError
from controller_core.ports.zookeeper import Acl, Operation, Watcher, ZnodeStat, ZooKeeper

Result = list[str | ZnodeStat | None] | ZooKeeperError
_Answer = TypeVar("_Answer")


class RetryingZooKeeper:
    """Implements `ports.ZooKeeper` on another session; `attempts` is how often a call is tried in all."""

    def __init__(self, session: ZooKeeper, *, attempts: int = 3) -> None:
        self._session = session
        self._attempts = attempts

    @property
    def session_id(self) -> int:
        """See `ports.ZooKeeper`."""
        return self._session.session_id

    def get(self, path: str, *, watch: Watcher | None = None) -> tuple[bytes, ZnodeStat]:
        """See `ports.ZooKeeper`."""
        return self._retried(lambda: self._session.get(path, watch=watch))

    def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, ZnodeStat] | None]:
        """See `ports.ZooKeeper`."""
        return self._retried(lambda: self._session.get_many(paths))

    def exists(self, path: str, *, watch: Watcher | None = None) -> ZnodeStat | None:
        """See `ports.ZooKeeper`."""
        return self._retried(lambda: self._session.exists(path, watch=watch))

    def children(self, path: str, *, watch: Watcher | None = None) -> list[str]:
        """See `ports.ZooKeeper`."""
        return self._retried(lambda: self._session.children(path, watch=watch))

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
        """See `ports.ZooKeeper`; a repeated sequential creation may leave two znodes."""
        return self._retried(
            lambda: self._session.create(
                path, data, ephemeral=ephemeral, sequential=sequential, make_parents=make_parents, acl=acl
            )
        )

    def set(self, path: str, data: bytes, version: int) -> ZnodeStat:
        """See `ports.ZooKeeper`."""
        return self._retried(lambda: self._session.set(path, data, version))

    def delete(self, path: str, version: int) -> None:
        """See `ports.ZooKeeper`."""
        self._retried(lambda: self._session.delete(path, version))

    def multi(self, operations: Sequence[Operation]) -> list[str | ZnodeStat | None]:
        """See `ports.ZooKeeper`."""
        return self._retried(lambda: self._session.multi(operations))

    def multi_all(self, transactions: Sequence[Sequence[Operation]]) -> list[Result]:
        """See `ports.ZooKeeper`; only those without an answer are repeated."""
        results = self._session.multi_all(transactions)
        for _ in range(self._attempts - 1):
            lost = [index for index, result in enumerate(results) if isinstance(result, ConnectionLostError)]
            if not lost:
                break
            again = self._session.multi_all([transactions[index] for index in lost])
            for index, result in zip(lost, again, strict=True):
                results[index] = result
        return results

    def sync(self, path: str) -> None:
        """See `ports.ZooKeeper`."""
        self._retried(lambda: self._session.sync(path))

    def _retried(self, call: Callable[[], _Answer]) -> _Answer:
        for _ in range(self._attempts - 1):
            try:
                return call()
            except ConnectionLostError:
                continue
        return call()
