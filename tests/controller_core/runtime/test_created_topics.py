"""CreateTopics as a controller of ours serves it: what is made, what is refused and by which of Kafka's errors, and when the client hears of it."""

from dataclasses import replace
from random import Random

import pytest

from controller_core.adapters.brokers.asked import Asked
from controller_core.context.context import ControllerContext
from controller_core.model.config import ControllerConfig
from controller_core.model.dialect import dialect_for
from controller_core.model.partitions import Broker, BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controller_core.runtime.created_topics import create_topics, have_leaders
from controller_core.runtime.kafka_zk.adapter import KafkaZk
from controller_core.runtime.kafka_zk.base import formats_of
from controller_core.runtime.served_requests import Request, ServedRequests
from controller_core.runtime.simulated.zookeeper import MemoryZooKeeper
from controller_core.wire.controller_requests import CREATE_TOPICS
from controller_core.wire.messages import error_name

OURS = BrokerId(1000)
LISTS = [{"partition_index": 0, "broker_ids": [2, 1]}, {"partition_index": 1, "broker_ids": [1, 2]}]


class World:
    """Two brokers, one of ours that is the controller, and a tree with a topic, and with another of which only the request to delete it is left."""

    def __init__(self, version="3.9"):
        dialect = dialect_for(version)
        self.kafka = KafkaZk(MemoryZooKeeper(), formats_of(dialect))
        context = ControllerContext(dialect=dialect, config=ControllerConfig(controller_id=OURS))
        brokers = [Broker(BrokerId(each), 1, ()) for each in (1, 2, OURS)]
        self.context = replace(context.with_brokers(brokers), active_controller_id=OURS)
        self.kafka.create_topic("orders", {0: ReplicaAssignment((BrokerId(1),))})
        self.kafka.zookeeper.create("/admin/delete_topics/leaving", make_parents=True)

    def ask(self, *topics, **values):
        asked = {"topics": [topic_asked(**each) for each in topics], "timeout_ms": 1000, "validate_only": False}
        return create_topics(self.kafka, self.context, asked | values, Random(1))

    def said(self, *topics, **values):
        return [error_name(row["error_code"]) for row in self.ask(*topics, **values).rows]


def topic_asked(**fields):
    return {"name": "new", "num_partitions": -1, "replication_factor": -1, "assignments": [], "configs": []} | fields


@pytest.fixture
def world():
    return World()


@pytest.mark.parametrize(("version", "has_id"), [("3.9", True), ("2.8", True), ("2.4", False)])
def test_lists_are_taken_as_they_are_and_the_config_is_written_first(version, has_id):
    world = World(version)
    world.kafka.zookeeper.create("/config/topics/new", b"left", make_parents=True)
    [row] = world.ask({"assignments": LISTS, "configs": [{"name": "retention.ms", "value": "7"}]}).rows
    content = world.kafka.get_topics(["new"])[0]["new"]
    assert {number: each.replicas for number, each in content.assignments.items()} == {0: (2, 1), 1: (1, 2)}
    assert (content.topic_id is not None) is has_id
    assert content.topic_id in {row["topic_id"], None}
    assert world.kafka.get_topic_configs(["new"])[0] == {"new": {"retention.ms": "7"}}
    assert (row["error_code"], row["num_partitions"], row["replication_factor"]) == (0, 2, 2)
    assert [(each["name"], each["value"]) for each in row["configs"]] == [("retention.ms", "7")]


def test_numbers_are_placed_on_brokers_that_hold_replicas_and_default_to_one(world):
    assert world.said({"num_partitions": 4, "replication_factor": 2}, {"name": "small"}) == ["NONE", "NONE"]
    placed = world.kafka.get_topics(["new", "small"])[0]
    assert [sorted(each.replicas) for each in placed["new"].assignments.values()] == [[1, 2]] * 4
    assert len(placed["small"].assignments) == 1
    assert OURS not in placed["small"].assignments[0].replicas


@pytest.mark.parametrize(
    ("asked", "error"),
    [
        ({"name": "orders", "assignments": LISTS}, "TOPIC_ALREADY_EXISTS"),
        ({"name": "leaving", "assignments": LISTS}, "TOPIC_ALREADY_EXISTS"),
        ({"name": "or/ders", "assignments": LISTS}, "INVALID_TOPIC_EXCEPTION"),
        ({"num_partitions": 0}, "INVALID_PARTITIONS"),
        ({"replication_factor": 3}, "INVALID_REPLICATION_FACTOR"),
        ({"assignments": LISTS[1:]}, "INVALID_REPLICA_ASSIGNMENT"),
        ({"assignments": LISTS, "num_partitions": 2}, "INVALID_REQUEST"),
        ({"assignments": LISTS, "configs": [{"name": "retention.ms", "value": None}]}, "INVALID_REQUEST"),
    ],
)
def test_what_kafka_refuses_is_refused_by_its_error_and_nothing_is_made(world, asked, error):
    assert world.said(asked) == [error]
    assert world.kafka.list_topics() == ["orders"]
    assert not world.kafka.exists("/config/topics")


def test_a_topic_that_is_asked_for_twice_is_refused_beside_others_that_are_made(world):
    assert sorted(world.said({}, {}, {"name": "fine"})) == ["INVALID_REQUEST", "NONE"]
    assert world.kafka.list_topics() == ["fine", "orders"]


def test_who_is_not_the_controller_makes_nothing(world):
    world.context = replace(world.context, active_controller_id=None)
    assert world.said({}) == ["NOT_CONTROLLER"]
    assert not world.kafka.exists("/config/topics")


def test_a_question_makes_nothing_and_waits_for_nothing(world):
    created = world.ask({}, validate_only=True)
    assert (created.rows[0]["error_code"], created.awaited) == (0, frozenset())
    assert not world.kafka.exists("/config/topics")


def test_who_does_not_wait_is_told_that_the_time_is_over_though_the_topic_is_made(world):
    assert world.said({}, {"name": "orders"}, timeout_ms=0) == ["REQUEST_TIMED_OUT", "TOPIC_ALREADY_EXISTS"]
    assert "new" in world.kafka.list_topics()


def test_a_topic_that_somebody_makes_at_the_same_moment_is_theirs(world):
    lists = world.kafka.list_topics
    world.kafka.list_topics = lambda: [each for each in lists() if each != "orders"]
    assert world.said({"name": "orders"}) == ["TOPIC_ALREADY_EXISTS"]
    assert world.kafka.zookeeper.get("/config/topics/orders")[1].version == 0


def test_the_client_hears_of_its_topic_when_every_partition_has_a_leader(world):
    told = []
    served = ServedRequests(world.kafka)
    values = {"topics": [topic_asked(assignments=LISTS)], "timeout_ms": 1000, "validate_only": False}
    assert served.event_of(Request(Asked(CREATE_TOPICS, 7, values), told.append), world.context) is None
    leader, nobody = (LeaderAndIsr(BrokerId(each), 0, (BrokerId(1),)) for each in (1, -1))
    first, second = (TopicPartition("new", number) for number in range(2))
    context = world.context
    for state in ({}, {first: leader}, {second: nobody}):
        context = context.with_assignments({each: ReplicaAssignment((BrokerId(1),)) for each in (first, second)})
        context = context.with_leaderships(state)
        served.answer_creations(context)
        assert told == []
    served.answer_creations(context.with_leaderships({second: leader}))
    served.answer_creations(context.with_leaderships({second: leader}))
    assert [row["name"] for row in told[0]["topics"]] == ["new"]
    assert len(told) == 1
    assert not have_leaders(world.context, ["unheard of"])
