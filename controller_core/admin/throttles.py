"""How Kafka's reassignment tool throttles the traffic that a reassignment causes.

Source: Kafka 3.9 `ReassignPartitionsCommand` (2.6 and later: `MoveMap`), Kafka 2.4 `ReassignPartitionsCommand` (0.10.1 to
2.5: `assignThrottledReplicas`, `maybeLimit`, `removeThrottle`); KIP-73.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from controller_core.model.errors import InvalidMetadataError
from controller_core.model.partitions import BrokerId, ReplicaAssignment, TopicPartition
from controller_core.model.words import counted

LEADER_REPLICAS = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS = "follower.replication.throttled.replicas"
LEADER_RATE = "leader.replication.throttled.rate"
FOLLOWER_RATE = "follower.replication.throttled.rate"
LOG_DIR_RATE = "replica.alter.log.dirs.io.max.bytes.per.second"
COMPLETED = "completed"

Config = Mapping[str, str]
Entity = TypeVar("Entity", str, BrokerId)
Replicas = Mapping[TopicPartition, Sequence[BrokerId]]


class PartitionMove(NamedTuple):
    """Whence and where data may be copied for one partition."""

    sources: frozenset[BrokerId]
    destinations: frozenset[BrokerId]


MoveMap = Mapping[TopicPartition, PartitionMove]


class ConfigChanges(NamedTuple):
    """The whole new overrides of everything that is written: topics by name, brokers by id."""

    topics: Mapping[str, Config]
    brokers: Mapping[BrokerId, Config]

    @property
    def write_count(self) -> int:
        """Number of writes."""
        return len(self.topics) + len(self.brokers)


# ---- the tool of Kafka 2.6 and later ----


def current_moves(reassignments: Mapping[TopicPartition, ReplicaAssignment]) -> dict[TopicPartition, PartitionMove]:
    """What the reassignments that are under way copy: to the replicas being added, from all others."""
    return {
        partition: PartitionMove(frozenset(assignment.origin), frozenset(assignment.adding))
        for partition, assignment in reassignments.items()
    }


def move_map(
    reassignments: Mapping[TopicPartition, ReplicaAssignment], proposed: Replicas, current: Replicas
) -> dict[TopicPartition, PartitionMove]:
    """What will be copied once `proposed` is asked for as well.

    Args:
        reassignments: those under way, of any partitions.
        proposed: target lists.
        current: replica lists of the proposed partitions.

    Raises:
        InvalidMetadataError: a proposed partition has no current replicas.
    """
    moves = current_moves(reassignments)
    for partition, targets in proposed.items():
        if partition in moves:
            sources = moves[partition].sources
        elif partition in current:
            sources = frozenset(current[partition])
        else:
            raise InvalidMetadataError(
                f"{partition} cannot be throttled: expected its current replicas, found none; check that it exists"
            )
        moves[partition] = PartitionMove(sources, frozenset(targets) - sources)
    return moves


def leader_throttles(moves: MoveMap) -> dict[str, str]:
    """Topic → value of `leader.replication.throttled.replicas`: every source, as any may lead."""
    return _by_topic((partition, move.sources) for partition, move in moves.items())


def follower_throttles(moves: MoveMap) -> dict[str, str]:
    """Topic → value of `follower.replication.throttled.replicas`: every destination."""
    return _by_topic((partition, move.destinations - move.sources) for partition, move in moves.items())


def reassigning_brokers(moves: MoveMap) -> list[BrokerId]:
    """The brokers whose rates are limited: all sources and destinations, sorted."""
    return sorted({broker for move in moves.values() for broker in move.sources | move.destinations})


def moving_brokers(replicas: Iterable[tuple[TopicPartition, BrokerId]]) -> list[BrokerId]:
    """The brokers whose replicas change their log directory, sorted."""
    return sorted({broker for _, broker in replicas})


# ---- the tool of Kafka 0.10.1 to 2.5 ----


def assign_throttled_replicas(
    existing: Replicas, proposed: Replicas, topic_configs: Mapping[str, Config]
) -> ConfigChanges:
    """Throttled replicas of every topic in the proposal; those of a partition that gains no replica are left out.

    Args:
        existing: replicas before the reassignment, of all proposed partitions.
        proposed: target lists.
        topic_configs: overrides as they are; a missing topic has none.

    Raises:
        InvalidMetadataError: a proposed partition has no existing replicas.
    """
    missing = sorted(proposed.keys() - existing.keys())
    if missing:
        shown = ", ".join(map(str, missing[:10]))
        raise InvalidMetadataError(
            f"{counted(len(missing), 'partition')} cannot be throttled: expected existing replicas of {shown}"
        )
    topics: dict[str, Config] = {}
    for topic in dict.fromkeys(partition.topic for partition in proposed):
        added = {
            partition: tuple(dict.fromkeys(broker for broker in targets if broker not in existing[partition]))
            for partition, targets in proposed.items()
            if partition.topic == topic
        }
        before = {partition: replicas for partition, replicas in existing.items() if added.get(partition)}
        topics[topic] = {
            **topic_configs.get(topic, {}),
            LEADER_REPLICAS: _listed(before),
            FOLLOWER_REPLICAS: _listed(added),
        }
    return ConfigChanges(topics, {})


def limit_brokers(
    existing: Replicas, proposed: Replicas, broker_configs: Mapping[BrokerId, Config], throttle: int
) -> ConfigChanges:
    """Rates, in bytes per second, of every broker that holds or gets a replica of a proposed topic; negative: none.

    Args:
        existing: replicas of every partition of the proposed topics as they are.
        proposed: replicas as they shall be.
        broker_configs: broker → its dynamic config.
        throttle: bytes per second and broker.
    """
    if throttle < 0:
        return ConfigChanges({}, {})
    topics = {partition.topic for partition in proposed}
    before = [replicas for partition, replicas in existing.items() if partition.topic in topics]
    brokers = dict.fromkeys(broker for replicas in (*before, *proposed.values()) for broker in replicas)
    rates = {LEADER_RATE: str(throttle), FOLLOWER_RATE: str(throttle)}
    return ConfigChanges({}, {broker: {**broker_configs.get(broker, {}), **rates} for broker in brokers})


def remove_throttles(
    brokers: Iterable[BrokerId],
    status: Mapping[TopicPartition, str],
    topic_configs: Mapping[str, Config],
    broker_configs: Mapping[BrokerId, Config],
) -> ConfigChanges:
    """What is written once every partition is `COMPLETED`: limits of all brokers go, as do the moved topics' lists.

    An entity without a throttle is not written; while a partition is not completed, nothing is.

    Args:
        brokers: the ids of all brokers.
        status: partition → state of its reassignment, by the tool's names.
        topic_configs: topic → its overrides.
        broker_configs: broker → its dynamic config.
    """
    if any(each != COMPLETED for each in status.values()):
        return ConfigChanges({}, {})
    topics = dict.fromkeys(partition.topic for partition in status)
    return ConfigChanges(
        _without(topics, topic_configs, (LEADER_REPLICAS, FOLLOWER_REPLICAS)),
        _without(brokers, broker_configs, (LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE)),
    )


def _without(
    entities: Iterable[Entity], configs: Mapping[Entity, Config], keys: Collection[str]
) -> dict[Entity, Config]:
    throttled = (entity for entity in entities if any(key in configs.get(entity, {}) for key in keys))
    return {entity: {key: value for key, value in configs[entity].items() if key not in keys} for entity in throttled}


def _by_topic(replicas: Iterable[tuple[TopicPartition, Collection[BrokerId]]]) -> dict[str, str]:
    """Sorted by partition and broker, as numbers (Kafka sorts the texts; no reader cares)."""
    rows: dict[str, list[tuple[int, BrokerId]]] = {}
    for partition, brokers in replicas:
        rows.setdefault(partition.topic, []).extend((partition.partition, broker) for broker in brokers)
    return {topic: ",".join(f"{number}:{broker}" for number, broker in sorted(pairs)) for topic, pairs in rows.items()}


def _listed(replicas: Replicas) -> str:
    return ",".join(f"{partition.partition}:{broker}" for partition, brokers in replicas.items() for broker in brokers)
