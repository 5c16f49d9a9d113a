"""How the controller learns of ISR changes: notifications of leaders, or their AlterPartition requests.

Source: Kafka 3.9 `KafkaController.processIsrChangeNotification`, `tryProcessAlterPartition`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from controller_core.context.context import ControllerContext
from controller_core.controller.reassignment.triggers import CompleteReassignmentIfInSync, MaybeCompleteReassignment
from controller_core.controller.state_answers import written_states
from controller_core.controller.update_metadata import SendMetadataUpdate
from controller_core.engine.turn import Acknowledge, Task, Turn
from controller_core.messages.answers import BAD_VERSION, Failed, IsrNotificationsRead, NotificationsListed, StatesRead
from controller_core.messages.effects import (
    DeleteIsrNotifications,
    ListIsrNotifications,
    ReadIsrNotifications,
    ReadPartitionStates,
    ReplyAlterPartition,
    WritePartitionStates,
)
from controller_core.messages.events import AlterPartition, IsrChange
from controller_core.model.partitions import LeaderAndIsr, LeaderRecoveryState, TopicPartition
from controller_core.model.refusals import RefusalKind

_RECOVERING = LeaderRecoveryState.RECOVERING
_INELIGIBLE_REPLICA_SINCE = 2  # version of AlterPartition
INVALID_UPDATE_VERSION = "INVALID_UPDATE_VERSION"
_LOST = "they are deleted all the same, and brokers keep the former ISRs until the partitions change again"

# Notifications


@dataclass(frozen=True, slots=True)
class ProcessIsrNotifications(Task):
    """`IsrChangeNotification`: lists them; through Kafka 1.0 the names came with the event."""

    names: tuple[str, ...] = ()

    def __call__(self, turn: Turn) -> None:
        if turn.context.dialect.lists_notifications_when_processed:
            turn.ask(ListIsrNotifications(), HandleListedNotifications())
        else:
            turn.push(HandleNotifications(self.names))


@dataclass(frozen=True, slots=True)
class HandleListedNotifications(Task):
    """Handles what was listed."""

    def __call__(self, turn: Turn) -> None:
        if isinstance(turn.answer, NotificationsListed):
            turn.push(HandleNotifications(turn.answer.names))
        else:
            _refuse_notifications(turn, "they stay, and the next event lists them again")


@dataclass(frozen=True, slots=True)
class HandleNotifications(Task):
    """Reads the notifications; exactly these are deleted at the end, also after an error."""

    names: tuple[str, ...]

    def __call__(self, turn: Turn) -> None:
        if self.names:
            turn.push(DeleteHandledNotifications(self.names))
            turn.ask(ReadIsrNotifications(names=self.names), RefreshNotified())


@dataclass(frozen=True, slots=True)
class RefreshNotified(Task):
    """Reads the states of the partitions that the notifications name: newer than every notification."""

    def __call__(self, turn: Turn) -> None:
        if not isinstance(turn.answer, IsrNotificationsRead):
            _refuse_notifications(turn, _LOST)
        elif turn.answer.partitions:
            partitions = tuple(sorted(set(turn.answer.partitions)))
            turn.ask(ReadPartitionStates(partitions=partitions), AdoptNotified(turn.answer.partitions))


@dataclass(frozen=True, slots=True)
class AdoptNotified(Task):
    """The context learns the ISRs, whatever controller caused them; brokers hear of them.

    A partition that is named twice is looked at twice: Kafka completes its reassignment again, one leader epoch later.
    """

    partitions: tuple[TopicPartition, ...]

    def __call__(self, turn: Turn) -> None:
        if not isinstance(turn.answer, StatesRead):
            _refuse_notifications(turn, _LOST)
            return
        context, found = turn.context, turn.answer.found
        named = tuple(sorted(set(self.partitions)))
        turn.context = context.with_leaderships({p: found[p] for p in named if p in found})
        tasks: list[Task] = [SendMetadataUpdate(None, named)]
        if context.dialect.completes_reassignments_on_notification:
            tasks += [
                CompleteReassignmentIfInSync(p) for p in self.partitions if p in context.partitions_being_reassigned
            ]
        turn.push(*tasks)


@dataclass(frozen=True, slots=True)
class DeleteHandledNotifications(Task):
    """Deletes exactly the notifications that were listed."""

    names: tuple[str, ...]

    def __call__(self, turn: Turn) -> None:
        effect = DeleteIsrNotifications(
            names=self.names, controller_epoch_version=turn.context.controller_epoch_version
        )
        turn.ask(effect, Acknowledge())


def _refuse_notifications(turn: Turn, outcome: str) -> None:
    """Tells that ISR changes were not taken up: one malformed notification is enough, for all that were listed with it."""
    error = turn.answer.error if isinstance(turn.answer, Failed) else "no answer"
    turn.refuse(RefusalKind.FAILED_TRANSITION, "/isr_change_notification", f"not taken up: {error}; {outcome}")


# AlterPartition


@dataclass(frozen=True, slots=True)
class ProcessAlterPartition(Task):
    """`AlterPartition`: judges each ISR that a leader wants, writes the good ones, answers."""

    request: AlterPartition

    def __call__(self, turn: Turn) -> None:
        context, request = turn.context, self.request
        known = context.brokers.get(request.broker)
        if known is None or known.epoch != request.broker_epoch:
            turn.send(ReplyAlterPartition(broker=request.broker, error="STALE_BROKER_EPOCH"))
            return
        errors: dict[TopicPartition | str, str] = {}
        unchanged: dict[TopicPartition, LeaderAndIsr] = {}
        wanted: list[tuple[TopicPartition, LeaderAndIsr]] = []
        for change in request.changes:
            verdict = judge(context, request, change)
            if isinstance(change.partition, str) or isinstance(verdict, str):
                errors[change.partition] = str(verdict)
            elif verdict.partition_epoch != change.partition_epoch or verdict == context.leadership(change.partition):
                unchanged[change.partition] = verdict
            else:
                wanted.append((change.partition, verdict))
        answer = AnswerAlterPartition(request, tuple(wanted), unchanged, errors)
        if wanted:
            effect = WritePartitionStates(
                states=tuple(wanted), controller_epoch_version=context.controller_epoch_version
            )
            turn.ask(effect, answer)
        else:
            turn.push(answer)


def judge(context: ControllerContext, request: AlterPartition, change: IsrChange) -> LeaderAndIsr | str:
    """The leadership to write (or that is there already), or Kafka's name of an error."""
    if isinstance(change.partition, str):
        return "UNKNOWN_TOPIC_ID"
    current = context.leadership(change.partition)
    if current is None:
        return "UNKNOWN_TOPIC_OR_PARTITION"
    if change.partition_epoch > current.partition_epoch or change.leader_epoch > current.leader_epoch:
        return "NOT_CONTROLLER"
    if change.leader_epoch < current.leader_epoch:
        return "FENCED_LEADER_EPOCH"
    asked = (request.broker, change.leader_epoch, change.isr, change.recovery)
    if asked == (current.leader, current.leader_epoch, current.isr, current.recovery):
        return current
    if change.partition_epoch < current.partition_epoch:
        return INVALID_UPDATE_VERSION
    if change.recovery is _RECOVERING and (len(change.isr) > 1 or current.recovery is not _RECOVERING):
        return "INVALID_REQUEST"
    if context.dialect.refuses_isr_of_unavailable and not all(context.is_live(broker) for broker in change.isr):
        return "INELIGIBLE_REPLICA" if request.api_version >= _INELIGIBLE_REPLICA_SINCE else "OPERATION_NOT_ATTEMPTED"
    return LeaderAndIsr(
        request.broker,
        change.leader_epoch,
        change.isr,
        change.recovery,
        change.partition_epoch,
        context.epoch,
        current.extra,
    )


