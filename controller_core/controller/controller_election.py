"""Who is the active controller: election, failover, fencing, resignation.

Source: Kafka 3.9 `KafkaController.elect`, `onControllerFailover`,
`onControllerResignation`, `maybeResign`. A cluster that belongs to KRaft, or migrates to it, is refused.
"""

from dataclasses import dataclass, replace
from typing import TypeVar

from immutables import Map

from controller_core.context.context import ControllerContext
from controller_core.controller.brokers import WatchBrokers
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
    ControllerRead,
    ControllerRegistered,
    DeletionRequestsRead,
    Failed,
    NotificationsListed,
    ReassignmentRequestsRead,
    StatesRead,
    TopicAssignmentsRead,
    TopicsRead,
)
from controller_core.messages.effects import (
    CancelSchedules,
    CloseChannels,
    DeleteControllerNode,
    DeleteIsrNotifications,
    DeleteLogDirEvents,
    ListIsrNotifications,
    ListLogDirEvents,
    OpenChannels,
    ReadBrokers,
    ReadController,
    ReadDeletionRequests,
    ReadPartitionStates,
    ReadPreferredElectionRequest,
    ReadReassignmentRequests,
    ReadTopicAssignments,
    ReadTopics,
    RegisterController,
    Unwatch,
    Watch,
    WatchKind,
)
from controller_core.model.refusals import RefusalKind

FIRST_REBALANCE_S = 5
_NODE_EXISTS = "NODEEXISTS"
_A = TypeVar("_A", bound=Answer)

# Election


@dataclass(frozen=True, slots=True)
class Elect(Task):
    """`elect`: becomes controller, unless somebody is."""

    def __call__(self, turn: Turn) -> None:
        turn.ask(ReadController(), ElectIfVacant())


@dataclass(frozen=True, slots=True)
class ElectIfVacant(Task):
    """Registers where no controller is active."""

    def __call__(self, turn: Turn) -> None:
        answer, context = turn.answer, turn.context
        if not isinstance(answer, ControllerRead) or refuse_kraft(turn, answer):
            return
        turn.change(active_controller_id=answer.controller_id)
        if answer.controller_id is None:
            effect = RegisterController(
                controller_id=context.config.controller_id,
                json_version=context.dialect.controller_json_version,
                atomically=context.dialect.election_bumps_epoch_atomically,
            )
            turn.ask(effect, FailOverIfRegistered())


def refuse_kraft(turn: Turn, answer: ControllerRead) -> bool:
    """Whether the cluster is KRaft's; then a refusal says so."""
    kraft = answer.kraft_epoch is not None and answer.kraft_epoch >= 0
    if kraft or answer.migrating:
        what = f"/controller carries kraftControllerEpoch {answer.kraft_epoch}" if kraft else "/migration exists"
        reason = f"{what}: the cluster is run by KRaft, or migrates to it; nothing is done here"
        turn.refuse(RefusalKind.KRAFT, "/controller", reason)
    return kraft or answer.migrating


@dataclass(frozen=True, slots=True)
class FailOverIfRegistered(Task):
    """Registered: fail over. Else somebody was faster, or the registration failed half-way and is taken back."""

    def __call__(self, turn: Turn) -> None:
        answer = turn.answer
        if isinstance(answer, ControllerRegistered):
            turn.change(
                epoch=answer.epoch,
                epoch_zk_version=answer.epoch_zk_version,
                active_controller_id=turn.context.config.controller_id,
            )
            turn.push(OnControllerFailover())
        elif isinstance(answer, Failed) and answer.error == _NODE_EXISTS:
            turn.push(MaybeResign())
        else:
            turn.push(TriggerControllerMove())


@dataclass(frozen=True, slots=True)
class MaybeResign(Task):
    """`maybeResign`: looks who is the active controller."""

    def __call__(self, turn: Turn) -> None:
        turn.ask(ReadController(), ResignIfReplaced())


@dataclass(frozen=True, slots=True)
class ResignIfReplaced(Task):
    """Resigns where it was this controller and is no longer."""

    def __call__(self, turn: Turn) -> None:
        if not isinstance(turn.answer, ControllerRead):
            return
        me, before, now = (
            turn.context.config.controller_id,
            turn.context.active_controller_id,
            turn.answer.controller_id,
        )
        turn.change(active_controller_id=now)
        if before == me and now != me:
            turn.push(OnControllerResignation())


# Resignation


@dataclass(frozen=True, slots=True)
class OnControllerResignation(Task):
    """`onControllerResignation`: stops everything and forgets the cluster."""

    def __call__(self, turn: Turn) -> None:
        context = turn.context
        turn.send(CancelSchedules(), *(Unwatch(kind=kind) for kind in WatchKind))
        if context.brokers:
            turn.send(CloseChannels(brokers=context.live_or_shutting_down_broker_ids))
        turn.context = resigned(context)
        turn.forget_all_but_inbox()


def resigned(context: ControllerContext) -> ControllerContext:
    """A context that knows nothing but who this broker is."""
    me, active = context.config.controller_id, context.active_controller_id
    return ControllerContext(
        dialect=context.dialect,
        config=context.config,
        active_controller_id=None if active == me else active,
        broker_order=context.broker_order,
    )


@dataclass(frozen=True, slots=True)
class TriggerControllerMove(Task):
    """`triggerControllerMove`: deletes `/controller` if it is still ours."""

    def __call__(self, turn: Turn) -> None:
        turn.ask(ReadController(), ResignAndDelete())


@dataclass(frozen=True, slots=True)
class ResignAndDelete(Task):
    """Resigns, then deletes `/controller` under the version known before."""

    def __call__(self, turn: Turn) -> None:
        if not isinstance(turn.answer, ControllerRead):
            return
        context, now = turn.context, turn.answer.controller_id
        me, known = context.config.controller_id, context.active_controller_id
        if now == me:
            version = (
                context.controller_epoch_version if context.epoch > 0 else None
            )  # a controller that never was active knows no version
            turn.push(OnControllerResignation(), DeleteControllerZnode(version))
        elif known != me:
            turn.change(active_controller_id=now)


@dataclass(frozen=True, slots=True)
class DeleteControllerZnode(Task):
    """Deletes `/controller`, so that somebody else is elected."""

    version: int | None

    def __call__(self, turn: Turn) -> None:
        turn.ask(DeleteControllerNode(controller_epoch_version=self.version), Acknowledge())


# Failover


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
