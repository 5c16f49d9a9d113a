"""Reassignments, wave by wave, with every target checked: the controller does not check them.

Source: Kafka 3.9 `ReassignPartitionsCommand` and `KafkaController.processZkPartitionReassignment`; docs/operations.md, "The plan".
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from typing import Final

from controller_core.model.partitions import BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition, is_topic_name
from controller_core.model.words import counted
from controller_core.plans.checks import Unmet, unmet
from controller_core.plans.conditions import (
    AssignedTo,
    BrokerInRack,
    CaughtUp,
    Condition,
    RequestAbsent,
    TopicCreatedAt,
    ZooKeeperControllerRules,
)
from controller_core.plans.headroom import Headroom, band_of
from controller_core.plans.kinds.common import KindRecord, Origin, Refused, broker_list, cluster_conditions, same_topics
from controller_core.plans.observation import Observation
from controller_core.plans.plan import LeftOut, Plan, PlanKind, PlanStep, Rollback
from controller_core.plans.request_znodes import CreateReassignPartitions, Target, target_batches
from controller_core.plans.rules import GO_ON, Throttle
from controller_core.znodes.paths import REASSIGN_PARTITIONS

REASSIGNMENTS_PER_STEP: Final = 1_000
_Move = tuple[tuple[BrokerId, ...], Target]
"""The replicas that a partition has when its turn comes, and those it shall have."""


def reassignment_plan(
    observed: Observation,
    origin: Origin,
    waves: Sequence[Sequence[Target]],
    *,
    may_change_replication_factor: bool = False,
    left_out: Sequence[LeftOut] = (),
    remarks: Sequence[str] = (),
    why: Mapping[TopicPartition, str] | None = None,
    throttle_bytes_per_s: Throttle | Headroom = None,
    placed_by_rack: bool = False,
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
        throttle_bytes_per_s: how fast a broker may send, and receive, what is copied, a band, or what each can spare; None: as fast as it can.
        placed_by_rack: whether the targets were chosen by the racks of the brokers, which must stay as they are then.
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
        reassignment_step(
            batch,
            {target.partition: ReplicaAssignment(before) for before, target in wave},
            same_topics(observed, (target.partition for target in batch)),
        )
        for wave in moves
        for batch in target_batches([target for _, target in wave], partition_count_max=partition_count_max)
    ]
    all_moves = [move for wave in moves for move in wave]
    brokers = {broker for _, target in all_moves for broker in target.replicas}
    throttle = _throttle(throttle_bytes_per_s, all_moves)
    if isinstance(throttle, Unmet):
        return Refused((throttle,))
    rate, origin_of_throttle = throttle
    reasons_why = why or {}
    return Plan(
        kind=PlanKind.REASSIGN_PARTITIONS,
        cluster=origin.cluster,
        kafka_cluster_id=observed.kafka_cluster_id,
        snapshot=origin.snapshot,
        expectations=(
            *cluster_conditions(observed, brokers),
            *(_same_racks(observed, brokers) if placed_by_rack else ()),
        ),
        steps=tuple(steps),
        predicted=tuple(
            _predicted_move(before, target, observed.states[target.partition], reasons_why.get(target.partition))
            for before, target in all_moves
        ),
        left_out=(*left_out, *(LeftOut(str(each), "has these replicas already") for each in settled)),
        risks=(*origin_of_throttle, *remarks, *_reassignment_risks(all_moves, observed, throttled=rate is not None)),
        rollback=Rollback(
            text="Reassign back to the former lists, in the opposite order of waves; data is copied again.",
            steps=tuple(_back(step) for step in reversed(steps)),
        ),
        rules=replace(GO_ON, throttle_bytes_per_s=rate),
    )


def _same_racks(observed: Observation, brokers: Iterable[BrokerId]) -> Iterator[BrokerInRack]:
    for broker in sorted(brokers):
        if (rack := observed.brokers[broker].rack) is not None:
            yield BrokerInRack(broker=broker, rack=rack)


def cancel_plan(observed: Observation, origin: Origin) -> Plan | Refused:
    """Back to the former replicas with all that the controller moves now, whoever asked for it.

    Kafka takes a new target for a partition that it moves, since 2.4. Nothing is copied, for the former replicas are all there.
    Source: Kafka 3.9 `KafkaController.maybeBuildReassignment`, `updateCurrentReassignment`; KIP-455.

    Args:
        observed: of the whole cluster.
        origin: for which cluster.

    Returns:
        A plan without steps when nothing is moved; `Refused` when no controller is active, nothing can go back, or a request stands that it has not begun.
    """
    moving = {each: lists for each, lists in sorted(observed.assignments.items()) if lists.is_being_reassigned}
    asked = len(observed.reassign_requests)
    reasons = unmet((ZooKeeperControllerRules(),), observed)
    if asked and not moving:
        found = f"a request for {counted(asked, 'partition')} that adds or removes no replicas"
        advice = "Kafka up to 2.3 cannot cancel it: let it finish; a newer one has not heard of it: `plan drain`"
        reasons = (*reasons, Unmet(REASSIGN_PARTITIONS, "a reassignment that Kafka works at", found, advice))
    still = replace(observed, assignments={each: ReplicaAssignment(lists.replicas) for each, lists in moving.items()})
    targets = [Target(*each, lists.origin) for each, lists in moving.items()]
    refused = {each: target_refusals(still, [[each]], may_change_replication_factor=True) for each in targets}
    kept = [each for each in targets if not refused[each]]
    if moving and not kept:
        reasons = (*reasons, *(why for each in refused.values() for why in each))
    if reasons:
        return Refused(reasons)
    steps = tuple(
        reassignment_step(batch, moving, same_topics(observed, (target.partition for target in batch)))
        for batch in target_batches(kept, partition_count_max=REASSIGNMENTS_PER_STEP)
    )
    only_by_brokers = f"{counted(asked, 'partition', 'stand')} in {REASSIGN_PARTITIONS}: only brokers that may be asked take them back."
    return Plan(
        kind=PlanKind.REASSIGN_PARTITIONS,
        cluster=origin.cluster,
        kafka_cluster_id=observed.kafka_cluster_id,
        snapshot=origin.snapshot,
        expectations=cluster_conditions(observed, {broker for each in kept for broker in each.replicas}),
        steps=steps,
        predicted=tuple(_predicted_cancel(each, moving[each.partition], observed) for each in kept),
        left_out=tuple(LeftOut(str(each.partition), "; ".join(map(str, why))) for each, why in refused.items() if why),
        risks=(
            "What was copied so far is lost. Who asked for these moves is not known here: they may ask again.",
            *([only_by_brokers] if asked else []),
        ),
        rollback=Rollback(
            text="Reassign to the same targets again; data is copied anew.",
            steps=tuple(_back(step) for step in reversed(steps)),
        ),
        rules=GO_ON,
    )


def _predicted_cancel(target: Target, lists: ReplicaAssignment, observed: Observation) -> str:
    state = observed.states[target.partition]
    led = f"led by {state.leader} in leader epoch {state.leader_epoch}"
    moving = f"adding {list(lists.adding)}, removing {list(lists.removing)}"
    return f"{target.partition}  {led}, {moving}: back to replicas {list(target.replicas)}"


def _throttle(wanted: Throttle | Headroom, moves: Sequence[_Move]) -> tuple[Throttle, tuple[str, ...]] | Unmet:
    """The throttle, and where it comes from, for the approver; or of which broker that copies nobody said what it can spare."""
    if not isinstance(wanted, Headroom):
        return wanted, ()
    brokers = {broker for before, target in moves for broker in (*before, *target.replicas)}
    if not brokers:
        return None, ()
    if unknown := wanted.unknown(brokers):
        return Unmet(
            "the throttle from headroom",
            f"what each broker of the plan can spare, also {unknown}",
            "nothing said of them",
            "name them, or * for all others",
        )
    narrowest, spare = wanted.narrowest(brokers)
    origin = (
        f"The throttle comes from what the brokers can spare: broker {narrowest} least, {spare.network:,} bytes per second of its "
        f"network and {spare.disk:,} of its disks, of which half counts, since they read what it sends and write what it receives."
    )
    return band_of(spare), (origin,)


def target_refusals(
    observed: Observation, waves: Sequence[Sequence[Target]], *, may_change_replication_factor: bool
) -> tuple[Unmet, ...]:
    """What is wrong with the targets; empty when a controller may be asked for them.

    Source: Kafka 3.9 `KafkaController.processZkPartitionReassignment` checks no target: an empty list deletes the partition's data.
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
    partition, replicas = target.partition, target.replicas
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
    if not is_topic_name(partition.topic):
        yield _bad_target(target, "a topic whose name Kafka allows", repr(partition.topic), "leave it out")
    if partition.topic in observed.queued_topics:
        yield _bad_target(target, "a topic that stays", "one queued for deletion", "leave it out")
    if len(replicas) != len(assignment.replicas) and not may_change_replication_factor:
        yield _bad_target(
            target,
            f"{len(assignment.replicas)} replicas as now",
            f"{len(replicas)}",
            "say that the replication factor may change, or correct the list",
        )
    leader, isr = (None, ()) if state is None else (state.leader, state.isr)
    if not has_source(assignment.replicas, leader, isr, observed.brokers.keys()):
        shown = "no state" if state is None else f"leader {leader}, ISR {list(isr)}"
        advice = "bring a broker of the ISR back first"
        if leader in observed.brokers and leader not in assignment.replicas:
            shown, advice = f"{shown}, replicas {list(assignment.replicas)}", "have one of its replicas elected first"
        yield _bad_target(target, "a leader to copy from", shown, advice)


