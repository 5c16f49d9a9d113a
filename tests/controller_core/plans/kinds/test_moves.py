"""Moves of replicas: what is planned with its way back, what is refused."""

from dataclasses import replace

import pytest

from controller_core.model.partitions import Broker, BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controller_core.plans.conditions import AssignedTo, BrokerInRack, CaughtUp, TopicCreatedAt
from controller_core.plans.kinds import Refused, reassignment_plan, target_refusals
from controller_core.plans.plan import LeftOut
from controller_core.plans.request_znodes import CreateReassignPartitions, Target
from tests.broker_ids import ids
from tests.controller_core.plans.observed import A0, A1, A2, B0, D0, ORIGIN, Q0, planned, seen


def test_a_move_is_planned_with_its_way_back():
    plan = planned(reassignment_plan(seen(), ORIGIN, [[Target(*A0, ids(3, 1))], [Target(*A1, ids(2, 3))]]))
    assert plan.effects == (CreateReassignPartitions(targets=(Target(*A0, ids(3, 1)),)),)
    assert CaughtUp(*A0, replicas=ids(3, 1)) in plan.steps[0].outcomes
    assert TopicCreatedAt(topic="a", czxid=9) in plan.steps[0].expectations
    assert TopicCreatedAt(topic="a", czxid=9) in plan.rollback.steps[0].expectations
    assert plan.predicted == (
        "a-0  led by 2 in leader epoch 4, replicas [1, 2] → [3, 1], copies to [3], removes from [2], preferred leader 1 → 3",
    )
    assert plan.left_out == (LeftOut("a-1", "has these replicas already"),)
    back = plan.rollback.steps[0]
    assert back.effects == (CreateReassignPartitions(targets=(Target(*A0, ids(1, 2)),)),)
    assert AssignedTo(*A0, replicas=ids(3, 1)) in back.expectations


@pytest.mark.parametrize(
    ("placed_by_rack", "racks"),
    [
        pytest.param(True, [BrokerInRack(broker=BrokerId(3), rack="east")], id="by the planner"),
        pytest.param(False, [], id="by somebody who may not care"),
    ],
)
def test_brokers_stay_in_the_racks_by_which_replicas_were_placed(placed_by_rack, racks):
    now = seen()
    now = replace(now, brokers=now.brokers | {BrokerId(3): Broker(BrokerId(3), rack="east")})
    plan = planned(reassignment_plan(now, ORIGIN, [[Target(*A0, ids(3, 1))]], placed_by_rack=placed_by_rack))
    assert [each for each in plan.expectations if isinstance(each, BrokerInRack)] == racks


def test_a_new_order_copies_nothing():
    plan = planned(reassignment_plan(seen(), ORIGIN, [[Target(*A0, ids(2, 1))]]))
    assert plan.predicted == ("a-0  led by 2 in leader epoch 4, replicas [1, 2] → [2, 1], preferred leader 1 → 2",)
    assert plan.risks[0].startswith("0 replicas are copied")


def test_the_approver_hears_of_a_new_replication_factor_and_of_followers_behind():
    wave = [Target(*A0, ids(1, 2, 3)), Target(*A1, ids(2, 4))]
    plan = planned(reassignment_plan(seen(), ORIGIN, [wave], may_change_replication_factor=True, remarks=["Proven."]))
    assert plan.risks == (
        "Proven.",
        "2 replicas are copied over the network, without a throttle, as fast as the brokers can: they compete with clients.",
        "The replication factor of 1 partition changes, a-0 first.",
        "1 partition is under-replicated now, a-1 first: such moves take longer.",
    )


