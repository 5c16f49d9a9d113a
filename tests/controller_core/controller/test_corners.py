"""What happens at the edges: nothing to do, answers that fail, switches that are off."""

import gc
from dataclasses import replace

import pytest
from immutables import Map

from controller_core.controller.brokers import AddLiveBrokers, OnBrokerStartup
from controller_core.controller.deletion_eligibility import deletion_eligibility
from controller_core.controller.leader_elections import ProcessControlledShutdown
from controller_core.controller.leader_imbalance import leader_imbalance
from controller_core.controller.partition_state_machine import ChangePartitionStates, StartPartitionMachine
from controller_core.controller.reassignment.kip_455 import ForgetReassignment
from controller_core.controller.reassignment.leader_epochs import UpdateLeaderEpochAndSendRequest
from controller_core.controller.reassignment.triggers import ResumeReassignments
from controller_core.controller.replica_state_machine import ChangeReplicaStates, StartReplicaMachine
from controller_core.controller.step import step
from controller_core.controller.topic_deletion import (
    OWNER,
    CompleteReplicaDeletion,
    EnqueueTopicsForDeletion,
    FailReplicaDeletion,
    InitTopicDeletion,
    MarkTopicsIneligible,
    ResumeDeletionForTopics,
)
from controller_core.controller.update_metadata import SendMetadataUpdate
from controller_core.engine import request_batch
from controller_core.engine.batch import BatchFault, RequestBatch
from controller_core.engine.turn import UnderWay
from controller_core.messages import answers, events
from controller_core.messages import effects as e
from controller_core.model.gc_pause import collector_paused
from controller_core.model.partitions import BrokerId, PartitionAndReplica, ReplicaAssignment
from controller_core.model.refusals import RefusalKind
from controller_core.model.states import PartitionState, ReplicaState
from controller_core.runtime.render import render, render_context
from tests.controller_core.clusters import broker, cluster, led, partition, perform, run, settle, zookeeper_of

T0 = partition("t-0")
R1 = PartitionAndReplica(T0, BrokerId(1))


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_as_it_was(enabled):
    before = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        with collector_paused():
            assert not gc.isenabled()
        assert gc.isenabled() is enabled
    finally:
        (gc.enable if before else gc.disable)()


def test_a_given_order_of_brokers_is_kept_where_it_names_them_all():
    context = replace(cluster({"t-0": (1, 2)}), broker_order=(BrokerId(2), BrokerId(1)))
    assert context.in_call_order([BrokerId(1), BrokerId(2)]) == [2, 1]
    assert context.in_call_order([BrokerId(1), BrokerId(3)]) == [1, 3]


def test_an_election_needs_a_strategy():
    context = cluster({"t-0": (1, 2)})
    found = perform(context, ChangePartitionStates((T0,), PartitionState.ONLINE))
    assert "needs a strategy" in found.refusals[0].reason
    assert found.steps[-1].under_way.results.failed == {T0: "an election needs a strategy"}


@pytest.mark.parametrize("version", ["1.0", "2.1", "3.9"])
def test_a_broker_starts(version):
    context = cluster({"t-0": (1, 2)}, live=(1,), version=version)
    found = perform(context, AddLiveBrokers((broker(2),)), OnBrokerStartup((BrokerId(2),)))
    assert bool(found.of(e.Watch)) is (version != "1.0")
    everything = [effect for effect in found.of(e.SendUpdateMetadata) if effect.partition_states]
    assert {effect.broker for effect in everything} == {1, 2}
    assert found.context.replica_state(PartitionAndReplica(T0, BrokerId(2))) is ReplicaState.ONLINE


def test_machines_start_twice_without_effect_on_states():
    context = cluster({"t-0": (1, 2), "gone-0": (1, 2)}).remove_topic("gone")
    found = perform(context, StartReplicaMachine(), StartPartitionMachine())
    assert found.context.partitions == context.partitions


def test_nothing_to_tell_is_nothing_to_do():
    context = cluster({"t-0": (1, 2)})
    assert run(context, events.IsrNotificationsChanged(), zookeeper_of(context)).kinds() == ["ListIsrNotifications"]
    assert perform(context, EnqueueTopicsForDeletion(())).effects == []
    assert perform(context, FailReplicaDeletion((R1,)), ResumeDeletionForTopics(("t",))).effects == []
    assert perform(context, ResumeReassignments()).effects == []


