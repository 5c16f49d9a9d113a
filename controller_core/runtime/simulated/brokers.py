"""Brokers that obey, in memory: they lead and follow, keep logs, refuse stale epochs and cache metadata.

A follower fetches at once and is caught up at once; nothing else of a broker matters to a controller.
Source: Kafka 3.9 `ReplicaManager`, `KafkaApis`, `ZkMetadataCache`, `LogManager`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple, assert_never

from controller_core.messages.effects import (
    BrokerRequest,
    LeaderAndIsrPartition,
    ReplyAlterPartition,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
    StopReplicaPartition,
)
from controller_core.messages.events import (
    AlterPartition,
    IsrChange,
    LeaderAndIsrAnswered,
    StopReplicaAnswered,
    UpdateMetadataAnswered,
)
from controller_core.model.partitions import (
    LEADER_DURING_DELETE,
    BrokerId,
    LeaderAndIsr,
    LeaderRecoveryState,
    ReplicaAssignment,
    TopicPartition,
)
from controller_core.wire.messages import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA
from controller_core.wire.schema import Message

NONE = "NONE"
STALE_CONTROLLER_EPOCH = "STALE_CONTROLLER_EPOCH"
STALE_BROKER_EPOCH = "STALE_BROKER_EPOCH"
FENCED_LEADER_EPOCH = "FENCED_LEADER_EPOCH"
STORAGE_ERROR = "KAFKA_STORAGE_ERROR"
LOG_DIR_COUNT = 2
_MESSAGES: Mapping[type, Message] = {
    SendLeaderAndIsr: LEADER_AND_ISR,
    SendStopReplica: STOP_REPLICA,
    SendUpdateMetadata: UPDATE_METADATA,
}
BrokerAnswer = LeaderAndIsrAnswered | StopReplicaAnswered | UpdateMetadataAnswered


@dataclass(slots=True)
class Disk:
    """What survives a restart: partition → number of the log directory, and the directories that failed."""

    logs: dict[TopicPartition, int] = field(default_factory=dict)
    failed: set[int] = field(default_factory=set)

    def is_offline(self, partition: TopicPartition) -> bool:
        """Whether the partition's log lies in a failed directory."""
        return self.logs.get(partition) in self.failed

    def create(self, partition: TopicPartition, *, is_new: bool) -> bool:
        """A log in the emptiest healthy directory; a replica that is not new waits for the failed ones, as in Kafka."""
        if partition in self.logs:
            return not self.is_offline(partition)
        healthy = [number for number in range(LOG_DIR_COUNT) if number not in self.failed]
        if not healthy or (self.failed and not is_new):
            return False
        held = list(self.logs.values())
        self.logs[partition] = min(healthy, key=lambda number: (held.count(number), number))
        return True


class CachedPartition(NamedTuple):
    """A partition as the last UpdateMetadata described it."""

    leader: BrokerId
    isr: tuple[BrokerId, ...]
    replicas: tuple[BrokerId, ...]
    offline_replicas: tuple[BrokerId, ...]


class IsrWish(NamedTuple):
    """Who shall join the ISR of a leadership, each with the epoch of its run; the same is not asked twice."""

    leadership: LeaderAndIsr
    joining: tuple[tuple[BrokerId, int], ...]


@dataclass(slots=True)
class LocalReplica:
    """A replica that a broker leads or follows, as the last LeaderAndIsr said and ISR changes moved it on."""

    leadership: LeaderAndIsr
    assignment: ReplicaAssignment
    fetching: bool = True  # as a follower; StopReplica ends it
    asked: IsrWish | None = None  # the last ISR change: under way, or refused


