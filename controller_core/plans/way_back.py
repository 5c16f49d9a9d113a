"""From what a reassignment plan has changed so far back to the replica lists of before it; of the record and the present state.

Source: docs/operations.md, "Rollback".
"""

from collections.abc import Collection, Iterable
from typing import NamedTuple, assert_never

from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.plans.conditions import AssignedTo
from controller_core.plans.kinds.moves import target_refusals
from controller_core.plans.observation import Observation
from controller_core.plans.plan import LeftOut, Plan, PlanStep
from controller_core.plans.request_znodes import Target
from controller_core.plans.verdicts import Fate, Verdict, verdicts


class WayBack(NamedTuple):
    """The targets of each wave, the last one that was asked for first, and what stays as it is, with the reason."""

    waves: tuple[tuple[Target, ...], ...]
    left_out: tuple[LeftOut, ...]


def way_back(plan: Plan, requested: Collection[int], observed: Observation) -> WayBack:
    """How to undo the steps `requested` (numbers from 0) of a reassignment plan, as far as they came.

    A partition goes back to the list that it had before the first of these steps, in the wave of the last one. One that is
    under way, that somebody moved elsewhere since, or whose former brokers are gone stays as it is.
    """
    steps = {number: plan.steps[number] for number in sorted(requested)}
    before: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    last: dict[TopicPartition, Verdict] = {}
    wave_of: dict[TopicPartition, int] = {}
    for number, step in steps.items():
        for condition in step.expectations:
            if isinstance(condition, AssignedTo):
                before.setdefault(condition.partition, condition.assignment.target)
        for verdict in verdicts(step, observed):
            last[verdict.partition], wave_of[verdict.partition] = verdict, number
    left_out: list[LeftOut] = []
    waves: dict[int, list[Target]] = {number: [] for number in reversed(steps)}
    for partition, verdict in last.items():
        target = Target(*partition, before[partition])
        reason = _why_not(verdict) or _refused(target, observed)
        if reason is None:
            waves[wave_of[partition]].append(target)
        else:
            left_out.append(LeftOut(str(partition), reason))
    return WayBack(tuple(tuple(wave) for wave in waves.values() if wave), tuple(left_out))


def is_undone(steps: Iterable[PlanStep], observed: Observation) -> bool:
    """Whether every partition that these steps moved has the replicas of before them again; what is gone says nothing."""
    before: dict[TopicPartition, frozenset[BrokerId]] = {}
    last: dict[TopicPartition, Verdict] = {}
    for step in steps:
        for condition in step.expectations:
            if isinstance(condition, AssignedTo):
                before.setdefault(condition.partition, frozenset(condition.assignment.target))
        last |= {verdict.partition: verdict for verdict in verdicts(step, observed)}
    there = [each for each in last.values() if each.fate is not Fate.GONE]
    return bool(there) and all(
        each.fate in {Fate.REVERTED, Fate.ELSEWHERE}
        and frozenset(observed.assignments[each.partition].replicas) == before[each.partition]
        for each in there
    )


def _why_not(verdict: Verdict) -> str | None:
    match verdict.fate:
        case Fate.DONE | Fate.BEHIND | Fate.REVERTED:
            return None
        case Fate.UNDER_WAY:
            return f"is under way, found {verdict.found}; let it finish, or cancel it, and plan the rollback again"
        case Fate.ELSEWHERE:
            return f"was moved by somebody else since, found {verdict.found}"
        case Fate.GONE:
            return f"is gone: {verdict.found}"
        case Fate.NOT_ELECTED:
            return f"is no reassignment: {verdict.found}"
        case _:
            assert_never(verdict.fate)


def _refused(target: Target, observed: Observation) -> str | None:
    """What stands against the former list today."""
    reasons = target_refusals(observed, [[target]], may_change_replication_factor=True)
    return "; ".join(map(str, reasons)) or None
