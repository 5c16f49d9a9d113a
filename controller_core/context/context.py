"""ControllerContext: the cluster as the controller believes it to be, and every question asked of it.

Source: Kafka 3.9 `ControllerContext`. One entry per partition in a persistent map; indexes and
counters follow every change, so that a step costs as much as what it changes.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import chain

from immutables import Map

from controller_core.context.partition_entries import (
    INDEXED_STATES,
    NO_PARTITIONS,
    NO_TOPIC,
    NOTHING,
    PartitionEntry,
    PartitionSet,
    Reindex,
    TopicEntry,
    state_of,
    with_replica_state,
)
from controller_core.model.config import ControllerConfig
from controller_core.model.dialect import Dialect
from controller_core.model.hash_map_order import hash_map_order
from controller_core.model.partitions import (
    EPOCH_DURING_DELETE,
    NO_ASSIGNMENT,
    NO_EPOCH,
    Broker,
    BrokerId,
    LeaderAndIsr,
    PartitionAndReplica,
    ReplicaAssignment,
    TopicPartition,
)
from controller_core.model.states import PartitionState, ReplicaState

_NO_DIRS: frozenset[TopicPartition] = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ControllerContext:
    """What the cluster is; what the controller is doing about it is `engine.turn.UnderWay`.

    Nobody mutates a context; a change gives a new one that shares the rest.

    `brokers` are the registered ones, shutting down or not. `broker_order` says in which order one call handles its
    brokers; where it is empty, or does not name them all, the order is that of Kafka's hash map.
    """

    dialect: Dialect
    config: ControllerConfig
    epoch: int = 0
    epoch_zk_version: int = 0
    active_controller_id: BrokerId | None = None
    brokers: Map[BrokerId, Broker] = field(default_factory=Map)
    shutting_down: frozenset[BrokerId] = frozenset()
    offline_dirs: Map[BrokerId, frozenset[TopicPartition]] = field(default_factory=Map)
    topics: Map[str, TopicEntry] = field(default_factory=Map)
    topic_names: Map[str, str] = field(default_factory=Map)
    partitions: Map[TopicPartition, PartitionEntry] = field(default_factory=Map)
    partitions_being_reassigned: PartitionSet = NO_PARTITIONS
    reassignment_targets: Map[TopicPartition, tuple[BrokerId, ...]] = field(default_factory=Map)
    partitions_in_preferred_election: frozenset[TopicPartition] = frozenset()
    topics_to_be_deleted: frozenset[str] = frozenset()
    topics_with_deletion_started: frozenset[str] = frozenset()
    topics_ineligible_for_deletion: frozenset[str] = frozenset()
    offline_partition_count: int = 0
    preferred_replica_imbalance_count: int = 0
    unclean_election_count: int = 0
    broker_order: tuple[BrokerId, ...] = ()
    # Indexes over `partitions`
    on_broker: Map[BrokerId, PartitionSet] = field(default_factory=Map)
    led_by: Map[BrokerId, PartitionSet] = field(default_factory=Map)
    in_state: Map[PartitionState, PartitionSet] = field(default_factory=Map)
    # Partitions, replicas, assignments

    def entry(self, partition: TopicPartition) -> PartitionEntry:
        """All that is known of `partition`; an empty entry where nothing is."""
        return self.partitions.get(partition, NOTHING)

    def full_assignment(self, partition: TopicPartition) -> ReplicaAssignment:
        """Replicas with those being added and removed; three empty lists where the partition is unknown."""
        return self.partitions.get(partition, NOTHING).assignment or NO_ASSIGNMENT

    def assignment(self, partition: TopicPartition) -> tuple[BrokerId, ...]:
        """Assigned replicas, preferred first; empty where the partition is unknown."""
        return self.full_assignment(partition).replicas

    def leadership(self, partition: TopicPartition) -> LeaderAndIsr | None:
        """Leadership as last written or read; None where there is none."""
        return self.partitions.get(partition, NOTHING).leadership

    def partition_state(self, partition: TopicPartition) -> PartitionState:
        """The partition's state; NonExistent where it was never seen."""
        return self.partitions.get(partition, NOTHING).state or PartitionState.NON_EXISTENT

    def replica_state(self, replica: PartitionAndReplica) -> ReplicaState:
        """The replica's state; NonExistent where it was never seen."""
        return state_of(self.partitions.get(replica.partition, NOTHING).replica_states, replica.replica)

    def all_topics(self) -> Iterator[str]:
        """Names of all topics, in no order."""
        return (name for name, topic in self.topics.items() if topic.known)

    def partitions_for_topic(self, topic: str) -> tuple[TopicPartition, ...]:
        """Partitions with an assignment, by number; empty for an unknown topic."""
        return tuple(TopicPartition(topic, number) for number in self.topics.get(topic, NO_TOPIC).partitions)

    def replicas_for_topic(self, topic: str) -> tuple[PartitionAndReplica, ...]:
        """Assigned replicas of the topic, by partition, in assignment order."""
        return self.replicas_for_partitions(self.partitions_for_topic(topic))

    def replicas_for_partitions(self, partitions: Iterable[TopicPartition]) -> tuple[PartitionAndReplica, ...]:
        """Assigned replicas of the partitions, in assignment order."""
        return tuple(PartitionAndReplica(p, broker) for p in partitions for broker in self.assignment(p))

    def partitions_on_broker(self, broker: BrokerId) -> Iterable[TopicPartition]:
        """Partitions that have the broker among their replicas, in no order."""
        return self.on_broker.get(broker, NO_PARTITIONS).keys()

    def replicas_on_brokers(self, brokers: Iterable[BrokerId]) -> tuple[PartitionAndReplica, ...]:
        """Replicas assigned to the brokers: broker by broker, by partition."""
        return tuple(
            PartitionAndReplica(p, broker)
            for broker in self.in_call_order(brokers)
            for p in sorted(self.partitions_on_broker(broker))
        )

    def in_call_order(self, brokers: Iterable[BrokerId]) -> list[BrokerId]:
        """The brokers in the order in which one call handles them, each once.

        `broker_order` decides where it names them all; else they come as in Kafka's hash map.
        """
        asked = set(brokers)
        if self.broker_order and asked.issubset(self.broker_order):
            return [broker for broker in self.broker_order if broker in asked]
        return hash_map_order(asked, scala_2_13=self.dialect.scala_2_13)

    # Controller and brokers

    @property
    def is_active(self) -> bool:
        """Whether this controller believes to be the active one."""
        return self.active_controller_id == self.config.controller_id

    @property
    def controller_epoch_version(self) -> int | None:
        """The version of `/controller_epoch` that every write is checked against; None in versions that check none."""
        return self.epoch_zk_version if self.dialect.epoch_fencing else None

    @property
    def live_or_shutting_down_broker_ids(self) -> tuple[BrokerId, ...]:
        """Registered brokers, ascending."""
        return tuple(sorted(self.brokers))

    @property
    def live_broker_ids(self) -> tuple[BrokerId, ...]:
        """Registered brokers that are not shutting down, ascending."""
        return tuple(sorted(broker for broker in self.brokers if broker not in self.shutting_down))

    def is_live(self, broker: BrokerId) -> bool:
        """Whether the broker is registered and not shutting down."""
        return broker in self.brokers and broker not in self.shutting_down

    def is_replica_online(
        self, broker: BrokerId, partition: TopicPartition, *, include_shutting_down: bool = False
    ) -> bool:
        """Whether the broker is live and its log directory of the partition is healthy."""
        up = broker in self.brokers and (include_shutting_down or broker not in self.shutting_down)
        return up and (not self.offline_dirs or partition not in self.offline_dirs.get(broker, _NO_DIRS))

    def online_replicas(self, replicas: tuple[BrokerId, ...], partition: TopicPartition) -> tuple[BrokerId, ...]:
        """Those of the replicas that are online (`is_replica_online`), in their order; all of them are the same tuple."""
        brokers, leaving, dirs = self.brokers, self.shutting_down, self.offline_dirs
        online = [broker for broker in replicas if broker in brokers]
        if leaving:
            online = [broker for broker in online if broker not in leaving]
        if dirs:
            online = [broker for broker in online if partition not in dirs.get(broker, _NO_DIRS)]
        return replicas if len(online) == len(replicas) else tuple(online)

    def online_and_offline_replicas(self) -> tuple[list[PartitionAndReplica], list[PartitionAndReplica]]:
        """All assigned replicas, parted by whether they are online; each part by partition, in assignment order."""
        online: list[PartitionAndReplica] = []
        offline: list[PartitionAndReplica] = []
        up = frozenset(self.live_broker_ids)
        dirs = self.offline_dirs
        for partition, entry in sorted(self.partitions.items()):
            for broker in entry.assignment.replicas if entry.assignment else ():
                healthy = broker in up and (not dirs or partition not in dirs.get(broker, _NO_DIRS))
                (online if healthy else offline).append(PartitionAndReplica(partition, broker))
        return online, offline

    # States and leaders

    def partitions_in_states(self, states: Iterable[PartitionState], topic: str | None = None) -> list[TopicPartition]:
        """Partitions in one of the states, sorted: those with an assignment of one topic, or any that were ever seen."""
        wanted = frozenset(states)
        if topic is not None:
            return [p for p in self.partitions_for_topic(topic) if self.partition_state(p) in wanted]
        if wanted <= frozenset(INDEXED_STATES):
            return sorted(chain.from_iterable(self.in_state.get(state, NO_PARTITIONS) for state in wanted))
        return sorted(p for p, entry in self.partitions.items() if entry.state in wanted)

    def replicas_in_state(self, topic: str, state: ReplicaState) -> list[PartitionAndReplica]:
        """Assigned replicas of the topic in that state."""
        return [replica for replica in self.replicas_for_topic(topic) if self.replica_state(replica) is state]

    def are_all_replicas_in_state(self, topic: str, state: ReplicaState) -> bool:
        """Whether every assigned replica of the topic is in that state; true for a topic without replicas."""
        return all(self.replica_state(replica) is state for replica in self.replicas_for_topic(topic))

    def is_any_replica_in_state(self, topic: str, state: ReplicaState) -> bool:
        """Whether an assigned replica of the topic is in that state."""
        return any(self.replica_state(replica) is state for replica in self.replicas_for_topic(topic))

    def leader_epoch(self, partition: TopicPartition) -> int:
        """Leader epoch as StopReplica carries it: -2 for a topic queued for deletion, -1 where there is none."""
        if partition.topic in self.topics_to_be_deleted:
            return EPOCH_DURING_DELETE
        leadership = self.leadership(partition)
        return NO_EPOCH if leadership is None else leadership.leader_epoch

    def partitions_with_leaders(self, *, queued_too: bool = False) -> list[TopicPartition]:
        """Partitions with leadership whose topic is not queued for deletion (or also those), sorted."""
        to_be_deleted = frozenset() if queued_too else self.topics_to_be_deleted
        return sorted(
            p for p, entry in self.partitions.items() if entry.leadership is not None and p.topic not in to_be_deleted
        )

    def partitions_with_offline_leader(self) -> list[TopicPartition]:
        """Partitions whose leader is not online (-1 included), topic not queued for deletion, sorted."""
        dead = [self.led_by[leader] for leader in self.led_by if not self.is_live(leader)]
        found = set(chain.from_iterable(dead))
        for broker, partitions in self.offline_dirs.items():
            found.update(p for p in partitions if p in self.led_by.get(broker, NO_PARTITIONS))
        return sorted(p for p in found if p.topic not in self.topics_to_be_deleted)

    def partitions_led_by(self, brokers: Iterable[BrokerId]) -> list[TopicPartition]:
        """Partitions that one of the brokers leads, online or not, topic not queued for deletion, sorted."""
        led = set(chain.from_iterable(self.led_by.get(broker, NO_PARTITIONS) for broker in brokers))
        return sorted(p for p in led if p.topic not in self.topics_to_be_deleted)

    def partition_leaders_on_broker(self, broker: BrokerId, *, queued_too: bool = False) -> list[TopicPartition]:
        """Partitions that the broker leads and that have more than one replica, topic not queued (or also then), sorted."""
        led = self.led_by.get(broker, NO_PARTITIONS)
        to_be_deleted = frozenset() if queued_too else self.topics_to_be_deleted
        return sorted(p for p in led if p.topic not in to_be_deleted and len(self.assignment(p)) > 1)

    def is_topic_queued_for_deletion(self, topic: str) -> bool:
        """Whether a deletion of the topic was asked for and is not complete."""
        return topic in self.topics_to_be_deleted

    def is_topic_deletion_started(self, topic: str) -> bool:
        """Whether the deletion of the topic has started."""
        return topic in self.topics_with_deletion_started

    def is_topic_eligible_for_deletion(self, topic: str) -> bool:
        """Whether the topic is queued and nothing stands against its deletion."""
        return topic in self.topics_to_be_deleted and topic not in self.topics_ineligible_for_deletion

    def partitions_under_reassignment(self) -> list[TopicPartition]:
        """Partitions being reassigned, in either flow, sorted."""
        return sorted({*self.partitions_being_reassigned, *self.reassignment_targets})

    # Changes

    def with_entry(self, partition: TopicPartition, **fields: object) -> "ControllerContext":
        """The context after one partition's entry changed in the named fields of `PartitionEntry`."""
        return self.with_partitions({partition: self.entry(partition)._replace(**fields)})  # type: ignore[arg-type]  # names and types are PartitionEntry's

    def with_leaderships(
        self,
        leaderships: Mapping[TopicPartition, LeaderAndIsr],
        state: PartitionState | None = None,
        *,
        offline_on: BrokerId | None = None,
    ) -> "ControllerContext":
        """The context after leaderships were read or written: the one way in which a leadership becomes known.

        Args:
            leaderships: of the partitions concerned.
            state: their new state; None: the state stays.
            offline_on: the broker whose replicas of them are Offline now; None: the replicas' states stay.
        """
        changes = {}
        for partition, leadership in leaderships.items():
            assignment, _, before, replicas = self.partitions.get(partition, NOTHING)
            if offline_on is not None:
                replicas = with_replica_state(replicas, offline_on, ReplicaState.OFFLINE)
            changes[partition] = PartitionEntry(assignment, leadership, state or before, replicas)
        return self.with_partitions(changes)

    def with_assignments(self, assignments: Mapping[TopicPartition, ReplicaAssignment]) -> "ControllerContext":
        """The context after assignments were read."""
        return self.with_partitions(
            {p: self.entry(p)._replace(assignment=assignment) for p, assignment in assignments.items()}
        )

    def with_partitions(self, changes: Mapping[TopicPartition, PartitionEntry]) -> "ControllerContext":
        """The context after the entries changed; indexes and both counters follow.

        Costs as much as there are changes.
        """
        if not changes:
            return self
        before = self.partitions
        index = Reindex(
            self.topics,
            self.on_broker,
            self.led_by,
            self.in_state,
            balanced_topics=self.topics_to_be_deleted,
            online_topics=self.topics_with_deletion_started,
            waits_for_adding=self.dialect.imbalance_waits_for_adding,
        )
        for partition, new in changes.items():
            index.change(partition, before.get(partition, NOTHING), new)
        return replace(
            self,
            partitions=before.update(changes),
            topics=index.topics_after(),
            on_broker=index.on_broker.finish(),
            led_by=index.led_by.finish(),
            in_state=index.in_state.finish(),
            offline_partition_count=self.offline_partition_count + index.offline,
            preferred_replica_imbalance_count=self.preferred_replica_imbalance_count + index.imbalanced,
        )

    def queue_topic_deletion(self, topics: Iterable[str]) -> "ControllerContext":
        """Topics join those to be deleted; their imbalanced partitions no longer count. Twice is the same as once."""
        fresh = frozenset(topics) - self.topics_to_be_deleted
        gone = sum(self.imbalanced_partitions(topic) for topic in fresh)
        return replace(
            self,
            topics_to_be_deleted=self.topics_to_be_deleted | fresh,
            preferred_replica_imbalance_count=self.preferred_replica_imbalance_count - gone,
        )

    def begin_topic_deletion(self, topics: Iterable[str]) -> "ControllerContext":
        """Deletion of the topics has started: the offline counter no longer moves for them."""
        return replace(self, topics_with_deletion_started=self.topics_with_deletion_started | frozenset(topics))

    def remove_topic(self, topic: str) -> "ControllerContext":
        """Forgets a topic: its names, assignments and leaderships. States stay, and so does its ineligibility."""
        gone = 0 if topic in self.topics_to_be_deleted else self.imbalanced_partitions(topic)
        queued = replace(
            self, topics_to_be_deleted=self.topics_to_be_deleted | {topic}
        )  # so that it is not counted twice
        partitions = self.partitions_for_topic(topic)
        context = queued.with_partitions(
            {p: self.entry(p)._replace(assignment=None, leadership=None) for p in partitions}
        )
        topic_id = self.topics.get(topic, NO_TOPIC).topic_id
        names = context.topic_names
        return replace(
            context,
            topics=context.topics.delete(topic) if topic in context.topics else context.topics,
            topic_names=names if topic_id is None or topic_id not in names else names.delete(topic_id),
            topics_to_be_deleted=self.topics_to_be_deleted - {topic},
            topics_with_deletion_started=self.topics_with_deletion_started - {topic},
            preferred_replica_imbalance_count=self.preferred_replica_imbalance_count - gone,
        )

    def with_topics(self, topics: Mapping[str, str | None]) -> "ControllerContext":
        """Topics become known, each with its id or None; what was known of them stays."""
        entries = {}
        for name, topic_id in topics.items():
            old = self.topics.get(name, NO_TOPIC)
            entries[name] = old._replace(known=True, topic_id=topic_id or old.topic_id)
        names = {entry.topic_id: name for name, entry in entries.items() if entry.topic_id is not None}
        return replace(self, topics=self.topics.update(entries), topic_names=self.topic_names.update(names))

    def with_brokers(self, brokers: Iterable[Broker]) -> "ControllerContext":
        """Brokers registered, or registered anew."""
        return replace(self, brokers=self.brokers.update({broker.id: broker for broker in brokers}))

    def without_brokers(self, brokers: Iterable[BrokerId]) -> "ControllerContext":
        """Brokers whose registration is gone; where they were shutting down stays known until their failure is handled."""
        gone = frozenset(brokers)
        return replace(self, brokers=Map({b: broker for b, broker in self.brokers.items() if b not in gone}))

    def imbalanced_partitions(self, topic: str) -> int:
        """Partitions of the topic with leadership that is not the preferred one."""
        waits = self.dialect.imbalance_waits_for_adding
        return sum(
            not self.entry(p).has_preferred_leader(waits_for_adding=waits) for p in self.partitions_for_topic(topic)
        )
