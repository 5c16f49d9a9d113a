"""What is predicted of a deletion is what a controller of every Kafka version does in the simulated world."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controller_core.context.builder import build_leniently
from controller_core.context.context import ControllerContext
from controller_core.controller.deletion_eligibility import IneligibilityKind, deletion_eligibility
from controller_core.model.config import ControllerConfig
from controller_core.model.dialect import MINOR_VERSIONS, dialect_for
from controller_core.model.partitions import BrokerId, PartitionAndReplica, ReplicaAssignment, TopicPartition
from controller_core.runtime.simulated.cluster import SimulatedCluster
from controller_core.runtime.simulated.zookeeper import MemoryServer
from controller_core.znodes import encode_reassign_partitions
from controller_core.znodes import paths as znode
from kafka_maintenance.operations.cluster.observe import observe
from spark_jobs.on_core.deletion_steps import predict

BROKERS = tuple(map(BrokerId, (1, 2, 3, 4)))
REPLICAS = st.lists(st.sampled_from(BROKERS), min_size=1, max_size=3, unique=True).map(tuple)


@dataclass(frozen=True)
class World:
    """A topic `t`, the brokers that are away, what is asked to move, and whether a new controller finds the request."""

    partitions: tuple[tuple[BrokerId, ...], ...]
    away: frozenset[BrokerId]
    created_late: bool = False
    moves: Mapping[int, tuple[BrokerId, ...]] = field(default_factory=dict)
    found_at_start: bool = False


WORLDS = st.builds(
    World,
    partitions=st.lists(REPLICAS, min_size=1, max_size=3).map(tuple),
    away=st.frozensets(st.sampled_from(BROKERS), max_size=2),
    created_late=st.booleans(),
    moves=st.dictionaries(st.integers(0, 2), REPLICAS, max_size=2),
    found_at_start=st.booleans(),
)


def built(version: str, world: World) -> SimulatedCluster:
    """The cluster right before somebody asks for the deletion."""
    cluster = SimulatedCluster(
        dialect_for(version), broker_config={"delete.topic.enable": "true"}, server=MemoryServer()
    )
    for broker in BROKERS:
        cluster.start_broker(broker)
        cluster.settle()
    topic = {number: ReplicaAssignment(replicas) for number, replicas in enumerate(world.partitions)}
    if not world.created_late:
        cluster.create_topics({"t": topic})
        cluster.settle()
    for broker in sorted(world.away):
        cluster.stop_broker(broker)
        cluster.settle()
    if world.created_late:
        cluster.create_topics({"t": topic})
        cluster.settle()
    moves = {TopicPartition("t", number): to for number, to in world.moves.items() if number in topic}
    if moves:
        cluster.tools.zookeeper.create(znode.REASSIGN_PARTITIONS, encode_reassign_partitions(moves))
        cluster.settle()
    return cluster


def ask(cluster: SimulatedCluster, *, found_at_start: bool) -> None:
    """The deletion is asked for, at a running controller or while a new one is elected; everybody reacts."""
    if found_at_start:
        active = cluster.active_controller()
        assert active is not None
        cluster.expire_session(active.id)
    cluster.tools.zookeeper.create(znode.delete_topic_path("t"))
    cluster.settle()


def read(cluster: SimulatedCluster, *, queued: bool = False) -> ControllerContext:
    """What the tree tells; `queued`: with its deletion requests."""
    seen = observe(cluster.tools.zookeeper)
    return build_leniently(
        dialect=cluster.dialect,
        brokers=seen.brokers.values(),
        assignments=seen.assignments,
        states=seen.states,
        topics=seen.topics,
        topics_to_be_deleted=seen.queued_topics if queued else (),
        reassignment_targets=seen.reassign_requests,
        config=ControllerConfig(controller_id=BROKERS[0], delete_topic=True),
        epoch=seen.controller_epoch or 0,
        epoch_zk_version=seen.controller_epoch_version or 0,
    ).context


def logs(cluster: SimulatedCluster) -> frozenset[PartitionAndReplica]:
    """What brokers that are up hold of the topic."""
    return frozenset(
        PartitionAndReplica(partition, broker)
        for broker in cluster.nodes
        for partition in cluster.disks[broker].logs
        if partition.topic == "t"
    )


def is_there(cluster: SimulatedCluster) -> bool:
    return cluster.tools.zookeeper.exists(znode.topic_path("t")) is not None


@pytest.mark.parametrize("version", MINOR_VERSIONS)
@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(world=WORLDS)
def test_the_controller_of_every_version_does_what_was_predicted(version, world):
    cluster = built(version, world)
    held, before = logs(cluster), read(cluster)
    ask(cluster, found_at_start=world.found_at_start)
    if not world.found_at_start:
        told = predict(before, "t")
        assert told.is_complete is not is_there(cluster), told
        assert held - logs(cluster) == told.deleted & held, told
    if is_there(cluster):
        told = predict(read(cluster), "t", asked=True)
        assert not told.is_complete, told
        if world.found_at_start and not is_led(before):  # looks as if it had begun, and perhaps has not
            assert held - logs(cluster) <= told.deleted, told
        else:
            assert held - logs(cluster) == told.deleted & held, told
        tells_what_is_gone(cluster, held)


def is_led(context: ControllerContext) -> bool:
    return any(
        (leadership := context.leadership(each)) is not None and leadership.leader >= 0
        for each in context.partitions_for_topic("t")
    )


def tells_what_is_gone(cluster: SimulatedCluster, held: frozenset[PartitionAndReplica]) -> None:
    """What the reasons say of each partition is so."""
    context, gone = read(cluster, queued=True), {each.partition for each in held - logs(cluster)}
    for reason in deletion_eligibility(context, "t").reasons:
        if "nothing of the partition is deleted yet" in reason.text:
            assert reason.partition not in gone
        elif "deleted already, or nobody can read them" in reason.text:
            leadership = context.leadership(reason.partition)
            assert leadership is None or leadership.leader < 0
        else:
            assert reason.kind is IneligibilityKind.NEVER_LED
