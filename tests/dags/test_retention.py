"""The retention DAG: a report for everybody, a removal only after a person's yes to exactly that plan."""

import json
from dataclasses import replace
from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from controller_core.adapters.object_store.open import open_store
from tests.dags.connections import airflow_knows
from tests.dags.runs import WHEN_OPENED, answered_by, answering
from tests.kafka_maintenance.snapshot_world import stored_day

POLICY = {"keep_last": 1, "keep_daily": 1, "keep_weekly": 0, "keep_monthly": 0}
GATED = ("plan_retention", "approve", "remove_snapshots", "verify_removal")


@pytest.fixture
def days(monkeypatch, tmp_path):
    """Five dates of `alpha` and one of `beta` in a folder."""
    from controller_core.adapters.object_store.open import FolderStore

    airflow_knows(monkeypatch, tmp_path, alpha=None, beta=None)
    store, now = FolderStore(tmp_path), datetime.now(UTC)
    stored_day(store, now, 6, cluster="beta")
    return [stored_day(store, now, days_ago) for days_ago in range(8, 3, -1)]


def run_plan(bag, **conf):
    run = bag.dags["retain_snapshots"].test(run_conf=POLICY | conf, logical_date=None)
    return {
        f"{ti.task_id}[{ti.map_index}]" if ti.map_index >= 0 else ti.task_id: str(ti.state)
        for ti in run.get_task_instances()
    }


def _left(tmp_path):
    from tests.visible_snapshots import visible_snapshots

    return {manifest.snapshot_id for manifest in visible_snapshots(open_store(str(tmp_path)), "alpha")}


def test_a_scheduled_run_reports_on_every_cluster_and_removes_nothing(bag, clients, days, tmp_path):
    states = run_plan(bag)
    assert {name: states[name] for name in ("report_retention[0]", "report_retention[1]")} == {
        "report_retention[0]": "success",
        "report_retention[1]": "success",
    }
    assert {states[name] for name in GATED} == {"skipped"}
    assert len(_left(tmp_path)) == 5


def test_an_approved_removal_leaves_what_the_policy_keeps(bag, clients, days, tmp_path):
    def look_and_approve(gate):
        answered_by(clients["olivia"], "Approve")(gate)
        return gate

    with answering(clients, "retain_snapshots", look_and_approve) as seen:
        states = run_plan(bag, cluster="alpha", act=True)
    gate = seen.result()
    assert gate["subject"] == "retain_snapshots on alpha: remove 4 of 5 snapshots"
    assert all(day.snapshot_id in gate["body"] for day in days)
    assert {states[name] for name in GATED} == {"success"}
    assert _left(tmp_path) == {days[-1].snapshot_id}
    started, _, done = sorted((tmp_path / "v1" / "receipts" / "cluster=alpha").rglob("*.json"))
    assert json.loads(started.read_text())["detail"]["comment"] == "planned window"
    assert json.loads(done.read_text())["approver"] == "olivia"


def test_a_rejected_removal_removes_nothing(bag, clients, days, tmp_path):
    with answering(clients, "retain_snapshots", answered_by(clients["olivia"], "Reject")):
        states = run_plan(bag, cluster="alpha", act=True)
    assert [states[name] for name in GATED] == ["success", "success", "skipped", "skipped"]
    assert len(_left(tmp_path)) == 5


def test_a_plan_altered_after_the_approval_removes_nothing(bag, clients, days, tmp_path):
    def alter_and_approve(gate):
        (path,) = (tmp_path / "v1" / "retention" / "cluster=alpha").glob("*.json")
        path.chmod(0o644)
        path.write_text(path.read_text().replace(days[0].snapshot_id, days[-1].snapshot_id))
        return answered_by(clients["olivia"], "Approve")(gate)

    with answering(clients, "retain_snapshots", alter_and_approve):
        states = run_plan(bag, cluster="alpha", act=True)
    assert [states[name] for name in GATED[1:]] == ["success", "failed", "upstream_failed"]
    assert len(_left(tmp_path)) == 5


@pytest.mark.parametrize(("second", "left"), [("Approve", 1), ("Reject", 5)])
def test_a_removal_that_nobody_vouches_for_takes_two_persons(bag, clients, days, tmp_path, monkeypatch, second, left):
    """Airflow names nobody who started a run of a schedule: one person might have had it started and approve it."""
    from kafka_maintenance.tasks import approval

    monkeypatch.setattr(approval, "requester_of", lambda _: None)
    yes = answered_by(clients["olivia"], "Approve")
    with answering(clients, "retain_snapshots", yes, yes, answered_by(clients["ada"], second)):
        states = run_plan(bag, cluster="alpha", act=True)
    assert states["remove_snapshots"] == ("success" if second == "Approve" else "skipped")
    assert len(_left(tmp_path)) == left


