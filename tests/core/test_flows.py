"""Brokers, topics, deletions, leaders and ISR changes, on small clusters; each row is a sentence."""

from dataclasses import replace

import pytest
from immutables import Map

from controller_core import commands as c
from controller_core import effects as e
from controller_core.brokers import OnBrokerFailure, OnBrokerStartup
from controller_core.leaders import RebalanceLeaders
from controller_core.model import BrokerId, LeaderRecoveryState, PartitionAndReplica, ReplicaAssignment
from controller_core.partition_machine import ChangePartitionStates
from controller_core.pending import BatchFault
from controller_core.rebalance import (
    DEAD,
    ELECTION_RUNNING,
    NOT_IN_ISR,
    REASSIGNMENT_RUNNING,
    TOPIC_UNKNOWN,
    leader_imbalance,
)
from controller_core.refusals import RefusalKind
from controller_core.replica_machine import ChangeReplicaStates
from controller_core.states import PartitionState, ReplicaState
from controller_core.topic_deletion import IneligibilityKind, TryTopicDeletion, deletion_eligibility
from tests.core.clusters import ZooKeeper, broker, cluster, led, partition, perform, run

T0 = partition("t-0")


def replica(text):
    name, _, number = text.rpartition("-")
    return PartitionAndReplica(partition(name), BrokerId(int(number)))


# ---- brokers


def test_a_dead_leader_is_replaced_and_leaves_the_isr():
    context = cluster({"t-0": (1, 2, 3), "t-1": (2, 3, 1)})
    found = run(context, c.BrokersChanged(), ZooKeeper(context, brokers=(broker(2), broker(3))))
    assert found.leadership("t-0").leader == 2
    assert found.leadership("t-0").isr == (2, 3)
    assert found.leadership("t-1").isr == (2, 3)
    assert found.context.live_broker_ids == (2, 3)
    assert found.of(e.CloseChannels)[0].brokers == (1,)


def test_a_new_broker_hears_of_everything_and_of_what_it_hosts():
    context = cluster({"t-0": (1, 2, 3)}, live=(1, 2), states={"t-0": led(1, (1, 2))})
    found = run(context, c.BrokersChanged(), ZooKeeper(context, brokers=(broker(1), broker(2), broker(3))))
    assert [effect.broker for effect in found.of(e.SendLeaderAndIsr)] == [3]
    assert found.context.replica_state(replica("t-0-3")) is ReplicaState.ONLINE
    assert found.of(e.OpenChannels)[0].brokers == (broker(3),)


@pytest.mark.parametrize(("version", "epoch"), [("3.9", 6), ("2.1", 5)])
def test_a_bounced_broker_fails_and_starts_where_epochs_tell(version, epoch):
    context = cluster({"t-0": (1, 2, 3)}, version=version)
    back = (broker(1, epoch=9), broker(2), broker(3))
    found = run(context, c.BrokersChanged(), ZooKeeper(context, brokers=back))
    assert found.leadership("t-0").leader_epoch == epoch
    assert (found.leadership("t-0").leader == 2) is (version == "3.9")


def test_brokers_that_cannot_be_read_change_nothing():
    context = cluster({"t-0": (1, 2)})
    found = run(context, c.BrokersChanged(), ZooKeeper(context, failures={"ReadBrokers": "CONNECTIONLOSS"}))
    assert found.context == replace(context, results=found.context.results)
    assert "not read" in found.refusals[0].reason


@pytest.mark.parametrize(
    ("after", "told"),
    [
        pytest.param(broker(2)._replace(endpoints=broker(9).endpoints), True, id="other endpoints"),
        pytest.param(broker(2)._replace(rack="r9"), False, id="another rack alone"),
        pytest.param(broker(7), False, id="gone"),
    ],
)
def test_a_broker_changes_its_data(after, told):
    context = cluster({"t-0": (1, 2)})
    found = run(context, c.BrokerDataChanged(BrokerId(2)), ZooKeeper(context, brokers=(broker(1), after)))
    assert bool(found.of(e.SendUpdateMetadata)) is told
    failed = ZooKeeper(context, failures={"ReadBrokers": "x"})
    assert not run(context, c.BrokerDataChanged(BrokerId(2)), failed).of(e.SendUpdateMetadata)


