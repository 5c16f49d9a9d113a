"""Placement of new topics, and throttles of reassignments."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from controller_core.admin import throttles
from controller_core.admin.placement import assign_replicas, rack_alternated, validate_new_topic
from controller_core.admin.throttles import ConfigChanges, PartitionMove
from controller_core.model.dialect import NEWEST, dialect_for
from controller_core.model.errors import PlacementError
from controller_core.model.partitions import BrokerId, ReplicaAssignment, TopicPartition
from controller_core.runtime.kafka_zk.adapter import KafkaZk
from controller_core.runtime.kafka_zk.base import formats_of
from controller_core.runtime.simulated.zookeeper import MemoryServer
from tests.conformance.vector import (
    Document,
    Operation,
    Vector,
    assignment_of,
    assignment_record,
    brokers_of,
    partition_of,
)

SEED = 20_260_101  # Kafka draws at random; any draw is right


def rack_alternated_list(vector: Vector) -> Document:
    return {"brokers": rack_alternated({broker: rack or "" for broker, rack in _racks(vector).items()})}


def assign(vector: Vector) -> Document:
    action, racks = vector.action, _racks(vector)
    fixed = action.get("fixed_start_index", -1)
    draw = random.Random(SEED)
    start, shift = (fixed, fixed) if fixed >= 0 else (draw.randrange(1 << 16), draw.randrange(1 << 16))
    if fixed < 0 and racks:
        start, shift = start % len(racks), shift % len(racks)
    try:
        assignment = assign_replicas(
            racks,
            partition_count=action["partitions"],
            replication_factor=action["replication_factor"],
            start_index=start,
            first_shift=shift,
            start_partition=action.get("start_partition_id", -1),
        )
    except PlacementError as error:
        return {"error": error.kafka_name}
    return {"assignment": {str(partition): list(replicas) for partition, replicas in assignment.items()}}


def create_topic_with_assignment(vector: Vector) -> Document:
    kafka = KafkaZk(MemoryServer().session(), formats_of(vector.dialect or dialect_for(NEWEST)))
    for topic, assignments in _topics(vector.given.get("assignments") or vector.given.get("topics") or {}).items():
        kafka.create_topic(topic, assignments)
    topic = vector.action["topic"]
    after: Document = {}
    try:
        create_topic(kafka, topic, vector.action["assignment"])
    except PlacementError as error:
        after["error"] = error.kafka_name.removesuffix("Exception")
    after["assignments"] = {
        str(partition): assignment_record(each)
        for name in kafka.list_topics()
        for partition, each in kafka.full_assignments(name).items()
    }
    return after | {"topic_exists": topic in kafka.list_topics()}


def create_topic(kafka: KafkaZk, topic: str, assignment: Mapping[str, Sequence[int]]) -> None:
    """What Kafka's admin client does: validate, then write the topic's znode. Keys are numbers or partitions."""
    numbered = {
        int(name) if name.isdecimal() else partition_of(name).partition: brokers_of(list(ids))
        for name, ids in assignment.items()
    }
    validate_new_topic(
        topic, numbered, topics=kafka.list_topics(), topics_marked_for_deletion=kafka.list_topic_deletions()
    )
    kafka.create_topic(topic, {number: ReplicaAssignment(replicas) for number, replicas in numbered.items()})


def move_map(vector: Vector) -> Document:
    given = vector.given
    under_way = {partition_of(name): assignment_of(each) for name, each in given["current_reassignments"].items()}
    moves = throttles.move_map(under_way, _replicas(given["proposed"]), _replicas(given["current"]))
    result: Document = {}
    for (topic, number), move in sorted(moves.items()):
        result.setdefault(topic, {})[str(number)] = {
            "sources": sorted(move.sources),
            "destinations": sorted(move.destinations),
        }
    return {"move_map": result}


def leader_throttles(vector: Vector) -> Document:
    return {"throttles": throttles.leader_throttles(_moves(vector))}


def follower_throttles(vector: Vector) -> Document:
    return {"throttles": throttles.follower_throttles(_moves(vector))}


def reassigning_brokers(vector: Vector) -> Document:
    return {"brokers": throttles.reassigning_brokers(_moves(vector))}


def moving_brokers(vector: Vector) -> Document:
    replicas = [(TopicPartition(topic, number), BrokerId(broker)) for topic, number, broker in vector.given["replicas"]]
    return {"brokers": throttles.moving_brokers(replicas)}


def assign_throttled_replicas(vector: Vector) -> Document:
    given = vector.given
    configs = _topic_configs(given, given["proposed"])
    return _changes(
        throttles.assign_throttled_replicas(_replicas(given["existing"]), _replicas(given["proposed"]), configs)
    )


def limit_brokers(vector: Vector) -> Document:
    given = vector.given
    return _changes(
        throttles.limit_brokers(
            _replicas(given["existing"]),
            _replicas(given["proposed"]),
            _broker_configs(given),
            vector.action["throttle"],
        )
    )


def remove_throttles(vector: Vector) -> Document:
    given = vector.given
    status = {partition_of(name): each for name, each in given["status"].items()}
    configs = _topic_configs(given, given["status"])
    brokers = brokers_of(given.get("brokers") or [])
    return _changes(throttles.remove_throttles(brokers, status, configs, _broker_configs(given)))


def _racks(vector: Vector) -> dict[BrokerId, str | None]:
    return {BrokerId(int(broker)): rack for broker, rack in vector.given["broker_racks"].items()}


def _replicas(lists: Mapping[str, list[int]]) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    return {partition_of(name): brokers_of(ids) for name, ids in lists.items()}


def _moves(vector: Vector) -> dict[TopicPartition, PartitionMove]:
    return {
        TopicPartition(topic, int(number)): PartitionMove(
            frozenset(brokers_of(move["sources"])), frozenset(brokers_of(move["destinations"]))
        )
        for topic, moves in vector.given["move_map"].items()
        for number, move in moves.items()
    }


def _topic_configs(given: Document, partitions: Iterable[str]) -> dict[str, Mapping[str, str]]:
    """Overrides by topic; overrides without a topic are those of every topic of the vector."""
    configs = given.get("existing_topic_config") or {}
    if any(isinstance(value, str) for value in configs.values()):
        return {partition_of(name).topic: configs for name in partitions}
    return dict(configs)


def _broker_configs(given: Document) -> dict[BrokerId, Mapping[str, str]]:
    return {BrokerId(int(broker)): config for broker, config in (given.get("existing_broker_config") or {}).items()}


def _changes(changes: ConfigChanges) -> Document:
    return {
        "topic_configs": dict(changes.topics),
        "broker_configs": {str(broker): config for broker, config in changes.brokers.items()},
        "config_changes": changes.write_count,
    }


def _topics(assignments: Mapping[str, Any]) -> dict[str, dict[int, ReplicaAssignment]]:
    topics: dict[str, dict[int, ReplicaAssignment]] = {}
    for name, each in assignments.items():
        partition = partition_of(name)
        record = {"replicas": each} if isinstance(each, list) else each
        topics.setdefault(partition.topic, {})[partition.partition] = assignment_of(record)
    return topics


OPS: dict[str, Operation] = {
    "rack_alternated_list": rack_alternated_list,
    "assign_replicas": assign,
    "create_topic_with_assignment": create_topic_with_assignment,
    "move_map": move_map,
    "leader_throttles": leader_throttles,
    "follower_throttles": follower_throttles,
    "reassigning_brokers": reassigning_brokers,
    "moving_brokers": moving_brokers,
    "assign_throttled_replicas": assign_throttled_replicas,
    "limit_brokers": limit_brokers,
    "remove_throttles": remove_throttles,
}
