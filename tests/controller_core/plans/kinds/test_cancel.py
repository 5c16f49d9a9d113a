"""What is moved goes back, whoever asked for it; what cannot is left out with the reason."""

import pytest

from controller_core.model.partitions import ReplicaAssignment
from controller_core.plans.conditions import AssignedTo, CaughtUp
from controller_core.plans.kinds import Refused, cancel_plan
from controller_core.plans.request_znodes import CreateReassignPartitions, Target
from tests.broker_ids import ids
from tests.controller_core.plans.observed import A0, A2, B0, ORIGIN, Q0, planned, seen


def test_what_the_controller_moves_goes_back_whoever_asked_for_it():
    plan = planned(cancel_plan(seen(), ORIGIN))
    (step,), (back,) = plan.steps, plan.rollback.steps
    assert step.effects == (CreateReassignPartitions(targets=(Target(*A2, ids(1)),)),)
    assert AssignedTo(*A2, replicas=ids(3, 1), adding=ids(3)) in step.expectations
    assert step.outcomes == (AssignedTo(*A2, replicas=ids(1)), CaughtUp(*A2, replicas=ids(1)))
    assert plan.predicted == ("a-2  led by 1 in leader epoch 0, adding [3], removing []: back to replicas [1]",)
    assert back.effects == (CreateReassignPartitions(targets=(Target(*A2, ids(3, 1)),)),)
    assert AssignedTo(*A2, replicas=ids(1)) in back.expectations
    assert len(plan.risks) == 1


def test_the_approver_hears_that_only_brokers_take_back_what_a_request_asks_for():
    plan = planned(cancel_plan(seen(reassign_requests={A2: ids(3, 1)}), ORIGIN))
    assert plan.risks[1].startswith("1 partition stands in /admin/reassign_partitions: only brokers that may be asked")


@pytest.mark.parametrize(
    ("partition", "lists", "why"),
    [
        pytest.param(Q0, ReplicaAssignment(ids(1, 2, 3), ids(3)), "one queued for deletion", id="queued"),
        pytest.param(B0, ReplicaAssignment(ids(9, 8, 1), ids(1)), "expected registered brokers, found [8, 9]", id="dead"),
    ],
)  # fmt: skip
def test_what_cannot_go_back_is_left_out_with_the_reason(partition, lists, why):
    plan = planned(cancel_plan(seen(assignments={**seen().assignments, partition: lists}), ORIGIN))
    assert [each.effects[0].targets for each in plan.steps] == [(Target(*A2, ids(1)),)]
    assert [each.subject for each in plan.left_out] == [str(partition)]
    assert why in plan.left_out[0].reason


def test_where_nothing_can_go_back_the_reasons_are_told():
    made = cancel_plan(seen(assignments={B0: ReplicaAssignment(ids(9, 8, 1), ids(1))}), ORIGIN)
    assert isinstance(made, Refused)
    assert "target of b-0: expected registered brokers, found [8, 9]" in str(made.reasons[0])


def test_where_nothing_is_moved_nothing_is_taken_back():
    quiet = {A0: ReplicaAssignment(ids(1, 2))}
    assert planned(cancel_plan(seen(assignments=quiet), ORIGIN)).steps == ()
    made = cancel_plan(seen(assignments=quiet, reassign_requests={A0: ids(3)}), ORIGIN)
    assert isinstance(made, Refused)
    assert "a request for 1 partition that adds or removes no replicas; Kafka up to 2.3" in str(made.reasons[0])
