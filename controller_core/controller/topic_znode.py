"""What the controller writes into a topic's znode.

Source: Kafka 3.9 `KafkaController.updateReplicaAssignmentForPartition`.
"""

from collections.abc import Mapping

from controller_core.context.context import ControllerContext
from controller_core.context.partition_entries import NO_TOPIC
from controller_core.messages.effects import WriteTopicAssignment
from controller_core.model.partitions import ReplicaAssignment, TopicPartition


def topic_node(
    context: ControllerContext, topic: str, changed: Mapping[TopicPartition, ReplicaAssignment] | None = None
) -> WriteTopicAssignment:
    """The write that puts the context's assignments of a topic, but for those `changed`, into its znode."""
    entry = context.topics.get(topic, NO_TOPIC)
    after = changed or {}
    return WriteTopicAssignment(
        topic=topic,
        topic_id=entry.topic_id,
        assignments=tuple(
            (p.partition, after.get(p) or context.full_assignment(p)) for p in context.partitions_for_topic(topic)
        ),
        extra=entry.extra,
        controller_epoch_version=context.controller_epoch_version,
    )
