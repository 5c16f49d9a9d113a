"""What the outside says to an effect that is answered. An answer carries the effect that it answers.

Source: the results of Kafka 3.9 `KafkaZkClient`, one class per kind of result.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from controller_core.messages import effects as e
from controller_core.model.partitions import Broker, BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition

NO_NODE = "NONODE"
BAD_VERSION = "BADVERSION"
CONNECTION_LOSS = "CONNECTIONLOSS"
MALFORMED = "MALFORMED"
CONTROLLER_MOVED = "CONTROLLER_MOVED"
SESSION_EXPIRED = "SESSION_EXPIRED"
"""Why something failed: the first three are ZooKeeper's codes, the others ours."""


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
class PartitionsListed:
    """Names of the children of the topic's `partitions`; none where that znode is missing."""

    effect: e.ListPartitions
    names: tuple[str, ...]


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
    """The active controller; None: there is none. `kraft_epoch` ≥ 0 or `migrating`: the cluster belongs to KRaft."""

    effect: e.ReadController
    controller_id: BrokerId | None
    kraft_epoch: int | None = None
    migrating: bool = False


@dataclass(frozen=True, slots=True)
class ControllerRegistered:
    """This controller is the active one, under this epoch."""

    effect: e.RegisterController
    epoch: int
    epoch_zk_version: int


@dataclass(frozen=True, slots=True)
class Done:
    """An effect without a result was carried out."""

    effect: e.Effect


@dataclass(frozen=True, slots=True)
class Failed:
    """An effect could not be carried out as a whole.

    `error` is a ZooKeeper code, the name of a client's exception, or CONTROLLER_MOVED (the epoch check failed) or
    SESSION_EXPIRED.
    """

    effect: e.Effect
    error: str


Answer = (
    StatesRead | StatesWritten | StatesCreated | TopicConfigsRead | BrokersRead | TopicsRead | TopicAssignmentsRead | PartitionsListed
    | TopicIdsAssigned | DeletionRequestsRead | ReassignmentRequestsRead | PreferredElectionRequestRead | NotificationsListed
    | IsrNotificationsRead | LogDirEventsRead | ControllerRead | ControllerRegistered | Done | Failed
)  # fmt: skip
"""Closed: each answers one effect, `Failed` any of them."""
