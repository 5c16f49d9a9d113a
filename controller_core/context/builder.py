"""A ControllerContext from decoded metadata, with every contradiction named.

What it is built from may come from a snapshot's tables, from ZooKeeper or from a test. The builder trusts nothing:
a row that contradicts itself or another row is left out of the context and reported.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple, ParamSpec

from immutables import Map

from controller_core.context.context import ControllerContext
from controller_core.context.partition_entries import PartitionEntry, ReplicaStates
from controller_core.model.config import ControllerConfig
from controller_core.model.dialect import Dialect
from controller_core.model.errors import InvalidMetadataError
from controller_core.model.gc_pause import collector_paused
from controller_core.model.partitions import Broker, BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controller_core.model.states import PartitionState, ReplicaState

_SHOWN = 5
_Metadata = ParamSpec("_Metadata")


class BadRow(NamedTuple):
    """A row that the context does without: what it is about, what is wrong, what to do."""

    subject: str
    reason: str


class Built(NamedTuple):
    """A context, and the rows that did not get into it."""

    context: ControllerContext
    bad_rows: tuple[BadRow, ...]


def build_leniently(
    *,
    dialect: Dialect,
    brokers: Iterable[Broker],
    assignments: Mapping[TopicPartition, ReplicaAssignment] | Iterable[tuple[TopicPartition, ReplicaAssignment]],
    states: Mapping[TopicPartition, LeaderAndIsr] | Iterable[tuple[TopicPartition, LeaderAndIsr]] = (),
    topic_ids: Mapping[str, str] | None = None,
    topics: Iterable[str] = (),
    topics_to_be_deleted: Iterable[str] = (),
    shutting_down: Iterable[BrokerId] = (),
    offline_dirs: Mapping[BrokerId, Iterable[TopicPartition]] | None = None,
    reassignment_targets: Mapping[TopicPartition, tuple[BrokerId, ...]] | None = None,
    preferred_elections: Iterable[TopicPartition] = (),
    config: ControllerConfig | None = None,
    epoch: int = 0,
    epoch_zk_version: int = 0,
    machines_started: bool = True,
) -> Built:
    """The context that a controller has after it read this metadata; rows that contradict are left out and returned.

    Args:
        dialect: the version of the brokers.
        brokers: the registered ones; an id twice is a bad row.
        assignments: replicas of every partition.
        states: content of the state znodes; a partition without is New.
        topic_ids: topic → id.
        topics: further topics that have no partition.
        topics_to_be_deleted: children of `/admin/delete_topics`.
        shutting_down: brokers in controlled shutdown.
        offline_dirs: broker → partitions on its failed log directories.
        reassignment_targets: content of `/admin/reassign_partitions`.
        preferred_elections: content of `/admin/preferred_replica_election`.
        config: of the controller; by default that of the lowest broker with the version's defaults.
        epoch: controller epoch.
        epoch_zk_version: version of the `/controller_epoch` znode.
        machines_started: whether both state machines have their initial states (as after a failover).
    """
    with collector_paused():
        bad: list[BadRow] = []
        registered = _registered(brokers, bad)
        assigned = _assigned(assignments, bad)
        led = _led(states, assigned, bad)
        elections = frozenset(preferred_elections)
        empty = ControllerContext(
            dialect=dialect,
            config=config or _default_config(dialect, registered),
            epoch=epoch,
            epoch_zk_version=epoch_zk_version,
            brokers=Map(registered),
            shutting_down=frozenset(shutting_down) & registered.keys(),
            offline_dirs=Map({broker: frozenset(gone) for broker, gone in (offline_dirs or {}).items()}),
            reassignment_targets=Map(reassignment_targets or {}),
            partitions_in_preferred_election=elections if dialect.preferred_election_blocks_deletion else frozenset(),
        )
        ids = topic_ids or {}
        names = {partition.topic for partition in assigned} | set(topics) | set(ids)
        context = empty.with_topics({name: ids.get(name) for name in names})
        context = context.queue_topic_deletion(_known(topics_to_be_deleted, names, bad))
        context = context.with_partitions(_entries(context, assigned, led, started=machines_started))
        moving = {p: None for p, a in assigned.items() if a.adding or a.removing}
        context = replace(
            context, active_controller_id=context.config.controller_id, partitions_being_reassigned=Map(moving)
        )
        return Built(context, tuple(bad))


def _strict(build: Callable[_Metadata, Built]) -> Callable[_Metadata, ControllerContext]:
    def build_strictly(*args: _Metadata.args, **metadata: _Metadata.kwargs) -> ControllerContext:
        built = build(*args, **metadata)
        if built.bad_rows:
            shown = "; ".join(f"{row.subject}: {row.reason}" for row in built.bad_rows[:_SHOWN])
            raise InvalidMetadataError(
                f"no context built: {len(built.bad_rows)} row(s) contradict themselves or others, first {shown}; "
                "repair the metadata, or build leniently to leave these rows out"
            )
        return built.context

    return build_strictly


build_context = _strict(build_leniently)
"""As `build_leniently`, but a row that contradicts raises InvalidMetadataError, which names the first few."""


def _default_config(dialect: Dialect, registered: Mapping[BrokerId, Broker]) -> ControllerConfig:
    return ControllerConfig(
        controller_id=min(registered, default=BrokerId(0)),
        unclean_leader_election=dialect.unclean_leader_election_default,
        delete_topic=dialect.delete_topic_default,
    )


def _registered(brokers: Iterable[Broker], bad: list[BadRow]) -> dict[BrokerId, Broker]:
    registered: dict[BrokerId, Broker] = {}
    for broker in brokers:
        if broker.id < 0:
            bad.append(BadRow(f"broker {broker.id}", "has a negative id; only real brokers register"))
        elif broker.id in registered:
            bad.append(BadRow(f"broker {broker.id}", "is listed twice; keep the newer registration"))
        else:
            registered[broker.id] = broker
    return registered


def _assigned(
    assignments: Mapping[TopicPartition, ReplicaAssignment] | Iterable[tuple[TopicPartition, ReplicaAssignment]],
    bad: list[BadRow],
) -> dict[TopicPartition, ReplicaAssignment]:
    rows = assignments.items() if isinstance(assignments, Mapping) else assignments
    shared: dict[ReplicaAssignment, ReplicaAssignment | str] = {}
    found: dict[TopicPartition, ReplicaAssignment] = {}
    for partition, assignment in rows:
        known = shared.get(assignment)
        if known is None:
            known = shared[assignment] = _assignment_fault(assignment) or assignment
        if isinstance(known, str):
            bad.append(BadRow(str(partition), known))
        elif partition in found:
            bad.append(BadRow(str(partition), "is assigned twice; keep what /brokers/topics says"))
        elif partition.partition < 0 or not partition.topic:
            bad.append(BadRow(str(partition), "is no partition: expected a topic name and a number from 0"))
        else:
            found[partition] = known
    return found


def _assignment_fault(assignment: ReplicaAssignment) -> str | None:
    replicas = assignment.replicas
    if not replicas:
        return "has an empty replica list; Kafka's controller breaks on it, see controller_core.controller.reassignment.kip_455"
    if min(replicas) < 0:
        return f"is assigned to a negative broker id in {list(replicas)!r}; write a correct assignment"
    if len(set(replicas)) != len(replicas):
        return f"names a broker twice in {list(replicas)!r}; write a correct assignment"
    stray = {*assignment.adding, *assignment.removing}.difference(replicas)
    if stray:
        return f"adds or removes {sorted(stray)!r}, which are not among its replicas {list(replicas)!r}"
    return None


def _led(
    states: Mapping[TopicPartition, LeaderAndIsr] | Iterable[tuple[TopicPartition, LeaderAndIsr]],
    assigned: Mapping[TopicPartition, ReplicaAssignment],
    bad: list[BadRow],
) -> dict[TopicPartition, LeaderAndIsr]:
    rows = states.items() if isinstance(states, Mapping) else states
    shared: dict[tuple[BrokerId, ...], tuple[BrokerId, ...]] = {}
    found: dict[TopicPartition, LeaderAndIsr] = {}
    for partition, leadership in rows:
        fault = _leadership_fault(leadership, assigned.get(partition), again=partition in found)
        if fault is None:
            isr = shared.setdefault(leadership.isr, leadership.isr)
            found[partition] = leadership if isr is leadership.isr else leadership._replace(isr=isr)
        else:
            bad.append(BadRow(f"state of {partition}", fault))
    return found


def _leadership_fault(leadership: LeaderAndIsr, assignment: ReplicaAssignment | None, *, again: bool) -> str | None:
    """What is wrong with a state; None for one that Kafka writes.

    An ISR may name a broker that is no replica: through Kafka 2.3 a replica that a move took away may stay in it
    (docs/fidelity.md), and no controller looks for that.
    """
    if again:
        return "is given twice; keep the one with the higher znode version"
    if assignment is None:
        return "has no assignment: its topic or partition is missing from /brokers/topics; delete the left-over znode"
    isr = leadership.isr
    if len(set(isr)) != len(isr):
        return f"names a broker twice in its ISR {list(isr)!r}"
    if min(isr, default=0) < 0:
        return f"names a negative broker id in its ISR {list(isr)!r}"
    if leadership.leader_epoch < 0:
        return f"has the negative leader epoch {leadership.leader_epoch}"
    if leadership.leader < -1:
        return f"has the leader {leadership.leader}: expected a broker id, or -1 for none"
    return None


def _known(asked: Iterable[str], names: set[str], bad: list[BadRow]) -> list[str]:
    known = []
    for topic in sorted(asked):
        if topic in names:
            known.append(topic)
        else:
            bad.append(BadRow(f"deletion of {topic!r}", "names a topic that does not exist; the controller drops it"))
    return known


def _entries(
    context: ControllerContext,
    assigned: Mapping[TopicPartition, ReplicaAssignment],
    led: Mapping[TopicPartition, LeaderAndIsr],
    *,
    started: bool,
) -> dict[TopicPartition, PartitionEntry]:
    if not started:
        return {p: PartitionEntry(a, led.get(p)) for p, a in assigned.items()}
    live = frozenset(context.live_broker_ids)
    dirs = context.offline_dirs
    new, online, offline = PartitionState.NEW, PartitionState.ONLINE, PartitionState.OFFLINE
    shared: dict[tuple[BrokerId, ...], ReplicaStates] = {}
    entries = {}
    for partition, assignment in assigned.items():
        leadership = led.get(partition)
        states = shared.get(assignment.replicas)
        if states is None:
            states = shared[assignment.replicas] = _replica_states(context, assignment.replicas, live)
        if dirs:
            states = _without_dirs(context, partition, states)
        if leadership is None:
            state = new
        elif leadership.leader in live and (not dirs or context.is_replica_online(leadership.leader, partition)):
            state = online
        else:
            state = offline
        entries[partition] = PartitionEntry(assignment, leadership, state, states)
    return entries


def _replica_states(
    context: ControllerContext, replicas: tuple[BrokerId, ...], live: frozenset[BrokerId]
) -> ReplicaStates:
    return tuple(
        (broker, ReplicaState.ONLINE if broker in live else _dead_state(context)) for broker in sorted(replicas)
    )


def _without_dirs(context: ControllerContext, partition: TopicPartition, states: ReplicaStates) -> ReplicaStates:
    return tuple(
        (broker, state if context.is_replica_online(broker, partition) else _dead_state(context))
        for broker, state in states
    )


def _dead_state(context: ControllerContext) -> ReplicaState:
    moves = context.dialect.startup_moves_dead_replicas_offline
    return ReplicaState.OFFLINE if moves else ReplicaState.DELETION_INELIGIBLE