class SimulatedBroker:
    """One run of a broker, from start to stop; the disk outlives it.

    Attributes:
        id: broker id.
        epoch: czxid of its registration.
        replicas: those it leads or follows.
        cached: metadata cache, partition by partition; `cached_brokers`: the live brokers in it.
        hosted: partitions of all LeaderAndIsr it accepted.
    """

    def __init__(self, broker_id: BrokerId, epoch: int, disk: Disk) -> None:
        self.id = broker_id
        self.epoch = epoch
        self.disk = disk
        self.replicas: dict[TopicPartition, LocalReplica] = {}
        self.cached: dict[TopicPartition, CachedPartition] = {}
        self.cached_brokers: tuple[BrokerId, ...] = ()
        self.hosted: set[TopicPartition] = set()
        self._controller_epoch = -1

    # ---- requests of the controller ----

    def handle(self, request: BrokerRequest) -> BrokerAnswer | None:
        """Obey; the answer that the controller hears of, or None where it does not care."""
        match request:
            case SendLeaderAndIsr():
                return self._lead_and_follow(request)
            case SendStopReplica():
                return self._stop(request)
            case SendUpdateMetadata():
                return self._update_metadata(request)
            case _:
                assert_never(request)

    def _lead_and_follow(self, request: SendLeaderAndIsr) -> LeaderAndIsrAnswered:
        error = self._stale(request)
        if error:
            return LeaderAndIsrAnswered(self.id, error, {})
        errors = {state.partition: self._become(state) for state in request.partition_states}
        return LeaderAndIsrAnswered(self.id, NONE, errors)

    def _become(self, state: LeaderAndIsrPartition) -> str:
        partition, leadership = state.partition, state.leadership
        if self.disk.is_offline(partition):
            return STORAGE_ERROR
        local = self.replicas.get(partition)
        if local is not None and leadership.leader_epoch <= local.leadership.leader_epoch:
            return STALE_CONTROLLER_EPOCH
        if self.id not in state.assignment.replicas:
            return "UNKNOWN_TOPIC_OR_PARTITION"
        if not self.disk.create(partition, is_new=state.is_new):
            return STORAGE_ERROR
        self.replicas[partition] = LocalReplica(leadership, state.assignment)
        self.hosted.add(partition)
        return NONE

    def _stop(self, request: SendStopReplica) -> StopReplicaAnswered | None:
        deleted = [state.partition for state in request.partition_states if state.delete_partition]
        error = self._stale(request)
        if error:
            return StopReplicaAnswered(self.id, error, dict.fromkeys(deleted, error)) if deleted else None
        errors = {state.partition: self._stop_replica(state) for state in request.partition_states}
        if not deleted:
            return None
        return StopReplicaAnswered(self.id, NONE, {partition: errors[partition] for partition in deleted})

    def _stop_replica(self, state: StopReplicaPartition) -> str:
        partition = state.partition
        if self.disk.is_offline(partition):
            return STORAGE_ERROR
        local = self.replicas.get(partition)
        if local is not None and -1 < state.leader_epoch < local.leadership.leader_epoch:
            return FENCED_LEADER_EPOCH
        if state.delete_partition:
            self.replicas.pop(partition, None)
            self.disk.logs.pop(partition, None)
        elif local is not None:
            local.fetching = False
        return NONE

    def _update_metadata(self, request: SendUpdateMetadata) -> UpdateMetadataAnswered | None:
        error = self._stale(request)
        if error:
            return UpdateMetadataAnswered(self.id, error)
        self.cached_brokers = tuple(sorted(broker.id for broker in request.live_brokers))
        for state in request.partition_states:
            leadership = state.leadership
            if leadership.leader == LEADER_DURING_DELETE:
                self.cached.pop(state.partition, None)
            else:
                self.cached[state.partition] = CachedPartition(
                    leadership.leader, leadership.isr, state.replicas, state.offline_replicas
                )
        return None

    def _stale(self, request: BrokerRequest) -> str:
        names_epoch = _MESSAGES[type(request)].has("broker_epoch", request.version)
        if names_epoch and -1 < request.broker_epoch < self.epoch:
            return STALE_BROKER_EPOCH
        if request.controller_epoch < self._controller_epoch:
            return STALE_CONTROLLER_EPOCH
        self._controller_epoch = request.controller_epoch
        return ""

    # ---- what it does of its own accord ----

    def fail_log_dir(self, partition: TopicPartition) -> None:
        """The directory that holds the partition's log fails: every replica in it is neither led nor followed."""
        number = self.disk.logs[partition]
        self.disk.failed.add(number)
        for each in [p for p, held in self.disk.logs.items() if held == number]:
            self.replicas.pop(each, None)

    def is_fetching(self, partition: TopicPartition, leader: BrokerId, leader_epoch: int) -> bool:
        """Whether this broker follows that leader in that epoch, and so is caught up."""
        local = self.replicas.get(partition)
        if local is None or not local.fetching:
            return False
        return (local.leadership.leader, local.leadership.leader_epoch) == (leader, leader_epoch)

    def wanted_isr_changes(
        self, brokers: Mapping[BrokerId, "SimulatedBroker"]
    ) -> list[tuple[TopicPartition, LeaderAndIsr]]:
        """Partitions whose followers caught up, with the leadership that this leader wants; none twice."""
        wanted = []
        for partition, local in sorted(self.replicas.items()):
            state = local.leadership
            if state.leader != self.id:
                continue
            joining = tuple(
                replica
                for replica in local.assignment.replicas
                if replica not in state.isr
                and replica in brokers
                and brokers[replica].is_fetching(partition, self.id, state.leader_epoch)
            )
            wish = IsrWish(state, tuple((replica, brokers[replica].epoch) for replica in joining))
            if joining and local.asked != wish:
                local.asked = wish
                isr = (*state.isr, *joining)
                wanted.append((partition, state._replace(isr=isr, recovery=LeaderRecoveryState.RECOVERED)))
        return wanted

    def ask(self, changes: Iterable[tuple[TopicPartition, LeaderAndIsr]]) -> AlterPartition:
        """The request to the controller (Kafka 2.7)."""
        asked = tuple(
            IsrChange(partition, state.leader_epoch, state.partition_epoch, state.isr, state.recovery)
            for partition, state in changes
        )
        return AlterPartition(self.id, self.epoch, asked)

    def hear(self, reply: ReplyAlterPartition) -> None:
        """The controller's answer: what was accepted holds, what was refused waits for the next LeaderAndIsr."""
        for partition, state in reply.accepted:
            local = self.replicas.get(partition)
            if local is not None and local.leadership.leader_epoch == state.leader_epoch:
                self._adopt(partition, state)

    def adopt(self, partition: TopicPartition, state: LeaderAndIsr, version: int | None) -> None:
        """The result of the leader's own write; None: refused."""
        if version is not None:
            self._adopt(partition, state._replace(partition_epoch=version))

    def may_ask_again(self) -> None:
        """A new controller is active: what the old one left unanswered may be asked again."""
        for local in self.replicas.values():
            local.asked = None

    def _adopt(self, partition: TopicPartition, state: LeaderAndIsr) -> None:
        self.replicas[partition] = replace(self.replicas[partition], leadership=state, asked=None)
