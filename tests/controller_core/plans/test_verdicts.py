"""What became of each partition of a step, a step without some of them, and the rules of a plan."""

from dataclasses import replace

import pytest

from controller_core.model.partitions import Broker, BrokerId, LeaderAndIsr, ReplicaAssignment
from controller_core.plans.conditions import AssignedTo, KafkaClusterIs, LedBy, RequestAbsent, TopicCreatedAt, TopicGone
from controller_core.plans.observation import Observation, TopicIdentity
from controller_core.plans.plan import PlanStep
from controller_core.plans.progress import Health, copy_seconds, health, step_progress
from controller_core.plans.request_znodes import (
    CreateDeleteTopic,
    CreatePreferredReplicaElection,
    CreateReassignPartitions,
    DeleteController,
    LeaderMove,
    MoveLeaders,
    Target,
    may_be_asked_twice,
)
from controller_core.plans.rules import (
    BeforeStep,
    ExecutionRules,
    OnDifference,
    ThrottleBand,
    rates_of,
    rules_of,
    rules_text,
    stored_rules,
    throttle_from,
)
from controller_core.plans.safeguards import safeguards
from controller_core.plans.verdicts import Fate, differing, request_partitions, verdicts, without
from tests.broker_ids import ids
from tests.controller_core.plans.moving import A0, A1, B0, BOTH, MOVE, seen

ELECTION = PlanStep(
    effects=(CreatePreferredReplicaElection.of((A0,)),),
    expectations=(TopicCreatedAt(topic="a", czxid=7),),
    outcomes=(LedBy(*A0, leader=BrokerId(1)),),
)


@pytest.mark.parametrize(
    ("step", "observed", "fate"),
    [
        pytest.param(MOVE, seen(ReplicaAssignment(ids(2, 3, 4))), Fate.DONE, id="at its target"),
        pytest.param(MOVE, seen(ReplicaAssignment(ids(2, 3, 4)), isr=(2,)), Fate.BEHIND, id="there, the ISR is thin"),
        pytest.param(MOVE, seen(BOTH._replace(adding=ids(4), removing=ids(1))), Fate.UNDER_WAY, id="adds and removes"),
        pytest.param(MOVE, seen(BOTH), Fate.UNDER_WAY, id="holds both lists, as up to Kafka 2.3"),
        pytest.param(
            MOVE,
            seen(BOTH, topic_json_versions=frozenset({1, 2})),
            Fate.ELSEWHERE,
            id="sent to both lists by somebody, since Kafka 2.4",
        ),
        pytest.param(
            MOVE,
            seen(ReplicaAssignment(ids(1, 2, 3)), reassign_requests={A0: ids(2, 3, 4)}),
            Fate.UNDER_WAY,
            id="its request stands",
        ),
        pytest.param(MOVE, seen(ReplicaAssignment(ids(2, 3, 1))), Fate.REVERTED, id="cancelled: rotated"),
        pytest.param(MOVE, seen(ReplicaAssignment(ids(1, 2, 3))), Fate.REVERTED, id="never begun"),
        pytest.param(MOVE, seen(ReplicaAssignment(ids(5, 6))), Fate.ELSEWHERE, id="sent elsewhere"),
        pytest.param(MOVE, seen(None), Fate.GONE, id="no such partition"),
        pytest.param(ELECTION, seen(BOTH, leader=1), Fate.DONE, id="elected"),
        pytest.param(ELECTION, seen(BOTH), Fate.NOT_ELECTED, id="not elected"),
        pytest.param(
            ELECTION, seen(BOTH, election_requests=frozenset({A0})), Fate.UNDER_WAY, id="the election is pending"
        ),
    ],
)
def test_verdict(step, observed, fate):
    (verdict,) = verdicts(step, observed)
    assert verdict.fate is fate
    assert str(verdict).startswith(f"a-0: {fate}, found ")


def test_a_namesake_is_no_partition_of_the_step():
    observed = Observation(topics={"a": TopicIdentity(9, 1)}, assignments={A0: ReplicaAssignment(ids(2, 3, 4))})
    (verdict,) = verdicts(MOVE, observed)
    assert verdict == (A0, Fate.GONE, "one created at zxid 0x9")
    (verdict,) = verdicts(MOVE, replace(observed, reassign_requests={A0: ids(2, 3, 4)}))
    assert (
        verdict.found
        == "one created at zxid 0x9, which the next controller moves: the request for the former one stands"
    )


