"""Brokers that start, fail, bounce, change their data or lose a log directory.

Source: Kafka 3.9 `KafkaController.onBrokerStartup`, `onBrokerFailure`,
`onReplicasBecomeOffline`, `processBrokerChange`.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from controller_core.context.context import ControllerContext
from controller_core.controller.partition_state_machine import (
    ChangePartitionStates,
    TriggerOnlinePartitionStateChange,
)
from controller_core.controller.reassignment.triggers import ResumeReassignments
from controller_core.controller.replica_state_machine import ChangeReplicaStates
from controller_core.controller.topic_deletion import FailReplicaDeletion, ResumeDeletionForTopics
from controller_core.controller.update_metadata import SendMetadataUpdate
from controller_core.engine.turn import Acknowledge, Task, Turn
from controller_core.messages.answers import BrokersRead, Failed, LogDirEventsRead, NotificationsListed
from controller_core.messages.effects import (
    CloseChannels,
    DeleteLogDirEvents,
    ListLogDirEvents,
    OpenChannels,
    ReadBrokers,
    ReadLogDirEvents,
    Unwatch,
    Watch,
    WatchKind,
)
from controller_core.messages.events import LeaderAndIsrAnswered
from controller_core.model.partitions import Broker, BrokerId, PartitionAndReplica, TopicPartition
from controller_core.model.refusals import RefusalKind
from controller_core.model.states import PartitionState, ReplicaState

_STORAGE_ERROR = "KAFKA_STORAGE_ERROR"
_NONE = "NONE"


@dataclass(frozen=True, slots=True)
class AddLiveBrokers(Task):
    """These brokers are registered now."""

    brokers: tuple[Broker, ...]

    def __call__(self, turn: Turn) -> None:
        turn.context = turn.context.with_brokers(self.brokers)


@dataclass(frozen=True, slots=True)
class RemoveLiveBrokers(Task):
    """The registrations of these brokers are gone."""

    brokers: tuple[BrokerId, ...]

    def __call__(self, turn: Turn) -> None:
        turn.context = turn.context.without_brokers(self.brokers)


@dataclass(frozen=True, slots=True)
class OnBrokerStartup(Task):
    """`onBrokerStartup`: brokers that are live already hear what they host, and what waited for them goes on."""

    brokers: tuple[BrokerId, ...]

    def __call__(self, turn: Turn) -> None:
        healthy = {broker: gone for broker, gone in turn.context.offline_dirs.items() if broker not in self.brokers}
        turn.change(offline_dirs=type(turn.context.offline_dirs)(healthy))
        context = turn.context
        replicas = context.replicas_on_brokers(self.brokers)
        tasks: list[Task] = [
            *_tell_of_new_brokers(context, self.brokers),
            ChangeReplicaStates(replicas, ReplicaState.ONLINE),
            TriggerOnlinePartitionStateChange(),
            ResumeReassignments(frozenset(self.brokers)),
            ResumeDeletionForTopics(tuple(sorted({replica.partition.topic for replica in replicas}))),
        ]
        if context.dialect.watches_broker_data:
            tasks.append(WatchBrokers(self.brokers))
        turn.push(*tasks)


def _tell_of_new_brokers(context: ControllerContext, new: tuple[BrokerId, ...]) -> list[Task]:
    if context.dialect.empty_update_metadata_means_all_partitions:
        return [SendMetadataUpdate(None)]
    others = tuple(broker for broker in context.live_or_shutting_down_broker_ids if broker not in new)
    return [SendMetadataUpdate(others), TellAllPartitions(new)]


@dataclass(frozen=True, slots=True)
class TellAllPartitions(Task):
    """Fills the metadata caches of brokers that know nothing yet."""

    brokers: tuple[BrokerId, ...]

    def __call__(self, turn: Turn) -> None:
        context = turn.context
        known = context.partitions_with_leaders(queued_too=context.dialect.new_brokers_hear_of_deletions)
        turn.push(SendMetadataUpdate(self.brokers, tuple(known)))


@dataclass(frozen=True, slots=True)
class WatchBrokers(Task):
    """Hears of changes of the brokers' registrations."""

    brokers: tuple[BrokerId, ...]

    def __call__(self, turn: Turn) -> None:
        turn.send(Watch(kind=WatchKind.BROKER, names=tuple(map(str, self.brokers))))


