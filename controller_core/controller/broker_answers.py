"""Answers of brokers to StopReplica and UpdateMetadata.

Source: Kafka 3.9 `KafkaController.processTopicDeletionStopReplicaResponseReceived`.
"""

from dataclasses import dataclass

from controller_core.controller.topic_deletion import CompleteReplicaDeletion, FailReplicaDeletion
from controller_core.engine.turn import Task, Turn
from controller_core.messages.events import StopReplicaAnswered, UpdateMetadataAnswered
from controller_core.model.partitions import PartitionAndReplica
from controller_core.model.refusals import RefusalKind

_NONE = "NONE"


@dataclass(frozen=True, slots=True)
class ProcessStopReplicaAnswer(Task):
    """Replicas that the broker deleted are complete; with an error they failed, all of them where the error is general."""

    event: StopReplicaAnswered

    def __call__(self, turn: Turn) -> None:
        event = self.event
        failed: list[PartitionAndReplica] = []
        deleted: list[PartitionAndReplica] = []
        for partition, error in sorted(event.partition_errors.items()):
            replica = PartitionAndReplica(partition, event.broker)
            (deleted if error == _NONE and event.error == _NONE else failed).append(replica)
        tasks: list[Task] = [FailReplicaDeletion(tuple(failed))]
        if deleted:  # else deletions would be resumed a second time
            tasks.append(CompleteReplicaDeletion(tuple(deleted)))
        turn.push(*tasks)


@dataclass(frozen=True, slots=True)
class NoteMetadataError(Task):
    """Kafka logs it; nothing else follows."""

    event: UpdateMetadataAnswered

    def __call__(self, turn: Turn) -> None:
        if self.event.error != _NONE:
            subject = f"broker {self.event.broker}"
            turn.refuse(RefusalKind.FAILED_TRANSITION, subject, f"UpdateMetadata was answered {self.event.error}")
