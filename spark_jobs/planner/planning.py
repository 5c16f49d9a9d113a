"""Plans a reassignment: bounds, flow, dealing, leaders, verification, in that order."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from controller_core.model.words import counted
from spark_jobs.planner.bounds import (
    UNLIMITED,
    Problem,
    chosen_rows,
    handed_over,
    leaders_problem,
    problem_of,
    problem_within,
    widened,
)
from spark_jobs.planner.certificate import Certificate, unpriced
from spark_jobs.planner.columns import Ints, shorten
from spark_jobs.planner.deal import deal
from spark_jobs.planner.errors import ImpossibleGoalError, SolverFailedError
from spark_jobs.planner.even_bytes import Spare, even_bytes
from spark_jobs.planner.flow import EXPANDED, MOVES_ALONE, POOLED, Flow, place, rewarded_leaders
from spark_jobs.planner.goals import Aim, Goals, Tolerance
from spark_jobs.planner.leaders import choose_leaders, ordered_lists
from spark_jobs.planner.model import ClusterState
from spark_jobs.planner.refine import individual, patched, refined
from spark_jobs.planner.result import CurvePoint, ReassignmentPlan
from spark_jobs.planner.verify import Verdict, added, held_per_rack, moves_bound, require, verify

_WIDEST = 1 << 20
_FULL_NETWORK_ARCS_MAX = 500_000
_HEAVY_PARTITIONS = 20_000
_SOME_LEADERS = 32
"""The weight of a move where moves strictly first would take too long: the prices tell whether that cost a move."""
_LARGE_PARTITIONS = 100_000
_CURVE_PARTITIONS_MAX = 60_000
_REFINEMENTS = 30
_REFINED_PARTITIONS_MAX = 10_000


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solution:
    """Verified replica lists of one problem."""

    problem: Problem
    lists: Ints  # [P, F]
    certificate: Certificate
    verdict: Verdict
    leaders_widened: int


def optimal_plan(state: ClusterState, goals: Goals | None = None) -> ReassignmentPlan:
    """Plans the fewest moves that reach the goals, with a proof.

    Args:
        state: the cluster.
        goals: what is wanted; default balances replicas, leaders and topics.

    Returns:
        The verified plan; the same arguments give an equal plan.

    Raises:
        ImpossibleGoalError: no plan meets the goals.
        InvalidStateError: a goal names an unknown broker.
        SolverFailedError: the solver or the dealing failed; nothing is returned instead.
        PlanRejectedError: the verifier found a broken rule.
    """
    wanted = goals or Goals()
    try:
        return _planned(state, wanted)
    except SolverFailedError:
        _require_even_racks(state, wanted)
        raise


def _planned(state: ClusterState, wanted: Goals) -> ReassignmentPlan:
    remarks = list(_remarks(state, wanted))
    if wanted.aim is Aim.LEADERS:
        problem = leaders_problem(state, wanted)
        solution = _led(problem, problem.replicas.astype(np.int64), unpriced(problem.broker_count))
        curve: tuple[CurvePoint, ...] = ()
        width = 0
    else:
        width, reason, solution = _solved(state, wanted)
        if width:
            remarks.append(f"{reason}: replica and topic bounds widened by {width}")
        curve = _curve(state, wanted, widened(wanted.tolerance, width), solution)
        if wanted.bytes_tolerance is not None:
            solution, said = _with_even_bytes(solution, wanted, wanted.bytes_tolerance)
            remarks.append(said)
    if solution.leaders_widened:
        remarks.append(
            f"leader bounds had to be widened by {solution.leaders_widened}: these replica sets allow no better"
        )
    _check_caps(wanted, solution)
    return ReassignmentPlan.of(
        state,
        wanted,
        solution.problem,
        solution.lists,
        solution.certificate,
        solution.verdict,
        curve=curve,
        remarks=tuple(remarks),
        widened=(width, solution.leaders_widened),
    )


def solve(problem: Problem) -> Solution:
    """Solves and verifies one problem; errors: see `optimal_plan`."""
    sets, certificate = _placed(problem)
    return _led(problem, sets, certificate)


def _led(problem: Problem, sets: Ints, certificate: Certificate) -> Solution:
    """Leaders for replica sets, then the verifier's word on all of it."""
    leaders = choose_leaders(problem, sets)
    lists = ordered_lists(problem, sets, leaders.leader)
    if leaders.widened:
        problem = replace(problem, leader_low=leaders.low, leader_high=leaders.high)
    priced = replace(certificate, leader_price=leaders.price)
    verdict = require(verify(problem, lists, priced), "plan")
    return Solution(problem=problem, lists=lists, certificate=priced, verdict=verdict, leaders_widened=leaders.widened)


