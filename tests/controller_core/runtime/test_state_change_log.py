"""Transitions of a step, and their lines: what the state machines changed is what is told, nothing else."""

from dataclasses import replace

import pytest

from controller_core.controller.brokers import OnBrokerFailure
from controller_core.controller.partition_state_machine import ChangePartitionStates
from controller_core.controller.replica_state_machine import ChangeReplicaStates
from controller_core.controller.step import step
from controller_core.engine.state_changes import counts_text, transition_counts
from controller_core.messages.events import TopicsChanged
from controller_core.model.dialect import dialect_for
from controller_core.model.partitions import BrokerId, PartitionAndReplica, ReplicaAssignment, TopicPartition
from controller_core.model.states import PartitionState, ReplicaState
from controller_core.runtime.simulated.cluster import SimulatedCluster
from controller_core.runtime.state_change_log import state_change_log
from controller_core.znodes import (
    PREFERRED_REPLICA_ELECTION,
    REASSIGN_PARTITIONS,
    delete_topic_path,
    encode_delete_topic,
    encode_preferred_replica_election,
    encode_reassign_partitions,
)
from tests.controller_core.clusters import cluster, partition, perform

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Told:
    """States as the transitions tell them, beside those of the context."""

    def __init__(self):
        self.partitions, self.replicas, self.causes, self.lines = {}, {}, set(), []

    def hear(self, _, step):
        self.lines += state_change_log(step)
        for change in step.transitions:
            self.causes.add(change.cause)
            states = self.replicas if isinstance(change.subject, PartitionAndReplica) else self.partitions
            nothing = ReplicaState.NON_EXISTENT if states is self.replicas else PartitionState.NON_EXISTENT
            assert states.get(change.subject, nothing) is change.before, change
            states[change.subject] = change.after
            if change.after is nothing:
                del states[change.subject]

    def check(self, context):
        gone = (None, PartitionState.NON_EXISTENT)
        assert self.partitions == {p: e.state for p, e in context.partitions.items() if e.state not in gone}
        assert self.replicas == {
            PartitionAndReplica(p, broker): state
            for p, entry in context.partitions.items()
            for broker, state in entry.replica_states
        }


@pytest.mark.parametrize("version", ["3.9", "2.8", "2.0", "1.0", "0.10.2"])
def test_the_transitions_lead_from_the_states_before_to_the_states_after(version):
    told = Told()
    world = SimulatedCluster(dialect_for(version), broker_config={"delete.topic.enable": "true"}, stepped=told.hear)
    zookeeper = world.tools.zookeeper
    for broker in (1, 2, 3):
        world.start_broker(BrokerId(broker))
    world.settle()
    lists = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3,)}
    world.create_topics({"t": {n: ReplicaAssignment(tuple(map(BrokerId, ids))) for n, ids in lists.items()}})
    actions = (
        lambda: world.stop_broker(BrokerId(3)),
        lambda: world.start_broker(BrokerId(3)),
        lambda: zookeeper.create(PREFERRED_REPLICA_ELECTION, encode_preferred_replica_election([T0, T1])),
        lambda: zookeeper.create(REASSIGN_PARTITIONS, encode_reassign_partitions({T0: (BrokerId(3), BrokerId(2))})),
        lambda: world.fail_log_dir(BrokerId(2), T1),
        lambda: zookeeper.create(delete_topic_path("t"), encode_delete_topic()),
    )
    for action in (lambda: None, *actions):
        action()
        world.settle()
        told.check(world.active_controller().context)
    assert {"TopicsChanged", "BrokersChanged", "DeletionsChanged"} <= told.causes
    ours = [line.partition("] ")[2] for line in told.lines]
    for line in (
        (
            "Changed partition t-0 from NewPartition to OnlinePartition with state LeaderAndIsr(leader=1, leaderEpoch=0, "
            "isr=List(1, 2, 3), leaderRecoveryState=RECOVERED, partitionEpoch=0)"
        ),
        (
            "Partition t-0 state changed to (Leader:1,ISR:1,2,LeaderRecoveryState:RECOVERED,LeaderEpoch:1,ZkVersion:1,ControllerEpoch:1) "
            "after removing replica 3 from the ISR as part of transition to OfflineReplica"
        ),
        "Changed state of replica 3 for partition t-0 from OnlineReplica to OfflineReplica",
        "Changed partition t-2 state from OnlinePartition to OfflinePartition",
    ):
        assert line in ours


def lines(done):
    return [line for step in done.steps for line in state_change_log(step)]


def test_what_fails_is_told_with_its_reason():
    context = cluster({"t-0": (1, 2), "t-1": (2, 1)}, live=(1,))
    found = perform(context, ChangeReplicaStates((PartitionAndReplica(T0, BrokerId(1)),), ReplicaState.NEW))
    assert lines(found) == [
        (
            "[Controller id=1 epoch=1] Controller 1 epoch 1 failed to change state of replica 1 for partition t-0: "
            "OnlineReplica → NewReplica is not a legal transition"
        )
    ]
    found = perform(context, ChangePartitionStates((partition("t-0"),), PartitionState.NEW))
    assert lines(found) == [
        (
            "[Controller id=1 epoch=1] Controller 1 epoch 1 failed to change state for partition t-0: "
            "OnlinePartition → NewPartition is not a legal transition"
        )
    ]


def test_a_refusal_that_is_no_transition_is_not_told():
    done = step(replace(cluster({"t-0": (1,)}), active_controller_id=BrokerId(2)), TopicsChanged())
    assert done.refusals
    assert list(state_change_log(done)) == []


def test_transitions_are_counted_by_their_kind():
    context = cluster({"t-0": (1, 2), "t-1": (2, 1)})
    found = perform(context, OnBrokerFailure((BrokerId(2),)))
    counts = transition_counts(change for done in found.steps for change in done.changes)
    assert counts_text(counts) == (
        "2 partitions from OnlinePartition to OnlinePartition, 2 replicas from OnlineReplica to OfflineReplica"
    )
    without_leader = cluster({"t-0": (1, 2)}, states={})
    found = perform(without_leader, ChangeReplicaStates((PartitionAndReplica(T0, BrokerId(2)),), ReplicaState.OFFLINE))
    counts = transition_counts(change for done in found.steps for change in done.changes)
    assert counts_text(counts) == "1 replica from OnlineReplica to OfflineReplica"
    assert counts_text(transition_counts(())) == ""


def test_a_new_partition_names_its_replicas():
    context = cluster({"t-0": (1, 2)}, states={}, started=False)
    found = perform(context, ChangePartitionStates((T0,), PartitionState.NEW))
    assert lines(found) == [
        (
            "[Controller id=1 epoch=1] Changed partition t-0 state from NonExistentPartition to NewPartition "
            "with assigned replicas 1,2"
        )
    ]


def test_a_replica_of_a_partition_without_leadership_goes_offline():
    context = cluster({"t-0": (1, 2)}, states={})
    found = perform(context, ChangeReplicaStates((PartitionAndReplica(T0, BrokerId(2)),), ReplicaState.OFFLINE))
    assert lines(found) == [
        "[Controller id=1 epoch=1] Changed state of replica 2 for partition t-0 from OnlineReplica to OfflineReplica"
    ]
