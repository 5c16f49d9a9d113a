"""What a controller of ours is asked: requests become events of the core, its replies go back to who asked.

Metadata, producer ids and new topics are no events of the core: they are answered here, from what it knows and from ZooKeeper; who asked for a topic
is told when it has its leaders.
Source: Kafka 3.9 `KafkaApis`, `KafkaController.processAllocateProducerIds`, `DelayedCreatePartitions`.
"""

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import dataclass
from random import SystemRandom
from typing import Any, Final, assert_never

from controller_core.adapters.brokers.asked import Asked, event_of_request, response_of
from controller_core.adapters.brokers.request_server import Answer
from controller_core.context.context import ControllerContext
from controller_core.messages import effects as e
from controller_core.messages.events import (
    AlterPartition,
    AlterReassignments,
    ControlledShutdown,
    ElectLeaders,
    ListReassignments,
    RequestEvent,
)
from controller_core.model.partitions import NO_LEADER, ZERO_TOPIC_ID, BrokerId, TopicPartition
from controller_core.runtime.created_topics import Created, create_topics, have_leaders
from controller_core.runtime.kafka_zk.adapter import KafkaZk
from controller_core.runtime.producer_ids import BLOCK_SIZE, allocate_producer_ids
from controller_core.wire.controller_requests import ALLOCATE_PRODUCER_IDS, CREATE_TOPICS
from controller_core.wire.messages import METADATA, error_code

_NOT_SAID: Final = -(2**31)
"""Of authorised operations: no answer says them."""
_NO_LEADER_ERROR: Final = error_code("LEADER_NOT_AVAILABLE")


