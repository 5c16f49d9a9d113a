"""What a broker does when it has become the active controller: watch, clean up, read, tell, start, resume.

Source: Kafka 3.9 `KafkaController.onControllerFailover`, `initializeControllerContext`.
"""

from dataclasses import dataclass, replace
from typing import TypeVar

from immutables import Map

from controller_core.controller.brokers import WatchBrokers
from controller_core.controller.controller_resignation import TriggerControllerMove
from controller_core.controller.leader_elections import ElectRequested, ScheduleNextRebalance
from controller_core.controller.partition_state_machine import StartPartitionMachine
from controller_core.controller.reassignment.triggers import ProcessReassignmentRequest
from controller_core.controller.replica_state_machine import StartReplicaMachine
from controller_core.controller.topic_deletion import InitTopicDeletion, TryTopicDeletion
from controller_core.controller.topics import AssignMissingTopicIds, refuse_unreadable, with_topic_contents
from controller_core.controller.update_metadata import SendMetadataUpdate
from controller_core.engine.turn import Acknowledge, Task, Turn
from controller_core.messages.answers import (
    Answer,
    BrokersRead,
    DeletionRequestsRead,
    Failed,
    NotificationsListed,
    ReassignmentRequestsRead,
    StatesRead,
    TopicAssignmentsRead,
    TopicsRead,
)
from controller_core.messages.effects import (
    DeleteIsrNotifications,
    DeleteLogDirEvents,
    ListIsrNotifications,
    ListLogDirEvents,
    OpenChannels,
    ReadBrokers,
    ReadDeletionRequests,
    ReadPartitionStates,
    ReadPreferredElectionRequest,
    ReadReassignmentRequests,
    ReadTopicAssignments,
    ReadTopics,
    Watch,
    WatchKind,
)
from controller_core.model.refusals import RefusalKind

FIRST_REBALANCE_S = 5
_A = TypeVar("_A", bound=Answer)


@dataclass(frozen=True, slots=True)
class OnControllerFailover(Task):
    """`onControllerFailover`, in its order: watch, clean up, read, tell, start, resume."""

    def __call__(self, turn: Turn) -> None:
        dialect = turn.context.dialect
        kinds = [WatchKind.BROKERS, WatchKind.TOPICS, WatchKind.DELETIONS, WatchKind.ISR_NOTIFICATIONS]
        if dialect.log_dir_failures:
            kinds.append(WatchKind.LOG_DIR_EVENTS)
        turn.send(*(Watch(kind=kind) for kind in (*kinds, WatchKind.PREFERRED_ELECTION, WatchKind.REASSIGNMENT)))
        tasks: list[Task] = []
        if dialect.log_dir_failures:
            tasks.append(DropLogDirEvents())
        if dialect.failover_deletes_notifications:
            tasks.append(DropIsrNotifications())
        tasks += [LoadBrokers(), LoadTopics(), LoadPartitionStates(), OpenAllChannels()]
        if not dialect.adding_and_removing_replicas:
            tasks.append(LoadLegacyRequests())
        tasks += [
            LoadDeletions(),
            SendMetadataUpdate(None),
            StartReplicaMachine(),
            StartPartitionMachine(),
            ProcessReassignmentRequest(at_failover=True),
            TryTopicDeletion(),
            ElectPending(),
        ]
        if turn.context.config.auto_leader_rebalance:
            tasks.append(ScheduleNextRebalance(FIRST_REBALANCE_S))
        turn.push(*tasks, EndFailover())


@dataclass(frozen=True, slots=True)
class EndFailover(Task):
    """Marks where a failover ends: an error before it makes the controller resign."""

    def __call__(self, turn: Turn) -> None:
        """Nothing is left to do."""


def _expect(turn: Turn, kind: type[_A], what: str) -> _A | None:
    """The answer, or None after the failover was given up."""
    answer = turn.answer
    if isinstance(answer, kind):
        return answer
    error = answer.error if isinstance(answer, Failed) else "no answer"
    turn.unwind_to(EndFailover)
    turn.refuse(RefusalKind.FAILED_TRANSITION, "controller", f"failover given up: {what} not read: {error}")
    turn.push(TriggerControllerMove())
    return None


@dataclass(frozen=True, slots=True)
class DropLogDirEvents(Task):
    """What was announced before is found by reading."""

    def __call__(self, turn: Turn) -> None:
        turn.ask(ListLogDirEvents(), DeleteListedLogDirEvents())


@dataclass(frozen=True, slots=True)
class DeleteListedLogDirEvents(Task):
    """Deletes the events that were there."""

    def __call__(self, turn: Turn) -> None:
        answer = _expect(turn, NotificationsListed, "log dir events")
        if answer is not None and answer.names:
            version = turn.context.controller_epoch_version
            turn.ask(DeleteLogDirEvents(names=answer.names, controller_epoch_version=version), Acknowledge())


@dataclass(frozen=True, slots=True)
class DropIsrNotifications(Task):
    """The states are read after this, so they are newer than every deleted notification."""

    def __call__(self, turn: Turn) -> None:
        turn.ask(ListIsrNotifications(), DeleteListedIsrNotifications())


@dataclass(frozen=True, slots=True)
class DeleteListedIsrNotifications(Task):
    """Deletes the notifications that were there."""

    def __call__(self, turn: Turn) -> None:
        answer = _expect(turn, NotificationsListed, "ISR notifications")
        if answer is not None and answer.names:
            version = turn.context.controller_epoch_version
            turn.ask(DeleteIsrNotifications(names=answer.names, controller_epoch_version=version), Acknowledge())


