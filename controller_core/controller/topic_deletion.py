"""Deleting topics: enqueue, start, fail, retry, resume, complete.

Source: Kafka 3.9 `TopicDeletionManager`. Why a topic is not deletable is in `eligibility`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from controller_core.context.context import ControllerContext
from controller_core.controller.deletion_eligibility import (
    DeletionEligibility,
    IneligibilityKind,
    IneligibilityReason,
    deletion_eligibility,
)
from controller_core.controller.partition_state_machine import ChangePartitionStates
from controller_core.controller.replica_state_machine import ChangeReplicaStates
from controller_core.controller.update_metadata import SendMetadataUpdate
from controller_core.engine.turn import Acknowledge, Task, Turn
from controller_core.messages.answers import Failed
from controller_core.messages.effects import (
    DeleteTopicConfig,
    DeleteTopicDeletions,
    DeleteTopicNode,
    Unwatch,
    WatchKind,
)
from controller_core.model.partitions import PartitionAndReplica, TopicPartition
from controller_core.model.refusals import RefusalKind
from controller_core.model.states import PartitionState, ReplicaState

__all__ = [
    "CompleteReplicaDeletion",
    "DeletionEligibility",
    "EnqueueTopicsForDeletion",
    "FailReplicaDeletion",
    "IneligibilityKind",
    "IneligibilityReason",
    "InitTopicDeletion",
    "MarkTopicsIneligible",
    "ResumeDeletionForTopics",
    "TryTopicDeletion",
    "deletion_eligibility",
    "is_eligible_to_start",
]

_R = ReplicaState
OWNER = "topic deletion"


@dataclass(frozen=True, slots=True)
class InitTopicDeletion(Task):
    """`init`: what a starting controller found; with deletion disabled the requests are dropped."""

    to_be_deleted: frozenset[str]
    ineligible: frozenset[str]

    def __call__(self, turn: Turn) -> None:
        if turn.context.config.delete_topic:
            context = turn.context.queue_topic_deletion(self.to_be_deleted)
            halted = self.ineligible & context.topics_to_be_deleted
            ineligible = context.topics_ineligible_for_deletion | halted
            turn.context = replace(context, topics_ineligible_for_deletion=ineligible)
        else:
            turn.push(DropDeletionRequests(tuple(sorted(self.to_be_deleted))))


@dataclass(frozen=True, slots=True)
class DropDeletionRequests(Task):
    """Removes request nodes without deleting anything."""

    topics: tuple[str, ...]

    def __call__(self, turn: Turn) -> None:
        if self.topics:
            version = turn.context.controller_epoch_version
            turn.ask(DeleteTopicDeletions(topics=self.topics, controller_epoch_version=version), Acknowledge())


@dataclass(frozen=True, slots=True)
class TryTopicDeletion(Task):
    """`resumeDeletions`: completes, retries and starts whatever can be."""

    def __call__(self, turn: Turn) -> None:
        context = turn.context
        if not context.config.delete_topic:
            return
        queued = sorted(context.topics_to_be_deleted)
        done = [t for t in queued if context.are_all_replicas_in_state(t, _R.DELETION_SUCCESSFUL)]
        waiting = [t for t in queued if t not in done]
        retried = [t for t in waiting if _needs_retry(context, t)]
        started = [t for t in waiting if is_eligible_to_start(context, t)]
        if context.dialect.deletion_retries_in_one_call:
            turn.push(*map(CompleteDeleteTopic, done), *_retry(retried), *_start(started))
        else:  # through Kafka 2.4 one topic after the other
            for topic in reversed(queued):
                if topic in done:
                    turn.push(CompleteDeleteTopic(topic))
                else:
                    turn.push(*_retry([topic] if topic in retried else []), StartIfEligible(topic))


def _needs_retry(context: ControllerContext, topic: str) -> bool:
    started = context.is_any_replica_in_state(topic, _R.DELETION_STARTED)
    return not started and context.is_any_replica_in_state(topic, _R.DELETION_INELIGIBLE)


def _retry(topics: list[str]) -> list[Task]:
    return [RetryDeletionForIneligibleReplicas(tuple(topics))] if topics else []


def _start(topics: list[str]) -> list[Task]:
    return [OnTopicDeletion(tuple(topics))] if topics else []


def is_eligible_to_start(context: ControllerContext, topic: str) -> bool:
    """Whether the deletion of the topic may be started now: queued, not under way, nothing against it."""
    under_way = context.is_any_replica_in_state(topic, _R.DELETION_STARTED)
    enabled = context.config.delete_topic
    return enabled and context.is_topic_eligible_for_deletion(topic) and not under_way


@dataclass(frozen=True, slots=True)
class StartIfEligible(Task):
    """Starts the deletion of one topic, if nothing stands against it when its turn comes."""

    topic: str

    def __call__(self, turn: Turn) -> None:
        if is_eligible_to_start(turn.context, self.topic):
            turn.push(OnTopicDeletion((self.topic,)))


@dataclass(frozen=True, slots=True)
class EnqueueTopicsForDeletion(Task):
    """`enqueueTopicsForDeletion`: queues topics and resumes."""

    topics: tuple[str, ...]

    def __call__(self, turn: Turn) -> None:
        if turn.context.config.delete_topic:
            turn.context = turn.context.queue_topic_deletion(self.topics)
            turn.push(TryTopicDeletion())


@dataclass(frozen=True, slots=True)
class ResumeDeletionForTopics(Task):
    """`resumeDeletionForTopics`: nothing stands against these any more; topics not queued are not meant."""

    topics: tuple[str, ...]

    def __call__(self, turn: Turn) -> None:
        resumed = turn.context.topics_to_be_deleted.intersection(self.topics)
        if turn.context.config.delete_topic and resumed:
            turn.change(topics_ineligible_for_deletion=turn.context.topics_ineligible_for_deletion - resumed)
            turn.push(TryTopicDeletion())


@dataclass(frozen=True, slots=True)
class MarkTopicsIneligible(Task):
    """`markTopicIneligibleForDeletion`: something stands against these; topics not queued are not meant."""

    topics: tuple[str, ...]

    def __call__(self, turn: Turn) -> None:
        context = turn.context
        if context.config.delete_topic:
            halted = context.topics_to_be_deleted.intersection(self.topics)
            turn.change(topics_ineligible_for_deletion=context.topics_ineligible_for_deletion | halted)


@dataclass(frozen=True, slots=True)
class FailReplicaDeletion(Task):
    """`failReplicaDeletion`: a broker died, or refused to delete."""

    replicas: tuple[PartitionAndReplica, ...]

    def __call__(self, turn: Turn) -> None:
        failed = _of_queued_topics(turn.context, self.replicas)
        if turn.context.config.delete_topic and failed:
            topics = tuple(sorted({replica.partition.topic for replica in failed}))
            turn.push(
                ChangeReplicaStates(failed, _R.DELETION_INELIGIBLE), MarkTopicsIneligible(topics), TryTopicDeletion()
            )


@dataclass(frozen=True, slots=True)
class CompleteReplicaDeletion(Task):
    """`completeReplicaDeletion`: brokers have deleted these."""

    replicas: tuple[PartitionAndReplica, ...]

    def __call__(self, turn: Turn) -> None:
        if turn.context.config.delete_topic:
            deleted = _of_queued_topics(turn.context, self.replicas)
            turn.push(ChangeReplicaStates(deleted, _R.DELETION_SUCCESSFUL), TryTopicDeletion())


@dataclass(frozen=True, slots=True)
class RetryDeletionForIneligibleReplicas(Task):
    """Ineligible replicas → Offline, from where their deletion can start again."""

    topics: tuple[str, ...]

    def __call__(self, turn: Turn) -> None:
        context = turn.context
        failed = tuple(r for t in self.topics for r in context.replicas_in_state(t, _R.DELETION_INELIGIBLE))
        turn.push(ChangeReplicaStates(failed, _R.OFFLINE))


@dataclass(frozen=True, slots=True)
class OnTopicDeletion(Task):
    """`onTopicDeletion`: partitions cease to exist, brokers hear of it, replicas are deleted."""

    topics: tuple[str, ...]

    def __call__(self, turn: Turn) -> None:
        context = turn.context
        everything = _partitions_of(context, self.topics)
        tasks: list[Task] = []
        unseen = tuple(t for t in self.topics if t not in context.topics_with_deletion_started)
        if unseen and context.dialect.deletion_marks_partitions_nonexistent_first:
            partitions = _partitions_of(context, unseen)
            tasks = [
                ChangePartitionStates(partitions, PartitionState.OFFLINE),
                ChangePartitionStates(partitions, PartitionState.NON_EXISTENT),
                BeginTopicDeletion(unseen),
            ]
        turn.push(*tasks, SendMetadataUpdate(None, everything, OWNER), OnPartitionDeletion(self.topics))


@dataclass(frozen=True, slots=True)
class BeginTopicDeletion(Task):
    """The offline counter no longer moves for these topics."""

    topics: tuple[str, ...]

    def __call__(self, turn: Turn) -> None:
        turn.context = turn.context.begin_topic_deletion(self.topics)


@dataclass(frozen=True, slots=True)
class OnPartitionDeletion(Task):
    """`onPartitionDeletion`: dead replicas → Ineligible; the others, unless deleted already, → Offline → Started."""

    topics: tuple[str, ...]

    def __call__(self, turn: Turn) -> None:
        context = turn.context
        dead, alive = [], []
        for replica in (r for topic in self.topics for r in context.replicas_for_topic(topic)):
            if not context.is_replica_online(replica.replica, replica.partition):
                dead.append(replica)
            elif context.replica_state(replica) is not _R.DELETION_SUCCESSFUL:
                alive.append(replica)
        turn.push(
            ChangeReplicaStates(tuple(dead), _R.DELETION_INELIGIBLE),
            ChangeReplicaStates(tuple(alive), _R.OFFLINE),
            ChangeReplicaStates(tuple(alive), _R.DELETION_STARTED),
            MarkTopicsIneligible(tuple(sorted({replica.partition.topic for replica in dead}))),
        )


@dataclass(frozen=True, slots=True)
class CompleteDeleteTopic(Task):
    """`completeDeleteTopic`: forget the replicas, delete the znodes, forget the topic."""

    topic: str

    def __call__(self, turn: Turn) -> None:
        context = turn.context
        turn.send(Unwatch(kind=WatchKind.TOPIC, names=(self.topic,)))
        deleted = tuple(context.replicas_in_state(self.topic, _R.DELETION_SUCCESSFUL))
        tasks: list[Task] = [ChangeReplicaStates(deleted, _R.NON_EXISTENT)]
        if not context.dialect.deletion_marks_partitions_nonexistent_first:
            partitions = context.partitions_for_topic(self.topic)
            tasks.append(ChangePartitionStates(partitions, PartitionState.OFFLINE))
            tasks.append(ChangePartitionStates(partitions, PartitionState.NON_EXISTENT))
        turn.push(*tasks, DeleteTopicZnodes(self.topic))


@dataclass(frozen=True, slots=True)
class DeleteTopicZnodes(Task):
    """Deletes the topic's znode, then its config, then the request: in this order a crash leaves the request."""

    topic: str

    def __call__(self, turn: Turn) -> None:
        version = turn.context.controller_epoch_version
        turn.ask(DeleteTopicNode(topic=self.topic, controller_epoch_version=version), DeleteConfigOf(self.topic))