def test_resumed_reassignments_are_those_of_the_brokers():
    moving = {"partitions_being_reassigned": Map({T0: None}), "reassignment_targets": Map({T0: (BrokerId(1),)})}
    context = cluster({"t-0": (1, 2)}, **moving)
    assert perform(context, ResumeReassignments(frozenset({BrokerId(3)}))).effects == []
    assert perform(context, ResumeReassignments(skipped=frozenset({T0}))).kinds()[0] == "ReadPartitionStates"


def test_disabled_deletion_does_nothing_at_all():
    context = cluster({"t-0": (1, 2)})
    context = replace(context, config=replace(context.config, delete_topic=False))
    for task in (
        EnqueueTopicsForDeletion(("t",)), ResumeDeletionForTopics(("t",)), MarkTopicsIneligible(("t",)),
        FailReplicaDeletion((R1,)), CompleteReplicaDeletion((R1,)), InitTopicDeletion(frozenset(), frozenset()),
    ):  # fmt: skip
        assert perform(context, task).effects == []
    found = perform(context, InitTopicDeletion(frozenset({"t"}), frozenset()))
    assert found.of(e.DeleteTopicDeletions)[0].topics == ("t",)


def test_a_shutdown_asked_of_the_wrong_controller():
    context = replace(cluster({"t-0": (1, 2)}), active_controller_id=BrokerId(2))
    found = perform(context, ProcessControlledShutdown(BrokerId(1), None))
    assert found.of(e.ReplyControlledShutdown)[0].error == "ControllerMoved"


@pytest.mark.parametrize("fault", list(BatchFault))
@pytest.mark.parametrize(
    "task",
    [
        pytest.param(SendMetadataUpdate(None), id="UpdateMetadata"),
        pytest.param(SendMetadataUpdate(None, (T0,), OWNER), id="UpdateMetadata of a deletion"),
        pytest.param(UpdateLeaderEpochAndSendRequest(T0, ReplicaAssignment((1, 2)), (1,), ()), id="a new leader epoch"),
    ],
)
def test_a_broken_batch_of_the_controller_makes_it_resign(task, fault):
    context = cluster({"t-0": (1, 2)})
    found = perform(context, task, ResumeReassignments(), StartReplicaMachine(), batch_fault=fault)
    assert [refusal.kind for refusal in found.refusals] == [RefusalKind.BROKEN_BATCH]
    assert "moves to another broker" in found.refusals[0].reason
    assert not found.of(e.SendLeaderAndIsr)
    assert found.kinds()[-1] == "DeleteControllerNode"
    assert (found.context.active_controller_id, len(found.context.partitions)) == (None, 0)


@pytest.mark.parametrize("fault", list(BatchFault))
def test_a_broken_batch_of_a_state_machine_fails_its_call_only(fault):
    context = cluster({"t-0": (1, 2)})
    offline = ChangePartitionStates((T0,), PartitionState.OFFLINE)
    found = perform(context, offline, StartReplicaMachine(), batch_fault=fault)
    assert found.context.active_controller_id == 1
    assert T0 in found.context.partitions
    assert not found.of(e.DeleteControllerNode)


def test_events_come_after_the_move_of_a_controller_with_a_broken_batch():
    context = cluster({"t-0": (1, 2)})
    broken = UnderWay(batch_fault=BatchFault.SEND)
    queued = step(context, events.BrokerDataChanged(BrokerId(2)), broken).then(events.RebalanceDue())
    moved = broker(2)._replace(endpoints=broker(9).endpoints)
    zookeeper = zookeeper_of(context, brokers=(broker(1), moved))
    found = settle(queued, zookeeper)
    assert [refusal.kind for refusal in found.refusals] == [RefusalKind.BROKEN_BATCH, RefusalKind.NOT_ACTIVE]


def test_what_is_not_reassigned_can_be_forgotten():
    context = cluster({"t-0": (1, 2)})
    assert perform(context, ForgetReassignment(T0, (BrokerId(1),))).kinds() == ["ReadReassignmentRequests"]


