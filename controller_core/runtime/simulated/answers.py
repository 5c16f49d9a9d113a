"""A ZooKeeper of values instead of bytes: it answers the effects of one controller that nobody disturbs.

Reads find what the controller knew when this was made and what was written since; every write succeeds. For tools that
ask what the controller would do, and for tests.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from controller_core.context.context import ControllerContext
from controller_core.messages import answers
from controller_core.messages import effects as e
from controller_core.model.partitions import Broker, BrokerId, LeaderAndIsr, TopicPartition


@dataclass(slots=True, kw_only=True)
class SimulatedAnswers:
    """The answers of one ZooKeeper; what tools or brokers change in it is assigned to an attribute.

    Attributes:
        found: the cluster as the controller knew it when this was made.
        states: state znodes that were written since.
        configs: topic → overrides.
        targets: content of `/admin/reassign_partitions`; None: no such znode.
        elections: content of `/admin/preferred_replica_election`; None: no such znode.
        deletions: children of `/admin/delete_topics`.
        brokers: the registered brokers; None: those of `found`.
        topics: contents of the topic znodes; None, and topics that are not there: those of `found`.
        isr_notifications: name → partitions.
        log_dir_events: name → broker.
        controller: who holds `/controller`.
        kraft_epoch: `kraftControllerEpoch` of `/controller`.
        migrating: whether `/migration` exists.
        epoch: value and version of `/controller_epoch`.
    """

    found: ControllerContext
    states: dict[TopicPartition, LeaderAndIsr] = field(default_factory=dict)
    configs: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    targets: Mapping[TopicPartition, tuple[BrokerId, ...]] | None = None
    elections: tuple[TopicPartition, ...] | None = None
    deletions: tuple[str, ...] = ()
    brokers: tuple[Broker, ...] | None = None
    topics: Mapping[str, answers.TopicContent] | None = None
    isr_notifications: dict[str, tuple[TopicPartition, ...]] = field(default_factory=dict)
    log_dir_events: dict[str, BrokerId] = field(default_factory=dict)
    controller: BrokerId | None = None
    kraft_epoch: int | None = None
    migrating: bool = False
    epoch: int = 1

    def answer(self, effect: e.AnsweredEffect) -> answers.Answer:
        """What ZooKeeper says to `effect`; a write takes place."""
        return self._read(effect) if isinstance(effect, e.ReadEffect) else self._write(effect)

    def state(self, partition: TopicPartition) -> LeaderAndIsr | None:
        """What the partition's state znode holds; None where there is none."""
        return self.states.get(partition) or self.found.leadership(partition)

    def content(self, topic: str) -> answers.TopicContent:
        """What the topic's znode holds."""
        if self.topics is not None and topic in self.topics:
            return self.topics[topic]
        known = self.found.partitions_for_topic(topic)
        entry = self.found.topics[topic]
        return answers.TopicContent(
            {each.partition: self.found.full_assignment(each) for each in known}, entry.topic_id, entry.extra
        )

    def _read(self, effect: e.ReadEffect) -> answers.Answer:
        match effect:
            case e.ReadPartitionStates(partitions=partitions):
                states = ((partition, self.state(partition)) for partition in partitions)
                return answers.StatesRead(effect, {p: state for p, state in states if state is not None})
            case e.ReadTopicConfigs(topics=topics):
                return answers.TopicConfigsRead(effect, {topic: self.configs.get(topic, {}) for topic in topics})
            case e.ReadBrokers():
                known = tuple(self.found.brokers.values()) if self.brokers is None else self.brokers
                return answers.BrokersRead(effect, known)
            case e.ReadTopics():
                names = self.found.topics if self.topics is None else self.topics
                return answers.TopicsRead(effect, tuple(sorted(names)))
            case e.ReadTopicAssignments(topics=topics):
                return answers.TopicAssignmentsRead(effect, {topic: self.content(topic) for topic in topics})
            case e.ListPartitions(topic=topic):
                numbers = self.content(topic).assignments
                created = (str(each) for each in numbers if self.state(TopicPartition(topic, each)) is not None)
                return answers.PartitionsListed(effect, tuple(created))
            case e.ReadDeletionRequests():
                return answers.DeletionRequestsRead(effect, self.deletions)
            case e.ReadReassignmentRequests():
                return answers.ReassignmentRequestsRead(effect, self.targets)
            case e.ReadPreferredElectionRequest():
                return answers.PreferredElectionRequestRead(effect, self.elections)
            case e.ListIsrNotifications():
                return answers.NotificationsListed(effect, tuple(self.isr_notifications))
            case e.ReadIsrNotifications(names=names):
                named = tuple(p for name in names for p in self.isr_notifications.get(name, ()))
                return answers.IsrNotificationsRead(effect, named)
            case e.ListLogDirEvents():
                return answers.NotificationsListed(effect, tuple(self.log_dir_events))
            case e.ReadLogDirEvents(names=names):
                return answers.LogDirEventsRead(effect, tuple(self.log_dir_events[name] for name in names))
            case e.ReadController():
                return answers.ControllerRead(effect, self.controller, self.kraft_epoch, self.migrating)
            case _:
                assert_never(effect)

    def _write(self, effect: e.WriteEffect) -> answers.Answer:
        match effect:
            case e.CreatePartitionStates(states=states):
                self.states.update(states)
                return answers.StatesCreated(effect)
            case e.WritePartitionStates(states=states):
                versions = {}
                for partition, state in states:
                    version = versions[partition] = state.partition_epoch + 1
                    self.states[partition] = state._replace(partition_epoch=version)
                return answers.StatesWritten(effect, versions)
            case e.AssignTopicIds(topics=topics):
                return answers.TopicIdsAssigned(effect, {topic: f"new-id-of-{topic}" for topic in topics})
            case e.WriteReassignmentRequests(targets=targets):
                self.targets = dict(targets)
            case e.DeleteReassignmentRequests():
                self.targets = None
            case e.DeletePreferredElectionRequest():
                self.elections = None
            case e.DeleteIsrNotifications(names=names):
                self.isr_notifications = {k: v for k, v in self.isr_notifications.items() if k not in names}
            case e.DeleteLogDirEvents(names=names):
                self.log_dir_events = {k: v for k, v in self.log_dir_events.items() if k not in names}
            case e.DeleteTopicDeletions(topics=topics):
                self.deletions = tuple(topic for topic in self.deletions if topic not in topics)
            case e.RegisterController(controller_id=controller):
                self.controller, self.epoch = controller, self.epoch + 1
                return answers.ControllerRegistered(effect, self.epoch, self.epoch)
            case e.DeleteControllerNode():
                self.controller = None
            case e.WriteTopicAssignment() | e.DeleteTopicNode() | e.DeleteTopicConfig():
                pass  # the controller does not read them again
            case _:
                assert_never(effect)
        return answers.Done(effect)
