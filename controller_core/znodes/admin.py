"""The request znodes below `/admin`, and the notifications that brokers leave for the controller.

Source: Kafka 3.9 `ReassignPartitionsZNode`, `PreferredReplicaElectionZNode`, `DeleteTopicsTopicZNode`,
`IsrChangeNotificationSequenceZNode`, `LogDirEventNotificationSequenceZNode`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from controller_core.model.errors import MalformedZnodeError, UnparsedZnodeError
from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.znodes import paths
from controller_core.znodes.json_text import (
    INT_MAX,
    INT_MIN,
    LONG_MAX,
    Fields,
    Fraction,
    decimal,
    encode_object,
    fields_of,
    json_text,
    mismatch,
    parse,
    parse_object,
    quoted,
)

LOG_DIR_FAILURE = 1
_VERSION = 1


class LogDirEvent(NamedTuple):
    """A broker's notice that a log directory failed (`event` 1)."""

    broker: BrokerId
    event: int = LOG_DIR_FAILURE


def decode_reassign_partitions(
    data: bytes | None, *, path: str = paths.REASSIGN_PARTITIONS, bound_to_class: bool = True
) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    """The target replicas that are asked for, in the order of the document.

    Args:
        data: content of the znode.
        path: for messages.
        bound_to_class: read as Kafka 2.0 and later does (unknown fields refuse the document, numbers may be strings);
            False: as 1.1 and earlier does.

    Raises:
        UnparsedZnodeError: Kafka logs a warning, goes on with no targets, and the znode stays.
        MalformedZnodeError: Kafka's controller throws.
    """
    if bound_to_class:
        return _bound_targets(parse(data, path), path)
    document = parse_object(data, path)
    if not document.has("partitions"):
        return {}
    return {
        TopicPartition(entry.text("topic"), entry.integer("partition")): entry.brokers("replicas")
        for entry in document.objects("partitions")
    }


def encode_reassign_partitions(targets: Mapping[TopicPartition, Sequence[BrokerId]]) -> bytes:
    """The request, entries in the order of `targets`."""
    entries = ",".join(
        f'{{"topic":{quoted(topic)},"partition":{number},"replicas":[{",".join(map(str, replicas))}]}}'
        for (topic, number), replicas in targets.items()
    )
    return f'{{"version":{_VERSION},"partitions":[{entries}]}}'.encode()


def decode_preferred_replica_election(
    data: bytes | None, *, path: str = paths.PREFERRED_REPLICA_ELECTION
) -> tuple[TopicPartition, ...]:
    """The partitions to elect, each once, in the order of the document.

    Raises:
        UnparsedZnodeError: no JSON; Kafka 1.1+ goes on with no partitions.
        MalformedZnodeError: `partitions`, or a field of an entry, is missing or mistyped; Kafka throws.
    """
    return _partitions(parse_object(data, path))


def encode_preferred_replica_election(partitions: Iterable[TopicPartition]) -> bytes:
    """The request, entries in the order of `partitions`."""
    return _encoded_partitions(partitions)


def encode_delete_topic() -> bytes:
    """A request to delete a topic has no data."""
    return b""


def decode_isr_change_notification(data: bytes | None, *, path: str) -> tuple[TopicPartition, ...]:
    """The partitions whose ISR a leader changed, each once, in the order of the document.

    Raises:
        UnparsedZnodeError: no JSON; Kafka goes on with no partitions, and deletes the znode.
        MalformedZnodeError: `partitions`, or a field of an entry, is missing or mistyped; Kafka throws, then deletes.
    """
    return _partitions(parse_object(data, path))


def encode_isr_change_notification(partitions: Iterable[TopicPartition]) -> bytes:
    """The notification, entries in the order of `partitions`."""
    return _encoded_partitions(partitions)


def decode_log_dir_event(data: bytes | None, *, path: str) -> LogDirEvent:
    """Which broker lost a log directory.

    Raises:
        UnparsedZnodeError: no JSON; Kafka goes on with no broker.
        MalformedZnodeError: `broker` is missing or no integer; Kafka throws.
    """
    document = parse_object(data, path)
    event = document.integer("event") if document.has("event") else LOG_DIR_FAILURE
    return LogDirEvent(BrokerId(document.integer("broker")), event)


