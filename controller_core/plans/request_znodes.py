"""What a tool beside a living controller may ask of it: request znodes, created if absent, and one conditional delete.

A request znode is never overwritten and never removed by us: since Kafka 1.1 that disarms the controller's watch.
Source: docs/operations.md; Kafka 3.9 `ReassignPartitionsZNode`,
`PreferredReplicaElectionZNode`, `DeleteTopicsTopicZNode`.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Self, TypeVar, assert_never

from msgspec import Struct, field, json

from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.model.words import counted
from controller_core.plans.document import PartitionRow
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

_Cut = TypeVar("_Cut")


class Target(PartitionRow, frozen=True):
    """The replicas that a partition shall have, preferred leader first: `Target(*partition, replicas)`."""

    replicas: tuple[BrokerId, ...]


class LeaderMove(PartitionRow, frozen=True):
    """A partition, and the in-sync replica that shall lead it: `LeaderMove(*partition, leader)`."""

    leader: BrokerId


class _Stored(Struct, frozen=True, kw_only=True, tag_field="effect", forbid_unknown_fields=True):
    """A request as a stored plan has it: an object of its fields, with its name as `effect`."""


class CreateReassignPartitions(_Stored, frozen=True, kw_only=True):
    """Create-if-absent of `/admin/reassign_partitions`; the controller moves the replicas and removes the znode."""

    targets: tuple[Target, ...]


class CreatePreferredReplicaElection(_Stored, frozen=True, kw_only=True):
    """Create-if-absent of `/admin/preferred_replica_election`; that it vanishes means "attempted", not "elected"."""

    rows: tuple[PartitionRow, ...] = field(name="partitions")

    @classmethod
    def of(cls, partitions: Iterable[TopicPartition]) -> Self:
        """The request for these partitions."""
        return cls(rows=tuple(PartitionRow(*each) for each in partitions))

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        """Those whose preferred leaders are asked for."""
        return tuple(each.partition for each in self.rows)


class CreateDeleteTopic(_Stored, frozen=True, kw_only=True):
    """Create-if-absent of `/admin/delete_topics/<topic>`; it vanishes after the topic's own znodes."""

    topic: str


class DeleteController(_Stored, frozen=True, kw_only=True):
    """Delete of `/controller`, so that the brokers elect again; only while the same controller is active.

    The data version alone tells nothing, since a new ephemeral `/controller` starts at version 0 again. The delete
    goes together with the epoch check, for every election raises the version of `/controller_epoch`.
    """

    controller_id: BrokerId
    version: int
    epoch_version: int


class MoveLeaders(_Stored, frozen=True, kw_only=True):
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


def named_once(request: Request) -> tuple[object, ...]:
    """What `request` names that no other request of its plan may name; a partition may move again in a later wave."""
    match request:
        case CreatePreferredReplicaElection(partitions=partitions):
            return partitions
        case CreateDeleteTopic(topic=topic):
            return (topic,)
        case DeleteController() | MoveLeaders():
            return (request_path(request),)
        case CreateReassignPartitions():
            return ()
        case _:
            assert_never(request)


def request_targets(request: Request) -> tuple[Target, ...]:
    """The replica lists that `request` asks for: data is copied to whom they add."""
    match request:
        case CreateReassignPartitions(targets=targets):
            return targets
        case CreatePreferredReplicaElection() | CreateDeleteTopic() | DeleteController() | MoveLeaders():
            return ()
        case _:
            assert_never(request)


def request_brokers(request: Request) -> frozenset[BrokerId]:
    """The brokers that `request` names as those that get replicas or leaders; an election names none."""
    match request:
        case CreateReassignPartitions(targets=targets):
            return frozenset(broker for target in targets for broker in target.replicas)
        case MoveLeaders(moves=moves):
            return frozenset(move.leader for move in moves)
        case CreatePreferredReplicaElection() | CreateDeleteTopic() | DeleteController():
            return frozenset()
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
            return encode_reassign_partitions({each.partition: each.replicas for each in targets})
        case CreatePreferredReplicaElection(partitions=partitions):
            return encode_preferred_replica_election(partitions)
        case CreateDeleteTopic():
            return encode_delete_topic()
        case DeleteController() | MoveLeaders():
            return b""
        case _:
            assert_never(request)


def render_request(request: Request) -> str:
    """The request as the text that an approver reads, one line per partition."""
    return "\n".join(_lines(request))


def election_batches(
    partitions: Sequence[TopicPartition], *, partition_count_max: int
) -> Iterator[tuple[TopicPartition, ...]]:
    """`partitions` cut, in order, into lists whose election request stays below the count and the size of a znode."""
    for rows in _cut(partitions, [_bytes(PartitionRow(*each)) for each in partitions], partition_count_max):
        yield tuple(rows)


def target_batches(targets: Sequence[Target], *, partition_count_max: int) -> Iterator[tuple[Target, ...]]:
    """`targets` cut, in order, into lists whose reassignment stays below the count and the size of a znode."""
    for rows in _cut(targets, list(map(_bytes, targets)), partition_count_max):
        yield tuple(rows)


def _lines(request: Request) -> Iterator[str]:
    match request:
        case CreateReassignPartitions(targets=targets):
            yield f"create   {REASSIGN_PARTITIONS}  if absent, {counted(len(targets), 'partition')}"
            for target in targets:
                yield f"         {target.partition}  replicas={_joined(target.replicas)}"
        case CreatePreferredReplicaElection(partitions=partitions):
            yield f"create   {PREFERRED_REPLICA_ELECTION}  if absent, {counted(len(partitions), 'partition')}"
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
            for move in moves:
                yield f"         {move.partition}  leader={move.leader}"
        case _:
            assert_never(request)


def _cut(rows: Sequence[_Cut], sizes: Sequence[int], count_max: int) -> Iterator[list[_Cut]]:
    batch: list[_Cut] = []
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


def _joined(brokers: Sequence[BrokerId]) -> str:
    return ",".join(map(str, brokers))


def _bytes(row: PartitionRow) -> int:
    return len(json.encode(row)) + len(",")
