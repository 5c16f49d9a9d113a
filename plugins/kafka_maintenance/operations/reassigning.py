"""From what was seen of a cluster to the planner and back: its state as arrays, its plan as waves of target lists.

Source: planner-design §2; docs/planning.md.
"""

from collections.abc import Mapping
from itertools import accumulate
from typing import Any, NamedTuple

from controller_core.model import NO_LEADER, BrokerId, TopicPartition
from controller_core.observation import Observation
from controller_core.plan import LeftOut
from controller_core.requests import Target
from kafka_maintenance.operations.errors import RefusedError
from spark_jobs.planner.errors import ImpossibleGoalError, InvalidStateError
from spark_jobs.planner.goals import Goals
from spark_jobs.planner.model import ClusterState
from spark_jobs.planner.planning import plan_reassignment


class Proposal(NamedTuple):
    """What the planner proposes: waves of targets, the proof, what it could not touch, and its figures as text."""

    waves: tuple[tuple[Target, ...], ...]
    certificate: Mapping[str, Any]
    left_out: tuple[LeftOut, ...]
    remarks: tuple[str, ...]


def propose(observed: Observation, goals: Goals) -> Proposal | None:
    """The moves that reach `goals`, proven minimal or with their gap; None when nothing has to move.

    Partitions that cannot be moved now (no leader to copy from, a reassignment running, a topic queued for deletion) are
    left out with the reason; all others count.

    Raises:
        RefusedError: no plan meets the goals, or the metadata cannot be planned on.
    """
    left_out = {
        partition: reason
        for partition in sorted(observed.assignments)
        if (reason := _unmovable(partition, observed)) is not None
    }
    movable = [partition for partition in sorted(observed.assignments) if partition not in left_out]
    if not movable or not observed.brokers:
        return None
    try:
        plan = plan_reassignment(_state(movable, observed), goals)
    except (ImpossibleGoalError, InvalidStateError) as error:
        raise RefusedError(f"no reassignment planned: {error}") from error
    document = plan.reassignment_json()
    targets = tuple(
        Target(TopicPartition(row["topic"], row["partition"]), tuple(map(BrokerId, row["replicas"])))
        for row in document["partitions"]
    )
    if not targets:
        return None
    proof = "proven minimal" if plan.gap == 0 else f"at most {plan.gap} more than the minimum"
    remarks = (
        f"{plan.moves} replicas are copied: {proof} (certified lower bound {plan.moves_bound}).",
        f"{plan.leader_changes} partitions get another preferred leader.",
    )
    return Proposal(
        waves=(targets,),
        certificate=plan.certificate_json(),
        left_out=tuple(LeftOut(str(partition), reason) for partition, reason in left_out.items()),
        remarks=remarks,
    )


def _unmovable(partition: TopicPartition, observed: Observation) -> str | None:
    state = observed.states.get(partition)
    if partition.topic in observed.queued_topics:
        return "its topic is queued for deletion"
    if observed.assignments[partition].is_being_reassigned:
        return "is being reassigned"
    if state is None or state.leader == NO_LEADER or not set(state.isr) & observed.brokers.keys():
        return "has no leader to copy from"
    return None


def _state(partitions: list[TopicPartition], observed: Observation) -> ClusterState:
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
        isr_offsets=[0, *accumulate(map(len, isr))],
        isr_ids=[broker for each in isr for broker in each],
        ignore_racks=None in racks,
    )