def _require_even_racks(state: ClusterState, goals: Goals) -> None:
    """Where nothing could be placed: says which replacement brokers are in the wrong rack, if that is why."""
    if not goals.replace:
        return
    problem = problem_of(state, goals)
    lists = handed_over(state, goals, problem.eligible, problem.rows)
    held = held_per_rack(replace(problem, replicas=lists))
    uneven = (held < problem.rack_min[problem.factor]) | (held > problem.rack_max[problem.factor])
    names = [state.partition_name(row) for row in problem.rows[uneven.any(1)].tolist()]
    if names:
        raise ImpossibleGoalError(
            f"brokers {sorted(goals.replace)} replaced: even racks after it expected, {counted(len(names), 'partition')} that would have "
            f"too many replicas in one found {shorten(names)}; name a replacement broker in the rack of its broker, repair the racks "
            "first, or ignore them"
        )


def _remarks(state: ClusterState, goals: Goals) -> Iterator[str]:
    if goals.ignore_racks:
        yield "racks are ignored, as asked: several replicas of a partition may come to lie in one rack"
    rows = np.intersect1d(state.without_live_replica(), chosen_rows(state, goals))
    if len(rows):
        names = shorten([state.partition_name(int(row)) for row in rows])
        yield (
            f"{counted(len(rows), 'partition', 'have')} no live replica to copy from: {names}; moves of these are planned, and wait in a "
            "wave of their own until a broker returns"
        )
    if len(state.collapsed):
        names = shorten([state.partition_name(int(row)) for row in state.collapsed])
        yield f"{counted(len(state.collapsed), 'partition', 'name')} a broker twice: {names}; it counts once, the plan repairs them"


def fewest_moves(problem: Problem) -> tuple[int, bool]:
    """The optimum of the placement flow without replica sets: (moves, whether sets with so few exist for certain)."""
    detail = starting_detail(problem)
    none = np.zeros(problem.partition_count, np.int64)
    flow = place(problem, detail, none, weight=MOVES_ALONE, priced=False, lean=True)
    fresh = 0
    partition, broker = flow.direct
    if len(partition):
        fresh = int((~(problem.replicas[partition] == broker[:, None]).any(1)).sum())
    exact = bool(
        (detail == EXPANDED).all() or ((problem.rack_max <= 1).all() and (problem.rack_min == problem.rack_max).all())
    )
    return int(flow.received.sum()) + fresh, exact


def _solved(state: ClusterState, goals: Goals) -> tuple[int, str, Solution]:
    """The solution at the narrowest tolerance that keeps the caps: by how much it is widened, why, and the solution."""
    width, reason = _width(state, goals)
    solution = solve(problem_within(state, goals, width))
    cap = goals.moves_max

    def fits(wider: int) -> bool:
        return cap is None or solve(problem_within(state, goals, wider)).verdict.moves <= cap

    if cap is None or solution.verdict.moves <= cap or goals.aim is not Aim.BALANCE or not fits(_WIDEST):
        return width, reason, solution
    # Where the network is only a bound, more moves may be dealt than it counts: the next width that keeps the cap.
    width = _smallest(fits, width + 1)
    return width, f"at most {counted(cap, 'move')}", solve(problem_within(state, goals, width))


