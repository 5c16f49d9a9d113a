"""A run that leaves while Kafka works at a step, and goes on when there is something to do for it."""

from datetime import timedelta
from typing import Any

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from kafka_maintenance.operations.apply import progress as progress_module
from kafka_maintenance.operations.apply.execution import EXECUTION_PATH
from kafka_maintenance.operations.apply.executions import request_stop
from kafka_maintenance.operations.apply.parked import wants_its_run
from kafka_maintenance.operations.errors import (
    ClusterBusyError,
    NotFinishedError,
    StillUnderWayError,
    StoppedForGoodError,
)
from kafka_maintenance.operations.plans.elections import plan_elections
from kafka_maintenance.operations.plans.store import read_plan
from kafka_maintenance.operations.record.receipts import read_events
from tests.kafka_maintenance.operations.apply.applying import (
    CARRIED_OUT,
    NOW,
    apply,
    cluster,
    deletion,
    elections,
    events,
    left_behind,
    moves,
    planned,
)


def parked(make: Any = moves) -> tuple[MemoryStore, Any, Any]:
    store, world, plan = planned(make)
    world.hangs = True
    with pytest.raises(StillUnderWayError, match=r"step 1 of .: Kafka works at it") as left:
        apply(store, plan, world, patience_s=0.0, step_timeout_s=600.0)
    assert left.value.step == 0
    return store, world, plan


def go_on(store: MemoryStore, plan: Any, world: Any, **changed: Any) -> Any:
    arguments = {"patience_s": 0.0, "step_timeout_s": 600.0, "resumed": True}
    return apply(store, plan, world, **{**arguments, **changed})


def wants(store: MemoryStore, plan: Any, world: Any, number: int = 0) -> str | None:
    record = read_events(store, "demo", plan.digest)
    return wants_its_run(store, read_plan(store, plan.uri), plan.digest, number, world.zookeeper(), record)


@pytest.mark.parametrize("make", [elections, moves, deletion])
def test_a_run_that_left_goes_on_and_its_record_is_that_of_one_that_stayed(make):
    store, world, plan = parked(make)
    assert events(store, plan) == ["started", "intended", "requested"]
    assert left_behind(world) == []
    assert wants(store, plan, world) is None
    with pytest.raises(StillUnderWayError):
        go_on(store, plan, world)
    world.wake()
    assert wants(store, plan, world) == "Kafka has finished the step"
    go_on(store, plan, world)
    waves = 2 if make is moves else 1
    assert events(store, plan) == [CARRIED_OUT[0], *CARRIED_OUT[1:4] * waves, CARRIED_OUT[4]]
    assert len(world.wrote) == waves


def test_no_other_plan_begins_while_a_run_is_away():
    store, world, plan = parked()
    with pytest.raises(ClusterBusyError, match=r"step 1 of plan [0-9a-f]{64}, approved by 'ann', was asked for"):
        apply(store, elections(store, world), world)
    assert world.own.exists(EXECUTION_PATH) is not None
    assert plan.digest in str(world.own.get(EXECUTION_PATH)[0])


def test_a_run_leaves_its_worker_for_the_pause_between_two_batches_and_no_other_plan_begins():
    store, world = MemoryStore(), cluster()
    plan = plan_elections(store, "demo", zookeeper=world.zookeeper(), now=NOW, elections_per_minute=1)
    with pytest.raises(StillUnderWayError, match=r"step 2 of 2: not asked for another \d+ s, by the rule of the plan"):
        apply(store, plan, world, patience_s=0.0)
    assert (len(world.wrote), left_behind(world)) == (1, [])
    with pytest.raises(ClusterBusyError, match=f"plan {plan.digest}.* waits with step 2"):
        apply(store, moves(store, world), world)

    def wanted(seconds: int) -> str | None:
        record, document = read_events(store, "demo", plan.digest), read_plan(store, plan.uri)
        return wants_its_run(
            store, document, plan.digest, 1, world.zookeeper(), record, now=NOW + timedelta(seconds=seconds)
        )

    assert (wanted(50), wanted(90)) == (None, "the pause between two steps is over")
    go_on(store, plan, world, now=NOW + timedelta(seconds=90), patience_s=None)
    assert events(store, plan)[-1] == "done"
    assert len(world.wrote) == 2


