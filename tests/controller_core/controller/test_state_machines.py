"""Both state machines where ZooKeeper disagrees: lost races, bad states, failed writes; each row is a sentence."""

import pytest

from controller_core.controller.brokers import OnBrokerFailure
from controller_core.controller.partition_state_machine import ChangePartitionStates, StartPartitionMachine
from controller_core.controller.replica_state_machine import ChangeReplicaStates, StartReplicaMachine
from controller_core.engine.batch import BatchFault
from controller_core.messages import answers, events
from controller_core.messages import effects as e
from controller_core.model.partitions import BrokerId
from controller_core.model.refusals import RefusalKind
from controller_core.model.states import PartitionState, ReplicaState
from tests.controller_core.clusters import T0, cluster, led, partition, perform, replica, run, zookeeper_of


def test_a_lost_race_is_run_again():
    context = cluster({"t-0": (1, 2, 3)}).without_brokers([BrokerId(1)])
    zookeeper = zookeeper_of(context, lost_races={T0: 2})
    found = perform(context, OnBrokerFailure((BrokerId(1),)), zookeeper=zookeeper)
    assert found.leadership("t-0").leader == 2
    assert found.kinds().count("ReadPartitionStates") == 4
    shrink = cluster({"t-0": (1, 2, 3)})
    racing = zookeeper_of(shrink, lost_races={T0: 1})
    after = perform(shrink, ChangeReplicaStates((replica("t-0-3"),), ReplicaState.OFFLINE), zookeeper=racing)
    assert after.leadership("t-0").isr == (1, 2)


@pytest.mark.parametrize(
    ("failures", "problems", "reason"),
    [
        ({"ReadPartitionStates": "CONNECTIONLOSS"}, {}, "CONNECTIONLOSS"),
        ({"WritePartitionStates": "CONNECTIONLOSS"}, {}, "CONNECTIONLOSS"),
        ({}, {T0: answers.ReadProblem("NOAUTH")}, "NOAUTH"),
        ({}, {T0: answers.ReadProblem("MALFORMED", "{}", ends_kafkas_call=True)}, "MALFORMED: {}"),
    ],
)
def test_a_partition_fails_alone(failures, problems, reason):
    context = cluster({"t-0": (1, 2), "u-0": (1, 2)}).without_brokers([BrokerId(1)])
    zookeeper = zookeeper_of(context, failures=failures, problems=problems)
    found = perform(context, OnBrokerFailure((BrokerId(1),)), zookeeper=zookeeper)
    failed = [refusal for refusal in found.refusals if refusal.kind is RefusalKind.FAILED_TRANSITION]
    assert any(reason in refusal.reason for refusal in failed)
    if problems:
        assert found.leadership("u-0").leader == 2
    if problems and problems[T0].ends_kafkas_call:
        assert "no partition of the call is elected" in failed[0].kafka
        assert any("every later call of the replica state machine fails" in refusal.kafka for refusal in failed)


def test_a_state_of_a_later_controller_is_not_ours():
    context = cluster({"t-0": (1, 2)}).without_brokers([BrokerId(1)])
    zookeeper = zookeeper_of(context, states={T0: led(1, (1, 2), controller_epoch=4)})
    found = perform(context, OnBrokerFailure((BrokerId(1),)), zookeeper=zookeeper)
    assert "written by a controller of epoch 4" in found.refusals[0].reason


def test_creations_that_fail():
    context = cluster({"t-0": (1, 2), "t-1": (3,)}, states={}, live=(1, 2))
    zookeeper = zookeeper_of(context, failures={"CreatePartitionStates": "CONNECTIONLOSS"})
    found = perform(context, ChangePartitionStates((T0, partition("t-1")), PartitionState.ONLINE), zookeeper=zookeeper)
    assert sorted(str(refusal.subject) for refusal in found.refusals) == ["t-0", "t-1"]
    assert found.context.partition_state(T0) is PartitionState.NEW
    there = zookeeper_of(context, states={T0: led(1, (1,))})
    taken = perform(context, ChangePartitionStates((T0,), PartitionState.ONLINE), zookeeper=there)
    assert "NODEEXISTS" in taken.refusals[0].reason


@pytest.mark.parametrize("fault", list(BatchFault))
def test_a_broken_batch_is_refused(fault):
    context = cluster({"t-0": (1, 2)})
    change = ChangePartitionStates((T0,), PartitionState.OFFLINE)
    found = perform(context, change, ChangeReplicaStates((replica("t-0-2"),), ReplicaState.ONLINE), batch_fault=fault)
    assert {refusal.kind for refusal in found.refusals} == {RefusalKind.BROKEN_BATCH}
    assert not found.of(e.SendLeaderAndIsr)
    down = run(context, events.ControlledShutdown(BrokerId(2)), batch_fault=fault)
    assert RefusalKind.BROKEN_BATCH in {refusal.kind for refusal in down.refusals}