def test_deletions_and_re_elections_name_no_partition():
    effects = CreateDeleteTopic(topic="a"), DeleteController(controller_id=BrokerId(1), version=0, epoch_version=0)
    step = PlanStep(effects=effects, expectations=(), outcomes=())
    assert verdicts(step, Observation()) == ()
    assert without(step, {A0}).effects == ()
    assert without(step, ()) is step


def test_what_differs_of_a_topic_concerns_its_partitions():
    conditions = (
        TopicCreatedAt(topic="a", czxid=1),
        AssignedTo(*A0, replicas=ids(9)),
        AssignedTo(*B0, replicas=ids(9)),
        KafkaClusterIs(cluster_id="x"),
        RequestAbsent(path="/admin/reassign_partitions"),
    )
    own, common = differing(conditions, (A0, A1), Observation())
    assert {partition: reason.subject for partition, reason in own.items()} == {A0: "topic a", A1: "topic a"}
    assert [reason.subject for reason in common] == ["b-0", "/cluster/id"]


def test_a_step_without_a_partition_forgets_its_topic_with_the_last_one():
    targets = tuple(Target(*each, ids(1)) for each in (A0, A1, B0))
    step = PlanStep(
        effects=(CreateReassignPartitions(targets=targets),),
        expectations=(TopicCreatedAt(topic="a", czxid=1), TopicCreatedAt(topic="b", czxid=2)),
        outcomes=(
            *(AssignedTo(*each.partition, replicas=ids(1)) for each in targets),
            TopicGone(topic="c", czxid=1),
        ),
    )
    left = without(step, {A0, B0})
    assert left.effects == (CreateReassignPartitions(targets=targets[1:2]),)
    assert left.expectations == (TopicCreatedAt(topic="a", czxid=1),)
    assert left.outcomes == (AssignedTo(*A1, replicas=ids(1)), TopicGone(topic="c", czxid=1))
    assert without(ELECTION, {A0}).effects == ()


@pytest.mark.parametrize("on_difference", OnDifference)
@pytest.mark.parametrize("before_step", BeforeStep)
def test_rules_are_read_as_they_were_written(on_difference, before_step):
    rules = ExecutionRules(on_difference=on_difference, before_step=before_step)
    assert rules_of(stored_rules(rules)) == rules
    slow = replace(rules, step_pause_s=60)
    assert rules_of(stored_rules(slow)) == slow
    assert "60 s pass between the end of a step and the request of the next one." in rules_text(slow)
    assert len(rules_text(rules)) == (on_difference is OnDifference.GO_ON) + (before_step is BeforeStep.WAIT)


def test_a_throttle_is_read_as_it_was_written_and_told():
    rules = ExecutionRules(throttle_bytes_per_s=1_000_000)
    assert rules_of(stored_rules(rules)) == rules
    assert "at most 1,000,000 bytes per second" in rules_text(rules)[0]


def test_a_band_is_written_read_and_told():
    rules = ExecutionRules(throttle_bytes_per_s=ThrottleBand(1_000, 2_000))
    assert rules_of(stored_rules(rules)) == rules
    assert "at most 2,000 bytes per second" in rules_text(rules)[0]
    assert "The rate begins at 1,000 bytes per second." in rules_text(rules)[1]


@pytest.mark.parametrize(
    ("written", "throttle"),
    [
        (None, None),
        ("none", None),
        (5, 5),
        ("5", 5),
        ("auto:5-9", ThrottleBand(5, 9)),
        ("auto:5-5", ThrottleBand(5, 5)),
    ],
)
def test_a_throttle_as_people_write_it(written, throttle):
    assert throttle_from(written) == throttle


@pytest.mark.parametrize("written", ["", "auto", "auto:5", "auto:9-5", "5-9", "0", "-5", "auto:0-5", "1e6", "5 MB"])
def test_another_throttle_is_refused_with_what_is_expected(written):
    with pytest.raises(ValueError, match=r"bytes per second above 0, `auto:LEAST-MOST`, .* or `none`, not"):
        throttle_from(written)


def test_what_somebody_may_have_withdrawn_is_asked_for_once():
    requests = (*MOVE.effects, *ELECTION.effects, CreateDeleteTopic(topic="a"))
    controller = DeleteController(controller_id=BrokerId(1), version=0, epoch_version=0)
    assert list(map(may_be_asked_twice, (*requests, controller))) == [False, True, False, True]


def test_copies_take_as_long_as_the_broker_that_sends_or_receives_most():
    copied = {A0: 1_000}
    leaders = seen(BOTH).leaders
    assert copy_seconds(MOVE, leaders, copied, 100) == 10.0
    assert copy_seconds(MOVE, {}, copied, 100) == 10.0
    assert copy_seconds(MOVE, leaders, {}, 100) == 0.0
    assert copy_seconds(ELECTION, leaders, copied, 100) == 0.0


