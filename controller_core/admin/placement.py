"""Where Kafka's own tools put the replicas of new topics and partitions.

Source: Kafka 3.9 `AdminUtils.assignReplicasToBrokers` (KIP-36), `AdminZkClient.validateTopicCreate`, `Topic`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from controller_core.model.errors import (
    InvalidPartitionsError,
    InvalidReplicaAssignmentError,
    InvalidReplicationFactorError,
    InvalidTopicError,
    RackMissingError,
    TopicExistsError,
)
from controller_core.model.partitions import BrokerId, is_topic_name

BrokerRacks = Mapping[BrokerId, str | None]


def assign_replicas(
    broker_racks: BrokerRacks,
    *,
    partition_count: int,
    replication_factor: int,
    start_index: int,
    first_shift: int,
    start_partition: int = 0,
) -> dict[int, tuple[BrokerId, ...]]:
    """Replicas of new partitions, spread evenly over the brokers, and over racks when the brokers have any.

    Args:
        broker_racks: broker → rack; brokers are used in the order of their ids.
        partition_count: how many partitions.
        replication_factor: how many replicas each.
        start_index: which broker leads partition 0; Kafka draws it at random.
        first_shift: distance from the first to the second replica; Kafka draws it at random.
        start_partition: number of the first new partition; negative: 0.

    Returns:
        Partition number → broker ids, preferred leader first.

    Raises:
        InvalidPartitionsError, InvalidReplicationFactorError: a number is not positive, or too large.
        RackMissingError: some brokers have a rack, others have none.
    """
    if partition_count <= 0:
        raise InvalidPartitionsError(f"{partition_count} partitions cannot be placed: expected at least 1")
    if not 0 < replication_factor <= len(broker_racks):
        raise InvalidReplicationFactorError(
            f"{replication_factor} replicas cannot be placed: expected 1 to {len(broker_racks)}, the number of brokers"
        )
    racks = _racks(broker_racks)
    brokers = rack_alternated(racks) if racks else sorted(broker_racks)
    shift, first = first_shift, max(0, start_partition)
    assignment: dict[int, tuple[BrokerId, ...]] = {}
    for partition in range(first, first + partition_count):
        if partition > 0 and partition % len(brokers) == 0:
            shift += 1
        leader_index = (partition + start_index) % len(brokers)
        if racks:
            assignment[partition] = _spread_over_racks(brokers, racks, leader_index, shift, replication_factor)
        else:
            followers = (
                brokers[_replica_index(leader_index, shift, each, len(brokers))]
                for each in range(replication_factor - 1)
            )
            assignment[partition] = (brokers[leader_index], *followers)
    return assignment


def rack_alternated(broker_racks: Mapping[BrokerId, str]) -> list[BrokerId]:
    """All brokers, taken in turn from each rack: racks by name, brokers of a rack by id."""
    queues = [
        sorted(broker for broker, rack in broker_racks.items() if rack == name)
        for name in sorted(set(broker_racks.values()))
    ]
    longest = max(map(len, queues), default=0)
    return [queue[turn] for turn in range(longest) for queue in queues if turn < len(queue)]


def validate_new_topic(
    topic: str,
    assignment: Mapping[int, Sequence[BrokerId]],
    *,
    topics: Iterable[str] = (),
    topics_marked_for_deletion: Collection[str] = (),
) -> None:
    """Whether Kafka would create a topic with these replicas; whether the brokers exist is not looked at, as in Kafka.

    Args:
        topic: its name.
        assignment: partition number → replicas, preferred first.
        topics: names of the topics that exist.
        topics_marked_for_deletion: those that wait for their deletion.

    Raises:
        InvalidTopicError: the name is none, or equals another one up to `.` and `_`.
        TopicExistsError: it exists, or waits for its deletion.
        InvalidReplicaAssignmentError: lists differ in length, name a broker twice or none, or numbers have gaps.
    """
    _validate_name(topic)
    others = frozenset(topics)
    if topic in topics_marked_for_deletion:
        raise TopicExistsError(f"topic {topic!r} not created: it waits for its deletion; try again when it is gone")
    if topic in others:
        raise TopicExistsError(f"topic {topic!r} not created: it exists already; choose another name")
    twin = next((each for each in sorted(others) if _unified(each) == _unified(topic)), None)
    if twin is not None:
        raise InvalidTopicError(f"topic {topic!r} not created: it collides with {twin!r}, as '.' and '_' are the same")
    if len({len(replicas) for replicas in assignment.values()}) != 1:
        raise InvalidReplicaAssignmentError(f"topic {topic!r} not created: expected lists of one length")
    for partition, replicas in assignment.items():
        if len(set(replicas)) != len(replicas) or not replicas:
            raise InvalidReplicaAssignmentError(
                f"{topic}-{partition} not created: expected distinct brokers, found {list(replicas)}"
            )
    if sorted(assignment) != list(range(len(assignment))):
        raise InvalidReplicaAssignmentError(
            f"topic {topic!r} not created: expected partitions 0 to {len(assignment) - 1}, found {sorted(assignment)[:20]}"
        )


def _validate_name(topic: str) -> None:
    if not is_topic_name(topic):
        raise InvalidTopicError(
            f"topic {topic[:80]!r} not created: expected 1 to 249 of a-z, A-Z, 0-9, '.', '_' and '-', and "
            "neither '.' nor '..'"
        )


def _unified(topic: str) -> str:
    return topic.replace(".", "_")


def _racks(broker_racks: BrokerRacks) -> dict[BrokerId, str]:
    racks = {broker: rack for broker, rack in broker_racks.items() if rack is not None}
    if racks and len(racks) < len(broker_racks):
        missing = sorted(broker_racks.keys() - racks.keys())
        raise RackMissingError(f"replicas cannot be placed by rack: expected racks of all, brokers {missing} have none")
    return racks


def _spread_over_racks(
    brokers: Sequence[BrokerId], racks: Mapping[BrokerId, str], leader_index: int, shift: int, replication_factor: int
) -> tuple[BrokerId, ...]:
    """Walks on from the leader, skips racks that hold a replica while others hold none, and brokers likewise."""
    rack_count = len(set(racks.values()))
    replicas = [brokers[leader_index]]
    used = {racks[brokers[leader_index]]}
    steps = 0
    while len(replicas) < replication_factor:
        broker = brokers[_replica_index(leader_index, shift * rack_count, steps, len(brokers))]
        steps += 1
        if (racks[broker] not in used or len(used) == rack_count) and broker not in replicas:
            replicas.append(broker)
            used.add(racks[broker])
    return tuple(replicas)


def _replica_index(leader_index: int, shift: int, replica: int, broker_count: int) -> int:
    distance = 1 + (shift + replica) % (broker_count - 1)
    return (leader_index + distance) % broker_count
