"""A plan as the text that an approver reads: what will change, before and after, what is asked of Kafka, what may go wrong."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, assert_never

from controller_core.plans.conditions import AssignedTo, InSync, LedBy, TopicIs
from controller_core.plans.plan import Plan, PlanKind, PlanStep, plan_digest
from controller_core.plans.request_znodes import render_request

ROWS_SHOWN_MAX: Final = 100
_TITLES: Final = {
    PlanKind.ELECT_PREFERRED_LEADERS: "Elect preferred leaders",
    PlanKind.REASSIGN_PARTITIONS: "Reassign partitions",
    PlanKind.DELETE_TOPICS: "Delete topics",
    PlanKind.DRAIN_ISR_NOTIFICATIONS: "Clear what lingers by a forced re-election",
}
_UNITS: Final = {
    PlanKind.ELECT_PREFERRED_LEADERS: ("election", "elections"),
    PlanKind.REASSIGN_PARTITIONS: ("partition to move", "partitions to move"),
    PlanKind.DELETE_TOPICS: ("topic to delete", "topics to delete"),
    PlanKind.DRAIN_ISR_NOTIFICATIONS: ("forced re-election", "forced re-elections"),
}


def plan_summary(plan: Plan) -> str:
    """One line: how much of what, in how many steps, and how much was left out."""
    count = plan_size(plan)
    unit = _UNITS[plan.kind][count != 1]
    steps = f"{len(plan.steps)} step{'s' if len(plan.steps) != 1 else ''}"
    left_out = f", {len(plan.left_out)} left out" if plan.left_out else ""
    return f"{count} {unit} in {steps}{left_out}"


def plan_size(plan: Plan) -> int:
    """How many elections, moved partitions, deleted topics or forced re-elections the plan asks for."""
    return sum(len(_changes(plan.kind, step)) for step in plan.steps)


def plan_markdown(plan: Plan, *, digest: str | None = None, rows_max: int = ROWS_SHOWN_MAX) -> str:
    """The plan in Markdown; each part is cut after `rows_max` lines and says so. `digest` spares computing it again."""
    return "\n".join(_markdown(plan, digest or plan_digest(plan), rows_max)) + "\n"


def _markdown(plan: Plan, digest: str, rows_max: int) -> Iterator[str]:
    source = "a live read" if plan.snapshot is None else f"`{plan.snapshot.manifest}`"
    yield f"# {_TITLES[plan.kind]} on `{plan.cluster}`"
    yield ""
    yield f"{plan_summary(plan)}."
    yield ""
    yield "| | |"
    yield "| --- | --- |"
    yield f"| plan | `{digest}` |"
    yield f"| Kafka's cluster id | `{plan.kafka_cluster_id}` |"
    yield f"| made from | {source} |"
    yield ""
    yield "## What will change"
    yield ""
    yield from _table(_HEADINGS[plan.kind], list(_rows(plan)), rows_max)
    if plan.kind is not PlanKind.DRAIN_ISR_NOTIFICATIONS:
        yield from _section("In words", _cut(plan.predicted, rows_max))
    yield from _section("What to weigh", plan.risks)
    if plan.left_out:
        yield from _section("Left out", _cut([f"{each.subject}: {each.reason}" for each in plan.left_out], rows_max))
    yield from _section("How to go back", [plan.rollback.text])
    yield "## What is written to ZooKeeper"
    yield ""
    yield "Each step only if everything is still as the plan assumes, and only after the step before is done and verified."
    yield ""
    yield from _requests(plan, rows_max)


def _requests(plan: Plan, lines_max: int) -> Iterator[str]:
    """The requests of the first steps, as many as the lines allow."""
    left = lines_max
    for number, step in enumerate(plan.steps, start=1):
        if left <= 0:
            yield f"{len(plan.steps) - number + 1} more steps are in the stored plan."
            yield ""
            return
        lines = [line for effect in step.effects for line in render_request(effect).split("\n")]
        yield f"Step {number}"
        yield ""
        yield "```"
        yield from _cut(lines, left)
        yield "```"
        yield ""
        left -= len(lines)


_HEADINGS: Final = {
    PlanKind.ELECT_PREFERRED_LEADERS: ("step", "partition", "leader now", "leader after", "ISR"),
    PlanKind.REASSIGN_PARTITIONS: ("step", "partition", "replicas now", "replicas after"),
    PlanKind.DELETE_TOPICS: ("step", "topic", "partitions", "created at zxid"),
    PlanKind.DRAIN_ISR_NOTIFICATIONS: ("what happens",),
}


def _rows(plan: Plan) -> Iterator[Sequence[str]]:
    if plan.kind is PlanKind.DRAIN_ISR_NOTIFICATIONS:
        yield from ([line] for line in plan.predicted)
        return
    for number, step in enumerate(plan.steps, start=1):
        yield from ([str(number), *cells] for cells in _changes(plan.kind, step))


def _changes(kind: PlanKind, step: PlanStep) -> list[Sequence[str]]:
    match kind:
        case PlanKind.ELECT_PREFERRED_LEADERS:
            states = {each.partition: each for each in step.expectations if isinstance(each, InSync)}
            return [
                [
                    str(each.partition),
                    str(states[each.partition].leader),
                    str(each.leader),
                    _ids(states[each.partition].isr),
                ]
                for each in step.outcomes
                if isinstance(each, LedBy)
            ]
        case PlanKind.REASSIGN_PARTITIONS:
            before = {each.partition: each for each in step.expectations if isinstance(each, AssignedTo)}
            return [
                [str(each.partition), _ids(before[each.partition].replicas), _ids(each.replicas)]
                for each in step.outcomes
                if isinstance(each, AssignedTo)
            ]
        case PlanKind.DELETE_TOPICS:
            return [
                [each.topic, str(each.partition_count), f"{each.czxid:#x}"]
                for each in step.expectations
                if isinstance(each, TopicIs)
            ]
        case PlanKind.DRAIN_ISR_NOTIFICATIONS:
            return [[render_request(effect)] for effect in step.effects]
        case _:
            assert_never(kind)


def _table(headings: Sequence[str], rows: Sequence[Sequence[str]], rows_max: int) -> Iterator[str]:
    yield f"| {' | '.join(headings)} |"
    yield f"| {' | '.join('---' for _ in headings)} |"
    for row in rows[:rows_max]:
        yield f"| {' | '.join(row)} |"
    yield ""
    if len(rows) > rows_max:
        yield f"{len(rows) - rows_max} more rows are in the stored plan."
        yield ""


def _section(title: str, lines: Iterable[str]) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield from (f"* {line}" for line in lines)
    yield ""


def _cut(lines: Sequence[str], count_max: int) -> list[str]:
    if len(lines) <= count_max:
        return list(lines)
    return [*lines[:count_max], f"… {len(lines) - count_max} more in the stored plan"]


def _ids(brokers: Sequence[int]) -> str:
    return ", ".join(map(str, brokers)) or "none"
