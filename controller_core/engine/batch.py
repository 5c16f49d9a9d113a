"""What one call of the controller wants brokers to hear, while it is collected.

Source: Kafka 3.9 `AbstractControllerBrokerRequestBatch`; `request_batch` folds it into one request per broker and api.
"""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from controller_core.model.partitions import BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition


class AddLeaderAndIsr(NamedTuple):
    """`known` is the leadership that the context held when this was added: what UpdateMetadata will say."""

    brokers: tuple[BrokerId, ...]
    partition: TopicPartition
    leadership: LeaderAndIsr
    assignment: ReplicaAssignment
    is_new: bool
    known: LeaderAndIsr | None


class AddStopReplica(NamedTuple):
    """`leader_epoch` is the context's answer when this was added (-2 for a topic queued for deletion)."""

    brokers: tuple[BrokerId, ...]
    partition: TopicPartition
    delete_partition: bool
    leader_epoch: int


class AddUpdateMetadata(NamedTuple):
    """`known` are the partitions that have leadership, with it; the others of `partitions` tell brokers nothing."""

    brokers: tuple[BrokerId, ...]
    partitions: tuple[TopicPartition, ...]
    known: tuple[tuple[TopicPartition, LeaderAndIsr], ...]


Add = AddLeaderAndIsr | AddStopReplica | AddUpdateMetadata


PARTITION_MACHINE, REPLICA_MACHINE = "partition machine", "replica machine"
STATE_MACHINES = frozenset({PARTITION_MACHINE, REPLICA_MACHINE})
"""Owners of batches whose failure stays within the call; any other owner's makes the controller resign."""


class BatchFault(Enum):
    """Where a request batch raises Kafka's IllegalStateException, for tests and simulations of a broken batch."""

    NEW_BATCH = "new_batch"
    SEND = "send"


@dataclass(frozen=True, slots=True)
class RequestBatch:
    """What one call asked brokers to hear, not yet folded into requests.

    `chunks` in the order of adding; each is what one phase added. `owner` is who collects: a state machine, the
    controller itself, or the deletion of topics.
    """

    chunks: tuple[tuple[Add, ...], ...] = ()
    owner: str = "controller"

    def adds(self) -> tuple[Add, ...]:
        """All of it, first added first."""
        return tuple(add for chunk in self.chunks for add in chunk)


class BatchRecord(NamedTuple):
    """A batch that a step closed: sent under a controller epoch, or given up (None)."""

    batch: RequestBatch
    sent_with_controller_epoch: int | None


EMPTY = RequestBatch()
