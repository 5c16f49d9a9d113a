"""UpdateMetadata that the controller sends of its own, outside of the state machines.

Source: Kafka 3.9 `KafkaController.sendUpdateMetadataRequest`.
"""

from dataclasses import dataclass

from controller_core.engine import request_batch
from controller_core.engine.turn import Task, Turn
from controller_core.model.partitions import BrokerId, TopicPartition


@dataclass(frozen=True, slots=True)
class SendMetadataUpdate(Task):
    """`sendUpdateMetadataRequest`: these partitions to these brokers; None is all registered ones at that time.

    No partitions: just the list of live brokers (through Kafka 2.1: all partitions).
    """

    brokers: tuple[BrokerId, ...] | None
    partitions: tuple[TopicPartition, ...] = ()
    owner: str = "controller"

    def __call__(self, turn: Turn) -> None:
        if not turn.open_batch(self.owner):
            return
        context = turn.context
        brokers = context.live_or_shutting_down_broker_ids if self.brokers is None else self.brokers
        turn.add([request_batch.update_metadata(context, brokers, self.partitions)])
        turn.send_batch()