@dataclass(frozen=True, slots=True)
class OnBrokerFailure(Task):
    """`onBrokerFailure`: brokers that are no longer live lose their leaderships and their places in the ISRs."""

    brokers: tuple[BrokerId, ...]

    def __call__(self, turn: Turn) -> None:
        context = turn.context
        dirs = {broker: gone for broker, gone in context.offline_dirs.items() if broker not in self.brokers}
        turn.context = replace(
            context,
            offline_dirs=type(context.offline_dirs)(dirs),
            shutting_down=context.shutting_down.difference(self.brokers),
        )
        turn.push(OnReplicasBecomeOffline(turn.context.replicas_on_brokers(self.brokers), self.brokers))
        if context.dialect.watches_broker_data:
            turn.send(Unwatch(kind=WatchKind.BROKER, names=tuple(map(str, self.brokers))))


@dataclass(frozen=True, slots=True)
class OnReplicasBecomeOffline(Task):
    """`onReplicasBecomeOffline`: elect new leaders, then shrink the ISRs. `dead` are brokers that failed as a whole."""

    replicas: tuple[PartitionAndReplica, ...]
    dead: tuple[BrokerId, ...] = ()

    def __call__(self, turn: Turn) -> None:
        context = turn.context
        if context.dialect.only_dead_brokers_leave_partitions_offline:
            leaderless = tuple(context.partitions_led_by(self.dead))
        else:
            leaderless = tuple(context.partitions_with_offline_leader())
        turn.push(
            ChangePartitionStates(leaderless, PartitionState.OFFLINE),
            TriggerOnlinePartitionStateChange(),
            TakeReplicasOfflineAfterElections(self.replicas, bool(leaderless)),
        )


@dataclass(frozen=True, slots=True)
class TakeReplicasOfflineAfterElections(Task):
    """The second half: replicas → Offline, deletions fail, and somebody must tell the brokers of the death."""

    replicas: tuple[PartitionAndReplica, ...]
    had_offline_leaders: bool

    def __call__(self, turn: Turn) -> None:
        to_be_deleted = turn.context.topics_to_be_deleted
        deleted = tuple(r for r in self.replicas if r.partition.topic in to_be_deleted)
        others = tuple(r for r in self.replicas if r.partition.topic not in to_be_deleted)
        if turn.context.dialect.election_results_decide_metadata:
            untold = not others and not turn.results.elected
        else:
            untold = not self.had_offline_leaders
        tasks: list[Task] = [ChangeReplicaStates(others, ReplicaState.OFFLINE)]
        if deleted:
            tasks.append(FailReplicaDeletion(deleted))
        if untold:
            tasks.append(SendMetadataUpdate(None))
        turn.push(*tasks)


# Events


@dataclass(frozen=True, slots=True)
class ProcessBrokerChange(Task):
    """`BrokerChange`: reads who is registered."""

    def __call__(self, turn: Turn) -> None:
        turn.ask(ReadBrokers(), CompareBrokers())


@dataclass(frozen=True, slots=True)
class CompareBrokers(Task):
    """New, bounced and dead brokers, handled in this order."""

    def __call__(self, turn: Turn) -> None:
        answer, context = turn.answer, turn.context
        if not isinstance(answer, BrokersRead):
            refuse_read(turn, "/brokers/ids")
            return
        current = {broker.id: broker for broker in answer.brokers}
        known = context.brokers
        new = tuple(current[broker] for broker in sorted(current) if broker not in known)
        dead = tuple(broker for broker in sorted(known) if broker not in current)
        bounced = tuple(
            current[broker] for broker in sorted(current) if broker in known and current[broker].epoch > known[broker].epoch
        )  # fmt: skip
        if not context.dialect.broker_epochs:
            bounced = ()
        _change_channels(turn, new, bounced, dead)
        tasks: list[Task] = []
        if context.dialect.live_set_replaced_first:
            turn.context = context.without_brokers(dead).with_brokers(current.values())
        if new:
            tasks += [AddLiveBrokers(new), OnBrokerStartup(_ids(new))]
        if bounced:
            ids = _ids(bounced)
            tasks += [RemoveLiveBrokers(ids), OnBrokerFailure(ids), AddLiveBrokers(bounced), OnBrokerStartup(ids)]
        if dead:
            tasks += [RemoveLiveBrokers(dead), OnBrokerFailure(dead)]
        turn.push(*tasks)


def _change_channels(
    turn: Turn, new: tuple[Broker, ...], bounced: tuple[Broker, ...], dead: tuple[BrokerId, ...]
) -> None:
    if bounced or dead:
        turn.send(CloseChannels(brokers=(*_ids(bounced), *dead)))
    if new or bounced:
        turn.send(OpenChannels(brokers=(*new, *bounced)))


