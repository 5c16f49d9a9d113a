"""Reassignments as the controller's events see them: which flow runs, and when it runs again.

Source: Kafka 3.9 `KafkaController.maybeResumeReassignments`,
`processZkPartitionReassignment`.
"""

from dataclasses import dataclass

from controller_core.controller.reassignment.kip_455 import (
    CheckReassignmentComplete,
    OnPartitionReassignment,
    TriggerRequestedReassignments,
)
from controller_core.controller.reassignment.until_2_3 import RunLegacy, TriggerLegacyReassignments
from controller_core.engine.turn import Task, Turn
from controller_core.messages.effects import ReadReassignmentRequests
from controller_core.model.partitions import BrokerId, TopicPartition

_ENDS_FAILOVER = (
    "the error ends the failover: the controller resigns, and so does every next one, until a broker of the partition's "
    "replicas is back or its adding and removing replicas are taken out of the topic znode"
)
_ENDS_STARTUP = (
    "the error ends what a started broker sets off: reassignments and deletions that waited for it are not resumed, and its "
    "znode is not watched"
)


@dataclass(frozen=True, slots=True)
class ProcessReassignmentRequest(Task):
    """`ZkPartitionReassignment`: reads the request node, and runs what it asks for.

    At a failover the reassignments that only the topic znodes know are run after those of the request node.
    """

    at_failover: bool = False

    def __call__(self, turn: Turn) -> None:
        if not turn.context.dialect.adding_and_removing_replicas:
            turn.ask(ReadReassignmentRequests(), TriggerLegacyReassignments(self.at_failover))
            return
        if self.at_failover:
            turn.push(ResumeOtherReassignments())
        turn.ask(ReadReassignmentRequests(), TriggerRequestedReassignments())


@dataclass(frozen=True, slots=True)
class ResumeOtherReassignments(Task):
    """Runs what the request node did not just start."""

    def __call__(self, turn: Turn) -> None:
        started = turn.reassignments_started
        turn.push(ResumeReassignments(skipped=started))


@dataclass(frozen=True, slots=True)
class ResumeReassignments(Task):
    """`maybeResumeReassignments`: runs those with a target replica on these brokers; None is all of them."""

    brokers: frozenset[BrokerId] | None = None
    skipped: frozenset[TopicPartition] = frozenset()

    def __call__(self, turn: Turn) -> None:
        context = turn.context
        tasks: list[Task] = []
        kafka = _ENDS_FAILOVER if self.brokers is None else _ENDS_STARTUP
        for partition in sorted(set(context.partitions_being_reassigned) - self.skipped):
            assignment = context.full_assignment(partition)
            if self._concerns(assignment.target):
                tasks.append(OnPartitionReassignment(partition, assignment, kafka))
        for partition, target in sorted(context.reassignment_targets.items()):
            if self._concerns(target):
                tasks.append(RunLegacy(partition, target))
        turn.push(*tasks)

    def _concerns(self, target: tuple[BrokerId, ...]) -> bool:
        return self.brokers is None or not self.brokers.isdisjoint(target)


@dataclass(frozen=True, slots=True)
class MaybeCompleteReassignment(Task):
    """The ISR of a partition changed: its reassignment may be complete now."""

    partition: TopicPartition

    def __call__(self, turn: Turn) -> None:
        context, partition = turn.context, self.partition
        if partition in context.partitions_being_reassigned:
            turn.push(CompleteReassignmentIfInSync(partition))
        elif partition in context.reassignment_targets:
            turn.push(RunLegacy(partition, context.reassignment_targets[partition], only_if_complete=True))


@dataclass(frozen=True, slots=True)
class CompleteReassignmentIfInSync(Task):
    """`maybeCompleteReassignment`, since Kafka 2.4: nothing to add or remove counts as complete."""

    partition: TopicPartition

    def __call__(self, turn: Turn) -> None:
        assignment = turn.context.full_assignment(self.partition)
        turn.push(CheckReassignmentComplete(self.partition, assignment, only_if_complete=True))
