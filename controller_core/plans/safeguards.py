"""What must hold of a cluster before a request is made, whatever its plan says: a plan that an older version made, too.

Source: docs/operations.md, "Applying".
"""

from collections.abc import Iterable
from typing import assert_never

from controller_core.model.partitions import TopicPartition
from controller_core.plans.conditions import (
    Condition,
    HasLiveLeader,
    TopicNotInElection,
    TopicNotQueued,
    TopicNotReassigned,
)
from controller_core.plans.request_znodes import (
    CreateDeleteTopic,
    CreatePreferredReplicaElection,
    CreateReassignPartitions,
    DeleteController,
    MoveLeaders,
    Request,
)


def safeguards(request: Request) -> tuple[Condition, ...]:
    """The conditions under which a controller may be asked for `request` at all.

    Kafka begins a deletion beside a running reassignment: it removes replicas, and neither of the two ever ends. A request
    that names a partition without a live leader, or a topic that goes, occupies its znode until somebody helps.
    """
    match request:
        case CreateDeleteTopic(topic=topic):
            return TopicNotReassigned(topic=topic), TopicNotInElection(topic=topic), TopicNotQueued(topic=topic)
        case CreateReassignPartitions(targets=targets):
            return _of_partitions(target.partition for target in targets)
        case CreatePreferredReplicaElection(partitions=partitions):
            return _of_partitions(partitions)
        case MoveLeaders(moves=moves):
            return _of_partitions(move.partition for move in moves)
        case DeleteController():
            return ()
        case _:
            assert_never(request)


def _of_partitions(partitions: Iterable[TopicPartition]) -> tuple[Condition, ...]:
    named = tuple(partitions)
    topics = dict.fromkeys(partition.topic for partition in named)
    queue = tuple(TopicNotQueued(topic=topic) for topic in topics)
    return (*queue, *(HasLiveLeader(*partition) for partition in named))
