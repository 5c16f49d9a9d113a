"""The bounded loop between `step` and the world."""

from collections.abc import Callable, Iterator

from controller_core.controller.step import Step
from controller_core.messages.answers import Answer
from controller_core.messages.effects import AnsweredEffect
from controller_core.model.errors import NotSettledError


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