@pytest.mark.parametrize(
    ("target", "said"),
    [
        pytest.param(Target(*A0, ()), "it would delete the partition's data", id="an empty list"),
        pytest.param(Target(*A0, ids(1, 1)), "expected each broker once, found [1, 1]", id="a broker twice"),
        pytest.param(Target(*A0, ids(1, -1)), "expected registered brokers, found [-1]", id="a negative id"),
        pytest.param(Target(*A0, ids(1, 5)), "expected registered brokers, found [5]", id="an unknown broker"),
        pytest.param(Target("x", 0, ids(1)), "a partition of this cluster", id="an unknown partition"),
        pytest.param(Target(*A2, ids(1, 2)), "adding [3], removing []", id="one that is being reassigned"),
        pytest.param(Target(*Q0, ids(2, 3)), "one queued for deletion", id="a topic queued for deletion"),
        pytest.param(Target(*A0, ids(1, 2, 3)), "expected 2 replicas as now, found 3", id="another replication factor"),
        pytest.param(
            Target(*B0, ids(1, 2)), "expected a leader to copy from, found leader -1, ISR [9]", id="no leader"
        ),
        pytest.param(
            Target(*D0, ids(1, 2)), "expected a leader to copy from, found leader 9, ISR [9, 1]", id="a dead leader"
        ),
    ],
)
def test_a_target_that_kafka_would_take_without_a_check_is_refused(target, said):
    made = reassignment_plan(seen(), ORIGIN, [[target]])
    assert isinstance(made, Refused)
    assert said in " ".join(map(str, made.reasons))


@pytest.mark.parametrize(
    ("leader", "isr", "said"),
    [
        pytest.param(3, (3,), "leader 3, ISR [3], replicas [1, 2]; have one of its replicas elected", id="no replica"),
        pytest.param(2, (9,), "leader 2, ISR [9]; bring a broker of the ISR back first", id="a dead ISR"),
    ],
)
def test_a_leader_that_new_replicas_cannot_copy_from_is_refused(leader, isr, said):
    states = {A0: LeaderAndIsr(BrokerId(leader), 4, ids(*isr))}
    (reason,) = target_refusals(seen(states=states), [[Target(*A0, ids(1, 3))]], may_change_replication_factor=False)
    assert said in str(reason)


def test_a_znode_that_is_named_as_no_topic_can_be_is_refused():
    odd = TopicPartition("ü", 0)
    observed = seen(assignments={odd: ReplicaAssignment(ids(1, 2))}, states={odd: LeaderAndIsr(BrokerId(1), 4, ids(1))})
    (reason,) = target_refusals(observed, [[Target(*odd, ids(1, 3))]], may_change_replication_factor=False)
    assert "expected a topic whose name Kafka allows, found 'ü'; leave it out" in str(reason)


def test_a_partition_without_state_has_nothing_to_copy_from():
    (reason,) = target_refusals(seen(states={}), [[Target(*A0, ids(1, 3))]], may_change_replication_factor=False)
    assert "found no state" in str(reason)


def test_two_targets_for_one_partition_in_one_wave_are_refused():
    wave = [Target(*A0, ids(1, 3)), Target(*A0, ids(1, 4))]
    (reason,) = target_refusals(seen(), [wave], may_change_replication_factor=False)
    assert "one target per partition and wave" in str(reason)


def test_a_partition_may_go_on_in_a_later_wave():
    waves = [[Target(*A0, ids(1, 3))], [Target(*A0, ids(4, 3))], [Target(*A0, ids(4, 3))]]
    plan = planned(reassignment_plan(seen(), ORIGIN, waves, why={A0: "it makes room"}))
    assert plan.predicted == (
        "a-0  led by 2 in leader epoch 4, replicas [1, 2] → [1, 3], copies to [3], removes from [2]; why: it makes room",
        "a-0  led by 2 in leader epoch 4, replicas [1, 3] → [4, 3], copies to [4], removes from [1], preferred leader 1 → 4; why: it makes room",
    )
    assert AssignedTo(*A0, replicas=ids(1, 3)) in plan.steps[1].expectations
    assert [step.effects[0].targets[0].replicas for step in plan.rollback.steps] == [(1, 3), (1, 2)]
    assert plan.risks[0].startswith("2 replicas are copied")
