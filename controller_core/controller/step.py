"""`step`: one command on one context.

Source: Kafka 3.9 `ControllerEventManager` (one event thread, in order) and `KafkaController.process`.
"""

from dataclasses import dataclass, field, replace
from typing import assert_never

from controller_core.context.context import ControllerContext
from controller_core.controller.broker_answers import NoteMetadataError, ProcessStopReplicaAnswer
from controller_core.controller.brokers import (
    ProcessBrokerChange,
    ProcessBrokerModification,
    ProcessLeaderAndIsrAnswer,
    ProcessLogDirEvents,
)
from controller_core.controller.controller_election import Elect
from controller_core.controller.controller_resignation import (
    MaybeResign,
    OnControllerResignation,
    TriggerControllerMove,
)
from controller_core.controller.isr_changes import ProcessAlterPartition, ProcessIsrNotifications
from controller_core.controller.leader_elections import (
    ProcessControlledShutdown,
    ProcessElectLeaders,
    ProcessPreferredElectionRequest,
    ProcessRebalanceDue,
    ProcessUncleanElectionEnabled,
)
from controller_core.controller.preemption import NOT_CONTROLLER, preempted
from controller_core.controller.reassignment.kip_455 import ProcessAlterReassignments, ProcessListReassignments
from controller_core.controller.reassignment.triggers import MaybeCompleteReassignment, ProcessReassignmentRequest
from controller_core.controller.topics import ProcessPartitionModifications, ProcessTopicChange, ProcessTopicDeletion
from controller_core.engine.batch import STATE_MACHINES, BatchRecord
from controller_core.engine.request_batch import is_pending
from controller_core.engine.state_changes import Changed, StateChange, state_changes
from controller_core.engine.turn import NO_RESULTS, NOTHING_UNDER_WAY, RunTasks, Task, Turn, UnderWay
from controller_core.messages.answers import CONTROLLER_MOVED, SESSION_EXPIRED, Answer, Failed
from controller_core.messages.effects import (
    AnsweredEffect,
    Effect,
    RegisterController,
    ReplyAlterPartition,
    ReplyControlledShutdown,
    ReplyElections,
    ReplyReassignmentList,
    ReplyReassignments,
)
from controller_core.messages.events import (
    ActiveEvent,
    AlterPartition,
    AlterReassignments,
    BrokerDataChanged,
    BrokersChanged,
    ControlledShutdown,
    ControllerChanged,
    ControllerVanished,
    DeletionsChanged,
    ElectLeaders,
    Event,
    IsrNotificationsChanged,
    LeaderAndIsrAnswered,
    ListReassignments,
    LogDirEventsChanged,
    MoveController,
    PartitionStateChanged,
    PreferredElectionRequested,
    ReassignmentRequested,
    RebalanceDue,
    RequestEvent,
    SessionEstablished,
    SessionExpired,
    Startup,
    StopReplicaAnswered,
    TopicDataChanged,
    TopicsChanged,
    UncleanElectionEnabled,
    UpdateMetadataAnswered,
)
from controller_core.model.errors import UnexpectedAnswerError
from controller_core.model.gc_pause import collector_paused
from controller_core.model.refusals import Refusal, RefusalKind

_LEFT_IN_BATCH = (
    "what the call had collected stays in the batch of its state machine: should this broker become the active controller "
    "again before it restarts, every call of that state machine fails"
)
Command = Event | Answer | RunTasks
"""Closed: this is all that the controller can be given."""


