"""What the controller writes into a topic's znode.

Source: Kafka 3.9 `KafkaController.updateReplicaAssignmentForPartition`.
"""

from collections.abc import Mapping

from controller_core.context.context import ControllerContext
from controller_core.context.partition_entries import NO_TOPIC
from controller_core.messages.effects import WriteTopicAssignment
from controller_core.model.partitions import ReplicaAssignment, TopicPartition


def topic_node(
    context: ControllerContext, topic: str, assignments: Mapping[TopicPartition, ReplicaAssignment]
) -> WriteTopicAssignment:
    """The write that makes these the assignments in a topic's znode; its id and unknown fields are the context's."""
    entry = context.topics.get(topic, NO_TOPIC)
    return WriteTopicAssignment(
        topic=topic,
        topic_id=entry.topic_id,
        assignments=tuple((p.partition, assignment) for p, assignment in sorted(assignments.items())),
        extra=entry.extra,
        controller_epoch_version=context.controller_epoch_version,
    )
