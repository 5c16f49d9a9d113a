"""The way back from a reassignment: which partitions go to which list, in which order, and which stay."""

from dataclasses import replace

import pytest

from controller_core.model.partitions import Broker, BrokerId, ReplicaAssignment
from controller_core.plans.conditions import AssignedTo, CaughtUp, LedBy
from controller_core.plans.plan import Plan, PlanKind, PlanStep, Rollback
from controller_core.plans.request_znodes import CreatePreferredReplicaElection, CreateReassignPartitions, Target
from controller_core.plans.way_back import is_undone, way_back
from tests.broker_ids import ids
from tests.controller_core.plans.moving import A0, BOTH, MOVE, seen

BROKERS = {BrokerId(number): Broker(BrokerId(number)) for number in (1, 2, 3, 4)}
AGAIN = PlanStep(
    effects=(CreateReassignPartitions(targets=(Target(*A0, ids(4, 3, 2)),)),),
    expectations=(AssignedTo(*A0, replicas=ids(2, 3, 4)),),
    outcomes=(AssignedTo(*A0, replicas=ids(4, 3, 2)), CaughtUp(*A0, replicas=ids(4, 3, 2))),
)
ELECTION = PlanStep(
    effects=(CreatePreferredReplicaElection.of((A0,)),),
    expectations=(AssignedTo(*A0, replicas=ids(1, 2, 3)),),
    outcomes=(LedBy(*A0, leader=BrokerId(1)),),
)


def plan(*steps):
    return Plan(
        kind=PlanKind.REASSIGN_PARTITIONS, cluster="c", kafka_cluster_id=None, snapshot=None,
        expectations=(), steps=steps, predicted=(), rollback=Rollback(text="back"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("observed", "reason"),
    [
        pytest.param(seen(ReplicaAssignment(ids(2, 3, 4))), None, id="done"),
        pytest.param(seen(ReplicaAssignment(ids(2, 3, 4)), isr=(2,)), None, id="done, the ISR is thin"),
        pytest.param(seen(ReplicaAssignment(ids(2, 3, 1))), None, id="cancelled: rotated"),
        pytest.param(seen(BOTH), "is under way, found ", id="under way"),
        pytest.param(seen(ReplicaAssignment(ids(5, 6))), "was moved by somebody else since, found ", id="elsewhere"),
        pytest.param(seen(None), "is gone: no such partition", id="gone"),
    ],
)
def test_where_a_partition_is_decides(observed, reason):
    found = way_back(plan(MOVE), [0], replace(observed, brokers=BROKERS))
    if reason is None:
        assert found == (((Target(*A0, ids(1, 2, 3)),),), ())
    else:
        assert (found.waves, [each.subject for each in found.left_out]) == ((), ["a-0"])
        assert found.left_out[0].reason.startswith(reason)


def test_a_step_that_was_not_asked_for_is_not_undone():
    assert way_back(plan(MOVE), [], replace(seen(ReplicaAssignment(ids(2, 3, 4))), brokers=BROKERS)) == ((), ())


def test_a_partition_that_moved_twice_goes_back_at_once_to_where_it_began():
    observed = replace(seen(ReplicaAssignment(ids(4, 3, 2))), brokers=BROKERS)
    assert way_back(plan(MOVE, AGAIN), [0, 1], observed).waves == ((Target(*A0, ids(1, 2, 3)),),)


@pytest.mark.parametrize(
    ("steps", "observed", "undone"),
    [
        pytest.param([MOVE], seen(ReplicaAssignment(ids(1, 2, 3))), True, id="taken back"),
        pytest.param([MOVE], seen(ReplicaAssignment(ids(2, 3, 1))), True, id="taken back, rotated"),
        pytest.param([MOVE, AGAIN], seen(ReplicaAssignment(ids(1, 2, 3))), True, id="moved twice and taken back"),
        pytest.param([MOVE, AGAIN], seen(ReplicaAssignment(ids(4, 3, 2))), False, id="moved twice"),
        pytest.param([MOVE], seen(ReplicaAssignment(ids(2, 3, 4))), False, id="done"),
        pytest.param([MOVE], seen(BOTH), False, id="under way"),
        pytest.param([MOVE], seen(ReplicaAssignment(ids(5, 6))), False, id="elsewhere"),
        pytest.param([MOVE], seen(None), False, id="gone"),
        pytest.param([ELECTION], seen(ReplicaAssignment(ids(1, 2, 3))), False, id="an election that holds no more"),
        pytest.param([], seen(None), False, id="no step"),
    ],
)
def test_steps_are_undone_when_their_partitions_have_the_replicas_of_before(steps, observed, undone):
    assert is_undone(steps, observed) is undone


def test_a_former_broker_that_is_gone_is_a_reason():
    brokers = {number: broker for number, broker in BROKERS.items() if number != 1}
    found = way_back(plan(MOVE), [0], replace(seen(ReplicaAssignment(ids(2, 3, 4))), brokers=brokers))
    assert found.waves == ()
    assert "expected registered brokers, found [1]" in found.left_out[0].reason


def test_an_election_that_was_in_vain_has_no_way_back():
    found = way_back(plan(ELECTION), [0], replace(seen(ReplicaAssignment(ids(1, 2, 3))), brokers=BROKERS))
    assert found.left_out[0].reason.startswith("is no reassignment: ")


def test_from_a_cancel_the_way_back_is_to_what_was_asked_for():
    cancel = PlanStep(
        effects=(CreateReassignPartitions(targets=(Target(*A0, ids(2, 3, 1)),)),),
        expectations=(AssignedTo(*A0, replicas=ids(2, 3, 4, 1), adding=ids(4), removing=ids(1)),),
        outcomes=(AssignedTo(*A0, replicas=ids(2, 3, 1)), CaughtUp(*A0, replicas=ids(2, 3, 1))),
    )
    observed = replace(seen(ReplicaAssignment(ids(2, 3, 1))), brokers=BROKERS)
    assert way_back(plan(cancel), [0], observed).waves == ((Target(*A0, ids(2, 3, 4)),),)
