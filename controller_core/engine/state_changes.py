"""Which partition and replica went from which state to which, and on which command: what Kafka writes to `state-change.log`.

Source: Kafka 3.9 `ZkPartitionStateMachine`, `ZkReplicaStateMachine`. A replica that keeps its state and a partition that keeps
state and leadership are not listed; Kafka has a TRACE line for them.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import NamedTuple

from controller_core.context.partition_entries import NOTHING, PartitionEntry, state_of
from controller_core.model.partitions import BrokerId, PartitionAndReplica, TopicPartition
from controller_core.model.states import PartitionState, ReplicaState
from controller_core.model.words import counted


class StateChange(NamedTuple):
    """One transition of a partition or of a replica.

    Attributes:
        subject: what changed its state.
        before: its state until then; NonExistent where nothing was known of it.
        after: its state since.
        cause: name of the command that led to it: an event's class, or `RunTasks`.
        entry: all that is known of the partition after it.
        left_isr: the replica whose way to Offline took it out of the ISR; None: the partition itself was changed.
    """

    subject: TopicPartition | PartitionAndReplica
    before: PartitionState | ReplicaState
    after: PartitionState | ReplicaState
    cause: str
    entry: PartitionEntry
    left_isr: BrokerId | None = None


class ChangeKind(NamedTuple):
    """Of what kind a transition is: `partition` or `replica`, and the states by Kafka's names."""

    subject: str
    before: str
    after: str


class Changed(NamedTuple):
    """Entries that one call of a state machine changed: both maps, of which only `partitions` are compared."""

    before: Mapping[TopicPartition, PartitionEntry]
    after: Mapping[TopicPartition, PartitionEntry]
    partitions: Collection[TopicPartition]
    cause: str
    left_isr: BrokerId | None = None


def state_changes(records: Iterable[Changed]) -> Iterator[StateChange]:
    """The transitions of these calls, in their order; of one partition before those of its replicas."""
    for record, partition, was, now in _entries(records):
        if _is_told(record, was, now):
            yield StateChange(partition, _state(was), _state(now), record.cause, now, record.left_isr)
        for broker, before, after in _replicas(was, now):
            yield StateChange(PartitionAndReplica(partition, broker), before, after, record.cause, now)


def transition_counts(records: Iterable[Changed]) -> Counter[ChangeKind]:
    """How many transitions of each kind these calls made; where only leadership or ISR changed, a partition goes from Online to Online."""
    partitions: Counter[tuple[PartitionState, PartitionState]] = Counter()
    replicas: Counter[tuple[ReplicaState, ReplicaState]] = Counter()
    for record, _, was, now in _entries(records):
        if _is_told(record, was, now):
            partitions[_state(was), _state(now)] += 1
        for _, before, after in _replicas(was, now):
            replicas[before, after] += 1
    found = Counter[ChangeKind]()
    for subject, counts in (("partition", partitions), ("replica", replicas)):
        found.update(
            {ChangeKind(subject, before.value, after.value): count for (before, after), count in counts.items()}
        )
    return found


def counts_text(counts: Mapping[ChangeKind, int]) -> str:
    """The counts in words: `2 partitions from OnlinePartition to OfflinePartition, 1 replica from …`; empty for none."""
    return ", ".join(
        f"{counted(count, kind.subject)} from {kind.before} to {kind.after}" for kind, count in sorted(counts.items())
    )


def _entries(
    records: Iterable[Changed],
) -> Iterator[tuple[Changed, TopicPartition, PartitionEntry, PartitionEntry]]:
    for record in records:
        for partition in record.partitions:
            yield record, partition, record.before.get(partition, NOTHING), record.after.get(partition, NOTHING)


def _state(entry: PartitionEntry) -> PartitionState:
    return entry.state or PartitionState.NON_EXISTENT


def _is_told(record: Changed, was: PartitionEntry, now: PartitionEntry) -> bool:
    return _state(was) is not _state(now) or was.leadership != now.leadership or record.left_isr is not None


def _replicas(was: PartitionEntry, now: PartitionEntry) -> Iterator[tuple[BrokerId, ReplicaState, ReplicaState]]:
    if was.replica_states != now.replica_states:
        for broker in sorted({broker for broker, _ in (*was.replica_states, *now.replica_states)}):
            before, after = state_of(was.replica_states, broker), state_of(now.replica_states, broker)
            if before is not after:
                yield broker, before, after
