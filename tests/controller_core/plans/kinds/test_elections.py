"""Preferred leaders: which elections are planned, in which order, in which batches."""

from controller_core.model.partitions import BrokerId
from controller_core.plans.conditions import AssignedTo, InSync, LedBy, TopicCreatedAt
from controller_core.plans.kinds import elections_plan
from controller_core.plans.plan import LeftOut
from controller_core.plans.request_znodes import CreatePreferredReplicaElection
from controller_core.plans.text import plan_summary
from tests.broker_ids import ids
from tests.controller_core.plans.observed import A0, A1, ORIGIN, planned, seen


def test_an_election_expects_the_isr_and_wants_the_preferred_leader():
    plan = planned(elections_plan(seen(), ORIGIN, [A0], left_out=[LeftOut("a-1", "not in the ISR")]))
    assert plan.effects == (CreatePreferredReplicaElection.of((A0,)),)
    assert TopicCreatedAt(topic="a", czxid=9) in plan.steps[0].expectations
    assert AssignedTo(*A0, replicas=ids(1, 2)) in plan.steps[0].expectations
    assert InSync(*A0, leader=BrokerId(2), isr=ids(1, 2)) in plan.steps[0].expectations
    assert LedBy(*A0, leader=BrokerId(1)) in plan.steps[0].outcomes
    assert plan.predicted == ("a-0  leader 2 → 1, leader epoch 4 → 5, ISR [2, 1] stays",)
    assert plan.left_out == (LeftOut("a-1", "not in the ISR"),)


def test_the_most_urgent_elections_come_into_a_limited_plan():
    plan = planned(elections_plan(seen(), ORIGIN, [A1, A0, A1], election_count_max=1))
    assert plan.effects == (CreatePreferredReplicaElection.of((A1,)),)
    assert plan.left_out == (LeftOut("a-0", "over the limit of 1 election in one run"),)


def test_elections_are_asked_for_in_batches():
    plan = planned(elections_plan(seen(), ORIGIN, [A1, A0], partition_count_max=1))
    assert [len(step.effects) for step in plan.steps] == [1, 1]
    assert plan_summary(plan) == "2 elections in 2 steps"


def test_no_election_is_no_step():
    assert planned(elections_plan(seen(), ORIGIN, [])).steps == ()
