"""What is known of one partition and of one topic, and the indexes that follow every change of them.

Source: the maps of Kafka 3.9 `ControllerContext`, joined per partition.
"""

from collections.abc import Iterable
from collections.abc import Set as AbstractSet
from functools import lru_cache
from typing import Generic, NamedTuple, TypeVar

from immutables import Map

from controller_core.model.partitions import BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controller_core.model.states import PartitionState, ReplicaState

_K = TypeVar("_K")
ReplicaStates = tuple[tuple[BrokerId, ReplicaState], ...]
"""States of one partition's replicas, by broker id; a replica that is not there is NonExistent."""
PartitionSet = Map[TopicPartition, None]
NO_PARTITIONS: PartitionSet = Map()
_OFFLINE = PartitionState.OFFLINE
INDEXED_STATES = (PartitionState.NEW, PartitionState.OFFLINE)


class PartitionEntry(NamedTuple):
    """All that is known of one partition; a None is an entry that Kafka's map does not have."""

    assignment: ReplicaAssignment | None = None
    leadership: LeaderAndIsr | None = None
    state: PartitionState | None = None
    replica_states: ReplicaStates = ()

    def has_preferred_leader(self, *, waits_for_adding: bool) -> bool:
        """Whether the preferred replica leads; true where there is no leadership or no replica.

        While the preferred replica is still being added it need not lead (`waits_for_adding`, Kafka 2.7) until it
        is in the ISR.
        """
        assignment, leadership = self.assignment, self.leadership
        if assignment is None or leadership is None or not assignment.replicas:
            return True
        preferred = assignment.replicas[0]
        if waits_for_adding and preferred in assignment.adding:
            return preferred not in leadership.isr
        return leadership.leader == preferred


class TopicEntry(NamedTuple):
    """A topic: its partition numbers in order, its id where it has one, unknown fields of its znode as JSON text.

    `known` is false where partitions are assigned but the topic is not among all topics.
    """

    partitions: tuple[int, ...] = ()
    topic_id: str | None = None
    known: bool = True
    extra: tuple[tuple[str, str], ...] = ()


NOTHING = PartitionEntry()
NO_TOPIC = TopicEntry(known=False)


@lru_cache(maxsize=1 << 16)
def with_replica_state(states: ReplicaStates, broker: BrokerId, state: ReplicaState | None) -> ReplicaStates:
    """The states with one replica's changed; None forgets it. Equal results are shared between partitions."""
    others = [pair for pair in states if pair[0] != broker]
    if state is not None:
        others.append((broker, state))
    return tuple(sorted(others, key=_by_broker))


def state_of(states: ReplicaStates, broker: BrokerId) -> ReplicaState:
    """The state of the replica on `broker`; NonExistent where there is none."""
    for holder, state in states:
        if holder == broker:
            return state
    return ReplicaState.NON_EXISTENT


def _by_broker(pair: tuple[BrokerId, ReplicaState]) -> BrokerId:
    return pair[0]


class _Index(Generic[_K]):
    """Sets of partitions by a key, while they change."""

    __slots__ = ("_added", "_before", "_removed")

    def __init__(self, before: Map[_K, PartitionSet]) -> None:
        self._before = before
        self._added: dict[_K, dict[TopicPartition, None]] = {}
        self._removed: dict[_K, list[TopicPartition]] = {}

    def move(self, partition: TopicPartition, old: _K | None, new: _K | None) -> None:
        """The partition leaves the set of `old` and joins that of `new`; None is no set."""
        if old is not None:
            self._removed.setdefault(old, []).append(partition)
        if new is not None:
            self._added.setdefault(new, {})[partition] = None

    def finish(self) -> Map[_K, PartitionSet]:
        if not self._added and not self._removed:
            return self._before
        after = self._before.mutate()
        for key in self._removed.keys() - self._added.keys():
            left = _minus(self._before[key], self._removed[key])
            if left:
                after[key] = left
            else:
                del after[key]
        for key, partitions in self._added.items():
            kept = _minus(self._before.get(key, NO_PARTITIONS), self._removed.get(key, ()))
            after[key] = kept.update(partitions) if kept else Map(partitions)
        return after.finish()


