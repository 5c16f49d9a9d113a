"""What a tool beside a living controller may ask of it: request znodes, created if absent, and one conditional delete.

A request znode is never overwritten and never removed by us: since Kafka 1.1 that disarms the controller's watch.
Source: docs/operations.md; Kafka 3.9 `ReassignPartitionsZNode`,
`PreferredReplicaElectionZNode`, `DeleteTopicsTopicZNode`.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeVar, assert_never

from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.plans.fields import PlanFields, partition_row
from controller_core.znodes import (
    encode_delete_topic,
    encode_preferred_replica_election,
    encode_reassign_partitions,
)
from controller_core.znodes.paths import (
    CONTROLLER,
    CONTROLLER_EPOCH,
    PREFERRED_REPLICA_ELECTION,
    REASSIGN_PARTITIONS,
    delete_topic_path,
)

REQUEST_BYTES_MAX: Final = 900_000
"""Bytes of data in one request znode: below ZooKeeper's packet limit of 1,048,575, with room for path and framing."""

_Row = TypeVar("_Row")


class Target(NamedTuple):
    """The replicas that a partition shall have, preferred leader first."""

    partition: TopicPartition
    replicas: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateReassignPartitions:
    """Create-if-absent of `/admin/reassign_partitions`; the controller moves the replicas and removes the znode."""

    targets: tuple[Target, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePreferredReplicaElection:
    """Create-if-absent of `/admin/preferred_replica_election`; that it vanishes means "attempted", not "elected"."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CreateDeleteTopic:
    """Create-if-absent of `/admin/delete_topics/<topic>`; it vanishes after the topic's own znodes."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteController:
    """Delete of `/controller`, so that the brokers elect again; only while the same controller is active.

    The data version alone is no fence, since a new ephemeral `/controller` starts at version 0 again: the delete goes
    together with a check of the version of `/controller_epoch`, which every election raises.
    """

    controller_id: BrokerId
    version: int
    epoch_version: int


class LeaderMove(NamedTuple):
    """A partition, and the in-sync replica that shall lead it."""

    partition: TopicPartition
    leader: BrokerId


@dataclass(frozen=True, slots=True, kw_only=True)
class MoveLeaders:
    """No request to a controller: we become the active one for a few seconds, move these leaders, and resign."""

    moves: tuple[LeaderMove, ...]


Request = CreateReassignPartitions | CreatePreferredReplicaElection | CreateDeleteTopic | DeleteController | MoveLeaders


def may_be_asked_twice(request: Request) -> bool:
    """Whether the same request may be made again after it was made and nothing came of it.

    What somebody may have withdrawn is asked for once. An election that was attempted in vain is tried again; a
    re-election names the controller that it ends. A leader that has moved already stays.
    """
    match request:
        case CreateReassignPartitions() | CreateDeleteTopic():
            return False
        case CreatePreferredReplicaElection() | DeleteController() | MoveLeaders():
            return True
        case _:
            assert_never(request)


def request_path(request: Request) -> str:
    """The znode that `request` creates, deletes or takes, relative to the cluster's chroot."""
    match request:
        case CreateReassignPartitions():
            return REASSIGN_PARTITIONS
        case CreatePreferredReplicaElection():
            return PREFERRED_REPLICA_ELECTION
        case CreateDeleteTopic(topic=topic):
            return delete_topic_path(topic)
        case DeleteController() | MoveLeaders():
            return CONTROLLER
        case _:
            assert_never(request)


def request_data(request: Request) -> bytes:
    """The data of the znode that `request` creates, byte for byte as Kafka's own tools write it; empty for none.

    Only the known fields: since Kafka 2.0 an unknown one makes the controller reject the document and leave it there.
    """
    match request:
        case CreateReassignPartitions(targets=targets):
            return encode_reassign_partitions(dict(targets))
        case CreatePreferredReplicaElection(partitions=partitions):
            return encode_preferred_replica_election(partitions)
        case CreateDeleteTopic():
            return encode_delete_topic()
        case DeleteController() | MoveLeaders():
            return b""
        case _:
            assert_never(request)


def request_to_json(request: Request) -> dict[str, object]:
    """The request as a JSON object; `request_from_json` reads it back."""
    name = type(request).__name__
    match request:
        case CreateReassignPartitions(targets=targets):
            return {"effect": name, "targets": [_target_row(target) for target in targets]}
        case CreatePreferredReplicaElection(partitions=partitions):
            return {"effect": name, "partitions": [partition_row(partition) for partition in partitions]}
        case CreateDeleteTopic(topic=topic):
            return {"effect": name, "topic": topic}
        case DeleteController():
            return {
                "effect": name,
                "controller_id": request.controller_id,
                "version": request.version,
                "epoch_version": request.epoch_version,
            }
        case MoveLeaders(moves=moves):
            return {"effect": name, "moves": [{**partition_row(each), "leader": leader} for each, leader in moves]}
        case _:
            assert_never(request)


def request_from_json(fields: PlanFields) -> Request:
    """The request that `request_to_json` wrote.

    Raises:
        InvalidPlanError: another shape; names the field and what was found.
    """
    match fields.text("effect"):
        case "CreateReassignPartitions":
            return CreateReassignPartitions(
                targets=tuple(Target(row.partition(), row.brokers("replicas")) for row in fields.objects("targets"))
            )
        case "CreatePreferredReplicaElection":
            return CreatePreferredReplicaElection(
                partitions=tuple(row.partition() for row in fields.objects("partitions"))
            )
        case "CreateDeleteTopic":
            return CreateDeleteTopic(topic=fields.text("topic"))
        case "DeleteController":
            return DeleteController(
                controller_id=BrokerId(fields.integer("controller_id")),
                version=fields.integer("version"),
                epoch_version=fields.integer("epoch_version"),
            )
        case "MoveLeaders":
            return MoveLeaders(
                moves=tuple(
                    LeaderMove(row.partition(), BrokerId(row.integer("leader"))) for row in fields.objects("moves")
                )
            )
        case found:
            raise fields.refused("effect", "a request that this version knows", found)


def render_request(request: Request) -> str:
    """The request as the text that an approver reads, one line per partition."""
    return "\n".join(_lines(request))


def election_batches(
    partitions: Sequence[TopicPartition], *, partition_count_max: int
) -> Iterator[tuple[TopicPartition, ...]]:
    """`partitions` cut, in order, into lists whose election request stays below the count and the size of a znode."""
    for rows in _cut(partitions, [_bytes(partition_row(row)) for row in partitions], partition_count_max):
        yield tuple(rows)


def target_batches(targets: Sequence[Target], *, partition_count_max: int) -> Iterator[tuple[Target, ...]]:
    """`targets` cut, in order, into lists whose reassignment stays below the count and the size of a znode."""
    for rows in _cut(targets, [_bytes(_target_row(row)) for row in targets], partition_count_max):
        yield tuple(rows)


def _lines(request: Request) -> Iterator[str]:
    match request:
        case CreateReassignPartitions(targets=targets):
            yield f"create   {REASSIGN_PARTITIONS}  if absent, {len(targets)} partitions"
            for target in targets:
                yield f"         {target.partition}  replicas={_joined(target.replicas)}"
        case CreatePreferredReplicaElection(partitions=partitions):
            yield f"create   {PREFERRED_REPLICA_ELECTION}  if absent, {len(partitions)} partitions"
            for partition in partitions:
                yield f"         {partition}"
        case CreateDeleteTopic():
            yield f"create   {request_path(request)}  if absent"
        case DeleteController(controller_id=broker, version=version, epoch_version=epoch_version):
            yield (
                f"delete   {CONTROLLER}  of broker {broker}, if version={version}"
                f" and {CONTROLLER_EPOCH} is at version={epoch_version}"
            )
        case MoveLeaders(moves=moves):
            yield f"take     {CONTROLLER}  for a few seconds, and resign; meanwhile {len(moves)} state znodes are written, each if unchanged"
            for partition, leader in moves:
                yield f"         {partition}  leader={leader}"
        case _:
            assert_never(request)


def _cut(rows: Sequence[_Row], sizes: Sequence[int], count_max: int) -> Iterator[list[_Row]]:
    batch: list[_Row] = []
    batch_bytes = _ENVELOPE_BYTES
    for row, size in zip(rows, sizes, strict=True):
        if batch and (len(batch) >= count_max or batch_bytes + size > REQUEST_BYTES_MAX):
            yield batch
            batch, batch_bytes = [], _ENVELOPE_BYTES
        batch.append(row)
        batch_bytes += size
    if batch:
        yield batch


_ENVELOPE_BYTES: Final = len(b'{"version":1,"partitions":[]}')


def _target_row(target: Target) -> dict[str, object]:
    return {**partition_row(target.partition), "replicas": list(target.replicas)}


def _joined(brokers: Sequence[BrokerId]) -> str:
    return ",".join(map(str, brokers))


def _bytes(row: dict[str, object]) -> int:
    return len(json.dumps(row, separators=(",", ":"), ensure_ascii=False).encode()) + len(",")
