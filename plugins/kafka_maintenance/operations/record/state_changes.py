"""From which state to which a step took its partitions, as they were read right before it was asked for and when it was over.

Source: docs/operations.md, "The receipt"; the words are those of Kafka's `state-change.log` (Kafka 3.2 `LeaderIsrAndControllerEpoch`).
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

from controller_core.model.partitions import TopicPartition
from controller_core.plans.conditions import named_topics
from controller_core.plans.observation import Observation
from controller_core.plans.plan import PlanStep
from controller_core.plans.verdicts import request_partitions

BEFORE: Final = "before"
AFTER: Final = "after"
"""Fields of the detail of an event: a row per partition of the step."""
_GONE: Final = "NonExistentPartition"


class Change(NamedTuple):
    """What became of a partition in a step, which is counted from 0; `asked` says by what: paths of request znodes, or otherwise."""

    step: int
    partition: TopicPartition
    before: str
    after: str
    asked: str

    def __str__(self) -> str:
        return f"step {self.step + 1}  Partition {self.partition} state changed from {self.before} to {self.after}  ({self.asked})"


def states_of(step: PlanStep, observed: Observation) -> list[dict[str, Any]]:
    """How the partitions stand that the step is about, those of topics that it deletes included: rows for the record.

    A partition that is not there has a row without replicas. The state of one whose topic is to be deleted was not read.
    """
    named = {each for effect in step.effects for each in request_partitions(effect)}
    if not named:
        topics = named_topics(step.outcomes)
        named = {each for each in observed.assignments if each.topic in topics}
    return [_row(each, observed) for each in sorted(named)]


def _row(partition: TopicPartition, observed: Observation) -> dict[str, Any]:
    row: dict[str, Any] = partition._asdict()
    if partition in observed.assignments:
        row["replicas"] = list(observed.assignments[partition].replicas)
    state = observed.states.get(partition)
    if state is not None:
        row |= {"leader": state.leader, "isr": list(state.isr), "leader_epoch": state.leader_epoch}
    return row


def changes(events: Iterable[Mapping[str, Any]]) -> tuple[Change, ...]:
    """What the record says of each partition that a step took from one state to another, in the order of the steps.

    Args:
        events: of the record, each with `step` and `detail`; those of versions before 0.2 name no states.
    """
    before: dict[int, dict[TopicPartition, str]] = {}
    asked: dict[int, str] = {}
    after: dict[int, dict[TopicPartition, str]] = {}
    for event in events:
        step, detail = event.get("step") or 0, event.get("detail") or {}
        if BEFORE in detail:
            before[step], asked[step] = (
                _states(detail[BEFORE]),
                ", ".join(detail.get("paths", ("as active controller",))),
            )
        if AFTER in detail:
            after[step] = _states(detail[AFTER])
    return tuple(
        Change(step, partition, was, after[step].get(partition, _GONE), asked[step])
        for step in sorted(before.keys() & after.keys())
        for partition, was in before[step].items()
        if was != after[step].get(partition, _GONE)
    )


def _states(rows: Iterable[Mapping[str, Any]]) -> dict[TopicPartition, str]:
    return {TopicPartition(row["topic"], row["partition"]): _text(row) for row in rows}


def _text(row: Mapping[str, Any]) -> str:
    return f"({','.join(_parts(row))})" if "replicas" in row else _GONE


def _parts(row: Mapping[str, Any]) -> Iterator[str]:
    if "leader" in row:
        yield f"Leader:{row['leader']}"
        yield f"ISR:{','.join(map(str, row['isr']))}"
        yield f"LeaderEpoch:{row['leader_epoch']}"
    yield f"Replicas:{','.join(map(str, row['replicas']))}"
