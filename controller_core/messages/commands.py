"""Everything the core can be told: events, requests, and answers to its effects.

Source: the event classes of Kafka 3.9 `KafkaController`; controller behaviour §7 to §15. An answer carries the effect it
answers. A command that comes while another is under way is queued in the context, as in Kafka's event queue.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from controller_core.engine.pending import Task
from controller_core.messages import effects as e
from controller_core.model.partitions import (
    Broker,
    BrokerId,
    LeaderAndIsr,
    LeaderRecoveryState,
    ReplicaAssignment,
    TopicPartition,
)

# Events and requests


@dataclass(frozen=True, slots=True)
class Perform:
    """Run these tasks: single methods of Kafka's controller, for tools that ask "what would happen if"."""

    tasks: tuple[Task, ...]


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
    """The ZooKeeper session is gone; whoever was in office is no longer."""


@dataclass(frozen=True, slots=True)
class SessionEstablished:
    """A new ZooKeeper session stands and the broker is registered again: elect."""


@dataclass(frozen=True, slots=True)
class MoveController:
    """Give up the office of one's own accord."""


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
class ElectLeaders:
    """A client asks for elections; no partitions are all of them. `unclean` (Kafka 2.4) elects offline ones uncleanly."""

    partitions: tuple[TopicPartition, ...] = ()
    unclean: bool = False


@dataclass(frozen=True, slots=True)
class LeaderAndIsrAnswered:
    """A broker answered LeaderAndIsr: one error for all, or one per partition; "NONE" is none."""

    broker: BrokerId
    error: str
    partition_errors: Mapping[TopicPartition, str]


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


# Answers


class ReadProblem(NamedTuple):
    """Why a state could not be read: a ZooKeeper code such as NONODE, or MALFORMED with what is wrong.

    `ends_kafkas_call`: the content is JSON of the wrong shape, on which Kafka's decoder raises in the middle of the
    call, so that no other partition of it is served either.
    """

    code: str
    what: str = ""
    ends_kafkas_call: bool = False


@dataclass(frozen=True, slots=True)
class StatesRead:
    """What the `state` znodes hold; `partition_epoch` is their version."""

    effect: e.ReadPartitionStates
    found: Mapping[TopicPartition, LeaderAndIsr]
    problems: Mapping[TopicPartition, ReadProblem] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StatesWritten:
    """New znode versions of what was written; ZooKeeper codes of the rest (BADVERSION: somebody was faster)."""

    effect: e.WritePartitionStates
    versions: Mapping[TopicPartition, int]
    problems: Mapping[TopicPartition, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class StatesCreated:
    """ZooKeeper codes of what could not be created (NODEEXISTS, …); the rest was, with version 0."""

    effect: e.CreatePartitionStates
    problems: Mapping[TopicPartition, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicConfigsRead:
    """Overrides of each topic (none: an empty mapping), and ZooKeeper codes of topics that could not be read."""

    effect: e.ReadTopicConfigs
    configs: Mapping[str, Mapping[str, str]]
    problems: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class BrokersRead:
    """The registered brokers."""

    effect: e.ReadBrokers
    brokers: tuple[Broker, ...]


@dataclass(frozen=True, slots=True)
class TopicsRead:
    """Names of all topics."""

    effect: e.ReadTopics
    topics: tuple[str, ...]


class TopicContent(NamedTuple):
    """What a topic znode holds."""

    assignments: Mapping[int, ReplicaAssignment]
    topic_id: str | None = None
    extra: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class TopicAssignmentsRead:
    """Content of the topic znodes; absent ones are left out, `problems` says what is wrong with unreadable ones."""

    effect: e.ReadTopicAssignments
    topics: Mapping[str, TopicContent]
    problems: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TopicIdsAssigned:
    """The ids that the topics have now."""

    effect: e.AssignTopicIds
    topic_ids: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class DeletionRequestsRead:
    """Topics whose deletion was asked for."""

    effect: e.ReadDeletionRequests
    topics: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ReassignmentRequestsRead:
    """Targets by partition; None where there is no request node. `problem`: its content is refused."""

    effect: e.ReadReassignmentRequests
    targets: Mapping[TopicPartition, tuple[BrokerId, ...]] | None
    problem: str = ""


@dataclass(frozen=True, slots=True)
class PreferredElectionRequestRead:
    """Partitions asked for; None where there is no request node."""

    effect: e.ReadPreferredElectionRequest
    partitions: tuple[TopicPartition, ...] | None


@dataclass(frozen=True, slots=True)
class NotificationsListed:
    """Names of the notifications that are there."""

    effect: e.ListIsrNotifications | e.ListLogDirEvents
    names: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class IsrNotificationsRead:
    """Partitions that the notifications name, one notification after the other."""

    effect: e.ReadIsrNotifications
    partitions: tuple[TopicPartition, ...]


@dataclass(frozen=True, slots=True)
class LogDirEventsRead:
    """Brokers that lost a log directory."""

    effect: e.ReadLogDirEvents
    brokers: tuple[BrokerId, ...]


@dataclass(frozen=True, slots=True)
class ControllerRead:
    """Who is in office; None: nobody. `kraft_epoch` ≥ 0 or `migrating`: the cluster belongs to KRaft."""

    effect: e.ReadController
    controller_id: BrokerId | None
    kraft_epoch: int | None = None
    migrating: bool = False


@dataclass(frozen=True, slots=True)
class ControllerRegistered:
    """This controller is in office, under this epoch."""

    effect: e.RegisterController
    epoch: int
    epoch_zk_version: int


@dataclass(frozen=True, slots=True)
class Done:
    """An effect without a result was carried out."""

    effect: e.Effect


CONTROLLER_MOVED = "CONTROLLER_MOVED"
SESSION_EXPIRED = "SESSION_EXPIRED"


@dataclass(frozen=True, slots=True)
class Failed:
    """An effect could not be carried out as a whole.

    `error` is a ZooKeeper code, the name of a client's exception, or CONTROLLER_MOVED (the fence did not hold) or
    SESSION_EXPIRED.
    """

    effect: e.Effect
    error: str


ActiveEvent = (
    BrokersChanged | BrokerDataChanged | TopicsChanged | TopicDataChanged | DeletionsChanged | ReassignmentRequested
    | PartitionStateChanged | PreferredElectionRequested | IsrNotificationsChanged | LogDirEventsChanged | RebalanceDue
    | UncleanElectionEnabled | ControlledShutdown | AlterPartition | AlterReassignments | ElectLeaders
    | LeaderAndIsrAnswered | UpdateMetadataAnswered | StopReplicaAnswered
)  # fmt: skip
"""Events that only the controller in office handles."""
Event = (
    Perform | Startup | ControllerChanged | ControllerVanished | SessionExpired | SessionEstablished | MoveController
    | ActiveEvent
)  # fmt: skip
Answer = (
    StatesRead | StatesWritten | StatesCreated | TopicConfigsRead | BrokersRead | TopicsRead | TopicAssignmentsRead | TopicIdsAssigned
    | DeletionRequestsRead | ReassignmentRequestsRead | PreferredElectionRequestRead | NotificationsListed
    | IsrNotificationsRead | LogDirEventsRead | ControllerRead | ControllerRegistered | Done | Failed
)  # fmt: skip
Command = Event | Answer
"""Closed: this is all that the core can be told."""
