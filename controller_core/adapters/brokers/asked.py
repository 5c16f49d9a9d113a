"""What brokers and clients ask of a controller, as events of the core, and its replies as responses of Kafka's protocol.

Source: Kafka 3.9 `KafkaApis.handleControlledShutdownRequest`, `handleAlterPartitionRequest`, `handleElectLeaders`,
`handleAlterPartitionReassignmentsRequest`, `handleListPartitionReassignmentsRequest`, `KafkaController.processAlterPartition`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, assert_never

from controller_core.messages.effects import (
    Reply,
    ReplyAlterPartition,
    ReplyControlledShutdown,
    ReplyElections,
    ReplyReassignmentList,
    ReplyReassignments,
)
from controller_core.messages.events import (
    AlterPartition,
    AlterReassignments,
    ControlledShutdown,
    ElectLeaders,
    IsrChange,
    ListReassignments,
    RequestEvent,
)
from controller_core.model.partitions import BrokerId, LeaderAndIsr, LeaderRecoveryState, TopicPartition
from controller_core.wire import controller_requests as c
from controller_core.wire.messages import error_code
from controller_core.wire.schema import Message

ANSWERS: Final[Mapping[Message, Message]] = {
    c.CONTROLLED_SHUTDOWN: c.CONTROLLED_SHUTDOWN_ANSWER,
    c.ALTER_PARTITION: c.ALTER_PARTITION_ANSWER,
    c.ELECT_LEADERS: c.ELECT_LEADERS_ANSWER,
    c.ALTER_PARTITION_REASSIGNMENTS: c.ALTER_PARTITION_REASSIGNMENTS_ANSWER,
    c.LIST_PARTITION_REASSIGNMENTS: c.LIST_PARTITION_REASSIGNMENTS_ANSWER,
}
"""Request → response, of what the core decides."""
_UNCLEAN: Final = 1
_BROKER_EPOCH_SINCE: Final = 2
_EXCEPTIONS: Final = {
    "ControllerMoved": "STALE_CONTROLLER_EPOCH",
    "StaleBrokerEpoch": "STALE_BROKER_EPOCH",
    "BrokerNotAvailable": "BROKER_NOT_AVAILABLE",
}
"""Kafka's exception of a controlled shutdown → the error in the answer to its broker; any other is UNKNOWN_SERVER_ERROR."""


class Asked(NamedTuple):
    """A request that waits for its answer."""

    message: Message
    version: int
    values: Mapping[str, Any]


def event_of_request(asked: Asked, topics: Mapping[str, str]) -> RequestEvent:
    """The event that a request is.

    Args:
        asked: one of the keys of `ANSWERS`.
        topics: topic id → topic, as the controller knows them.

    Raises:
        KeyError: a request that the core does not decide.
    """
    values = asked.values
    if asked.message is c.CONTROLLED_SHUTDOWN:
        epoch = values["broker_epoch"] if asked.version >= _BROKER_EPOCH_SINCE else None
        return ControlledShutdown(BrokerId(values["broker_id"]), epoch)
    if asked.message is c.ALTER_PARTITION:
        changes = tuple(_isr_change(topic, row, topics) for topic in values["topics"] for row in topic["partitions"])
        return AlterPartition(BrokerId(values["broker_id"]), values["broker_epoch"], changes, asked.version)
    if asked.message is c.ELECT_LEADERS:
        wanted = tuple(
            TopicPartition(row["topic"], number)
            for row in values["topic_partitions"] or ()
            for number in row["partitions"]
        )
        return ElectLeaders(wanted, unclean=values.get("election_type") == _UNCLEAN)
    if asked.message is c.ALTER_PARTITION_REASSIGNMENTS:
        return AlterReassignments(
            tuple(
                (
                    TopicPartition(topic["name"], row["partition_index"]),
                    None if row["replicas"] is None else tuple(map(BrokerId, row["replicas"])),
                )
                for topic in values["topics"]
                for row in topic["partitions"]
            )
        )
    if asked.message is c.LIST_PARTITION_REASSIGNMENTS:
        topics_asked = values["topics"]
        if topics_asked is None:
            return ListReassignments()
        return ListReassignments(
            tuple(TopicPartition(row["name"], number) for row in topics_asked for number in row["partition_indexes"])
        )
    raise KeyError(asked.message.name)


