"""The nouns of the controller: partitions, replicas, leadership and assignments, under Kafka's own names.

Source: Kafka 3.9 `TopicPartition`, `LeaderAndIsr`, `ReplicaAssignment`, `Broker`, `org.apache.kafka.common.internals.Topic` (names).
"""

import re
from collections.abc import Iterable, Sequence
from enum import IntEnum
from typing import Final, NamedTuple, NewType

BrokerId = NewType("BrokerId", int)

NO_LEADER = BrokerId(-1)
LEADER_DURING_DELETE = BrokerId(-2)
NO_EPOCH = -1
UNKNOWN_BROKER_EPOCH = -1  # in a request: not to be checked
EPOCH_DURING_DELETE = -2
ZERO_TOPIC_ID = "A" * 22
"""Where nobody knows an id: `Uuid.ZERO_UUID` in Kafka's base64."""
_TOPIC_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_topic_name(name: str) -> bool:
    """Whether Kafka creates topics of that name; a znode can have any."""
    return _TOPIC_NAME.fullmatch(name) is not None and name not in {".", ".."}


class TopicPartition(NamedTuple):
    """One partition; sorts by topic, then number."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class PartitionAndReplica(NamedTuple):
    """One replica of a partition, on broker `replica`."""

    partition: TopicPartition
    replica: BrokerId

    def __str__(self) -> str:
        return f"{self.partition}-{self.replica}"


class LeaderRecoveryState(IntEnum):
    """Whether a leader that was elected uncleanly still recovers (Kafka 3.2+)."""

    RECOVERED = 0
    RECOVERING = 1


class LeaderAndIsr(NamedTuple):
    """Content of a partition's `state` znode, with the znode's version.

    `isr` is ordered; `partition_epoch` is the version of the znode (`zkVersion` before Kafka 3.0);
    `controller_epoch` is that of the controller who caused the last write; `extra` holds unknown fields of the
    JSON as (key, JSON text of the value), so that nothing is lost in a rewrite.
    """

    leader: BrokerId
    leader_epoch: int
    isr: tuple[BrokerId, ...]
    recovery: LeaderRecoveryState = LeaderRecoveryState.RECOVERED
    partition_epoch: int = 0
    controller_epoch: int = 0
    extra: tuple[tuple[str, str], ...] = ()

    def new_leader_and_isr(
        self, leader: BrokerId, isr: tuple[BrokerId, ...], recovery: LeaderRecoveryState, controller_epoch: int
    ) -> "LeaderAndIsr":
        """Another leader and ISR, one leader epoch later, caused by the controller of `controller_epoch`.

        Args:
            leader: broker id, or -1 for none.
            isr: in-sync brokers.
            recovery: whether the leader may lack data.
            controller_epoch: of the controller that decided it.
        """
        return LeaderAndIsr(
            leader, self.leader_epoch + 1, isr, recovery, self.partition_epoch, controller_epoch, self.extra
        )

    def new_epoch(self, controller_epoch: int) -> "LeaderAndIsr":
        """Leader and ISR as they are, one leader epoch later."""
        return self.new_leader_and_isr(self.leader, self.isr, self.recovery, controller_epoch)

    def during_delete(self) -> "LeaderAndIsr":
        """What brokers hear of a partition whose topic is queued for deletion: leader -2, both epochs 0."""
        return LeaderAndIsr(LEADER_DURING_DELETE, 0, self.isr, self.recovery, 0, self.controller_epoch, self.extra)


class ReplicaAssignment(NamedTuple):
    """Replicas of a partition, preferred first; `adding` and `removing` are non-empty while it is reassigned."""

    replicas: tuple[BrokerId, ...]
    adding: tuple[BrokerId, ...] = ()
    removing: tuple[BrokerId, ...] = ()

    @property
    def is_being_reassigned(self) -> bool:
        """Whether replicas are being added or removed."""
        return bool(self.adding or self.removing)

    @property
    def origin(self) -> tuple[BrokerId, ...]:
        """Replicas without those being added, in order."""
        return _without(self.replicas, self.adding)

    @property
    def target(self) -> tuple[BrokerId, ...]:
        """Replicas without those being removed, in order."""
        return _without(self.replicas, self.removing)

    def reassign_to(self, target: Sequence[BrokerId]) -> "ReplicaAssignment":
        """The assignment on the way to `target`: target first, then the left-overs of the origin."""
        origin = self.origin
        full = tuple(dict.fromkeys((*target, *origin)))
        return ReplicaAssignment(full, _without(full, origin), _without(full, target))

    def remove_replica(self, replica: BrokerId) -> "ReplicaAssignment":
        """The assignment without `replica`, in all three lists."""
        gone = (replica,)
        return ReplicaAssignment(
            _without(self.replicas, gone), _without(self.adding, gone), _without(self.removing, gone)
        )


NO_ASSIGNMENT = ReplicaAssignment(())


class Endpoint(NamedTuple):
    """Where a broker listens; `security_protocol` by Kafka's name, e.g. PLAINTEXT."""

    host: str
    port: int
    listener: str
    security_protocol: str


class Broker(NamedTuple):
    """A registered broker; `epoch` is the czxid of its registration (-1 when unknown)."""

    id: BrokerId
    epoch: int = -1
    endpoints: tuple[Endpoint, ...] = ()
    rack: str | None = None
    features: tuple[tuple[str, tuple[int, int]], ...] = ()


def _without(replicas: Sequence[BrokerId], gone: Iterable[BrokerId]) -> tuple[BrokerId, ...]:
    absent = frozenset(gone)
    return tuple(replica for replica in replicas if replica not in absent)