def _minus(partitions: PartitionSet, gone: Iterable[TopicPartition]) -> PartitionSet:
    after = partitions.mutate()
    for partition in gone:
        del after[partition]
    return after.finish()


class Reindex:
    """What a set of changed entries means for indexes and counters."""

    __slots__ = (
        "_balanced",
        "_numbers",
        "_online",
        "_topics",
        "_waits",
        "imbalanced",
        "in_state",
        "led_by",
        "offline",
        "on_broker",
    )

    def __init__(
        self,
        topics: Map[str, TopicEntry],
        on_broker: Map[BrokerId, PartitionSet],
        led_by: Map[BrokerId, PartitionSet],
        in_state: Map[PartitionState, PartitionSet],
        *,
        balanced_topics: AbstractSet[str],
        online_topics: AbstractSet[str],
        waits_for_adding: bool,
    ) -> None:
        """Starts from the indexes before the change.

        Args:
            topics: topics with their partition numbers.
            on_broker: broker → partitions that it has a replica of.
            led_by: broker, or -1 → partitions that it leads.
            in_state: New and Offline → partitions.
            balanced_topics: topics whose partitions never count as imbalanced.
            online_topics: topics whose partitions never count as offline.
            waits_for_adding: see `PartitionEntry.has_preferred_leader`.
        """
        self._topics = topics
        self._balanced = balanced_topics
        self._online = online_topics
        self._waits = waits_for_adding
        self._numbers: dict[str, set[int]] = {}
        self.on_broker: _Index[BrokerId] = _Index(on_broker)
        self.led_by: _Index[BrokerId] = _Index(led_by)
        self.in_state: _Index[PartitionState] = _Index(in_state)
        self.offline = 0
        self.imbalanced = 0

    def change(self, partition: TopicPartition, old: PartitionEntry, new: PartitionEntry) -> None:
        """Takes up one changed entry."""
        if old.assignment is not new.assignment:
            self._reassigned(partition, old.assignment, new.assignment)
        old_leader = None if old.leadership is None else old.leadership.leader
        new_leader = None if new.leadership is None else new.leadership.leader
        if old_leader != new_leader:
            self.led_by.move(partition, old_leader, new_leader)
        if old.state is not new.state:
            self._state_changed(partition, old.state, new.state)
        if old.leadership is not new.leadership or old.assignment is not new.assignment:
            self._led_otherwise(partition, old, new)

    def _led_otherwise(self, partition: TopicPartition, old: PartitionEntry, new: PartitionEntry) -> None:
        if partition.topic not in self._balanced:
            self.imbalanced += old.has_preferred_leader(waits_for_adding=self._waits)
            self.imbalanced -= new.has_preferred_leader(waits_for_adding=self._waits)

    def _reassigned(
        self, partition: TopicPartition, old: ReplicaAssignment | None, new: ReplicaAssignment | None
    ) -> None:
        before = () if old is None else old.replicas
        after = () if new is None else new.replicas
        for broker in dict.fromkeys(before):
            if broker not in after:
                self.on_broker.move(partition, broker, None)
        for broker in dict.fromkeys(after):
            if broker not in before:
                self.on_broker.move(partition, None, broker)
        if (old is None) is not (new is None):
            numbers = self._numbers.get(partition.topic)
            if numbers is None:
                numbers = set(self._topics.get(partition.topic, NO_TOPIC).partitions)
                self._numbers[partition.topic] = numbers
            (numbers.discard if new is None else numbers.add)(partition.partition)

    def _state_changed(self, partition: TopicPartition, old: PartitionState | None, new: PartitionState | None) -> None:
        self.in_state.move(partition, old if old in INDEXED_STATES else None, new if new in INDEXED_STATES else None)
        if partition.topic not in self._online:
            self.offline += (new is _OFFLINE) - (old is _OFFLINE)

    def topics_after(self) -> Map[str, TopicEntry]:
        """The topics with their partition numbers as they are now."""
        topics = self._topics
        if not self._numbers:
            return topics
        return topics.update(
            {
                name: topics.get(name, NO_TOPIC)._replace(partitions=tuple(sorted(numbers)))
                for name, numbers in self._numbers.items()
            }
        )