@dataclass(frozen=True, slots=True)
class Step:
    """What came of a command: the context after it, what is under way, what the caller must do, what was not done.

    `batches` are the request batches that were closed on the way, with what was put into them: the same information as
    the requests among the effects, before it was folded. `changes` is what the state machines changed; `transitions` reads it.
    """

    context: ControllerContext
    under_way: UnderWay = NOTHING_UNDER_WAY
    effects: tuple[Effect, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    batches: tuple[BatchRecord, ...] = ()
    changes: tuple[Changed, ...] = field(default=(), compare=False, repr=False)

    @property
    def transitions(self) -> tuple[StateChange, ...]:
        """Which partition and replica went from which state to which, and on which command, in order."""
        return tuple(state_changes(self.changes))

    @property
    def awaiting(self) -> AnsweredEffect | None:
        """The effect whose answer is the next command that goes on; None: nothing is under way."""
        return self.under_way.awaiting

    def then(self, command: Command) -> "Step":
        """The next step, from where this one ended.

        Raises:
            UnexpectedAnswerError: as `step`.
        """
        return step(self.context, command, self.under_way)


def step(context: ControllerContext, command: Command, under_way: UnderWay = NOTHING_UNDER_WAY) -> Step:
    """Runs a command as far as it goes without an answer.

    An event that comes while another waits for its answer is queued; the end of the session drops what was queued before it.
    An answer resumes what waits for it.

    Raises:
        UnexpectedAnswerError: nobody waits for this answer: the caller mixed up its effects.
    """
    if isinstance(command, Answer):
        return _resume(context, under_way, command)
    if under_way.awaiting is not None and isinstance(command, SessionExpired):
        replies = tuple(preempted(context.dialect, under_way.inbox))
        return Step(context, replace(under_way, inbox=(command,)), replies)
    if under_way.awaiting is not None:
        return Step(context, replace(under_way, inbox=(*under_way.inbox, command)))
    turn = Turn(context, under_way)
    _begin(turn, command)
    return _run(turn)


def _resume(context: ControllerContext, under_way: UnderWay, answer: Answer) -> Step:
    asked, awaited = answer.effect, under_way.awaiting
    if awaited is None or (asked is not awaited and asked != awaited):
        waiting = "nothing" if awaited is None else type(awaited).__name__
        raise UnexpectedAnswerError(
            f"answer {type(answer).__name__} to {type(asked).__name__} not taken: waiting for {waiting}; "
            "answer exactly the last effect of a step"
        )
    turn = Turn(context, under_way, answer)
    if isinstance(answer, Failed) and answer.error in {CONTROLLER_MOVED, SESSION_EXPIRED}:
        _give_up(turn, answer)
    return _run(turn)


def _give_up(turn: Turn, failed: Failed) -> None:
    """What was under way ends: this controller is not, or may not be, the active one."""
    error, asked = failed.error, failed.effect
    turn.stack.clear()
    kafka = (
        _LEFT_IN_BATCH
        if turn.batch is not None and turn.batch.owner in STATE_MACHINES and is_pending(turn.batch)
        else ""
    )
    turn.drop_batch()
    turn.results = NO_RESULTS
    turn.deferred = ()
    reason = "another controller is active" if error == CONTROLLER_MOVED else "the session has ended"
    turn.refuse(
        RefusalKind.CONTROLLER_MOVED,
        "controller",
        f"{reason}: what was under way is given up",
        kafka=kafka,
        error="ControllerMoved" if error == CONTROLLER_MOVED else "SessionExpired",
    )
    if error == SESSION_EXPIRED:
        turn.send(*preempted(turn.context.dialect, turn.inbox))
        turn.inbox = ()
        turn.push(OnControllerResignation())
    elif isinstance(asked, RegisterController) and not asked.atomically:
        turn.push(TriggerControllerMove())  # through Kafka 2.0 `/controller` is ours by then
    else:
        turn.push(MaybeResign())


def _run(turn: Turn) -> Step:
    with collector_paused():
        _run_tasks(turn)
    effects, refusals, batches = tuple(turn.effects), tuple(turn.refusals), tuple(turn.batches)
    return Step(turn.context, turn.under_way(), effects, refusals, batches, tuple(turn.changes))


def _run_tasks(turn: Turn) -> None:
    while turn.awaiting is None:
        if turn.stack:
            turn.stack.pop()(turn)
        elif turn.inbox:
            first, *rest = turn.inbox
            turn.inbox = tuple(rest)
            _begin(turn, first)
        else:
            break


def _begin(turn: Turn, event: Event | RunTasks) -> None:
    turn.cause = type(event).__name__
    match event:
        case RunTasks(tasks):
            turn.push(*tasks)
        case Startup() | SessionEstablished():
            turn.push(Elect())
        case ControllerChanged():
            turn.push(MaybeResign())
        case ControllerVanished():
            turn.push(MaybeResign(), Elect())
        case SessionExpired():
            turn.push(OnControllerResignation())
        case MoveController():
            turn.push(TriggerControllerMove())
        case _ if turn.context.is_active:
            turn.push(_task_of(event))
        case _:
            _not_active(turn, event)


def _task_of(event: ActiveEvent) -> Task:
    """What the active controller does on an event."""
    match event:
        case BrokersChanged():
            return ProcessBrokerChange()
        case BrokerDataChanged(broker):
            return ProcessBrokerModification(broker)
        case TopicsChanged():
            return ProcessTopicChange()
        case TopicDataChanged(topic):
            return ProcessPartitionModifications(topic)
        case DeletionsChanged():
            return ProcessTopicDeletion()
        case ReassignmentRequested():
            return ProcessReassignmentRequest()
        case PartitionStateChanged(partition):
            return MaybeCompleteReassignment(partition)
        case PreferredElectionRequested():
            return ProcessPreferredElectionRequest()
        case IsrNotificationsChanged(names):
            return ProcessIsrNotifications(names)
        case LogDirEventsChanged():
            return ProcessLogDirEvents()
        case RebalanceDue():
            return ProcessRebalanceDue()
        case UncleanElectionEnabled(topic):
            return ProcessUncleanElectionEnabled(topic)
        case ControlledShutdown(broker, epoch):
            return ProcessControlledShutdown(broker, epoch)
        case AlterPartition():
            return ProcessAlterPartition(event)
        case AlterReassignments():
            return ProcessAlterReassignments(event)
        case ListReassignments():
            return ProcessListReassignments(event)
        case ElectLeaders():
            return ProcessElectLeaders(event)
        case LeaderAndIsrAnswered():
            return ProcessLeaderAndIsrAnswer(event)
        case UpdateMetadataAnswered():
            return NoteMetadataError(event)
        case StopReplicaAnswered():
            return ProcessStopReplicaAnswer(event)
        case _:
            assert_never(event)


def _not_active(turn: Turn, event: ActiveEvent) -> None:
    """An event that only the active controller handles: requests are answered, the rest is dropped."""
    turn.refuse(RefusalKind.NOT_ACTIVE, type(event).__name__, "this controller is not the active one; ask that one")
    if not isinstance(event, RequestEvent):
        return
    match event:
        case ControlledShutdown(broker):
            turn.send(ReplyControlledShutdown(broker=broker, error="ControllerMoved"))
        case AlterPartition(broker):
            turn.send(ReplyAlterPartition(broker=broker, error=NOT_CONTROLLER))
        case AlterReassignments():
            turn.send(ReplyReassignments(errors=(), error=NOT_CONTROLLER))
        case ListReassignments():
            turn.send(ReplyReassignmentList(error=NOT_CONTROLLER))
        case ElectLeaders():
            turn.send(ReplyElections(errors=(), error=NOT_CONTROLLER))
        case _:
            assert_never(event)