@pytest.mark.parametrize("version", ["3.9", "3.0", "2.1", "1.0"])
def test_a_death_that_concerns_no_partition_is_told(version):
    context = cluster({"t-0": (1, 2)}, version=version).without_brokers([BrokerId(3)])
    found = perform(context, OnBrokerFailure((BrokerId(3),)))
    assert {effect.broker for effect in found.of(e.SendUpdateMetadata)} == {1, 2}


def test_a_failed_log_directory_is_found_by_probing():
    context = cluster({"t-0": (1, 2)})
    zookeeper = ZooKeeper(context, log_dir_events={"log_dir_event_1": 1})
    probed = run(context, c.LogDirEventsChanged(), zookeeper)
    assert probed.of(e.DeleteLogDirEvents)[0].names == ("log_dir_event_1",)
    assert [effect.broker for effect in probed.of(e.SendLeaderAndIsr)] == [1]
    answer = c.LeaderAndIsrAnswered(BrokerId(1), "NONE", {T0: "KAFKA_STORAGE_ERROR"})
    found = run(probed.context, answer, ZooKeeper(probed.context))
    assert found.leadership("t-0").leader == 2
    assert not found.context.is_replica_online(BrokerId(1), T0)
    healed = run(found.context, c.LeaderAndIsrAnswered(BrokerId(1), "NONE", {T0: "NONE"}))
    assert healed.context.is_replica_online(BrokerId(1), T0)
    assert run(healed.context, c.LeaderAndIsrAnswered(BrokerId(1), "STALE", {T0: "NONE"})).context == healed.context


def test_no_log_dir_event_no_work():
    context = cluster({"t-0": (1, 2)})
    assert run(context, c.LogDirEventsChanged(), ZooKeeper(context)).kinds() == ["ListLogDirEvents"]
    assert run(context, c.LeaderAndIsrAnswered(BrokerId(1), "NONE", {T0: "NONE"})).effects == []
    failed = ZooKeeper(context, log_dir_events={"x": 1}, failures={"ReadLogDirEvents": "NOAUTH"})
    assert run(context, c.LogDirEventsChanged(), failed).kinds()[-1] == "DeleteLogDirEvents"


# ---- state machines, where ZooKeeper disagrees


def test_a_lost_race_is_run_again():
    context = cluster({"t-0": (1, 2, 3)}).without_brokers([BrokerId(1)])
    zookeeper = ZooKeeper(context, lost_races={T0: 2})
    found = perform(context, OnBrokerFailure((BrokerId(1),)), zookeeper=zookeeper)
    assert found.leadership("t-0").leader == 2
    assert found.kinds().count("ReadPartitionStates") == 4
    shrink = cluster({"t-0": (1, 2, 3)})
    racing = ZooKeeper(shrink, lost_races={T0: 1})
    after = perform(shrink, ChangeReplicaStates((replica("t-0-3"),), ReplicaState.OFFLINE), zookeeper=racing)
    assert after.leadership("t-0").isr == (1, 2)


@pytest.mark.parametrize(
    ("failures", "problems", "reason"),
    [
        ({"ReadPartitionStates": "CONNECTIONLOSS"}, {}, "CONNECTIONLOSS"),
        ({"WritePartitionStates": "CONNECTIONLOSS"}, {}, "CONNECTIONLOSS"),
        ({}, {T0: c.ReadProblem("NOAUTH")}, "NOAUTH"),
        ({}, {T0: c.ReadProblem("MALFORMED", "{}", ends_kafkas_call=True)}, "MALFORMED: {}"),
    ],
)
def test_a_partition_fails_alone(failures, problems, reason):
    context = cluster({"t-0": (1, 2), "u-0": (1, 2)}).without_brokers([BrokerId(1)])
    zookeeper = ZooKeeper(context, failures=failures, problems=problems)
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
    zookeeper = ZooKeeper(context, states={T0: led(1, (1, 2), controller_epoch=4)})
    found = perform(context, OnBrokerFailure((BrokerId(1),)), zookeeper=zookeeper)
    assert "written by a controller of epoch 4" in found.refusals[0].reason


