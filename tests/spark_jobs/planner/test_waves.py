"""Waves stay within their limits, end at the plan, are as few as proven, and never endanger a partition."""

import json
from collections import Counter

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spark_jobs.planner.errors import ImpossibleGoalError
from spark_jobs.planner.goals import Goals, Tolerance
from spark_jobs.planner.planning import optimal_plan
from spark_jobs.planner.waves import Limits, schedule
from tests.spark_jobs.planner.clusters import KINDS, cluster, clusters, goals, of_kind

SLOW = settings(deadline=None, suppress_health_check=list(HealthCheck))
OPTIONAL = st.one_of(st.none(), st.integers(1, 4))


def walk(plan, waves):
    """Replays waves: yields (wave, {row: (list before, list after)}) with lists of positions."""
    state = plan.state
    now = {row: [int(b) for b in state.replicas[row] if b >= 0] for row in range(state.partition_count)}
    for wave in waves:
        step = {}
        for row, replicas in zip(wave.rows.tolist(), wave.lists.tolist(), strict=True):
            after = [b for b in replicas if b >= 0]
            step[row] = now[row], after
            now[row] = after
        yield wave, step
    yield None, {row: (replicas, replicas) for row, replicas in now.items()}


@settings(SLOW, max_examples=80)
@given(
    state=clusters(),
    wanted=goals(),
    limits=st.builds(Limits, in_max=OPTIONAL, out_max=OPTIONAL, partitions_max=OPTIONAL),
)
def test_waves_keep_their_limits_and_end_at_the_plan(state, wanted, limits):
    plan = optimal_plan(state, wanted)
    cut = schedule(plan, limits)
    final = {
        int(row): [b for b in new if b >= 0] for row, new in zip(plan.problem.rows, plan.lists.tolist(), strict=True)
    }
    alone = set(state.without_live_replica().tolist())
    for wave, step in walk(plan, cut.waves):
        if wave is None:
            assert {row: after for row, (_, after) in step.items()} == final
            continue
        if set(step) & alone:
            assert wave is cut.waves[-1]
            assert set(step) <= alone
            continue
        received, sent = Counter(), Counter()
        for row, (before, after) in step.items():
            fresh = set(after) - set(before)
            received.update(fresh)
            sent[int(state.leader[row])] += len(fresh)
        assert max(received.values(), default=0) <= (limits.in_max or 99)
        assert max((n for b, n in sent.items() if b >= 0), default=0) <= (limits.out_max or 99)
        assert len(step) <= (limits.partitions_max or 99)
    assert len(cut.waves) >= cut.lower_bound


@settings(SLOW, max_examples=80)
@given(state=clusters(), wanted=goals())
def test_in_sync_replicas_stay_a_majority_while_copies_run(state, wanted):
    plan = optimal_plan(state, wanted)
    synced = {
        row: {int(b) for b, ok in zip(state.replicas[row], state.in_sync[row], strict=True) if ok}
        for row in range(state.partition_count)
    }
    waiting = set(state.without_live_replica().tolist())
    for wave, step in walk(plan, schedule(plan, Limits()).waves):
        if wave is None:
            break
        for row, (before, after) in step.items():
            if row in waiting:
                continue
            together = set(before) | set(after)  # Kafka's list while the copies run
            fresh = len(together) - len(before)
            # One copy at a time is always allowed: nothing smaller exists.
            assert fresh <= 1 or 2 * len(synced[row]) > len(together)
            synced[row] = (synced[row] | (set(after) - set(before))) & set(after)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "limits", [Limits(in_max=2, out_max=2), Limits(in_max=3, out_max=None), Limits(in_max=7, out_max=4)]
)
def test_waves_are_as_few_as_proven(kind, limits):
    cut = schedule(optimal_plan(of_kind(kind)), limits)
    assert (cut.gap, len(cut.waves)) == (0, cut.lower_bound)


def test_regular_loads_where_first_fit_needs_more_reach_the_bound_by_edge_colouring():
    rng = np.random.default_rng(3)
    lists = [[int(b)] for b in rng.integers(0, 8, 400)]
    state = cluster(lists, brokers=16, drain=range(8))
    cut = schedule(optimal_plan(state, Goals(topic_spread=False)), Limits(in_max=1, out_max=1))
    assert cut.gap == 0