def encode_log_dir_event(event: LogDirEvent) -> bytes:
    """The notification."""
    return encode_object([("version", _VERSION), ("broker", event.broker), ("event", event.event)])


def _partitions(document: Fields) -> tuple[TopicPartition, ...]:
    entries = document.objects("partitions")
    return tuple(dict.fromkeys(TopicPartition(entry.text("topic"), entry.integer("partition")) for entry in entries))


def _encoded_partitions(partitions: Iterable[TopicPartition]) -> bytes:
    entries = [{"topic": partition.topic, "partition": partition.partition} for partition in partitions]
    return encode_object([("version", _VERSION), ("partitions", entries)])


def _bound_targets(value: object, path: str) -> dict[TopicPartition, tuple[BrokerId, ...]]:
    """As Jackson binds the document to a class: every property must be known, a missing `partition` is 0."""
    if value is not None and not isinstance(value, dict):
        raise UnparsedZnodeError(path, mismatch(path, "(document)", "an object", value).what)
    document = fields_of(path, value, "")
    _refuse_unknown(document, ("version", "partitions"))
    if document.values.get("version") is not None:
        _bound_integer(document, "version")
    if document.values.get("partitions") is None:
        raise MalformedZnodeError(document.path, "field 'partitions' is missing; expected an array of objects")
    if not isinstance(document.values["partitions"], list):
        raise _unbound(document, "partitions", "an array of objects")
    targets: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    for index, entry in enumerate(document.items("partitions")):
        where = f"partitions[{index}]"
        if entry is not None and not isinstance(entry, dict):
            raise _unbound(document, where, "an object", entry)
        fields = fields_of(path, entry, where)
        _refuse_unknown(fields, ("topic", "partition", "replicas"))
        number = _bound_integer(fields, "partition") if fields.values.get("partition") is not None else 0
        if not isinstance(fields.values.get("replicas"), list | None):
            raise _unbound(fields, "replicas", "an array of integers")
        topic = _bound_text(fields, "topic")
        targets[TopicPartition(topic, number)] = fields.brokers("replicas")
    return targets


def _refuse_unknown(fields: Fields, known: tuple[str, ...]) -> None:
    unknown = sorted(fields.values.keys() - set(known))
    if unknown:
        what = f"field {fields.at(unknown[0])!r}: expected only {', '.join(known)}; Kafka 2.0 and later refuses others"
        raise UnparsedZnodeError(fields.path, what)


def _bound_integer(fields: Fields, name: str) -> int:
    value = fields.values[name]
    if isinstance(value, Fraction):  # what is after the point is dropped
        value = int(float(value.text)) if abs(float(value.text)) < LONG_MAX else LONG_MAX
    if isinstance(value, str):
        try:
            return decimal(fields.path, f"field {fields.at(name)!r}", value.strip())
        except MalformedZnodeError as error:
            raise UnparsedZnodeError(fields.path, error.what) from None
    if not isinstance(value, int) or isinstance(value, bool):
        raise _unbound(fields, name, "an integer")
    if not INT_MIN <= value <= INT_MAX:
        raise _unbound(fields, name, "a 32-bit integer")
    return value


def _bound_text(fields: Fields, name: str) -> str:
    """A string; other scalars are taken by their text, as Jackson does. Kafka goes on with null, we do not."""
    value = fields.values.get(name)
    if isinstance(value, list | dict):
        raise _unbound(fields, name, "a string")
    return (
        json_text(value) if isinstance(value, int) else value.text if isinstance(value, Fraction) else fields.text(name)
    )


def _unbound(fields: Fields, name: str, expected: str, found: object = None) -> UnparsedZnodeError:
    value = fields.values.get(name) if found is None else found
    return UnparsedZnodeError(fields.path, mismatch(fields.path, fields.at(name), expected, value).what)
