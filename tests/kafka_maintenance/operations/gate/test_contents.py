"""How much a plan asks for: what a policy counts of it is what its kind says."""

import pytest

from controller_core.plans.kinds import kind_record
from controller_core.plans.plan import PlanKind
from kafka_maintenance.operations.gate.contents import contents_of
from tests.controller_core.plans.observed import A0, EXAMPLES


@pytest.mark.parametrize("kind", list(PlanKind))
def test_a_kind_says_of_itself_by_what_its_plans_are_counted(kind):
    counts = contents_of(EXAMPLES[kind](), {A0: 1})._asdict()
    del counts["all_in_sync"]
    assert {name for name, count in counts.items() if count} == set(kind_record(kind).counted_by)
