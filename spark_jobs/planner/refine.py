"""What to do where the hub network was only a bound: solve the affected partitions again, in more detail.

Source: docs/planning.md, "Why the number is minimal".
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from spark_jobs.planner.bounds import Problem
from spark_jobs.planner.columns import Bools, Ints, wide
from spark_jobs.planner.deal import Dealt, deal
from spark_jobs.planner.errors import SolverFailedError
from spark_jobs.planner.flow import APART, EXPANDED, POOLED, place
from spark_jobs.planner.verify import held_per_rack

_PATCHES = 8
_PARTNERS = 500
_SMALL_TOPIC = 300


def individual(problem: Problem) -> Bools:
    """[P] partitions that cannot share the nodes of a row: they hold too much, or choose which racks to keep."""
    held = held_per_rack(problem)
    least, most = problem.rack_min[problem.factor], problem.rack_max[problem.factor]
    surplus = (held > most).any(1)
    chooses = (least < most).any(1)
    gives_up = np.maximum(held, least).sum(1) > np.asarray(problem.factors, np.int64)[problem.factor]
    return np.asarray((surplus | chooses) & problem.topic_spread | chooses & (surplus | gives_up), bool)


def refined(problem: Problem, detail: Ints, failed: Ints) -> Ints:
    """The next level of detail: nodes of their own for the failed partitions, then arcs to every broker.

    Small topics are refined as a whole, as the partners of a swap are needed too.
    """
    wider = _with_partners(problem, failed, 0)
    apart = _chooses_racks(problem) & (detail == POOLED)
    return np.where(wider, np.where(apart, APART, EXPANDED), detail)


def patched(problem: Problem, detail: Ints, dealt: Dealt, reward: Ints, *, weight: int, alone: bool = False) -> Ints:
    """[P, F] complete replica sets: the partitions that could not be served are solved again among themselves.

    Args:
        problem: partitions and bounds.
        detail: level of detail the flow had.
        dealt: sets, with those of the failed partitions unusable.
        reward: [P] 1 where keeping the preferred leader counts.
        weight: how many kept leaders a move is worth.
        alone: first without partners; a third of the time, for a few moves in a hundred thousand.

    Raises:
        SolverFailedError: even with many partners the failed partitions cannot be served.
    """
    sets, failed = dealt.sets, dealt.failed
    for attempt in range(_PATCHES):
        if not len(failed):
            return sets
        lonely = alone and not attempt
        again = np.unique(failed) if lonely else np.nonzero(_with_partners(problem, failed, attempt))[0]
        rest = np.ones(problem.partition_count, bool)
        rest[again] = False
        part = _part(problem, again, sets, rest)
        own = detail[again]
        own = np.where(_chooses_racks(part) & (own <= APART), APART, EXPANDED)
        try:
            flow = place(part, own, reward[again], weight=weight, priced=False)
        except SolverFailedError:
            continue
        served = deal(part, flow)
        failed = again[served.failed]
        if not len(failed):
            sets = sets.copy() if sets.shape[1] >= served.sets.shape[1] else wide(sets, served.sets.shape[1])
            sets[again] = -1
            sets[again, : served.sets.shape[1]] = served.sets
            return sets
    raise SolverFailedError(
        f"{problem.partition_count} partitions planned: replica sets for all expected within {_PATCHES} attempts, "
        f"{len(failed)} partitions left over; report the state"
    )


def _with_partners(problem: Problem, failed: Ints, attempt: int) -> Bools:
    """[P] the failed partitions, their topics where these are small, and some others to exchange with."""
    wider = np.zeros(problem.partition_count, bool)
    wider[failed] = True
    if problem.topic_spread:
        sizes = np.bincount(problem.topic)
        touched = np.unique(problem.topic[failed])
        wider |= np.isin(problem.topic, touched if attempt else touched[sizes[touched] <= _SMALL_TOPIC])
    if attempt or not problem.topic_spread:
        others = np.random.default_rng(attempt).permutation(problem.partition_count)
        wider[others[: _PARTNERS << attempt]] = True
    return wider


def _part(problem: Problem, rows: Ints, sets: Ints, rest: Bools) -> Problem:
    """The problem of some partitions, with what the others leave of the bounds."""
    brokers = problem.broker_count
    used, topic = np.unique(problem.topic[rows], return_inverse=True)
    there = (sets >= 0) & rest[:, None]
    load = np.bincount(sets[there], minlength=brokers)
    cell_low, cell_high = None, None
    if problem.topic_spread:
        low, high = problem.cell_bounds()
        index = np.full(len(problem.topic_names), -1, np.int64)
        index[used] = np.arange(len(used))
        there &= (index[problem.topic] >= 0)[:, None]
        cell = (index[problem.topic][:, None] * brokers + sets)[there]
        taken = np.bincount(cell, minlength=len(used) * brokers).reshape(-1, brokers)
        cell_low, cell_high = np.maximum(low[used] - taken, 0), np.maximum(high[used] - taken, 0)
    return replace(
        problem,
        rows=problem.rows[rows],
        topic=topic,
        topic_names=tuple(problem.topic_names[t] for t in used),
        replicas=problem.replicas[rows],
        size=None if problem.size is None else problem.size[rows],
        factor=problem.factor[rows],
        low=np.maximum(problem.low - load, 0),
        high=np.maximum(problem.high - load, 0),
        cell_low=cell_low,
        cell_high=cell_high,
    )


def _chooses_racks(problem: Problem) -> Bools:
    """[P] partitions that may choose their racks and hold at most one replica in each: own nodes make these exact."""
    free = np.asarray((problem.rack_min < problem.rack_max).any(1) & (problem.rack_max <= 1).all(1))
    return np.asarray(free[problem.factor], bool)
