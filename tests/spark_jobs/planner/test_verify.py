"""The verifier rejects every change of a valid plan that breaks a rule, and no certificate can fool it."""

import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_jobs.planner.bounds import problem_of
from spark_jobs.planner.errors import PlanRejectedError
from spark_jobs.planner.goals import Goals, Tolerance
from spark_jobs.planner.planning import optimal_plan
from spark_jobs.planner.verify import moves_bound, require, verify
from tests.spark_jobs.planner.clusters import cluster, clusters, goals, of_kind
from tests.spark_jobs.planner.oracles import integer_programme

SLOW = settings(deadline=None, suppress_health_check=list(HealthCheck))


def independent_problems(problem, lists):
    """What is wrong with replica lists, in plain Python; an empty list for a valid plan."""
    wrong = []
    brokers = problem.broker_count
    load, led = [0] * brokers, [0] * brokers
    cells = {}
    for p, row in enumerate(lists.tolist()):
        replicas = [b for b in row if b != -1]
        rf = problem.factors[problem.factor[p]]
        if row[: len(replicas)] != replicas or len(replicas) != rf or len(set(replicas)) != rf:
            wrong.append("list")
            continue
        if any(not 0 <= b < brokers or not problem.eligible[b] for b in replicas):
            wrong.append("broker")
            continue
        for g in range(len(problem.rack_brokers)):
            held = sum(problem.rack[b] == g for b in replicas)
            if not problem.rack_min[problem.factor[p], g] <= held <= problem.rack_max[problem.factor[p], g]:
                wrong.append("rack")
        led[replicas[0]] += 1
        for b in replicas:
            load[b] += 1
            cells[problem.topic[p], b] = cells.get((problem.topic[p], b), 0) + 1
    for b in range(brokers):
        if not problem.low[b] <= load[b] <= problem.high[b]:
            wrong.append("load")
        if not problem.leader_low[b] <= led[b] <= problem.leader_high[b]:
            wrong.append("leaders")
        for t in range(len(problem.topic_names) if problem.topic_spread else 0):
            low, high = problem.cell_bounds()
            if not low[t, b] <= cells.get((t, b), 0) <= high[t, b]:
                wrong.append("topic")
    return wrong


@settings(SLOW, max_examples=60)
@given(state=clusters(), wanted=goals(), data=st.data())
def test_a_changed_plan_is_rejected_exactly_when_it_breaks_a_rule(state, wanted, data):
    plan = optimal_plan(state, wanted)
    lists = plan.lists.copy()
    for _ in range(data.draw(st.integers(1, 3))):
        p = data.draw(st.integers(0, len(lists) - 1))
        kind = data.draw(st.sampled_from(["replace", "drop", "swap", "duplicate", "leader"]))
        i, j = data.draw(st.integers(0, lists.shape[1] - 1)), data.draw(st.integers(0, lists.shape[1] - 1))
        if kind == "replace":
            lists[p, i] = data.draw(st.integers(-2, state.broker_count))
        elif kind == "drop":
            lists[p, i] = -1
        elif kind == "swap":
            q = data.draw(st.integers(0, len(lists) - 1))
            lists[p, i], lists[q, j] = lists[q, j], lists[p, i]
        elif kind == "duplicate":
            lists[p, i] = lists[p, j]
        else:
            lists[p, 0], lists[p, j] = lists[p, j], lists[p, 0]
    verdict = verify(plan.problem, lists, plan.certificate)
    assert bool(verdict.problems) == bool(independent_problems(plan.problem, lists))


@settings(SLOW, max_examples=60)
@given(state=clusters(partitions_max=6), wanted=goals(), data=st.data())
def test_no_certificate_proves_more_than_the_optimum(state, wanted, data):
    plan = optimal_plan(state, wanted)
    certificate = plan.certificate
    price = st.integers(-3 * certificate.scale, 3 * certificate.scale)
    brokers = state.broker_count
    forged = replace(
        certificate,
        broker_price=certificate.broker_price + data.draw(st.lists(price, min_size=brokers, max_size=brokers)),
        cell_price=certificate.cell_price
        + np.array(
            data.draw(st.lists(price, min_size=len(certificate.cell_price), max_size=len(certificate.cell_price))), int
        ),
        scale=data.draw(st.sampled_from([certificate.scale, 1, 10 * certificate.scale, -1, 1 << 50])),
        kept_leader_reward=np.array(data.draw(st.lists(st.integers(-5, 5), min_size=brokers, max_size=brokers))),
    )
    assert moves_bound(plan.problem, forged) <= integer_programme(plan.problem)


def test_prices_that_would_overflow_prove_nothing():
    plan = optimal_plan(of_kind("skewed"))
    forged = replace(plan.certificate, broker_price=np.full(plan.state.broker_count, np.int64(1) << 60))
    assert moves_bound(plan.problem, forged) == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        pytest.param(lambda lists: lists[:-1], "replica lists expected", id="a partition is missing"),
        pytest.param(
            lambda lists: np.where(lists == 0, 99, lists), "unknown broker", id="a broker that does not exist"
        ),
        pytest.param(lambda lists: lists[:, :2], "wrong number of replicas", id="short lists"),
        pytest.param(lambda lists: np.roll(lists, 1, axis=0), "", id="lists of other partitions may even be valid"),
        pytest.param(lambda lists: np.repeat(lists[:, :1], 3, 1), "broker twice", id="a broker twice"),
        pytest.param(
            lambda lists: np.where(lists == lists[0, 0], 1, lists), "dead or leaving", id="on a leaving broker"
        ),
    ],
)
def test_the_message_names_the_broken_rule(change, said):
    state = of_kind("drain")
    plan = optimal_plan(state)
    verdict = verify(plan.problem, change(plan.lists), plan.certificate)
    assert said in "; ".join(verdict.problems)


def test_a_rejected_plan_says_what_to_do():
    state = cluster([[0, 1], [0, 1], [0, 1]], brokers=3)
    wanted = Goals(tolerance=Tolerance(topic=0))
    plan = optimal_plan(state, wanted)
    with pytest.raises(PlanRejectedError, match=r"brokers outside their replica bounds.*plan again"):
        require(verify(problem_of(state, wanted), state.replicas.astype(np.int64), plan.certificate), "plan")


def test_the_verifier_imports_no_solver():
    code = "import sys, spark_jobs.planner.verify; print(any(m.split('.')[0] in ('ortools', 'scipy') for m in sys.modules))"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
