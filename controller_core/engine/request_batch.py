"""The request batch: what a call sends to brokers, folded into one request per broker and api.

Source: Kafka 3.9 `AbstractControllerBrokerRequestBatch`. Rows of a request are shared between
the brokers that get them, and liveness is looked at once per request: the fold costs as much as what was added.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple, assert_never

from controller_core.context.context import ControllerContext
from controller_core.context.partition_entries import NOTHING
from controller_core.engine.batch import EMPTY, Add, AddLeaderAndIsr, AddStopReplica, AddUpdateMetadata, RequestBatch
from controller_core.messages.effects import (
    BrokerRequest,
    LeaderAndIsrPartition,
    LiveLeader,
    SendLeaderAndIsr,
    SendStopReplica,
    SendUpdateMetadata,
    StopReplicaPartition,
    TopicIds,
    UpdateMetadataPartition,
)
from controller_core.messages.events import Event, LeaderAndIsrAnswered, StopReplicaAnswered, UpdateMetadataAnswered
from controller_core.model.dialect import Dialect
from controller_core.model.partitions import (
    NO_ASSIGNMENT,
    Broker,
    BrokerId,
    Endpoint,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartition,
)
from controller_core.wire.messages import LEADER_AND_ISR, STOP_REPLICA, UPDATE_METADATA

_TOPIC_ID = "topic_states.topic_id"
_PLAINTEXT = "PLAINTEXT"


class Sent(NamedTuple):
    """Requests in the order in which they leave, what is left in the batch, and why it could not all be sent."""

    requests: tuple[BrokerRequest, ...]
    left: RequestBatch = EMPTY
    fault: str = ""


def leader_and_isr(
    context: ControllerContext,
    brokers: Iterable[BrokerId],
    partition: TopicPartition,
    leadership: LeaderAndIsr,
    assignment: ReplicaAssignment,
    *,
    is_new: bool,
) -> AddLeaderAndIsr:
    """Tell brokers of a leadership; all registered brokers will hear what the context knows of the partition.

    Args:
        context: what the controller believes now.
        brokers: who gets the LeaderAndIsr.
        partition: which.
        leadership: as written.
        assignment: its replicas.
        is_new: whether the brokers are to create the replica.
    """
    return AddLeaderAndIsr(tuple(brokers), partition, leadership, assignment, is_new, context.leadership(partition))


def stop_replica(
    context: ControllerContext, brokers: Iterable[BrokerId], partition: TopicPartition, *, delete: bool
) -> AddStopReplica:
    """Let brokers stop their replica of the partition, and delete its log if `delete`.

    Args:
        context: what the controller believes now.
        brokers: who gets the StopReplica.
        partition: which.
        delete: whether the log goes, too.
    """
    return AddStopReplica(tuple(brokers), partition, delete, context.leader_epoch(partition))


def update_metadata(
    context: ControllerContext, brokers: Iterable[BrokerId], partitions: Iterable[TopicPartition]
) -> AddUpdateMetadata:
    """Tell brokers of partitions and of the live brokers. No partitions: through Kafka 2.1 that means all of them."""
    asked = tuple(partitions)
    if not asked and context.dialect.empty_update_metadata_means_all_partitions:
        asked = tuple(sorted(p for p, entry in context.partitions.items() if entry.leadership is not None))
    known = tuple((p, leadership) for p in asked if (leadership := context.leadership(p)) is not None)
    return AddUpdateMetadata(tuple(brokers), asked, known)


def is_pending(batch: RequestBatch) -> bool:
    """Whether something would be sent: on such a batch Kafka's `newBatch` raises."""
    return any(isinstance(add, AddLeaderAndIsr) or any(broker >= 0 for broker in add.brokers) for add in batch.adds())


def send(context: ControllerContext, batch: RequestBatch, controller_epoch: int) -> Sent:
    """The requests of a batch: LeaderAndIsr to all its brokers, then UpdateMetadata, then StopReplica.

    A broker that is not registered gets nothing. A registered one that lacks the listener that others need makes
    Kafka raise in the middle: what was not sent by then stays in the batch.
    """
    folded = _Folded(context)
    for chunk in batch.chunks:
        folded.take(chunk)
    return folded.requests(controller_epoch, batch)


def event_of(
    context: ControllerContext, request: BrokerRequest, error: str, partition_errors: Mapping[TopicPartition, str]
) -> Event | None:
    """The event that a broker's answer to `request` raises; None where nobody needs to know.

    Args:
        context: at the time of the answer.
        request: what was sent.
        error: error of the whole answer, "NONE" for none.
        partition_errors: errors of its partitions; those not named have none.
    """
    match request:
        case SendLeaderAndIsr():
            errors = {row.partition: partition_errors.get(row.partition, "NONE") for row in request.partition_states}
            return LeaderAndIsrAnswered(request.broker, error, errors, request.topic_ids)
        case SendUpdateMetadata():
            return UpdateMetadataAnswered(request.broker, error) if context.dialect.update_metadata_answers else None
        case SendStopReplica():
            started = _topics_being_deleted(context)
            errors = {
                row.partition: partition_errors.get(row.partition, "NONE")
                for row in request.partition_states
                if row.delete_partition and row.partition.topic in started
            }
            return StopReplicaAnswered(request.broker, error, errors) if errors else None
        case _:
            assert_never(request)


