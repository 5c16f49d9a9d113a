"""The requests of a controller as messages of Kafka's protocol, and what brokers answer to them.

Source: Kafka 3.9 `LeaderAndIsrRequest`, `UpdateMetadataRequest`, `StopReplicaRequest` and their responses.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar, assert_never

from controller_core.adapters.brokers.access import SECURITY_PROTOCOLS
from controller_core.messages.effects import (
    BrokerRequest,
    LeaderAndIsrPartition,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
    TopicIds,
    UpdateMetadataPartition,
)
from controller_core.model.errors import UnsupportedRequestError
from controller_core.model.partitions import ZERO_TOPIC_ID, Broker, TopicPartition
from controller_core.wire.messages import (
    LEADER_AND_ISR,
    LEADER_AND_ISR_ANSWER,
    STOP_REPLICA,
    STOP_REPLICA_ANSWER,
    UPDATE_METADATA,
    UPDATE_METADATA_ANSWER,
    error_name,
)
from controller_core.wire.schema import Message

_Row = TypeVar("_Row", LeaderAndIsrPartition, UpdateMetadataPartition)


class Api(NamedTuple):
    """A request of a controller with its response."""

    request: Message
    answer: Message


LEADER_AND_ISR_API: Final = Api(LEADER_AND_ISR, LEADER_AND_ISR_ANSWER)
UPDATE_METADATA_API: Final = Api(UPDATE_METADATA, UPDATE_METADATA_ANSWER)
STOP_REPLICA_API: Final = Api(STOP_REPLICA, STOP_REPLICA_ANSWER)


def api_of(request: BrokerRequest) -> Api:
    """Which messages a request and its answer are."""
    match request:
        case SendLeaderAndIsr():
            return LEADER_AND_ISR_API
        case SendUpdateMetadata():
            return UPDATE_METADATA_API
        case SendStopReplica():
            return STOP_REPLICA_API
        case _:
            assert_never(request)


def version_for(request: BrokerRequest, newest: int, *, pinned: bool) -> int:
    """The version to send: the newest that broker and controller know, or the request's own if `pinned`.

    A LeaderAndIsr whose topics have no ids is sent in a version that names topics: the answer would name them all by the
    same zero id.

    Args:
        request: what is to be sent.
        newest: the newest version that the broker knows.
        pinned: that of the inter.broker.protocol.version, which the request names.

    Raises:
        UnsupportedRequestError: the broker does not know the pinned version.
    """
    message = api_of(request).request
    if pinned:
        if request.version > newest:
            raise UnsupportedRequestError(
                f"{message.name} version {request.version} not sent to broker {request.broker}: it knows {newest} at most; pin an "
                "older inter.broker.protocol.version"
            )
        return request.version
    version = min(message.newest, newest)
    if isinstance(request, SendLeaderAndIsr):
        ids = dict(request.topic_ids)
        unnamed = any(ids.get(row.partition.topic) is None for row in request.partition_states)
        while unnamed and message.has("topic_states.topic_id", version):
            version -= 1
    return version


def request_values(request: BrokerRequest, version: int) -> dict[str, Any]:
    """The fields of a request, for `wire.codec.encode`.

    Raises:
        UnsupportedRequestError: the version cannot say what the request says.
    """
    common = {
        "controller_id": request.controller_id,
        "is_kraft_controller": False,
        "controller_epoch": request.controller_epoch,
        "broker_epoch": request.broker_epoch,
        "type": 0,  # as a controller in ZooKeeper mode sends it
    }
    match request:
        case SendLeaderAndIsr():
            return common | _leader_and_isr(request)
        case SendUpdateMetadata():
            return common | _update_metadata(request)
        case SendStopReplica():
            return common | _stop_replica(request, version)
        case _:
            assert_never(request)


def answered_errors(
    request: BrokerRequest, version: int, values: Mapping[str, Any]
) -> tuple[str, dict[TopicPartition, str]]:
    """Kafka's name of the error of a response as a whole, and those of partitions that have one."""
    rows: list[tuple[str, int, int]] = []
    if isinstance(request, SendLeaderAndIsr) and LEADER_AND_ISR_ANSWER.has("topics", version):
        names = {topic_id: topic for topic, topic_id in request.topic_ids}
        for topic in values["topics"]:
            name = names.get(topic["topic_id"], topic["topic_id"])
            rows += [(name, row["partition_index"], row["error_code"]) for row in topic["partition_errors"]]
    elif not isinstance(request, SendUpdateMetadata):
        rows = [(row["topic_name"], row["partition_index"], row["error_code"]) for row in values["partition_errors"]]
    errors = {TopicPartition(topic, number): error_name(code) for topic, number, code in rows if code}
    return error_name(values["error_code"]), errors


