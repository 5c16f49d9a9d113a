"""A stored plan is data from a stranger: with the right digest, and none of what its planner would have made."""

import hashlib
import json

import pytest
from msgspec import structs

from controller_core.model.errors import InvalidPlanError
from controller_core.model.partitions import TopicPartition
from controller_core.plans import validation
from controller_core.plans.conditions import (
    AssignedTo,
    CaughtUp,
    ControllerIs,
    ElectedAfter,
    InSync,
    KafkaClusterIs,
    LedBy,
    NotificationsGone,
    RequestAbsent,
    TopicCreatedAt,
    TopicGone,
    TopicIs,
)
from controller_core.plans.document import encoded
from controller_core.plans.kinds import cancel_plan, deletions_plan, drain_plan, elections_plan, reassignment_plan
from controller_core.plans.plan import Plan, PlanKind, Rollback, plan_from_bytes, plan_to_bytes
from controller_core.plans.request_znodes import (
    CreateDeleteTopic,
    CreatePreferredReplicaElection,
    CreateReassignPartitions,
    Target,
)
from controller_core.plans.validation import check_plan, plan_problems
from tests.broker_ids import ids
from tests.controller_core.plans.observed import A0, A2, EXAMPLES, GONE, IDLE, OLD, ORIGIN, planned, seen

NO_TOPIC = TopicPartition("../controller", 0)


def elections() -> Plan:
    return planned(elections_plan(seen(), ORIGIN, [A0]))


def moves() -> Plan:
    return planned(reassignment_plan(seen(), ORIGIN, [[Target(*A0, ids(1, 3))]]))


def deletion() -> Plan:
    return planned(deletions_plan(seen(), ORIGIN, ["b"]))


def cancel() -> Plan:
    return planned(cancel_plan(seen(), ORIGIN))


def idle() -> Plan:
    asked = {"reassign_requests": {A0: ids(3)}, "election_requests": frozenset({A0})}
    return planned(drain_plan(seen(**asked, **IDLE), ORIGIN, now_ms=60_000))


def drain() -> Plan:
    return planned(drain_plan(seen(notifications=(OLD,)), ORIGIN, now_ms=60_000))


def step_of(plan, **changed):
    """The plan with another first step."""
    return structs.replace(plan, steps=(structs.replace(plan.steps[0], **changed), *plan.steps[1:]))


def asking(plan, *effects):
    return step_of(plan, effects=effects)


def without(plan, *kinds):
    """The plan without the conditions of these types, in its steps."""
    step = plan.steps[0]
    kept = {
        name: tuple(each for each in getattr(step, name) if not isinstance(each, kinds))
        for name in ("expectations", "outcomes")
    }
    return step_of(plan, **kept)


def beside(plan, *outcomes, expectations=()):
    step = plan.steps[0]
    return step_of(plan, outcomes=(*step.outcomes, *outcomes), expectations=(*step.expectations, *expectations))


def assert_taken_again(plan):
    """It is read as it was written, and nothing of it is refused."""
    assert plan_from_bytes(plan_to_bytes(plan), where="s") == plan
    assert plan_problems(plan) == ""
    check_plan(plan, "s")


@pytest.mark.parametrize("kind", list(EXAMPLES))
def test_what_is_planned_is_taken_again(kind):
    assert_taken_again(planned(EXAMPLES[kind]()))


def test_a_re_election_for_a_request_alone_is_taken_again():
    assert_taken_again(planned(drain_plan(seen(reassign_requests={GONE: ids(1)}), ORIGIN, now_ms=0)))


def test_a_re_election_for_requests_that_are_not_begun_is_taken_again():
    assert_taken_again(idle())


def test_a_cancel_is_taken_again():
    assert_taken_again(cancel())


def test_a_cluster_without_an_id_has_no_expectation_of_one():
    plan = planned(elections_plan(seen(kafka_cluster_id=None), ORIGIN, [A0]))
    assert [each for each in plan.expectations if isinstance(each, KafkaClusterIs)] == []
    assert_taken_again(plan)


