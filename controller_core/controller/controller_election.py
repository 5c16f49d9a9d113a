"""Who becomes the active controller. A cluster that belongs to KRaft, or migrates to it, is refused.

Source: Kafka 3.9 `KafkaController.elect`, `KafkaZkClient.registerControllerAndIncrementControllerEpoch`.
"""

from dataclasses import dataclass

from controller_core.controller.controller_resignation import MaybeResign, TriggerControllerMove
from controller_core.controller.failover import OnControllerFailover
from controller_core.engine.turn import Task, Turn
from controller_core.messages.answers import (
    ControllerRead,
    ControllerRegistered,
    Failed,
)
from controller_core.messages.effects import (
    ReadController,
    RegisterController,
)
from controller_core.model.refusals import RefusalKind

_NODE_EXISTS = "NODEEXISTS"


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