def _leader_and_isr(request: SendLeaderAndIsr) -> dict[str, Any]:
    return {
        **_by_topic(request.partition_states, _leader_and_isr_row, request.topic_ids),
        "live_leaders": [
            {"broker_id": leader.id, "host_name": leader.host, "port": leader.port} for leader in request.live_leaders
        ],
    }


def _leader_and_isr_row(row: LeaderAndIsrPartition) -> dict[str, Any]:
    (topic, number), (leader, leader_epoch, isr, recovery, partition_epoch, controller_epoch, _), assignment, is_new = (
        row
    )
    return {
        "topic_name": topic,
        "partition_index": number,
        "controller_epoch": controller_epoch,
        "leader": leader,
        "leader_epoch": leader_epoch,
        "isr": isr,
        "partition_epoch": partition_epoch,
        "replicas": assignment.replicas,
        "adding_replicas": assignment.adding,
        "removing_replicas": assignment.removing,
        "is_new": is_new,
        "leader_recovery_state": recovery,
    }


def _update_metadata(request: SendUpdateMetadata) -> dict[str, Any]:
    return {
        **_by_topic(request.partition_states, _update_metadata_row, request.topic_ids),
        "live_brokers": [_live_broker(broker) for broker in request.live_brokers],
    }


def _update_metadata_row(row: UpdateMetadataPartition) -> dict[str, Any]:
    (topic, number), (leader, leader_epoch, isr, _, zk_version, controller_epoch, _), replicas, offline = row
    return {
        "topic_name": topic,
        "partition_index": number,
        "controller_epoch": controller_epoch,
        "leader": leader,
        "leader_epoch": leader_epoch,
        "isr": isr,
        "zk_version": zk_version,
        "replicas": replicas,
        "offline_replicas": offline,
    }


def _stop_replica(request: SendStopReplica, version: int) -> dict[str, Any]:
    states = request.partition_states
    flags = {row.delete_partition for row in states}
    if len(flags) > 1 and not STOP_REPLICA.has("topic_states", version):
        raise UnsupportedRequestError(
            f"StopReplica not sent to broker {request.broker}: version {version} has one flag for all partitions, and only some of "
            f"these {len(states)} are to be deleted; the dialect must be that of an older inter.broker.protocol.version"
        )
    grouped: dict[str, list[dict[str, Any]]] = {}
    for row in states:
        fields = {
            "partition_index": row.partition.partition,
            "leader_epoch": row.leader_epoch,
            "delete_partition": row.delete_partition,
        }
        grouped.setdefault(row.partition.topic, []).append(fields)
    return {
        "delete_partitions": True in flags,
        "ungrouped_partitions": [
            {"topic_name": row.partition.topic, "partition_index": row.partition.partition} for row in states
        ],
        "topics": [
            {"name": topic, "partition_indexes": [row["partition_index"] for row in rows]}
            for topic, rows in grouped.items()
        ],
        "topic_states": [{"topic_name": topic, "partition_states": rows} for topic, rows in grouped.items()],
    }


class _Rows(Generic[_Row]):
    """Rows that become fields one by one while they are written: those of a large cluster would fill the memory."""

    def __init__(self, rows: Sequence[_Row], fields: Callable[[_Row], dict[str, Any]]) -> None:
        self._rows: Sequence[_Row] = rows
        self._fields: Callable[[_Row], dict[str, Any]] = fields

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[dict[str, Any]]:
        return map(self._fields, self._rows)


def _by_topic(rows: Sequence[_Row], fields: Callable[[_Row], dict[str, Any]], topic_ids: TopicIds) -> dict[str, Any]:
    """The rows one after the other, as old versions want them, and grouped by topic."""
    ids = dict(topic_ids)
    grouped: dict[str, list[_Row]] = {}
    for row in rows:
        grouped.setdefault(row[0][0], []).append(row)
    return {
        "ungrouped_partition_states": _Rows(rows, fields),
        "topic_states": [
            {"topic_name": topic, "topic_id": ids.get(topic) or ZERO_TOPIC_ID, "partition_states": _Rows(own, fields)}
            for topic, own in grouped.items()
        ],
    }


def _live_broker(broker: Broker) -> dict[str, Any]:
    first = next((each for each in broker.endpoints if each.security_protocol == "PLAINTEXT"), None)
    return {
        "id": broker.id,
        "v0_host": first.host if first else "",
        "v0_port": first.port if first else -1,
        "endpoints": [
            {
                "port": each.port,
                "host": each.host,
                "listener": each.listener,
                "security_protocol": SECURITY_PROTOCOLS[each.security_protocol],
            }
            for each in broker.endpoints
        ],
        "rack": broker.rack,
    }
