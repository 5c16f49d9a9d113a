"""The change window: nothing is asked for, or asked for again, while it is closed."""

from datetime import timedelta
from typing import Any

import pytest

from controller_core.plans.rules import STOP_ON_DIFFERENCE
from kafka_maintenance.operations.apply.execution import find_execution
from kafka_maintenance.operations.apply.parked import wants_its_run
from kafka_maintenance.operations.errors import (
    NotFinishedError,
    PlanStaleError,
    StillUnderWayError,
    StoppedError,
)
from kafka_maintenance.operations.plans.elections import plan_elections
from kafka_maintenance.operations.plans.store import StoredPlan, read_plan
from kafka_maintenance.operations.record.receipts import read_events
from tests.kafka_maintenance.operations.apply.applying import (
    NOW,
    ORDERS_0,
    ORDERS_1,
    apply,
    elections,
    events,
    moves,
    planned,
    under_rule,
)
from tests.kafka_maintenance.operations.apply.killed_run import Killed, killing
from tests.kafka_maintenance.operations.apply.waiting import CLOSED, Waits, Window, waits_recorded


def one_a_minute(store: Any, world: Any) -> StoredPlan | None:
    return plan_elections(store, "demo", zookeeper=world.zookeeper(), now=NOW, elections_per_minute=1)


def in_vain(store: Any, world: Any, plan: Any) -> None:
    world.refuses = {ORDERS_0, ORDERS_1}
    with pytest.raises(NotFinishedError):
        apply(store, plan, world)
    world.refuses = set()


def killed_before_it_asked(store: Any, world: Any, plan: Any) -> None:
    with pytest.raises(Killed):
        apply(killing(store, 8), plan, world)
    assert events(store, plan)[-1] == "intended"


@pytest.mark.parametrize("disturb", [in_vain, killed_before_it_asked])
def test_an_election_is_not_asked_for_again_while_the_window_is_closed(disturb):
    store, world, plan = planned(elections)
    disturb(store, world, plan)
    wrote = list(world.wrote)
    with pytest.raises(NotFinishedError, match=f"not asked again: the change window: .* found {CLOSED}"):
        apply(store, plan, world, window=lambda: CLOSED)
    assert (world.wrote, events(store, plan)[-1]) == (wrote, "unfinished")
    apply(store, plan, world)
    assert (len(world.wrote), events(store, plan)[-1]) == (len(wrote) + 1, "done")


def test_a_later_election_in_vain_waits_for_the_window_before_it_is_asked_for_again():
    store, world, plan = planned(one_a_minute)
    left: dict[str, Any] = {"patience_s": 0.0, "now": NOW + timedelta(seconds=90)}
    with pytest.raises(StillUnderWayError, match="by the rule of the plan"):
        apply(store, plan, world, patience_s=0.0)
    world.refuses = {ORDERS_0, ORDERS_1}
    with pytest.raises(NotFinishedError):
        apply(store, plan, world, **left)
    world.refuses = set()
    with pytest.raises(StillUnderWayError, match="step 2 of 2: not asked yet, the change window is closed"):
        apply(store, plan, world, window=lambda: CLOSED, **left)
    assert len(world.wrote) == 2
    apply(store, plan, world, resumed=True, **left)
    assert (len(world.wrote), events(store, plan)[-1], find_execution(world.own)) == (3, "done", None)


def test_a_later_step_waits_for_the_change_window_for_longer_than_a_step_may_take():
    store, world, plan = planned(moves)
    window = Window()
    stop = Waits(lambda: None, lambda: None, window.open)
    apply(store, plan, world, window=window, stop=stop, step_timeout_s=0.0)
    assert stop.actions == []
    (told,) = waits_recorded(store, plan)
    assert (told.step, told.detail["awaits"]) == (1, "window")
    assert CLOSED in told.detail["reasons"][0]
    assert len(world.wrote) == 2
    assert events(store, plan)[-1] == "done"


def test_a_run_that_waits_for_its_window_can_be_stopped():
    store, world, plan = planned(moves)
    stop = Waits()
    stop.actions = [lambda: stop.ask("Ctrl-C")]
    with pytest.raises(StoppedError, match=r"step 2 of 2: stopped \(Ctrl-C\): nothing of it was asked"):
        apply(store, plan, world, window=Window(), stop=stop)
    assert len(world.wrote) == 1


@pytest.mark.parametrize("first", [True, False])
def test_a_closed_window_refuses_a_first_step_and_by_the_rule_to_stop_a_later_one(first):
    store, world, plan = planned(moves)
    if not first:
        plan = under_rule(store, plan, STOP_ON_DIFFERENCE)
    with pytest.raises(
        PlanStaleError, match=f"not asked: the change window: .* found {CLOSED}; run again when it is open"
    ):
        apply(store, plan, world, window=Window(opens_at=1 - first))
    assert len(world.wrote) == 1 - first
    assert events(store, plan)[-1] == "refused"
    apply(store, plan, world)
    assert len(world.wrote) == 2


def test_a_run_that_waits_for_its_window_leaves_its_worker_and_goes_on_when_it_is_open():
    store, world, plan = planned(moves)
    window = Window()

    def wanted() -> str | None:
        record = read_events(store, "demo", plan.digest)
        return wants_its_run(store, read_plan(store, plan.uri), plan.digest, 1, world.zookeeper(), record, window)

    with pytest.raises(StillUnderWayError, match="step 2 of 2: not asked yet, the change window is closed") as left:
        apply(store, plan, world, window=window, patience_s=0.0)
    assert left.value.step == 1
    assert wanted() is None
    with pytest.raises(StillUnderWayError):
        apply(store, plan, world, window=window, patience_s=0.0, resumed=True)
    assert len(waits_recorded(store, plan)) == 1
    window.open()
    assert wanted() == "its change window is open"
    apply(store, plan, world, window=window, patience_s=0.0, resumed=True)
    assert events(store, plan) == [
        "started", "intended", "requested", "verified", "waiting", "intended", "requested", "verified", "done",
    ]  # fmt: skip
