"""The planner against slow, obvious oracles: the number of moves is the optimum, and the proof says so."""

import math
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from spark_jobs.planner import planning
from spark_jobs.planner.bounds import problem_of, rack_quota
from spark_jobs.planner.flow import place
from spark_jobs.planner.goals import Goals, Tolerance
from spark_jobs.planner.planning import optimal_plan
from tests.spark_jobs.planner.clusters import KINDS, cluster, clusters, goals, of_kind
from tests.spark_jobs.planner.oracles import brute_force, fractional_placement, integer_programme

SLOW = settings(deadline=None, suppress_health_check=list(HealthCheck))


def planned_beyond(threshold, state, wanted):
    """The plan as it is made for networks above that threshold of the planner."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(planning, threshold, -1)
        return optimal_plan(state, wanted)


@settings(SLOW, max_examples=60)
@given(state=clusters(brokers_max=4, partitions_max=4), wanted=goals())
def test_moves_equal_brute_force(state, wanted):
    plan = optimal_plan(state, wanted)
    assert (plan.moves, plan.gap) == (brute_force(problem_of(state, wanted)), 0)


@settings(SLOW, max_examples=120)
@given(state=clusters(), wanted=goals())
def test_moves_equal_the_integer_programme_and_are_proven(state, wanted):
    plan = optimal_plan(state, wanted)
    assert (plan.moves, plan.gap) == (integer_programme(problem_of(state, wanted)), 0)


def test_a_broker_that_its_topics_fill_is_proven_where_its_own_bound_is_wider():
    state = cluster([[3, 2], [3, 1], [2, 1]])
    plan = optimal_plan(state, Goals(tolerance=Tolerance(replicas=3, topic=0)))
    assert (plan.moves, plan.gap, brute_force(plan.problem)) == (1, 0, 1)


@settings(SLOW, max_examples=120)
@given(state=clusters(), wanted=goals())
def test_the_way_of_large_networks_proves_what_it_reaches(state, wanted):
    plan = planned_beyond("_HEAVY_PARTITIONS", state, wanted)
    optimum = integer_programme(problem_of(state, wanted))
    assert plan.moves_bound <= optimum <= plan.moves
    one_per_rack = (plan.problem.rack_min == 1).all() and (plan.problem.rack_max == 1).all()
    assert plan.gap == 0 or not one_per_rack


@settings(SLOW, max_examples=120)
@given(state=clusters(), wanted=goals())
def test_leaders_weighed_lightly_cost_no_move(state, wanted):
    plan = planned_beyond("_LARGE_PARTITIONS", state, wanted)
    assert (plan.moves, plan.gap) == (integer_programme(problem_of(state, wanted)), 0)


def test_where_they_cost_one_moves_are_put_first(monkeypatch):
    state, wanted = of_kind("skewed", racks=3), Goals(tolerance=Tolerance(topic=0))
    usual = optimal_plan(state, wanted)
    asked = []

    def unproven(*given, weight, **rest):
        asked.append(weight)
        flow = place(*given, weight=weight, **rest)
        return replace(flow, certificate=None) if weight == planning._SOME_LEADERS else flow

    monkeypatch.setattr(planning, "place", unproven)
    monkeypatch.setattr(planning, "_LARGE_PARTITIONS", -1)
    plan = optimal_plan(state, wanted)
    assert plan.reassignment_json() == usual.reassignment_json()
    assert plan.gap == 0
    assert asked.count(planning._SOME_LEADERS) == 1


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("racks", [1, 3, 4])
def test_the_way_of_large_networks_costs_no_move_in_the_matrix(kind, racks):
    state = of_kind(kind, racks=racks)
    wanted = Goals(tolerance=Tolerance(topic=0))
    usual = optimal_plan(state, wanted)
    assert (planned_beyond("_HEAVY_PARTITIONS", state, wanted).moves, usual.gap) == (usual.moves, 0)


@settings(SLOW, max_examples=80)
@given(state=clusters(), wanted=goals())
def test_bounds_are_floor_and_ceiling_of_one_fractional_placement(state, wanted):
    problem = problem_of(state, wanted)
    placement = fractional_placement(problem)
    width = wanted.tolerance.replicas
    for b in range(problem.broker_count):
        if not problem.eligible[b]:
            assert (problem.low[b], problem.high[b]) == (0, 0)
            continue
        mean = sum(row[b] for row in placement)
        assert (problem.low[b], problem.high[b]) == (max(0, math.floor(mean) - width), math.ceil(mean) + width)
        for t in range(len(problem.topic_names) if problem.topic_spread else 0):
            low, high = problem.cell_bounds()
            inside = sum(row[b] for row, topic in zip(placement, problem.topic, strict=True) if topic == t)
            assert (low[t, b], high[t, b]) == (max(0, math.floor(inside) - width), math.ceil(inside) + width)


@settings(SLOW, max_examples=60)
@given(state=clusters(), wanted=goals())
def test_leader_changes_are_the_fewest_for_the_sets(state, wanted):
    plan = optimal_plan(state, wanted)
    assert plan.leader_changes == plan.verdict.leader_changes_bound


@settings(SLOW, max_examples=40)
@given(state=clusters(), wanted=goals())
def test_the_same_input_gives_the_same_plan(state, wanted):
    first, second = optimal_plan(state, wanted), optimal_plan(state, wanted)
    assert first.reassignment_json() == second.reassignment_json()
    assert first.certificate_json() == second.certificate_json()


@pytest.mark.parametrize(
    ("replicas", "sizes", "least", "most"),
    [
        pytest.param(3, [2, 2, 2], [1, 1, 1], [1, 1, 1], id="as many replicas as racks: one each"),
        pytest.param(3, [2, 2, 2, 2], [0] * 4, [1] * 4, id="more racks than replicas: one rack is left out"),
        pytest.param(4, [2, 2, 2], [1, 1, 1], [2, 2, 2], id="four replicas on three racks: never 2, 2, 0"),
        pytest.param(3, [1, 5], [1, 2], [1, 2], id="a rack with one broker is full with one replica"),
        pytest.param(3, [6], [3], [3], id="no racks: all in one"),
    ],
)
def test_rack_quota(replicas, sizes, least, most):
    assert rack_quota(replicas, sizes) == (least, most)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("racks", [1, 3, 4])
@pytest.mark.parametrize("topic_spread", [False, True])
def test_plans_of_the_matrix_are_proven_minimal(kind, racks, topic_spread):
    state = of_kind(kind, racks=racks)
    plan = optimal_plan(state, Goals(topic_spread=topic_spread, tolerance=Tolerance()))
    assert plan.gap == 0
    before = Counter(plan.state.number.tolist())
    assert before == Counter(of_kind(kind, racks=racks).number.tolist())


def test_the_order_of_the_rows_does_not_matter():
    from spark_jobs.planner.model import ClusterState

    def state(order):
        lists = [[0, 1], [0, 2], [0, 1], [2, 1]]
        return ClusterState.from_columns(
            broker_ids=[2, 0, 1],
            racks=[None] * 3,
            topics=[["a", "a", "b", "b"][i] for i in order],
            partitions=[[0, 1, 0, 1][i] for i in order],
            replica_offsets=np.arange(5) * 2,
            replica_ids=[b for i in order for b in lists[i]],
        )

    plans = [optimal_plan(state(order)).reassignment_json() for order in ([0, 1, 2, 3], [3, 1, 0, 2])]
    assert plans[0] == plans[1]
