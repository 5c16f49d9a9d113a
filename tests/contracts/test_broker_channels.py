"""One contract for brokers and the channels to them: simulated brokers behind a socket, and real ones."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from queue import Queue
from typing import Any, NamedTuple

import pytest

from controller_core.adapters.brokers.access import PLAIN_ACCESS
from controller_core.adapters.brokers.channels import BrokerAnswered, TcpChannels
from controller_core.adapters.brokers.connection import BrokerConnection, ClusterMetadata
from controller_core.messages.effects import (
    BrokerRequest,
    LeaderAndIsrPartition,
    LiveLeader,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
    StopReplicaPartition,
    UpdateMetadataPartition,
)
from controller_core.model.dialect import dialect_for
from controller_core.model.partitions import Broker, BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controller_core.runtime.kafka_zk.adapter import KafkaZk
from controller_core.runtime.kafka_zk.base import formats_of
from kafka_maintenance.servers.kafka import KafkaCluster
from kafka_maintenance.servers.process import wait_until
from tests.broker_server import BrokerServer

WAIT_S = 20.0
PARTITION = TopicPartition("orders", 0)
GHOST = BrokerId(2_000_000_001)
REPLICAS = (BrokerId(1), BrokerId(2))
SIMULATED_ID = "c2ltdWxhdGVkLXRvcGljLQ"


class World(NamedTuple):
    """Two brokers with one topic on both; `epoch` is higher than that of any controller that they heard of."""

    brokers: tuple[Broker, ...]
    topic_id: str | None
    state: LeaderAndIsr
    epoch: int
    knows_broker_epochs: bool


@pytest.fixture(
    params=[
        "simulated",
        pytest.param("3.9", marks=pytest.mark.kafka),
        pytest.param("1.1", marks=pytest.mark.kafka),
    ]
)
def world(request: pytest.FixtureRequest) -> Iterator[World]:
    with ExitStack() as stack:
        if request.param == "simulated":
            servers = [stack.enter_context(BrokerServer(broker, 100 + broker)) for broker in REPLICAS]
            state = LeaderAndIsr(REPLICAS[0], 0, REPLICAS, controller_epoch=1)
            yield World(tuple(each.registered for each in servers), SIMULATED_ID, state, 10, knows_broker_epochs=True)
            return
        cluster = stack.enter_context(KafkaCluster(request.param, brokers=2, mode="shared_jvm"))
        kafka = KafkaZk(stack.enter_context(cluster.session()), formats_of(dialect_for(request.param)))
        kafka.create_topic(PARTITION.topic, {0: ReplicaAssignment(REPLICAS)})
        wait_until(lambda: len(kafka.get_states([PARTITION])[0]) == 1, what="the topic is created", timeout_s=WAIT_S)
        brokers = tuple(each.broker for each in kafka.get_brokers())
        topic = kafka.get_topics([PARTITION.topic])[0][PARTITION.topic]
        state = kafka.get_states([PARTITION])[0][PARTITION]
        yield World(brokers, topic.topic_id, state, 10, knows_broker_epochs=request.param != "1.1")


class Controller:
    """Sends requests, and waits for their answers."""

    def __init__(self, world: World, channels: TcpChannels, answers: "Queue[BrokerAnswered]") -> None:
        self.world = world
        self.channels = channels
        self.answers = answers

    def head(self, broker: Broker) -> dict[str, Any]:
        return {
            "broker": broker.id,
            "broker_epoch": broker.epoch,
            "version": 0,
            "controller_id": GHOST,
            "controller_epoch": self.world.epoch,
        }

    def metadata(self, broker: Broker, state: LeaderAndIsr) -> SendUpdateMetadata:
        row = UpdateMetadataPartition(PARTITION, state, REPLICAS, ())
        ids = ((PARTITION.topic, self.world.topic_id),)
        head = self.head(broker)
        return SendUpdateMetadata(**head, partition_states=(row,), live_brokers=self.world.brokers, topic_ids=ids)

    def leadership(self, broker: Broker, state: LeaderAndIsr) -> SendLeaderAndIsr:
        row = LeaderAndIsrPartition(PARTITION, state, ReplicaAssignment(REPLICAS), is_new=False)
        leaders = tuple(
            LiveLeader(each.id, each.endpoints[0].host, each.endpoints[0].port)
            for each in self.world.brokers
            if each.id == state.leader
        )
        ids = ((PARTITION.topic, self.world.topic_id),)
        return SendLeaderAndIsr(**self.head(broker), partition_states=(row,), live_leaders=leaders, topic_ids=ids)

    def stop(self, broker: Broker, *, delete: bool) -> SendStopReplica:
        return SendStopReplica(**self.head(broker), partition_states=(StopReplicaPartition(PARTITION, delete, -2),))

    def ask(self, request: BrokerRequest) -> BrokerAnswered:
        self.channels.send(request)
        return self.answers.get(timeout=WAIT_S)

    def believed(self, broker: Broker) -> ClusterMetadata:
        connection = BrokerConnection(broker, PLAIN_ACCESS, timeout_s=WAIT_S)
        try:
            return connection.metadata([PARTITION.topic], timeout_s=WAIT_S)
        finally:
            connection.close()


@pytest.fixture
def controller(world: World) -> Iterator[Controller]:
    answers: Queue[BrokerAnswered] = Queue()
    with TcpChannels(answers.put) as channels:
        channels.open(world.brokers)
        yield Controller(world, channels, answers)


def test_brokers_obey_a_controller(controller: Controller) -> None:
    """One world for all: real brokers take seconds to start."""
    first, second = controller.world.brokers
    state = controller.world.state
    moved = state._replace(
        leader=second.id, leader_epoch=state.leader_epoch + 1, controller_epoch=controller.world.epoch
    )

    # metadata reaches the broker that is told, and no other
    assert controller.ask(controller.metadata(first, moved)).error == "NONE"
    believed = controller.believed(first)
    assert believed.partitions[PARTITION].leader == second.id
    assert (believed.brokers, believed.partitions[PARTITION].replicas) == ((1, 2), REPLICAS)

    # a leadership is taken once
    for broker in (first, second):
        answered = controller.ask(controller.leadership(broker, moved))
        assert (answered.request.broker, answered.error, answered.partition_errors) == (broker.id, "NONE", {})
    again = controller.ask(controller.leadership(second, moved))
    assert (again.error, again.partition_errors) == ("NONE", {PARTITION: "STALE_CONTROLLER_EPOCH"})

    # an older controller is refused, whatever it asks
    for request in (
        controller.metadata(first, moved),
        controller.leadership(first, moved),
        controller.stop(first, delete=True),
    ):
        old = controller.ask(replace(request, controller_epoch=controller.world.epoch - 1))
        assert old.error == "STALE_CONTROLLER_EPOCH"

    # so is a request to an earlier run of the broker
    earlier = controller.ask(replace(controller.metadata(first, moved), broker_epoch=first.epoch - 1))
    assert earlier.error == ("STALE_BROKER_EPOCH" if controller.world.knows_broker_epochs else "NONE")

    # requests to one broker are answered in order, and the last one counts
    states = [moved._replace(leader_epoch=10 + number, leader=REPLICAS[number % 2]) for number in range(20)]
    for each in states:
        controller.channels.send(controller.metadata(first, each))
    in_order = [controller.answers.get(timeout=WAIT_S).request for _ in states]
    assert [request.partition_states[0].leadership for request in in_order] == states
    assert controller.believed(first).partitions[PARTITION].leader == states[-1].leader
    assert controller.channels.metrics()[first.id].queue_length == 0

    # a replica is stopped, and deleted
    assert controller.ask(controller.stop(second, delete=False)) == BrokerAnswered(
        controller.stop(second, delete=False), "NONE"
    )
    assert controller.ask(controller.stop(second, delete=True)).partition_errors == {}

    # what is queued for a broker that is gone is dropped
    controller.channels.close([first.id])
    controller.channels.send(controller.metadata(first, moved))
    assert controller.ask(controller.metadata(second, moved)).request.broker == second.id
    assert controller.answers.empty()
