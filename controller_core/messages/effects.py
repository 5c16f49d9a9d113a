"""Everything the core can ask of the outside: a closed union of frozen records, with a JSON form and a digest.

Source: the operations of Kafka's `KafkaZkClient` and `ControllerChannelManager`. An effect
may carry many partitions, as Kafka reads, writes and sends in batches. Effects that are answered say with what;
`Failed` answers any of them. `controller_epoch_version` is the epoch check of a write: the version that `/controller_epoch`
must have (None in dialects without `epoch_fencing`).
"""

from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from controller_core.model.partitions import Broker, BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition

PartitionStates = tuple[tuple[TopicPartition, LeaderAndIsr], ...]
"""Partitions with the leadership to write; its `partition_epoch` is the znode version that the write expects."""


# Reading ZooKeeper


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPartitionStates:
    """Read the `state` znodes. Answered by `StatesRead`."""

    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTopicConfigs:
    """Read `/config/topics/<topic>`. Answered by `TopicConfigsRead`."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadBrokers:
    """Read all of `/brokers/ids`, and watch its children. Answered by `BrokersRead`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTopics:
    """List `/brokers/topics`, and watch its children. Answered by `TopicsRead`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTopicAssignments:
    """Read the topic znodes, and watch their data. Answered by `TopicAssignmentsRead`."""

    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListPartitions:
    """List `/brokers/topics/<topic>/partitions`. Answered by `PartitionsListed`."""

    topic: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadDeletionRequests:
    """List `/admin/delete_topics`, and watch its children. Answered by `DeletionRequestsRead`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadReassignmentRequests:
    """Read `/admin/reassign_partitions`, and watch for it. Answered by `ReassignmentRequestsRead`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadPreferredElectionRequest:
    """Read `/admin/preferred_replica_election`, and watch for it. Answered by `PreferredElectionRequestRead`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ListIsrNotifications:
    """List `/isr_change_notification`, and watch its children. Answered by `NotificationsListed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadIsrNotifications:
    """Read these notifications. Answered by `IsrNotificationsRead`; an absent one names no partition."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ListLogDirEvents:
    """List `/log_dir_event_notification`, and watch its children. Answered by `NotificationsListed`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadLogDirEvents:
    """Read these events. Answered by `LogDirEventsRead`."""

    names: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadController:
    """Read `/controller` and whether `/migration` exists, and watch. Answered by `ControllerRead`."""


# Writing ZooKeeper


@dataclass(frozen=True, slots=True, kw_only=True)
class CreatePartitionStates:
    """Create `partitions`, `<partition>` and `state` znodes; the last must not exist. Answered by `StatesCreated`."""

    states: PartitionStates
    controller_epoch_version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WritePartitionStates:
    """Compare-and-set of `state` znodes, each at its `partition_epoch`. Answered by `StatesWritten`."""

    states: PartitionStates
    controller_epoch_version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTopicAssignment:
    """Write a topic znode, whatever its version: all its partitions. Answered by `Done`."""

    topic: str
    topic_id: str | None
    assignments: tuple[tuple[int, ReplicaAssignment], ...]
    extra: tuple[tuple[str, str], ...]
    controller_epoch_version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AssignTopicIds:
    """Give these topics a new random id each, in their znodes. Answered by `TopicIdsAssigned`."""

    topics: tuple[str, ...]
    controller_epoch_version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicNode:
    """Delete `/brokers/topics/<topic>` with all below it. Answered by `Done`."""

    topic: str
    controller_epoch_version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicConfig:
    """Delete `/config/topics/<topic>`; absent is fine. Answered by `Done`."""

    topic: str
    controller_epoch_version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteTopicDeletions:
    """Delete `/admin/delete_topics/<topic>` of these; absent is fine. Answered by `Done`."""

    topics: tuple[str, ...]
    controller_epoch_version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteReassignmentRequests:
    """Set `/admin/reassign_partitions` to these targets, creating it if need be. Answered by `Done`."""

    targets: tuple[tuple[TopicPartition, tuple[BrokerId, ...]], ...]
    controller_epoch_version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteReassignmentRequests:
    """Delete `/admin/reassign_partitions`, and watch for it again. Answered by `Done`."""

    controller_epoch_version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletePreferredElectionRequest:
    """Delete `/admin/preferred_replica_election`, and watch for it again. Answered by `Done`."""

    controller_epoch_version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteIsrNotifications:
    """Delete exactly these notifications. Answered by `Done`."""

    names: tuple[str, ...]
    controller_epoch_version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteLogDirEvents:
    """Delete exactly these events. Answered by `Done`."""

    names: tuple[str, ...]
    controller_epoch_version: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegisterController:
    """Become controller: create `/controller` and raise `/controller_epoch` by one (create it if absent).

    `atomically` (Kafka 2.1): both in one multi. Before, the creation comes first and the epoch follows by
    compare-and-set. Answered by `ControllerRegistered`, or by `Failed` with NODEEXISTS when somebody was faster.
    """

    controller_id: BrokerId
    json_version: int
    atomically: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteControllerNode:
    """Give up `/controller`. Answered by `Done`."""

    controller_epoch_version: int | None


# Watches and timers


class WatchKind(Enum):
    """What is watched: the data of single znodes, or the children of a directory."""

    BROKERS = "children of /brokers/ids"
    BROKER = "data of /brokers/ids/<id>"
    TOPICS = "children of /brokers/topics"
    TOPIC = "data of /brokers/topics/<topic>"
    PARTITION_STATE = "data of a state znode"
    DELETIONS = "children of /admin/delete_topics"
    REASSIGNMENT = "/admin/reassign_partitions"
    PREFERRED_ELECTION = "/admin/preferred_replica_election"
    ISR_NOTIFICATIONS = "children of /isr_change_notification"
    LOG_DIR_EVENTS = "children of /log_dir_event_notification"


@dataclass(frozen=True, slots=True, kw_only=True)
class Watch:
    """Hear of changes from now on. `names` are brokers, topics or partitions; empty for a single znode."""

    kind: WatchKind
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Unwatch:
    """Hear of changes no longer; no names: of none of that kind."""

    kind: WatchKind
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleRebalance:
    """Send `RebalanceDue` after so many seconds."""

    delay_s: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CancelSchedules:
    """Forget all timers: this controller is not the active one any more."""


# Requests to brokers


class LeaderAndIsrPartition(NamedTuple):
    """One partition of a LeaderAndIsr request."""

    partition: TopicPartition
    leadership: LeaderAndIsr
    assignment: ReplicaAssignment
    is_new: bool


class UpdateMetadataPartition(NamedTuple):
    """One partition of an UpdateMetadata request; leader -2 means that it is being deleted."""

    partition: TopicPartition
    leadership: LeaderAndIsr
    replicas: tuple[BrokerId, ...]
    offline_replicas: tuple[BrokerId, ...]


class StopReplicaPartition(NamedTuple):
    """One partition of a StopReplica request."""

    partition: TopicPartition
    delete_partition: bool
    leader_epoch: int


class LiveLeader(NamedTuple):
    """Where a leader listens for other brokers."""

    id: BrokerId
    host: str
    port: int


TopicIds = tuple[tuple[str, str | None], ...]
"""Topics of a request with their ids; None where the controller knows none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SendLeaderAndIsr:
    """Tell a broker which replicas it leads and follows. Answered, later, by `LeaderAndIsrAnswered`."""

    broker: BrokerId
    broker_epoch: int
    version: int
    controller_id: BrokerId
    controller_epoch: int
    partition_states: tuple[LeaderAndIsrPartition, ...]
    live_leaders: tuple[LiveLeader, ...]
    topic_ids: TopicIds