def test_creations_that_fail():
    context = cluster({"t-0": (1, 2), "t-1": (3,)}, states={}, live=(1, 2))
    zookeeper = ZooKeeper(context, failures={"CreatePartitionStates": "CONNECTIONLOSS"})
    found = perform(context, ChangePartitionStates((T0, partition("t-1")), PartitionState.ONLINE), zookeeper=zookeeper)
    assert sorted(str(refusal.subject) for refusal in found.refusals) == ["t-0", "t-1"]
    assert found.context.partition_state(T0) is PartitionState.NEW
    there = ZooKeeper(context, states={T0: led(1, (1,))})
    taken = perform(context, ChangePartitionStates((T0,), PartitionState.ONLINE), zookeeper=there)
    assert "NODEEXISTS" in taken.refusals[0].reason


@pytest.mark.parametrize("fault", list(BatchFault))
def test_a_broken_batch_is_refused(fault):
    context = cluster({"t-0": (1, 2)}, batch_fault=fault)
    change = ChangePartitionStates((T0,), PartitionState.OFFLINE)
    found = perform(context, change, ChangeReplicaStates((replica("t-0-2"),), ReplicaState.ONLINE))
    assert {refusal.kind for refusal in found.refusals} == {RefusalKind.BROKEN_BATCH}
    assert not found.of(e.SendLeaderAndIsr)
    down = run(context, c.ControlledShutdown(BrokerId(2)))
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
    zookeeper = ZooKeeper(context, configs={"t": {"unclean.leader.election.enable": unclean}})
    found = perform(context, ChangeReplicaStates((replica("t-0-1"),), ReplicaState.OFFLINE), zookeeper=zookeeper)
    assert found.leadership("t-0").isr == isr


def test_through_1_0_a_needless_preferred_election_ends_online():
    context = cluster({"t-0": (1, 2)}, version="1.0").with_entry(T0, state=PartitionState.OFFLINE)
    zookeeper = ZooKeeper(context, elections=(T0,))
    found = run(context, c.PreferredElectionRequested(), zookeeper)
    assert found.context.partition_state(T0) is PartitionState.ONLINE
    assert not found.of(e.WritePartitionStates)
    assert perform(context, ChangePartitionStates((), PartitionState.ONLINE)).steps[0].batches


def test_an_unreadable_config_fails_only_its_partitions():
    context = cluster({"t-0": (1, 2)}, live=(2,), states={"t-0": led(1, (1,))})
    zookeeper = ZooKeeper(context, failures={"ReadTopicConfigs": "NOAUTH"})
    found = run(context, c.UncleanElectionEnabled(), zookeeper)
    assert "config of topic 't' not read" in found.refusals[0].reason
    allowed = ZooKeeper(context, configs={"t": {"unclean.leader.election.enable": "true"}})
    assert run(context, c.UncleanElectionEnabled("t"), allowed).context.unclean_election_count == 1


def test_an_unreadable_config_is_told_though_office_is_lost_in_the_write():
    context = cluster({"t-0": (1, 2), "u-0": (1, 2)}, live=(2,), states={"t-0": led(1, (1,)), "u-0": led(1, (1, 2))})
    failures = {"ReadTopicConfigs": "NOAUTH", "WritePartitionStates": "CONTROLLER_MOVED"}
    found = run(context, c.UncleanElectionEnabled(), ZooKeeper(context, failures=failures))
    assert [(str(refusal.subject), refusal.error or "") for refusal in found.refusals][:2] == [
        ("t-0", ""),
        ("controller", "ControllerMoved"),
    ]


