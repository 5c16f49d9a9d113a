"""`/brokers/topics/<t>` and `…/partitions/<p>/state`: assignment, leader, ISR and epochs.

Source: Kafka 3.9 `TopicZNode`, `TopicPartitionStateZNode`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from controller_core.model.partitions import BrokerId, LeaderAndIsr, LeaderRecoveryState, ReplicaAssignment
from controller_core.znodes.json_text import (
    INT_MAX,
    INT_MIN,
    Fields,
    decimal,
    encode_object,
    mismatch,
    parse_object,
    quoted,
)
from controller_core.znodes.key_order import ScalaVersion, immutable_map_order, mutable_map_order

TOPIC_VERSION_FIRST, TOPIC_VERSION_ADDING_REMOVING, TOPIC_VERSION_IDS = 1, 2, 3
_MOVING_KEYS = ("adding_replicas", "removing_replicas")
_TOPIC_KEYS = ("version", "partitions", *_MOVING_KEYS)
_STATE_KEYS = ("version", "leader", "isr", "leader_epoch", "controller_epoch")
_RECOVERY_KEY = "leader_recovery_state"
_TOPIC_ID = re.compile(r"[A-Za-z0-9_-]{22}(?:==)?")


@dataclass(frozen=True, slots=True)
class TopicZnode:
    """Content of a topic's znode.

    `version` is 1 up to Kafka 2.3, 2 up to 2.7, 3 since 2.8; readers ignore it. `topic_id` is 22 characters of URL-safe
    base64. `extra` holds unknown fields as (name, JSON text), which Kafka itself loses when it rewrites the znode.
    """

    assignments: Mapping[int, ReplicaAssignment]
    topic_id: str | None = None
    version: int = TOPIC_VERSION_IDS
    extra: tuple[tuple[str, str], ...] = field(default=())


def decode_topic(data: bytes | None, *, path: str) -> TopicZnode:
    """The assignment of a topic, of any version.

    Raises:
        UnparsedZnodeError: no JSON; Kafka goes on with a topic without partitions.
        MalformedZnodeError: a partition number, a list or an id of the wrong type; Kafka throws.
    """
    document = parse_object(data, path)
    replicas, adding, removing = (_lists(document, name) for name in ("partitions", *_MOVING_KEYS))
    is_moving = adding.values or removing.values
    assignments = {
        decimal(path, "key of 'partitions'", number): ReplicaAssignment(
            replicas.brokers(number), _brokers_or_none(adding, number), _brokers_or_none(removing, number)
        )
        if is_moving
        else ReplicaAssignment(replicas.brokers(number))
        for number in replicas.values
    }
    topic_id = document.text_or_none("topic_id")
    if topic_id is not None and not _TOPIC_ID.fullmatch(topic_id):
        raise mismatch(path, "topic_id", "22 characters of URL-safe base64", topic_id)
    version = document.values.get("version")
    if type(version) is not int or not INT_MIN <= version <= INT_MAX:
        version = TOPIC_VERSION_FIRST  # no reader looks at it, so that no other number makes a topic unreadable either
    known = (*_TOPIC_KEYS, "topic_id")
    return TopicZnode(assignments, topic_id, version, document.unknown_fields(known))


def encode_topic(topic: TopicZnode, *, scala: ScalaVersion = ScalaVersion.V2_13) -> bytes:
    """The bytes that a controller writes whose format is `topic.version`; keys in the order of its Scala.

    Raises:
        ValueError: version 1 cannot hold replicas that are being added or removed.
    """
    numbers = {str(partition): assignment for partition, assignment in topic.assignments.items()}
    if topic.version == TOPIC_VERSION_FIRST:
        _refuse_reassignment_in_version_1(topic)
        in_order = immutable_map_order(list(numbers), scala)
        replicas = {number: numbers[number].replicas for number in in_order}
        return encode_object([("version", topic.version), ("partitions", replicas)], topic.extra)
    values: dict[str, object] = {
        "version": topic.version,
        "partitions": _in_order({number: each.replicas for number, each in numbers.items()}, scala),
        "adding_replicas": _in_order({number: each.adding for number, each in numbers.items() if each.adding}, scala),
        "removing_replicas": _in_order(
            {number: each.removing for number, each in numbers.items() if each.removing}, scala
        ),
    }
    if topic.topic_id is not None:
        values["topic_id"] = topic.topic_id
    keys = mutable_map_order(list(values), scala, initial_size=len(_TOPIC_KEYS))
    return encode_object([(key, values[key]) for key in keys], topic.extra)


def decode_state(data: bytes | None, *, path: str, version: int) -> LeaderAndIsr:
    """Leadership of a partition; `version` is that of the znode and becomes the partition epoch.

    Raises:
        UnparsedZnodeError: no JSON; Kafka goes on as if nothing were known of the leader.
        MalformedZnodeError: a mandatory field is missing, of the wrong type or range; Kafka throws.
    """
    canonical = _CANONICAL_STATE.match(data or b"")
    if canonical is not None:
        controller_epoch, leader, leader_epoch = map(int, canonical.group(1, 2, 3))
        isr = tuple(map(int, canonical[4].split(b","))) if canonical[4] else ()
        numbers = (controller_epoch, leader, leader_epoch, *isr)
        if min(numbers) >= INT_MIN and max(numbers) <= INT_MAX:
            members = tuple(map(BrokerId, isr))
            return LeaderAndIsr(
                BrokerId(leader), leader_epoch, members, LeaderRecoveryState.RECOVERED, version, controller_epoch
            )
    document = parse_object(data, path)
    recovery = document.integer(_RECOVERY_KEY, low=0, high=1) if document.has(_RECOVERY_KEY) else 0
    return LeaderAndIsr(
        leader=BrokerId(document.integer("leader")),
        leader_epoch=document.integer("leader_epoch"),
        isr=document.brokers("isr"),
        recovery=LeaderRecoveryState(recovery),
        partition_epoch=version,
        controller_epoch=document.integer("controller_epoch"),
        extra=document.unknown_fields((*_STATE_KEYS, _RECOVERY_KEY)),
    )


def encode_state(state: LeaderAndIsr) -> bytes:
    """The bytes of a state znode, the same in all versions; the recovery state is written only while RECOVERING."""
    isr = ",".join(map(str, state.isr))
    recovery = '"leader_recovery_state":1,' if state.recovery is LeaderRecoveryState.RECOVERING else ""
    extra = "".join(f",{quoted(name)}:{text}" for name, text in state.extra)
    return (
        f'{{"controller_epoch":{state.controller_epoch},"leader":{state.leader},"version":1,{recovery}'
        f'"leader_epoch":{state.leader_epoch},"isr":[{isr}]{extra}}}'
    ).encode()


_NUMBER = rb"(-?(?:0|[1-9][0-9]{0,9}))"
_NUMBERS = rb"((?:-?(?:0|[1-9][0-9]{0,9})(?:,(?!\])|(?=\])))*)"
_CANONICAL_STATE = re.compile(
    rb'\{"controller_epoch":' + _NUMBER + rb',"leader":' + _NUMBER + rb',"version":1,"leader_epoch":' + _NUMBER
    + rb',"isr":\[' + _NUMBERS + rb"\]\}\Z"
)  # fmt: skip
"""What Kafka writes, read without a JSON parser: there are 200,000 of them in a large cluster."""


def _lists(document: Fields, name: str) -> Fields:
    """Lists by partition number; a missing field holds none."""
    return document.child(name) if document.has(name) else Fields(document.path, {}, name)


def _brokers_or_none(lists: Fields, number: str) -> tuple[BrokerId, ...]:
    return lists.brokers(number) if lists.has(number) else ()


def _in_order(lists: Mapping[str, tuple[BrokerId, ...]], scala: ScalaVersion) -> dict[str, tuple[BrokerId, ...]]:
    return {number: lists[number] for number in mutable_map_order(list(lists), scala)}


def _refuse_reassignment_in_version_1(topic: TopicZnode) -> None:
    moving = [partition for partition, each in topic.assignments.items() if each.is_being_reassigned]
    if moving:
        what = f"version 1 has no adding and removing replicas; expected none, found them for partitions {moving[:10]}"
        raise ValueError(f"topic znode cannot be written: {what}")