def _topics_being_deleted(context: ControllerContext) -> frozenset[str]:
    knows_started = context.dialect.deletion_marks_partitions_nonexistent_first
    return context.topics_with_deletion_started if knows_started else context.topics_to_be_deleted


class _ListenerMissingError(Exception):
    """A broker has no endpoint where others look for it."""


class _Folded:
    """The three accumulators of a batch."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._registered = context.brokers
        self._leader_and_isr: dict[BrokerId, dict[TopicPartition, LeaderAndIsrPartition]] = {}
        self._metadata_brokers: set[BrokerId] = set()
        self._metadata: dict[TopicPartition, LeaderAndIsr] = {}
        self._stop: dict[BrokerId, list[StopReplicaPartition]] = {}

    def take(self, chunk: tuple[Add, ...]) -> None:
        """Takes up what one phase added."""
        everybody = self._context.brokers.keys()
        for add in chunk:
            if isinstance(add, AddLeaderAndIsr):
                self._take_leader_and_isr(add)
            elif isinstance(add, AddStopReplica):
                row = StopReplicaPartition(add.partition, add.delete_partition, add.leader_epoch)
                for broker in add.brokers:
                    if broker >= 0:
                        self._stop.setdefault(broker, []).append(row)
            else:
                self._metadata_brokers.update(add.brokers)
                self._metadata.update(add.known)
        if any(isinstance(add, AddLeaderAndIsr) for add in chunk):
            self._metadata_brokers.update(everybody)

    def _take_leader_and_isr(self, add: AddLeaderAndIsr) -> None:
        brokers, partition, leadership, assignment, is_new, known = add
        row = LeaderAndIsrPartition(partition, leadership, assignment, is_new)
        for broker in brokers:
            if broker < 0:
                continue
            rows = self._leader_and_isr.get(broker)
            if rows is None:
                self._leader_and_isr[broker] = {partition: row}
            elif not is_new and partition in rows and rows[partition].is_new:
                rows[partition] = row._replace(is_new=True)
            else:
                rows[partition] = row
        if known is not None:
            self._metadata[partition] = known

    def requests(self, controller_epoch: int, batch: RequestBatch) -> Sent:
        """All requests; `batch` is what they were folded from."""
        sent: list[BrokerRequest] = []
        try:
            self._send_leader_and_isr(sent, controller_epoch)
        except _ListenerMissingError as error:
            return Sent(tuple(sent), RequestBatch((batch.adds(),)), str(error))
        try:
            self._send_update_metadata(sent, controller_epoch)
        except _ListenerMissingError as error:
            everybody = AddUpdateMetadata(tuple(self._registered), (), ())
            left = tuple(everybody if isinstance(add, AddLeaderAndIsr) else add for add in batch.adds())
            return Sent(tuple(sent), RequestBatch((left,)), str(error))
        self._send_stop_replica(sent, controller_epoch)
        return Sent(tuple(sent))

    def _receives(self, broker: BrokerId) -> bool:
        return broker in self._registered

    def _epoch_of(self, broker: BrokerId) -> int:
        return self._registered[broker].epoch

    def _send_leader_and_isr(self, sent: list[BrokerRequest], controller_epoch: int) -> None:
        dialect, me = self._context.dialect, self._context.config.controller_id
        for broker in sorted(filter(self._receives, self._leader_and_isr)):
            rows = tuple(self._leader_and_isr[broker].values())
            sent.append(
                SendLeaderAndIsr(
                    broker=broker,
                    broker_epoch=self._epoch_of(broker),
                    version=dialect.leader_and_isr_version,
                    controller_id=me,
                    controller_epoch=controller_epoch,
                    partition_states=rows,
                    live_leaders=self._live_leaders(rows),
                    topic_ids=self._topic_ids(
                        {row[0][0] for row in rows},
                        carried=LEADER_AND_ISR.has(_TOPIC_ID, dialect.leader_and_isr_version),
                    ),
                )
            )

    def _live_leaders(self, rows: tuple[LeaderAndIsrPartition, ...]) -> tuple[LiveLeader, ...]:
        leaders = sorted({row[1][0] for row in rows})
        listener = self._context.config.inter_broker_listener
        return tuple(_listening(self._registered[leader], listener) for leader in leaders if leader in self._registered)

    def _topic_ids(self, topics: set[str], *, carried: bool) -> TopicIds:
        if not carried:
            return ()
        known = self._context.topics
        return tuple((topic, entry.topic_id if (entry := known.get(topic)) else None) for topic in sorted(topics))

    def _send_update_metadata(self, sent: list[BrokerRequest], controller_epoch: int) -> None:
        receivers = sorted(broker for broker in self._metadata_brokers if broker >= 0 and self._receives(broker))
        dialect, me = self._context.dialect, self._context.config.controller_id
        if not receivers and dialect.update_metadata_version > 0:
            return
        live = self._live_brokers(dialect)  # version 0 wants every broker's plaintext endpoint, receivers or not
        rows = self._metadata_rows(dialect)
        version = dialect.update_metadata_version
        topic_ids = self._topic_ids({row[0][0] for row in rows}, carried=UPDATE_METADATA.has(_TOPIC_ID, version))
        sent.extend(
            SendUpdateMetadata(
                broker=broker,
                broker_epoch=self._epoch_of(broker),
                version=version,
                controller_id=me,
                controller_epoch=controller_epoch,
                partition_states=rows,
                live_brokers=live,
                topic_ids=topic_ids,
            )
            for broker in receivers
        )

    def _metadata_rows(self, dialect: Dialect) -> tuple[UpdateMetadataPartition, ...]:
        context, to_be_deleted = self._context, self._context.topics_to_be_deleted
        if dialect.update_metadata_adds_deleting_partitions:
            for topic in sorted(to_be_deleted):
                for partition in context.partitions_for_topic(topic):
                    if (leadership := context.leadership(partition)) is not None:
                        self._metadata[partition] = leadership
        offline = _OfflineReplicas(context)
        entries = context.partitions
        rows = []
        for partition, leadership in self._metadata.items():
            replicas = (entries.get(partition, NOTHING).assignment or NO_ASSIGNMENT).replicas
            sent = leadership.during_delete() if partition[0] in to_be_deleted else leadership
            rows.append(UpdateMetadataPartition(partition, sent, replicas, offline.of(partition, replicas)))
        return tuple(rows)

    def _live_brokers(self, dialect: Dialect) -> tuple[Broker, ...]:
        brokers = tuple(self._registered[broker] for broker in sorted(self._registered))
        if dialect.update_metadata_version > 0:
            return brokers
        listening = [(broker, _listening(broker, _PLAINTEXT)) for broker in brokers]
        return tuple(
            broker._replace(endpoints=(Endpoint(at.host, at.port, _PLAINTEXT, _PLAINTEXT),)) for broker, at in listening
        )

    def _send_stop_replica(self, sent: list[BrokerRequest], controller_epoch: int) -> None:
        for broker in sorted(filter(self._receives, self._stop)):
            sent.extend(
                SendStopReplica(
                    broker=broker,
                    broker_epoch=self._epoch_of(broker),
                    version=self._context.dialect.stop_replica_version,
                    controller_id=self._context.config.controller_id,
                    controller_epoch=controller_epoch,
                    partition_states=rows,
                )
                for rows in _stop_groups(self._context.dialect, self._stop[broker])
            )


class _OfflineReplicas:
    """Which of a partition's replicas are not online; asked once per replica list while no log directory failed."""

    def __init__(self, context: ControllerContext) -> None:
        self._context = context
        self._known: dict[tuple[BrokerId, ...], tuple[BrokerId, ...]] | None = None if context.offline_dirs else {}

    def of(self, partition: TopicPartition, replicas: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
        if self._known is None:
            return self._find(partition, replicas)
        found = self._known.get(replicas)
        if found is None:
            found = self._known[replicas] = self._find(partition, replicas)
        return found

    def _find(self, partition: TopicPartition, replicas: tuple[BrokerId, ...]) -> tuple[BrokerId, ...]:
        online = self._context.online_replicas(replicas, partition)
        return () if online == replicas else tuple(broker for broker in replicas if broker not in online)


def _stop_groups(dialect: Dialect, rows: list[StopReplicaPartition]) -> list[tuple[StopReplicaPartition, ...]]:
    """The requests that one broker gets: one since version 3; before, one per flag, or one per partition (<= 2.2)."""
    if dialect.stop_replica_deduplicated:
        rows = _deduplicated(rows)
    if STOP_REPLICA.has("topic_states", dialect.stop_replica_version):
        return [tuple(rows)]
    deleting = tuple(row for row in rows if row.delete_partition)
    stopping = tuple(row for row in rows if not row.delete_partition)
    if dialect.stop_replica_one_request_per_flag:
        return [group for group in (deleting, stopping) if group]
    return [stopping, *((row,) for row in deleting)]


def _deduplicated(rows: list[StopReplicaPartition]) -> list[StopReplicaPartition]:
    last: dict[TopicPartition, StopReplicaPartition] = {}
    for row in rows:
        before = last.get(row.partition)
        sticky = before is not None and before.delete_partition and not row.delete_partition
        last[row.partition] = row._replace(delete_partition=True) if sticky else row
    return list(last.values())


def _listening(broker: Broker, listener: str) -> LiveLeader:
    for endpoint in broker.endpoints:
        if endpoint.listener == listener:
            return LiveLeader(broker.id, endpoint.host, endpoint.port)
    raise _ListenerMissingError(
        f"broker {broker.id} has no endpoint for listener {listener!r}, only "
        f"{[endpoint.listener for endpoint in broker.endpoints]!r}; add the listener to its configuration"
    )
