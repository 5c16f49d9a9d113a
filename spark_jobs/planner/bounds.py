"""From state and goals to the bounds every plan must meet: rack quotas, replicas, leaders and replicas per topic.

All balance bounds are floor and ceiling of one fractional placement in which each partition is spread evenly inside its
rack shares. A flow with integer bounds around its own sums has an integer solution, so they are reachable together;
a plain floor and ceiling over all brokers is not, as soon as racks have different numbers of brokers.
The arithmetic is exact (whole numbers over a common denominator). Planner and verifier share this module.
Source: docs/planning.md, "Why the number is minimal".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from controller_core.model.words import counted
from spark_jobs.planner.columns import Bools, Int32s, Ints, shorten, without_repeats
from spark_jobs.planner.errors import ImpossibleGoalError, InvalidStateError
from spark_jobs.planner.goals import Aim, Goals, Tolerance
from spark_jobs.planner.model import ClusterState

UNLIMITED = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Problem:
    """The chosen partitions with everything a plan of them must keep to.

    Shapes: B brokers of the state, R racks with an eligible broker, P chosen partitions, T their topics, F distinct
    replication factors.
    """

    rows: Ints  # [P] row of the state
    topic: Ints  # [P] 0..T-1
    topic_names: tuple[str, ...]  # [T]
    replicas: Int32s  # [P, W] positions as they are now, -1 padded
    size: Ints | None  # [P]
    eligible: Bools  # [B] live and not leaving: may hold replicas after the plan
    rack: Ints  # [B] 0..R-1, -1 for a broker that is not eligible
    rack_brokers: tuple[Ints, ...]  # [R] positions of the eligible brokers of each rack
    factor: Ints  # [P] index into factors
    factors: tuple[int, ...]  # [F] wanted replication factors
    rack_min: Ints  # [F, R] replicas of one partition in a rack, at least
    rack_max: Ints  # [F, R] at most
    low: Ints  # [B] replicas per broker, at least; 0 where not eligible
    high: Ints  # [B] at most; 0 where not eligible
    cell_low: Ints | None  # [T, B] replicas of a topic on a broker; 0 where not eligible; None without topic spread
    cell_high: Ints | None  # [T, B]
    leader_low: Ints  # [B] preferred leaders per broker
    leader_high: Ints  # [B]
    topic_spread: bool

    @property
    def broker_count(self) -> int:
        """Brokers of the state, dead and leaving ones included."""
        return len(self.eligible)

    @property
    def partition_count(self) -> int:
        """Chosen partitions."""
        return len(self.topic)

    def cell_bounds(self) -> tuple[Ints, Ints]:
        """[T, B] lower and upper bounds of each (topic, broker); raises without topic spread."""
        if self.cell_low is None or self.cell_high is None:
            raise ImpossibleGoalError("topic bounds asked of a problem without topic spread; ask for topic_spread")
        return self.cell_low, self.cell_high


def problem_of(state: ClusterState, goals: Goals, tolerance: Tolerance | None = None) -> Problem:
    """The bounds of a plan.

    Args:
        state: the cluster.
        goals: what is wanted.
        tolerance: replaces that of the goals (the trade-off curve and the caps walk through several).

    Returns:
        The chosen partitions and their bounds.

    Raises:
        ImpossibleGoalError: more replicas wanted than there are eligible brokers; nothing chosen; a replacement broker that cannot
            take over.
        InvalidStateError: a goal names a broker that the cluster does not have.
    """
    eligible = _eligible(state, goals)
    rows = chosen_rows(state, goals)
    used, topic = np.unique(state.topic[rows], return_inverse=True)
    wanted = state.replication_factor[rows].astype(np.int64)
    if goals.replication_factor is not None:
        wanted = np.full(len(rows), goals.replication_factor, np.int64)
    factors, factor = np.unique(wanted, return_inverse=True)
    _check_enough(state, eligible, factors, wanted, rows)
    rack, rack_sizes = _racks(state, eligible)
    quotas = [rack_quota(int(rf), rack_sizes) for rf in factors]
    if goals.replace:
        bounds = _handed_over_bounds(state, goals, eligible, rows, wanted)
    else:
        shares = [
            [share / n for share, n in zip(rack_share(int(rf), rack_sizes, *quota), rack_sizes, strict=True)]
            for rf, quota in zip(factors, quotas, strict=True)
        ]
        cells = np.bincount(topic * len(factors) + factor, minlength=len(used) * len(factors))
        width = goals.tolerance if tolerance is None else tolerance
        bounds = _even_bounds(
            cells.reshape(-1, len(factors)), shares, eligible, rack, width, topic_spread=goals.topic_spread
        )
    return Problem(
        rows=rows,
        topic=topic.astype(np.int64),
        topic_names=tuple(state.topics[t] for t in used),
        replicas=state.replicas[rows],
        size=None if state.size is None else state.size[rows],
        eligible=eligible,
        rack=rack,
        rack_brokers=tuple(np.nonzero(rack == g)[0] for g in range(len(rack_sizes))),
        factor=factor.astype(np.int64),
        factors=tuple(int(rf) for rf in factors),
        rack_min=np.array([least for least, _ in quotas], np.int64),
        rack_max=np.array([most for _, most in quotas], np.int64),
        low=bounds.low,
        high=bounds.high,
        cell_low=bounds.cell_low,
        cell_high=bounds.cell_high,
        leader_low=bounds.leader_low,
        leader_high=bounds.leader_high,
        topic_spread=bounds.cell_low is not None,
    )


def problem_within(state: ClusterState, goals: Goals, width: int) -> Problem:
    """The bounds of a plan whose tolerance was widened: for a cap, or to make forced moves only. Errors as above."""
    if goals.aim is Aim.LEADERS:
        return leaders_problem(state, goals)
    problem = problem_of(state, goals, widened(goals.tolerance, width))
    return keeping_what_is(problem) if goals.aim is Aim.REPAIR else problem


def widened(tolerance: Tolerance, width: int) -> Tolerance:
    """The tolerance of replicas and topics, wider by `width`."""
    return replace(tolerance, replicas=tolerance.replicas + width, topic=tolerance.topic + width)


def keeping_what_is(problem: Problem) -> Problem:
    """The same, but nobody has to give up or to fill up: a bound that is missed now is met by staying as it is.

    Leaders are not bounded. Used for repairs, where balance only says where the forced moves go.
    """
    there = problem.replicas >= 0
    load = np.bincount(problem.replicas[there], minlength=problem.broker_count)
    low, high = np.minimum(problem.low, load), np.where(problem.eligible, np.maximum(problem.high, load), 0)
    cell_low, cell_high = problem.cell_low, problem.cell_high
    if cell_low is not None and cell_high is not None:
        key = (problem.topic[:, None] * problem.broker_count + problem.replicas)[there]
        cells = np.bincount(key, minlength=cell_low.size).reshape(cell_low.shape)
        cell_low = np.minimum(cell_low, cells)
        cell_high = np.where(problem.eligible, np.maximum(cell_high, cells), 0)
    free = without_leader_bounds(problem)
    return replace(free, low=low, high=high, cell_low=cell_low, cell_high=cell_high)


def without_leader_bounds(problem: Problem) -> Problem:
    """The same with any number of leaders per eligible broker."""
    return replace(
        problem,
        leader_low=np.zeros_like(problem.leader_low),
        leader_high=np.where(problem.eligible, UNLIMITED, 0),
    )


def leaders_problem(state: ClusterState, goals: Goals) -> Problem:
    """The problem of choosing leaders alone: every replica stays where it is, whatever racks and bounds say.

    Partitions without a replica on a broker that may lead are left out. Errors: see `problem_of`.
    """
    rows = chosen_rows(state, goals)
    leading = state.live & ~state.draining
    leading[[state.position(b) for b in goals.drain]] = False
    replicas = state.replicas[rows]
    can = ((replicas >= 0) & leading[np.maximum(replicas, 0)]).any(1)
    rows, replicas = rows[can], replicas[can]
    if not len(rows):
        raise ImpossibleGoalError(
            "leaders balanced: partitions with a replica on a live broker expected, none found; start brokers first"
        )
    used, topic = np.unique(state.topic[rows], return_inverse=True)
    factors, factor = np.unique((replicas >= 0).sum(1), return_inverse=True)
    load = np.bincount(replicas[replicas >= 0], minlength=state.broker_count).astype(np.int64)
    quota = factors.astype(np.int64)[:, None]
    per_broker = Fraction(len(rows), int(leading.sum()))
    width = goals.tolerance.leaders
    return Problem(
        rows=rows,
        topic=topic.astype(np.int64),
        topic_names=tuple(state.topics[t] for t in used),
        replicas=replicas,
        size=None if state.size is None else state.size[rows],
        eligible=np.ones(state.broker_count, bool),
        rack=np.zeros(state.broker_count, np.int64),
        rack_brokers=(np.arange(state.broker_count),),
        factor=factor.astype(np.int64),
        factors=tuple(int(rf) for rf in factors),
        rack_min=quota,
        rack_max=quota,
        low=load,
        high=load,
        cell_low=None,
        cell_high=None,
        leader_low=np.where(leading, max(0, math.floor(per_broker) - width), 0),
        leader_high=np.where(leading, math.ceil(per_broker) + width, 0),
        topic_spread=False,
    )


def chosen_rows(state: ClusterState, goals: Goals) -> Ints:
    """Rows of the partitions whose topic is included and not excluded; raises ImpossibleGoalError when none is."""
    chosen = np.array([goals.chooses(topic) for topic in state.topics], bool)
    rows = np.nonzero(chosen[state.topic])[0] if state.partition_count else np.zeros(0, np.int64)
    if not len(rows):
        raise ImpossibleGoalError(
            f"topics chosen by include {goals.include_topics!r} and exclude {goals.exclude_topics!r}: at least one of "
            f"{len(state.topics)} topics expected, none found; change the patterns"
        )
    return rows


def rack_quota(rf: int, sizes: Sequence[int]) -> tuple[list[int], list[int]]:
    """Least and most replicas of one partition per rack: the most even split over racks with `sizes` brokers.

    A cap of ceil(rf / racks) alone would admit (2, 2, 0) for four replicas on three racks.
    """
    level = 0
    while level < rf and sum(min(n, level + 1) for n in sizes) <= rf:
        level += 1
    least = [min(n, level) for n in sizes]
    most = least if sum(least) == rf else [min(n, level + 1) for n in sizes]
    return least, most


def rack_share(rf: int, sizes: Sequence[int], least: Sequence[int], most: Sequence[int]) -> list[Fraction]:
    """Fractional replicas per rack: clamp(x * size, least, most) with the x that makes them sum to rf.

    Args:
        rf: replication factor.
        sizes: eligible brokers per rack.
        least: replicas per rack, lower bound.
        most: replicas per rack, upper bound.
    """
    clamped: dict[int, int] = {g: least[g] for g in range(len(sizes)) if least[g] == most[g]}
    while True:
        free = [g for g in range(len(sizes)) if g not in clamped]
        rest = rf - sum(clamped.values())
        if not free:
            return [Fraction(clamped[g]) for g in range(len(sizes))]
        x = Fraction(rest, sum(sizes[g] for g in free))
        over = {g: most[g] for g in free if x * sizes[g] > most[g]}
        under = {g: least[g] for g in free if x * sizes[g] < least[g]}
        if not over and not under:
            return [Fraction(clamped[g]) if g in clamped else x * sizes[g] for g in range(len(sizes))]
        surplus = sum(x * sizes[g] - most[g] for g in over)
        lack = sum(least[g] - x * sizes[g] for g in under)
        # The heavier side is clamped first: the level moves the other way and may free the lighter one.
        clamped |= over if surplus >= lack else under


def _eligible(state: ClusterState, goals: Goals) -> Bools:
    """[B] may hold replicas: live brokers that stay."""
    eligible = state.live & ~state.draining
    eligible[[state.position(b) for b in (*goals.drain, *goals.replace)]] = False
    return eligible


def _racks(state: ClusterState, eligible: Bools) -> tuple[Ints, list[int]]:
    """[B] the rack of each eligible broker, from 0, and -1 for the others; eligible brokers per rack."""
    racks, dense = np.unique(state.rack[eligible], return_inverse=True)
    rack = np.full(state.broker_count, -1, np.int64)
    rack[eligible] = dense
    return rack, np.bincount(dense, minlength=len(racks)).tolist()


class _Bounds(NamedTuple):
    """Fields of a problem, as it describes them."""

    low: Ints
    high: Ints
    leader_low: Ints
    leader_high: Ints
    cell_low: Ints | None = None
    cell_high: Ints | None = None


def _even_bounds(
    counts: Ints,
    shares: Sequence[Sequence[Fraction]],
    eligible: Bools,
    rack: Ints,
    width: Tolerance,
    *,
    topic_spread: bool,
) -> _Bounds:
    """Every eligible broker has its share of the replicas and of the leaders, give or take the tolerance.

    Args:
        counts: [T, F] partitions per topic and replication factor.
        shares: [F][R] replicas of one partition on one broker.
        eligible: [B] may hold replicas.
        rack: [B] of `shares`.
        width: how far a broker may be off its share.
        topic_spread: bounds each topic, too.
    """
    broker_low, broker_high = _around(counts.sum(0)[None, :], shares, width.replicas)
    low, high = np.where(eligible, broker_low[0][rack], 0), np.where(eligible, broker_high[0][rack], 0)
    per_broker = Fraction(int(counts.sum()), int(eligible.sum()))
    leader_low = np.where(eligible, max(0, math.floor(per_broker) - width.leaders), 0)
    leader_high = np.where(eligible, math.ceil(per_broker) + width.leaders, 0)
    if not topic_spread:
        return _Bounds(low, high, leader_low, leader_high)
    cell_low, cell_high = (np.where(eligible, of_rack[:, rack], 0) for of_rack in _around(counts, shares, width.topic))
    low = np.maximum(low, cell_low.sum(0))  # what its topics leave there anyway, or no price of it proves anything
    return _Bounds(low, high, leader_low, leader_high, cell_low, cell_high)


def _handed_over_bounds(state: ClusterState, goals: Goals, eligible: Bools, rows: Ints, wanted: Ints) -> _Bounds:
    """Every broker has what it has now, and the replacement brokers what the leaving ones have; errors: see `handed_over`."""
    handed = handed_over(state, goals, eligible, rows)
    _check_factors_kept(state, goals, wanted, rows)
    load = np.bincount(handed[handed >= 0], minlength=state.broker_count).astype(np.int64)
    led = np.bincount(handed[:, 0], minlength=state.broker_count).astype(np.int64)
    return _Bounds(load, load, led, led)


def _around(counts: Ints, shares: Sequence[Sequence[Fraction]], width: int) -> tuple[Ints, Ints]:
    """[N, R] floor - width and ceiling + width of counts [N, F] times the share of one broker [F][R]."""
    lows, highs = [], []
    for g in range(len(shares[0])):
        column = [share[g] for share in shares]
        whole = math.lcm(*(share.denominator for share in column))
        weights = [share.numerator * (whole // share.denominator) for share in column]
        exact = np.int64 if max(weights) * max(1, int(counts.max(initial=0))) * len(shares) < (1 << 62) else object
        total = (counts.astype(exact) * np.array(weights, exact)).sum(1)
        lows.append(np.maximum(0, (total // whole).astype(np.int64) - width))
        highs.append((-(-total // whole)).astype(np.int64) + width)
    return np.stack(lows, 1), np.stack(highs, 1)


def _check_enough(state: ClusterState, eligible: Bools, values: Ints, wanted: Ints, rows: Ints) -> None:
    there = int(eligible.sum())
    if there == 0:
        raise ImpossibleGoalError(
            f"plan made for {state.broker_count} brokers: at least one live broker that stays expected, none found; "
            "drain fewer brokers"
        )
    if values.min() < 1 or values.max() > there:
        row = int(np.argmax((wanted < 1) | (wanted > there)))
        staying = shorten(state.broker_ids[eligible].tolist())
        raise ImpossibleGoalError(
            f"partition {state.partition_name(int(rows[row]))} planned: fewer brokers than replicas: {wanted[row]} "
            f"replicas wanted, {there} live brokers that stay found {staying}; add brokers, drain fewer, or lower the "
            "replication factor"
        )


def handed_over(state: ClusterState, goals: Goals, eligible: Bools, rows: Ints) -> Int32s:
    """[P, W] the lists of now with the replacement broker in place of each leaving broker, -1 padded.

    Args:
        state: the cluster as the planner sees it.
        goals: name leaving and replacement brokers.
        eligible: [B] may hold replicas.
        rows: [N] partitions.

    Raises:
        InvalidStateError: a replacement broker is not live, or leaves itself.
        ImpossibleGoalError: a replacement broker holds one of the partitions already, or another broker leaves, too.
    """
    replacement = np.arange(state.broker_count, dtype=np.int32)
    for old, new in sorted(goals.replace.items()):
        if not eligible[state.position(new)]:
            raise InvalidStateError(f"broker {old} replaced by {new}: expected a live broker that stays; name another")
        replacement[state.position(old)] = state.position(new)
    replicas = state.replicas[rows]
    lists = np.where(replicas >= 0, replacement[np.maximum(replicas, 0)], np.int32(-1))
    twice = _names(state, rows[without_repeats(lists)[1]])
    if twice:
        pairs = ", ".join(f"{old} by {new}" for old, new in sorted(goals.replace.items()))
        raise ImpossibleGoalError(
            f"brokers replaced, {pairs}: a replacement broker without a replica of what it takes over expected, {counted(len(twice), 'partition')} "
            f"that it would hold twice found {shorten(twice)}; name another replacement broker, or drain the broker instead"
        )
    lost = int((lists >= 0).sum()) - int(eligible[lists[lists >= 0]].sum())
    if lost:
        raise ImpossibleGoalError(
            f"brokers {sorted(goals.replace)} replaced: no other leaving broker expected, {counted(lost, 'replica')} on others "
            "found; replace those as well"
        )
    return lists


def _check_factors_kept(state: ClusterState, goals: Goals, wanted: Ints, rows: Ints) -> None:
    held = (state.replicas[rows] >= 0).sum(1)
    if int(wanted.sum()) != int(held.sum()):
        other = _names(state, rows[wanted != held])
        raise ImpossibleGoalError(
            f"brokers {sorted(goals.replace)} replaced: as many replicas wanted as there are expected, another replication "
            f"factor for {counted(len(other), 'partition')} found {shorten(other)}; change it in a plan of its own"
        )


def _names(state: ClusterState, rows: Ints) -> list[str]:
    return [state.partition_name(row) for row in rows.tolist()]
