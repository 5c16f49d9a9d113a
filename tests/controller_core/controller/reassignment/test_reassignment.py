"""Reassignments in both flows: every row that ZooKeeper passes through, cancelled, replaced, resumed, failing."""

from dataclasses import replace

import pytest
from immutables import Map

from controller_core.controller.reassignment.kip_455 import OnPartitionReassignment
from controller_core.messages import effects as e
from controller_core.messages import events
from controller_core.messages.answers import ReadProblem, TopicContent
from controller_core.model.partitions import BrokerId, ReplicaAssignment
from controller_core.model.refusals import RefusalKind
from tests.controller_core.clusters import broker, cluster, led, partition, perform, run, zookeeper_of

T0, T1 = partition("t-0"), partition("t-1")
SIX = (1, 2, 3, 4, 5, 6)


def requested(context, targets, **fields):
    zookeeper = zookeeper_of(context, targets={partition(p): target for p, target in targets.items()}, **fields)
    return run(context, events.ReassignmentRequested(), zookeeper), zookeeper


def caught_up(found, zookeeper, isr):
    state = zookeeper.states[T0]
    if found.context.dialect.isr_through_controller:
        change = events.IsrChange(T0, state.leader_epoch, state.partition_epoch, isr)
        return run(found.context, events.AlterPartition(state.leader, 1, (change,)), zookeeper)
    zookeeper.states[T0] = state._replace(isr=isr, partition_epoch=state.partition_epoch + 1)
    return run(found.context, events.PartitionStateChanged(T0), zookeeper)


@pytest.mark.parametrize("version", ["3.9", "2.6", "2.4", "2.3", "1.1", "0.10.2"])
def test_all_replicas_are_replaced(version):
    context = cluster({"t-0": (1, 2, 3)}, live=SIX, version=version)
    found, zookeeper = requested(context, {"t-0": (4, 5, 6)})
    assert set(found.context.assignment(T0)) == set(SIX)
    assert found.leadership("t-0").leader_epoch == 6
    assert found.context.partitions_under_reassignment() == [T0]
    assert zookeeper.targets is not None
    done = caught_up(found, zookeeper, (1, 2, 3, 4, 5, 6))
    assert done.context.full_assignment(T0) == ReplicaAssignment((4, 5, 6))
    assert (done.leadership("t-0").leader, set(done.leadership("t-0").isr)) == (4, {4, 5, 6})
    assert done.leadership("t-0").leader_epoch == 6 + 1 + 3
    assert done.context.partitions_under_reassignment() == []
    assert zookeeper.targets is None
    deleted = [s.broker for s in done.of(e.SendStopReplica) for row in s.partition_states if row.delete_partition]
    assert sorted(deleted) == [1, 2, 3]


@pytest.mark.parametrize("version", ["3.9", "2.4", "2.3"])
def test_a_leader_that_stays_gets_an_epoch(version):
    context = cluster({"t-0": (1, 2)}, version=version)
    found, zookeeper = requested(context, {"t-0": (1,)})
    assert found.leadership("t-0").leader == 1
    assert found.leadership("t-0").isr == (1,)
    assert zookeeper.targets is None
    assert found.leadership("t-0").leader_epoch == 7


@pytest.mark.parametrize(
    ("version", "epoch", "target"),
    [
        pytest.param("1.0", 6, (1, 3), id="through 1.0 what runs is left alone, whatever the node says now"),
        pytest.param("1.1", 7, (1, 4), id="from 1.1 only a new node is a request, and all of it is run"),
    ],
)
def test_a_request_node_that_grows(version, epoch, target):
    context = cluster({"t-0": (1, 2), "u-0": (1, 2)}, live=SIX, version=version)
    found, zookeeper = requested(context, {"t-0": (1, 3)})
    zookeeper.targets = {T0: (1, 4), partition("u-0"): (1, 3)}
    grown = run(found.context, events.ReassignmentRequested(), zookeeper)
    assert grown.leadership("t-0").leader_epoch == epoch
    assert dict(grown.context.reassignment_targets) == {T0: target, partition("u-0"): (1, 3)}
    assert set(grown.context.assignment(partition("u-0"))) == {1, 2, 3}