@dataclass(frozen=True, slots=True)
class AnswerAlterPartition(Task):
    """Takes up what ZooKeeper accepted, tells the brokers, answers the leader."""

    request: AlterPartition
    wanted: tuple[tuple[TopicPartition, LeaderAndIsr], ...]
    unchanged: Mapping[TopicPartition, LeaderAndIsr]
    errors: Mapping[TopicPartition | str, str]

    def __call__(self, turn: Turn) -> None:
        versions, problems = written_states(turn, [p for p, _ in self.wanted]) if self.wanted else ({}, {})
        changed = {p: state._replace(partition_epoch=versions[p]) for p, state in self.wanted if p in versions}
        errors = dict(self.errors)
        for partition, code in problems.items():
            errors[partition] = INVALID_UPDATE_VERSION if code == BAD_VERSION else "UNKNOWN_SERVER_ERROR"
        turn.context = turn.context.with_leaderships(changed)
        accepted = tuple({**self.unchanged, **changed}.items())
        turn.send(ReplyAlterPartition(broker=self.request.broker, accepted=accepted, errors=tuple(errors.items())))
        asked = tuple(c.partition for c in self.request.changes if not isinstance(c.partition, str))
        turn.push(SendMetadataUpdate(None, asked), *(MaybeCompleteReassignment(partition) for partition, _ in accepted))
