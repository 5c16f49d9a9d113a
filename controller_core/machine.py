"""`step`: one command on one context.

Source: controller behaviour §14 (one event thread, in order); Kafka 3.9 `KafkaController.process`.
"""

from dataclasses import dataclass, replace

from controller_core.commands import CONTROLLER_MOVED, SESSION_EXPIRED, Answer, Command, Event, Failed, Perform
from controller_core.context import ControllerContext
from controller_core.effects import Effect
from controller_core.errors import UnexpectedAnswerError
from controller_core.pending import NO_RESULTS, BatchRecord
from controller_core.refusals import Refusal, RefusalKind
from controller_core.turn import Turn


@dataclass(frozen=True, slots=True)
class Step:
    """What came of a command: the context after it, what the caller must do, what was not done.

    `batches` are the request batches that were closed on the way, with what was put into them: the same information as
    the requests among the effects, before it was folded.
    """

    context: ControllerContext
    effects: tuple[Effect, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    batches: tuple[BatchRecord, ...] = ()


def step(context: ControllerContext, command: Command) -> Step:
    """Runs a command as far as it goes without an answer.

    An event that comes while another waits for its answer is queued. An answer resumes what waits for it.

    Raises:
        UnexpectedAnswerError: nobody waits for this answer: the caller mixed up its effects.
    """
    if isinstance(command, Answer):
        return _resume(context, command)
    if context.awaiting is not None:
        return Step(replace(context, inbox=(*context.inbox, command)))
    turn = Turn(context)
    _begin(turn, command)
    return _run(turn)


def _resume(context: ControllerContext, answer: Answer) -> Step:
    asked = answer.effect
    if context.awaiting is None or (asked is not context.awaiting and asked != context.awaiting):
        waiting = "nothing" if context.awaiting is None else type(context.awaiting).__name__
        raise UnexpectedAnswerError(
            f"answer {type(answer).__name__} to {type(asked).__name__} not taken: waiting for {waiting}; "
            "answer exactly the last effect of a step"
        )
    turn = Turn(replace(context, awaiting=None), answer)
    if isinstance(answer, Failed) and answer.error in {CONTROLLER_MOVED, SESSION_EXPIRED}:
        _lose_office(turn, answer.error)
    return _run(turn)


def _lose_office(turn: Turn, error: str) -> None:
    turn.stack.clear()
    turn.drop_batch()
    turn.change(results=NO_RESULTS)
    turn.refuse(
        RefusalKind.CONTROLLER_MOVED,
        "controller",
        "another controller rules: what was under way is given up",
        error="ControllerMoved" if error == CONTROLLER_MOVED else "SessionExpired",
    )


def _run(turn: Turn) -> Step:
    while turn.awaiting is None:
        if turn.stack:
            turn.stack.pop()(turn)
        elif turn.context.inbox:
            first, *rest = turn.context.inbox
            turn.change(inbox=tuple(rest))
            _begin(turn, first)
        else:
            break
    context = replace(turn.context, agenda=tuple(reversed(turn.stack)), awaiting=turn.awaiting)
    return Step(context, tuple(turn.effects), tuple(turn.refusals), tuple(turn.batches))


def _begin(turn: Turn, command: Event) -> None:
    match command:
        case Perform(tasks):
            turn.push(*tasks)
