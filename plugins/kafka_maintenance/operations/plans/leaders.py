"""Plans of leader moves: brokers or racks that shall lead nothing, leaders spread by bytes, or single partitions with their new leaders.

Always from a live read: an ISR of a snapshot is no promise. Making one writes nothing to a cluster.
"""

import math
from collections.abc import Collection, Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.model.words import counted
from controller_core.plans.kinds import (
    Origin,
    Refused,
    brokers_of_racks,
    choose_leader_moves,
    leader_moves_plan,
    may_lead,
)
from controller_core.plans.observation import Observation
from controller_core.plans.plan import LeftOut
from controller_core.plans.request_znodes import LeaderMove
from controller_core.ports.zookeeper import ZooKeeper
from kafka_maintenance.operations.cluster.observe import observe, session
from kafka_maintenance.operations.errors import BadInputError, RefusedError, listed
from kafka_maintenance.operations.plans.seen import matches, require_topics
from kafka_maintenance.operations.plans.sizes import Sizes
from kafka_maintenance.operations.plans.store import StoredPlan, store_plan
from spark_jobs.planner.errors import SolverFailedError
from spark_jobs.planner.spread_leaders import CONSIDERED_MAX, Led, bytes_led, spread_leaders


class ByBytes(NamedTuple):
    """Leaders are spread so that each broker leads at most (1 + tolerance) of the mean bytes."""

    tolerance: float
    sizes: Sizes


def plan_leader_moves(
    store: ObjectStore,
    cluster: str,
    *,
    zookeeper: ClusterAddress | ZooKeeper,
    brokers: Collection[BrokerId] = (),
    racks: Collection[str] = (),
    moves: Sequence[LeaderMove] = (),
    by_bytes: ByBytes | None = None,
    topics: Sequence[str] = (),
    now: datetime | None = None,
) -> StoredPlan | None:
    """The fewest moves after which these brokers, and those of these racks, lead nothing that another can lead, or leaders are spread by bytes.

    Args:
        store: where the plan goes.
        cluster: its name in the store.
        zookeeper: the cluster's address or a session.
        brokers: those that shall lead nothing.
        racks: those whose brokers shall lead nothing.
        moves: single partitions with their new leaders, instead of brokers and racks.
        by_bytes: spread the leaders, instead of brokers, racks and single partitions.
        topics: only topics that match one of these shell patterns; empty: all. Not for single partitions.
        now: the time, for the folder; None: the clock's.

    Returns:
        The stored plan, or None when there is nothing to move.

    Raises:
        RefusedError: a new leader is not in sync, no controller is active, or no spread was found; with the reasons.
        BadInputError: nothing was named or too much, a broker, rack or partition does not exist, no topic matches a pattern, the size of a
            partition is not known, or there is no Kafka tree.
    """
    with session(zookeeper) as opened_session:
        observed = observe(opened_session)
    require_topics(cluster, observed, topics)
    left_out: tuple[LeftOut, ...] = ()
    remarks: tuple[str, ...] = ()
    if by_bytes is not None:
        if brokers or racks or moves:
            raise BadInputError(
                f"nothing planned for {cluster!r}: leaders spread by bytes alone expected, found brokers, racks or single partitions beside it; "
                "make two plans"
            )
        moves, remarks = _spread(cluster, observed, by_bytes, topics)
    elif moves:
        _require_known(cluster, observed, moves, beside=[*brokers, *racks, *topics])
    else:
        avoided = _avoided(cluster, observed, brokers, racks)
        chosen = choose_leader_moves(observed, avoided)
        moves = [move for move in chosen.moves if matches(move.partition.topic, topics)]
        left_out = chosen.left_out
    made = leader_moves_plan(observed, Origin(cluster), moves, left_out=left_out, remarks=remarks)
    if isinstance(made, Refused):
        raise RefusedError(f"nothing planned for {cluster!r}: {listed(made.reasons)}")
    if not made.steps:
        return None
    day = (now or datetime.now(UTC)).astimezone(UTC).date()
    return store_plan(store, made, f"v1/cluster={cluster}/date={day}/live/")