# ---- topics


def test_a_new_topic_is_created_and_a_vanished_one_forgotten():
    context = cluster({"old-0": (1, 2)})
    topics = {"t": c.TopicContent({0: ReplicaAssignment((2, 1))}, None, (("x", "1"),))}
    found = run(context, c.TopicsChanged(), ZooKeeper(context, topics=topics))
    assert found.leadership("t-0").leader == 2
    assert found.context.topics["t"].topic_id == "new-id-of-t"
    assert found.context.topics["t"].extra == (("x", "1"),)
    assert "old" not in found.context.topics
    again = run(found.context, c.TopicsChanged(), ZooKeeper(found.context))
    assert again.kinds() == ["ReadTopics"]


@pytest.mark.parametrize("failing", ["ReadTopics", "ReadTopicAssignments"])
def test_topics_that_cannot_be_read(failing):
    context = cluster({"old-0": (1, 2)})
    topics = {"old": c.TopicContent({}), "t": c.TopicContent({0: ReplicaAssignment((2, 1))})}
    found = run(context, c.TopicsChanged(), ZooKeeper(context, topics=topics, failures={failing: "NOAUTH"}))
    assert found.leadership("t-0") is None
    assert "NOAUTH" in found.refusals[0].reason


def test_a_malformed_topic_is_isolated():
    context = cluster({"old-0": (1, 2)}, version="2.4")
    topics = {"old": c.TopicContent({}), "bad": c.TopicContent({}), "t": c.TopicContent({0: ReplicaAssignment((2, 1))})}
    zookeeper = ZooKeeper(context, topics=topics, topic_problems={"bad": "no JSON"})
    found = run(context, c.TopicsChanged(), zookeeper)
    assert found.leadership("t-0").leader == 2
    assert "the controller resigns" in found.refusals[0].kafka


@pytest.mark.parametrize(("queued", "version", "writes"), [(False, "3.9", 0), (True, "3.9", 1), (True, "1.0", 0)])
def test_new_partitions_of_a_topic(queued, version, writes):
    context = cluster({"t-0": (1, 2)}, version=version)
    context = context.queue_topic_deletion(["t"]) if queued else context
    grown = {"t": c.TopicContent({0: ReplicaAssignment((1, 2)), 1: ReplicaAssignment((2, 1))})}
    found = run(context, c.TopicDataChanged("t"), ZooKeeper(context, topics=grown))
    assert (found.leadership("t-1") is not None) is not queued
    assert len(found.of(e.WriteTopicAssignment)) == writes
    same = {"t": c.TopicContent({0: ReplicaAssignment((1, 2))})}
    assert run(context, c.TopicDataChanged("t"), ZooKeeper(context, topics=same)).kinds() == ["ReadTopicAssignments"]
    failed = ZooKeeper(context, failures={"ReadTopicAssignments": "x"})
    assert run(context, c.TopicDataChanged("t"), failed).refusals


# ---- deletions


def answered(context, broker_id, error="NONE", general="NONE"):
    started = {p: error for p in context.partitions_for_topic("t") if broker_id in context.assignment(p)}
    return c.StopReplicaAnswered(BrokerId(broker_id), general, started)


@pytest.mark.parametrize("version", ["3.9", "2.8", "2.0", "1.0", "0.10.2"])
def test_a_deletion_runs_to_its_end(version):
    context = cluster({"t-0": (1, 2), "u-0": (1, 2)}, version=version)
    context = replace(context, config=replace(context.config, delete_topic=True))
    zookeeper = ZooKeeper(context, deletions=("t", "ghost"))
    found = run(context, c.DeletionsChanged(), zookeeper)
    assert found.of(e.DeleteTopicDeletions)[0].topics == ("ghost",)
    for number in (1, 2):
        found = run(found.context, answered(found.context, number), zookeeper)
    assert "t" not in found.context.topics
    names = ["DeleteTopicNode", "DeleteTopicConfig", "DeleteTopicDeletions"]
    assert [name for name in found.kinds() if name in names] == names
    assert found.context.entry(T0).state is PartitionState.NON_EXISTENT
    assert not found.context.topics_to_be_deleted
    assert found.leadership("u-0") is not None


