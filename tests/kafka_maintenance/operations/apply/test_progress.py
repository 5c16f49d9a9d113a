"""What a run tells while it waits, and what it waits for before a step."""

import logging
from dataclasses import replace
from datetime import datetime
from types import SimpleNamespace

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.plans.rules import STOP_ON_DIFFERENCE
from controller_core.ports.zookeeper import ANY_VERSION
from controller_core.znodes import paths as znode
from kafka_maintenance.operations.apply import progress as progress_module
from kafka_maintenance.operations.apply.progress import Teller
from kafka_maintenance.operations.apply.run import look_at
from kafka_maintenance.operations.apply.stop import Stop
from kafka_maintenance.operations.errors import ClusterBusyError, StoppedError
from kafka_maintenance.operations.plans.elections import plan_elections
from kafka_maintenance.operations.plans.store import read_plan
from kafka_maintenance.operations.record.receipts import read_events
from tests.kafka_maintenance.operations.apply.applying import (
    NOW,
    StopsAfter,
    apply,
    cluster,
    events,
    moves,
    planned,
    under_rule,
)
from tests.kafka_maintenance.operations.apply.one_wave import one_wave
from tests.kafka_maintenance.operations.apply.waiting import AfterFirst, Clock, Waits


@pytest.fixture
def told(monkeypatch, caplog):
    """A teller of a step that copies one replica, its clock, its record and what it logs."""
    clock = Clock()
    monkeypatch.setattr(progress_module, "monotonic", clock)
    caplog.set_level(logging.INFO, "kafka_maintenance")
    store, world, plan = planned(one_wave)
    world.slow = True
    found = read_plan(store, plan.uri)
    recorded: list[tuple[str, dict]] = []
    record = SimpleNamespace(
        events=(), uri="memory:///r", append=lambda event, **detail: recorded.append((str(event), detail))
    )
    run = SimpleNamespace(
        log=record, plan=found, brokers=None, name=lambda _: "plan p, step 1 of 1", tell=lambda *_: None
    )
    teller = Teller(run, 0, found.steps[0])

    def see(after_s: float) -> None:
        clock.now_s += after_s
        teller.see(look_at(world.zookeeper(), found.conditions))

    return SimpleNamespace(see=see, world=world, recorded=recorded, lines=caplog)


def test_without_news_there_is_one_line_a_minute_and_seldom_an_observation(told):
    for _ in range(3600):
        told.see(1.0)
    assert len([line for line in told.lines.messages if "since it is waited for" in line]) == 60
    observed = [detail for event, detail in told.recorded if event == "observed"]
    assert 50 <= len(observed) <= 60
    assert observed[0] == {
        "step": 0,
        "seconds": 60,
        "outcomes_done": 0,
        "outcomes": 2,
        "replicas_in_sync": 0,
        "replicas": 1,
        "lagging": [{"topic": "old", "partition": 0, "broker": 3, "is_live": True}],
    }


def test_a_month_of_waiting_is_some_hundred_observations(told):
    for _ in range(30 * 24):
        told.see(3600.0)
    assert len([event for event, _ in told.recorded if event == "observed"]) < 400


def test_a_line_names_what_is_missing_and_since_when(told):
    told.see(0.0)
    (line,) = told.lines.messages
    assert line == (
        "plan p, step 1 of 1: 0 of 1 new replicas in sync, 0 of 2 partitions or topics done, 0 s since it is waited for, "
        "not in sync: old-0 on broker 3"
    )


def test_what_comes_no_nearer_is_stuck_once(told):
    for _ in range(100):
        told.see(60.0)
    (stuck,) = [detail["reasons"][0] for event, detail in told.recorded if event == "stuck"]
    assert stuck.startswith("stuck: nothing came nearer for 00:30: 0 of 1 new replicas in sync")
    assert "look at broker(s) [3]: a throttle below the rate of produce" in stuck
    told.world.set_state("old", 0, leader=1, isr=(1, 2, 3))
    told.see(60.0)
    for _ in range(100):
        told.see(60.0)
    assert [event for event, _ in told.recorded].count("stuck") == 2
    last = [detail["reasons"][0] for event, detail in told.recorded if event == "stuck"][-1]
    assert "every replica is in sync: look at the controller's log" in last