def test_progress_counts_replicas_that_are_copied_and_outcomes():
    moving = seen(BOTH._replace(adding=ids(4), removing=ids(1)), isr=(1, 2, 3))
    assert str(step_progress(MOVE, moving)) == "0 of 1 new replicas in sync, 0 of 1 partitions or topics done"
    assert [str(each) for each in step_progress(MOVE, moving).missing] == ["a-0 on broker 4, which is not registered"]
    with_broker = replace(moving, brokers={BrokerId(4): Broker(BrokerId(4))})
    assert str(step_progress(MOVE, with_broker).missing[0]) == "a-0 on broker 4"
    done = step_progress(MOVE, seen(ReplicaAssignment(ids(2, 3, 4))))
    assert (done.outcomes_done, done.replicas_in_sync, done.missing) == (1, 1, ())
    assert str(step_progress(ELECTION, seen(BOTH, leader=1))) == "1 of 1 partitions or topics done"
    assert step_progress(MOVE, Observation()).replicas_in_sync == 0


def test_health_counts_what_the_plan_does_not_name():
    brokers = {BrokerId(n): Broker(BrokerId(n)) for n in (1, 2)}
    states = {
        A0: LeaderAndIsr(BrokerId(9), 0, ids(9)),
        A1: LeaderAndIsr(BrokerId(1), 0, ids(1)),
        B0: LeaderAndIsr(BrokerId(1), 0, ids(1, 2)),
    }
    assignments = {A0: ReplicaAssignment(ids(9)), A1: ReplicaAssignment(ids(1, 2)), B0: ReplicaAssignment(ids(1, 2))}
    observed = Observation(brokers=brokers, states=states, assignments=assignments)
    assert health(observed, (), {}) == Health(offline=1, under_replicated=1, under_min_isr=0)
    assert health(observed, {A0, A1}, {}) == Health(offline=0, under_replicated=0, under_min_isr=0)


def test_a_replica_that_is_being_added_makes_no_partition_under_replicated_and_counts_for_min_isr():
    """As a reassignment of somebody else beside a plan: what the analysis and Kafka do not count, the wait before a step does not."""
    observed = Observation(
        brokers={BrokerId(1): Broker(BrokerId(1))},
        states={A0: LeaderAndIsr(BrokerId(1), 0, ids(1)), A1: LeaderAndIsr(BrokerId(1), 0, ids(1))},
        assignments={
            A0: ReplicaAssignment(ids(1, 2), adding=ids(2)),
            A1: ReplicaAssignment(ids(1, 2), removing=ids(2)),
        },
    )
    assert health(observed, (), {A0.topic: 2}) == Health(offline=0, under_replicated=1, under_min_isr=2)


@pytest.mark.parametrize(
    ("isr", "min_isr", "count"),
    [
        pytest.param((1,), 1, 0, id="one is enough"),
        pytest.param((1,), 2, 1, id="one of two that are needed"),
        pytest.param((1, 2), 2, 0, id="two of two"),
        pytest.param((1, 2, 3), 4, 0, id="all that there are"),
        pytest.param((1, 2), 4, 1, id="not all that there are"),
    ],
)
def test_health_counts_what_is_under_min_isr(isr, min_isr, count):
    states, assignments = {A0: LeaderAndIsr(BrokerId(1), 0, ids(*isr))}, {A0: ReplicaAssignment(ids(1, 2, 3))}
    observed = Observation(brokers={BrokerId(1): Broker(BrokerId(1))}, states=states, assignments=assignments)
    assert health(observed, (), {A0.topic: min_isr}).under_min_isr == count


def test_a_move_of_leaders_names_its_partitions_and_is_guarded_like_an_election():
    request = MoveLeaders(moves=(LeaderMove(*A0, BrokerId(2)), LeaderMove(*B0, BrokerId(1))))
    assert request_partitions(request) == (A0, B0)
    assert safeguards(request) == safeguards(CreatePreferredReplicaElection.of((A0, B0)))
    step = PlanStep(effects=(request,), expectations=(), outcomes=())
    assert without(step, {A0}).effects == (MoveLeaders(moves=(LeaderMove(*B0, BrokerId(1)),)),)


@pytest.mark.parametrize(("throttle", "rates"), [(None, ()), (10, (10,)), (ThrottleBand(10, 40), (10, 40))])
def test_the_rates_of_a_throttle_are_the_least_first(throttle, rates):
    assert rates_of(throttle) == rates
