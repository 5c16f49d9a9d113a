"""A plan as the text that an approver reads: what will change, before and after, what is asked of Kafka, what may go wrong.

Totals and tables are made from what the plan asks for. All that comes from a cluster or from the stored document stands in code
spans and code blocks (`plain`): it cannot hide a line, nor look like one of ours.
"""

from collections.abc import Iterator, Sequence
from typing import Final, assert_never

from controller_core.plans.kinds import KindRecord, kind_record
from controller_core.plans.plain import code, plain
from controller_core.plans.plan import Plan, PlanKind, plan_digest
from controller_core.plans.request_znodes import (
    CreateDeleteTopic,
    CreatePreferredReplicaElection,
    CreateReassignPartitions,
    DeleteController,
    MoveLeaders,
    Request,
    render_request,
    request_path,
)
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


def plan_totals(plan: Plan) -> tuple[str, ...]:
    """How much of each request the plan makes, a line each."""
    found: dict[str, list[Request]] = {}
    for effect in plan.effects:
        where = "/admin/delete_topics" if isinstance(effect, CreateDeleteTopic) else request_path(effect)
        found.setdefault(where, []).append(effect)
    return tuple(f"`{where}`: {_total(effects)}" for where, effects in found.items())


def _total(effects: Sequence[Request]) -> str:
    counts: dict[str, int] = {}
    for effect in effects:
        match effect:
            case CreateReassignPartitions(targets=targets):
                added = {
                    "partitions reassigned": len(targets),
                    "replicas in their lists": sum(len(each.replicas) for each in targets),
                }
            case CreatePreferredReplicaElection(partitions=partitions):
                added = {"elections": len(partitions)}
            case CreateDeleteTopic():
                added = {"**topics DELETED with their data**": 1}
            case DeleteController():
                added = {"forced re-elections of the controller": 1}
            case MoveLeaders(moves=moves):
                added = {"**times taken from the active controller**": 1, "leaders moved": len(moves)}
            case _:
                assert_never(effect)
        counts = {name: counts.get(name, 0) + count for name, count in added.items()}
    return ", ".join(f"{count} {name}" for name, count in counts.items())


def plan_markdown(plan: Plan, *, digest: str | None = None, rows_max: int = ROWS_SHOWN_MAX) -> str:
    """The plan in Markdown; `digest` spares computing it again.

    Each part is cut after `rows_max` lines and says how many of what are not shown; what is deleted is listed in full.
    """
    if kind_record(plan.kind).destroys_data:
        rows_max = max(rows_max, len(plan.effects) + len(plan.steps))
    return "\n".join(_markdown(plan, digest or plan_digest(plan), rows_max)) + "\n"


def _markdown(plan: Plan, digest: str, rows_max: int) -> Iterator[str]:
    source = "a live read" if plan.snapshot is None else code(plan.snapshot.manifest)
    record = kind_record(plan.kind)
    yield f"# {record.title} on {code(plan.cluster)}"
    yield ""
    yield f"{plan_summary(plan)}."
    yield ""
    yield "## In total"
    yield ""
    yield from (f"* {line}" for line in plan_totals(plan))
    yield ""
    yield "| | |"
    yield "| --- | --- |"
    yield f"| plan | {code(digest)} |"
    yield f"| Kafka's cluster id | {code(str(plan.kafka_cluster_id))} |"
    yield f"| made from | {source} |"
    if plan.kind is PlanKind.REASSIGN_PARTITIONS:
        proof = (
            "none: the targets were given"
            if plan.proof is None
            else f"{code(plan.proof)}, checked again before it is applied"
        )
        yield f"| proof of the planner | {proof} |"
    yield ""
    yield "## What will change"
    yield ""
    yield from _table(record, list(_rows(plan, record)), rows_max)
    yield from _section("In the planner's words", plan.predicted, "predictions", rows_max)
    yield from _section("What to weigh", (*plan.risks, *rules_text(plan.rules)), "remarks", rows_max)
    if plan.left_out:
        lines = [f"{each.subject}: {each.reason}" for each in plan.left_out]
        yield from _section("Left out", lines, "that are left out", rows_max)
    yield from _section("How to go back", [plan.rollback.text], "ways", rows_max)
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
        lines = [plain(line) for effect in step.effects for line in render_request(effect).split("\n")]
        yield f"Step {number}"
        yield ""
        yield "```"
        yield from _cut(lines, "lines of this step", left)
        yield "```"
        yield ""
        left -= len(lines)


def _rows(plan: Plan, record: KindRecord) -> Iterator[Sequence[str]]:
    for number, step in enumerate(plan.steps, start=1):
        yield from ([str(number), *map(code, cells)] for cells in record.changes(step))


def _table(record: KindRecord, rows: Sequence[Sequence[str]], rows_max: int) -> Iterator[str]:
    yield f"| {' | '.join(record.headings)} |"
    yield f"| {' | '.join('---' for _ in record.headings)} |"
    for row in rows[:rows_max]:
        yield f"| {' | '.join(row)} |"
    yield ""
    if len(rows) > rows_max:
        left = len(rows) - rows_max
        yield f"**{left} of {len(rows)} {record.unit[1]} are not shown here**; they are in the stored plan."
        yield ""


def _section(title: str, lines: Sequence[str], what: str, lines_max: int) -> Iterator[str]:
    yield f"## {title}"
    yield ""
    yield from (f"* {line}" for line in _cut([code(line) for line in lines], what, lines_max))
    yield ""


def _cut(lines: Sequence[str], what: str, count_max: int) -> list[str]:
    if len(lines) <= count_max:
        return list(lines)
    return [*lines[:count_max], f"… {len(lines) - count_max} of {len(lines)} {what} are not shown here"]
