"""Partition reassignment since Kafka 2.4 (KIP-455): adding and removing replicas are part of the assignment.

Source: Kafka 3.9 `KafkaController.onPartitionReassignment`. Phases are named as there:
U updates, A waits for the new replicas, B completes. The topic znode is the durable record. The flow through Kafka 2.3
is in `until_2_3`.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from controller_core.context.context import ControllerContext
from controller_core.controller.reassignment.end import EndReassignment
from controller_core.controller.reassignment.leader_epochs import UpdateLeaderEpochAndSendRequest
from controller_core.controller.reassignment.steps import (
    INVALID_ASSIGNMENT,
    UNKNOWN_PARTITION,
    MoveLeaderIfRequired,
    SetAssignment,
    StopRemovedReplicas,
    WriteAssignment,
    refuse_target,
    requested_targets,
)
from controller_core.controller.replica_state_machine import ChangeReplicaStates
from controller_core.controller.topic_deletion import MarkTopicsIneligible, ResumeDeletionForTopics
from controller_core.controller.update_metadata import SendMetadataUpdate
from controller_core.engine.turn import Acknowledge, Task, Turn
from controller_core.messages.answers import ReassignmentRequestsRead, StatesRead
from controller_core.messages.effects import (
    DeleteReassignmentRequests,
    ReadPartitionStates,
    ReadReassignmentRequests,
    ReplyReassignmentList,
    ReplyReassignments,
    Unwatch,
    Watch,
    WatchKind,
    WriteReassignmentRequests,
)
from controller_core.messages.events import AlterReassignments, ListReassignments
from controller_core.model.partitions import BrokerId, PartitionAndReplica, ReplicaAssignment, TopicPartition
from controller_core.model.states import ReplicaState

_R = ReplicaState
NONE_IN_PROGRESS = "NO_REASSIGNMENT_IN_PROGRESS"


@dataclass(frozen=True, slots=True)
class OnPartitionReassignment(Task):
    """One run of a reassignment towards `assignment`: update, then wait or complete. `kafka`: see `EndReassignment`."""

    partition: TopicPartition
    assignment: ReplicaAssignment
    kafka: str = ""

    def __call__(self, turn: Turn) -> None:
        partition, assignment = self.partition, self.assignment
        turn.push(
            MarkTopicsIneligible((partition.topic,)),
            UpdateCurrentReassignment(partition, assignment),
            CheckReassignmentComplete(partition, assignment),
            EndReassignment(partition, self.kafka),
        )


# Phase U


@dataclass(frozen=True, slots=True)
class UpdateCurrentReassignment(Task):
    """U1 to U3: topic znode, context, and the end of adding replicas that are wanted no longer."""

    partition: TopicPartition
    assignment: ReplicaAssignment

    def __call__(self, turn: Turn) -> None:
        partition, current = self.partition, turn.context.full_assignment(self.partition)
        turn.push(RememberReassignment(partition))
        if current != self.assignment:
            unneeded = tuple(b for b in current.replicas if b not in self.assignment.replicas)
            turn.push(
                WriteAssignment(partition, self.assignment),
                SetAssignment(partition, self.assignment),
                StopRemovedReplicas(partition, unneeded),
            )


@dataclass(frozen=True, slots=True)
class RememberReassignment(Task):
    """The partition is being reassigned; without AlterPartition its ISR is watched."""

    partition: TopicPartition

    def __call__(self, turn: Turn) -> None:
        if not turn.context.dialect.isr_through_controller:
            turn.send(Watch(kind=WatchKind.PARTITION_STATE, names=(str(self.partition),)))
        moving = turn.context.partitions_being_reassigned.set(self.partition, None)
        turn.change(partitions_being_reassigned=moving)


# Complete?


@dataclass(frozen=True, slots=True)
class CheckReassignmentComplete(Task):
    """`isReassignmentComplete`: the target must be in the ISR that ZooKeeper has."""

    partition: TopicPartition
    assignment: ReplicaAssignment
    only_if_complete: bool = False

    def __call__(self, turn: Turn) -> None:
        if not self.assignment.is_being_reassigned:
            run = OnPartitionReassignment if self.only_if_complete else CompleteReassignment
            turn.push(run(self.partition, self.assignment))
        else:
            then = ContinueReassignment(self.partition, self.assignment, self.only_if_complete)
            turn.ask(ReadPartitionStates(partitions=(self.partition,)), then)


@dataclass(frozen=True, slots=True)
class ContinueReassignment(Task):
    """Phase A or phase B, as the ISR says."""

    partition: TopicPartition
    assignment: ReplicaAssignment
    only_if_complete: bool = False

    def __call__(self, turn: Turn) -> None:
        partition, assignment = self.partition, self.assignment
        state = turn.answer.found.get(partition) if isinstance(turn.answer, StatesRead) else None
        complete = state is not None and set(assignment.target) <= set(state.isr)
        if self.only_if_complete:
            if complete:
                turn.push(OnPartitionReassignment(partition, assignment))
        elif complete:
            turn.push(CompleteReassignment(partition, assignment))
        else:
            new = (ChangeReplicaStates((PartitionAndReplica(partition, b),), _R.NEW) for b in assignment.adding)
            turn.push(
                UpdateLeaderEpochAndSendRequest(partition, assignment, assignment.origin, assignment.adding), *new
            )


# Phase B


@dataclass(frozen=True, slots=True)
class CompleteReassignment(Task):
    """B1 to B8: the target takes over, the removed replicas go."""

    partition: TopicPartition
    assignment: ReplicaAssignment

    def __call__(self, turn: Turn) -> None:
        partition, assignment = self.partition, self.assignment
        adding = tuple(PartitionAndReplica(partition, broker) for broker in assignment.adding)
        completed = ReplicaAssignment(assignment.target)
        turn.push(
            ChangeReplicaStates(adding, _R.ONLINE),
            SetAssignment(partition, completed),
            MoveLeaderIfRequired(partition, completed),
            StopRemovedReplicas(partition, assignment.removing),
            WriteAssignment(partition, completed),
            ForgetReassignment(partition, completed.replicas),
            SendMetadataUpdate(None, (partition,)),
            ResumeDeletionForTopics((partition.topic,)),
        )


@dataclass(frozen=True, slots=True)
class ForgetReassignment(Task):
    """B7: no longer being reassigned; entries of the request node that asked for exactly this go."""

    partition: TopicPartition
    target: tuple[BrokerId, ...]

    def __call__(self, turn: Turn) -> None:
        context = turn.context
        if not context.dialect.isr_through_controller:
            turn.send(Unwatch(kind=WatchKind.PARTITION_STATE, names=(str(self.partition),)))
        if self.partition in context.partitions_being_reassigned:
            turn.change(partitions_being_reassigned=context.partitions_being_reassigned.delete(self.partition))
        turn.push(RemoveFromRequestNode({self.partition: self.target}))


@dataclass(frozen=True, slots=True)
class RemoveFromRequestNode(Task):
    """Removes entries from `/admin/reassign_partitions`, if it exists; a target of None matches any.

    The node is written, or deleted where it asks for nothing, also where no entry leaves it.
    """

    entries: Mapping[TopicPartition, tuple[BrokerId, ...] | None]

    def __call__(self, turn: Turn) -> None:
        turn.ask(ReadReassignmentRequests(), RewriteRequestNode(self.entries))


@dataclass(frozen=True, slots=True)
class RewriteRequestNode(Task):
    """Writes the rest back; deletes the node when nothing is left, and looks for the next request."""

    entries: Mapping[TopicPartition, tuple[BrokerId, ...] | None]

    def __call__(self, turn: Turn) -> None:
        answer = turn.answer
        if not isinstance(answer, ReassignmentRequestsRead) or answer.targets is None:
            return
        gone = {p for p, target in self.entries.items() if target is None or answer.targets.get(p) == target}
        left = tuple((p, target) for p, target in sorted(answer.targets.items()) if p not in gone)
        version = turn.context.controller_epoch_version
        if left:
            turn.ask(WriteReassignmentRequests(targets=left, controller_epoch_version=version), Acknowledge())
        else:
            turn.ask(DeleteReassignmentRequests(controller_epoch_version=version), Acknowledge())


# Requests


@dataclass(frozen=True, slots=True)
class TriggerRequestedReassignments(Task):
    """Starts what the request node asks for; what cannot be done leaves the node."""

    def __call__(self, turn: Turn) -> None:
        targets = requested_targets(turn)
        turn.reassignment_errors = {}
        turn.reassignments_started = frozenset()
        if targets is None:
            return
        runs: list[Task] = []
        failed: dict[TopicPartition, tuple[BrokerId, ...] | None] = {}
        for partition, target in sorted(targets.items()):
            error = _objection(turn.context, partition) or ("" if target else INVALID_ASSIGNMENT)
            if error:
                refuse_target(turn, partition, target, error)
                failed[partition] = None
            else:
                runs.append(StartReassignment(partition, target))
        turn.reassignments_started = frozenset(targets) - failed.keys()
        turn.push(*runs, RemoveFailedRequests(failed))


@dataclass(frozen=True, slots=True)
class StartReassignment(Task):
    """Runs a reassignment from the assignment as it is when its turn comes."""

    partition: TopicPartition
    target: tuple[BrokerId, ...]

    def __call__(self, turn: Turn) -> None:
        after = turn.context.full_assignment(self.partition).reassign_to(self.target)
        turn.push(OnPartitionReassignment(self.partition, after))


@dataclass(frozen=True, slots=True)
class RemoveFailedRequests(Task):
    """Takes what failed at once, or in its run, out of the request node."""

    failed: Mapping[TopicPartition, tuple[BrokerId, ...] | None]

    def __call__(self, turn: Turn) -> None:
        failed = {**self.failed, **dict.fromkeys(turn.reassignment_errors)}
        if failed:
            turn.push(RemoveFromRequestNode(failed))


def _objection(context: ControllerContext, partition: TopicPartition) -> str:
    to_be_deleted = partition.topic in context.topics_to_be_deleted
    return UNKNOWN_PARTITION if to_be_deleted or not context.assignment(partition) else ""


@dataclass(frozen=True, slots=True)
class ProcessAlterReassignments(Task):
    """`ApiPartitionReassignment`: validates each target, lets it supplant the request node's, and runs it."""

    request: AlterReassignments

    def __call__(self, turn: Turn) -> None:
        context = turn.context
        errors: dict[TopicPartition, str] = {}
        runs: list[Task] = []
        for partition, target in self.request.targets:
            error = _api_objection(context, partition, target)
            if error:
                errors[partition] = error
            else:
                wanted = context.full_assignment(partition).origin if target is None else target
                runs.append(StartReassignment(partition, wanted))
        turn.reassignment_errors = {}
        asked = tuple(partition for partition, _ in self.request.targets)
        supplanted = {p: None for p in asked if errors.get(p) in {None, UNKNOWN_PARTITION}}
        turn.push(RemoveFromRequestNode(supplanted), *runs, AnswerReassignments(asked, errors))