@dataclass(frozen=True, slots=True)
class DeleteConfigOf(Task):
    """Goes on once the topic's znode is gone."""

    topic: str

    def __call__(self, turn: Turn) -> None:
        if _deleted(turn, self.topic):
            version = turn.context.controller_epoch_version
            turn.ask(DeleteTopicConfig(topic=self.topic, controller_epoch_version=version), DeleteRequestOf(self.topic))


@dataclass(frozen=True, slots=True)
class DeleteRequestOf(Task):
    """Goes on once the topic's config is gone."""

    topic: str

    def __call__(self, turn: Turn) -> None:
        if _deleted(turn, self.topic):
            effect = DeleteTopicDeletions(
                topics=(self.topic,), controller_epoch_version=turn.context.controller_epoch_version
            )
            turn.ask(effect, ForgetTopic(self.topic))


@dataclass(frozen=True, slots=True)
class ForgetTopic(Task):
    """The end of a deletion."""

    topic: str

    def __call__(self, turn: Turn) -> None:
        if _deleted(turn, self.topic):
            turn.context = turn.context.remove_topic(self.topic)


def _deleted(turn: Turn, topic: str) -> bool:
    if isinstance(turn.answer, Failed):
        reason = f"znodes not deleted: ZooKeeper answered {turn.answer.error}; the topic stays queued"
        turn.refuse(RefusalKind.FAILED_TRANSITION, topic, reason)
        return False
    return True


def _partitions_of(context: ControllerContext, topics: Iterable[str]) -> tuple[TopicPartition, ...]:
    return tuple(partition for topic in topics for partition in context.partitions_for_topic(topic))


def _of_queued_topics(
    context: ControllerContext, replicas: Iterable[PartitionAndReplica]
) -> tuple[PartitionAndReplica, ...]:
    return tuple(replica for replica in replicas if replica.partition.topic in context.topics_to_be_deleted)