def has_source(replicas: Collection[int], leader: int | None, isr: Iterable[int], live: AbstractSet[int]) -> bool:
    """Whether new replicas of a partition have a leader to copy from: a replica of it that is up, while one in sync is up.

    Args:
        replicas: its assignment.
        leader: of its state; None without a state.
        isr: likewise.
        live: the registered brokers.
    """
    return leader in live and leader in replicas and not live.isdisjoint(isr)


def _bad_target(target: Target, expected: str, found: str, advice: str) -> Unmet:
    return Unmet(f"target of {target.partition}", expected, found, advice)


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


def reassignment_step(
    batch: tuple[Target, ...], before: Mapping[TopicPartition, ReplicaAssignment], topics: Iterable[TopicCreatedAt]
) -> PlanStep:
    """One reassignment request, from the replica lists `before` to the targets, while the topics are the same ones."""
    absent = RequestAbsent(path=REASSIGN_PARTITIONS)
    expectations: list[Condition] = [absent, *topics]
    # whoever asked for what is taken back may have asked for more in the same znode
    outcomes: list[Condition] = [] if any(before[each.partition].is_being_reassigned for each in batch) else [absent]
    for target in batch:
        partition, replicas = target.partition, target.replicas
        now = before[partition]
        expectations.append(AssignedTo(*partition, replicas=now.replicas, adding=now.adding, removing=now.removing))
        outcomes.append(AssignedTo(*partition, replicas=replicas))
        outcomes.append(CaughtUp(*partition, replicas=replicas))
    return PlanStep(
        effects=(CreateReassignPartitions(targets=batch),), expectations=tuple(expectations), outcomes=tuple(outcomes)
    )