def test_the_time_of_a_step_goes_on_while_its_run_is_away():
    store, world, plan = parked()
    with pytest.raises(NotFinishedError, match=r"outcome\(s\) not seen in time"):
        go_on(store, plan, world, now=NOW + timedelta(seconds=601))
    assert events(store, plan)[-1] == "unfinished"
    world.wake()
    apply(store, plan, world)
    assert events(store, plan)[-1] == "done"


def test_a_stop_that_is_asked_for_while_the_run_is_away_is_heard():
    store, world, plan = parked()
    request_stop(store, "demo", plan.digest, by="ben", reason="lunch", now=NOW + timedelta(minutes=1))
    assert wants(store, plan, world) == "somebody asked for its end"
    with pytest.raises(StoppedForGoodError, match="ben asked for it: lunch"):
        go_on(store, plan, world, now=NOW + timedelta(minutes=2))
    assert events(store, plan)[-1] == "stopped"


def test_a_stop_that_nobody_is_there_to_hear_keeps_no_other_plan_away_once_kafka_is_done():
    """The gate of its run was cleared and answered with Reject: the task that was to hear it is not permitted any more."""
    store, world, plan = parked()
    request_stop(store, "demo", plan.digest, by="ben", reason="rejected", now=NOW + timedelta(minutes=1))
    other = deletion(store, world)
    with pytest.raises(ClusterBusyError, match=f"step 1 of plan {plan.digest}.* not seen to finish"):
        apply(store, other, world)
    world.wake()
    apply(store, other, world)
    assert world.own.exists(EXECUTION_PATH) is None


@pytest.mark.parametrize("skew", [timedelta(hours=-1), timedelta(hours=1)])
def test_a_stop_is_heard_and_a_run_goes_on_whatever_the_clocks_say(skew):
    store, world, plan = parked()
    with pytest.raises(StillUnderWayError):
        go_on(store, plan, world, now=NOW + skew, step_timeout_s=7200.0)
    request_stop(store, "demo", plan.digest, by="ben", reason="lunch", now=NOW + 2 * skew)
    assert wants(store, plan, world) == "somebody asked for its end"
    with pytest.raises(StoppedForGoodError, match="ben asked for it: lunch"):
        go_on(store, plan, world, step_timeout_s=7200.0)
    with pytest.raises(StillUnderWayError):  # a new run is not concerned
        apply(store, plan, world, patience_s=0.0, step_timeout_s=600.0)
    assert wants(store, plan, world) is None
    world.wake()
    go_on(store, plan, world, now=NOW + skew)
    assert events(store, plan)[-1] == "done"


def test_a_run_whose_execution_was_removed_is_wanted_and_goes_on():
    store, world, plan = parked()
    world.own.delete(EXECUTION_PATH, 0)
    assert wants(store, plan, world) == "its execution does not stand any more"
    world.wake()
    go_on(store, plan, world)
    assert events(store, plan)[-1] == "done"


def test_a_run_that_goes_on_tells_on_from_what_was_recorded(monkeypatch):
    store, world, plan = parked()
    monkeypatch.setattr(progress_module, "LINE_S", 0.0)
    for minutes in (1, 20, 40, 60):
        with pytest.raises(StillUnderWayError):
            go_on(store, plan, world, now=NOW + timedelta(minutes=minutes), step_timeout_s=7200.0)
    told = [each for each in read_events(store, "demo", plan.digest) if each.event in {"observed", "stuck"}]
    assert [str(each.event) for each in told] == ["observed", "observed", "observed", "stuck", "observed"]
    assert [each.detail["seconds"] for each in told if each.event == "observed"] == [60, 1200, 2400, 3600]
    assert "nothing came nearer for 00:3" in told[3].detail["reasons"][0]