def _spread(
    cluster: str, observed: Observation, by_bytes: ByBytes, topics: Sequence[str]
) -> tuple[list[LeaderMove], tuple[str, ...]]:
    """The fewest moves that spread the leaders, and what comes of them in words."""
    states = {each: state for each, state in sorted(observed.states.items()) if state.leader in observed.brokers}
    unknown = [str(each) for each in states if each not in by_bytes.sizes]
    if unknown or not 0 <= by_bytes.tolerance < math.inf:  # no number is neither
        found = f"none of {listed(unknown)}" if unknown else f"a tolerance of {by_bytes.tolerance:g}"
        raise BadInputError(
            f"nothing planned for {cluster!r}: the size of every partition and a tolerance from 0 on expected, e.g. 0.1, found {found}; correct it"
        )
    led = [
        Led(state.leader, _others(observed, each) if matches(each.topic, topics) else (), by_bytes.sizes[each])
        for each, state in states.items()
    ]
    try:
        spread = spread_leaders(led, observed.brokers, by_bytes.tolerance)
    except SolverFailedError as error:
        raise RefusedError(str(error)) from error
    before, after = bytes_led(led, {}), bytes_led(led, spread.moves)
    proof = "proven fewest" if spread.moves_least == len(spread.moves) else f"{spread.moves_least} are needed at least"
    if sum(bool(each.others) for each in led) > CONSIDERED_MAX:
        proof += f", of the {CONSIDERED_MAX:,} largest partitions that can move"
    remarks = [
        f"leads {before[broker]:,} → {after[broker]:,} bytes: broker {broker}"
        for broker in sorted(observed.brokers)
        if before[broker] != after[broker]
    ]
    wanted = f"{by_bytes.tolerance:.0%} above the mean"
    reached = (
        f"no broker leads more than {wanted}" if spread.within else f"nothing found brings every broker within {wanted}"
    )
    partitions = list(states)
    moves = [LeaderMove(*partitions[number], BrokerId(leader)) for number, leader in sorted(spread.moves.items())]
    return moves, (f"{reached}; {counted(len(moves), 'leader', 'move')}, {proof}", *remarks)


def _others(observed: Observation, partition: TopicPartition) -> tuple[int, ...]:
    """Live in-sync replicas that do not lead it now; none while it is being reassigned."""
    assignment = observed.assignments.get(partition)
    if assignment is None or assignment.is_being_reassigned:
        return ()
    return may_lead(observed, partition, {observed.states[partition].leader})


def _avoided(
    cluster: str, observed: Observation, brokers: Collection[BrokerId], racks: Collection[str]
) -> frozenset[BrokerId]:
    unknown = sorted(set(brokers) - observed.brokers.keys())
    known_racks = {broker.rack for broker in observed.brokers.values()} - {None}
    strange = sorted(set(racks) - known_racks)
    if unknown or strange or not (brokers or racks):
        raise BadInputError(
            f"nothing planned for {cluster!r}: expected brokers of {sorted(observed.brokers)} or racks of "
            f"{sorted(map(str, known_racks))}, found brokers {sorted(brokers)}, racks {sorted(racks)}; name some of them"
        )
    return frozenset(brokers) | brokers_of_racks(observed, racks)


def _require_known(
    cluster: str, observed: Observation, moves: Sequence[LeaderMove], *, beside: Collection[BrokerId | str]
) -> None:
    unknown = sorted(str(move.partition) for move in moves if move.partition not in observed.states)
    if unknown or beside:
        problem = f"no partition {listed(unknown)}" if unknown else "brokers, racks or topics beside single partitions"
        raise BadInputError(
            f"nothing planned for {cluster!r}: expected partitions with a leader, found {problem}; correct it"
        )
