"""The tree of a snapshot as the rules of a migration read it: null is told from empty, unread from absent."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

import pyarrow as pa

from controller_core.adapters.snapshot.secrets import SECRET
from controller_core.adapters.snapshot.tables import NO_PERMISSION
from controller_core.model.errors import MalformedZnodeError
from controller_core.model.partitions import LeaderAndIsr, TopicPartition
from controller_core.znodes import (
    ISR_CHANGE_NOTIFICATION,
    LOG_DIR_EVENT_NOTIFICATION,
    PREFERRED_REPLICA_ELECTION,
    REASSIGN_PARTITIONS,
    TOPICS,
    broker_id_of,
    decode_state,
    decode_topic,
    state_path,
)
from controller_core.znodes.partitions import TopicZnode

REQUESTS = (REASSIGN_PARTITIONS, PREFERRED_REPLICA_ELECTION)
"""What is asked of the controller in one znode each; deletions are children of another one."""
NOTIFICATIONS = (ISR_CHANGE_NOTIFICATION, LOG_DIR_EVENT_NOTIFICATION)
"""Parents of what brokers tell the controller."""
TREE_COLUMNS = ("path", "data", "version", "ephemeral_owner", "left_out")
"""What is read of the raw layer."""


@dataclass(frozen=True, slots=True)
class Znode:
    """`data` is None for a null znode, and for one whose content the snapshot does not hold (`why_unread`)."""

    data: bytes | None
    version: int = 0
    ephemeral: bool = False
    why_unread: str | None = None


@dataclass(frozen=True)
class Tree:
    """Path → znode. `public_configs`: path → the settings of a redacted config that are no secrets."""

    znodes: Mapping[str, Znode]
    public_configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def __contains__(self, path: str) -> bool:
        return path in self.znodes

    def data(self, path: str) -> bytes | None:
        """Content of a znode; None where it is null or absent."""
        znode = self.znodes.get(path)
        return None if znode is None else znode.data

    def children(self, path: str) -> tuple[str, ...]:
        """Names of the children, sorted."""
        return self._children.get(path, ())

    def below(self, path: str) -> Iterator[str]:
        """Paths below `path`, sorted, without itself."""
        waiting = [path]
        while waiting:  # a tree may be deeper than calls can be nested
            parent = waiting.pop()
            if parent != path:
                yield parent
            waiting += [f"{parent.rstrip('/')}/{name}" for name in reversed(self.children(parent))]

    def unread(self, reason: str = NO_PERMISSION) -> tuple[str, ...]:
        """Paths whose content the snapshot lacks for this reason."""
        return tuple(path for path, znode in self.znodes.items() if znode.why_unread == reason)

    @cached_property
    def topics(self) -> Mapping[str, TopicZnode | str]:
        """Topic → its decoded znode, or what is wrong with it."""
        found: dict[str, TopicZnode | str] = {}
        for name in self.children(TOPICS):
            path = f"{TOPICS}/{name}"
            if self.znodes[path].why_unread == NO_PERMISSION:
                continue
            try:
                found[name] = decode_topic(self.data(path), path=path)
            except MalformedZnodeError as error:
                found[name] = str(error)
        return found

    def state(self, topic: str, partition: int) -> LeaderAndIsr | None:
        """The state of a partition; None where there is none that can be read, which R6 names."""
        path = state_path(TopicPartition(topic, partition))
        try:
            return decode_state(self.data(path), path=path, version=0)
        except MalformedZnodeError:
            return None

    @cached_property
    def queued(self) -> frozenset[str]:
        """Topics in `/admin/delete_topics`."""
        return frozenset(self.children("/admin/delete_topics"))

    @cached_property
    def replica_brokers(self) -> Mapping[int, str]:
        """Broker id → the first partition that has it among its replicas; not of topics that are being deleted."""
        found: dict[int, str] = {}
        for name, topic in self.topics.items():
            if isinstance(topic, str) or name in self.queued:
                continue
            for number, assignment in sorted(topic.assignments.items()):
                for broker in assignment.replicas:
                    found.setdefault(broker, f"{name}-{number}")
        return found

    @cached_property
    def registered(self) -> frozenset[int]:
        """Ids in `/brokers/ids` that are numbers of 32 bits."""
        return frozenset(broker for broker in self._registrations.values() if broker is not None)

    @property
    def strange_registrations(self) -> tuple[str, ...]:
        """Paths below `/brokers/ids` that name no broker."""
        return tuple(path for path, broker in self._registrations.items() if broker is None)

    @cached_property
    def _registrations(self) -> Mapping[str, int | None]:
        found: dict[str, int | None] = {}
        for name in self.children("/brokers/ids"):
            path = f"/brokers/ids/{name}"
            try:
                found[path] = broker_id_of(path)
            except MalformedZnodeError:
                found[path] = None
        return found

    @cached_property
    def _children(self) -> Mapping[str, tuple[str, ...]]:
        found: dict[str, list[str]] = {}
        for path in self.znodes:
            parent, _, name = path.rpartition("/")
            if name:
                found.setdefault(parent or "/", []).append(name)
        return {parent: tuple(sorted(names)) for parent, names in found.items()}


def tree_of(raw: pa.Table, public_configs: Mapping[str, Mapping[str, str]] | None = None) -> Tree:
    """The tree of a snapshot's raw layer (`tables.RAW`)."""
    columns = [raw[name].to_pylist() for name in TREE_COLUMNS]
    return Tree(
        {
            path: Znode(data, int(version or 0), bool(owner), why)
            for path, data, version, owner, why in zip(*columns, strict=True)
        },
        public_configs or {},
    )


def is_secret(tree: Tree, path: str) -> bool:
    """Whether the znode's content was left out because it holds secrets."""
    return tree.znodes[path].why_unread == SECRET
