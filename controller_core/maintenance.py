"""The maintenance operations: from what was seen of a cluster to a plan that a person can approve.

Nothing here writes. A plan asks a living controller for work through its request znodes; what the controller does with
them is predicted in words and verified afterwards. What may not be asked for is refused with the reason.
Source: controller behaviour §11, §13, §16.1 to §16.3; layout §7 to §10.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

from controller_core.conditions import (
    AssignedTo,
    BrokersRegistered,
    CaughtUp,
    Condition,
    ControllerIs,
    ElectedAfter,
    InSync,
    KafkaClusterIs,
    LedBy,
    NotificationsGone,
    NotificationsLinger,
    RequestAbsent,
    StateReadable,
    TopicGone,
    TopicIs,
    TopicNotQueued,
    Unmet,
    ZooKeeperControllerRules,
    unmet,
)
from controller_core.model import NO_LEADER, BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controller_core.observation import Notification, Observation
from controller_core.plan import LeftOut, Plan, PlanKind, PlanStep, Rollback, SnapshotReference
from controller_core.requests import (
    CreateDeleteTopic,
    CreatePreferredReplicaElection,
    CreateReassignPartitions,
    DeleteController,
    Target,
    election_batches,
    target_batches,
)
from controller_core.znodes.paths import PREFERRED_REPLICA_ELECTION, REASSIGN_PARTITIONS

ELECTIONS_PER_STEP: Final = 1_000
REASSIGNMENTS_PER_STEP: Final = 1_000
DELETIONS_PER_STEP: Final = 20
INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
LINGER_AGE_MS: Final = 60_000
"""A living controller removes a notification in milliseconds; after a minute it is stuck (behaviour §16.3)."""
BROKER_JSON_WITHOUT_NOTIFICATIONS: Final = 5
"""Registrations of this version mean an inter.broker.protocol.version of 2.7: ISR changes go through the controller."""


class Origin(NamedTuple):
    """Which cluster a plan is for, and the snapshot it was made from; None for a live read."""

    cluster: str
    snapshot: SnapshotReference | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """No plan was made; one reason each."""

    reasons: tuple[Unmet, ...]


# ----------------------------------------------------------------------------------------------------- elections


def plan_elections(
    observed: Observation,
    origin: Origin,
    electable: Sequence[TopicPartition],
    *,
    left_out: Sequence[LeftOut] = (),
    election_count_max: int | None = None,
    partition_count_max: int = ELECTIONS_PER_STEP,
) -> Plan | Refused:
    """Elections that give partitions back to their preferred leaders.

    Args:
        observed: assignments and states of at least the `electable` partitions.
        origin: for which cluster.
        electable: partitions whose preferred replica could lead but does not (`rebalance.leader_imbalance`), the most
            urgent first.
        left_out: imbalanced partitions that cannot be elected, with the reason.
        election_count_max: elections in this plan, the most urgent ones. None: all.
        partition_count_max: elections in one request znode.

    Returns:
        A plan without steps when there is nothing to elect; `Refused` when nobody rules the cluster.
    """
    if reasons := unmet((ZooKeeperControllerRules(),), observed):
        return Refused(reasons)
    ordered = list(dict.fromkeys(electable))
    later = [] if election_count_max is None else ordered[election_count_max:]
    chosen = sorted(ordered[:election_count_max])
    steps = [
        _election_step(batch, observed) for batch in election_batches(chosen, partition_count_max=partition_count_max)
    ]
    over = [LeftOut(str(each), f"over the limit of {election_count_max} elections in one run") for each in later]
    return Plan(
        kind=PlanKind.ELECT_PREFERRED_LEADERS,
        cluster=origin.cluster,
        kafka_cluster_id=observed.kafka_cluster_id,
        snapshot=origin.snapshot,
        expectations=_cluster_conditions(observed, {observed.assignments[each].replicas[0] for each in chosen}),
        steps=tuple(steps),
        predicted=tuple(_predicted_election(each, observed) for each in chosen),
        left_out=(*left_out, *over),
        risks=("Clients of these partitions reconnect to the new leader: a short pause, no data is moved.",),
        rollback=Rollback(
            text="An election to the former leader cannot be asked for: preferred leaders are the first replicas. "
            "Where one must lead again, reassign the partition with that broker first."
        ),
    )


def _election_step(batch: tuple[TopicPartition, ...], observed: Observation) -> PlanStep:
    expectations: list[Condition] = [RequestAbsent(path=PREFERRED_REPLICA_ELECTION)]
    outcomes: list[Condition] = [RequestAbsent(path=PREFERRED_REPLICA_ELECTION)]
    for partition in batch:
        replicas, state = observed.assignments[partition].replicas, observed.states[partition]
        expectations.append(AssignedTo(partition=partition, replicas=replicas))
        expectations.append(InSync(partition=partition, leader=state.leader, isr=tuple(sorted(state.isr))))
        outcomes.append(LedBy(partition=partition, leader=replicas[0]))
    return PlanStep(
        effects=(CreatePreferredReplicaElection(partitions=batch),),
        expectations=tuple(expectations),
        outcomes=tuple(outcomes),
    )


def _predicted_election(partition: TopicPartition, observed: Observation) -> str:
    state = observed.states[partition]
    preferred = observed.assignments[partition].replicas[0]
    return (
        f"{partition}  leader {state.leader} → {preferred}, leader epoch {state.leader_epoch} → {state.leader_epoch + 1}, "
        f"ISR {list(state.isr)} stays"
    )


# -------------------------------------------------------------------------------------------------- reassignment


def plan_reassignment(
    observed: Observation,
    origin: Origin,
    waves: Sequence[Sequence[Target]],
    *,
    may_change_replication_factor: bool = False,
    left_out: Sequence[LeftOut] = (),
    remarks: Sequence[str] = (),
    why: Mapping[TopicPartition, str] | None = None,
    partition_count_max: int = REASSIGNMENTS_PER_STEP,
) -> Plan | Refused:
    """Moves of replicas, wave by wave; the next wave starts when the former one is in sync and done.

    Args:
        observed: assignments and states of at least the partitions of the waves.
        origin: for which cluster.
        waves: target lists; a partition may come again in a later wave. Targets that are there already are left out.
        may_change_replication_factor: whether a target may be longer or shorter than the present list.
        left_out: partitions that the planner could not move, with the reason.
        remarks: what the planner says of its plan, for the approver.
        why: why a partition moves, in words.
        partition_count_max: partitions in one request znode; a longer wave gets more steps.

    Returns:
        A plan, or `Refused` with every target that must not be asked for: the controller does not check them.
    """
    reasons = (
        *unmet((ZooKeeperControllerRules(),), observed),
        *target_refusals(observed, waves, may_change_replication_factor=may_change_replication_factor),
    )
    if reasons:
        return Refused(reasons)
    moves, settled = _moves(waves, observed)
    steps = [
        _reassignment_step(batch, {target.partition: before for before, target in wave})
        for wave in moves
        for batch in target_batches([target for _, target in wave], partition_count_max=partition_count_max)
    ]
    all_moves = [move for wave in moves for move in wave]
    brokers = {broker for _, target in all_moves for broker in target.replicas}
    reasons_why = why or {}
    return Plan(
        kind=PlanKind.REASSIGN_PARTITIONS,
        cluster=origin.cluster,
        kafka_cluster_id=observed.kafka_cluster_id,
        snapshot=origin.snapshot,
        expectations=_cluster_conditions(observed, brokers),
        steps=tuple(steps),
        predicted=tuple(
            _predicted_move(before, target, observed.states[target.partition], reasons_why.get(target.partition))
            for before, target in all_moves
        ),
        left_out=(*left_out, *(LeftOut(str(each), "has these replicas already") for each in settled)),
        risks=(*remarks, *_reassignment_risks(all_moves, observed)),
        rollback=Rollback(
            text="Reassign back to the former lists, in the opposite order of waves; data is copied again.",
            steps=tuple(_back(step) for step in reversed(steps)),
        ),
    )


def target_refusals(
    observed: Observation, waves: Sequence[Sequence[Target]], *, may_change_replication_factor: bool
) -> tuple[Unmet, ...]:
    """What is wrong with the targets; empty when a controller may be asked for them.

    Source: controller behaviour §16.1, rule 3: an empty list deletes the partition's data, and so on.
    """
    found: list[Unmet] = []
    for wave in waves:
        seen: set[TopicPartition] = set()
        for target in wave:
            if target.partition in seen:
                advice = "keep one of them, or put the second into a later wave"
                found.append(_bad_target(target, "one target per partition and wave", "a second one", advice))
            seen.add(target.partition)
    for target in (target for wave in waves for target in wave):
        found += _target_refusals(target, observed, may_change_replication_factor=may_change_replication_factor)
    return tuple(found)


def _target_refusals(target: Target, observed: Observation, *, may_change_replication_factor: bool) -> Iterator[Unmet]:
    partition, replicas = target
    assignment, state = observed.assignments.get(partition), observed.states.get(partition)
    if not replicas:
        yield _bad_target(target, "replicas", "an empty list", "it would delete the partition's data: name the brokers")
        return
    if len(set(replicas)) < len(replicas):
        yield _bad_target(target, "each broker once", f"{list(replicas)}", "remove the repeated broker")
    if unknown := sorted(set(replicas) - observed.brokers.keys()):
        yield _bad_target(target, "registered brokers", f"{unknown}", "start these brokers, or choose others")
    if assignment is None:
        yield _bad_target(target, "a partition of this cluster", "none", "correct the topic or the partition number")
        return
    if assignment.is_being_reassigned:
        moving = f"adding {list(assignment.adding)}, removing {list(assignment.removing)}"
        yield _bad_target(target, "no reassignment running", moving, "wait until it is done")
    if partition.topic in observed.queued_topics:
        yield _bad_target(target, "a topic that stays", "one queued for deletion", "leave it out")
    if len(replicas) != len(assignment.replicas) and not may_change_replication_factor:
        yield _bad_target(
            target,
            f"{len(assignment.replicas)} replicas as now",
            f"{len(replicas)}",
            "say that the replication factor may change, or correct the list",
        )
    if state is None or state.leader == NO_LEADER or not set(state.isr) & observed.brokers.keys():
        shown = "no state" if state is None else f"leader {state.leader}, ISR {list(state.isr)}"
        yield _bad_target(target, "a leader to copy from", shown, "bring a broker of the ISR back first")


def _bad_target(target: Target, expected: str, found: str, advice: str) -> Unmet:
    return Unmet(f"target of {target.partition}", expected, found, advice)


_Move = tuple[tuple[BrokerId, ...], Target]
"""The replicas that a partition has when its turn comes, and those it shall have."""


def _moves(waves: Sequence[Sequence[Target]], observed: Observation) -> tuple[list[list[_Move]], list[TopicPartition]]:
    """The moves of each wave that has some, and the partitions that are where they shall be from the start."""
    now: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    settled: list[TopicPartition] = []
    moves: list[list[_Move]] = []
    for wave in waves:
        moving: list[_Move] = []
        for target in wave:
            before = now.get(target.partition, observed.assignments[target.partition].replicas)
            if before != target.replicas:
                moving.append((before, target))
            elif target.partition not in now:
                settled.append(target.partition)
            now[target.partition] = target.replicas
        moves.append(moving)
    return [wave for wave in moves if wave], settled


def _reassignment_step(batch: tuple[Target, ...], before: Mapping[TopicPartition, tuple[BrokerId, ...]]) -> PlanStep:
    expectations: list[Condition] = [RequestAbsent(path=REASSIGN_PARTITIONS)]
    outcomes: list[Condition] = [RequestAbsent(path=REASSIGN_PARTITIONS)]
    for partition, replicas in batch:
        expectations.append(AssignedTo(partition=partition, replicas=before[partition]))
        outcomes.append(AssignedTo(partition=partition, replicas=replicas))
        outcomes.append(CaughtUp(partition=partition, replicas=replicas))
    return PlanStep(
        effects=(CreateReassignPartitions(targets=batch),), expectations=tuple(expectations), outcomes=tuple(outcomes)
    )


def _back(step: PlanStep) -> PlanStep:
    """The step that undoes a reassignment: what was expected before becomes the target, and the other way round."""
    before = [each for each in step.expectations if isinstance(each, AssignedTo)]
    after = [each for each in step.outcomes if isinstance(each, AssignedTo)]
    absent = RequestAbsent(path=REASSIGN_PARTITIONS)
    return PlanStep(
        effects=(CreateReassignPartitions(targets=tuple(Target(each.partition, each.replicas) for each in before)),),
        expectations=(absent, *after),
        outcomes=(
            absent,
            *(
                condition
                for each in before
                for condition in (each, CaughtUp(partition=each.partition, replicas=each.replicas))
            ),
        ),
    )


def _predicted_move(before: tuple[BrokerId, ...], target: Target, state: LeaderAndIsr, why: str | None) -> str:
    """One line; the leader epoch tells this plan from one for the same move at another time."""
    assignment = ReplicaAssignment(before).reassign_to(target.replicas)
    led = f"led by {state.leader} in leader epoch {state.leader_epoch}"
    parts = [f"{target.partition}  {led}, replicas {list(before)} → {list(target.replicas)}"]
    if assignment.adding:
        parts.append(f"copies to {list(assignment.adding)}")
    if assignment.removing:
        parts.append(f"removes from {list(assignment.removing)}")
    if target.replicas[0] != before[0]:
        parts.append(f"preferred leader {before[0]} → {target.replicas[0]}")
    return ", ".join(parts) + (f"; why: {why}" if why else "")


def _reassignment_risks(moves: Sequence[_Move], observed: Observation) -> tuple[str, ...]:
    copies = sum(len(set(target.replicas) - set(before)) for before, target in moves)
    final = {target.partition: target.replicas for _, target in moves}
    changed = [each for each, replicas in final.items() if len(replicas) != len(observed.assignments[each].replicas)]
    behind = [each for each in final if set(observed.states[each].isr) != set(observed.assignments[each].replicas)]
    risks = [f"{copies} replicas are copied over the network; without a throttle they compete with clients."]
    led = [each for each, replicas in final.items() if replicas[0] != observed.assignments[each].replicas[0]]
    if led:
        risks.append(
            f"{len(led)} partitions get another preferred leader, {led[0]} first; where the present leader stays a "
            "replica, the new one takes over at the next preferred election."
        )
    if changed:
        risks.append(f"The replication factor of {len(changed)} partitions changes, {changed[0]} first.")
    if behind:
        risks.append(f"{len(behind)} partitions are under-replicated now, {behind[0]} first; their move takes longer.")
    return tuple(risks)


# ------------------------------------------------------------------------------------------------------ deletion


def plan_deletions(
    observed: Observation,
    origin: Origin,
    topics: Sequence[str],
    *,
    left_out: Sequence[LeftOut] = (),
    topic_count_max: int = DELETIONS_PER_STEP,
) -> Plan | Refused:
    """Deletion of topics.

    Args:
        observed: identities and assignments of at least these topics.
        origin: for which cluster.
        topics: the eligible ones (`topic_deletion.deletion_eligibility`); the caller asked for them by name.
        left_out: topics asked for that are not eligible, with every reason.
        topic_count_max: topics requested together in one step.

    Returns:
        A plan, or `Refused` when nobody rules the cluster, or a topic does not exist or is one of Kafka's own.
    """
    wanted = sorted(set(topics))
    missing = [
        Unmet(f"topic {topic}", "a topic of this cluster", "none", "correct the name")
        for topic in wanted
        if topic not in observed.topics
    ]
    internal = [
        Unmet(f"topic {topic}", "a topic of applications", "one of Kafka's own", "leave it out: the cluster needs it")
        for topic in wanted
        if topic in INTERNAL_TOPICS
    ]
    reasons = (*unmet((ZooKeeperControllerRules(),), observed), *missing, *internal)
    if reasons:
        return Refused(reasons)
    queued = [LeftOut(topic, "is queued for deletion already") for topic in wanted if topic in observed.queued_topics]
    wanted = [topic for topic in wanted if topic not in observed.queued_topics]
    steps = tuple(
        _deletion_step(wanted[start : start + topic_count_max], observed)
        for start in range(0, len(wanted), topic_count_max)
    )
    return Plan(
        kind=PlanKind.DELETE_TOPICS,
        cluster=origin.cluster,
        kafka_cluster_id=observed.kafka_cluster_id,
        snapshot=origin.snapshot,
        expectations=_cluster_conditions(observed, _replica_brokers(wanted, observed)),
        steps=steps,
        predicted=tuple(_predicted_deletion(topic, observed) for topic in wanted),
        left_out=(*left_out, *queued),
        risks=(
            "The data of these topics is gone for good; what still writes to them gets errors or creates them anew.",
            "With delete.topic.enable=false the controller drops the request and the topic stays.",
        ),
        rollback=Rollback(
            text="None: data cannot be brought back. Name, partitions, replicas and configs can be made again from the "
            "snapshot."
        ),
    )


def _deletion_step(topics: Sequence[str], observed: Observation) -> PlanStep:
    expectations: list[Condition] = []
    outcomes: list[Condition] = []
    for topic in topics:
        identity = observed.topics[topic]
        expectations.append(TopicIs(topic=topic, czxid=identity.czxid, partition_count=identity.partition_count))
        expectations.append(TopicNotQueued(topic=topic))
        outcomes.append(TopicGone(topic=topic, czxid=identity.czxid))
    return PlanStep(
        effects=tuple(CreateDeleteTopic(topic=topic) for topic in topics),
        expectations=tuple(expectations),
        outcomes=tuple(outcomes),
    )


def _replica_brokers(topics: Iterable[str], observed: Observation) -> set[BrokerId]:
    wanted = frozenset(topics)
    return {
        broker
        for partition, assignment in observed.assignments.items()
        if partition.topic in wanted
        for broker in assignment.replicas
    }


def _predicted_deletion(topic: str, observed: Observation) -> str:
    replicas = [
        len(assignment.replicas) for partition, assignment in observed.assignments.items() if partition.topic == topic
    ]
    brokers = sorted(_replica_brokers([topic], observed))
    return f"{topic}  {len(replicas)} partitions, {sum(replicas)} replicas on brokers {brokers} are deleted"


# --------------------------------------------------------------------------------------------------------- drain


def plan_drain(
    observed: Observation,
    origin: Origin,
    *,
    now_ms: int,
    linger_age_ms: int = LINGER_AGE_MS,
    failover_deletes_notifications: bool = True,
) -> Plan | Refused:
    """A forced re-election, where ISR-change notifications linger beside a controller that does not take them.

    Only the new controller's failover drains them safely: it deletes them before it reads every partition's state. A
    tool that deleted them beside a living controller would lose updates (controller behaviour §16.3).

    Args:
        observed: office, epoch and notifications.
        origin: for which cluster.
        now_ms: milliseconds since 1970-01-01 UTC, by a clock close to ZooKeeper's.
        linger_age_ms: from which age on a notification lingers.
        failover_deletes_notifications: false up to Kafka 1.0, where a re-election drains nothing by itself.

    Returns:
        A plan without steps when nothing lingers; `Refused` when nobody is in office or it would not help.
    """
    lingering = lingering_notifications(observed, now_ms=now_ms, linger_age_ms=linger_age_ms)
    reasons = unmet((ZooKeeperControllerRules(),), observed)
    if not failover_deletes_notifications and lingering:
        advice = "the next ISR change makes the controller take them; if the brokers are newer, name their version"
        reasons = (*reasons, Unmet("/isr_change_notification", "Kafka 1.1 or newer", "an older one", advice))
    if reasons:
        return Refused(reasons)
    steps = (_drain_step(lingering, observed),) if lingering else ()
    fresh = [each for each in observed.notifications if each not in lingering]
    return Plan(
        kind=PlanKind.DRAIN_ISR_NOTIFICATIONS,
        cluster=origin.cluster,
        kafka_cluster_id=observed.kafka_cluster_id,
        snapshot=origin.snapshot,
        expectations=_cluster_conditions(observed, ()),
        steps=steps,
        predicted=tuple(_predicted_drain(lingering, observed)) if lingering else (),
        left_out=tuple(LeftOut(each.name, f"younger than {linger_age_ms // 1000} s") for each in fresh),
        risks=(
            "The new controller reads the whole tree again: seconds on a small cluster, minutes on a very large one.",
            "No leader is elected in that time. Requests that were pending are taken up again.",
        ),
        rollback=Rollback(text="None needed: brokers elect a controller among themselves, no data is touched."),
    )


def lingering_notifications(
    observed: Observation, *, now_ms: int, linger_age_ms: int = LINGER_AGE_MS
) -> tuple[Notification, ...]:
    """The notifications that are at least `linger_age_ms` old, by name."""
    return tuple(sorted(each for each in observed.notifications if now_ms - each.created_ms >= linger_age_ms))


def makes_no_notifications(observed: Observation) -> bool:
    """Whether every broker is registered with an inter.broker.protocol.version that never writes notifications.

    Registrations of version 5 begin with 2.7-IV0, AlterPartition with 2.7-IV2; only development builds lie between.
    """
    versions = observed.broker_json_versions.values()
    return bool(versions) and min(versions) >= BROKER_JSON_WITHOUT_NOTIFICATIONS


def _drain_step(lingering: Sequence[Notification], observed: Observation) -> PlanStep:
    office, epoch, epoch_version = observed.office, observed.controller_epoch, observed.controller_epoch_version
    assert office is not None, "refused before"
    epoch, epoch_version = epoch or 0, epoch_version or 0
    names = tuple(each.name for each in lingering)
    named = sorted({partition for each in lingering for partition in each.partitions})
    return PlanStep(
        effects=(
            DeleteController(controller_id=office.controller_id, version=office.version, epoch_version=epoch_version),
        ),
        expectations=(
            ControllerIs(
                controller_id=office.controller_id, czxid=office.czxid, epoch=epoch, epoch_version=epoch_version
            ),
            NotificationsLinger(names=names),
        ),
        outcomes=(
            ElectedAfter(epoch=epoch),
            NotificationsGone(names=names),
            *(StateReadable(partition=partition) for partition in named),
        ),
    )


def _predicted_drain(lingering: Sequence[Notification], observed: Observation) -> Iterator[str]:
    office, epoch = observed.office, observed.controller_epoch
    assert office is not None, "refused before"
    named = sorted({partition for each in lingering for partition in each.partitions})
    yield f"/controller  broker {office.controller_id} leaves office, the brokers elect again"
    yield f"/controller_epoch  {epoch} → at least {(epoch or 0) + 1}"
    yield f"/isr_change_notification  {len(lingering)} lingering notifications are deleted by the new controller"
    yield f"metadata of {len(named)} partitions reaches every broker again: {', '.join(map(str, named[:20]))}"


# ----------------------------------------------------------------------------------------------------- all plans


def _cluster_conditions(observed: Observation, brokers: Iterable[BrokerId]) -> tuple[Condition, ...]:
    named = tuple(sorted(set(brokers)))
    identity: tuple[Condition, ...] = (
        () if observed.kafka_cluster_id is None else (KafkaClusterIs(cluster_id=observed.kafka_cluster_id),)
    )
    return (*identity, ZooKeeperControllerRules(), *((BrokersRegistered(brokers=named),) if named else ()))
