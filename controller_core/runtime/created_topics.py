"""Topics that clients ask a controller of ours for, made as Kafka's brokers make them: by znodes, from which its watches tell the core.

Without a list of replicas they are placed as Kafka places them, the controller's own broker left out, for it holds no replica. Values of configs are not checked.
Source: Kafka 3.9 `ZkAdminManager.createTopics`, `AdminZkClient.createTopicWithAssignment`, `DelayedCreatePartitions`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from random import Random
from typing import Any, Final, NamedTuple

from controller_core.admin.placement import assign_replicas, validate_new_topic
from controller_core.context.context import ControllerContext
from controller_core.model.errors import (
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    NodeExistsError,
    PlacementError,
    TopicExistsError,
)
from controller_core.model.partitions import NO_LEADER, ZERO_TOPIC_ID, BrokerId, ReplicaAssignment
from controller_core.ports.zookeeper import ANY_VERSION
from controller_core.runtime.kafka_zk.adapter import KafkaZk
from controller_core.runtime.perform_effects import random_topic_id
from controller_core.wire.messages import error_code
from controller_core.znodes import ConfigZnode, config_path, encode_config

_UNSET: Final = -1
_DEFAULT: Final = 1
"""Partitions and replicas of a topic for which the client leaves the number to the broker: Kafka's default of both."""
_OF_THE_TOPIC: Final = 1  # source of a config: DYNAMIC_TOPIC_CONFIG
_ERRORS: Final[Mapping[type[PlacementError], str]] = {
    InvalidPartitionsError: "INVALID_PARTITIONS",
    InvalidReplicationFactorError: "INVALID_REPLICATION_FACTOR",
    InvalidReplicaAssignmentError: "INVALID_REPLICA_ASSIGNMENT",
    InvalidTopicError: "INVALID_TOPIC_EXCEPTION",
    TopicExistsError: "TOPIC_ALREADY_EXISTS",
}
_Row = dict[str, Any]


class Created(NamedTuple):
    """Rows of the response, and the topics that it waits for."""

    rows: list[_Row]
    awaited: frozenset[str]

    def response(self) -> dict[str, Any]:
        """The fields of a CreateTopics response."""
        return {"throttle_time_ms": 0, "topics": self.rows}


def create_topics(kafka: KafkaZk, context: ControllerContext, values: Mapping[str, Any], random: Random) -> Created:
    """Makes the topics of a CreateTopics request, each by itself.

    Args:
        kafka: of the cluster.
        context: who is active, and the live brokers.
        values: fields of the request.
        random: draws where placement begins, as Kafka does.

    Raises:
        ZooKeeperError: a znode cannot be written.
    """
    asked = values["topics"]
    if not context.is_active:
        return Created(
            [_failed(each["name"], "NOT_CONTROLLER", "this is not the controller") for each in asked], frozenset()
        )
    counts = Counter(each["name"] for each in asked)
    writes = not values.get("validate_only", False)
    rows = [
        _failed(name, "INVALID_REQUEST", f"topic {name!r} not created: it is asked for more than once")
        for name, count in counts.items()
        if count > 1
    ]
    rows += [_created(kafka, context, each, random, writes=writes) for each in asked if counts[each["name"]] == 1]
    made = [row for row in rows if writes and row["error_code"] == 0]
    if values["timeout_ms"] > 0:
        return Created(rows, frozenset(row["name"] for row in made))
    for row in made:  # they are made, and nobody waits for their leaders
        row["error_code"] = error_code("REQUEST_TIMED_OUT")
    return Created(rows, frozenset())


def have_leaders(context: ControllerContext, topics: Iterable[str]) -> bool:
    """Whether every partition of each of them has one."""
    return all(
        (partitions := context.partitions_for_topic(topic))
        and all((state := context.leadership(each)) is not None and state.leader != NO_LEADER for each in partitions)
        for topic in topics
    )


def _created(kafka: KafkaZk, context: ControllerContext, asked: _Row, random: Random, *, writes: bool) -> _Row:
    name = asked["name"]
    counts = (asked["num_partitions"], asked["replication_factor"])
    if asked["assignments"] and counts != (_UNSET, _UNSET):
        return _failed(
            name,
            "INVALID_REQUEST",
            f"topic {name!r} not created: expected lists of replicas or their number, found both",
        )
    configs = {each["name"]: each["value"] for each in asked["configs"]}
    if None in configs.values():
        return _failed(
            name, "INVALID_REQUEST", f"topic {name!r} not created: expected a value for each config, found none"
        )
    try:
        replicas = _replicas(context, asked, random)
        validate_new_topic(
            name, replicas, topics=kafka.list_topics(), topics_marked_for_deletion=kafka.list_topic_deletions()
        )
        topic_id = random_topic_id() if context.dialect.topic_ids else None
        if writes:
            _write(kafka, name, replicas, configs, topic_id)
    except PlacementError as error:
        return _failed(name, _ERRORS.get(type(error), "UNKNOWN_SERVER_ERROR"), str(error))
    return {
        "name": name, "topic_id": topic_id if writes and topic_id else ZERO_TOPIC_ID, "error_code": 0, "error_message": None,
        "num_partitions": len(replicas), "replication_factor": len(replicas[0]),
        "configs": [
            {"name": key, "value": value, "read_only": False, "config_source": _OF_THE_TOPIC, "is_sensitive": False}
            for key, value in configs.items()
        ],
    }  # fmt: skip


def _replicas(context: ControllerContext, asked: _Row, random: Random) -> dict[int, tuple[BrokerId, ...]]:
    if asked["assignments"]:
        return {row["partition_index"]: tuple(map(BrokerId, row["broker_ids"])) for row in asked["assignments"]}
    racks = {each.id: each.rack for each in context.brokers.values() if each.id != context.config.controller_id}
    partitions, replicas = (
        _DEFAULT if each == _UNSET else each for each in (asked["num_partitions"], asked["replication_factor"])
    )
    start, shift = (random.randrange(max(1, len(racks))) for _ in range(2))
    return assign_replicas(
        racks, partition_count=partitions, replication_factor=replicas, start_index=start, first_shift=shift
    )


def _write(
    kafka: KafkaZk,
    topic: str,
    replicas: Mapping[int, tuple[BrokerId, ...]],
    configs: Mapping[str, str],
    topic_id: str | None,
) -> None:
    """Config first, as Kafka does: a topic without one has the brokers' defaults."""
    path, content = config_path("topics", topic), encode_config(ConfigZnode(configs))
    if kafka.exists(path):
        kafka.zookeeper.set(path, content, ANY_VERSION)
    else:
        kafka.create_recursive(path, content)
    try:
        kafka.create_topic(topic, {number: ReplicaAssignment(ids) for number, ids in replicas.items()}, topic_id)
    except NodeExistsError as error:
        raise TopicExistsError(f"topic {topic!r} not created: somebody else just did") from error


def _failed(name: str, error: str, message: str) -> _Row:
    return {
        "name": name, "topic_id": ZERO_TOPIC_ID, "error_code": error_code(error), "error_message": message,
        "num_partitions": _UNSET, "replication_factor": _UNSET, "configs": [],
    }  # fmt: skip
