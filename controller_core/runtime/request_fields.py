"""What a request carries on the wire: only the fields that its version has, under plain names.

Source: Kafka's request schemas `LeaderAndIsrRequest`, `UpdateMetadataRequest` and
`StopReplicaRequest` of 3.9. Adapters serialise from this; so do renderings and tests.
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
from controller_core.model.partitions import Broker, LeaderAndIsr, LeaderRecoveryState, TopicPartition

ZERO_TOPIC_ID = "A" * 22
"""Where the controller knows no id: the zero UUID in Kafka's base64."""
_Fields = dict[str, Any]
_Row = TypeVar("_Row", LeaderAndIsrPartition, UpdateMetadataPartition, StopReplicaPartition)
_RECOVERY_STATE_SINCE = 6


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


def _only(version: int, fields: Iterable[tuple[int, str, Any]]) -> _Fields:
    return {name: value for since, name, value in fields if version >= since}


def _header(request: BrokerRequest, api: str, broker_epoch_since: int) -> _Fields:
    fields: _Fields = {
        "api": api,
        "version": request.version,
        "controller_id": request.controller_id,
        "controller_epoch": request.controller_epoch,
    }
    if request.version >= broker_epoch_since:
        fields["broker_epoch"] = request.broker_epoch
    return fields


def _leader_and_isr(request: SendLeaderAndIsr) -> _Fields:
    version = request.version

    def state(row: LeaderAndIsrPartition) -> _Fields:
        recovery = row.leadership.recovery if version >= _RECOVERY_STATE_SINCE else LeaderRecoveryState.RECOVERED
        return {
            **_leadership(row.leadership),
            "replicas": list(row.assignment.replicas),
            "leader_recovery_state": recovery.name,
            **_only(
                version,
                (
                    (3, "adding", list(row.assignment.adding)),
                    (3, "removing", list(row.assignment.removing)),
                    (1, "is_new", row.is_new),
                ),
            ),
        }

    return {
        **_header(request, "LeaderAndIsr", 2),
        **_only(version, ((5, "type", "UNKNOWN"), (7, "is_kraft_controller", False))),
        "partition_states": _states(request.partition_states, state),
        "live_leaders": [leader._asdict() for leader in request.live_leaders],
        **_topics(request.partition_states, request.topic_ids),
    }


def _update_metadata(request: SendUpdateMetadata) -> _Fields:
    version = request.version

    def state(row: UpdateMetadataPartition) -> _Fields:
        offline = _only(version, ((4, "offline_replicas", list(row.offline_replicas)),))
        return {**_leadership(row.leadership), "replicas": list(row.replicas), **offline}

    return {
        **_header(request, "UpdateMetadata", 5),
        **_only(version, ((8, "type", "UNKNOWN"), (8, "is_kraft_controller", False))),
        "partition_states": _states(request.partition_states, state),
        "live_brokers": [broker.id for broker in request.live_brokers],
        "live_broker_endpoints": {str(broker.id): _broker(broker, version) for broker in request.live_brokers},
        **_topics(request.partition_states, request.topic_ids),
    }


def _stop_replica(request: SendStopReplica) -> _Fields:
    version = request.version

    def state(row: StopReplicaPartition) -> _Fields:
        return {"delete_partition": row.delete_partition, **_only(version, ((3, "leader_epoch", row.leader_epoch),))}

    return {
        **_header(request, "StopReplica", 1),
        **_only(version, ((4, "is_kraft_controller", False),)),
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
            **_only(version, ((3, "listener", endpoint.listener),)),
        }
        for endpoint in broker.endpoints
    ]
    return {"endpoints": endpoints, **_only(version, ((2, "rack", broker.rack),))}
