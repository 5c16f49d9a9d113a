"""A request under plain names, only with the fields that its version has, as the conformance contract asks for it.

Which version has which field is said by `wire.messages`.
"""

from collections.abc import Callable, Iterable
from typing import Any, TypeVar, assert_never

from controller_core.messages.effects import (
    BrokerRequest,
    LeaderAndIsrPartition,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
    StopReplicaPartition,
    TopicIds,
    UpdateMetadataPartition,
)
from controller_core.model.partitions import ZERO_TOPIC_ID, Broker, LeaderAndIsr, LeaderRecoveryState, TopicPartition
from controller_core.wire.messages import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA
from controller_core.wire.schema import Message

_Fields = dict[str, Any]
_Row = TypeVar("_Row", LeaderAndIsrPartition, UpdateMetadataPartition, StopReplicaPartition)
_ROW = "topic_states.partition_states"


def request_fields(request: BrokerRequest) -> _Fields:
    """The request as its version carries it: `api`, `version`, header fields, `partition_states` by partition."""
    match request:
        case SendLeaderAndIsr():
            return _leader_and_isr(request)
        case SendUpdateMetadata():
            return _update_metadata(request)
        case SendStopReplica():
            return _stop_replica(request)
        case _:
            assert_never(request)


def _only(message: Message, version: int, fields: Iterable[tuple[str, str, Any]]) -> _Fields:
    """Plain name → value, of the fields (first their path) that the version has."""
    return {name: value for path, name, value in fields if message.has(path, version)}


def _header(request: BrokerRequest, message: Message) -> _Fields:
    return {
        "api": message.name,
        "version": request.version,
        "controller_id": request.controller_id,
        "controller_epoch": request.controller_epoch,
        **_only(message, request.version, (("broker_epoch", "broker_epoch", request.broker_epoch),)),
    }


def _kraft(message: Message, version: int) -> _Fields:
    return _only(message, version, (("is_kraft_controller", "is_kraft_controller", False),))


def _leader_and_isr(request: SendLeaderAndIsr) -> _Fields:
    version = request.version

    def state(row: LeaderAndIsrPartition) -> _Fields:
        knows_recovery = LEADER_AND_ISR.has(f"{_ROW}.leader_recovery_state", version)
        recovery = row.leadership.recovery if knows_recovery else LeaderRecoveryState.RECOVERED
        return {
            **_leadership(row.leadership),
            "replicas": list(row.assignment.replicas),
            "leader_recovery_state": recovery.name,
            **_only(
                LEADER_AND_ISR,
                version,
                (
                    (f"{_ROW}.adding_replicas", "adding", list(row.assignment.adding)),
                    (f"{_ROW}.removing_replicas", "removing", list(row.assignment.removing)),
                    ("ungrouped_partition_states.is_new", "is_new", row.is_new),
                    (f"{_ROW}.is_new", "is_new", row.is_new),
                ),
            ),
        }

    return {
        **_header(request, LEADER_AND_ISR),
        **_only(LEADER_AND_ISR, version, (("type", "type", "UNKNOWN"),)),
        **_kraft(LEADER_AND_ISR, version),
        "partition_states": _states(request.partition_states, state),
        "live_leaders": [leader._asdict() for leader in request.live_leaders],
        **_topics(request.partition_states, request.topic_ids),
    }


def _update_metadata(request: SendUpdateMetadata) -> _Fields:
    version = request.version

    def state(row: UpdateMetadataPartition) -> _Fields:
        value = list(row.offline_replicas)
        paths = ("ungrouped_partition_states.offline_replicas", f"{_ROW}.offline_replicas")
        offline = _only(UPDATE_METADATA, version, [(path, "offline_replicas", value) for path in paths])
        return {**_leadership(row.leadership), "replicas": list(row.replicas), **offline}

    return {
        **_header(request, UPDATE_METADATA),
        **_only(UPDATE_METADATA, version, (("type", "type", "UNKNOWN"),)),
        **_kraft(UPDATE_METADATA, version),
        "partition_states": _states(request.partition_states, state),
        "live_brokers": [broker.id for broker in request.live_brokers],
        "live_broker_endpoints": {str(broker.id): _broker(broker, version) for broker in request.live_brokers},
        **_topics(request.partition_states, request.topic_ids),
    }


def _stop_replica(request: SendStopReplica) -> _Fields:
    version = request.version

    def state(row: StopReplicaPartition) -> _Fields:
        epoch = _only(STOP_REPLICA, version, ((f"{_ROW}.leader_epoch", "leader_epoch", row.leader_epoch),))
        return {"delete_partition": row.delete_partition, **epoch}

    return {
        **_header(request, STOP_REPLICA),
        **_kraft(STOP_REPLICA, version),
        "partition_states": _states(request.partition_states, state),
    }


def _states(rows: Iterable[_Row], fields: Callable[[_Row], _Fields]) -> _Fields:
    return {str(row.partition): fields(row) for row in rows}


def _leadership(leadership: LeaderAndIsr) -> _Fields:
    return {
        "controller_epoch": leadership.controller_epoch,
        "leader": leadership.leader,
        "leader_epoch": leadership.leader_epoch,
        "isr": list(leadership.isr),
        "zk_version": leadership.partition_epoch,
    }


def _topics(rows: Iterable[LeaderAndIsrPartition | UpdateMetadataPartition], topic_ids: TopicIds) -> _Fields:
    fields: _Fields = {"topics": sorted({_topic(row.partition) for row in rows})}
    if topic_ids:
        fields["topic_ids"] = {topic: topic_id or ZERO_TOPIC_ID for topic, topic_id in topic_ids}
    return fields


def _topic(partition: TopicPartition) -> str:
    return partition.topic


def _broker(broker: Broker, version: int) -> _Fields:
    endpoints = [
        {
            "host": endpoint.host,
            "port": endpoint.port,
            "security_protocol": endpoint.security_protocol,
            **_only(UPDATE_METADATA, version, (("live_brokers.endpoints.listener", "listener", endpoint.listener),)),
        }
        for endpoint in broker.endpoints
    ]
    return {"endpoints": endpoints, **_only(UPDATE_METADATA, version, (("live_brokers.rack", "rack", broker.rack),))}
