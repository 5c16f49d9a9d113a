"""Plans a reassignment: bounds, flow, dealing, leaders, verification, in that order."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from spark_jobs.planner.bounds import Problem, problem_of
from spark_jobs.planner.certificate import Certificate
from spark_jobs.planner.deal import deal
from spark_jobs.planner.errors import SolverFailedError
from spark_jobs.planner.flow import APART, EXPANDED, POOLED, place, rewarded_leaders
from spark_jobs.planner.goals import Goals
from spark_jobs.planner.leaders import choose_leaders, ordered_lists
from spark_jobs.planner.model import ClusterState, Ints
from spark_jobs.planner.result import ReassignmentPlan
from spark_jobs.planner.verify import Verdict, require, verify

_FULL_NETWORK_ARCS_MAX = 500_000
_REFINEMENTS = 12
_SMALL_TOPIC = 300


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Solution:
    """Verified replica lists of one problem."""

    problem: Problem
    lists: Ints  # [P, F]
    certificate: Certificate
    verdict: Verdict
    leaders_widened: int


def plan_reassignment(state: ClusterState, goals: Goals | None = None) -> ReassignmentPlan:
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
    solution = solve(problem_of(state, wanted))
    return ReassignmentPlan.of(state, wanted, solution.problem, solution.lists, solution.certificate, solution.verdict)


def solve(problem: Problem, *, second_pass: bool = True) -> Solution:
    """Solves and verifies one problem."""
    sets, certificate = _placed(problem, second_pass=second_pass)
    leaders = choose_leaders(problem, sets)
    lists = ordered_lists(problem, sets, leaders.leader)
    certificate = Certificate(
        broker_price=certificate.broker_price,
        cell_topic=certificate.cell_topic,
        cell_broker=certificate.cell_broker,
        cell_price=certificate.cell_price,
        leader_price=leaders.price,
        scale=certificate.scale,
        kept_leader_reward=certificate.kept_leader_reward,
    )
    verdict = require(verify(problem, lists, certificate, leaders_bounded=not leaders.widened), "plan")
    return Solution(
        problem=problem, lists=lists, certificate=certificate, verdict=verdict, leaders_widened=leaders.widened
    )


def _placed(problem: Problem, *, second_pass: bool) -> tuple[Ints, Certificate]:
    """Replica sets and their certificate; partitions that cannot be dealt are expanded until all can."""
    detail = np.full(problem.partition_count, POOLED)
    if problem.rack_max.max() > 1 and problem.partition_count * problem.broker_count <= _FULL_NETWORK_ARCS_MAX:
        detail[:] = EXPANDED
    preferred = rewarded_leaders(problem)[problem.replicas[:, 0]]
    for _ in range(_REFINEMENTS):
        flow = place(problem, detail, preferred, lexicographic=True)
        dealt = deal(problem, flow)
        certificate = flow.certificate
        if second_pass and not len(dealt.failed):
            reward = _second_reward(problem, dealt.sets)
            flow = place(problem, detail, reward, lexicographic=True, priced=False)
            dealt = deal(problem, flow)
        if not len(dealt.failed):
            return dealt.sets, certificate
        detail = _refined(problem, detail, dealt.failed)
    raise SolverFailedError(
        f"{problem.partition_count} partitions planned: a flow that can be dealt out expected within {_REFINEMENTS} "
        f"refinements, {len(dealt.failed)} partitions left over; report the state"
    )


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
    return (problem.eligible[leader] & ~(free & evicted)).astype(np.int64)


def _refined(problem: Problem, detail: Ints, failed: Ints) -> Ints:
    """Partitions that could not be served get nodes of their own, then arcs to every broker.

    Small topics are refined as a whole, as the partners of a swap are needed too.
    """
    wider = np.zeros(len(detail), bool)
    wider[failed] = True
    if problem.topic_spread:
        sizes = np.bincount(problem.topic)
        small = np.unique(problem.topic[failed])
        wider |= np.isin(problem.topic, small[sizes[small] <= _SMALL_TOPIC])
    chooses = (problem.rack_min < problem.rack_max).any(1) & (problem.rack_max <= 1).all(1)
    apart = chooses[problem.factor] & (detail == POOLED)
    return np.where(wider, np.where(apart, APART, EXPANDED), detail)