MADE_OF = {
    "a cancel to elsewhere": (
        lambda: asking(cancel(), CreateReassignPartitions(targets=(Target(*A2, ids(2)),))),
        "the replicas 2 for a-2 while it is moved, expected its former ones",
    ),
    "an election that is not awaited": (
        lambda: without(idle(), RequestAbsent),
        "no condition RequestAbsent(path='/admin/preferred_replica_election')",
    ),
    "another kind": (
        lambda: structs.replace(deletion(), kind=PlanKind.ELECT_PREFERRED_LEADERS),
        "CreateDeleteTopic, which is no effect",
    ),
    "no cluster id": (
        lambda: structs.replace(elections(), expectations=elections().expectations[1:]),
        "no condition KafkaClusterIs",
    ),
    "two clusters": (
        lambda: structs.replace(
            elections(), expectations=(*elections().expectations, KafkaClusterIs(cluster_id="two"))
        ),
        "expectations for the cluster ids 'one', 'two'",
    ),
    "no controller": (
        lambda: structs.replace(elections(), expectations=elections().expectations[:1]),
        "no condition ZooKeeperController",
    ),
    "brokers unseen": (
        lambda: structs.replace(moves(), expectations=moves().expectations[:2]),
        "the brokers 1, 3 are registered",
    ),
    "no effect": (lambda: asking(elections()), "0 effects, expected 1 to 1"),
    "nothing elected": (
        lambda: asking(elections(), CreatePreferredReplicaElection.of(())),
        "0 partitions in a request",
    ),
    "an election twice": (
        lambda: asking(elections(), CreatePreferredReplicaElection.of((A0, A0))),
        "step 1: a-0 more than once",
    ),
    "a step twice": (lambda: structs.replace(elections(), steps=elections().steps * 2), "a-0 more than once"),
    "a re-election twice": (lambda: structs.replace(drain(), steps=drain().steps * 2), "'/controller' more than once"),
    "a deletion twice": (lambda: structs.replace(deletion(), steps=deletion().steps * 2), "'b' more than once"),
    "a path": (
        lambda: asking(elections(), CreatePreferredReplicaElection.of((NO_TOPIC,))),
        "'../controller', which is no name of a topic",
    ),
    "a dot": (lambda: asking(deletion(), CreateDeleteTopic(topic="..")), "'..', which is no name"),
    "a negative partition": (
        lambda: asking(elections(), CreatePreferredReplicaElection.of((A0._replace(partition=-1),))),
        "the partitions a--1, expected numbers from 0 on",
    ),
    "another request": (lambda: without(elections(), RequestAbsent), "no condition RequestAbsent"),
    "replicas unseen": (lambda: without(elections(), AssignedTo), "no expectation of topic, replicas and ISR of a-0"),
    "ISR unseen": (lambda: without(elections(), InSync), "no expectation of topic, replicas and ISR of a-0"),
    "topic unseen": (lambda: without(elections(), TopicCreatedAt), "no expectation of topic, replicas and ISR of a-0"),
    "no leader wanted": (lambda: without(elections(), LedBy), "no condition LedBy"),
    "a row of its own": (
        lambda: beside(elections(), LedBy(*GONE, leader=ids(1)[0])),
        "conditions of gone-0, which nothing is asked for",
    ),
    "a target of its own": (
        lambda: beside(moves(), AssignedTo(*GONE, replicas=ids(1))),
        "conditions of gone-0, which nothing is asked for",
    ),
    "a topic of its own": (
        lambda: beside(deletion(), expectations=(TopicIs(topic="kept", czxid=1, partition_count=1),)),
        "conditions of 'kept', which nothing is asked for",
    ),
    "an empty list": (
        lambda: asking(moves(), CreateReassignPartitions(targets=(Target(*A0, ()),))),
        "the replicas  for a-0, expected each broker once",
    ),
    "a broker twice": (
        lambda: asking(moves(), CreateReassignPartitions(targets=(Target(*A0, ids(1, 1)),))),
        "the replicas 1, 1 for a-0",
    ),
    "a negative broker": (
        lambda: asking(moves(), CreateReassignPartitions(targets=(Target(*A0, ids(-1)),))),
        "the replicas -1 for a-0",
    ),
    "another target": (
        lambda: asking(moves(), CreateReassignPartitions(targets=(Target(*A0, ids(3)),))),
        "no condition AssignedTo",
    ),
    "a start unseen": (lambda: without(moves(), TopicCreatedAt), "no expectation of topic and replicas of a-0"),
    "never in sync": (lambda: without(moves(), CaughtUp), "no condition CaughtUp"),
    "a topic of Kafka": (
        lambda: asking(deletion(), CreateDeleteTopic(topic="__consumer_offsets")),
        "the deletion of __consumer_offsets, which the cluster needs",
    ),
    "any namesake": (lambda: without(deletion(), TopicIs), "no expectation of which topic 'b' is"),
    "never gone": (lambda: without(deletion(), TopicGone), "no condition TopicGone"),
    "too many at once": (
        lambda: asking(deletion(), *(CreateDeleteTopic(topic=f"t{n}") for n in range(21))),
        "21 effects, expected 1 to 20",
    ),
    "any controller": (lambda: without(drain(), ControllerIs), "no expectation that broker 1 is the controller"),
    "no election after": (lambda: without(drain(), ElectedAfter), "no condition ElectedAfter"),
    "not drained": (lambda: without(drain(), NotificationsGone), "no condition NotificationsGone"),
    "a way back of a deletion": (
        lambda: structs.replace(deletion(), rollback=Rollback(text="", steps=deletion().steps)),
        "a way back by requests, which this kind has not",
    ),
    "a wrong way back": (
        lambda: structs.replace(moves(), rollback=structs.replace(moves().rollback, steps=deletion().steps)),
        "way back, step 1: CreateDeleteTopic",
    ),
}


