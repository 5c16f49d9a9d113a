"""What was seen of a cluster at one moment, by a snapshot or by fresh reads; plans are made from it and checked on it.

Source: docs/operations.md, "The plan"; Kafka 3.9 `ControllerZNode`, `MigrationZNode`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from controller_core.model.partitions import Broker, BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controller_core.znodes.paths import PREFERRED_REPLICA_ELECTION, REASSIGN_PARTITIONS

TOPIC_JSON_WITH_MOVES: Final = 2
"""From this format on a topic's znode lists the replicas that are added and removed (Kafka 2.4, KIP-455)."""


class ActiveController(NamedTuple):
    """Who holds `/controller`: its data, and the stat that tells one election from the next.

    `kraft_epoch` is -1 for a ZooKeeper controller; `is_ephemeral` is false when a KRaft controller has claimed it.
    """

    controller_id: BrokerId
    czxid: int
    version: int
    is_ephemeral: bool = True
    kraft_epoch: int = -1


class TopicIdentity(NamedTuple):
    """What tells a topic from one of the same name created later; `czxid` and `version` are those of its znode.

    Any change of its partitions or of their replicas raises the version; -1: not read.
    """

    czxid: int
    partition_count: int
    topic_id: str | None = None
    version: int = -1


class Notification(NamedTuple):
    """A child of `/isr_change_notification`; `created_ms` is its ctime, milliseconds since 1970-01-01 UTC.

    `problem` says why its data cannot be read, in which case `partitions` is empty.
    """

    name: str
    partitions: tuple[TopicPartition, ...]
    created_ms: int
    problem: str | None = None


class RequestIdentity(NamedTuple):
    """What tells a request znode from a later one at its path; `created_ms` is its ctime, milliseconds since 1970-01-01 UTC."""

    czxid: int
    created_ms: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Metadata as read, of the whole cluster or of the partitions and topics that a plan names.

    `pending` maps the paths of request znodes that exist to their text, `request_identities` to what tells them from later ones, as far as it was
    read; `reassign_requests` and `election_requests` are what they ask for. `unreadable` maps the paths of malformed znodes of topics, partitions and requests to what is wrong with them. What was not asked for is absent, so that a
    check of it fails instead of passing. From the `json_versions`, which are format versions, and from `version_znodes` (those of
    `dialect.VERSION_ZNODES` that exist) Kafka's version is guessed.
    """

    kafka_cluster_id: str | None = None
    active_controller: ActiveController | None = None
    controller_epoch: int | None = None
    controller_epoch_version: int | None = None
    migration: str | None = None
    brokers: Mapping[BrokerId, Broker] = field(default_factory=dict)
    broker_json_versions: Mapping[BrokerId, int] = field(default_factory=dict)
    controller_json_version: int | None = None
    topic_json_versions: frozenset[int] = frozenset()
    version_znodes: frozenset[str] = frozenset()
    topics: Mapping[str, TopicIdentity] = field(default_factory=dict)
    assignments: Mapping[TopicPartition, ReplicaAssignment] = field(default_factory=dict)
    states: Mapping[TopicPartition, LeaderAndIsr] = field(default_factory=dict)
    queued_topics: frozenset[str] = frozenset()
    pending: Mapping[str, str] = field(default_factory=dict)
    request_identities: Mapping[str, RequestIdentity] = field(default_factory=dict)
    reassign_requests: Mapping[TopicPartition, tuple[BrokerId, ...]] = field(default_factory=dict)
    election_requests: frozenset[TopicPartition] = frozenset()
    notifications: tuple[Notification, ...] = ()
    notifications_cversion: int | None = None
    unreadable: Mapping[str, str] = field(default_factory=dict)

    @property
    def leaders(self) -> Mapping[TopicPartition, BrokerId]:
        """Who leads each partition that has a state; `NO_LEADER` where nobody does."""
        return {partition: state.leader for partition, state in self.states.items()}

    @property
    def abandoned_requests(self) -> Mapping[str, tuple[TopicPartition, ...]]:
        """Path of a request znode → the partitions that it names, where none of them exists any more.

        No controller finishes such a request before another one starts: every later one is refused meanwhile.
        Source: real brokers of 1.1 and 3.9, a topic deleted while it moves; docs/fidelity.md.
        """
        return {
            path: named
            for path, named in self._requests().items()
            if named and not self.assignments.keys() & set(named)
        }

    @property
    def idle_requests(self) -> Mapping[str, tuple[TopicPartition, ...]]:
        """Path of a request znode → the partitions that it names, of which the controller moves none; it may have been asked just now.

        Kafka finishes an election within seconds. A reassignment that is begun shows in the znodes of its topics since 2.4 (`shows_moves`).
        """
        requests = {path: named for path, named in self._requests().items() if self.assignments.keys() & set(named)}
        moving = [each for each in self.reassign_requests if each in self.assignments]
        if any(self.assignments[each].is_being_reassigned for each in moving):
            requests.pop(REASSIGN_PARTITIONS, None)
        return requests

    @property
    def shows_moves(self) -> bool:
        """Whether a topic's znode is of the format in which the controller lists the replicas that it adds and removes."""
        return max(self.topic_json_versions, default=0) >= TOPIC_JSON_WITH_MOVES

    def _requests(self) -> Mapping[str, tuple[TopicPartition, ...]]:
        asked = ((REASSIGN_PARTITIONS, self.reassign_requests), (PREFERRED_REPLICA_ELECTION, self.election_requests))
        return {path: tuple(sorted(named)) for path, named in asked}

    @property
    def kraft_sign(self) -> str | None:
        """Why ZooKeeper is not, or not for long, the source of truth here; None when it is.

        Source: Kafka 3.9 `ControllerZNode`, `MigrationZNode`, `KRaftRegistrationResult`; KIP-866.
        """
        if self.migration is not None:
            return f"/migration exists: {self.migration}"
        if self.active_controller is not None and self.active_controller.kraft_epoch >= 0:
            return f"/controller carries kraftControllerEpoch {self.active_controller.kraft_epoch}"
        if self.active_controller is not None and not self.active_controller.is_ephemeral:
            return "/controller is not ephemeral: a KRaft controller has claimed it"
        return None