def test_several_copies_of_a_partition_are_coloured_apart():
    rng = np.random.default_rng(5)
    state = cluster([[int(b)] for b in rng.integers(0, 6, 150)], brokers=9, wanted=[3] * 150)
    cut = schedule(optimal_plan(state, Goals(topic_spread=False)), Limits(in_max=3, out_max=3))
    assert cut.gap == 0


def test_partitions_that_nobody_leads_are_coloured_with_the_others():
    rng = np.random.default_rng(3)
    lists = [[int(b)] for b in rng.integers(0, 8, 400)]
    state = cluster(
        lists, brokers=16, drain=range(8), leaders=[-1 if p % 50 == 0 else b for p, (b,) in enumerate(lists)]
    )
    assert schedule(optimal_plan(state, Goals(topic_spread=False)), Limits(in_max=1, out_max=1)).gap == 0


def test_a_request_stays_below_its_limit_of_bytes():
    state = of_kind("skewed")
    plan = optimal_plan(state)
    cut = schedule(plan, Limits(in_max=None, out_max=None, request_bytes_max=900))
    sizes = [len(json.dumps(document, separators=(",", ":"))) for document in cut.to_json(state)]
    assert max(sizes) <= 900
    assert len(sizes) > 1


def test_bytes_per_broker_and_wave_are_capped_and_estimated():
    state = of_kind("drain")
    plan = optimal_plan(state, Goals(topic_spread=False))
    cut = schedule(plan, Limits(in_max=None, out_max=None, broker_bytes_max=4_000, bandwidth=100, window_s=10))
    assert max(wave.bytes_busiest for wave in cut.waves) <= 4_000
    assert cut.seconds(cut.waves[0]) == cut.waves[0].bytes_busiest / 100
    assert cut.throttle(cut.waves[0]) == -(-cut.waves[0].bytes_busiest // 10)
    assert cut.seconds_estimated == pytest.approx(sum(wave.bytes_busiest for wave in cut.waves) / 100, abs=0.1)


def test_a_replica_above_the_byte_limit_fills_one_wave_and_is_named():
    state = cluster([[0]] * 5, brokers=2, drain=[0], sizes=[10_000, 400, 300, 200, 100], topics=list("abcde"))
    cut = schedule(optimal_plan(state), Limits(in_max=None, out_max=None, broker_bytes_max=1_000))
    assert (len(cut.waves), cut.lower_bound, cut.gap) == (2, 2, 0)
    assert cut.bound_reason == "broker 1 receives 2000 bytes, each replica counted up to the limit"
    assert sorted(wave.bytes_busiest for wave in cut.waves) == [1_000, 10_000]
    assert cut.oversized == ("a-0",)
    assert cut.summary()["oversized"] == ["a-0"]


def test_partitions_without_a_live_replica_wait_in_the_last_wave():
    state = cluster([[0, 1], [2, 3], [0, 2]], brokers=5, dead=[2, 3], leaders=[0, -1, 0])
    plan = optimal_plan(state)
    cut = schedule(plan, Limits())
    assert cut.waiting == ("t-1",)
    assert cut.waves[-1].rows.tolist() == [1]
    assert "no live replica" in " ".join(plan.remarks)


def test_a_list_that_is_replaced_as_a_whole_takes_its_steps():
    state = cluster([[0, 1, 2]], brokers=6, drain=[0, 1, 2])
    plan = optimal_plan(state)
    cut = schedule(plan, Limits())
    assert [wave.added for wave in cut.waves] == [2, 1]
    assert cut.to_json(state)[-1] == plan.reassignment_json()


def test_a_limit_below_one_is_refused():
    plan = optimal_plan(of_kind("drain"))
    with pytest.raises(ImpossibleGoalError, match="in_max 0: 1 or more expected"):
        schedule(plan, Limits(in_max=0))


def test_nothing_to_do_is_no_wave():
    state = cluster([[0, 1], [1, 0]])
    plan = optimal_plan(state, Goals(tolerance=Tolerance(topic=0)))
    assert schedule(plan).waves == ()
