"""Deletions: of exactly the named topics, and of none that somebody works on or needs."""

import pytest

from controller_core.plans.conditions import TopicIs
from controller_core.plans.kinds import Refused, deletions_plan
from controller_core.plans.observation import TopicIdentity
from controller_core.plans.plan import LeftOut
from controller_core.plans.request_znodes import CreateDeleteTopic
from controller_core.plans.topic_owners import owner_of
from tests.broker_ids import ids
from tests.controller_core.plans.observed import A0, A1, B0, ORIGIN, planned, seen


def test_a_deletion_is_of_exactly_this_topic():
    plan = planned(deletions_plan(seen(), ORIGIN, ["b", "q"], left_out=[LeftOut("x", "dead replica")]))
    assert plan.effects == (CreateDeleteTopic(topic="b"),)
    assert TopicIs(topic="b", czxid=10, partition_count=1) in plan.steps[0].expectations
    assert plan.predicted == ("b  1 partition, 2 replicas on brokers [8, 9] are deleted",)
    assert plan.left_out == (LeftOut("x", "dead replica"), LeftOut("q", "is queued for deletion already"))


@pytest.mark.parametrize(
    ("topic", "changed", "said"),
    [
        pytest.param("a", {}, "[a-2, which adds or removes replicas]: wait until it is done", id="by its lists"),
        pytest.param(
            "b", {"reassign_requests": {B0: ids(1)}}, "[b-0 in /admin/reassign_partitions]: wait", id="asked to move"
        ),
        pytest.param(
            "b", {"election_requests": frozenset({B0})}, "[b-0 in /admin/preferred_replica_election]: wait", id="election"
        ),
        pytest.param(
            "b", {"unreadable": {"/admin/reassign_partitions": "no JSON"}}, "cannot be read (no JSON): nobody knows which",
            id="a request that cannot be read",
        ),
    ],
)  # fmt: skip
def test_a_topic_that_somebody_works_on_is_left_out_of_a_deletion(topic, changed, said):
    plan = planned(deletions_plan(seen(**changed), ORIGIN, [topic]))
    assert plan.steps == ()
    assert plan.left_out[0].subject == topic
    assert said in plan.left_out[0].reason


def test_another_topics_reassignment_is_no_reason_against_a_deletion():
    asked = {"reassign_requests": {A0: ids(1)}, "election_requests": frozenset({A1})}
    assert planned(deletions_plan(seen(**asked), ORIGIN, ["b"])).effects == (CreateDeleteTopic(topic="b"),)


def test_deletions_are_asked_for_in_batches():
    topics = {f"t{n}": TopicIdentity(n, 1) for n in range(5)}
    plan = planned(deletions_plan(seen(topics=topics), ORIGIN, sorted(topics), topic_count_max=2))
    assert [len(step.effects) for step in plan.steps] == [2, 2, 1]


def test_kafkas_own_topics_are_never_deleted():
    topics = {"__consumer_offsets": TopicIdentity(1, 50)}
    made = deletions_plan(seen(topics=topics), ORIGIN, ["__consumer_offsets"])
    assert isinstance(made, Refused)
    assert "found one of Kafka's own" in str(made.reasons[0])


@pytest.mark.parametrize(
    ("topic", "owner"),
    [
        pytest.param("__share_group_state", "an internal topic of Kafka or its tools", id="Kafka"),
        pytest.param("_schemas", "the store of a Schema Registry", id="Schema Registry"),
        pytest.param("_confluent-metrics", "an internal topic of Confluent's platform", id="Confluent"),
        pytest.param("connect-offsets", "state of a Kafka Connect cluster", id="Connect, as its example names it"),
        pytest.param("eu.connect-cluster.status", "state of a Kafka Connect cluster", id="Connect, several clusters"),
        pytest.param("connect-sinks-configs", "state of a Kafka Connect cluster", id="Connect, named"),
        pytest.param("heartbeats", "an internal topic of MirrorMaker 2", id="heartbeats"),
        pytest.param("us.checkpoints.internal", "an internal topic of MirrorMaker 2", id="checkpoints"),
        pytest.param("mm2-offset-syncs.us.internal", "an internal topic of MirrorMaker 2", id="offset syncs"),
        pytest.param("app-store-changelog", "an internal topic of a Kafka Streams application", id="a changelog"),
        pytest.param("app-KSTREAM-KEY-0001-repartition", "an internal topic of a Kafka Streams application", id="a repartition"),
        pytest.param(
            "app-join-subscription-response-topic", "an internal topic of a Kafka Streams application", id="a foreign-key join"
        ),
        *(pytest.param(name, None, id=name) for name in ("orders", "connect", "disconnect-status", "us.orders", "changelog")),
    ],
)  # fmt: skip
def test_a_topic_that_a_program_made_for_itself_is_known_by_its_name(topic, owner):
    assert owner_of(topic) == owner


def test_what_a_program_made_for_itself_goes_only_by_an_explicit_word():
    topics = {"_schemas": TopicIdentity(1, 1)}
    kept = planned(deletions_plan(seen(topics=topics), ORIGIN, ["_schemas"]))
    assert kept.steps == ()
    assert kept.left_out[0].reason.startswith("is the store of a Schema Registry; where that program is gone for good")
    meant = planned(deletions_plan(seen(topics=topics), ORIGIN, ["_schemas"], even_if_used=True))
    assert meant.effects == (CreateDeleteTopic(topic="_schemas"),)
    assert meant.risks[-1] == "_schemas is the store of a Schema Registry."


def test_the_approver_reads_who_uses_a_topic():
    plan = planned(deletions_plan(seen(), ORIGIN, ["b"], evidence={"b": "7 bytes, groups: none"}))
    assert plan.predicted == ("b  1 partition, 2 replicas on brokers [8, 9] are deleted; 7 bytes, groups: none",)


def test_an_unknown_topic_is_refused_by_name():
    made = deletions_plan(seen(), ORIGIN, ["x"])
    assert isinstance(made, Refused)
    assert "topic x: expected a topic of this cluster" in str(made.reasons[0])
