"""Which partitions no plan may touch now: the command and the daily job leave out the same ones.

Source: Kafka 3.9 `TopicDeletionManager`, `KafkaController.onPartitionReassignment`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from collections.abc import Set as AbstractSet

from controller_core.model.partitions import is_topic_name
from controller_core.plans.kinds.moves import has_source


def unmovable(
    *,
    topic: str,
    is_queued: bool,
    is_being_reassigned: bool,
    replicas: Collection[int],
    leader: int | None,
    isr: Iterable[int],
    live: AbstractSet[int],
) -> str | None:
    """Why a partition cannot be moved now; None when it can.

    Args:
        topic: its name.
        is_queued: its topic is queued for deletion.
        is_being_reassigned: replicas are being added to it or removed from it.
        replicas: broker ids of its assignment.
        leader: its leader's broker id, -1 for none; None without a state.
        isr: broker ids of its in-sync replicas.
        live: broker ids that are registered.
    """
    if not is_topic_name(topic):
        return "its topic has a name that Kafka does not allow"
    if is_queued:
        return "its topic is queued for deletion"
    if is_being_reassigned:
        return "is being reassigned"
    return None if has_source(replicas, leader, isr, live) else "has no leader to copy from"
