"""A session that lives through broken connections: it repeats what was left unanswered, and keeps its watches, as Kafka's own client does.

A repeated write may meet its own first success: then it answers NODEEXISTS, BADVERSION or NONODE, and the caller must read
again, as Kafka's controller does. A watch is LOST only with the session.
Source: Kafka 3.9 `KafkaZkClient.retryRequestsUntilConnected`; ZooKeeper `ClientCnxn.SendThread.primeConnection`, `DataTree.setWatches`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from controller_core.model.errors import ConnectionLostError, NoNodeError, ZooKeeperError
from controller_core.ports.zookeeper import Acl, Operation, Watcher, WatchEvent, WatchEventKind, ZnodeStat, ZooKeeper

Result = list[str | ZnodeStat | None] | ZooKeeperError
_Answer = TypeVar("_Answer")
_Seen = ZnodeStat | list[str] | None
_Found = TypeVar("_Found", bound=ZnodeStat | list[str] | None)


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
        kept = self._kept(path, watch)
        data, stat = self._retried(lambda: self._session.get(path, watch=kept))
        return data, _seen(kept, stat)

    def get_many(self, paths: Sequence[str]) -> list[tuple[bytes, ZnodeStat] | None]:
        """See `ports.ZooKeeper`."""
        return self._retried(lambda: self._session.get_many(paths))

    def exists(self, path: str, *, watch: Watcher | None = None) -> ZnodeStat | None:
        """See `ports.ZooKeeper`."""
        kept = self._kept(path, watch)
        return _seen(kept, self._retried(lambda: self._session.exists(path, watch=kept)))

    def children(self, path: str, *, watch: Watcher | None = None) -> list[str]:
        """See `ports.ZooKeeper`."""
        kept = self._kept(path, watch, of_children=True)
        return _seen(kept, self._retried(lambda: self._session.children(path, watch=kept)))

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

    def _kept(self, path: str, watch: Watcher | None, *, of_children: bool = False) -> "_KeptWatch | None":
        return None if watch is None else _KeptWatch(self, path, of_children, watch)

    def _retried(self, call: Callable[[], _Answer]) -> _Answer:
        for _ in range(self._attempts - 1):
            try:
                return call()
            except ConnectionLostError:
                continue
        return call()


@dataclass(frozen=True, slots=True)
class _KeptWatch:
    """A watch that is set again when the connection broke, and then told what it missed; equal for equal watches."""

    session: RetryingZooKeeper
    path: str
    of_children: bool
    watch: Watcher
    seen: list[_Seen] = field(default_factory=list, compare=False)

    def __call__(self, event: WatchEvent) -> None:
        if event.kind is not WatchEventKind.LOST:
            self.watch(event)
            return
        try:
            missed = self._missed()
        except ZooKeeperError:  # the session is over, or nobody answers
            self.watch(event)
        else:
            if missed is not None:
                self.watch(WatchEvent(missed, self.path))

    def _missed(self) -> WatchEventKind | None:
        before = self.seen[-1] if self.seen else None  # none: the connection broke while the answer was on its way
        if self.of_children:
            try:
                names = self.session.children(self.path, watch=self.watch)
            except NoNodeError:
                return WatchEventKind.DELETED
            return None if names == before else WatchEventKind.CHILDREN
        stat = self.session.exists(self.path, watch=self.watch)
        if stat is None:
            return None if before is None else WatchEventKind.DELETED
        if not isinstance(before, ZnodeStat):
            return WatchEventKind.CREATED
        return None if stat.mzxid == before.mzxid else WatchEventKind.CHANGED


def _seen(kept: _KeptWatch | None, found: _Found) -> _Found:
    if kept is not None:
        kept.seen.append(found)
    return found
