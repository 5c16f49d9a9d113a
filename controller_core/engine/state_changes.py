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
    for record in records:
        for partition in record.partitions:
            was, now = record.before.get(partition, NOTHING), record.after.get(partition, NOTHING)
            yield from _of_partition(record, partition, was, now)
            brokers = {broker for broker, _ in (*was.replica_states, *now.replica_states)}
            for broker in sorted(brokers):
                before, after = state_of(was.replica_states, broker), state_of(now.replica_states, broker)
                if before is not after:
                    yield StateChange(PartitionAndReplica(partition, broker), before, after, record.cause, now)


def counted(changes: Iterable[StateChange]) -> Counter[ChangeKind]:
    """How many transitions there are of each kind; a partition of which only leadership or ISR changed went from Online to Online."""
    return Counter(
        ChangeKind(
            "replica" if isinstance(each.subject, PartitionAndReplica) else "partition",
            each.before.value,
            each.after.value,
        )
        for each in changes
    )


def counts_text(counts: Mapping[ChangeKind, int]) -> str:
    """The counts in words: `2 partitions from OnlinePartition to OfflinePartition, 1 replica from …`; empty for none."""
    return ", ".join(
        f"{count} {kind.subject}{'s' * (count != 1)} from {kind.before} to {kind.after}"
        for kind, count in sorted(counts.items())
    )


def _of_partition(
    record: Changed, partition: TopicPartition, was: PartitionEntry, now: PartitionEntry
) -> Iterator[StateChange]:
    before, after = was.state or PartitionState.NON_EXISTENT, now.state or PartitionState.NON_EXISTENT
    if before is not after or was.leadership != now.leadership or record.left_isr is not None:
        yield StateChange(partition, before, after, record.cause, now, record.left_isr)