def test_through_1_0_the_controllers_own_rewrite_starts_nothing_again():
    context = cluster({"t-0": (1, 2), "u-0": (1, 2)}, live=SIX, version="1.0")
    found, zookeeper = requested(context, {"t-0": (1, 3), "u-0": (1, 3)})
    done = caught_up(found, zookeeper, (1, 2, 3))
    assert zookeeper.targets == {partition("u-0"): (1, 3)}
    heard = run(done.context, events.ReassignmentRequested(), zookeeper)
    assert heard.kinds() == ["ReadReassignmentRequests"]
    assert heard.context == done.context


@pytest.mark.parametrize("version", ["2.3", "1.0"])
def test_a_run_that_fails_keeps_its_request_when_another_completes(version):
    context = cluster({"t-0": (1, 2), "u-0": (1, 2)}, live=SIX, version=version)
    found, zookeeper = requested(context, {"t-0": (1, 3), "u-0": (1, 3)})
    zookeeper.failures["WriteTopicAssignment"] = "NOAUTH"
    failed = caught_up(found, zookeeper, (1, 2, 3))
    assert any("topic znode not written" in refusal.reason for refusal in failed.refusals)
    del zookeeper.failures["WriteTopicAssignment"]
    other = partition("u-0")
    state = zookeeper.states[other]
    zookeeper.states[other] = state._replace(isr=(1, 2, 3), partition_epoch=state.partition_epoch + 1)
    done = run(failed.context, events.PartitionStateChanged(other), zookeeper)
    assert zookeeper.targets == {T0: (1, 3)}
    assert done.context.partitions_under_reassignment() == [T0]


@pytest.mark.parametrize("version", ["3.9", "2.3"])
def test_other_requests_stay_in_the_node(version):
    context = cluster({"t-0": (1, 2), "u-0": (1, 2)}, live=SIX, version=version)
    found, zookeeper = requested(context, {"t-0": (1,), "u-0": (4, 5)})
    assert zookeeper.targets == {partition("u-0"): (4, 5)}
    assert found.context.partitions_under_reassignment() == [partition("u-0")]


@pytest.mark.parametrize("version", ["3.9", "2.3"])
@pytest.mark.parametrize(
    ("target", "queued", "name", "error"),
    [
        ((), False, "t-0", "INVALID_REPLICA_ASSIGNMENT"),
        ((2,), False, "ghost-0", "UNKNOWN_TOPIC_OR_PARTITION"),
        ((2,), True, "t-0", "UNKNOWN_TOPIC_OR_PARTITION"),
    ],
)
def test_requests_that_cannot_be_done_leave_the_node(version, target, queued, name, error):
    context = cluster({"t-0": (1, 2)}, version=version)
    context = context.queue_topic_deletion(["t"]) if queued else context
    found, zookeeper = requested(context, {name: target})
    assert zookeeper.targets is None
    assert [refusal.error for refusal in found.refusals] == [error]
    if not target:
        assert "every replica is deleted" in found.refusals[0].kafka


@pytest.mark.parametrize("version", ["3.9", "2.3"])
def test_a_request_node_that_is_no_request(version):
    context = cluster({"t-0": (1, 2)}, version=version)
    found, _ = requested(context, {}, failures={"reassignment json": "no JSON"})
    assert found.refusals[0].kind is RefusalKind.INVALID_REQUEST
    nobody = run(context, events.ReassignmentRequested(), zookeeper_of(context))
    assert nobody.effects == nobody.of(e.ReadReassignmentRequests)


def test_through_2_3_a_request_for_what_is_there_is_dropped():
    context = cluster({"t-0": (1, 2)}, version="2.3")
    found, zookeeper = requested(context, {"t-0": (1, 2)})
    assert zookeeper.targets is None
    assert not found.refusals


@pytest.mark.parametrize("version", ["3.9", "2.3"])
@pytest.mark.parametrize(
    ("failures", "problem"),
    [
        ({"WriteTopicAssignment": "NONODE"}, "topic znode not written"),
        ({"WritePartitionStates": "NOAUTH"}, "state znode not written"),
        ({"ReadPartitionStates": "NOAUTH"}, "state znode not usable"),
    ],
)
def test_an_error_ends_the_run_of_its_partition(version, failures, problem):
    context = cluster({"t-0": (1, 2)}, live=SIX, version=version)
    found, zookeeper = requested(context, {"t-0": (4, 5)}, failures=failures)
    assert any(problem in refusal.reason for refusal in found.refusals)
    assert zookeeper.targets is None
    assert not found.of(e.SendStopReplica)


