"""What holds for plans of every kind."""

import pytest

from controller_core.plans.kinds import (
    Refused,
    deletions_plan,
    drain_plan,
    elections_plan,
    kind_record,
    reassignment_plan,
)
from controller_core.plans.plan import PlanKind
from controller_core.plans.text import plan_markdown, plan_summary
from tests.controller_core.plans.observed import A0, EXAMPLES, ORIGIN, planned, seen


@pytest.mark.parametrize("kind", list(PlanKind))
def test_every_kind_has_a_record_that_fits_its_plans(kind):
    plan, record = planned(EXAMPLES[kind]()), kind_record(kind)
    assert plan.kind is kind
    assert record.step_timeout_s > 0
    assert {type(effect) for effect in plan.effects} == {record.request}
    assert (record.not_undone is None) == bool(plan.rollback.steps)
    (one, many), (row,) = record.unit, record.changes(plan.steps[0])
    assert plan_summary(plan).startswith(f"1 {one} in 1 step")
    assert one != many
    assert len(row) + 1 == len(record.headings)
    text = plan_markdown(plan)
    assert text.startswith(f"# {record.title} on `demo`")
    assert f"| {' | '.join(record.headings)} |" in text


@pytest.mark.parametrize(
    "make",
    [
        pytest.param(lambda seen_: elections_plan(seen_, ORIGIN, [A0]), id="elections"),
        pytest.param(lambda seen_: reassignment_plan(seen_, ORIGIN, []), id="reassignment"),
        pytest.param(lambda seen_: deletions_plan(seen_, ORIGIN, []), id="deletions"),
        pytest.param(lambda seen_: drain_plan(seen_, ORIGIN, now_ms=0), id="drain"),
    ],
)
def test_where_no_controller_is_active_nothing_is_planned(make):
    made = make(seen(active_controller=None))
    assert isinstance(made, Refused)
    assert "an active controller" in str(made.reasons[0])