@pytest.mark.parametrize("name", list(MADE_OF))
def test_what_no_planner_makes_is_refused_by_name(name):
    make, message = MADE_OF[name]
    with pytest.raises(InvalidPlanError) as error:
        check_plan(make(), "s3://b/p.json")
    assert message in str(error.value)
    assert str(error.value).startswith("plan s3://b/p.json not taken: expected what is planned for ")


def test_sizes_are_bounded(monkeypatch):
    monkeypatch.setattr(validation, "REQUEST_BYTES_MAX", 10)
    monkeypatch.setattr(validation, "STEPS_MAX", 0)
    with pytest.raises(InvalidPlanError, match=r"1 step, expected at most 0; step 1: a request of more than 10 bytes"):
        check_plan(elections(), "s")


def test_the_config_of_a_throttle_is_bounded_as_a_request_is(monkeypatch):
    throttled = planned(reassignment_plan(seen(), ORIGIN, [[Target(*A0, ids(1, 3))]], throttle_bytes_per_s=1_000))
    check_plan(throttled, "s")
    monkeypatch.setattr(validation, "REQUEST_BYTES_MAX", 100)
    check_plan(moves(), "s")
    with pytest.raises(InvalidPlanError, match=r"a throttle of more than 100 bytes at /config/topics/a: plan smaller"):
        check_plan(throttled, "s")


def test_a_throttled_move_of_which_the_plan_does_not_know_the_replicas_is_refused_as_any_other():
    throttled = planned(reassignment_plan(seen(), ORIGIN, [[Target(*A0, ids(1, 3))]], throttle_bytes_per_s=1_000))
    step = throttled.steps[0]
    known = tuple(each for each in step.expectations if not isinstance(each, AssignedTo))
    unknown = structs.replace(throttled, steps=(structs.replace(step, expectations=known),))
    with pytest.raises(InvalidPlanError, match=r"plan s not taken: .*step 1: .*a-0.*make the plan again"):
        check_plan(unknown, "s")


def test_of_many_problems_the_first_are_named_and_long_names_are_cut():
    long = tuple(TopicPartition(f"/{'x' * 5_000}{n}", 0) for n in range(7))
    with pytest.raises(InvalidPlanError) as error:
        check_plan(asking(elections(), CreatePreferredReplicaElection.of(long)), "s")
    assert "; and 10 more" in str(error.value)
    assert len(str(error.value)) < 3_000


def test_a_field_that_no_plan_has_is_refused():
    document = json.loads(plan_to_bytes(elections()))
    document.pop("digest")
    document["steps"][0]["also"] = "rm -rf"
    with pytest.raises(InvalidPlanError, match=r"unknown field `also` - at `.*steps\[0\]`"):
        plan_from_bytes(encoded({**document, "digest": hashlib.sha256(encoded(document)).hexdigest()}), where="s")
