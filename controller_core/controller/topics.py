"""New topics, deleted topics, new partitions.

Source: Kafka 3.9 `KafkaController.processTopicChange`,
`processPartitionModifications`, `processTopicDeletion`, `onNewPartitionCreation`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from controller_core.context.context import ControllerContext
from controller_core.controller import elections
from controller_core.controller.brokers import refuse_read
from controller_core.controller.partition_state_machine import ChangePartitionStates
from controller_core.controller.replica_state_machine import ChangeReplicaStates
from controller_core.controller.topic_deletion import (
    DropDeletionRequests,
    EnqueueTopicsForDeletion,
    MarkTopicsIneligible,
)
from controller_core.controller.topic_znode import topic_node
from controller_core.engine.turn import Acknowledge, Task, Turn
from controller_core.messages.answers import (
    DeletionRequestsRead,
    PartitionsListed,
    TopicAssignmentsRead,
    TopicContent,
    TopicIdsAssigned,
    TopicsRead,
)
from controller_core.messages.effects import (
    AssignTopicIds,
    ListPartitions,
    ReadDeletionRequests,
    ReadTopicAssignments,
    ReadTopics,
    Watch,
    WatchKind,
)
from controller_core.model.partitions import ReplicaAssignment, TopicPartition
from controller_core.model.refusals import RefusalKind
from controller_core.model.states import PartitionState, ReplicaState


@dataclass(frozen=True, slots=True)
class OnNewPartitionCreation(Task):
    """`onNewPartitionCreation`: partitions that have an assignment and nothing else get states and leaders."""

    partitions: tuple[TopicPartition, ...]

    def __call__(self, turn: Turn) -> None:
        replicas = turn.context.replicas_for_partitions(self.partitions)
        turn.push(
            ChangePartitionStates(self.partitions, PartitionState.NEW),
            ChangeReplicaStates(replicas, ReplicaState.NEW),
            ChangePartitionStates(self.partitions, PartitionState.ONLINE, elections.OFFLINE),
            ChangeReplicaStates(replicas, ReplicaState.ONLINE),
        )


@dataclass(frozen=True, slots=True)
class ProcessTopicChange(Task):
    """`TopicChange`: lists the topics."""

    def __call__(self, turn: Turn) -> None:
        turn.ask(ReadTopics(), CompareTopics())


@dataclass(frozen=True, slots=True)
class CompareTopics(Task):
    """New topics are read; topics that vanished are forgotten."""

    def __call__(self, turn: Turn) -> None:
        if not isinstance(turn.answer, TopicsRead):
            refuse_read(turn, "/brokers/topics")
            return
        current, known = set(turn.answer.topics), set(turn.context.all_topics())
        new = tuple(sorted(current - known))
        for topic in sorted(known - current):
            turn.context = turn.context.remove_topic(topic)
        if new:
            turn.send(Watch(kind=WatchKind.TOPIC, names=new))
            turn.ask(ReadTopicAssignments(topics=new), AdoptNewTopics())


@dataclass(frozen=True, slots=True)
class AdoptNewTopics(Task):
    """Assignments of new topics become known, and their partitions are created."""

    def __call__(self, turn: Turn) -> None:
        answer = turn.answer
        if not isinstance(answer, TopicAssignmentsRead):
            refuse_read(turn, "/brokers/topics/<topic>")
            return
        refuse_unreadable(turn, answer.problems)
        turn.context = with_topic_contents(turn.context, answer.topics)
        fresh = tuple(sorted(p for topic in answer.topics for p in turn.context.partitions_for_topic(topic)))
        if fresh:
            turn.push(OnNewPartitionCreation(fresh))
        turn.push(AssignMissingTopicIds(tuple(sorted(answer.topics))))


@dataclass(frozen=True, slots=True)
class AssignMissingTopicIds(Task):
    """Since Kafka 2.8 every topic gets an id."""

    topics: tuple[str, ...]

    def __call__(self, turn: Turn) -> None:
        known = turn.context.topics
        missing = tuple(topic for topic in self.topics if topic in known and known[topic].topic_id is None)
        if missing and turn.context.dialect.topic_ids:
            version = turn.context.controller_epoch_version
            turn.ask(AssignTopicIds(topics=missing, controller_epoch_version=version), AdoptTopicIds())


@dataclass(frozen=True, slots=True)
class AdoptTopicIds(Task):
    """Takes up the new ids."""

    def __call__(self, turn: Turn) -> None:
        if isinstance(turn.answer, TopicIdsAssigned):
            turn.context = turn.context.with_topics(dict(turn.answer.topic_ids))


def with_topic_contents(context: ControllerContext, topics: Mapping[str, TopicContent]) -> ControllerContext:
    """The context after topic znodes were read: names, ids, unknown fields and assignments."""
    context = context.with_topics({name: content.topic_id for name, content in topics.items()})
    extras = {
        name: context.topics[name]._replace(extra=content.extra) for name, content in topics.items() if content.extra
    }
    context = replace(context, topics=context.topics.update(extras)) if extras else context
    assignments = {}
    for name, content in topics.items():
        for number, assignment in content.assignments.items():
            partition = TopicPartition(name, number)
            assignments[partition] = assignment
    return context.with_assignments(assignments)


def refuse_unreadable(turn: Turn, problems: Mapping[str, str]) -> None:
    """Tells of topic znodes that could not be read; the other topics go on."""
    for topic, problem in sorted(problems.items()):
        turn.refuse(
            RefusalKind.ISOLATED,
            topic,
            f"topic znode not readable: {problem}",
            kafka="the decoder raises: no topic of the call is read, and at a failover the controller resigns",
        )


@dataclass(frozen=True, slots=True)
class ProcessPartitionModifications(Task):
    """`PartitionModifications`: reads the topic again."""

    topic: str

    def __call__(self, turn: Turn) -> None:
        turn.ask(ReadTopicAssignments(topics=(self.topic,)), AddPartitions(self.topic))


@dataclass(frozen=True, slots=True)
class AddPartitions(Task):
    """New partitions are created; of a topic queued for deletion they are taken back."""

    topic: str

    def __call__(self, turn: Turn) -> None:
        answer, context = turn.answer, turn.context
        if not isinstance(answer, TopicAssignmentsRead):
            refuse_read(turn, f"/brokers/topics/{self.topic}")
            return
        refuse_unreadable(turn, answer.problems)
        content = answer.topics.get(self.topic)
        read = {} if content is None else {TopicPartition(self.topic, n): a for n, a in content.assignments.items()}
        added = {p: a for p, a in sorted(read.items()) if not context.assignment(p)}
        if not added:
            return
        if self.topic in context.topics_to_be_deleted:
            reason = f"{len(added)} new partition(s) refused: the topic is being deleted"
            turn.refuse(RefusalKind.INVALID_REQUEST, self.topic, reason)
            if context.dialect.restores_topic_node_during_deletion:
                turn.push(RestoreTopicNode(self.topic, read))
            return
        turn.context = context.with_assignments(added)
        turn.push(OnNewPartitionCreation(tuple(added)))


@dataclass(frozen=True, slots=True)
class RestoreTopicNode(Task):
    """Looks which of the partitions in the topic's znode were ever created."""

    topic: str
    read: Mapping[TopicPartition, ReplicaAssignment]

    def __call__(self, turn: Turn) -> None:
        turn.ask(ListPartitions(topic=self.topic), WriteCreatedPartitions(self.topic, self.read))