@dataclass(frozen=True, slots=True)
class LoadBrokers(Task):
    """Reads who is registered."""

    def __call__(self, turn: Turn) -> None:
        turn.ask(ReadBrokers(), AdoptBrokers())


@dataclass(frozen=True, slots=True)
class AdoptBrokers(Task):
    """Nobody is shutting down: brokers that are will say so again."""

    def __call__(self, turn: Turn) -> None:
        answer = _expect(turn, BrokersRead, "/brokers/ids")
        if answer is not None:
            turn.change(brokers=Map({broker.id: broker for broker in answer.brokers}), shutting_down=frozenset())


@dataclass(frozen=True, slots=True)
class LoadTopics(Task):
    """Reads the names of all topics."""

    def __call__(self, turn: Turn) -> None:
        turn.ask(ReadTopics(), LoadAssignments())


@dataclass(frozen=True, slots=True)
class LoadAssignments(Task):
    """Reads and watches the topics."""

    def __call__(self, turn: Turn) -> None:
        answer = _expect(turn, TopicsRead, "/brokers/topics")
        if answer is not None:
            topics = tuple(sorted(answer.topics))
            turn.context = turn.context.with_topics(dict.fromkeys(topics))
            if topics:
                turn.send(Watch(kind=WatchKind.TOPIC, names=topics))
            turn.ask(ReadTopicAssignments(topics=topics), AdoptAssignments())


@dataclass(frozen=True, slots=True)
class AdoptAssignments(Task):
    """Assignments become known; partitions with adding or removing replicas are being reassigned."""

    def __call__(self, turn: Turn) -> None:
        answer = _expect(turn, TopicAssignmentsRead, "/brokers/topics/<topic>")
        if answer is None:
            return
        refuse_unreadable(turn, answer.problems)
        context = with_topic_contents(turn.context, answer.topics)
        moving = {p: None for p, x in context.partitions.items() if x.assignment and x.assignment.is_being_reassigned}
        turn.context = replace(context, partitions_being_reassigned=Map(moving))
        turn.push(AssignMissingTopicIds(tuple(sorted(answer.topics))))


@dataclass(frozen=True, slots=True)
class LoadPartitionStates(Task):
    """Reads all `state` znodes."""

    def __call__(self, turn: Turn) -> None:
        context = turn.context
        if context.dialect.watches_broker_data and context.brokers:
            turn.push(WatchBrokers(context.live_or_shutting_down_broker_ids))
        partitions = tuple(sorted(p for p, entry in context.partitions.items() if entry.assignment is not None))
        turn.ask(ReadPartitionStates(partitions=partitions), AdoptPartitionStates())


@dataclass(frozen=True, slots=True)
class AdoptPartitionStates(Task):
    """Leaderships become known, under whatever controller epoch they were written."""

    def __call__(self, turn: Turn) -> None:
        answer = _expect(turn, StatesRead, "partition states")
        if answer is None:
            return
        for partition, problem in sorted(answer.problems.items()):
            if problem.what:
                turn.refuse(
                    RefusalKind.ISOLATED,
                    partition,
                    f"state znode not readable: {problem.what}",
                    kafka="where the decoder raises the failover fails: the controller resigns, and so does the next",
                )
        turn.context = turn.context.with_leaderships(answer.found)


@dataclass(frozen=True, slots=True)
class OpenAllChannels(Task):
    """Connects to every registered broker."""

    def __call__(self, turn: Turn) -> None:
        brokers = turn.context.brokers
        turn.send(OpenChannels(brokers=tuple(brokers[broker] for broker in sorted(brokers))))


@dataclass(frozen=True, slots=True)
class LoadLegacyRequests(Task):
    """Through Kafka 2.3 the request node says what is being reassigned."""

    def __call__(self, turn: Turn) -> None:
        turn.ask(ReadReassignmentRequests(), AdoptLegacyRequests())


@dataclass(frozen=True, slots=True)
class AdoptLegacyRequests(Task):
    """Requests that are done, or whose topic is gone, do not count."""

    def __call__(self, turn: Turn) -> None:
        answer, context = turn.answer, turn.context
        if isinstance(answer, ReassignmentRequestsRead) and answer.targets:
            open_ones = {p: t for p, t in answer.targets.items() if context.assignment(p) not in {(), t}}
            turn.change(reassignment_targets=context.reassignment_targets.update(open_ones))


@dataclass(frozen=True, slots=True)
class LoadDeletions(Task):
    """Reads which deletions were asked for."""

    def __call__(self, turn: Turn) -> None:
        turn.ask(ReadDeletionRequests(), AdoptDeletions())


@dataclass(frozen=True, slots=True)
class AdoptDeletions(Task):
    """`fetchTopicDeletionsInProgress`: dead replicas and reassignments stand against them."""

    def __call__(self, turn: Turn) -> None:
        answer = _expect(turn, DeletionRequestsRead, "/admin/delete_topics")
        if answer is None:
            return
        context = turn.context
        requested = frozenset(answer.topics)
        busy = {p.topic for p in context.partitions_under_reassignment()}
        dead = {
            topic
            for topic in requested
            if any(not context.is_replica_online(r.replica, r.partition) for r in context.replicas_for_topic(topic))
        }
        turn.push(InitTopicDeletion(requested, frozenset(busy | dead)))


@dataclass(frozen=True, slots=True)
class ElectPending(Task):
    """A preferred election that the predecessor did not finish."""

    def __call__(self, turn: Turn) -> None:
        turn.ask(ReadPreferredElectionRequest(), ElectRequested(at_failover=True))