def _back(step: PlanStep) -> PlanStep:
    """The step that undoes a reassignment: what was expected before becomes the target, and the other way round."""
    before = [each for each in step.expectations if isinstance(each, AssignedTo)]
    after = [each for each in step.outcomes if isinstance(each, AssignedTo)]
    topics = [each for each in step.expectations if isinstance(each, TopicCreatedAt)]
    targets = tuple(Target(*each.partition, each.assignment.target) for each in before)
    return reassignment_step(targets, {each.partition: each.assignment for each in after}, topics)


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


def _reassignment_risks(moves: Sequence[_Move], observed: Observation, *, throttled: bool) -> tuple[str, ...]:
    copies = sum(len(set(target.replicas) - set(before)) for before, target in moves)
    final = {target.partition: target.replicas for _, target in moves}
    changed = [each for each, replicas in final.items() if len(replicas) != len(observed.assignments[each].replicas)]
    behind = [each for each in final if set(observed.states[each].isr) != set(observed.assignments[each].replicas)]
    speed = (
        "under the throttle"
        if throttled
        else "without a throttle, as fast as the brokers can: they compete with clients"
    )
    risks = [f"{counted(copies, 'replica', 'are')} copied over the network, {speed}."]
    led = [each for each, replicas in final.items() if replicas[0] != observed.assignments[each].replicas[0]]
    if led:
        risks.append(
            f"{counted(len(led), 'partition', 'get')} another preferred leader, {led[0]} first; where the present leader stays a "
            "replica, the new one takes over at the next preferred election."
        )
    if changed:
        risks.append(f"The replication factor of {counted(len(changed), 'partition')} changes, {changed[0]} first.")
    if behind:
        risks.append(
            f"{counted(len(behind), 'partition', 'are')} under-replicated now, {behind[0]} first: such moves take longer."
        )
    return tuple(risks)


def _changes(step: PlanStep) -> list[Sequence[str]]:
    before = {each.partition: each for each in step.expectations if isinstance(each, AssignedTo)}
    return [
        (str(each.partition), broker_list(before[each.partition].replicas), broker_list(each.replicas))
        for each in step.outcomes
        if isinstance(each, AssignedTo)
    ]


MOVES: Final = KindRecord(
    title="Reassign partitions",
    request=CreateReassignPartitions,
    requests_per_step=1,
    unit=("partition to move", "partitions to move"),
    headings=("step", "partition", "replicas now", "replicas after"),
    changes=_changes,
    step_timeout_s=30 * 24 * 3600.0,
    destroys_data=False,
    counted_by=("partitions", "topics", "brokers", "bytes"),
    not_undone=None,
)
