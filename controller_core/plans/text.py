"""A plan as the text that an approver reads: what will change, before and after, what is asked of Kafka, what may go wrong."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from controller_core.plans.kinds import KindRecord, kind_record
from controller_core.plans.plan import Plan, plan_digest
from controller_core.plans.request_znodes import render_request
from controller_core.plans.rules import rules_text

ROWS_SHOWN_MAX: Final = 100


def plan_summary(plan: Plan) -> str:
    """One line: how much of what, in how many steps, and how much was left out."""
    count = plan_size(plan)
    unit = kind_record(plan.kind).unit[count != 1]
    steps = f"{len(plan.steps)} step{'s' if len(plan.steps) != 1 else ''}"
    left_out = f", {len(plan.left_out)} left out" if plan.left_out else ""
    return f"{count} {unit} in {steps}{left_out}"


def plan_size(plan: Plan) -> int:
    """How many elections, moved partitions, deleted topics or forced re-elections the plan asks for."""
    return sum(len(kind_record(plan.kind).changes(step)) for step in plan.steps)


def plan_markdown(plan: Plan, *, digest: str | None = None, rows_max: int = ROWS_SHOWN_MAX) -> str:
    """The plan in Markdown; each part is cut after `rows_max` lines and says so. `digest` spares computing it again."""
    return "\n".join(_markdown(plan, digest or plan_digest(plan), rows_max)) + "\n"


def _markdown(plan: Plan, digest: str, rows_max: int) -> Iterator[str]:
    source = "a live read" if plan.snapshot is None else f"`{plan.snapshot.manifest}`"
    record = kind_record(plan.kind)
    yield f"# {record.title} on `{plan.cluster}`"
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
    yield from _table(record.headings, list(_rows(plan, record)), rows_max)
    if not record.rows_are_predictions:
        yield from _section("In words", _cut(plan.predicted, rows_max))
    yield from _section("What to weigh", (*plan.risks, *rules_text(plan.rules)))
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


def _rows(plan: Plan, record: KindRecord) -> Iterator[Sequence[str]]:
    if record.rows_are_predictions:
        yield from ([line] for line in plan.predicted)
        return
    for number, step in enumerate(plan.steps, start=1):
        yield from ([str(number), *cells] for cells in record.changes(step))


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
