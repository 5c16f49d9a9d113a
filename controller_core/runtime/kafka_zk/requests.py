"""Requests and notifications in ZooKeeper.

Source: Kafka 3.9 `KafkaZkClient`: `getPartitionReassignment`, `setOrCreatePartitionReassignment`,
`propagateIsrChanges`, `deleteIsrChangeNotifications`, ….
"""

from collections.abc import Iterable, Mapping, Sequence

from controller_core.model.errors import NoNodeError, UnparsedZnodeError
from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.ports.zookeeper import ANY_VERSION, Create, Set
from controller_core.runtime.kafka_zk.base import KafkaZkBase
from controller_core.znodes import (
    DELETE_TOPICS,
    ISR_CHANGE_NOTIFICATION,
    ISR_CHANGE_PREFIX,
    LOG_DIR_EVENT_NOTIFICATION,
    LOG_DIR_EVENT_PREFIX,
    PREFERRED_REPLICA_ELECTION,
    REASSIGN_PARTITIONS,
    LogDirEvent,
    decode_isr_change_notification,
    decode_log_dir_event,
    decode_preferred_replica_election,
    decode_reassign_partitions,
    delete_topic_path,
    encode_delete_topic,
    encode_isr_change_notification,
    encode_log_dir_event,
    encode_preferred_replica_election,
    encode_reassign_partitions,
    isr_change_path,
    log_dir_event_path,
)

Targets = Mapping[TopicPartition, Sequence[BrokerId]]