def test_a_broker_that_is_away_is_named_as_the_cause(told):
    told.world.kill(3)
    for _ in range(40):
        told.see(60.0)
    (stuck,) = [detail["reasons"][0] for event, detail in told.recorded if event == "stuck"]
    assert "old-0 on broker 3, which is not registered" in stuck
    assert "start broker(s) [3], or cancel the step" in stuck


FOREIGN = b'{"version":1,"partitions":[{"topic":"old","partition":0,"replicas":[1,2]}]}'


def foreign_request(world) -> None:
    world.hangs = True
    world.own.create(znode.REASSIGN_PARTITIONS, FOREIGN)


def its_end(world) -> None:
    world.own.delete(znode.REASSIGN_PARTITIONS, ANY_VERSION)
    world.hangs = False


def broker_away(world) -> None:
    world.kill(1)


def broker_back(world) -> None:
    world.broker(1)


def thin(world) -> None:
    world.set_state("old", 0, leader=1, isr=(1,))


def full(world) -> None:
    world.set_state("old", 0, leader=1, isr=(1, 2))


@pytest.mark.parametrize(
    ("disturb", "mend", "said"),
    [
        pytest.param(foreign_request, its_end, "expected no znode", id="another tool's request"),
        pytest.param(broker_away, broker_back, "found no broker [1]", id="a broker of the plan is away"),
        pytest.param(thin, full, "at most 0 partitions under-replicated", id="the rest of the cluster is thin"),
    ],
)
def test_a_later_step_waits_until_the_cluster_is_ready(disturb, mend, said):
    store, world, plan = planned(moves)
    stop = Waits(lambda: mend(world))
    receipt = apply(store, plan, world, zookeeper=AfterFirst(world, disturb), stop=stop, step_timeout_s=600.0)
    assert stop.actions == []
    waiting = next(each for each in read_events(store, "demo", plan.digest) if each.event == "waiting")
    assert waiting.step == 1
    assert said in waiting.detail["reasons"][0]
    assert receipt.exceptions == ()


def test_a_run_that_waits_for_the_cluster_can_be_stopped():
    store, world, plan = planned(moves)
    stop = Waits()
    stop.actions = [lambda: stop.ask("Ctrl-C")]
    with pytest.raises(StoppedError, match=r"step 2 of 2: stopped \(Ctrl-C\)"):
        apply(store, plan, world, zookeeper=AfterFirst(world, thin), stop=stop, step_timeout_s=600.0)


def test_under_the_rule_to_stop_a_later_step_is_refused_at_once():
    store, world, plan = planned(moves)
    plan = under_rule(store, plan, STOP_ON_DIFFERENCE)
    with pytest.raises(ClusterBusyError, match="expected no znode"):
        apply(store, plan, world, zookeeper=AfterFirst(world, foreign_request), step_timeout_s=600.0)
    assert "waiting" not in events(store, plan)


def paced(store, world):
    """Two elections, one a minute, under a pause that a test can wait for."""
    plan = plan_elections(store, "demo", zookeeper=world.zookeeper(), now=NOW, elections_per_minute=1)
    rules = read_plan(store, plan.uri).rules
    assert (plan.count, rules.step_pause_s) == (2, 60)
    return under_rule(store, plan, replace(rules, step_pause_s=1))


def test_between_two_batches_of_elections_time_passes():
    store, world = MemoryStore(), cluster()
    plan = paced(store, world)
    apply(store, plan, world)
    told = [
        (str(each.event), each.step, datetime.fromisoformat(each.at))
        for each in read_events(store, "demo", plan.digest)
    ]
    at = {(event, step): at for event, step, at in told}
    assert (at["intended", 1] - at["verified", 0]).total_seconds() >= 1.0
    assert len(world.wrote) == 2


def test_a_run_that_pauses_can_be_stopped():
    store, world = MemoryStore(), cluster()
    plan, stop = paced(store, world), Stop()
    with pytest.raises(StoppedError, match="step 2 of 2: stopped"):
        apply(StopsAfter(store, "-verified.json", stop), plan, world, stop=stop)
    assert len(world.wrote) == 1


def test_one_batch_of_elections_has_no_pause():
    store, world = MemoryStore(), cluster()
    plan = plan_elections(store, "demo", zookeeper=world.zookeeper(), now=NOW)
    assert read_plan(store, plan.uri).rules.step_pause_s == 0
