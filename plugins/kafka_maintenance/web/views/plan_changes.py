"""What a plan changes, read from its steps: replicas and leaders of partitions, before and after."""

from collections.abc import Iterator, Sequence
from itertools import chain
from typing import NamedTuple

from controller_core.model.partitions import TopicPartition
from controller_core.plans.conditions import AssignedTo, InSync, LedBy
from controller_core.plans.plan import Plan, PlanStep
from controller_core.plans.request_znodes import CreateReassignPartitions


class Change(NamedTuple):
    """A partition with its replicas, or its leader alone, before and after."""

    partition: TopicPartition
    before: Sequence[int]
    after: Sequence[int]

    @property
    def leaving(self) -> list[int]:
        """Brokers of before that are none of after."""
        return [broker for broker in self.before if broker not in self.after]

    @property
    def arriving(self) -> list[int]:
        """Brokers of after that were none of before."""
        return [broker for broker in self.after if broker not in self.before]


def changed_in(step: PlanStep) -> Iterator[Change]:
    """What a step expects, and what it causes."""
    held = {one.partition: one.replicas for one in step.expectations if isinstance(one, AssignedTo)}
    led = {one.partition: (one.leader,) for one in step.expectations if isinstance(one, InSync)}
    reassigned = _reassigned(step)
    for outcome in step.outcomes:
        if isinstance(outcome, AssignedTo) and outcome.partition in held:
            yield Change(outcome.partition, held[outcome.partition], outcome.replicas)
        elif isinstance(outcome, LedBy) and outcome.partition in led and outcome.partition not in reassigned:
            yield Change(outcome.partition, led[outcome.partition], (outcome.leader,))


def _reassigned(step: PlanStep) -> frozenset[TopicPartition]:
    """The partitions that get other replicas: where their leader goes follows from that."""
    return frozenset(one.partition for one in step.outcomes if isinstance(one, AssignedTo))


def moved_replicas(plan: Plan, changes: Sequence[Sequence[Change]]) -> Iterator[tuple[int, int]]:
    """(source, target) of each replica that a reassignment copies; `changes` are those of each step."""
    if not any(isinstance(effect, CreateReassignPartitions) for effect in plan.effects):
        return
    for change in chain.from_iterable(changes):
        leaving = change.leaving
        for at, target in enumerate(change.arriving):
            yield int(leaving[min(at, len(leaving) - 1)] if leaving else change.before[0]), int(target)


def moved_leaders(plan: Plan, changes: Sequence[Sequence[Change]]) -> Iterator[tuple[int, int]]:
    """(source, target) of each leader that moves while every replica stays; a source of -1 is a partition without one."""
    for step, of_step in zip(plan.steps, changes, strict=True):
        reassigned = _reassigned(step)
        for partition, before, after in of_step:
            if partition not in reassigned and before != after:
                yield int(before[0]), int(after[0])