@pytest.mark.parametrize("version", ["3.9", "2.8", "2.2"])
def test_a_deletion_waits_for_a_dead_broker(version):
    context = cluster({"t-0": (1, 2, 3)}, live=(1, 2), version=version)
    zookeeper = ZooKeeper(context, deletions=("t",))
    found = run(context, c.DeletionsChanged(), zookeeper)
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
    zookeeper = ZooKeeper(context, deletions=("t",))
    found = run(context, c.DeletionsChanged(), zookeeper)
    found = run(found.context, answered(found.context, 1, general="STALE_BROKER_EPOCH"), zookeeper)
    assert found.context.topics_ineligible_for_deletion == {"t"}
    found = run(found.context, answered(found.context, 2), zookeeper)
    assert found.context.replica_state(replica("t-0-1")) is ReplicaState.OFFLINE


def test_a_broker_dies_in_the_middle_of_a_deletion():
    context = cluster({"t-0": (1, 2)})
    zookeeper = ZooKeeper(context, deletions=("t",))
    found = run(context, c.DeletionsChanged(), zookeeper)
    zookeeper.brokers = (broker(1), broker(3))
    found = run(found.context, c.BrokersChanged(), zookeeper)
    assert found.context.replica_state(replica("t-0-2")) is ReplicaState.DELETION_INELIGIBLE
    assert "t" in found.context.topics_ineligible_for_deletion


@pytest.mark.parametrize("failing", ["DeleteTopicNode", "DeleteTopicConfig", "DeleteTopicDeletions"])
def test_a_topic_that_cannot_be_deleted_stays_queued(failing):
    context = cluster({"t-0": (1,)}).queue_topic_deletion(["t"])
    context = context.with_entry(T0, replica_states=((BrokerId(1), ReplicaState.DELETION_SUCCESSFUL),))
    found = perform(context, TryTopicDeletion(), zookeeper=ZooKeeper(context, failures={failing: "NOTEMPTY"}))
    assert found.context.topics_to_be_deleted == {"t"}
    assert "the topic stays queued" in found.refusals[0].reason


def test_deletion_disabled_drops_the_requests():
    context = cluster({"t-0": (1, 2)})
    context = replace(context, config=replace(context.config, delete_topic=False))
    zookeeper = ZooKeeper(context, deletions=("t",))
    found = run(context, c.DeletionsChanged(), zookeeper)
    assert found.of(e.DeleteTopicDeletions)[0].topics == ("t",)
    assert not found.context.topics_to_be_deleted
    assert [r.kind for r in deletion_eligibility(context, "t").reasons] == [IneligibilityKind.DELETION_DISABLED]
    assert perform(context, TryTopicDeletion()).effects == []
    failed = ZooKeeper(context, deletions=("t",), failures={"DeleteTopicDeletions": "NOAUTH"})
    assert "NOAUTH" in run(context, c.DeletionsChanged(), failed).refusals[0].reason
    unread = ZooKeeper(context, failures={"ReadDeletionRequests": "NOAUTH"})
    assert run(context, c.DeletionsChanged(), unread).refusals


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


def test_a_deletion_that_a_reassignment_stands_against():
    context = cluster({"t-0": (1, 2)}, version="0.10.2", partitions_in_preferred_election=frozenset({T0}))
    context = replace(context, config=replace(context.config, delete_topic=True))
    found = run(context, c.DeletionsChanged(), ZooKeeper(context, deletions=("t",)))
    assert found.context.replica_state(replica("t-0-1")) is ReplicaState.DELETION_STARTED  # the mark comes too early


