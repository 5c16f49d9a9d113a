"""An approved plan that meets a busy cluster waits for its turn, within a bound, and keeps its approval."""

from dataclasses import replace
from datetime import timedelta

import pytest

from kafka_maintenance.operations.apply.cluster_lock import Holder, cluster_lock
from kafka_maintenance.operations.gate import approvals
from tests.dags.conftest import NOW
from tests.dags.runs import answered_by, answering, gate_records, receipt_of, run_plan
from tests.dags.world import CLUSTER, ELECTION

OTHER = Holder("b" * 64, "another.run", "otto", NOW.isoformat())


@pytest.fixture
def waits(monkeypatch):
    """`waits(act)`: what everybody is told is kept in the list that this returns, and `act` is called with it; the triggerer looks often."""
    from kafka_maintenance.tasks import apply, triggers

    monkeypatch.setitem(triggers.PlanTrigger.__init__.__kwdefaults__, "look_every_s", 0.05)
    told = []

    def then(act):
        def ring(_, alarm):
            told.append(alarm)
            act()

        monkeypatch.setattr(apply, "ring", ring)
        return told

    return then


def approved_run(bag, clients, world, plan):
    with answering(clients, "elect_preferred_leaders", answered_by(clients["olivia"], "Approve")):
        states = run_plan(bag, plan)[1]
    world.works.set()  # also where nobody was told: its thread keeps the process from ending
    return states


def test_it_goes_on_when_another_run_releases_the_lock(bag, clients, world, plan, tmp_path, waits):
    other = cluster_lock(world.server.session(), OTHER, wait_s=0)
    other.__enter__()
    told = waits(lambda: other.__exit__(None, None, None))
    states = approved_run(bag, clients, world, plan)
    assert (states["apply_plan"], states["verify"], len(world.requests)) == ("success", "success", 1)
    (text,) = told
    assert "waits for its turn until " in text
    assert "run 'another.run' applies plan bbbbbbbbbbbb, approved by 'otto'" in text
    assert [event["event"] for event in receipt_of(tmp_path, plan)].count("started") == 1
    assert len(gate_records(tmp_path, "asked")) == 1


def test_it_goes_on_when_the_request_of_another_tool_is_done(bag, clients, world, plan, tmp_path, waits):
    world.works.clear()
    world.zookeeper.create(ELECTION, b'{"version":1,"partitions":[{"topic":"orders","partition":1}]}')
    told = waits(world.works.set)
    states = approved_run(bag, clients, world, plan)
    assert (states["apply_plan"], states["verify"], len(told)) == ("success", "success", 1)
    assert len(world.requests) == 2
    events = [event["event"] for event in receipt_of(tmp_path, plan)]
    assert (events[:2], events[-1]) == (["started", "refused"], "done")


def test_after_its_bound_it_fails_and_names_who_is_at_work(bag, clients, world, plan, waits, monkeypatch, capsys):
    from kafka_maintenance.tasks import apply

    monkeypatch.setattr(apply, "SETTINGS", replace(apply.SETTINGS, busy_wait_s=0))
    told = waits(lambda: None)
    task = bag.dags["elect_preferred_leaders"].get_task("apply_plan")
    monkeypatch.setattr(task, "retry_policy", None)  # as on Airflow 3.2, which tries again after every other error
    monkeypatch.setattr(task, "retry_delay", timedelta(0))
    who = answered_by(clients["olivia"], "Approve")
    with cluster_lock(world.server.session(), OTHER, wait_s=0), answering(clients, "elect_preferred_leaders", who):
        run, states = run_plan(bag, plan)
    world.works.set()
    assert (states["apply_plan"], states["verify"], world.requests, told) == ("failed", "upstream_failed", [], [])
    assert run.get_task_instance("apply_plan").try_number == 1
    assert "run 'another.run' applies plan bbbbbbbbbbbb" in capsys.readouterr().out


def test_an_approval_that_is_withdrawn_while_it_waits_counts_no_more(bag, clients, world, plan, waits, tmp_path):
    from controller_core.adapters.object_store.open import open_store

    other = cluster_lock(world.server.session(), OTHER, wait_s=0)
    other.__enter__()

    def withdraw():
        run = gate_records(tmp_path, "asked")[0]["run"]
        approvals.withdraw(open_store(str(tmp_path)), cluster=CLUSTER, run=run, by="otto", comment=None, now=NOW)
        other.__exit__(None, None, None)

    waits(withdraw)
    states = approved_run(bag, clients, world, plan)
    assert (states["apply_plan"], world.requests) == ("failed", [])


def test_a_plan_that_was_begun_meets_a_lock_and_is_no_new_beginning(
    bag, clients, world, plan, waits, monkeypatch, tmp_path
):
    from kafka_maintenance.tasks import apply, triggers

    monkeypatch.setattr(apply, "SETTINGS", replace(apply.SETTINGS, patience_s=0))
    monkeypatch.setitem(triggers.PlanTrigger.__init__.__kwdefaults__, "look_every_s", 0.05)
    other = cluster_lock(world.server.session(), OTHER, wait_s=0)
    world.works.clear()
    look = triggers.ExecutionTrigger._look

    def taken(self):
        other.__enter__()
        world.works.set()
        monkeypatch.setattr(triggers.ExecutionTrigger, "_look", look)
        return "time to record how far the step is"

    monkeypatch.setattr(triggers.ExecutionTrigger, "_look", taken)
    told = waits(lambda: other.__exit__(None, None, None))
    states = approved_run(bag, clients, world, plan)
    assert (states["apply_plan"], states["verify"], len(told)) == ("success", "success", 1)
    assert [event["event"] for event in receipt_of(tmp_path, plan)].count("started") == 1
