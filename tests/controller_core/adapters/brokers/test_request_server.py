"""The listener of a controller of ours: what is asked over a socket becomes an event, and its reply comes back."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from controller_core.adapters.brokers.access import PLAIN_ACCESS
from controller_core.adapters.brokers.asked import Asked, event_of_request, response_of
from controller_core.adapters.brokers.connection import BrokerConnection
from controller_core.adapters.brokers.request_server import HOST, Answer, ControllerServer
from controller_core.context.context import ControllerContext
from controller_core.messages.effects import Reply, ReplyAlterPartition, ReplyControlledShutdown
from controller_core.messages.events import AlterPartition, ControlledShutdown, IsrChange, RequestEvent
from controller_core.model.config import ControllerConfig
from controller_core.model.dialect import dialect_for
from controller_core.model.errors import BrokerUnreachableError
from controller_core.model.partitions import Broker, BrokerId, Endpoint, LeaderAndIsr, TopicPartition
from controller_core.runtime.kafka_zk.adapter import KafkaZk
from controller_core.runtime.kafka_zk.base import formats_of
from controller_core.runtime.served_requests import Request, ServedRequests
from controller_core.runtime.simulated.zookeeper import MemoryServer
from controller_core.wire import controller_requests as c
from controller_core.wire.codec import decode, encode
from controller_core.wire.messages import METADATA, METADATA_ANSWER, error_code
from controller_core.wire.schema import Message
from tests.controller_core.clusters import cluster, partition

TOPIC_ID = "b3JkZXJzLW9yZGVycy1vcg"
TOPICS = {TOPIC_ID: "orders"}
TIMEOUT_S = 20.0
BROKER = BrokerId(2)
STATE = LeaderAndIsr(BROKER, 7, (BROKER, BrokerId(3)), partition_epoch=12)
ISR = [{"broker_id": 2, "broker_epoch": 40}, {"broker_id": 3, "broker_epoch": -1}]


def alter_partition(version: int, topic_id: str = TOPIC_ID) -> dict[str, Any]:
    row = {"partition_index": 0, "leader_epoch": 7, "leader_recovery_state": 0, "partition_epoch": 11}
    row |= {"new_isr": [2, 3], "new_isr_with_epochs": ISR}
    topic = {"topic_name": "orders", "topic_id": topic_id, "partitions": [row]}
    return {"broker_id": 2, "broker_epoch": 40, "topics": [topic]}


class World:
    """A server whose requests are answered by a given reply, and a connection to it."""

    def __init__(self) -> None:
        self.events: list[RequestEvent] = []
        self.reply: Reply = ReplyControlledShutdown(broker=BROKER)
        self.server = ControllerServer(self._asked)
        endpoint = Endpoint(HOST, self.server.port, "PLAINTEXT", "PLAINTEXT")
        self.connection = BrokerConnection(Broker(BrokerId(1000), 1, (endpoint,)), PLAIN_ACCESS, timeout_s=TIMEOUT_S)

    def _asked(self, asked: Asked, answer: Answer) -> None:
        self.events.append(event_of_request(asked, TOPICS))
        answer(response_of(asked, self.reply, TOPICS))

    def ask(self, message: Message, answer: Message, version: int, values: dict[str, Any]) -> dict[str, Any]:
        return self.connection.ask(message, answer, version, values, timeout_s=TIMEOUT_S)


@pytest.fixture
def world() -> Iterator[World]:
    found = World()
    with found.server:
        yield found
        found.connection.close()


def test_it_says_which_versions_it_knows(world: World) -> None:
    served = {each.api_key: (0, each.newest) for each in (c.CONTROLLED_SHUTDOWN, c.ALTER_PARTITION, METADATA)}
    assert served.items() <= world.connection.versions.items()


@pytest.mark.parametrize("version", range(1, c.CONTROLLED_SHUTDOWN.newest + 1))
def test_a_controlled_shutdown_is_told_what_the_broker_still_leads(world: World, version: int) -> None:
    world.reply = ReplyControlledShutdown(broker=BROKER, partitions_still_led=(TopicPartition("orders", 4),))
    asked = {"broker_id": 2, "broker_epoch": 40}
    answer = world.ask(c.CONTROLLED_SHUTDOWN, c.CONTROLLED_SHUTDOWN_ANSWER, version, asked)
    assert world.events == [ControlledShutdown(BROKER, 40 if version >= 2 else None)]
    assert answer == {"error_code": 0, "remaining_partitions": [{"topic_name": "orders", "partition_index": 4}]}


@pytest.mark.parametrize(
    ("error", "told"),
    [
        ("ControllerMoved", "STALE_CONTROLLER_EPOCH"),
        ("StaleBrokerEpoch", "STALE_BROKER_EPOCH"),
        ("BrokerNotAvailable", "BROKER_NOT_AVAILABLE"),
        ("IllegalState", "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_a_shutdown_that_is_refused_says_why_as_kafka_does(world: World, error: str, told: str) -> None:
    world.reply = ReplyControlledShutdown(broker=BROKER, error=error)
    asked = {"broker_id": 2, "broker_epoch": 40}
    answer = world.ask(c.CONTROLLED_SHUTDOWN, c.CONTROLLED_SHUTDOWN_ANSWER, 3, asked)
    assert answer["error_code"] == error_code(told)


@pytest.mark.parametrize("version", range(c.ALTER_PARTITION.newest + 1))
def test_a_leader_that_alters_its_isr_hears_the_new_state(world: World, version: int) -> None:
    world.reply = ReplyAlterPartition(broker=BROKER, accepted=((TopicPartition("orders", 0), STATE),))
    answer = world.ask(c.ALTER_PARTITION, c.ALTER_PARTITION_ANSWER, version, alter_partition(version))
    change = IsrChange(TopicPartition("orders", 0), 7, 11, (BROKER, BrokerId(3)))
    assert world.events == [AlterPartition(BROKER, 40, (change,), version)]
    [topic] = answer["topics"]
    assert topic["topic_id" if version >= 2 else "topic_name"] == (TOPIC_ID if version >= 2 else "orders")
    [row] = topic["partitions"]
    assert (row["leader_id"], row["leader_epoch"], row["isr"], row["partition_epoch"]) == (2, 7, [2, 3], 12)


def test_a_topic_id_that_nobody_knows_is_answered_by_that_id(world: World) -> None:
    other = TOPIC_ID.replace("b3", "c3")
    world.reply = ReplyAlterPartition(broker=BROKER, errors=((f"{other}-0", "UNKNOWN_TOPIC_ID"),))
    answer = world.ask(c.ALTER_PARTITION, c.ALTER_PARTITION_ANSWER, 3, alter_partition(3, other))
    [topic] = answer["topics"]
    assert (topic["topic_id"], topic["partitions"][0]["error_code"]) == (other, error_code("UNKNOWN_TOPIC_ID"))


def test_a_request_that_is_not_served_ends_the_connection(world: World) -> None:
    produce = Message("Produce", 0, 0, 32_767, ())
    with pytest.raises(BrokerUnreachableError, match="the end of the connection"):
        world.ask(produce, produce, 0, {})


def test_what_is_no_event_of_the_core_is_answered_from_what_it_knows() -> None:
    told: list[Any] = []
    served = ServedRequests(KafkaZk(MemoryServer().session(), formats_of(dialect_for("3.9"))))
    context = ControllerContext(dialect=dialect_for("3.9"), config=ControllerConfig(controller_id=BrokerId(1000)))
    ids = Asked(c.ALLOCATE_PRODUCER_IDS, 0, {"broker_id": 2, "broker_epoch": 40})
    assert served.event_of(Request(ids, told.append), context) is None
    assert told[-1]["error_code"] == error_code("NOT_CONTROLLER")
    metadata = Request(Asked(METADATA, 9, {"topics": [{"name": "gone"}]}), told.append)
    assert served.event_of(metadata, context) is None
    assert told[-1] is None, "who is not the active controller knows no broker: who asks is to ask another one"
    assert served.event_of(metadata, replace(context, active_controller_id=BrokerId(1000))) is None
    answer = told.pop()
    assert answer["topics"][0]["error_code"] == error_code("UNKNOWN_TOPIC_OR_PARTITION")
    assert isinstance(answer, dict)
    assert set(decode(METADATA_ANSWER, 9, encode(METADATA_ANSWER, 9, answer))) == set(answer)


def test_a_replica_whose_log_directory_failed_is_told_as_offline_though_its_broker_lives() -> None:
    context = replace(
        cluster({"t-0": (1, 2), "t-1": (1, 2)}), offline_dirs={BrokerId(1): frozenset({partition("t-0")})}
    )
    told: list[Any] = []
    served = ServedRequests(KafkaZk(MemoryServer().session(), formats_of(context.dialect)))
    served.event_of(Request(Asked(METADATA, 9, {"topics": [{"name": "t"}]}), told.append), context)
    (topic,) = told[0]["topics"]
    assert [row["offline_replicas"] for row in topic["partitions"]] == [[1], []]
