"""What the controller would do: the core's own state machines, run against an imagined ZooKeeper.

Nothing is read or written outside: reads are answered from the snapshot, writes always succeed. A context never
changes, so one context serves any number of imagined events.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import chain

from controller_core.context.context import ControllerContext
from controller_core.controller.step import step
from controller_core.engine.state_changes import ChangeKind, transition_counts
from controller_core.engine.turn import RunTasks, Task
from controller_core.messages.effects import (
    Effect,
)
from controller_core.runtime.driver import answered_steps
from controller_core.runtime.simulated.answers import SimulatedAnswers

_STEPS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the cluster stands when everything has been done; what was asked for on the way, in order, and how many transitions there were."""

    context: ControllerContext
    effects: tuple[Effect, ...]
    changes: Mapping[ChangeKind, int]


def outcome(
    context: ControllerContext, tasks: Iterable[Task], topic_configs: Mapping[str, Mapping[str, str]] | None = None
) -> Outcome:
    """Runs `tasks` to their end.

    Args:
        context: the cluster as it stands.
        tasks: methods of the controller, in order.
        topic_configs: topic → config, where a topic has one that matters.

    Raises:
        NotSettledError: still busy after 10,000 answers.
    """
    zookeeper = SimulatedAnswers(found=context, configs=topic_configs or {})
    first = step(context, RunTasks(tuple(tasks)))
    steps = list(answered_steps(first, zookeeper.answer, limit=_STEPS_MAX))
    effects = tuple(effect for done in steps for effect in done.effects)
    return Outcome(steps[-1].context, effects, transition_counts(chain.from_iterable(done.changes for done in steps)))
