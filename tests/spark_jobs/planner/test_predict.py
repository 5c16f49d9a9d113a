"""Plans run through the controller: the quick way equals the full way, and both equal the simulated cluster."""

from collections import Counter, defaultdict

import numpy as np
import pytest

from controller_core.engine.state_changes import counts_text, transition_counts
from controller_core.model.dialect import dialect_for
from controller_core.model.partitions import BrokerId, ReplicaAssignment, TopicPartition
from controller_core.plans.request_znodes import CreateReassignPartitions, Target, request_data
from controller_core.runtime.simulated.cluster import SimulatedCluster
from controller_core.runtime.simulated.zookeeper import MemoryServer, MemoryZooKeeper
from spark_jobs.planner.errors import PlanRejectedError
from spark_jobs.planner.model import ClusterState
from spark_jobs.planner.planning import optimal_plan
from spark_jobs.planner.predict import (
    context_of,
    given_moves,
    moves_of,
    predict,
    predict_plan,
    targets_of,
)
from spark_jobs.planner.prediction import PlanPrediction as Planned
from spark_jobs.planner.prediction import WavePrediction, require_safe
from spark_jobs.planner.waves import Limits, Schedule, Wave, schedule
from tests.spark_jobs.planner.clusters import KINDS, cluster, of_kind

VERSIONS = ("1.1", "2.3", "2.6", "3.9")


def ends(context):
    """Partition → (replicas, ISR, leader) as the controller knows them."""
    found = {}
    for topic in sorted(context.topics):
        for partition in context.partitions_for_topic(topic):
            state = context.leadership(partition)
            found[partition] = context.full_assignment(partition).replicas, set(state.isr), state.leader
    return found


def named(state, stands):
    return {
        TopicPartition(state.topics[state.topic[row]], int(state.number[row])): (
            stand.replicas,
            set(stand.isr),
            stand.leader,
        )
        for row, stand in stands.items()
    }


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_each_walk_once_ends_where_all_walks_end(kind, version):
    state = of_kind(kind, brokers=9, partitions=45)
    waves = schedule(optimal_plan(state), Limits(in_max=3, out_max=3))
    full = predict(context_of(state, dialect_for(version)), targets_of(state, waves))
    quick = predict_plan(state, moves_of(waves), dialect_for(version))
    after = ends(full.context)
    assert {partition: after[partition] for partition in named(state, quick.stands)} == named(state, quick.stands)
    assert full.problems == quick.problems == ()
    for whole, estimated in zip(full.waves, quick.waves, strict=True):
        assert whole.topic_bytes <= estimated.topic_bytes <= 2 * whole.topic_bytes


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_simulated_cluster_ends_where_predicted(kind, version):
    state = of_kind(kind, brokers=6, partitions=18)
    waves = schedule(optimal_plan(state), Limits(in_max=2, out_max=2))
    told = Counter()
    simulated = SimulatedCluster(
        dialect_for(version),
        server=MemoryServer(),
        stepped=lambda _, done: told.update(transition_counts(done.changes)),
    )
    for broker in state.broker_ids.tolist():
        simulated.start_broker(BrokerId(broker))
    simulated.settle()
    topics = defaultdict(dict)
    for row in range(state.partition_count):
        replicas = ReplicaAssignment(tuple(map(BrokerId, state.ids(state.replicas[row]))))
        topics[state.topics[state.topic[row]]][int(state.number[row])] = replicas
    simulated.create_topics(topics)
    simulated.settle()
    tool = MemoryZooKeeper(simulated.server)
    told.clear()
    for targets in targets_of(state, waves):
        request = CreateReassignPartitions(targets=tuple(Target(*p, replicas) for p, replicas in targets))
        tool.create("/admin/reassign_partitions", request_data(request), make_parents=True)
        simulated.settle()
        assert tool.exists("/admin/reassign_partitions") is None
    prediction = predict_plan(state, moves_of(waves), dialect_for(version))
    predicted = named(state, prediction.stands)
    after = ends(simulated.active_controller().context)
    assert {partition: after[partition] for partition in predicted} == predicted
    changes = sum((Counter(wave.changes) for wave in prediction.waves), Counter())
    assert changes == told
    assert f" State changes: {counts_text(changes)}." in prediction.text


