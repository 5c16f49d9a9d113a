"""Every effect that concerns ZooKeeper, carried out on the port and answered.

It holds no rule about partitions: one `case` per effect, one operation of `KafkaZk`, one translation of the result.
Source: Kafka 3.9 `KafkaZkClient`, `ZooKeeperClient` (handlers).
"""

import base64
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, assert_never

from controller_core.messages import answers
from controller_core.messages import effects as e
from controller_core.model.errors import (
    ConnectionLostError,
    ControllerMovedError,
    MalformedZnodeError,
    NodeExistsError,
    SessionExpiredError,
    UnparsedZnodeError,
    ZooKeeperError,
)
from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.runtime.kafka_zk.adapter import KafkaZk
from controller_core.runtime.kafka_zk.base import OK, code_of
from controller_core.runtime.watches import ControllerWatches
from controller_core.znodes import ISR_CHANGE_PREFIX, LOG_DIR_EVENT_PREFIX, MIGRATION

Item = TypeVar("Item", TopicPartition, BrokerId)


def random_topic_id() -> str:
    """A new topic id: 128 random bits as 22 characters of URL-safe base64, never starting with a dash, as in Kafka."""
    while True:
        text = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        if not text.startswith("-"):
            return text


class ZooKeeperEffects:
    """Performs the effects of one controller on one session.

    Attributes:
        kafka: the session; wrap its port in `RetryingZooKeeper` to live through broken connections as Kafka does.
        watches: turn changes of znodes into events.
    """

    def __init__(
        self,
        kafka: KafkaZk,
        watches: ControllerWatches,
        *,
        now_ms: Callable[[], int],
        new_topic_id: Callable[[], str] = random_topic_id,
    ) -> None:
        self.kafka = kafka
        self.watches = watches
        self._now_ms = now_ms
        self._new_topic_id = new_topic_id

    def perform(self, effect: e.ZooKeeperEffect) -> answers.Answer | None:
        """Carry out `effect`; its answer, or None for watches, which have none."""
        try:
            return self._perform(effect)
        except ControllerMovedError:
            return answers.Failed(effect, answers.CONTROLLER_MOVED)
        except SessionExpiredError:
            return answers.Failed(effect, answers.SESSION_EXPIRED)
        except ConnectionLostError:
            return answers.Failed(effect, answers.CONNECTION_LOSS)
        except MalformedZnodeError as error:
            return answers.Failed(effect, f"{answers.MALFORMED}: {error}")
        except ZooKeeperError as error:
            return answers.Failed(effect, code_of(error))

    def _perform(self, effect: e.ZooKeeperEffect) -> answers.Answer | None:
        match effect:
            case e.Watch():
                self.watches.watch(effect)
                return None
            case e.Unwatch():
                self.watches.unwatch(effect)
                return None
            case _:
                return self._read(effect) if isinstance(effect, e.ReadEffect) else self._write(effect)

    def _read(self, effect: e.ReadEffect) -> answers.Answer:
        match effect:
            case e.ReadPartitionStates(partitions=partitions):
                return self._states_read(effect, partitions)
            case e.ReadTopicConfigs(topics=topics):
                configs, problems = self.kafka.get_topic_configs(topics)
                return answers.TopicConfigsRead(effect, configs, problems)
            case e.ReadBrokers():
                self.watches.before_listing(e.WatchKind.BROKERS)
                self.watches.before_reading(e.WatchKind.BROKER)
                return answers.BrokersRead(effect, tuple(znode.broker for znode in self.kafka.get_brokers()))
            case e.ReadTopics():
                self.watches.before_listing(e.WatchKind.TOPICS)
                return answers.TopicsRead(effect, tuple(self.kafka.list_topics()))
            case e.ReadTopicAssignments(topics=topics):
                return self._topics_read(effect, topics)
            case e.ListPartitions(topic=topic):
                return answers.PartitionsListed(effect, tuple(self.kafka.list_partitions(topic)))
            case e.ReadDeletionRequests():
                self.watches.before_listing(e.WatchKind.DELETIONS)
                return answers.DeletionRequestsRead(effect, tuple(self.kafka.list_topic_deletions()))
            case e.ReadReassignmentRequests():
                return self._reassignment_read(effect)
            case e.ReadPreferredElectionRequest():
                self.watches.before_listing(e.WatchKind.PREFERRED_ELECTION)
                return answers.PreferredElectionRequestRead(effect, self.kafka.get_preferred_election())
            case e.ListIsrNotifications():
                self.watches.before_listing(e.WatchKind.ISR_NOTIFICATIONS)
                names = tuple(f"{ISR_CHANGE_PREFIX}{each}" for each in self.kafka.list_isr_notifications())
                return answers.NotificationsListed(effect, names)
            case e.ListLogDirEvents():
                self.watches.before_listing(e.WatchKind.LOG_DIR_EVENTS)
                names = tuple(f"{LOG_DIR_EVENT_PREFIX}{each}" for each in self.kafka.list_log_dir_events())
                return answers.NotificationsListed(effect, names)
            case e.ReadIsrNotifications(names=names):
                return answers.IsrNotificationsRead(
                    effect, self._readable(names, ISR_CHANGE_PREFIX, self.kafka.read_isr_notifications)
                )
            case e.ReadLogDirEvents(names=names):
                brokers = self._readable(names, LOG_DIR_EVENT_PREFIX, self.kafka.read_log_dir_events)
                return answers.LogDirEventsRead(effect, brokers)
            case e.ReadController():
                self.watches.before_controller()
                holder = self.kafka.get_controller()
                migrating = self.kafka.exists(MIGRATION)
                if holder is None:
                    return answers.ControllerRead(effect, None, None, migrating)
                return answers.ControllerRead(effect, holder.broker_id, holder.kraft_controller_epoch, migrating)
            case _:
                assert_never(effect)

    def _write(self, effect: e.WriteEffect) -> answers.Answer:
        match effect:
            case e.CreatePartitionStates(states=states, controller_epoch_version=version):
                codes = self.kafka.create_states(dict(states), version)
                return answers.StatesCreated(effect, _problems(codes))
            case e.WritePartitionStates(states=states, controller_epoch_version=version):
                codes, versions = self.kafka.set_states(dict(states), version)
                return answers.StatesWritten(effect, versions, _problems(codes))
            case e.WriteTopicAssignment(topic=topic, topic_id=topic_id, controller_epoch_version=version):
                code = self.kafka.set_topic(topic, dict(effect.assignments), topic_id, version, extra=effect.extra)
                return answers.Done(effect) if code == OK else answers.Failed(effect, code)
            case e.AssignTopicIds(topics=topics, controller_epoch_version=version):
                return self._assign_topic_ids(effect, topics, version)
            case e.DeleteTopicNode(topic=topic, controller_epoch_version=version):
                self.kafka.delete_topic_znode(topic, version)
            case e.DeleteTopicConfig(topic=topic, controller_epoch_version=version):
                self.kafka.delete_topic_config(topic, version)
            case e.DeleteTopicDeletions(topics=topics, controller_epoch_version=version):
                self.kafka.delete_topic_deletions(topics, version)
            case e.WriteReassignmentRequests(targets=targets, controller_epoch_version=version):
                self.kafka.set_or_create_reassignment(dict(targets), version)
            case e.DeleteReassignmentRequests(controller_epoch_version=version):
                self.kafka.delete_reassignment(version)
                self.watches.after_deleting(e.WatchKind.REASSIGNMENT)
            case e.DeletePreferredElectionRequest(controller_epoch_version=version):
                self.kafka.delete_preferred_election(version)
                self.watches.after_deleting(e.WatchKind.PREFERRED_ELECTION)
            case e.DeleteIsrNotifications(names=names, controller_epoch_version=version):
                sequences = [name.removeprefix(ISR_CHANGE_PREFIX) for name in names]
                self.kafka.delete_isr_notifications(sequences, version)
            case e.DeleteLogDirEvents(names=names, controller_epoch_version=version):
                sequences = [name.removeprefix(LOG_DIR_EVENT_PREFIX) for name in names]
                self.kafka.delete_log_dir_events(sequences, version)
            case e.RegisterController():
                return self._register(effect)
            case e.DeleteControllerNode(controller_epoch_version=version):
                self.kafka.delete_controller(version)
            case _:
                assert_never(effect)
        return answers.Done(effect)

    def _states_read(self, effect: e.ReadPartitionStates, partitions: Sequence[TopicPartition]) -> answers.Answer:
        self.watches.before_reading(e.WatchKind.PARTITION_STATE, [str(partition) for partition in partitions])
        states, malformed = self.kafka.get_states(partitions)
        problems = {
            partition: answers.ReadProblem(answers.MALFORMED, str(error), not isinstance(error, UnparsedZnodeError))
            for partition, error in malformed.items()
        }
        return answers.StatesRead(effect, states, problems)

    def _topics_read(self, effect: e.ReadTopicAssignments, topics: Sequence[str]) -> answers.Answer:
        self.watches.watch(e.Watch(kind=e.WatchKind.TOPIC, names=tuple(topics)))
        znodes, malformed = self.kafka.get_topics(topics)
        contents = {
            topic: answers.TopicContent(znode.assignments, znode.topic_id, znode.extra)
            for topic, znode in znodes.items()
        }
        return answers.TopicAssignmentsRead(effect, contents, {topic: str(error) for topic, error in malformed.items()})

    def _assign_topic_ids(self, effect: e.AssignTopicIds, topics: Sequence[str], version: int | None) -> answers.Answer:
        znodes, _ = self.kafka.get_topics(topics)
        ids: dict[str, str] = {}
        for topic, znode in znodes.items():
            topic_id = znode.topic_id or self._new_topic_id()
            code = OK
            if znode.topic_id is None:
                code = self.kafka.set_topic(topic, znode.assignments, topic_id, version, extra=znode.extra)
            if code == OK:
                ids[topic] = topic_id
        return answers.TopicIdsAssigned(effect, ids)

    def _reassignment_read(self, effect: e.ReadReassignmentRequests) -> answers.Answer:
        self.watches.before_listing(e.WatchKind.REASSIGNMENT)
        try:
            return answers.ReassignmentRequestsRead(effect, self.kafka.get_reassignment())
        except MalformedZnodeError as error:
            return answers.ReassignmentRequestsRead(effect, {}, str(error))

    def _register(self, effect: e.RegisterController) -> answers.Answer:
        try:
            epoch, version = self.kafka.register_controller(effect.controller_id, self._now_ms())
        except NodeExistsError:
            return answers.Failed(effect, "NODEEXISTS")
        return answers.ControllerRegistered(effect, epoch, version)

    def _readable(
        self, names: Sequence[str], prefix: str, read: Callable[[Sequence[str]], tuple[Item, ...]]
    ) -> tuple[Item, ...]:
        """What the notifications say, one after the other; one that cannot be read says nothing, and is deleted."""
        sequences = [name.removeprefix(prefix) for name in names]
        try:
            return read(sequences)
        except MalformedZnodeError:
            found: list[Item] = []
            for sequence in sequences:
                try:
                    found += read([sequence])
                except MalformedZnodeError:
                    continue
            return tuple(found)


def _problems(codes: Mapping[TopicPartition, str]) -> dict[TopicPartition, str]:
    return {partition: code for partition, code in codes.items() if code != OK}
