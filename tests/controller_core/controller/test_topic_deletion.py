"""Deletions that run, wait, fail, or may not begin; each row is a sentence."""

from dataclasses import replace

import pytest
from immutables import Map

from controller_core.controller.brokers import OnBrokerStartup
from controller_core.controller.topic_deletion import IneligibilityKind, TryTopicDeletion, deletion_eligibility
from controller_core.messages import effects as e
from controller_core.messages import events
from controller_core.messages.answers import ReadProblem
from controller_core.model.partitions import BrokerId
from controller_core.model.states import PartitionState, ReplicaState
from tests.controller_core.clusters import T0, broker, cluster, led, perform, replica, run, zookeeper_of


def answered(context, broker_id, error="NONE", general="NONE"):
    started = {p: error for p in context.partitions_for_topic("t") if broker_id in context.assignment(p)}
    return events.StopReplicaAnswered(BrokerId(broker_id), general, started)


@pytest.mark.parametrize("version", ["3.9", "2.8", "2.0", "1.0", "0.10.2"])
def test_a_deletion_runs_to_its_end(version):
    context = cluster({"t-0": (1, 2), "u-0": (1, 2)}, version=version)
    context = replace(context, config=replace(context.config, delete_topic=True))
    zookeeper = zookeeper_of(context, deletions=("t", "ghost"))
    found = run(context, events.DeletionsChanged(), zookeeper)
    assert found.of(e.DeleteTopicDeletions)[0].topics == ("ghost",)
    for number in (1, 2):
        found = run(found.context, answered(found.context, number), zookeeper)
    assert "t" not in found.context.topics
    names = ["DeleteTopicNode", "DeleteTopicConfig", "DeleteTopicDeletions"]
    assert [name for name in found.kinds() if name in names] == names
    assert found.context.entry(T0).state is PartitionState.NON_EXISTENT
    assert not found.context.topics_to_be_deleted
    assert found.leadership("u-0") is not None


@pytest.mark.parametrize(
    ("version", "topics"),
    [
        pytest.param("2.4", [{"t"}, {"u"}], id="through 2.4 one topic after the other"),
        pytest.param("2.5", [{"t", "u"}], id="since 2.5 all in one call"),
        pytest.param("2.8", [{"t", "u"}], id="so in 2.8"),
    ],
)
def test_topics_that_are_deleted_together_are_stopped_in_one_call(version, topics):
    context = cluster({"t-0": (1, 2), "u-0": (1, 2)}, version=version)
    found = run(context, events.DeletionsChanged(), zookeeper_of(context, deletions=("t", "u")))
    rows = [request.partition_states for request in found.of(e.SendStopReplica) if request.broker == 1]
    assert [{row.partition.topic for row in each} for each in rows if each[0].delete_partition] == topics


@pytest.mark.parametrize("version", ["3.9", "2.8", "2.2"])
def test_a_deletion_waits_for_a_dead_broker(version):
    context = cluster({"t-0": (1, 2, 3)}, live=(1, 2), version=version)
    zookeeper = zookeeper_of(context, deletions=("t",))
    found = run(context, events.DeletionsChanged(), zookeeper)
    for number in (1, 2):
        found = run(found.context, answered(found.context, number), zookeeper)
    assert found.context.topics_ineligible_for_deletion == {"t"}
    back = found.context.with_brokers([broker(3)])
    found = perform(back, OnBrokerStartup((BrokerId(3),)), zookeeper=zookeeper)
    assert found.context.replica_state(replica("t-0-3")) is ReplicaState.DELETION_STARTED
    found = run(found.context, answered(found.context, 3), zookeeper)
    assert "t" not in found.context.topics


def test_a_broker_refuses_to_delete_and_is_asked_again():
    context = cluster({"t-0": (1, 2)})
    zookeeper = zookeeper_of(context, deletions=("t",))
    found = run(context, events.DeletionsChanged(), zookeeper)
    found = run(found.context, answered(found.context, 1, general="STALE_BROKER_EPOCH"), zookeeper)
    assert found.context.topics_ineligible_for_deletion == {"t"}
    found = run(found.context, answered(found.context, 2), zookeeper)
    assert found.context.replica_state(replica("t-0-1")) is ReplicaState.OFFLINE


def test_deletions_are_resumed_once_where_a_broker_deleted_nothing():
    """A replica that cannot be retried, its state znode being gone, is told to stop once and not again."""
    context = cluster({"t-0": (1, 2)})
    found = run(context, events.DeletionsChanged(), zookeeper_of(context, deletions=("t",)))
    zookeeper = zookeeper_of(context, problems={T0: ReadProblem("NONODE", "")})
    for number in (1, 2):
        found = run(found.context, answered(found.context, number, error="KAFKA_STORAGE_ERROR"), zookeeper)
    assert [(told.broker, told.partition_states[0].delete_partition) for told in found.of(e.SendStopReplica)] == [
        (1, False),
        (2, False),
    ]


def test_a_broker_dies_in_the_middle_of_a_deletion():
    context = cluster({"t-0": (1, 2)})
    zookeeper = zookeeper_of(context, deletions=("t",))
    found = run(context, events.DeletionsChanged(), zookeeper)
    zookeeper.brokers = (broker(1), broker(3))
    found = run(found.context, events.BrokersChanged(), zookeeper)
    assert found.context.replica_state(replica("t-0-2")) is ReplicaState.DELETION_INELIGIBLE
    assert "t" in found.context.topics_ineligible_for_deletion