# ---- leaders


@pytest.mark.parametrize(
    ("version", "isr", "fields", "reason"),
    [
        ("3.9", (2, 1), {}, None),
        ("3.9", (2,), {}, NOT_IN_ISR),
        ("2.4", (2,), {}, None),
        ("3.3", (2, 1), {"partitions_being_reassigned": Map({partition("x-0"): None})}, REASSIGNMENT_RUNNING),
        ("0.10.2", (2, 1), {"partitions_in_preferred_election": frozenset({T0})}, ELECTION_RUNNING),
        ("3.9", (2, 1), {"shutting_down": frozenset({1})}, DEAD),
        ("0.10.2", (2, 1), {"shutting_down": frozenset({1})}, DEAD),
    ],
)
def test_which_elections_would_help(version, isr, fields, reason):
    context = cluster({"t-0": (1, 2)}, states={"t-0": led(2, isr)}, version=version, **fields)
    found = leader_imbalance(context)[BrokerId(1)]
    assert (found.preferred, found.imbalanced, found.ratio) == (1, (T0,), 1.0)
    assert found.electable == (() if reason else (T0,))
    assert found.not_electable == (((T0, reason),) if reason else ())


def test_a_partition_of_an_unknown_topic_is_not_elected():
    context = cluster({"t-0": (1, 2)}, states={"t-0": led(2, (1, 2))})
    context = replace(context, topics=context.topics.set("t", context.topics["t"]._replace(known=False)))
    assert leader_imbalance(context)[BrokerId(1)].not_electable == ((T0, TOPIC_UNKNOWN),)


@pytest.mark.parametrize("version", ["3.9", "1.0"])
def test_the_automatic_rebalance_elects_and_comes_again(version):
    context = cluster(
        {"t-0": (1, 2), "u-0": (1, 2)}, states={"t-0": led(2, (1, 2)), "u-0": led(2, (1, 2))}, version=version
    )
    found = run(context, c.RebalanceDue())
    assert [found.leadership(name).leader for name in ("t-0", "u-0")] == [1, 1]
    assert found.of(e.ScheduleRebalance)[0].delay_s == 300


def test_a_partition_without_replicas_does_not_stop_the_rebalance():
    context = cluster({"t-0": (1, 2), "u-0": (1, 2)}, states={"u-0": led(2, (1, 2))})
    context = context.with_entry(T0, assignment=ReplicaAssignment(()))
    found = perform(context, RebalanceLeaders())
    assert found.leadership("u-0").leader == 1
    assert "no partition of the cluster is rebalanced" in found.refusals[0].kafka


@pytest.mark.parametrize(
    ("name", "leader", "unclean", "error"),
    [
        ("t-0", 2, False, ""),
        ("t-0", 1, False, "ELECTION_NOT_NEEDED"),
        ("t-0", 2, True, "ELECTION_NOT_NEEDED"),
        ("ghost-0", 2, False, "UNKNOWN_TOPIC_OR_PARTITION"),
        ("gone-0", 2, False, "INVALID_TOPIC_EXCEPTION"),
        ("lagging-0", 2, False, "PREFERRED_LEADER_NOT_AVAILABLE"),
        ("dark-0", 2, True, "ELIGIBLE_LEADERS_NOT_AVAILABLE"),
        ("dim-0", 2, True, ""),
    ],
)
def test_an_administrator_asks_for_elections(name, leader, unclean, error):
    states = {
        "t-0": led(leader, (1, 2)), "gone-0": led(2, (1, 2)), "lagging-0": led(2, (2,)), "dark-0": led(-1, (4,)),
        "dim-0": led(-1, (4,)),
    }  # fmt: skip
    replicas = {"t-0": (1, 2), "gone-0": (1, 2), "lagging-0": (1, 2), "dark-0": (4,), "dim-0": (1, 4)}
    context = cluster(replicas, states=states).queue_topic_deletion(["gone"])
    context = context.with_entry(partition("dark-0"), state=PartitionState.OFFLINE)
    found = run(context, c.ElectLeaders((partition(name),), unclean))
    assert dict(found.of(e.ReplyElections)[0].errors) == {partition(name): error}


