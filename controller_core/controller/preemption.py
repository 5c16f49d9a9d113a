"""What the callers of queued events hear when the end of a session clears the queue.

Source: Kafka 2.1, 2.2, 2.6, 2.7 and 3.9 `ControllerEventManager.clearAndPut`, `ControllerEvent.preempt`.
"""

from collections.abc import Iterable, Iterator
from typing import assert_never

from controller_core.engine.turn import RunTasks
from controller_core.messages.answers import Answer
from controller_core.messages.effects import (
    Reply,
    ReplyControlledShutdown,
    ReplyElections,
    ReplyReassignmentList,
    ReplyReassignments,
)
from controller_core.messages.events import (
    AlterPartition,
    AlterReassignments,
    ControlledShutdown,
    ElectLeaders,
    Event,
    ListReassignments,
    RequestEvent,
)
from controller_core.model.dialect import Dialect

NOT_CONTROLLER = "NOT_CONTROLLER"


def preempted(dialect: Dialect, queued: Iterable[Event | Answer | RunTasks]) -> Iterator[Reply]:
    """The replies to the callers of `queued`, in its order; other commands have no caller, or one that is not answered.

    A leader that asked for another ISR is never answered: its request runs into its timeout.
    """
    if not dialect.preempted_callers_are_answered:
        return
    for event in queued:
        if isinstance(event, RequestEvent):
            yield from _replies(dialect, event)


def _replies(dialect: Dialect, request: RequestEvent) -> Iterator[Reply]:
    match request:
        case ControlledShutdown(broker):
            yield ReplyControlledShutdown(broker=broker, error="ControllerMoved")
        case ElectLeaders(partitions):
            yield ReplyElections(errors=tuple((each, NOT_CONTROLLER) for each in partitions))
        case AlterReassignments():
            if dialect.preempted_reassignments_are_answered:
                yield ReplyReassignments(errors=(), error=NOT_CONTROLLER)
        case ListReassignments():
            if dialect.preempted_reassignments_are_answered:
                yield ReplyReassignmentList(error=NOT_CONTROLLER)
        case AlterPartition():
            return
        case _:
            assert_never(request)
