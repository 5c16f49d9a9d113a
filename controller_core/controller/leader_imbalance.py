"""Preferred-leader imbalance: who should lead what, and which elections would help.

Source: Kafka 3.9 `KafkaController.checkAndTriggerAutoLeaderRebalance`.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from controller_core.context.context import ControllerContext
from controller_core.context.partition_entries import PartitionEntry
from controller_core.model.partitions import NO_LEADER, BrokerId, TopicPartition

DEAD = "preferred broker is not online"
NOT_IN_ISR = "preferred replica is not in the ISR"
REASSIGNMENT_RUNNING = "a reassignment is running, and this version waits for all of them"
TOPIC_UNKNOWN = "topic is not known"
ELECTION_RUNNING = "another preferred-leader election is running"


class BrokerImbalance(NamedTuple):
    """What one broker is preferred for, and does not lead.

    `ratio` is imbalanced / preferred; partitions without leadership count as preferred but not as imbalanced.
    """

    preferred: int
    imbalanced: tuple[TopicPartition, ...]
    ratio: float
    electable: tuple[TopicPartition, ...]
    not_electable: tuple[tuple[TopicPartition, str], ...]


def leader_imbalance(context: ControllerContext) -> Mapping[BrokerId, BrokerImbalance]:
    """The imbalance of every broker that is preferred for something, dead brokers included, by broker id.

    Topics queued for deletion are left out. `electable` is what the automatic run of this version would elect;
    the cached ISR decides, as in Kafka.
    """
    return {
        broker: _imbalance(context, counted, imbalanced)
        for broker, (counted, imbalanced) in sorted(_by_preferred(context).items())
    }


def triggered_brokers(context: ControllerContext, imbalance: Mapping[BrokerId, BrokerImbalance]) -> list[BrokerId]:
    """Brokers whose ratio is strictly above `leader.imbalance.per.broker.percentage`, ascending."""
    threshold = context.config.imbalance_percentage / 100
    return [broker for broker, found in sorted(imbalance.items()) if found.ratio > threshold]


def why_not_electable(context: ControllerContext, partition: TopicPartition, entry: PartitionEntry) -> str | None:
    """Why the automatic run would not elect the partition's preferred replica; None where it would.

    `entry` is the partition's, with an assignment and leadership.
    """
    dialect = context.dialect
    assignment, leadership = entry.assignment, entry.leadership
    preferred = assignment.replicas[0] if assignment is not None and assignment.replicas else NO_LEADER
    if dialect.rebalance_blocked_by_any_reassignment and _any_reassignment(context):
        return REASSIGNMENT_RUNNING
    if dialect.preferred_election_blocks_deletion and context.partitions_in_preferred_election:
        return ELECTION_RUNNING
    topic = context.topics.get(partition.topic)
    if topic is None or not topic.known:
        return TOPIC_UNKNOWN
    live_only = dialect.rebalance_wants_live_broker_only
    up = context.is_live(preferred) if live_only else context.is_replica_online(preferred, partition)
    if not up:
        return DEAD
    in_sync = leadership is not None and preferred in leadership.isr
    return NOT_IN_ISR if dialect.rebalance_requires_preferred_in_isr and not in_sync else None


def _any_reassignment(context: ControllerContext) -> bool:
    return bool(context.partitions_being_reassigned or context.reassignment_targets)


def _by_preferred(context: ControllerContext) -> dict[BrokerId, tuple[int, list[TopicPartition]]]:
    to_be_deleted = context.topics_to_be_deleted
    counts: dict[BrokerId, int] = {}
    imbalanced: dict[BrokerId, list[TopicPartition]] = {}
    for partition, (assignment, leadership, _, _) in context.partitions.items():
        if assignment is None or not assignment[0] or (to_be_deleted and partition.topic in to_be_deleted):
            continue
        preferred = assignment[0][0]
        counts[preferred] = counts.get(preferred, 0) + 1
        if leadership is not None and leadership[0] != preferred:
            imbalanced.setdefault(preferred, []).append(partition)
    return {broker: (count, imbalanced.get(broker, [])) for broker, count in counts.items()}


def _imbalance(context: ControllerContext, preferred: int, imbalanced: Iterable[TopicPartition]) -> BrokerImbalance:
    electable: list[TopicPartition] = []
    not_electable: list[tuple[TopicPartition, str]] = []
    ordered = tuple(sorted(imbalanced))
    for partition in ordered:
        reason = why_not_electable(context, partition, context.entry(partition))
        if reason is None:
            electable.append(partition)
        else:
            not_electable.append((partition, reason))
    return BrokerImbalance(preferred, ordered, len(ordered) / preferred, tuple(electable), tuple(not_electable))