def test_config_problems_of_one_topic():
    context = cluster({"t-0": (3, 1)}, live=(1,), states={"t-0": led(3, (3,))})
    asked = run(context, events.UncleanElectionEnabled()).steps
    waiting = next(done for done in asked if isinstance(done.awaiting, e.ReadTopicConfigs))
    found = waiting.then(answers.TopicConfigsRead(waiting.awaiting, {}, {"t": "MALFORMED retention.ms"}))
    assert "retention.ms" in found.refusals[0].reason


def test_a_state_that_vanished_with_its_topic_is_no_failure():
    context = cluster({"t-0": (1, 2)}).queue_topic_deletion(["t"])
    zookeeper = zookeeper_of(context)
    zookeeper.states.clear()
    found = perform(context, ChangeReplicaStates((R1,), ReplicaState.OFFLINE), zookeeper=zookeeper)
    assert (found.refusals, found.context.replica_state(R1)) == ([], ReplicaState.ONLINE)


def test_topic_ids_that_cannot_be_assigned():
    context = cluster({"t-0": (1, 2)})
    topics = {"t": answers.TopicContent({}), "u": answers.TopicContent({0: ReplicaAssignment((1, 2))})}
    zookeeper = zookeeper_of(context, topics=topics, failures={"AssignTopicIds": "NOAUTH"})
    assert run(context, events.TopicsChanged(), zookeeper).context.topics["u"].topic_id is None


def test_an_empty_topic_is_known_but_has_nothing_to_create():
    context = cluster({"t-0": (1, 2)})
    topics = {"t": answers.TopicContent({}), "u": answers.TopicContent({}, "id")}
    found = run(context, events.TopicsChanged(), zookeeper_of(context, topics=topics))
    assert found.kinds() == ["ReadTopics", "Watch", "ReadTopicAssignments"]


def test_a_reassignment_alone_stands_against_a_deletion():
    context = cluster({"t-0": (1, 2)}).with_entry(T0, assignment=ReplicaAssignment((3, 1), (3,), (1,)))
    assert [reason.kind.value for reason in deletion_eligibility(context, "t").reasons] == [
        "partition being reassigned"
    ]


def test_topics_queued_for_deletion_do_not_count_as_imbalanced():
    context = cluster({"t-0": (1, 2), "u-0": (1, 2)}, states={"t-0": led(2, (1, 2))}).queue_topic_deletion(["t"])
    assert leader_imbalance(context)[BrokerId(1)].imbalanced == ()


def test_a_missing_state_at_a_failover_is_no_refusal():
    context = cluster({"t-0": (1, 2), "u-0": (1, 2)})
    vacant = replace(context, active_controller_id=None)
    zookeeper = zookeeper_of(context, controller=None, problems={T0: answers.ReadProblem("NONODE")})
    found = run(vacant, events.Startup(), zookeeper)
    assert not [refusal for refusal in found.refusals if refusal.kind is RefusalKind.ISOLATED]


def test_a_context_may_come_without_started_machines():
    context = cluster({"t-0": (1, 2)}, started=False)
    assert context.entry(T0).state is None
    assert perform(context, StartReplicaMachine(), StartPartitionMachine()).context.partition_state(T0).name == "ONLINE"


def test_a_deletion_that_nothing_stands_against_on_request():
    context = cluster({"t-0": (1, 2)})
    found = run(context, events.DeletionsChanged(), zookeeper_of(context))
    assert found.kinds() == ["ReadDeletionRequests"]


def test_a_stop_for_nobody_is_nothing():
    context = cluster({"t-0": (1, 2)})
    add = request_batch.stop_replica(context, [BrokerId(-1)], T0, delete=True)
    assert request_batch.send(context, RequestBatch(((add,),)), 1).requests == ()


def test_text_of_many_and_of_nothing():
    names = tuple(f"t{number}" for number in range(50))
    assert "… (50)" in render([e.ReadTopicConfigs(topics=names)])
    text = render_context(cluster({"t-0": (1, 2)}, states={}).with_entry(partition("x-0"), state=None))
    assert "x-0  -  []" in text