@dataclass(frozen=True, slots=True)
class Request:
    """What a broker or client asks, and how to answer."""

    asked: Asked
    answer: Answer


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A request that is an event now; `topics` are topic id → topic at that moment."""

    request: Request
    topics: Mapping[str, str]


class ServedRequests:
    """The requests that wait for a reply, oldest first.

    Attributes:
        names: of all requests so far.
    """

    def __init__(self, kafka: KafkaZk) -> None:
        self._kafka = kafka
        self._creations: list[tuple[Answer, Created]] = []
        self._waiting: defaultdict[tuple[type[e.Reply], BrokerId | None], deque[_Waiting]] = defaultdict(deque)
        self.names: list[str] = []

    def event_of(self, request: Request, context: ControllerContext) -> RequestEvent | None:
        """The event that a request is; None where it is answered here: new topics by `answer_creations`, the others at once.

        Raises:
            ZooKeeperError: producer ids cannot be read or written, or a topic's znodes not be written.
        """
        asked = request.asked
        self.names.append(asked.message.name)
        if asked.message is ALLOCATE_PRODUCER_IDS:
            request.answer(self._producer_ids(asked, context))
            return None
        if asked.message is METADATA:
            request.answer(metadata_of(asked, context) if context.is_active else None)
            return None
        if asked.message is CREATE_TOPICS:
            self._creations.append((request.answer, create_topics(self._kafka, context, asked.values, SystemRandom())))
            return None
        topics = {entry.topic_id: topic for topic, entry in context.topics.items() if entry.topic_id is not None}
        try:
            event = event_of_request(asked, topics)
        except ValueError:  # a recovery state that nobody knows: nothing sensible can be said
            request.answer(None)
            return None
        self._waiting[_reply_to(event)].append(_Waiting(request, topics))
        return event

    def reply(self, reply: e.Reply) -> None:
        """Answers whoever asked first; a controlled shutdown whose batch was refused is answered twice, the second time nobody waits."""
        broker = reply.broker if isinstance(reply, e.ReplyControlledShutdown | e.ReplyAlterPartition) else None
        waiting = self._waiting[type(reply), broker]
        if waiting:
            first = waiting.popleft()
            first.request.answer(response_of(first.request.asked, reply, first.topics))

    def answer_creations(self, context: ControllerContext) -> None:
        """Answers who asked for topics that all have their leaders by now."""
        over = [each for each in self._creations if have_leaders(context, each[1].awaited)]
        for answer, created in over:
            answer(created.response())
        self._creations = [each for each in self._creations if each not in over]

    def _producer_ids(self, asked: Asked, context: ControllerContext) -> dict[str, Any]:
        broker = BrokerId(asked.values["broker_id"])
        known = context.brokers.get(broker)
        if not context.is_active:
            return _producer_ids(error="NOT_CONTROLLER")
        if known is None or known.epoch != asked.values["broker_epoch"]:
            return _producer_ids(error="STALE_BROKER_EPOCH")
        return _producer_ids(allocate_producer_ids(self._kafka.zookeeper, broker).block_start, BLOCK_SIZE)


def _producer_ids(start: int = 0, count: int = 0, *, error: str = "NONE") -> dict[str, Any]:
    return {
        "throttle_time_ms": 0,
        "error_code": error_code(error),
        "producer_id_start": start,
        "producer_id_len": count,
    }


def metadata_of(asked: Asked, context: ControllerContext) -> dict[str, Any]:
    """The fields of a Metadata response: what the active controller told its brokers; the first endpoint of each broker."""
    wanted = asked.values["topics"]
    told = {name: _told_of(context, name) for name in context.topics}
    told = {name: partitions for name, partitions in told.items() if partitions}
    names = (
        sorted(told)
        if wanted is None
        else [row["name"] or context.topic_names.get(row["topic_id"], "") for row in wanted]
    )
    brokers = [
        {
            "node_id": broker.id,
            "host": broker.endpoints[0].host,
            "port": broker.endpoints[0].port,
            "rack": broker.rack,
        }
        for broker in context.brokers.values()
    ]
    controller = context.active_controller_id
    return {
        "throttle_time_ms": 0,
        "cluster_id": None,
        "cluster_authorized_operations": _NOT_SAID,
        "brokers": brokers,
        "controller_id": -1 if controller is None else controller,
        "topics": [
            {
                "error_code": 0 if name in told else error_code("UNKNOWN_TOPIC_OR_PARTITION"),
                "name": name,
                "topic_id": context.topics[name].topic_id or ZERO_TOPIC_ID if name in told else ZERO_TOPIC_ID,
                "topic_authorized_operations": _NOT_SAID,
                "is_internal": name.startswith("__"),
                "partitions": [_partition(context, each) for each in told.get(name, ())],
            }
            for name in names
        ],
    }


def _told_of(context: ControllerContext, topic: str) -> list[TopicPartition]:
    """Partitions of which brokers heard: that have or had a leader, of a topic that is not to be deleted."""
    if topic in context.topics_to_be_deleted:
        return []
    return [each for each in sorted(context.partitions_for_topic(topic)) if context.leadership(each) is not None]


def _partition(context: ControllerContext, partition: TopicPartition) -> dict[str, Any]:
    state = context.leadership(partition)
    leader = NO_LEADER if state is None else state.leader
    replicas = context.full_assignment(partition).replicas
    return {
        "error_code": _NO_LEADER_ERROR if leader == NO_LEADER else 0,
        "partition_index": partition.partition,
        "leader_id": leader,
        "leader_epoch": -1 if state is None else state.leader_epoch,
        "offline_replicas": [each for each in replicas if not context.is_replica_online(each, partition)],
        "replica_nodes": replicas,
        "isr_nodes": () if state is None else state.isr,
    }


def _reply_to(event: RequestEvent) -> tuple[type[e.Reply], BrokerId | None]:
    """Which reply answers an event, and to which broker."""
    match event:
        case ControlledShutdown(broker=broker):
            return e.ReplyControlledShutdown, broker
        case AlterPartition(broker=broker):
            return e.ReplyAlterPartition, broker
        case ElectLeaders():
            return e.ReplyElections, None
        case AlterReassignments():
            return e.ReplyReassignments, None
        case ListReassignments():
            return e.ReplyReassignmentList, None
        case _:
            assert_never(event)