def _width(state: ClusterState, goals: Goals) -> tuple[int, str]:
    """By how much the tolerance has to be widened for the caps, or to make forced moves only, and why."""
    if goals.bytes_max is not None and state.size is None:
        raise ImpossibleGoalError(
            f"plan capped at {goals.bytes_max} bytes: the sizes of the partitions expected, none found; give sizes or "
            "cap the moves"
        )
    if goals.aim is Aim.REPAIR:
        forced = fewest_moves(problem_within(state, goals, _WIDEST))[0]
        return _narrowest(state, goals, lambda moves: moves <= forced), "only forced moves are made"
    if goals.moves_max is None and goals.bytes_max is None:
        return 0, ""
    most = UNLIMITED if goals.moves_max is None else goals.moves_max
    if goals.bytes_max is None:
        least = fewest_moves(problem_within(state, goals, _WIDEST))[0]
        if least > most:
            raise ImpossibleGoalError(
                f"plan capped at {counted(most, 'move')}: drains, racks and replication factors alone need {least}; raise the cap"
            )
        width = _narrowest(state, goals, lambda moves: moves <= most)
        return width, f"at most {counted(most, 'move')}" if width else ""

    def fits(width: int) -> bool:
        solution = solve(problem_within(state, goals, width))
        return solution.verdict.moves <= most and _bytes(solution) <= (goals.bytes_max or 0)

    if not fits(_WIDEST):
        raise ImpossibleGoalError(
            f"plan capped at {goals.bytes_max} bytes: a plan within them expected, none found even "
            "without balance; raise the cap"
        )
    width = _smallest(fits)
    return width, f"at most {goals.bytes_max} bytes" if width else ""


def _narrowest(state: ClusterState, goals: Goals, enough: Callable[[int], bool]) -> int:
    return _smallest(lambda width: enough(fewest_moves(problem_within(state, goals, width))[0]))


def _smallest(fits: Callable[[int], bool], least: int = 0) -> int:
    """The smallest width from `least` on that fits, by doubling and halving."""
    if fits(least):
        return least
    more = 1
    while more < _WIDEST and not fits(least + more):
        more *= 2
    low, high = least + more // 2, least + more
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


def _bytes(solution: Solution) -> int:
    size = solution.problem.size
    return 0 if size is None else int((added(solution.problem, solution.lists) * size).sum())


def _check_caps(goals: Goals, solution: Solution) -> None:
    moves, volume = solution.verdict.moves, _bytes(solution)
    if goals.moves_max is not None and moves > goals.moves_max:
        raise ImpossibleGoalError(
            f"plan capped at {goals.moves_max} moves: {moves} found (proven minimum {solution.verdict.moves_bound}); "
            "raise the cap"
        )
    if goals.bytes_max is not None and volume > goals.bytes_max:
        raise ImpossibleGoalError(f"plan capped at {goals.bytes_max} bytes: {volume} found; raise the cap")


def _curve(state: ClusterState, goals: Goals, used: Tolerance, solution: Solution) -> tuple[CurvePoint, ...]:
    """Fewest moves at each tolerance; left out where one point would cost as much as the plan."""
    if goals.replace or goals.aim is not Aim.BALANCE:
        return ()
    points, problem = [], solution.problem
    for width in sorted(set(goals.curve_tolerances)):
        tolerance = Tolerance.uniform(width)
        if (tolerance.replicas, tolerance.topic if problem.topic_spread else 0) == (
            used.replicas,
            used.topic if problem.topic_spread else 0,
        ):
            points.append(CurvePoint(width, solution.verdict.moves_bound, solution.verdict.gap == 0))
        elif int(individual(problem).sum()) <= _CURVE_PARTITIONS_MAX:
            points.append(CurvePoint(width, *fewest_moves(problem_of(state, goals, tolerance))))
    return tuple(points)


def _with_even_bytes(solution: Solution, goals: Goals, tolerance: float) -> tuple[Solution, str]:
    """Exchanges replicas for even bytes, as far as the caps allow, and says how far that came."""
    problem, before = solution.problem, solution.verdict
    if problem.size is None:
        raise ImpossibleGoalError("bytes balanced: the sizes of the partitions expected, none found; give sizes")
    spare = Spare(
        math.inf if goals.moves_max is None else goals.moves_max - before.moves,
        math.inf if goals.bytes_max is None else goals.bytes_max - _bytes(solution),
    )
    evened = even_bytes(problem, solution.lists, tolerance, spare)
    lists = ordered_lists(problem, evened.lists, evened.lists[:, 0])
    verdict = require(verify(problem, lists, solution.certificate), "plan with balanced bytes")
    said = (
        f"bytes per broker at most {evened.ratio:.4f} times the mean (was {evened.ratio_before:.4f}, wanted "
        f"{1 + tolerance:.4f}, no plan is below {evened.ratio_bound:.4f}) by {counted(evened.exchanges, 'exchange')} that cost "
        f"{counted(verdict.moves - before.moves, 'move')}{evened.refused * '; the cap allows no more'}"
    )
    return replace(solution, lists=lists, verdict=verdict), said