def response_of(asked: Asked, reply: Reply, topics: Mapping[str, str]) -> dict[str, Any]:
    """The fields of the response, for `wire.codec.encode`.

    Args:
        asked: the request.
        reply: what the core says to it.
        topics: topic id → topic, as they were when it became an event.
    """
    match reply:
        case ReplyControlledShutdown(partitions_still_led=led, error=error):
            code = error_code(_EXCEPTIONS.get(error, error)) if error else 0
            rows = [{"topic_name": each.topic, "partition_index": each.partition} for each in led]
            return {"error_code": code, "remaining_partitions": rows}
        case ReplyAlterPartition():
            return _alter_partition_response(asked, reply, topics)
        case ReplyElections(errors=errors, error=error):
            results = [
                {"topic": topic, "partition_result": [{"partition_id": number, **_said(name)} for number, name in rows]}
                for topic, rows in _by_topic(errors).items()
            ]
            return {"throttle_time_ms": 0, "error_code": _code(error), "replica_election_results": results}
        case ReplyReassignments(errors=errors, error=error):
            responses = [
                {"name": topic, "partitions": [{"partition_index": number, **_said(name)} for number, name in rows]}
                for topic, rows in _by_topic(errors).items()
            ]
            return {"throttle_time_ms": 0, **_said(error), "responses": responses}
        case ReplyReassignmentList(listed=listed, error=error):
            listing = [
                {
                    "name": topic,
                    "partitions": [
                        {
                            "partition_index": number,
                            "replicas": assignment.replicas,
                            "adding_replicas": assignment.adding,
                            "removing_replicas": assignment.removing,
                        }
                        for number, assignment in rows
                    ],
                }
                for topic, rows in _by_topic(listed).items()
            ]
            return {"throttle_time_ms": 0, **_said(error), "topics": listing}
        case _:
            assert_never(reply)


def _isr_change(topic: Mapping[str, Any], row: Mapping[str, Any], topics: Mapping[str, str]) -> IsrChange:
    number = row["partition_index"]
    name = topic["topic_name"] if "topic_name" in topic else topics.get(topic["topic_id"])
    partition = f"{topic['topic_id']}-{number}" if name is None else TopicPartition(name, number)
    isr = row["new_isr"] if "new_isr" in row else [each["broker_id"] for each in row["new_isr_with_epochs"]]
    recovery = LeaderRecoveryState(row.get("leader_recovery_state", LeaderRecoveryState.RECOVERED))
    return IsrChange(partition, row["leader_epoch"], row["partition_epoch"], tuple(map(BrokerId, isr)), recovery)


def _alter_partition_response(asked: Asked, reply: ReplyAlterPartition, topics: Mapping[str, str]) -> dict[str, Any]:
    """Rows stand below the topics of the request: a topic that was named by its id is answered by it."""
    said: dict[tuple[str, int], dict[str, Any]] = {}
    for partition, state in reply.accepted:
        said[partition.topic, partition.partition] = _state(state)
    for failed, error in reply.errors:
        topic, number = (
            (failed.topic, failed.partition) if isinstance(failed, TopicPartition) else _id_and_number(failed)
        )
        said[topic, number] = {**_NO_STATE, "error_code": error_code(error)}
    rows = []
    for topic in asked.values["topics"]:
        key = topic["topic_name"] if "topic_name" in topic else topic["topic_id"]
        own = {number: row for (name, number), row in said.items() if name in {key, topics.get(key)}}
        if own:
            partitions = [{"partition_index": number, **row} for number, row in own.items()]
            rows.append({"topic_name": key, "topic_id": key, "partitions": partitions})
    return {"throttle_time_ms": 0, "error_code": _code(reply.error), "topics": rows}


_NO_STATE: Final = {"leader_id": 0, "leader_epoch": 0, "isr": (), "leader_recovery_state": 0, "partition_epoch": 0}


def _state(state: LeaderAndIsr) -> dict[str, Any]:
    return {
        "error_code": 0,
        "leader_id": state.leader,
        "leader_epoch": state.leader_epoch,
        "isr": state.isr,
        "leader_recovery_state": state.recovery,
        "partition_epoch": state.partition_epoch,
    }


def _id_and_number(text: str) -> tuple[str, int]:
    topic_id, _, number = text.rpartition("-")
    return topic_id, int(number)


def _by_topic(rows: Iterable[tuple[TopicPartition, Any]]) -> dict[str, list[tuple[int, Any]]]:
    grouped: dict[str, list[tuple[int, Any]]] = {}
    for partition, value in rows:
        grouped.setdefault(partition.topic, []).append((partition.partition, value))
    return grouped


def _said(error: str) -> dict[str, Any]:
    return {"error_code": _code(error), "error_message": error or None}


def _code(error: str) -> int:
    return error_code(error) if error else 0
