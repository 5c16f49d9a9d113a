"""What happens to the controller: what ZooKeeper and brokers tell it, and what brokers and clients ask of it.

Source: the event classes of Kafka 3.9 `KafkaController`. An event that comes while another is under way is queued, as in
Kafka's event queue.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from controller_core.model.partitions import BrokerId, LeaderRecoveryState, TopicPartition


@dataclass(frozen=True, slots=True)
class Startup:
    """The broker of this controller has started: try to become controller."""


@dataclass(frozen=True, slots=True)
class ControllerChanged:
    """`/controller` was created or changed."""


@dataclass(frozen=True, slots=True)
class ControllerVanished:
    """`/controller` was deleted: elect."""


@dataclass(frozen=True, slots=True)
class SessionExpired:
    """The ZooKeeper session is gone; a controller that was active is no longer."""


@dataclass(frozen=True, slots=True)
class SessionEstablished:
    """A new ZooKeeper session stands and the broker is registered again: elect."""


@dataclass(frozen=True, slots=True)
class MoveController:
    """Resign, so that another broker becomes the active controller."""


@dataclass(frozen=True, slots=True)
class BrokersChanged:
    """Children of `/brokers/ids` changed."""


@dataclass(frozen=True, slots=True)
class BrokerDataChanged:
    """The registration of a broker changed its data."""

    broker: BrokerId


@dataclass(frozen=True, slots=True)
class TopicsChanged:
    """Children of `/brokers/topics` changed."""


@dataclass(frozen=True, slots=True)
class TopicDataChanged:
    """The znode of a topic changed: there may be new partitions."""

    topic: str


@dataclass(frozen=True, slots=True)
class DeletionsChanged:
    """Children of `/admin/delete_topics` changed."""


@dataclass(frozen=True, slots=True)
class ReassignmentRequested:
    """`/admin/reassign_partitions` was created."""


@dataclass(frozen=True, slots=True)
class PartitionStateChanged:
    """The `state` znode of a partition under reassignment changed."""

    partition: TopicPartition


@dataclass(frozen=True, slots=True)
class PreferredElectionRequested:
    """`/admin/preferred_replica_election` was created."""


@dataclass(frozen=True, slots=True)
class IsrNotificationsChanged:
    """Children of `/isr_change_notification` changed; `names` came with the event (used through Kafka 1.0)."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LogDirEventsChanged:
    """Children of `/log_dir_event_notification` changed."""


@dataclass(frozen=True, slots=True)
class RebalanceDue:
    """The timer of the automatic rebalance fired."""


@dataclass(frozen=True, slots=True)
class UncleanElectionEnabled:
    """Unclean election was switched on for one topic, or (None) for all."""

    topic: str | None = None


@dataclass(frozen=True, slots=True)
class ControlledShutdown:
    """A broker asks to shut down; `broker_epoch` None, or -1, is not checked."""

    broker: BrokerId
    broker_epoch: int | None = None


class IsrChange(NamedTuple):
    """The ISR that a leader wants, with the epochs that it knows."""

    partition: TopicPartition | str  # or the topic's id and number, as `id-number`, where the id is unknown
    leader_epoch: int
    partition_epoch: int
    isr: tuple[BrokerId, ...]
    recovery: LeaderRecoveryState = LeaderRecoveryState.RECOVERED


@dataclass(frozen=True, slots=True)
class AlterPartition:
    """A leader asks for other ISRs (Kafka 2.7)."""

    broker: BrokerId
    broker_epoch: int
    changes: tuple[IsrChange, ...]
    api_version: int = 3


@dataclass(frozen=True, slots=True)
class AlterReassignments:
    """A client asks for reassignments (Kafka 2.4); a None target cancels."""

    targets: tuple[tuple[TopicPartition, tuple[BrokerId, ...] | None], ...]


@dataclass(frozen=True, slots=True)
class ListReassignments:
    """A client asks which reassignments run (Kafka 2.4): of these partitions; None: of all."""

    partitions: tuple[TopicPartition, ...] | None = None


@dataclass(frozen=True, slots=True)
class ElectLeaders:
    """A client asks for elections; no partitions are all of them. `unclean` (Kafka 2.4) elects offline ones uncleanly."""

    partitions: tuple[TopicPartition, ...] = ()
    unclean: bool = False


@dataclass(frozen=True, slots=True)
class LeaderAndIsrAnswered:
    """A broker answered LeaderAndIsr: one error for all, or one per partition; "NONE" is none.

    `topic_ids`: since version 5 the answer names ids, those of the request; empty where it names topics.
    """

    broker: BrokerId
    error: str
    partition_errors: Mapping[TopicPartition, str]
    topic_ids: tuple[tuple[str, str | None], ...] = ()


@dataclass(frozen=True, slots=True)
class UpdateMetadataAnswered:
    """A broker answered UpdateMetadata."""

    broker: BrokerId
    error: str


@dataclass(frozen=True, slots=True)
class StopReplicaAnswered:
    """A broker answered a StopReplica that deletes: the partitions sent with delete, and their errors."""

    broker: BrokerId
    error: str
    partition_errors: Mapping[TopicPartition, str]


RequestEvent = ControlledShutdown | AlterPartition | AlterReassignments | ListReassignments | ElectLeaders
"""Requests of brokers and clients: whoever sent one waits for its answer."""
ActiveEvent = (
    BrokersChanged | BrokerDataChanged | TopicsChanged | TopicDataChanged | DeletionsChanged | ReassignmentRequested
    | PartitionStateChanged | PreferredElectionRequested | IsrNotificationsChanged | LogDirEventsChanged | RebalanceDue
    | UncleanElectionEnabled | RequestEvent
    | LeaderAndIsrAnswered | UpdateMetadataAnswered | StopReplicaAnswered
)  # fmt: skip
"""Events that only the active controller handles."""
Event = (
    Startup | ControllerChanged | ControllerVanished | SessionExpired | SessionEstablished | MoveController
    | ActiveEvent
)  # fmt: skip
"""Closed: nothing else happens to a controller."""
