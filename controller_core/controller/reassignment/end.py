"""How one partition's run of a reassignment ends, well or in the middle.

Source: Kafka 3.9 `KafkaController.processZkPartitionReassignment`, `maybeTriggerPartitionReassignment`: an error ends the run of that partition and of no other.
"""

from dataclasses import dataclass

from controller_core.engine.turn import Task, Turn
from controller_core.model.partitions import TopicPartition
from controller_core.model.refusals import RefusalKind

SERVER_ERROR = "UNKNOWN_SERVER_ERROR"


@dataclass(frozen=True, slots=True)
class EndReassignment(Task):
    """Marks where a run ends: what is in front of it belongs to that run. `kafka` is what an error in the run does there."""

    partition: TopicPartition
    kafka: str = ""

    def __call__(self, turn: Turn) -> None:
        """Nothing is left to do."""


def fail_reassignment(turn: Turn, partition: TopicPartition, reason: str) -> None:
    """Gives up the rest of the running run; other partitions go on."""
    turn.unwind_to(EndReassignment)
    end = turn.stack[-1] if turn.stack else None
    kafka = end.kafka if isinstance(end, EndReassignment) else ""
    turn.reassignment_errors = {**turn.reassignment_errors, partition: SERVER_ERROR}
    reason = f"reassignment stopped: {reason}"
    turn.refuse(RefusalKind.FAILED_TRANSITION, partition, reason, kafka=kafka, error=SERVER_ERROR)
