"""What both flows of a reassignment do: take the request, set and write assignments, move the leader, stop the replicas that go.

Source: Kafka 3.9 and 1.1 `KafkaController`; the methods are the same in both.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace

from controller_core.context.context import ControllerContext
from controller_core.controller import elections
from controller_core.controller.partition_state_machine import ChangePartitionStates
from controller_core.controller.reassignment.end import fail_reassignment
from controller_core.controller.reassignment.leader_epochs import UpdateLeaderEpochAndSendRequest
from controller_core.controller.replica_state_machine import ChangeReplicaStates
from controller_core.controller.topic_znode import topic_node
from controller_core.engine.turn import Task, Turn
from controller_core.messages.answers import Failed, ReassignmentRequestsRead
from controller_core.model.partitions import BrokerId, PartitionAndReplica, ReplicaAssignment, TopicPartition
from controller_core.model.refusals import RefusalKind
from controller_core.model.states import PartitionState, ReplicaState

_R = ReplicaState
UNKNOWN_PARTITION = "UNKNOWN_TOPIC_OR_PARTITION"
INVALID_ASSIGNMENT = "INVALID_REPLICA_ASSIGNMENT"
EMPTY_TARGET = (
    "an empty list completes at once: through Kafka 2.6 every replica is deleted with its data; since 2.7 the "
    "imbalance counter raises, a failover repeats it, and automatic rebalance fails for the whole cluster"
)


def requested_targets(turn: Turn) -> Mapping[TopicPartition, tuple[BrokerId, ...]] | None:
    """What the request node asks for; None where there is none, and where it cannot be read, which is refused."""
    answer = turn.answer
    if not isinstance(answer, ReassignmentRequestsRead) or answer.targets is None:
        return None
    if answer.problem:
        reason = f"request node not readable: {answer.problem}; it stays, and no controller can read it"
        turn.refuse(RefusalKind.INVALID_REQUEST, "/admin/reassign_partitions", reason)
        return None
    return answer.targets


def refuse_target(turn: Turn, partition: TopicPartition, target: tuple[BrokerId, ...], error: str) -> None:
    """Tells why a requested reassignment is not done.

    Args:
        turn: of the step that decides it.
        partition: whose reassignment it is.
        target: the replicas that were asked for.
        error: Kafka's name of the error.
    """
    kafka = "" if target else EMPTY_TARGET
    reason = f"reassignment to {list(target)!r} refused: {error}"
    turn.refuse(RefusalKind.INVALID_REQUEST, partition, reason, kafka=kafka, error=error)


@dataclass(frozen=True, slots=True)
class WriteAssignment(Task):
    """Writes the topic znode with another assignment of this partition."""

    partition: TopicPartition
    assignment: ReplicaAssignment

    def __call__(self, turn: Turn) -> None:
        topic = self.partition.topic
        known = {p: turn.context.full_assignment(p) for p in turn.context.partitions_for_topic(topic)}
        effect = topic_node(turn.context, topic, {**known, self.partition: self.assignment})
        turn.ask(effect, AssignmentWritten(self.partition))


@dataclass(frozen=True, slots=True)
class AssignmentWritten(Task):
    """Without the topic znode the run ends here."""

    partition: TopicPartition

    def __call__(self, turn: Turn) -> None:
        if isinstance(turn.answer, Failed):
            fail_reassignment(turn, self.partition, f"topic znode not written: {turn.answer.error}")


@dataclass(frozen=True, slots=True)
class SetAssignment(Task):
    """The context's assignment becomes this one."""

    partition: TopicPartition
    assignment: ReplicaAssignment

    def __call__(self, turn: Turn) -> None:
        turn.context = turn.context.with_entry(self.partition, assignment=self.assignment)


@dataclass(frozen=True, slots=True)
class MoveLeaderIfRequired(Task):
    """B3: a leader that leaves or is dead is replaced; a good one gets a new epoch and the new replicas."""

    partition: TopicPartition
    assignment: ReplicaAssignment
    recipients: tuple[BrokerId, ...] | None = None

    def __call__(self, turn: Turn) -> None:
        partition, replicas = self.partition, self.assignment.replicas
        leadership = turn.context.leadership(partition)
        if leadership is None:
            fail_reassignment(turn, partition, "the partition has no leadership")
        elif leadership.leader in replicas and turn.context.is_replica_online(leadership.leader, partition):
            recipients = replicas if self.recipients is None else self.recipients
            turn.push(UpdateLeaderEpochAndSendRequest(partition, self.assignment, recipients, ()))
        else:
            turn.push(ChangePartitionStates((partition,), PartitionState.ONLINE, elections.REASSIGN))


@dataclass(frozen=True, slots=True)
class StopRemovedReplicas(Task):
    """Offline → Started → Successful → NonExistent, without waiting for the brokers."""

    partition: TopicPartition
    brokers: tuple[BrokerId, ...]

    def __call__(self, turn: Turn) -> None:
        replicas = tuple(PartitionAndReplica(self.partition, broker) for broker in self.brokers)
        states = (_R.OFFLINE, _R.DELETION_STARTED, _R.DELETION_SUCCESSFUL, _R.NON_EXISTENT)
        turn.push(*(ChangeReplicaStates(replicas, state) for state in states))


def without_reassignment(context: ControllerContext, partition: TopicPartition) -> ControllerContext:
    """The context after the partition's reassignment is over or given up, in either flow."""
    moving, targets = context.partitions_being_reassigned, context.reassignment_targets
    return replace(
        context,
        partitions_being_reassigned=moving.delete(partition) if partition in moving else moving,
        reassignment_targets=targets.delete(partition) if partition in targets else targets,
    )