@dataclass(frozen=True, slots=True)
class ProcessListReassignments(Task):
    """`ListPartitionReassignments`: those of the partitions asked about that add or remove replicas."""

    request: ListReassignments

    def __call__(self, turn: Turn) -> None:
        context, asked = turn.context, self.request.partitions
        listed = sorted(context.partitions_being_reassigned if asked is None else set(asked))
        found = ((partition, context.full_assignment(partition)) for partition in listed)
        turn.send(ReplyReassignmentList(listed=tuple(row for row in found if row[1].is_being_reassigned)))


@dataclass(frozen=True, slots=True)
class AnswerReassignments(Task):
    """Tells the client how each run went."""

    asked: tuple[TopicPartition, ...]
    errors: Mapping[TopicPartition, str]

    def __call__(self, turn: Turn) -> None:
        found = {**turn.reassignment_errors, **self.errors}
        turn.send(ReplyReassignments(errors=tuple((p, found.get(p, "")) for p in self.asked)))


def _api_objection(context: ControllerContext, partition: TopicPartition, target: tuple[BrokerId, ...] | None) -> str:
    current = context.full_assignment(partition)
    if target is None:
        return _objection(context, partition) if current.is_being_reassigned else NONE_IN_PROGRESS
    if not target or len(set(target)) != len(target) or min(target) < 0:
        return INVALID_ASSIGNMENT
    if not all(context.is_live(broker) for broker in current.reassign_to(target).adding):
        return INVALID_ASSIGNMENT
    return _objection(context, partition)
