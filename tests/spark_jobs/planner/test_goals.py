"""Each goal does what it says, and an impossible one says why."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from spark_jobs.planner import planning
from spark_jobs.planner.bounds import problem_of
from spark_jobs.planner.errors import ImpossibleGoalError, InvalidStateError
from spark_jobs.planner.goals import Aim, Goals, Tolerance
from spark_jobs.planner.planning import optimal_plan
from spark_jobs.planner.verify import forced_adds
from tests.spark_jobs.planner.clusters import cluster, of_kind


def loads(plan):
    return np.bincount(plan.lists[plan.lists >= 0], minlength=plan.state.broker_count)


def test_a_drained_broker_ends_empty():
    plan = optimal_plan(of_kind("skewed"), Goals(drain=frozenset({3, 4})))
    assert loads(plan)[[3, 4]].tolist() == [0, 0]


def test_added_brokers_get_their_share():
    plan = optimal_plan(of_kind("grow"))
    assert ((loads(plan) >= plan.problem.low) & (loads(plan) <= plan.problem.high)).all()
    assert loads(plan)[-1] > 0


def test_repair_makes_only_the_forced_moves():
    state = of_kind("rack broken")
    plan = optimal_plan(state, Goals(aim=Aim.REPAIR))
    assert plan.moves == forced_adds(problem_of(state, Goals())).sum()
    assert plan.moves < optimal_plan(state).moves


def test_repair_does_not_overload_a_broker_to_save_nothing():
    state = of_kind("drain", brokers=12, partitions=240)
    plan = optimal_plan(state, Goals(aim=Aim.REPAIR, topic_spread=False))
    before = np.bincount(state.replicas.ravel(), minlength=12)
    assert loads(plan).max() <= max(before.max(), plan.problem.high.max())
    assert loads(plan)[1] == 0


def test_leaders_alone_moves_no_replica():
    state = of_kind("skewed")
    plan = optimal_plan(state, Goals(aim=Aim.LEADERS))
    assert plan.moves == 0
    assert {tuple(sorted(a)) for a in plan.lists.tolist()} == {tuple(sorted(a)) for a in state.replicas.tolist()}
    led = np.bincount(plan.lists[:, 0], minlength=state.broker_count)
    assert led.max() - led.min() <= 1


def test_leaders_alone_never_asks_a_dead_broker():
    state = cluster([[0, 1], [0, 1], [2, 1], [2, 0]], dead=[2], leaders=[0, 0, 1, 0])
    plan = optimal_plan(state, Goals(aim=Aim.LEADERS))
    assert 2 not in plan.lists[:, 0].tolist()


def test_a_replaced_broker_hands_everything_to_its_replacement_and_nobody_else_moves():
    state = cluster([[0, 1], [1, 2], [2, 0], [0, 2]], brokers=4)
    plan = optimal_plan(state, Goals(replace={0: 3}))
    assert plan.reassignment_json()["partitions"] == [
        {"topic": "t", "partition": 0, "replicas": [3, 1]},
        {"topic": "t", "partition": 2, "replicas": [2, 3]},
        {"topic": "t", "partition": 3, "replicas": [3, 2]},
    ]


def test_chosen_topics_alone_change():
    state = of_kind("skewed")
    plan = optimal_plan(state, Goals(include_topics=("t00*",), exclude_topics=("t001",)))
    named = {row["topic"] for row in plan.reassignment_json()["partitions"]}
    assert named
    assert all(topic.startswith("t00") and topic != "t001" for topic in named)


@pytest.mark.parametrize("factor", [1, 2, 4])
def test_the_replication_factor_of_all_lists_changes(factor):
    plan = optimal_plan(of_kind("skewed"), Goals(replication_factor=factor))
    assert set((plan.lists >= 0).sum(1).tolist()) == {factor}
    assert plan.gap == 0


def test_a_cap_on_moves_widens_the_tolerance_no_further_than_needed():
    state = of_kind("skewed")
    free = optimal_plan(state, Goals(topic_spread=False))
    cap = free.moves * 2 // 3
    capped = optimal_plan(state, Goals(topic_spread=False, moves_max=cap))
    assert capped.moves <= cap
    width = int(capped.remarks[0].rsplit(" ", 1)[1])
    tighter = Goals(topic_spread=False, tolerance=Tolerance(replicas=width - 1, topic=width))
    assert optimal_plan(state, tighter).moves_bound > cap


def test_a_cap_on_bytes_is_kept():
    state = of_kind("skewed")
    free = optimal_plan(state, Goals(topic_spread=False))
    capped = optimal_plan(state, Goals(topic_spread=False, bytes_max=free.bytes_moved // 2))
    assert capped.bytes_moved <= free.bytes_moved // 2


def test_even_bytes_cost_moves_but_no_bound():
    state = of_kind("skewed")
    plain = optimal_plan(state, Goals(topic_spread=False))
    even = optimal_plan(state, Goals(topic_spread=False, bytes_tolerance=0.03))
    assert even.balance()["after"]["bytes_max_over_mean"] < plain.balance()["after"]["bytes_max_over_mean"]
    assert loads(even).tolist() == loads(plain).tolist()
    assert "no plan is below" in " ".join(even.remarks)


@pytest.mark.parametrize("topic_spread", [True, False])
def test_even_bytes_beside_a_cap_take_what_the_plan_leaves(topic_spread):
    state = of_kind("skewed")
    plain = optimal_plan(state, Goals(topic_spread=topic_spread))
    wanted = Goals(topic_spread=topic_spread, bytes_tolerance=0.03)
    free = optimal_plan(state, wanted)
    assert free.moves > plain.moves
    for moves_max in (plain.moves, plain.moves + 1, (plain.moves + free.moves) // 2, free.moves):
        capped = optimal_plan(state, replace(wanted, moves_max=moves_max))
        assert plain.moves <= capped.moves <= moves_max
        assert capped.widened == plain.widened
        assert loads(capped).tolist() == loads(plain).tolist()
        assert excess(capped) < excess(plain)
        assert moves_max > plain.moves or capped.remarks[0].endswith("cost 0 moves; the cap allows no more")
    for bytes_max in (plain.bytes_moved, plain.bytes_moved * 11 // 10):
        capped = optimal_plan(state, replace(wanted, bytes_max=bytes_max))
        assert capped.bytes_moved <= bytes_max
        assert excess(capped) <= excess(plain)


def excess(plan):
    return plan.balance()["after"]["bytes_max_over_mean"]


def test_where_fewer_moves_are_counted_than_dealt_the_tolerance_is_widened_once_more(monkeypatch):
    state, counted = of_kind("skewed"), planning.fewest_moves
    cap = optimal_plan(state).moves * 2 // 3
    monkeypatch.setattr(planning, "fewest_moves", lambda problem: (counted(problem)[0] // 2, False))
    capped = optimal_plan(state, Goals(moves_max=cap))
    assert capped.moves <= cap
    tighter = Tolerance(replicas=capped.widened[0] - 1, topic=capped.widened[0])
    assert optimal_plan(state, Goals(tolerance=tighter)).moves > cap


def test_the_curve_has_no_more_moves_than_a_plan_that_is_not_proven(monkeypatch):
    solve = planning.solve

    def solved(problem):
        found = solve(problem)
        return replace(found, verdict=replace(found.verdict, moves_bound=found.verdict.moves - 3))

    monkeypatch.setattr(planning, "solve", solved)
    plan = optimal_plan(of_kind("skewed"), Goals(tolerance=Tolerance.uniform(1)))
    (point,) = (point for point in plan.curve if point.tolerance == 1)
    assert (point.moves, point.proven) == (plan.moves - 3, False)


def test_even_bytes_leave_the_curve_as_it_is():
    state = of_kind("skewed")
    wanted = Goals(topic_spread=False, tolerance=Tolerance.uniform(0))
    assert optimal_plan(state, replace(wanted, bytes_tolerance=0.03)).curve == optimal_plan(state, wanted).curve


def test_the_curve_falls_with_the_tolerance():
    plan = optimal_plan(of_kind("skewed"))
    assert [point.tolerance for point in plan.curve] == [0, 1, 2, 5]
    moves = [point.moves for point in plan.curve]
    assert moves == sorted(moves, reverse=True)


def test_every_changed_partition_has_a_reason():
    plan = optimal_plan(of_kind("drain"), Goals(topic_spread=False))
    assert len(plan.reasons()) == len(plan.changed)
    assert "a replica is on a broker that leaves (1)" in plan.reasons()
    assert sum(plan.summary()["reasons"].values()) == len(plan.changed)


def test_the_rollback_is_the_state_of_now():
    state = of_kind("grow")
    plan = optimal_plan(state)
    back = {(row["topic"], row["partition"]): row["replicas"] for row in plan.rollback_json()["partitions"]}
    for row in plan.problem.rows[plan.changed].tolist():
        assert back[state.topics[state.topic[row]], int(state.number[row])] == state.ids(state.replicas[row])


@pytest.mark.parametrize(
    "goals",
    [
        pytest.param(Goals(), id="default"),
        pytest.param(Goals(drain=frozenset({3}), bytes_tolerance=0.1, moves_max=5), id="several"),
        pytest.param(Goals(aim=Aim.REPAIR, drain=frozenset({3})), id="repair"),
        pytest.param(Goals(replace={0: 7}, tolerance=Tolerance.uniform(0), include_topics=("a*",)), id="nested"),
    ],
)
def test_goals_come_back_from_their_json(goals):
    assert Goals.from_json(json.loads(json.dumps(goals.to_json()))) == goals


def test_one_number_is_a_tolerance_for_all_bounds():
    assert Goals.from_json({"tolerance": 2}).tolerance == Tolerance.uniform(2)


@pytest.mark.parametrize(
    ("parameters", "said"),
    [
        pytest.param([], "expected dict, found []", id="a list"),
        pytest.param({"colour": "red"}, "found ['colour']", id="no such field"),
        pytest.param({"aim": "beauty"}, "aim: expected one of ['balance', 'repair', 'leaders']", id="no such aim"),
        pytest.param({"topic_spread": "no"}, "topic_spread: expected bool, found 'no'", id="a word for a truth value"),
        pytest.param({"tolerance": {"colour": 1}}, "tolerance: expected some of", id="no such tolerance"),
        pytest.param({"tolerance": -1}, "tolerance: expected int of at least 0, found -1", id="negative"),
        pytest.param({"tolerance": True}, "tolerance: expected int", id="true is no number"),
        pytest.param({"drain": 3}, "drain: expected list, found 3", id="one broker for a list"),
        pytest.param({"drain": ["3"]}, "drain: expected int of at least 0, found '3'", id="a word for a broker"),
        pytest.param({"replace": [1]}, "replace: expected dict", id="a list of replacement brokers"),
        pytest.param({"replace": {"one": 2}}, "replace: invalid literal", id="a word for one who leaves"),
        pytest.param({"include_topics": "orders"}, "include_topics: expected list", id="one pattern for a list"),
        pytest.param({"replication_factor": 0}, "replication_factor: expected int of at least 1", id="no replicas"),
        pytest.param({"replication_factor": 2**31}, "replication_factor: expected a whole", id="too many replicas"),
        pytest.param({"tolerance": {"topic": 2**31}}, "tolerance: expected a whole number from 0", id="too wide"),
        pytest.param({"bytes_tolerance": "10%"}, "bytes_tolerance: expected float", id="a word for a fraction"),
        pytest.param({"bytes_tolerance": math.nan}, "bytes_tolerance: expected a number from 0 on", id="no number"),
        pytest.param({"bytes_tolerance": math.inf}, "bytes_tolerance: expected a number from 0 on", id="infinite"),
        pytest.param({"bytes_tolerance": -0.5}, "bytes_tolerance: expected float of at least 0", id="below zero"),
        pytest.param(
            {"replace": {"1": 3, "01": 4}}, "broker 1 is replaced by 3 and by 4", id="two replacement brokers"
        ),
        pytest.param(
            {"aim": "leaders", "replace": {"1": 2}},
            "aim 'leaders' and replace exclude",
            id="leaders, replacement broker",
        ),
        pytest.param(
            {"aim": "leaders", "replication_factor": 3}, "aim 'leaders' and replication_factor", id="leaders, factor"
        ),
        pytest.param({"aim": "leaders", "bytes_tolerance": 0.1}, "and bytes_tolerance exclude", id="leaders, bytes"),
        pytest.param(
            {"aim": "repair", "replace": {"1": 2}}, "aim 'repair' and replace exclude", id="repair, replacement broker"
        ),
        pytest.param(
            {"aim": "repair", "bytes_tolerance": 0.1}, "aim 'repair' and bytes_tolerance exclude", id="repair, bytes"
        ),
        pytest.param(
            {"replace": {"1": 2}, "bytes_tolerance": 0}, "replace and bytes_tolerance", id="replacement broker, bytes"
        ),
        pytest.param(
            {"replace": {"1": 2}, "tolerance": 1}, "replace and tolerance exclude", id="replacement broker, tolerance"
        ),
    ],
)
def test_other_goals_are_refused(parameters, said):
    with pytest.raises(ImpossibleGoalError, match="goals not read") as refused:
        Goals.from_json(parameters)
    assert said in str(refused.value)


def test_a_whole_number_is_a_fraction_too():
    assert Goals.from_json({"bytes_tolerance": 1}).bytes_tolerance == 1


@pytest.mark.parametrize(
    ("goals", "error", "said"),
    [
        pytest.param(Goals(replication_factor=9), ImpossibleGoalError, "fewer brokers than replicas", id="factor"),
        pytest.param(
            Goals(drain=frozenset({0, 1, 2, 3})), ImpossibleGoalError, "at least one live broker", id="drain all"
        ),
        pytest.param(Goals(drain=frozenset({7})), InvalidStateError, "broker 7 looked up", id="unknown broker"),
        pytest.param(Goals(include_topics=("x*",)), ImpossibleGoalError, "none found", id="no topic"),
        pytest.param(
            Goals(drain=frozenset({0}), moves_max=0), ImpossibleGoalError, "alone need", id="cap below a drain"
        ),
        pytest.param(Goals(bytes_max=1), ImpossibleGoalError, "sizes", id="bytes without sizes"),
        pytest.param(Goals(bytes_tolerance=0.1), ImpossibleGoalError, "sizes", id="even bytes without sizes"),
        pytest.param(
            Goals(aim=Aim.REPAIR, drain=frozenset({0}), bytes_max=1), ImpossibleGoalError, "sizes", id="repair in bytes"
        ),
        pytest.param(Goals(replace={0: 7}), InvalidStateError, "broker 7", id="unknown replacement broker"),
        pytest.param(
            Goals(replace={0: 0}),
            InvalidStateError,
            "0 replaced by 0: expected a live broker",
            id="one's own replacement broker",
        ),
        pytest.param(
            Goals(replace={0: 1}),
            ImpossibleGoalError,
            r"0 by 1: a replacement broker without .* 1 partition that it would hold twice found \[t-0\]; name another replacement broker",
            id="a replacement broker that shares a partition",
        ),
        pytest.param(
            Goals(replace={0: 3, 1: 3}),
            ImpossibleGoalError,
            r"hold twice found \[t-0\]",
            id="one replacement broker for both replicas",
        ),
        pytest.param(
            Goals(replace={0: 3}, replication_factor=3),
            ImpossibleGoalError,
            r"another replication factor for 3 partitions found \[t-0, t-1, t-2\]",
            id="a replacement broker and more replicas",
        ),
        pytest.param(
            Goals(replace={0: 3}, drain=frozenset({1})),
            ImpossibleGoalError,
            "2 replicas on others",
            id="a replacement broker and a drain",
        ),
    ],
)
def test_an_impossible_goal_says_why(goals, error, said):
    with pytest.raises(error, match=said):
        optimal_plan(cluster([[0, 1], [1, 2], [2, 0]], brokers=4), goals)


def test_a_replacement_broker_in_another_rack_is_named_with_its_partitions():
    state = cluster([[0, 1], [0, 1]], brokers=4, racks=["a", "b", "a", "b"])
    with pytest.raises(
        ImpossibleGoalError,
        match=r"2 partitions that would have too many .* \[t-0, t-1\]; name a replacement broker in",
    ):
        optimal_plan(state, Goals(replace={0: 3}))


def test_a_replacement_of_two_brokers_gets_what_both_hold():
    plan = optimal_plan(cluster([[0, 2], [1, 2]], brokers=4), Goals(replace={0: 3, 1: 3}))
    assert plan.lists.tolist() == [[3, 2], [3, 2]]