def test_no_partition_means_all_of_them():
    context = cluster({"t-0": (1, 2), "new-0": (1, 2)}, states={"t-0": led(2, (1, 2))})
    found = run(context, c.ElectLeaders())
    assert [p for p, _ in found.of(e.ReplyElections)[0].errors] == [partition("new-0"), T0]


@pytest.mark.parametrize("version", ["3.9", "1.1", "0.10.2"])
def test_a_preferred_election_from_the_request_node(version):
    context = cluster({"t-0": (1, 2)}, states={"t-0": led(2, (1, 2))}, version=version).queue_topic_deletion(["gone"])
    zookeeper = ZooKeeper(context, elections=(T0, partition("gone-0")))
    found = run(context, c.PreferredElectionRequested(), zookeeper)
    assert found.leadership("t-0").leader == 1
    assert zookeeper.elections is None
    assert found.refusals[0].error == "INVALID_TOPIC_EXCEPTION"
    assert run(context, c.PreferredElectionRequested(), ZooKeeper(context)).kinds() == ["ReadPreferredElectionRequest"]


@pytest.mark.parametrize(
    ("broker_id", "epoch", "version", "error"),
    [
        (9, None, "3.9", "BrokerNotAvailable"),
        (9, 4, "3.9", "NoSuchElement"),
        (9, 4, "2.1", "BrokerNotAvailable"),
        (2, 0, "3.9", "StaleBrokerEpoch"),
        (2, 1, "3.9", ""),
        (2, None, "2.0", ""),
    ],
)
def test_controlled_shutdown(broker_id, epoch, version, error):
    context = cluster({"t-0": (2, 1), "t-1": (1, 2), "t-2": (2,), "t-3": (2, 3)}, version=version)
    context = context.with_entry(partition("t-3"), leadership=led(2, (2,)))
    found = run(context, c.ControlledShutdown(BrokerId(broker_id), epoch), ZooKeeper(context))
    reply = found.of(e.ReplyControlledShutdown)[0]
    assert reply.error == error
    if not error:
        assert reply.partitions_still_led == (partition("t-3"),)
        assert found.leadership("t-0").leader == 1
        assert found.leadership("t-1").isr == (1,)
        assert found.context.shutting_down == {2}


# ---- ISR changes


@pytest.mark.parametrize("version", ["2.6", "2.7", "1.0"])
def test_isr_notifications_are_listed_read_told_and_deleted(version):
    context = cluster({"t-0": (1, 2), "t-1": (1, 2)}, version=version, ibp="1.0" if version == "1.0" else "2.6")
    notes = {"isr_change_1": (T0,), "isr_change_2": (T0, partition("ghost-0"))}
    zookeeper = ZooKeeper(context, isr_notifications=notes, states={T0: led(1, (1,), version=9, controller_epoch=77)})
    found = run(context, c.IsrNotificationsChanged(tuple(notes)), zookeeper)
    assert found.leadership("t-0").isr == (1,)
    assert found.of(e.DeleteIsrNotifications)[0].names == ("isr_change_1", "isr_change_2")
    assert [row.partition for row in found.of(e.SendUpdateMetadata)[0].partition_states] == [T0]
    assert found.kinds()[-1] == "DeleteIsrNotifications"
    assert ("ListIsrNotifications" in found.kinds()) is (version != "1.0")


@pytest.mark.parametrize("failing", ["ReadIsrNotifications", "ReadPartitionStates", "ListIsrNotifications"])
def test_after_an_error_exactly_the_listed_notifications_go(failing):
    context = cluster({"t-0": (1, 2)})
    zookeeper = ZooKeeper(context, isr_notifications={"isr_change_1": (T0,)}, failures={failing: "CONNECTIONLOSS"})
    found = run(context, c.IsrNotificationsChanged(), zookeeper)
    assert bool(found.of(e.DeleteIsrNotifications)) is (failing != "ListIsrNotifications")
    assert not found.of(e.SendUpdateMetadata)


