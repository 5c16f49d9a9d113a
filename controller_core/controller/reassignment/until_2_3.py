"""Partition reassignment through Kafka 2.3: the requested list lives in `/admin/reassign_partitions` only.

Source: Kafka 1.1 and 2.3 `KafkaController.onPartitionReassignment`. RAR is the requested
list, OAR the assignment before, AR the assignment in ZooKeeper; steps are numbered as there.
"""

from dataclasses import dataclass

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
    without_reassignment,
)
from controller_core.controller.replica_state_machine import ChangeReplicaStates
from controller_core.controller.topic_deletion import MarkTopicsIneligible, ResumeDeletionForTopics
from controller_core.controller.update_metadata import SendMetadataUpdate
from controller_core.engine.turn import Acknowledge, Task, Turn
from controller_core.messages.answers import StatesRead
from controller_core.messages.effects import (
    DeleteReassignmentRequests,
    ReadPartitionStates,
    Unwatch,
    Watch,
    WatchKind,
    WriteReassignmentRequests,
)
from controller_core.model.partitions import BrokerId, PartitionAndReplica, ReplicaAssignment, TopicPartition
from controller_core.model.states import ReplicaState


@dataclass(frozen=True, slots=True)
class TriggerLegacyReassignments(Task):
    """Remembers the requests, drops those that cannot or need not be done, and runs the others.

    Through Kafka 1.0 the event also comes when the controller itself has rewritten the node: what runs already is left
    alone, but at a failover nothing runs yet.
    """

    at_failover: bool = False

    def __call__(self, turn: Turn) -> None:
        targets = requested_targets(turn)
        if targets is None:
            return
        context = turn.context
        known = context.reassignment_targets
        only_new = context.dialect.running_reassignments_are_not_started_again and not self.at_failover
        asked = {p: target for p, target in targets.items() if not (only_new and p in known)}
        turn.change(reassignment_targets=known.update(asked))
        turn.reassignment_errors = {}
        runs: list[Task] = []
        dropped: list[TopicPartition] = []
        for partition, target in sorted(asked.items()):
            error = _objection(turn, partition, target)
            if error is None:
                runs += [WatchIsr(partition), MarkTopicsIneligible((partition.topic,)), RunLegacy(partition, target)]
            else:
                dropped.append(partition)
                if error:
                    refuse_target(turn, partition, target, error)
        turn.push(*runs, RemoveFromReassigned(tuple(dropped), with_errors=True))


def _objection(turn: Turn, partition: TopicPartition, target: tuple[BrokerId, ...]) -> str | None:
    """Kafka's error; "" where there is nothing to do, None where there is no objection."""
    context = turn.context
    assigned = context.assignment(partition)
    if partition.topic in context.topics_to_be_deleted or not assigned:
        return UNKNOWN_PARTITION
    if not target:
        return INVALID_ASSIGNMENT
    return "" if assigned == target else None


@dataclass(frozen=True, slots=True)
class WatchIsr(Task):
    """The ISR of the partition is waited for."""

    partition: TopicPartition

    def __call__(self, turn: Turn) -> None:
        turn.send(Watch(kind=WatchKind.PARTITION_STATE, names=(str(self.partition),)))


@dataclass(frozen=True, slots=True)
class RunLegacy(Task):
    """`onPartitionReassignment`: looks at the ISR in ZooKeeper first."""

    partition: TopicPartition
    target: tuple[BrokerId, ...]
    only_if_complete: bool = False

    def __call__(self, turn: Turn) -> None:
        then = ContinueLegacy(self.partition, self.target, self.only_if_complete)
        turn.push(EndReassignment(self.partition))
        turn.ask(ReadPartitionStates(partitions=(self.partition,)), then)


@dataclass(frozen=True, slots=True)
class ContinueLegacy(Task):
    """Steps 1 to 3 while a target replica is missing from the ISR, else steps 5 to 12."""

    partition: TopicPartition
    target: tuple[BrokerId, ...]
    only_if_complete: bool = False

    def __call__(self, turn: Turn) -> None:
        state = turn.answer.found.get(self.partition) if isinstance(turn.answer, StatesRead) else None
        if state is not None and set(self.target) <= set(state.isr):
            turn.push(*self._complete(turn))
        elif not self.only_if_complete:
            turn.push(*self._start(turn))

    def _start(self, turn: Turn) -> list[Task]:
        partition, target = self.partition, self.target
        before = turn.context.assignment(partition)
        both = tuple(dict.fromkeys((*target, *before)))
        new = [b for b in target if b not in before]
        grown = ReplicaAssignment(both)
        return [
            WriteAssignment(partition, grown),
            SetAssignment(partition, grown),
            UpdateLeaderEpochAndSendRequest(partition, grown, both, ()),
            *(ChangeReplicaStates((PartitionAndReplica(partition, b),), ReplicaState.NEW) for b in new),
        ]

    def _complete(self, turn: Turn) -> list[Task]:
        partition, target = self.partition, self.target
        both = turn.context.assignment(partition)
        old = tuple(broker for broker in both if broker not in target)
        completed = ReplicaAssignment(target)
        return [
            *(ChangeReplicaStates((PartitionAndReplica(partition, b),), ReplicaState.ONLINE) for b in target),
            SetAssignment(partition, completed),
            MoveLeaderIfRequired(partition, completed, both),
            StopRemovedReplicas(partition, old),
            WriteAssignment(partition, completed),
            RemoveFromReassigned((partition,)),
            SendMetadataUpdate(None, (partition,)),
            ResumeDeletionForTopics((partition.topic,)),
        ]


@dataclass(frozen=True, slots=True)
class RemoveFromReassigned(Task):
    """Step 11: the rest is written back to the request node; an empty node is deleted.

    `with_errors`: what failed in the request that ends here goes too. A run that fails later leaves its entry.
    """

    partitions: tuple[TopicPartition, ...]
    with_errors: bool = False

    def __call__(self, turn: Turn) -> None:
        failed = turn.reassignment_errors if self.with_errors else {}
        gone = tuple(dict.fromkeys((*self.partitions, *failed)))
        if not gone:
            return
        turn.send(Unwatch(kind=WatchKind.PARTITION_STATE, names=tuple(map(str, gone))))
        for partition in gone:
            turn.context = without_reassignment(turn.context, partition)
        left = tuple(sorted(turn.context.reassignment_targets.items()))
        version = turn.context.controller_epoch_version
        if left:
            turn.ask(WriteReassignmentRequests(targets=left, controller_epoch_version=version), Acknowledge())
        else:
            turn.ask(DeleteReassignmentRequests(controller_epoch_version=version), Acknowledge())
