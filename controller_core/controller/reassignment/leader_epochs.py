"""A new leader epoch without a new leader, so that replicas hear of another assignment.

Source: Kafka 3.9 `KafkaController.updateLeaderEpoch`.
"""

from dataclasses import dataclass

from controller_core.controller.partition_state_machine import describe_problem
from controller_core.controller.reassignment.end import fail_reassignment
from controller_core.controller.state_answers import read_states, why_written_failed, written_states
from controller_core.engine import request_batch
from controller_core.engine.turn import Task, Turn
from controller_core.messages.answers import BAD_VERSION
from controller_core.messages.effects import ReadPartitionStates, WritePartitionStates
from controller_core.model.partitions import BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition


@dataclass(frozen=True, slots=True)
class UpdateLeaderEpochAndSendRequest(Task):
    """Leader epoch + 1 in ZooKeeper, then LeaderAndIsr to `known` replicas (not new) and to `new` ones."""

    partition: TopicPartition
    assignment: ReplicaAssignment
    known: tuple[BrokerId, ...]
    new: tuple[BrokerId, ...]

    def __call__(self, turn: Turn) -> None:
        turn.ask(ReadPartitionStates(partitions=(self.partition,)), WriteNewEpoch(self))


@dataclass(frozen=True, slots=True)
class WriteNewEpoch(Task):
    """Raises the epoch of the state just read."""

    request: UpdateLeaderEpochAndSendRequest

    def __call__(self, turn: Turn) -> None:
        partition = self.request.partition
        found, problems = read_states(turn, (partition,))
        if partition in problems:
            fail_reassignment(turn, partition, describe_problem(problems[partition]))
            return
        after = found[partition].new_epoch(turn.context.epoch)
        effect = WritePartitionStates(
            states=((partition, after),), controller_epoch_version=turn.context.controller_epoch_version
        )
        turn.ask(effect, AdoptNewEpoch(self.request, after))


@dataclass(frozen=True, slots=True)
class AdoptNewEpoch(Task):
    """Tells the replicas; a lost race is run again."""

    request: UpdateLeaderEpochAndSendRequest
    leadership: LeaderAndIsr

    def __call__(self, turn: Turn) -> None:
        partition = self.request.partition
        versions, problems = written_states(turn, [partition])
        if problems.get(partition) == BAD_VERSION:
            turn.push(self.request)
            return
        if partition not in versions:
            fail_reassignment(turn, partition, why_written_failed(problems.get(partition, "nothing")))
            return
        after = self.leadership._replace(partition_epoch=versions[partition])
        turn.context = turn.context.with_leaderships({partition: after})
        if turn.open_batch():
            context, assignment = turn.context, self.request.assignment
            groups = ((self.request.known, False), (self.request.new, True))
            turn.add(
                request_batch.leader_and_isr(context, brokers, partition, after, assignment, is_new=is_new)
                for brokers, is_new in groups
            )
            turn.send_batch()