RECOVERING = LeaderRecoveryState.RECOVERING


@pytest.mark.parametrize(
    ("change", "error"),
    [
        pytest.param({}, None, id="a smaller ISR"),
        pytest.param({"partition": "unknown-id"}, "UNKNOWN_TOPIC_ID", id="unknown topic id"),
        pytest.param({"partition": partition("ghost-0")}, "UNKNOWN_TOPIC_OR_PARTITION", id="unknown partition"),
        pytest.param({"leader_epoch": 6}, "NOT_CONTROLLER", id="a later leader epoch"),
        pytest.param({"partition_epoch": 8}, "NOT_CONTROLLER", id="a later partition epoch"),
        pytest.param({"leader_epoch": 4}, "FENCED_LEADER_EPOCH", id="an older leader epoch"),
        pytest.param({"partition_epoch": 6}, "INVALID_UPDATE_VERSION", id="an older partition epoch"),
        pytest.param({"recovery": RECOVERING}, "INVALID_REQUEST", id="from recovered to recovering"),
        pytest.param({"recovery": RECOVERING, "isr": (1, 2)}, "INVALID_REQUEST", id="recovering with two members"),
        pytest.param({"isr": (1, 4)}, "INELIGIBLE_REPLICA", id="a dead member"),
    ],
)
def test_alter_partition(change, error):
    context = cluster({"t-0": (1, 2, 4)})
    told = {"partition": T0, "leader_epoch": 5, "partition_epoch": 7, "isr": (1,)} | change
    found = run(context, c.AlterPartition(BrokerId(1), 1, (c.IsrChange(**told),)))
    reply = found.of(e.ReplyAlterPartition)[0]
    assert dict(reply.errors) == ({told["partition"]: error} if error else {})
    assert bool(found.of(e.WritePartitionStates)) is (error is None)
    if error == "INELIGIBLE_REPLICA":
        older = run(context, c.AlterPartition(BrokerId(1), 1, (c.IsrChange(**told),), api_version=1))
        assert dict(older.of(e.ReplyAlterPartition)[0].errors) == {T0: "OPERATION_NOT_ATTEMPTED"}


def test_alter_partition_is_idempotent_and_fenced():
    context = cluster({"t-0": (1, 2, 3)})
    stale = run(context, c.AlterPartition(BrokerId(1), 9, ()))
    assert stale.of(e.ReplyAlterPartition)[0].error == "STALE_BROKER_EPOCH"
    same = c.IsrChange(T0, 5, 3, (1, 2, 3))
    again = run(context, c.AlterPartition(BrokerId(1), 1, (same,)))
    assert dict(again.of(e.ReplyAlterPartition)[0].accepted)[T0].partition_epoch == 7
    assert not again.of(e.WritePartitionStates)
    smaller = c.AlterPartition(BrokerId(1), 1, (c.IsrChange(T0, 5, 7, (1,)),))
    raced = run(context, smaller, ZooKeeper(context, lost_races={T0: 1}))
    assert dict(raced.of(e.ReplyAlterPartition)[0].errors) == {T0: "INVALID_UPDATE_VERSION"}
    broken = run(context, smaller, ZooKeeper(context, failures={"WritePartitionStates": "NOAUTH"}))
    assert dict(broken.of(e.ReplyAlterPartition)[0].errors) == {T0: "UNKNOWN_SERVER_ERROR"}


def test_metadata_errors_are_told():
    context = cluster({"t-0": (1, 2)})
    assert run(context, c.UpdateMetadataAnswered(BrokerId(1), "STALE_BROKER_EPOCH")).refusals
    assert not run(context, c.UpdateMetadataAnswered(BrokerId(1), "NONE")).refusals