def test_a_run_with_nothing_to_remove_asks_nobody(bag, clients, days, tmp_path):
    states = run_plan(bag, cluster="beta", act=True)
    assert {states[name] for name in GATED} == {"skipped"}


REPORTS = [
    {"cluster": "alpha", "digest": "a" * 64, "kept": 1, "removable": 4, "abandoned": 0},
    {"cluster": "beta", "digest": "b" * 64, "kept": 1, "removable": 0, "abandoned": 0},
]


@WHEN_OPENED
def test_gated_runs_are_opened_with_the_policy_of_the_report(monkeypatch, allowed, act, opened):
    from kafka_maintenance.tasks.retention import removal_runs

    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_OPEN_GATED_RUNS", allowed)
    runs = removal_runs.function(REPORTS, act, {"last": 3, "daily": 0, "weekly": 0, "monthly": 2})
    assert [run["conf"]["cluster"] for run in runs] == opened
    assert all(run["conf"]["keep_monthly"] == 2 for run in runs)
    assert all(run["trigger_run_id"].endswith("__alpha__aaaaaaaaaaaa") for run in runs)
    whom = "waits for 2 approvals by anybody who may answer in Airflow"
    assert all(run["note"].startswith("retain") and run["note"].endswith(whom) for run in runs)


def test_a_removal_that_did_not_happen_as_planned_fails_its_check(days, tmp_path, monkeypatch):
    from airflow.sdk.exceptions import AirflowFailException

    from kafka_maintenance.operations.retention.plan import RetentionPolicy, plan_retention
    from kafka_maintenance.operations.retention.store import store_retention
    from kafka_maintenance.tasks import retention

    policy = RetentionPolicy(last=1, daily=1, weekly=0, monthly=0)
    store = open_store(str(tmp_path))
    made = store_retention(
        store,
        plan_retention(store, policy, now=datetime.now(UTC), cluster="alpha"),
        "alpha",
    )
    monkeypatch.setattr(retention, "approved_plan", lambda *_, **__: made)
    run = SimpleNamespace(dag_id="retain_snapshots", run_id="manual")
    monkeypatch.setattr(retention, "context_of_run", lambda: {"params": {"cluster": "alpha"}, "dag_run": run})
    with pytest.raises(AirflowFailException, match="still listed"):
        retention.verify_removal.function()


def test_the_defaults_of_the_dag_are_those_of_the_command():
    from kafka_maintenance.operations.retention.plan import RetentionPolicy
    from kafka_maintenance.tasks.settings import Settings

    defaults, settings = RetentionPolicy(), Settings()
    for name in ("last", "daily", "weekly", "monthly"):
        assert getattr(settings, f"keep_{name}") == getattr(defaults, name)


def test_the_page_of_a_retention_plan_says_what_goes_and_what_stays(bag, days, tmp_path):
    from controller_core.adapters.object_store.open import FolderStore
    from kafka_maintenance.operations.retention.plan import RetentionPolicy, plan_retention
    from kafka_maintenance.operations.retention.store import store_retention
    from kafka_maintenance.web.views.plan import Named, plan_page

    store = FolderStore(tmp_path)
    policy = RetentionPolicy(last=1, daily=1, weekly=0, monthly=0)
    stored = store_retention(store, plan_retention(store, policy, now=datetime.now(UTC), cluster="alpha"), "alpha")
    named = Named(kind=stored.kind, cluster=stored.cluster, digest=stored.digest)
    page = plan_page(store, named)
    assert [row[0].text for row in page.table("removed").rows] == [day.snapshot_id for day in days[:4]]
    assert [row[0].text for row in page.table("kept").rows] == [days[4].snapshot_id]
    altered = plan_page(store, replace(named, digest="0" * 64))
    assert "It is gone" in altered.head[0].text


def test_a_damaged_receipt_is_shown_as_it_lies_in_the_store(bag, tmp_path):
    from controller_core.adapters.object_store.open import FolderStore
    from kafka_maintenance.web.views.record import receipt_blocks

    store = FolderStore(tmp_path)
    store.put(
        "v1/receipts/cluster=alpha/d1/0001-started.json",
        b'{"event": "started", "at": "2026-11-21T03:00:00+00:00", "approver": "olivia"}',
    )
    store.put("v1/receipts/cluster=alpha/d1/0002-done.json", b'{"event": "oli\xff')
    whole, damaged = receipt_blocks(store, "alpha", "d1", step_count=None)[-1].rows
    assert [cell.text for cell in whole[1:6]] == ["started", "-", "2026-11-21 03:00:00", "-", "olivia"]
    assert damaged[1].text == "damaged"
    assert '{"event": "oli\ufffd' in damaged[6].text
