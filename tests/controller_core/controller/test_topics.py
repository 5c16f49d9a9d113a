"""New, vanished and malformed topics, new partitions; each row is a sentence."""

from dataclasses import replace

import pytest

from controller_core.messages import answers, events
from controller_core.messages import effects as e
from controller_core.model.partitions import ReplicaAssignment
from tests.controller_core.clusters import cluster, led, run, zookeeper_of


def test_a_new_topic_is_created_and_a_vanished_one_forgotten():
    context = cluster({"old-0": (1, 2)})
    topics = {"t": answers.TopicContent({0: ReplicaAssignment((2, 1))}, None, (("x", "1"),))}
    found = run(context, events.TopicsChanged(), zookeeper_of(context, topics=topics))
    assert found.leadership("t-0").leader == 2
    assert found.context.topics["t"].topic_id == "new-id-of-t"
    assert found.context.topics["t"].extra == (("x", "1"),)
    assert "old" not in found.context.topics
    again = run(found.context, events.TopicsChanged(), zookeeper_of(found.context))
    assert again.kinds() == ["ReadTopics"]


@pytest.mark.parametrize("failing", ["ReadTopics", "ReadTopicAssignments"])
def test_topics_that_cannot_be_read(failing):
    context = cluster({"old-0": (1, 2)})
    topics = {"old": answers.TopicContent({}), "t": answers.TopicContent({0: ReplicaAssignment((2, 1))})}
    found = run(context, events.TopicsChanged(), zookeeper_of(context, topics=topics, failures={failing: "NOAUTH"}))
    assert found.leadership("t-0") is None
    assert "NOAUTH" in found.refusals[0].reason


def test_a_malformed_topic_is_isolated():
    context = cluster({"old-0": (1, 2)}, version="2.4")
    topics = {
        "old": answers.TopicContent({}),
        "bad": answers.TopicContent({}),
        "t": answers.TopicContent({0: ReplicaAssignment((2, 1))}),
    }
    zookeeper = zookeeper_of(context, topics=topics, topic_problems={"bad": "no JSON"})
    found = run(context, events.TopicsChanged(), zookeeper)
    assert found.leadership("t-0").leader == 2
    assert "the controller resigns" in found.refusals[0].kafka


@pytest.mark.parametrize(("queued", "version", "writes"), [(False, "3.9", 0), (True, "3.9", 1), (True, "1.0", 0)])
def test_new_partitions_of_a_topic(queued, version, writes):
    context = cluster({"t-0": (1, 2)}, version=version)
    context = context.queue_topic_deletion(["t"]) if queued else context
    grown = {"t": answers.TopicContent({0: ReplicaAssignment((1, 2)), 1: ReplicaAssignment((2, 1))})}
    found = run(context, events.TopicDataChanged("t"), zookeeper_of(context, topics=grown))
    assert (found.leadership("t-1") is not None) is not queued
    assert len(found.of(e.WriteTopicAssignment)) == writes
    same = {"t": answers.TopicContent({0: ReplicaAssignment((1, 2))})}
    assert run(context, events.TopicDataChanged("t"), zookeeper_of(context, topics=same)).kinds() == [
        "ReadTopicAssignments"
    ]
    failed = zookeeper_of(context, failures={"ReadTopicAssignments": "x"})
    assert run(context, events.TopicDataChanged("t"), failed).refusals


@pytest.mark.parametrize(
    ("listed", "restored"),
    [
        pytest.param(["0", "1"], [0, 1], id="the new one goes"),
        pytest.param(["0"], [0], id="and an old one that was never created"),
        pytest.param(["0", "01"], [0], id="a znode of another name is no partition"),
        pytest.param([], [], id="all, where none was created"),
    ],
)
def test_a_topic_that_is_deleted_keeps_the_partitions_that_were_created(listed, restored):
    lists = {"t-0": (1, 2), "t-1": (2, 1)}
    context = cluster(lists, states={"t-0": led(1, (1, 2))})  # t-1 has no `state`: what counts is its own znode
    grown = {n: ReplicaAssignment(replicas) for n, replicas in enumerate([(3, 1), (2, 1), (1, 2)])}
    zookeeper = zookeeper_of(context, topics={"t": answers.TopicContent(grown)}, listed=tuple(listed))
    found = run(context.queue_topic_deletion(["t"]), events.TopicDataChanged("t"), zookeeper)
    (written,) = found.of(e.WriteTopicAssignment)
    assert written.assignments == tuple((n, ReplicaAssignment(lists[f"t-{n}"])) for n in restored)
    unreadable = replace(zookeeper, failures={"ListPartitions": "CONNECTIONLOSS"})
    kept = run(context.queue_topic_deletion(["t"]), events.TopicDataChanged("t"), unreadable)
    assert (kept.of(e.WriteTopicAssignment), kept.refusals[-1].subject) == ([], "/brokers/topics/t/partitions")


@pytest.mark.parametrize(
    ("version", "replicas"),
    [
        pytest.param("2.3", (3, 1), id="through 2.3 the replicas that were read"),
        pytest.param("2.4", (1, 2), id="since 2.4 those that the context knows"),
    ],
)
def test_the_replicas_of_a_partition_that_a_restored_topic_keeps(version, replicas):
    context = cluster({"t-0": (1, 2)}, version=version).queue_topic_deletion(["t"])
    edited = {"t": answers.TopicContent({0: ReplicaAssignment((3, 1)), 1: ReplicaAssignment((2, 1))})}
    found = run(context, events.TopicDataChanged("t"), zookeeper_of(context, topics=edited))
    assert found.of(e.WriteTopicAssignment)[0].assignments == ((0, ReplicaAssignment(replicas)),)