@dataclass(frozen=True, slots=True)
class WriteCreatedPartitions(Task):
    """Writes those to the topic's znode; those without a znode of their own go, old or new.

    Their replicas are those that the context knows; through 2.3 those that were read.
    """

    topic: str
    read: Mapping[TopicPartition, ReplicaAssignment]

    def __call__(self, turn: Turn) -> None:
        answer = turn.answer
        if isinstance(answer, PartitionsListed):
            names = frozenset(answer.names)
            created = {p: a for p, a in self.read.items() if str(p.partition) in names}
            if turn.context.dialect.adding_and_removing_replicas:
                created = {p: turn.context.full_assignment(p) for p in created}
            turn.ask(topic_node(turn.context, self.topic, created), Acknowledge())
        else:
            refuse_read(turn, f"/brokers/topics/{self.topic}/partitions")


@dataclass(frozen=True, slots=True)
class ProcessTopicDeletion(Task):
    """`TopicDeletion`: reads the deletion requests."""

    def __call__(self, turn: Turn) -> None:
        turn.ask(ReadDeletionRequests(), EnqueueRequestedDeletions())


@dataclass(frozen=True, slots=True)
class EnqueueRequestedDeletions(Task):
    """Drops requests for unknown topics, and all of them where deletion is disabled; queues the rest."""

    def __call__(self, turn: Turn) -> None:
        answer, context = turn.answer, turn.context
        if not isinstance(answer, DeletionRequestsRead):
            refuse_read(turn, "/admin/delete_topics")
            return
        known = set(context.all_topics())
        unknown = tuple(sorted(set(answer.topics) - known))
        requested = tuple(sorted(set(answer.topics) & known))
        tasks: list[Task] = [DropDeletionRequests(unknown)]
        if not context.config.delete_topic:
            tasks.append(DropDeletionRequests(requested))
        elif requested:
            busy = {p.topic for p in context.partitions_under_reassignment()}
            if context.dialect.preferred_election_blocks_deletion:
                busy |= {p.topic for p in context.partitions_in_preferred_election}
            halted = tuple(topic for topic in requested if topic in busy)
            tasks += [MarkTopicsIneligible(halted), EnqueueTopicsForDeletion(requested)]
        for topic in unknown:
            turn.refuse(RefusalKind.INVALID_REQUEST, topic, "deletion request dropped: there is no such topic")
        turn.push(*tasks)