@dataclass(frozen=True, slots=True, kw_only=True)
class SendUpdateMetadata:
    """Fill a broker's metadata cache: these partitions, and all live brokers."""

    broker: BrokerId
    broker_epoch: int
    version: int
    controller_id: BrokerId
    controller_epoch: int
    partition_states: tuple[UpdateMetadataPartition, ...]
    live_brokers: tuple[Broker, ...]
    topic_ids: TopicIds


@dataclass(frozen=True, slots=True, kw_only=True)
class SendStopReplica:
    """Let a broker stop replicas, and delete some. Answered, later, by `StopReplicaAnswered`."""

    broker: BrokerId
    broker_epoch: int
    version: int
    controller_id: BrokerId
    controller_epoch: int
    partition_states: tuple[StopReplicaPartition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenChannels:
    """Connect to these brokers: they registered."""

    brokers: tuple[Broker, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CloseChannels:
    """Disconnect from these brokers, None: from all, and drop what is queued for them."""

    brokers: tuple[BrokerId, ...] | None


# Answers to brokers and clients


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyControlledShutdown:
    """To the broker that wants to shut down: what it still leads, or Kafka's name of an error."""

    broker: BrokerId
    partitions_still_led: tuple[TopicPartition, ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyAlterPartition:
    """To the leader that changes its ISR: a leadership or an error per partition, or one error for all."""

    broker: BrokerId
    error: str = ""
    accepted: PartitionStates = ()
    errors: tuple[tuple[TopicPartition | str, str], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyReassignments:
    """To the client that altered reassignments: Kafka's name of an error per partition, "" for none."""

    errors: tuple[tuple[TopicPartition, str], ...]
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyReassignmentList:
    """To the client that asked which reassignments run: those that do, with full, adding and removing replicas."""

    listed: tuple[tuple[TopicPartition, ReplicaAssignment], ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplyElections:
    """To the client that asked for elections: Kafka's name of an error per partition, "" for none."""

    errors: tuple[tuple[TopicPartition, str], ...]
    error: str = ""


ReadEffect = (
    ReadPartitionStates | ReadTopicConfigs | ReadBrokers | ReadTopics | ReadTopicAssignments | ListPartitions
    | ReadDeletionRequests | ReadReassignmentRequests | ReadPreferredElectionRequest | ListIsrNotifications | ReadIsrNotifications
    | ListLogDirEvents | ReadLogDirEvents | ReadController
)  # fmt: skip
WriteEffect = (
    CreatePartitionStates | WritePartitionStates | WriteTopicAssignment | AssignTopicIds | DeleteTopicNode | DeleteTopicConfig
    | DeleteTopicDeletions | WriteReassignmentRequests | DeleteReassignmentRequests | DeletePreferredElectionRequest
    | DeleteIsrNotifications | DeleteLogDirEvents | RegisterController | DeleteControllerNode
)  # fmt: skip
AnsweredEffect = ReadEffect | WriteEffect
"""What ZooKeeper answers; at most the last effect of a step is one."""
ZooKeeperEffect = AnsweredEffect | Watch | Unwatch
BrokerRequest = SendLeaderAndIsr | SendUpdateMetadata | SendStopReplica
Reply = ReplyControlledShutdown | ReplyAlterPartition | ReplyReassignments | ReplyReassignmentList | ReplyElections
Effect = (
    ZooKeeperEffect | ScheduleRebalance | CancelSchedules | BrokerRequest | OpenChannels | CloseChannels | Reply
)  # fmt: skip
"""Closed: this is all that the core can ask for."""
