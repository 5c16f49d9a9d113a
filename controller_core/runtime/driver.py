"""The bounded loops between `step` and the world."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator

from controller_core.context.context import ControllerContext
from controller_core.controller.step import Command, Step
from controller_core.messages.answers import Answer
from controller_core.messages.effects import AnsweredEffect, Effect
from controller_core.model.errors import NotSettledError

PerformEffect = Callable[[Effect], Iterable[Command]]
"""Carries out one effect and returns what came of it: its answer first, if it has one, then events."""


def drive(context: ControllerContext, command: Command, perform: PerformEffect, *, limit: int) -> ControllerContext:
    """Runs a command, and everything that follows from it, until nothing is left to do.

    Args:
        context: to start from.
        command: the first one.
        perform: the only thing that reaches the outside.
        limit: steps at most.

    Raises:
        NotSettledError: there was still something to do after `limit` steps.
    """
    inbox: deque[Command] = deque([command])
    done = Step(context)
    for _ in range(limit):
        done = done.then(inbox.popleft())
        for effect in done.effects:
            inbox.extend(perform(effect))
        if not inbox:
            return done.context
    raise NotSettledError(f"not settled after {limit} steps; next is {inbox[0]!r}; raise the limit or look for a loop")


def answered_steps(first: Step, answer: Callable[[AnsweredEffect], Answer], *, limit: int) -> Iterator[Step]:
    """`first` and the steps after it, each with the answer to the one before, until nothing is awaited.

    Args:
        first: a step that may await an answer.
        answer: says what the outside answers.
        limit: answers at most.

    Raises:
        NotSettledError: an answer was still awaited after `limit` of them.
    """
    done = first
    for _ in range(limit):
        yield done
        if done.awaiting is None:
            return
        done = done.then(answer(done.awaiting))
    raise NotSettledError(
        f"not settled after {limit} answers; awaits one to {done.awaiting!r}; raise the limit or look for a loop"
    )
