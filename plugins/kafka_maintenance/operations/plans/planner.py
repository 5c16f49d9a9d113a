"""From what was seen of a cluster to the planner and back: its state as arrays, its plan as waves of target lists.

Source: docs/planning.md.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, NamedTuple

from msgspec import structs

from controller_core.model.dialect import Dialect
from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.model.words import counted
from controller_core.plans.kinds import Refused
from controller_core.plans.observation import Observation
from controller_core.plans.plan import LeftOut, Plan
from controller_core.plans.request_znodes import CreateReassignPartitions, Target
from kafka_maintenance.operations.errors import BadInputError, RefusedError, listed
from kafka_maintenance.operations.plans.proof import Proof, proof_of
from kafka_maintenance.operations.plans.seen import Seen
from kafka_maintenance.operations.plans.sizes import Sizes
from spark_jobs.planner.errors import ImpossibleGoalError, InvalidStateError, PlanRejectedError
from spark_jobs.planner.goals import Goals
from spark_jobs.planner.model import ClusterState
from spark_jobs.planner.movable import unmovable
from spark_jobs.planner.planning import optimal_plan
from spark_jobs.planner.predict import given_moves, moves_of, predict_plan
from spark_jobs.planner.prediction import require_possible, require_safe
from spark_jobs.planner.result import ReassignmentPlan
from spark_jobs.planner.waves import GivenLists, Limits, Schedule, schedule


class Proposal(NamedTuple):
    """What the planner proposes: waves of targets, the proof, what it could not touch, its figures, and why each moves."""

    waves: tuple[tuple[Target, ...], ...]
    proof: Proof
    left_out: tuple[LeftOut, ...]
    remarks: tuple[str, ...]
    why: Mapping[TopicPartition, str]


def propose(
    observed: Observation, goals: Goals, limits: Limits | None = None, *, dialect: Dialect, sizes: Sizes | None = None
) -> Proposal | None:
    """The moves that reach `goals`, in waves under `limits`, both with their proof; None when nothing has to move.

    Partitions that cannot be moved now (no leader to copy from, a reassignment running, a topic queued for deletion) are
    left out with the reason; all others count. `sizes` are the bytes of a replica of each partition, where known. The
    waves have been run through the rules of a controller of `dialect`.

    Args:
        observed: the cluster as it was read.
        goals: what is to be reached.
        limits: of one wave; None: none.
        dialect: of the controller that carries it out.
        sizes: bytes of a replica of each partition; None: unknown.

    Raises:
        RefusedError: no plan meets the goals, every chosen partition is left out, or one on a broker to be emptied where nothing else moves, the metadata cannot be planned on (some brokers have a rack and others none,
            and the goals do not ignore racks), or the controller's rules say that a
            wave would cost a partition its in-sync majority or not fit into a znode.
        BadInputError: `sizes` lack a partition, or the goals name a broker that there is not.
    """
    left_out = {
        partition: reason
        for partition in sorted(observed.assignments)
        if (reason := _unmovable(partition, observed)) is not None
    }
    movable = [partition for partition in sorted(observed.assignments) if partition not in left_out]
    kept = {
        partition: f"{partition} {reason}"
        for partition, reason in left_out.items()
        if goals.chooses(partition.topic) and partition.topic not in observed.queued_topics
    }
    if kept and not any(goals.chooses(partition.topic) for partition in movable):
        raise RefusedError(
            f"no reassignment planned: a partition of the chosen topics that can be moved now expected, none of {len(kept)} found: "
            f"{listed(list(kept.values()))}; plan again when that is over"
        )
    if not movable or not observed.brokers:
        return None
    try:
        state = _state(movable, observed, sizes, ignore_racks=goals.ignore_racks)
    except InvalidStateError as error:
        raise RefusedError(f"no reassignment planned: {error}") from error
    try:
        plan = optimal_plan(state, goals)
        waves = schedule(plan, limits)
        predicted = require_safe(predict_plan(state, moves_of(waves), dialect))
    except InvalidStateError as error:  # the goals name a broker that there is not
        raise BadInputError(f"no reassignment planned: {error}") from error
    except (ImpossibleGoalError, PlanRejectedError) as error:
        raise RefusedError(f"no reassignment planned: {error}") from error
    if not len(plan.changed):
        leaving = goals.drain | goals.replace.keys()
        _require_emptied([why for each, why in kept.items() if leaving & {*observed.assignments[each].replicas}])
        return None
    curve = [plan.curve_text] if plan.curve else []
    return Proposal(
        waves=_targets(waves, state),
        proof=proof_of(plan),
        left_out=tuple(LeftOut(str(partition), reason) for partition, reason in left_out.items()),
        remarks=(*_remarks(plan), *_wave_remarks(waves), *curve, *plan.remarks, predicted.text),
        why={
            _target(row).partition: reason
            for row, reason in zip(plan.reassignment_json()["partitions"], plan.reasons(), strict=True)
        },
    )


def _require_emptied(held: Sequence[str]) -> None:
    """Refuses to call it nothing to do while brokers that shall be emptied hold partitions that are left out."""
    if held:
        raise RefusedError(
            f"no reassignment planned: nothing on the brokers to be emptied expected once nothing else has to move, found {listed(held)}; "
            "plan again when that is over"
        )


class Cut(NamedTuple):
    """Given targets in waves, and what is said of these."""

    waves: tuple[tuple[Target, ...], ...]
    remarks: tuple[str, ...]


def cut(observed: Observation, targets: Sequence[Target], limits: Limits, sizes: Sizes | None) -> Cut:
    """Targets that somebody else chose, in waves under `limits`; a partition that gains several replicas takes steps.

    Every target is one that may be asked for (`maintenance.target_refusals`).

    Args:
        observed: the cluster as it was read.
        targets: one per partition.
        limits: of one wave.
        sizes: bytes of a replica of each partition; None: unknown.

    Raises:
        RefusedError: a limit that no wave keeps to.
        BadInputError: `sizes` lack a partition.
    """
    state = _state(sorted(target.partition for target in targets), observed, sizes, ignore_racks=True)
    ((rows, lists),) = given_moves(state, _pairs([targets]))
    try:
        waves = schedule(GivenLists.of(state, rows, lists), limits)
    except ImpossibleGoalError as error:
        raise RefusedError(f"no reassignment planned: {error}") from error
    return Cut(_targets(waves, state), tuple(_wave_remarks(waves)))


def with_prediction(made: Plan | Refused, seen: Seen) -> Plan | Refused:
    """A plan of targets that somebody else chose, with what the controller makes of them: a sentence or two for the approver.

    A wave of the text is one of the steps. Every target is one that may be asked for (`maintenance.target_refusals`). That
    a partition keeps no in-sync majority while it moves is said, not refused: whoever chose the targets may want it so.

    Raises:
        RefusedError: a znode would outgrow ZooKeeper's limit, or the controller would refuse.
    """
    if isinstance(made, Refused) or not made.steps:
        return made
    observed = seen.observed
    steps = [effect.targets for effect in made.effects if isinstance(effect, CreateReassignPartitions)]
    topics = {target.partition.topic for targets in steps for target in targets}
    there = [
        each for each in sorted(observed.assignments) if each.topic in topics and _unmovable(each, observed) is None
    ]
    state = _state(there, observed, None, ignore_racks=True)
    try:
        predicted = require_possible(predict_plan(state, given_moves(state, _pairs(steps)), seen.dialect))
    except PlanRejectedError as error:
        raise RefusedError(f"no reassignment planned: {error}") from error
    return structs.replace(made, risks=(predicted.text, *made.risks))


def _remarks(plan: ReassignmentPlan) -> Iterator[str]:
    proof = "proven minimal" if plan.gap == 0 else f"at most {plan.gap} more than the minimum"
    yield f"{plan.moves} replicas are copied: {proof} (certified lower bound {plan.moves_bound})."
    yield from plan.balance_texts()


def _wave_remarks(waves: Schedule) -> Iterator[str]:
    least = "proven fewest" if waves.gap == 0 else f"at most {waves.gap} more than the fewest"
    yield f"{counted(len(waves.waves), 'wave')}: {least} ({waves.bound_reason})."
    if waves.oversized:
        yield (
            f"{counted(len(waves.oversized), 'partition', 'are')} larger than the {waves.limits.broker_bytes_max} bytes that a broker may "
            f"copy in a wave: {listed(waves.oversized)}. In theirs it copies nothing else, and still more than that."
        )
    if waves.seconds_estimated is not None:
        yield f"They take about {waves.seconds_estimated:.0f} s at {waves.limits.bandwidth} bytes per second and broker."
    throttles = [found for wave in waves.waves if (found := waves.throttle(wave)) is not None]
    if throttles:
        yield (
            f"To finish each in {waves.limits.window_s} s a broker copies up to {max(throttles)} bytes per second: "
            "throttle no lower."
        )


def _pairs(waves: Sequence[Sequence[Target]]) -> Iterator[list[tuple[TopicPartition, tuple[BrokerId, ...]]]]:
    for targets in waves:
        yield [(each.partition, each.replicas) for each in targets]


def _targets(waves: Schedule, state: ClusterState) -> tuple[tuple[Target, ...], ...]:
    return tuple(tuple(map(_target, document["partitions"])) for document in waves.to_json(state))


def _target(row: Mapping[str, Any]) -> Target:
    return Target(row["topic"], row["partition"], tuple(map(BrokerId, row["replicas"])))


def _unmovable(partition: TopicPartition, observed: Observation) -> str | None:
    state = observed.states.get(partition)
    return unmovable(
        topic=partition.topic,
        is_queued=partition.topic in observed.queued_topics,
        is_being_reassigned=observed.assignments[partition].is_being_reassigned,
        replicas=observed.assignments[partition].replicas,
        leader=None if state is None else state.leader,
        isr=() if state is None else state.isr,
        live=observed.brokers.keys(),
    )


def _state(
    partitions: list[TopicPartition], observed: Observation, sizes: Sizes | None, *, ignore_racks: bool
) -> ClusterState:
    """The planner's arrays; racks play no part where the targets are given."""
    missing = [] if sizes is None else [partition for partition in partitions if partition not in sizes]
    if missing:
        raise BadInputError(
            f"no reassignment planned: the size of each of {counted(len(partitions), 'partition')} expected, none found of "
            f"{listed(missing)}; read the sizes again, or plan without them"
        )
    replicas = [observed.assignments[partition].replicas for partition in partitions]
    isr = [observed.states[partition].isr for partition in partitions]
    brokers = sorted(observed.brokers)
    racks = [observed.brokers[broker].rack for broker in brokers]
    return ClusterState.from_columns(
        broker_ids=brokers,
        racks=racks,
        topics=[partition.topic for partition in partitions],
        partitions=[partition.partition for partition in partitions],
        replica_offsets=[0, *accumulate(map(len, replicas))],
        replica_ids=[broker for each in replicas for broker in each],
        leaders=[observed.states[partition].leader for partition in partitions],
        sizes=None if sizes is None else [sizes[partition] for partition in partitions],
        isr_offsets=[0, *accumulate(map(len, isr))],
        isr_ids=[broker for each in isr for broker in each],
        ignore_racks=ignore_racks,
    )