@pytest.mark.parametrize("kind", KINDS)
def test_waves_of_somebody_else_are_the_same_moves(kind):
    state = of_kind(kind, brokers=6, partitions=18)
    waves = schedule(optimal_plan(state), Limits(in_max=2, out_max=2))
    given = predict_plan(state, given_moves(state, targets_of(state, waves)), dialect_for("3.9"))
    assert given == predict_plan(state, moves_of(waves), dialect_for("3.9"))


def test_effects_are_heard_in_order():
    state = cluster([[0, 1]], brokers=3, drain=[1])
    waves = schedule(optimal_plan(state))
    heard = []
    predict(context_of(state, dialect_for("3.9")), targets_of(state, waves), heard=heard.append)
    names = [type(effect).__name__ for effect in heard]
    assert names[0] == "ReadReassignmentRequests"
    assert names.index("SendLeaderAndIsr") < names.index("SendStopReplica")
    assert names[-1] == "DeleteReassignmentRequests" or "SendUpdateMetadata" in names[-3:]


def test_a_partition_that_nobody_leads_does_not_finish_and_says_so():
    state = cluster([[0, 1], [2, 2][:1]], brokers=4, dead=[2], leaders=[0, -1])
    waves = schedule(optimal_plan(state))
    prediction = predict_plan(state, moves_of(waves), dialect_for("3.9"))
    assert [name for wave in prediction.waves for name in wave.unfinished] == ["t-1"]


def at_once(state, *lists):
    """A schedule of one wave that gives the first partitions these lists (of positions), whatever that costs them."""
    found = np.array([[*replicas, -1, -1, -1][:4] for replicas in lists])
    wave = Wave(rows=np.arange(len(lists)), lists=found, added=0, bytes_in_max=None, bytes_out_max=None)
    return Schedule(waves=(wave,), lower_bound=1, bound_reason="", limits=Limits(), waiting=())


def shrunk(*isr):
    """Partition `t-0` on brokers 0, 1 and 2 of six, of which `isr` are in sync."""
    return ClusterState.from_columns(
        broker_ids=range(6),
        racks=[None] * 6,
        topics=["t"],
        partitions=[0],
        replica_offsets=[0, 3],
        replica_ids=[0, 1, 2],
        isr_offsets=[0, len(isr)],
        isr_ids=isr,
    )


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize(
    ("isr", "target", "endangered"),
    [
        pytest.param((0, 1, 2), (3, 4, 2), (), id="two copies beside three in sync"),
        pytest.param((0, 1, 2), (3, 4, 5), ("t-0",), id="three copies beside three in sync: no majority"),
        pytest.param((0, 1), (3, 4, 2), ("t-0",), id="two copies beside two in sync of three"),
        pytest.param((0,), (0, 1, 3), (), id="below its majority, one copy: it gets no worse"),
        pytest.param((0,), (3, 1, 2), (), id="below its majority, the only one in sync is replaced by one that is"),
        pytest.param((0, 1, 2), (1,), (), id="fewer replicas, the one that stays is in sync"),
        pytest.param((0,), (1, 2), (), id="fewer replicas, those that stay catch up first"),
    ],
)
def test_a_partition_keeps_its_in_sync_majority_or_gets_no_worse(isr, target, endangered, version):
    prediction = predict_plan(shrunk(*isr), moves_of(at_once(shrunk(*isr), target)), dialect_for(version))
    assert prediction.waves[0].endangered == endangered


def test_znodes_that_zookeeper_would_refuse_are_rejected():
    wide = ClusterState.from_columns(
        broker_ids=[1_000_000, 1_000_001, 1_000_002],
        racks=[None] * 3,
        topics=["t" * 200] * 30_000,
        partitions=range(30_000),
        replica_offsets=range(0, 60_001, 2),
        replica_ids=[1_000_000, 1_000_001] * 30_000,
    )
    wave = at_once(wide, *[(2, 1)] * 30_000)
    said = " ".join(predict_plan(wide, moves_of(wave), dialect_for("3.9")).problems)
    assert "wave 1 asks with" in said
    assert "wave 1 writes a topic znode of" in said


def test_a_wave_that_endangers_a_partition_is_rejected():
    wave = WavePrediction(
        partitions=1, effects={}, request_bytes=10, topic_bytes=10, unfinished=(), endangered=("t-0",)
    )
    with pytest.raises(PlanRejectedError, match=r"wave 1 leaves \[t-0\] with too few in-sync replicas"):
        require_safe(Planned(waves=(wave,), stands={}))
