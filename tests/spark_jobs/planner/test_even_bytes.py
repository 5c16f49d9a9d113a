"""Bytes per broker as a goal: what is said of them is true, and no placement at all is below the bound."""

from random import Random

import numpy as np
import pytest

from spark_jobs.planner.bounds import problem_of
from spark_jobs.planner.even_bytes import even_bytes
from spark_jobs.planner.goals import Goals, Tolerance
from spark_jobs.planner.planning import optimal_plan, solve
from spark_jobs.planner.verify import verify
from tests.spark_jobs.planner.clusters import cluster
from tests.spark_jobs.planner.oracles import evenest

ROUNDED = 1e-9


def drawn(random):
    """Three to five brokers, in up to five racks of any size, and up to five partitions."""
    brokers = random.randint(3, 5)
    racks = [f"r{random.randrange(random.randint(1, 5))}" for _ in range(brokers)] if random.random() < 0.8 else None
    factors = random.choice([[1], [2], [3], [1, 2], [2, 3]])
    lists = [random.sample(range(brokers), random.choice(factors)) for _ in range(random.randint(2, 5))]
    return cluster(
        lists,
        racks=racks,
        brokers=brokers,
        drain=[0] if brokers > 3 and random.random() < 0.3 else [],
        sizes=[random.choice([0, 1, 40, 60, 100]) for _ in lists],
        topics=sorted(random.choice("ab") for _ in lists),
    )


def counts(problem, lists):
    """Replicas and preferred leaders of each broker; that each topic is within its bounds is the verifier's word."""
    return [np.bincount(of, minlength=problem.broker_count).tolist() for of in (lists[lists >= 0], lists[:, 0])]


@pytest.mark.parametrize("seed", range(100))
def test_no_placement_is_below_the_bound_and_the_ratio_is_what_brokers_hold(seed):
    random = Random(seed)
    state = drawn(random)
    wanted = Goals(topic_spread=random.random() < 0.5, tolerance=Tolerance.uniform(random.randint(0, 1)))
    solution = solve(problem_of(state, wanted))
    problem = solution.problem
    evened = even_bytes(problem, solution.lists, random.choice([0, 0.1, 0.5]))
    held = [
        sum(int(size) for size, b in zip(problem.size, evened.lists, strict=True) if broker in b)
        for broker in range(state.broker_count)
    ]
    mean = sum(held) / int(problem.eligible.sum()) or 1
    assert evened.ratio == pytest.approx(max(held) / mean)
    assert evened.ratio_bound <= evenest(problem) / mean * (1 + ROUNDED)
    assert evened.ratio <= evened.ratio_before
    assert verify(problem, evened.lists, solution.certificate).problems == ()
    assert counts(problem, evened.lists) == counts(problem, solution.lists)


@pytest.mark.parametrize(
    ("lists", "topics", "sizes", "spread", "held"),
    [
        pytest.param([[0], [0], [1], [1]], "aabb", [100, 90, 1, 1], 1, [91, 101], id="the topics' bounds allow it"),
        pytest.param([[0], [0], [1], [1]], "abcd", [100, 90, 1, 1], 0, [91, 101], id="topics of one partition"),
        pytest.param([[0], [1], [0], [1]], "aabb", [100, 100, 1, 1], 0, [101, 101], id="nothing to do"),
        pytest.param([[0], [1], [0], [1]], "aabb", [100, 80, 60, 20], 0, [140, 120], id="inside one topic first"),
        pytest.param(
            [[0], [1], [0], [1]], "aabb", [90, 90, 60, 0], 0, [150, 90], id="no topic may have both on one broker"
        ),
    ],
)
def test_replicas_of_two_topics_are_exchanged_within_the_bounds_of_both(lists, topics, sizes, spread, held):
    state = cluster(lists, topics=list(topics), sizes=sizes)
    plan = optimal_plan(state, Goals(tolerance=Tolerance(topic=spread), bytes_tolerance=0.05))
    assert [int(plan.problem.size[(plan.lists == b).any(1)].sum()) for b in range(2)] == held


def test_a_replica_that_is_exchanged_away_and_back_leaves_its_list_as_it_was():
    lists = [[3, 2, 0], [2, 0], [1, 2], [0, 3, 2], [3, 0], [1, 0]]
    state = cluster(lists, sizes=[10, 60, 100, 40, 1, 10])
    plan = optimal_plan(state, Goals(topic_spread=False, bytes_tolerance=0.05))
    assert plan.changed.tolist() == [2, 3, 4, 5]
    assert plan.lists[3].tolist() == [0, 1, 2]  # who stays keeps the order, the new replica takes the vacated place


def heavy_in_two_of_three_racks():
    """Six brokers in racks a, b, c, six partitions of 100 bytes, none of them in rack c, and twelve of 1 byte, all of them in it."""
    heavy = [[0, 1], [3, 4], [1, 3], [4, 0], [0, 1], [3, 4]]
    light = [[(2, 5)[number % 2], (0, 1, 3, 4)[number % 4]] for number in range(12)]
    return cluster(heavy + light, racks=list("abcabc"), sizes=[100] * 6 + [1] * 12)


@pytest.mark.parametrize(
    ("state", "tolerance", "ratio", "bound"),
    [
        pytest.param(
            cluster([[0], [2], [1], [3]], racks=list("abab"), sizes=[100, 100, 1, 1]),
            0.1,
            1.9802,
            1.9802,
            id="one rack has all the bytes, even among its brokers",
        ),
        pytest.param(
            cluster([[0], [1], [2], [3]], racks=list("abab"), sizes=[100, 90, 1, 1]),
            0.1,
            2.0833,
            2.0833,
            id="a replica larger than the mean",
        ),
        pytest.param(cluster([[0], [1], [2], [3]], sizes=[1, 0, 0, 0]), 0.1, 4.0, 4.0, id="a mean below one byte"),
        pytest.param(
            cluster([[0], [0], [1], [1]], sizes=[100, 90, 1, 1]), 0.1, 1.0521, 1.0417, id="leaders are exchanged"
        ),
        pytest.param(heavy_in_two_of_three_racks(), 0.05, 1.0, 1.0, id="exchanges between racks"),
        pytest.param(
            cluster([[0, 1], [0, 2], [0, 3]], racks=list("abbb"), sizes=[10, 20, 30]),
            0.1,
            2.0,
            2.0,
            id="a rack of one broker holds everything",
        ),
        pytest.param(
            cluster(
                [[0, 2], [0, 3], [0, 4], [1, 2], [1, 3], [1, 4]], racks=list("aabbb"), sizes=[30, 25, 20, 20, 15, 10]
            ),
            0.3,
            1.25,
            1.25,
            id="a small rack that can be within the tolerance of the mean",
        ),
        pytest.param(
            cluster(
                [[0, 2], [0, 3], [0, 4], [1, 2], [1, 3], [1, 4]], racks=list("aabbb"), sizes=[30, 20, 20, 20, 20, 10]
            ),
            0.2,
            1.4583,
            1.25,
            id="a small rack that cannot, within the tolerance of what it must hold",
        ),
    ],
)
def test_the_remark_is_true_of_the_plan(state, tolerance, ratio, bound):
    plan = optimal_plan(state, Goals(topic_spread=False, bytes_tolerance=tolerance))
    (remark,) = plan.remarks
    assert f"at most {ratio:.4f} times the mean" in remark
    assert f"no plan is below {bound:.4f}" in remark
    assert plan.balance()["after"]["bytes_max_over_mean"] == ratio
