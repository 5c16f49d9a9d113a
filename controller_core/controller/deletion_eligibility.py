"""What stands against deleting a topic: every reason, in words.

Source: Kafka 3.9 `KafkaController.fetchTopicDeletionsInProgress`.
"""

from enum import Enum
from typing import NamedTuple

from controller_core.context.context import ControllerContext
from controller_core.model.partitions import BrokerId, TopicPartition


class IneligibilityKind(Enum):
    """The reasons, in the words of an operator."""

    DELETION_DISABLED = "deletion disabled"
    UNREADABLE = "unreadable, cannot be judged"
    UNKNOWN_TOPIC = "unknown topic"
    DEAD_REPLICA = "dead replica"
    NEVER_LED = "partition that never had a leader"
    REASSIGNMENT = "partition being reassigned"
    PREFERRED_ELECTION = "preferred-replica election running"


class IneligibilityReason(NamedTuple):
    """One reason; `partition` is None where it concerns the whole topic, `brokers` are those to bring back."""

    kind: IneligibilityKind
    partition: TopicPartition | None
    brokers: tuple[BrokerId, ...]
    text: str


class DeletionEligibility(NamedTuple):
    """Whether the deletion of a topic would start now."""

    topic: str
    eligible: bool
    reasons: tuple[IneligibilityReason, ...]


def deletion_eligibility(
    context: ControllerContext, topic: str, *, when_requested: bool = False, unreadable: str | None = None
) -> DeletionEligibility:
    """Everything that stands against deleting `topic`, as a controller finds it when it starts.

    Neither a dead replica nor a reassignment stops a running controller from deleting what is up: the deletion then waits,
    half done. Only a controller that finds the request when it starts waits first. The texts say which of the two it was.

    Args:
        context: the cluster.
        topic: which.
        when_requested: as found when the request arrives, where nobody looks for dead replicas yet.
        unreadable: what of the topic's metadata could not be read, and why; None: all of it is in `context`.
    """
    reasons = tuple(_reasons(context, topic, unreadable))
    if when_requested:
        reasons = tuple(reason for reason in reasons if reason.kind is not IneligibilityKind.DEAD_REPLICA)
    return DeletionEligibility(topic, not reasons, reasons)


def _reasons(context: ControllerContext, topic: str, unreadable: str | None) -> list[IneligibilityReason]:
    if not context.config.delete_topic:
        text = "delete.topic.enable is false: the controller drops every deletion request"
        return [IneligibilityReason(IneligibilityKind.DELETION_DISABLED, None, (), text)]
    if unreadable is not None:
        text = f"{unreadable}; what is known of topic {topic!r} is not enough to judge it"
        return [IneligibilityReason(IneligibilityKind.UNREADABLE, None, (), text)]
    entry = context.topics.get(topic)
    if entry is None or not entry.known:
        text = f"topic {topic!r} does not exist: the controller drops the request"
        return [IneligibilityReason(IneligibilityKind.UNKNOWN_TOPIC, None, (), text)]
    found = []
    for partition in context.partitions_for_topic(topic):
        found.extend(_partition_reasons(context, partition))
    return found


def _partition_reasons(context: ControllerContext, partition: TopicPartition) -> list[IneligibilityReason]:
    found = []
    assignment = context.full_assignment(partition)
    dead = tuple(b for b in assignment.replicas if not context.is_replica_online(b, partition))
    gone = _gone(context, partition, [b for b in assignment.replicas if b not in dead])
    if dead:
        text = f"{partition} has replicas on brokers {list(dead)!r}, which are down or lost the log directory; {gone}"
        found.append(IneligibilityReason(IneligibilityKind.DEAD_REPLICA, partition, dead, text))
    if context.leadership(partition) is None and not context.dialect.offline_without_leader_ok:
        text = f"{partition} never had a leader; up to Kafka 1.1 the deletion then begins and never ends (KAFKA-6650)"
        found.append(IneligibilityReason(IneligibilityKind.NEVER_LED, partition, (), text))
    if assignment.is_being_reassigned or _is_reassigned(context, partition):
        text = f"{partition} is being reassigned; {gone}"
        found.append(IneligibilityReason(IneligibilityKind.REASSIGNMENT, partition, (), text))
    if partition in context.partitions_in_preferred_election and context.dialect.preferred_election_blocks_deletion:
        text = f"{partition} is in a preferred-replica election; {gone}"
        found.append(IneligibilityReason(IneligibilityKind.PREFERRED_ELECTION, partition, (), text))
    return found


def _gone(context: ControllerContext, partition: TopicPartition, online: list[BrokerId]) -> str:
    """What of the partition is gone, or would go at once, although something stands against its deletion.

    A deletion takes the leader of every partition when it begins. One that had none before cannot be told apart; nobody
    can read it either.
    """
    if partition.topic not in context.topics_to_be_deleted:
        return f"a running controller deletes its replicas on brokers {online!r} all the same"
    leadership = context.leadership(partition)
    if leadership is not None and leadership.leader >= 0:
        return "the deletion waits for that, and nothing of the partition is deleted yet"
    return f"its replicas on brokers {online!r} are deleted already, or nobody can read them"


def _is_reassigned(context: ControllerContext, partition: TopicPartition) -> bool:
    return partition in context.partitions_being_reassigned or partition in context.reassignment_targets