class RequestZnodes(KafkaZkBase):
    """`/admin`, `/isr_change_notification` and `/log_dir_event_notification`.

    Notifications are named by their sequence number, ten digits.
    """

    # ---- reassignment ----

    def reassignment_in_progress(self) -> bool:
        """Whether the request znode is there."""
        return self.exists(REASSIGN_PARTITIONS)

    def get_reassignment(self) -> dict[TopicPartition, tuple[BrokerId, ...]] | None:
        """The targets that are asked for; None if there is no request.

        Raises:
            UnparsedZnodeError: Kafka goes on with no targets.
            MalformedZnodeError: Kafka throws.
        """
        found = self.data_or_none(REASSIGN_PARTITIONS)
        if found is None:
            return None
        return decode_reassign_partitions(found[0], bound_to_class=self.formats.bound_reassignment)

    def create_reassignment(self, targets: Targets) -> None:
        """The tool's request, without the epoch check.

        Raises:
            NodeExistsError: a reassignment is in progress.
        """
        self.create_recursive(REASSIGN_PARTITIONS, encode_reassign_partitions(targets))

    def set_or_create_reassignment(self, targets: Targets, epoch_version: int | None) -> None:
        """Rewrite the request, or create it."""
        data = encode_reassign_partitions(targets)
        try:
            self.multi_if_epoch([Set(path=REASSIGN_PARTITIONS, data=data, version=ANY_VERSION)], epoch_version)
        except NoNodeError:
            self.multi_if_epoch([Create(path=REASSIGN_PARTITIONS, data=data)], epoch_version)

    def delete_reassignment(self, epoch_version: int | None) -> None:
        """Remove the request; absent is fine."""
        self.delete_if_there(REASSIGN_PARTITIONS, epoch_version)

    # ---- preferred election ----

    def get_preferred_election(self) -> tuple[TopicPartition, ...] | None:
        """The partitions to elect; None if there is no request; malformed JSON asks for none.

        Raises:
            MalformedZnodeError: Kafka throws.
        """
        found = self.data_or_none(PREFERRED_REPLICA_ELECTION)
        if found is None:
            return None
        try:
            return decode_preferred_replica_election(found[0])
        except UnparsedZnodeError:
            return ()

    def create_preferred_election(self, partitions: Iterable[TopicPartition]) -> None:
        """The tool's request, without the epoch check.

        Raises:
            NodeExistsError: an election is pending.
        """
        self.create_recursive(PREFERRED_REPLICA_ELECTION, encode_preferred_replica_election(partitions))

    def delete_preferred_election(self, epoch_version: int | None) -> None:
        """Remove the request; absent is fine."""
        self.delete_if_there(PREFERRED_REPLICA_ELECTION, epoch_version)

    # ---- topic deletion ----

    def is_marked_for_deletion(self, topic: str) -> bool:
        """Whether its deletion was asked for."""
        return self.exists(delete_topic_path(topic))

    def list_topic_deletions(self) -> list[str]:
        """Topics whose deletion was asked for, sorted."""
        return self.children_or_none(DELETE_TOPICS)

    def create_delete_topic(self, topic: str) -> None:
        """The request, without the epoch check.

        Raises:
            NodeExistsError: the topic is marked already.
        """
        self.create_recursive(delete_topic_path(topic), encode_delete_topic())

    def delete_topic_deletions(self, topics: Iterable[str], epoch_version: int | None) -> None:
        """Remove the requests of these topics; absent is fine."""
        self.delete_all_there([delete_topic_path(topic) for topic in topics], epoch_version)

    # ---- ISR-change notifications ----

    def propagate_isr_changes(self, partitions: Iterable[TopicPartition]) -> str:
        """A leader's notice, without the epoch check; the path of the new znode."""
        data = encode_isr_change_notification(partitions)
        return self.zookeeper.create(
            f"{ISR_CHANGE_NOTIFICATION}/{ISR_CHANGE_PREFIX}", data, sequential=True, make_parents=True
        )

    def list_isr_notifications(self) -> list[str]:
        """Sequence numbers, sorted."""
        return self._sequences(ISR_CHANGE_NOTIFICATION, ISR_CHANGE_PREFIX)

    def read_isr_notifications(self, sequences: Sequence[str]) -> tuple[TopicPartition, ...]:
        """The partitions that they name, one notification after the other; absent and unparsed ones name none.

        Raises:
            MalformedZnodeError: a field is missing or mistyped; Kafka throws, and deletes the notifications.
        """
        partitions: list[TopicPartition] = []
        for path, data in self._contents([isr_change_path(sequence) for sequence in sequences]):
            try:
                partitions += decode_isr_change_notification(data, path=path)
            except UnparsedZnodeError:
                continue
        return tuple(partitions)

    def delete_isr_notifications(self, sequences: Iterable[str], epoch_version: int | None) -> None:
        """Delete exactly these; absent is fine."""
        self.delete_all_there([isr_change_path(sequence) for sequence in sequences], epoch_version)

    # ---- log-dir events ----

    def propagate_log_dir_event(self, broker: BrokerId) -> str:
        """A broker's notice that a log directory failed, without the epoch check; the path of the new znode."""
        return self.zookeeper.create(
            f"{LOG_DIR_EVENT_NOTIFICATION}/{LOG_DIR_EVENT_PREFIX}",
            encode_log_dir_event(LogDirEvent(broker)),
            sequential=True,
            make_parents=True,
        )

    def list_log_dir_events(self) -> list[str]:
        """Sequence numbers, sorted."""
        return self._sequences(LOG_DIR_EVENT_NOTIFICATION, LOG_DIR_EVENT_PREFIX)

    def read_log_dir_events(self, sequences: Sequence[str]) -> tuple[BrokerId, ...]:
        """The brokers, one event after the other; absent and unparsed ones name none.

        Raises:
            MalformedZnodeError: a field is missing or mistyped; Kafka throws.
        """
        brokers: list[BrokerId] = []
        for path, data in self._contents([log_dir_event_path(sequence) for sequence in sequences]):
            try:
                brokers.append(decode_log_dir_event(data, path=path).broker)
            except UnparsedZnodeError:
                continue
        return tuple(brokers)

    def delete_log_dir_events(self, sequences: Iterable[str], epoch_version: int | None) -> None:
        """Delete exactly these; absent is fine."""
        self.delete_all_there([log_dir_event_path(sequence) for sequence in sequences], epoch_version)

    def _sequences(self, parent: str, prefix: str) -> list[str]:
        return [name.removeprefix(prefix) for name in self.children_or_none(parent) if name.startswith(prefix)]

    def _contents(self, paths: Sequence[str]) -> list[tuple[str, bytes]]:
        found = zip(paths, self.zookeeper.get_many(paths), strict=True)
        return [(path, answer[0]) for path, answer in found if answer is not None]