def starting_detail(problem: Problem) -> Ints:
    """[P] small clusters whose partitions may hold two replicas in a rack get the full network at once."""
    small = problem.partition_count * problem.broker_count <= _FULL_NETWORK_ARCS_MAX
    return np.full(problem.partition_count, EXPANDED if problem.rack_max.max() > 1 and small else POOLED)


def _placed(problem: Problem) -> tuple[Ints, Certificate]:
    """Replica sets and the certificate of their number of moves.

    Where the network is only a bound, dealing may fail for some topics: those alone are solved again with nodes per
    partition, the others staying as they are. If that costs moves, a small cluster is solved again in more detail.
    """
    detail = starting_detail(problem)
    large = problem.partition_count > _LARGE_PARTITIONS
    heavy = int(individual(problem).sum()) > (_HEAVY_PARTITIONS // 4 if large else _HEAVY_PARTITIONS)
    preferred = rewarded_leaders(problem)[problem.replicas[:, 0]]
    best: tuple[int, Ints, Certificate] = (UNLIMITED, np.zeros((0, 0), np.int64), unpriced(problem.broker_count))
    for _ in range(_REFINEMENTS):
        solved = _heavy(problem, detail, preferred) if heavy else _light(problem, detail, preferred, large=large)
        certificate, weight = solved.certificate, solved.weight
        dealt = deal(problem, solved.flow)
        sets = patched(problem, detail, dealt, preferred, weight=weight, alone=heavy and large)
        reward = preferred if heavy else _second_reward(problem, sets)
        if not np.array_equal(reward, preferred):
            dealt_again = deal(problem, place(problem, detail, reward, weight=weight, priced=False))
            again = patched(problem, detail, dealt_again, reward, weight=weight)
            if added(problem, again).sum() <= added(problem, sets).sum():
                sets = again
        gap = int(added(problem, sets).sum())
        if len(dealt.failed):
            gap -= moves_bound(problem, certificate)
        else:
            gap = 0
        if gap < best[0]:
            best = gap, sets, certificate
        if gap == 0 or problem.partition_count > _REFINED_PARTITIONS_MAX:
            break
        detail = refined(problem, detail, dealt.failed)
    return best[1], best[2]


class _Solved(NamedTuple):
    flow: Flow
    certificate: Certificate
    weight: int


def _light(problem: Problem, detail: Ints, reward: Ints, *, large: bool) -> _Solved:
    """Moves strictly first, leaders second."""
    if large:
        quick = place(problem, detail, reward, weight=_SOME_LEADERS)
        if quick.certificate is not None:  # the same moves, and as many leaders as these allow
            return _Solved(quick, quick.certificate, _SOME_LEADERS)
    flow = place(problem, detail, reward, weight=_strict(problem))
    return _Solved(flow, flow.certificate or unpriced(problem.broker_count), _strict(problem))


def _heavy(problem: Problem, detail: Ints, reward: Ints) -> _Solved:
    """A network with hundreds of thousands of nodes: where leaders cost a move, moves count alone."""
    flow = place(problem, detail, reward, weight=_SOME_LEADERS, lean=True)
    if flow.certificate is None:
        flow = place(problem, detail, reward, weight=MOVES_ALONE, lean=True)
    return _Solved(flow, flow.certificate or unpriced(problem.broker_count), _SOME_LEADERS)


def _strict(problem: Problem) -> int:
    return problem.partition_count + 1


def _second_reward(problem: Problem, sets: Ints) -> Ints:
    """[P] 1 where the preferred leader should stay: of over-led brokers only the surplus is free to go."""
    leader = problem.replicas[:, 0].astype(np.int64)
    evicted = ~(sets == leader[:, None]).any(1)
    led = np.bincount(leader, minlength=problem.broker_count)
    surplus = np.maximum(led - problem.leader_high, 0)
    order = np.lexsort((np.arange(len(leader)), ~evicted, leader))
    rank = np.arange(len(order)) - np.searchsorted(leader[order], leader[order])
    free = np.zeros(len(leader), bool)
    free[order] = rank < surplus[leader[order]]
    return np.asarray(problem.eligible[leader] & ~(free & evicted), np.int64)