def _ids(brokers: Iterable[Broker]) -> tuple[BrokerId, ...]:
    return tuple(broker.id for broker in brokers)


@dataclass(frozen=True, slots=True)
class ProcessBrokerModification(Task):
    """`BrokerModifications`: reads the registrations again."""

    broker: BrokerId

    def __call__(self, turn: Turn) -> None:
        turn.ask(ReadBrokers(), AdoptBrokerModification(self.broker))


@dataclass(frozen=True, slots=True)
class AdoptBrokerModification(Task):
    """Other endpoints or features go to everybody; another rack alone is not."""

    broker: BrokerId

    def __call__(self, turn: Turn) -> None:
        if not isinstance(turn.answer, BrokersRead):
            refuse_read(turn, f"/brokers/ids/{self.broker}")
            return
        read = next((broker for broker in turn.answer.brokers if broker.id == self.broker), None)
        known = turn.context.brokers.get(self.broker)
        if read is None or known is None:
            return
        if (read.endpoints, read.features) != (known.endpoints, known.features):
            turn.context = turn.context.with_brokers([read._replace(epoch=known.epoch)])
            turn.push(SendMetadataUpdate(None))


@dataclass(frozen=True, slots=True)
class ProcessLogDirEvents(Task):
    """`LogDirEventNotification`: lists what brokers announced."""

    def __call__(self, turn: Turn) -> None:
        turn.ask(ListLogDirEvents(), ReadListedLogDirEvents())


@dataclass(frozen=True, slots=True)
class ReadListedLogDirEvents(Task):
    """Reads the listed events; they are deleted afterwards, whatever happens."""

    def __call__(self, turn: Turn) -> None:
        if isinstance(turn.answer, NotificationsListed) and turn.answer.names:
            names = turn.answer.names
            turn.push(DeleteHandledLogDirEvents(names))
            turn.ask(ReadLogDirEvents(names=names), ProbeLogDirs())


@dataclass(frozen=True, slots=True)
class ProbeLogDirs(Task):
    """Replicas on the brokers → Online again, registered or not: their answers tell which directories failed."""

    def __call__(self, turn: Turn) -> None:
        if isinstance(turn.answer, LogDirEventsRead):
            replicas = turn.context.replicas_on_brokers(turn.answer.brokers)
            turn.push(ChangeReplicaStates(replicas, ReplicaState.ONLINE))


@dataclass(frozen=True, slots=True)
class DeleteHandledLogDirEvents(Task):
    """Deletes exactly the events that were listed."""

    names: tuple[str, ...]

    def __call__(self, turn: Turn) -> None:
        effect = DeleteLogDirEvents(names=self.names, controller_epoch_version=turn.context.controller_epoch_version)
        turn.ask(effect, Acknowledge())


@dataclass(frozen=True, slots=True)
class ProcessLeaderAndIsrAnswer(Task):
    """`LeaderAndIsrResponseReceived`: storage errors mark replicas offline, no error marks them healthy.

    An id that is not known any more, as of a topic that was deleted meanwhile, tells nothing.
    """

    event: LeaderAndIsrAnswered

    def __call__(self, turn: Turn) -> None:
        event = self.event
        if event.error != _NONE:
            return
        names = turn.context.topic_names
        gone = {topic for topic, topic_id in event.topic_ids if names.get(topic_id or "") != topic}
        errors = {p: error for p, error in event.partition_errors.items() if p.topic not in gone}
        before: frozenset[TopicPartition] = turn.context.offline_dirs.get(event.broker, frozenset())
        failed = frozenset(p for p, error in errors.items() if error == _STORAGE_ERROR)
        healthy = frozenset(p for p, error in errors.items() if error == _NONE)
        after = (before - healthy) | failed
        if after != before:
            turn.change(offline_dirs=turn.context.offline_dirs.set(event.broker, after))
        fresh = sorted(failed - before)
        if fresh:
            turn.push(OnReplicasBecomeOffline(tuple(PartitionAndReplica(p, event.broker) for p in fresh)))


def refuse_read(turn: Turn, path: str) -> None:
    """Tells of a read that failed, so that nothing is done."""
    error = turn.answer.error if isinstance(turn.answer, Failed) else "no answer"
    turn.refuse(RefusalKind.FAILED_TRANSITION, path, f"not read: {error}; the next event reads it again")