def test_a_lost_race_for_the_epoch_is_run_again():
    context = cluster({"t-0": (1, 2)}, live=SIX)
    found, _ = requested(context, {"t-0": (1, 4)}, lost_races={T0: 2})
    assert found.leadership("t-0").leader_epoch == 6


def test_a_partition_without_leadership_cannot_complete():
    context = cluster({"t-0": (1, 2)}, states={})
    found = perform(context, OnPartitionReassignment(T0, ReplicaAssignment((2, 1))))
    assert any("no leadership" in refusal.reason for refusal in found.refusals)


def test_a_dead_target_leader_is_replaced():
    context = cluster({"t-0": (1, 2)}, live=(2, 3), states={"t-0": led(1, (1, 2))}, version="3.9")
    found = perform(context, OnPartitionReassignment(T0, ReplicaAssignment((1, 2))))
    assert found.leadership("t-0").leader == 2


@pytest.mark.parametrize(
    ("target", "error"),
    [
        ((1, 4), ""),
        ((), "INVALID_REPLICA_ASSIGNMENT"),
        ((1, 1), "INVALID_REPLICA_ASSIGNMENT"),
        ((-1, 1), "INVALID_REPLICA_ASSIGNMENT"),
        ((1, 9), "INVALID_REPLICA_ASSIGNMENT"),
        (None, "NO_REASSIGNMENT_IN_PROGRESS"),
    ],
)
def test_a_client_asks_for_a_reassignment(target, error):
    context = cluster({"t-0": (1, 2)}, live=SIX)
    found = run(context, events.AlterReassignments(((T0, target),)))
    assert dict(found.of(e.ReplyReassignments)[0].errors) == {T0: error}


@pytest.mark.parametrize(
    ("requested", "kind"),
    [
        pytest.param({T1: (2, 1)}, e.WriteReassignmentRequests, id="a request for another partition stays"),
        pytest.param({}, e.DeleteReassignmentRequests, id="an empty request goes"),
        pytest.param(None, None, id="no request"),
    ],
)
def test_a_refused_client_has_the_request_node_written_all_the_same(requested, kind):
    context = cluster({"t-0": (1, 2), "t-1": (1, 2)}, live=SIX)
    found = run(context, events.AlterReassignments(((T0, ()),)), zookeeper_of(context, targets=requested))
    written = [effect for effect in found.effects if isinstance(effect, e.WriteEffect)]
    assert [type(effect) for effect in written] == ([kind] if kind else [])


@pytest.mark.parametrize(
    ("event", "kafka"),
    [
        pytest.param(events.ControllerVanished(), "ends the failover: the controller resigns", id="failover"),
        pytest.param(events.BrokersChanged(), "ends what a started broker sets off", id="a target broker starts"),
    ],
)
def test_a_resumed_reassignment_of_what_never_had_a_leader_says_what_kafka_does(event, kafka):
    context = cluster({"t-0": (4, 5), "t-1": (1, 2)}, states={"t-1": led(1, (1, 2))}, live=(1, 2))
    lost = ReplicaAssignment((BrokerId(6), BrokerId(4), BrokerId(5)), (BrokerId(6),), (BrokerId(4), BrokerId(5)))
    context = context.with_entry(T0, assignment=lost)
    context = replace(context, partitions_being_reassigned=context.partitions_being_reassigned.set(T0, None))
    zookeeper = zookeeper_of(context, problems={T0: ReadProblem("NONODE")})
    if isinstance(event, events.BrokersChanged):
        zookeeper.brokers = (broker(1), broker(2), broker(6))
    else:
        zookeeper.controller = None
        zookeeper.topics = {"t": TopicContent({0: lost, 1: ReplicaAssignment((1, 2))})}
    found = run(context, event, zookeeper)
    (refusal,) = [each for each in found.refusals if each.reason.startswith("reassignment stopped")]
    assert (refusal.subject, kafka in refusal.kafka) == (T0, True)
    assert found.context.is_active


def test_a_client_asks_for_an_unknown_partition():
    context = cluster({"t-0": (1, 2)}, live=SIX)
    found = run(context, events.AlterReassignments(((partition("ghost-0"), (1,)),)))
    assert dict(found.of(e.ReplyReassignments)[0].errors) == {partition("ghost-0"): "UNKNOWN_TOPIC_OR_PARTITION"}


