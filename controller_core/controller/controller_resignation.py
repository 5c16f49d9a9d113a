"""The end of a controller: resigning, giving way to another broker, and deleting `/controller` of its own accord.

Source: Kafka 3.9 `KafkaController.onControllerResignation`, `maybeResign`, `triggerControllerMove`.
"""

from dataclasses import dataclass

from controller_core.context.context import ControllerContext
from controller_core.engine.turn import Acknowledge, Task, Turn
from controller_core.messages.answers import (
    ControllerRead,
)
from controller_core.messages.effects import (
    CancelSchedules,
    CloseChannels,
    DeleteControllerNode,
    ReadController,
    Unwatch,
    WatchKind,
)


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


@dataclass(frozen=True, slots=True)
class OnControllerResignation(Task):
    """`onControllerResignation`: stops everything and forgets the cluster."""

    def __call__(self, turn: Turn) -> None:
        context = turn.context
        turn.send(CancelSchedules(), *(Unwatch(kind=kind) for kind in WatchKind))
        if context.epoch:  # all channels: a broker that is just taken as bounced is not among the live ones
            turn.send(CloseChannels(brokers=None))
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