def test_the_last_replica_of_a_led_partition_is_isolated():
    context = cluster({"t-0": (1,)})
    context = context.with_entry(T0, replica_states=((BrokerId(1), ReplicaState.DELETION_SUCCESSFUL),))
    found = perform(context, ChangeReplicaStates((replica("t-0-1"),), ReplicaState.NON_EXISTENT))
    assert "raises in the imbalance counter" in found.refusals[0].kafka


def test_a_leader_cannot_be_a_new_replica():
    context = cluster({"t-0": (1, 2)}).with_entry(T0, replica_states=())
    found = perform(context, ChangeReplicaStates((replica("t-0-1"), replica("t-0-2")), ReplicaState.NEW))
    assert [str(refusal.subject) for refusal in found.refusals] == ["t-0-1"]
    assert found.of(e.SendLeaderAndIsr)[0].partition_states[0].is_new


def test_a_new_replica_outside_the_assignment_joins_it():
    context = cluster({"t-0": (1,)}).with_entry(T0, replica_states=((BrokerId(2), ReplicaState.NEW),))
    found = perform(context, ChangeReplicaStates((replica("t-0-2"),), ReplicaState.ONLINE))
    assert found.context.assignment(T0) == (1, 2)


@pytest.mark.parametrize(
    ("version", "queued", "state", "refused"),
    [
        ("3.9", False, "OFFLINE", 0),
        ("1.1", False, "ONLINE", 0),
        ("1.0", False, "ONLINE", 1),
        ("1.0", True, "ONLINE", 0),
    ],
)
def test_a_replica_of_a_leaderless_partition(version, queued, state, refused):
    context = cluster({"t-0": (1, 2)}, states={}, version=version)
    if queued:
        context = context.queue_topic_deletion(["t"])
    found = perform(context, ChangeReplicaStates((replica("t-0-2"),), ReplicaState.OFFLINE))
    assert found.context.replica_state(replica("t-0-2")).name == state
    assert len(found.refusals) == refused


@pytest.mark.parametrize(("unclean", "isr"), [("true", ()), ("false", (1,))])
def test_through_1_0_the_last_isr_member_may_leave(unclean, isr):
    context = cluster({"t-0": (1, 2)}, states={"t-0": led(1, (1,))}, version="1.0")
    zookeeper = zookeeper_of(context, configs={"t": {"unclean.leader.election.enable": unclean}})
    found = perform(context, ChangeReplicaStates((replica("t-0-1"),), ReplicaState.OFFLINE), zookeeper=zookeeper)
    assert found.leadership("t-0").isr == isr


def test_through_1_0_a_needless_preferred_election_ends_online():
    context = cluster({"t-0": (1, 2)}, version="1.0").with_entry(T0, state=PartitionState.OFFLINE)
    zookeeper = zookeeper_of(context, elections=(T0,))
    found = run(context, events.PreferredElectionRequested(), zookeeper)
    assert found.context.partition_state(T0) is PartitionState.ONLINE
    assert not found.of(e.WritePartitionStates)
    assert perform(context, ChangePartitionStates((), PartitionState.ONLINE)).steps[0].batches


def test_an_unreadable_config_fails_only_its_partitions():
    context = cluster({"t-0": (1, 2)}, live=(2,), states={"t-0": led(1, (1,))})
    zookeeper = zookeeper_of(context, failures={"ReadTopicConfigs": "NOAUTH"})
    found = run(context, events.UncleanElectionEnabled(), zookeeper)
    assert "config of topic 't' not read" in found.refusals[0].reason
    allowed = zookeeper_of(context, configs={"t": {"unclean.leader.election.enable": "true"}})
    assert run(context, events.UncleanElectionEnabled("t"), allowed).context.unclean_election_count == 1


def test_an_unreadable_config_is_reported_though_another_controller_is_active_by_the_write():
    context = cluster({"t-0": (1, 2), "u-0": (1, 2)}, live=(2,), states={"t-0": led(1, (1,)), "u-0": led(1, (1, 2))})
    failures = {"ReadTopicConfigs": "NOAUTH", "WritePartitionStates": "CONTROLLER_MOVED"}
    found = run(context, events.UncleanElectionEnabled(), zookeeper_of(context, failures=failures))
    assert [(str(refusal.subject), refusal.error or "") for refusal in found.refusals][:2] == [
        ("t-0", ""),
        ("controller", "ControllerMoved"),
    ]


def test_machines_that_start_again_keep_what_is_so_already():
    context = cluster({"t-0": (1, 2), "u-0": (2, 3)})
    found = perform(context, StartReplicaMachine(), StartPartitionMachine())
    assert found.context.partitions == context.partitions
    assert {row.partition for each in found.of(e.SendLeaderAndIsr) for row in each.partition_states} == {
        T0,
        partition("u-0"),
    }