@pytest.mark.parametrize("failing", ["DeleteTopicNode", "DeleteTopicConfig", "DeleteTopicDeletions"])
def test_a_topic_that_cannot_be_deleted_stays_queued(failing):
    context = cluster({"t-0": (1,)}).queue_topic_deletion(["t"])
    context = context.with_entry(T0, replica_states=((BrokerId(1), ReplicaState.DELETION_SUCCESSFUL),))
    found = perform(context, TryTopicDeletion(), zookeeper=zookeeper_of(context, failures={failing: "NOTEMPTY"}))
    assert found.context.topics_to_be_deleted == {"t"}
    assert "the topic stays queued" in found.refusals[0].reason


def test_deletion_disabled_drops_the_requests():
    context = cluster({"t-0": (1, 2)})
    context = replace(context, config=replace(context.config, delete_topic=False))
    zookeeper = zookeeper_of(context, deletions=("t",))
    found = run(context, events.DeletionsChanged(), zookeeper)
    assert found.of(e.DeleteTopicDeletions)[0].topics == ("t",)
    assert not found.context.topics_to_be_deleted
    assert [r.kind for r in deletion_eligibility(context, "t").reasons] == [IneligibilityKind.DELETION_DISABLED]
    assert perform(context, TryTopicDeletion()).effects == []
    failed = zookeeper_of(context, deletions=("t",), failures={"DeleteTopicDeletions": "NOAUTH"})
    assert "NOAUTH" in run(context, events.DeletionsChanged(), failed).refusals[0].reason
    unread = zookeeper_of(context, failures={"ReadDeletionRequests": "NOAUTH"})
    assert run(context, events.DeletionsChanged(), unread).refusals


@pytest.mark.parametrize(
    ("fields", "requested", "kinds"),
    [
        ({}, False, ["dead replica"]),
        ({}, True, []),
        ({"reassignment_targets": Map({T0: (2, 3)})}, False, ["dead replica", "partition being reassigned"]),
        ({"partitions_in_preferred_election": frozenset({T0})}, True, ["preferred-replica election running"]),
    ],
)
def test_eligibility_names_every_reason(fields, requested, kinds):
    context = cluster({"t-0": (1, 3)}, live=(1, 2), version="0.10.2", **fields)
    context = replace(context, config=replace(context.config, delete_topic=True))
    found = deletion_eligibility(context, "t", when_requested=requested)
    assert [reason.kind.value for reason in found.reasons] == kinds
    assert found.eligible is not kinds or not kinds
    assert deletion_eligibility(context, "ghost").reasons[0].kind is IneligibilityKind.UNKNOWN_TOPIC


@pytest.mark.parametrize(
    ("version", "kinds"),
    [
        pytest.param("1.1", [IneligibilityKind.NEVER_LED], id="the deletion would never end"),
        pytest.param("2.0", [], id="KAFKA-6650 is mended"),
    ],
)
def test_a_partition_that_never_had_a_leader_keeps_its_topic(version, kinds):
    context = cluster({"t-0": (1, 2), "t-1": (1, 2)}, states={"t-1": led(1, (1, 2))}, version=version)
    found = deletion_eligibility(context, "t")
    assert [reason.kind for reason in found.reasons] == kinds
    assert found.eligible is not kinds or not kinds


@pytest.mark.parametrize("topic", ["t", "unknown"])
def test_a_topic_that_cannot_be_read_is_not_judged(topic):
    (reason,) = deletion_eligibility(cluster({"t-0": (1, 9)}), topic, unreadable="/brokers/topics/t: no JSON").reasons
    assert reason.kind is IneligibilityKind.UNREADABLE
    assert "/brokers/topics/t: no JSON" in reason.text


@pytest.mark.parametrize(
    ("queued", "leader", "said"),
    [
        pytest.param(
            False, 1, "a running controller deletes its replicas on brokers [1] all the same", id="not asked yet"
        ),
        pytest.param(
            True, 1, "the deletion waits for that, and nothing of the partition is deleted yet", id="not begun"
        ),
        pytest.param(True, -1, "its replicas on brokers [1] are deleted already, or nobody can read them", id="begun"),
    ],
)
def test_what_waits_says_what_is_gone(queued, leader, said):
    context = cluster({"t-0": (1, 3)}, live=(1, 2), states={"t-0": led(leader, (1,))})
    context = replace(context, reassignment_targets=Map({T0: (2, 1)}))
    context = context.queue_topic_deletion(["t"] if queued else [])
    dead, moving = deletion_eligibility(context, "t").reasons
    assert dead.text == f"t-0 has replicas on brokers [3], which are down or lost the log directory; {said}"
    assert moving.text == f"t-0 is being reassigned; {said}"


def test_a_deletion_that_a_reassignment_stands_against():
    context = cluster({"t-0": (1, 2)}, version="0.10.2", partitions_in_preferred_election=frozenset({T0}))
    context = replace(context, config=replace(context.config, delete_topic=True))
    found = run(context, events.DeletionsChanged(), zookeeper_of(context, deletions=("t",)))
    assert found.context.replica_state(replica("t-0-1")) is ReplicaState.DELETION_STARTED  # the mark comes too early