@pytest.mark.parametrize(
    ("asked", "listed"),
    [
        pytest.param(None, [T0], id="of all"),
        pytest.param((partition("t-1"), T0, partition("ghost-0")), [T0], id="of some"),
        pytest.param((partition("t-1"),), [], id="of one that stays"),
    ],
)
def test_a_client_hears_which_reassignments_run(asked, listed):
    context = cluster({"t-0": (1, 2), "t-1": (1, 2)})
    moving = ReplicaAssignment((BrokerId(1), BrokerId(2)), removing=(BrokerId(2),))
    context = context.with_entry(T0, assignment=moving)
    context = replace(context, partitions_being_reassigned=context.partitions_being_reassigned.set(T0, None))
    (reply,) = run(context, events.ListReassignments(asked)).effects
    assert reply.listed == tuple((each, moving) for each in listed)


def test_a_run_that_fails_is_answered_as_such():
    context = cluster({"t-0": (1, 2)}, live=SIX)
    zookeeper = zookeeper_of(context, failures={"WriteTopicAssignment": "NONODE"})
    found = run(context, events.AlterReassignments(((T0, (1, 4)),)), zookeeper)
    assert dict(found.of(e.ReplyReassignments)[0].errors) == {T0: "UNKNOWN_SERVER_ERROR"}


def test_a_cancelled_reassignment_stops_the_new_replicas():
    context = cluster({"t-0": (1, 2, 3)}, live=SIX)
    found, zookeeper = requested(context, {"t-0": (4, 5, 6)})
    done = run(found.context, events.AlterReassignments(((T0, None),)), zookeeper)
    assert done.context.full_assignment(T0) == ReplicaAssignment((1, 2, 3))
    assert done.context.partitions_under_reassignment() == []
    stopped = {s.broker for s in done.of(e.SendStopReplica) for row in s.partition_states if row.delete_partition}
    assert stopped == {4, 5, 6}
    assert dict(done.of(e.ReplyReassignments)[0].errors) == {T0: ""}


def test_a_second_request_supplants_the_first():
    context = cluster({"t-0": (1, 2)}, live=SIX)
    found, zookeeper = requested(context, {"t-0": (3, 4)})
    again = run(found.context, events.AlterReassignments(((T0, (5, 2)),)), zookeeper)
    assert again.context.full_assignment(T0) == ReplicaAssignment((5, 2, 1), (5,), (1,))
    assert zookeeper.targets is None


@pytest.mark.parametrize("version", ["3.9", "2.3"])
def test_a_target_that_comes_back_resumes(version):
    context = cluster({"t-0": (1, 2)}, live=(1, 2), version=version)
    found, zookeeper = requested(context, {"t-0": (1, 3)})
    zookeeper.brokers = (broker(1), broker(2), broker(3))
    back = run(found.context, events.BrokersChanged(), zookeeper)
    assert back.leadership("t-0").leader_epoch == 7
    assert 3 in {effect.broker for effect in back.of(e.SendLeaderAndIsr)}


@pytest.mark.parametrize("version", ["3.9", "2.3"])
def test_an_isr_that_does_not_hold_the_target_yet_waits(version):
    context = cluster({"t-0": (1, 2)}, live=SIX, version=version, ibp=None if version == "2.3" else "2.6")
    found, zookeeper = requested(context, {"t-0": (4, 5)})
    waiting = run(found.context, events.PartitionStateChanged(T0), zookeeper)
    assert waiting.kinds() == ["ReadPartitionStates"]
    assert run(found.context, events.PartitionStateChanged(partition("x-0")), zookeeper).effects == []


def test_a_reassignment_that_needs_nothing_completes_on_the_next_notice():
    context = cluster({"t-0": (1, 2)}, live=SIX, partitions_being_reassigned=Map({T0: None}))
    found = run(context, events.PartitionStateChanged(T0))
    assert found.context.partitions_under_reassignment() == []


def test_a_reassignment_stands_against_a_deletion_until_it_is_done():
    context = cluster({"t-0": (1, 2)}, live=SIX, partitions_being_reassigned=Map({T0: None}))
    moving = context.with_entry(T0, assignment=ReplicaAssignment((3, 1, 2), (3,), (2,)))
    moving = replace(moving.queue_topic_deletion(["t"]), topics_ineligible_for_deletion=frozenset({"t"}))
    zookeeper = zookeeper_of(moving, states={T0: led(1, (1, 2, 3))})
    found = run(moving, events.PartitionStateChanged(T0), zookeeper)
    assert found.context.topics_with_deletion_started == {"t"}
    assert BrokerId(2) not in found.context.assignment(T0)
