"""What the controller would do: the core's own state machines, run against an imagined ZooKeeper.

Nothing is read or written outside: reads are answered from the snapshot, writes always succeed. A context never
changes, so one context serves any number of imagined events.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from controller_core.context.context import ControllerContext
from controller_core.controller.step import step
from controller_core.engine.turn import RunTasks, Task
from controller_core.messages.answers import Answer, Done, StatesCreated, StatesRead, StatesWritten, TopicConfigsRead
from controller_core.messages.effects import (
    CreatePartitionStates,
    Effect,
    ReadPartitionStates,
    ReadTopicConfigs,
    WritePartitionStates,
)
from controller_core.model.partitions import LeaderAndIsr, TopicPartition

_STEPS_MAX = 10_000


class NotSettledError(Exception):
    """An imagined event does not come to an end."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How the cluster stands when everything has been done, and what was asked for on the way, in order."""

    context: ControllerContext
    effects: tuple[Effect, ...]


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
    written: dict[TopicPartition, LeaderAndIsr] = {}
    effects: list[Effect] = []
    done = step(context, RunTasks(tuple(tasks)))
    for _ in range(_STEPS_MAX):
        effects.extend(done.effects)
        if done.awaiting is None:
            return Outcome(done.context, tuple(effects))
        done = done.then(_answer(done.context, done.awaiting, written, topic_configs or {}))
    raise NotSettledError(
        f"imagined event not settled: expected an end within {_STEPS_MAX} answers, still waits for {done.awaiting!r}"
    )


def _answer(
    context: ControllerContext,
    effect: Effect,
    written: dict[TopicPartition, LeaderAndIsr],
    configs: Mapping[str, Mapping[str, str]],
) -> Answer:
    match effect:
        case ReadPartitionStates(partitions=partitions):
            known = ((p, written.get(p) or context.leadership(p)) for p in partitions)
            return StatesRead(effect, {p: state for p, state in known if state is not None})
        case WritePartitionStates(states=states):
            versions = {p: state.partition_epoch + 1 for p, state in states}
            written.update((p, state._replace(partition_epoch=versions[p])) for p, state in states)
            return StatesWritten(effect, versions)
        case CreatePartitionStates(states=states):
            written.update(states)
            return StatesCreated(effect)
        case ReadTopicConfigs(topics=topics):
            return TopicConfigsRead(effect, {topic: configs.get(topic, {}) for topic in topics})
        case _:
            return Done(effect)
