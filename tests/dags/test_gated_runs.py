"""Gated runs that other runs open: one for each plan, none of a past date, none in a paused DAG."""

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from controller_core.adapters.object_store.open import open_store
from kafka_maintenance.tasks.common import refuse_misspelt
from tests.dags.archive import snapshots_in
from tests.dags.runs import WHEN_OPENED, all_states_of, clear_task, go_on, states_of, want_retry, xcom_of


@pytest.mark.services
def test_a_gated_run_that_is_cleared_plans_on_the_present_and_a_retry_on_what_it_had(bag, clients, store):
    dag = bag.dags["elect_preferred_leaders"]
    conf = {"cluster": "alpha", "plan": None}  # `dag.test()` keeps a run's params as the defaults of the next one
    run = dag.test(logical_date=None, run_conf=conf)
    first = xcom_of(run, "snapshot_to_plan")
    want_retry(run, "snapshot_to_plan")
    assert go_on(dag, run)["snapshot_to_plan"] == "success"
    assert xcom_of(run, "snapshot_to_plan") == first
    assert clear_task(clients["ada"], dag.dag_id, run.run_id, "snapshot_to_plan").status_code == 200
    assert go_on(dag, run)["snapshot_to_plan"] == "success"
    assert xcom_of(run, "snapshot_to_plan") != first
    assert len(snapshots_in(store)) == 2


@pytest.mark.parametrize(
    ("dag_id", "conf"),
    [
        ("reassign_partitions", {"cluster": "alpha", "cancel_runing": True}),
        ("snapshot_metadata", {"cluster": ["alpha"]}),
    ],
)
def test_a_run_whose_conf_almost_names_a_param_begins_nothing(
    bag_read_anew, world, monkeypatch, tmp_path, dag_id, conf
):
    dag = bag_read_anew.dags[dag_id]
    for task in dag.roots:
        monkeypatch.setattr(task, "retries", 0)
    run = dag.test(logical_date=None, run_conf={**conf, "ticket": "OPS-1"})
    assert {states_of(run)[task.task_id] for task in dag.roots} == {"failed"}
    assert list(open_store(str(tmp_path)).list("v1/")) == []


def test_every_dag_refuses_a_misspelt_conf_in_its_first_tasks(bag):
    for dag in bag.dags.values():
        assert {task._pre_execute_hook for task in dag.roots} == {refuse_misspelt}, dag.dag_id


PLANS = [[{"kind": "elect_preferred_leaders", "cluster": "alpha", "digest": "a" * 64}]]


def chosen_today():
    return {"date": datetime.now(UTC).date().isoformat()}


@pytest.mark.parametrize("dag_id", ["drain_isr_notifications", "nightly_analysis", "retain_snapshots"])
def test_a_gated_run_is_opened_once_and_never_in_a_paused_dag(bag, dag_id):
    opening = bag.dags[dag_id].get_task("open_gated_runs")
    assert opening.partial_kwargs["skip_when_already_exists"]
    assert opening.partial_kwargs["fail_when_dag_is_paused"]


@pytest.mark.parametrize(
    ("paused", "opened", "outcome"),
    [
        pytest.param(True, "failed", "failed", id="nobody would be asked"),
        pytest.param(False, "success", "success", id="its gate will ask"),
    ],
)
def test_a_run_fails_that_would_open_gated_runs_of_a_paused_dag(bag, world, monkeypatch, paused, opened, outcome):
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    from kafka_maintenance.operations.cluster import isr_notifications

    report = SimpleNamespace(text="it lingers", count=1, lingering=True, oldest=f"isr_change_{paused}", requests=())
    monkeypatch.setattr(isr_notifications, "report", lambda **_: report)
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_OPEN_GATED_RUNS", "true")
    dag = bag.dags["drain_isr_notifications"]
    monkeypatch.setattr(dag.get_task("open_gated_runs"), "retries", 0)
    dag.test(logical_date=None, mark_success_pattern=".*")  # makes the DAG known to the database
    with create_session() as session:
        session.get(DagModel, dag.dag_id).is_paused = paused
    run = dag.test(logical_date=None)
    assert (all_states_of(run)["open_gated_runs[0]"], run.state) == (opened, outcome)


class TestGatedRuns:
    def test_none_is_opened_by_default(self):
        from kafka_maintenance.tasks.analysis import gated_runs

        assert gated_runs.function(PLANS, chosen_today()) == []

    def test_one_per_plan_where_the_variable_allows_it(self, monkeypatch):
        from kafka_maintenance.tasks.analysis import gated_runs

        monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_OPEN_GATED_RUNS", "true")
        (opened,) = gated_runs.function(PLANS, chosen_today())
        assert opened["trigger_dag_id"] == "elect_preferred_leaders"
        assert opened["conf"] == {"cluster": "alpha", "plan": "a" * 64}
        assert opened["trigger_run_id"].endswith("__alpha__aaaaaaaaaaaa")

    def test_none_for_a_past_day(self, monkeypatch):
        from kafka_maintenance.tasks.analysis import gated_runs

        monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_OPEN_GATED_RUNS", "true")
        assert gated_runs.function(PLANS, {"date": "2026-11-02"}) == []


@WHEN_OPENED
def test_lingering_notifications_open_one_gated_run_a_day(monkeypatch, allowed, act, opened):
    from kafka_maintenance.tasks.drain import lingering_runs

    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_OPEN_GATED_RUNS", allowed)
    reports = [
        {"lingering": {"alpha": "isr_change_0000000007"}, "missing": {}},
        {"lingering": {}, "missing": {"beta": "-"}},
    ]
    runs = lingering_runs.function(reports, act)
    assert [run["conf"] for run in runs] == [{"cluster": name, "act": True} for name in opened]
    today = chosen_today()["date"]
    assert [run["trigger_run_id"] for run in runs] == [
        f"lingering__{today}__{name}__isr_change_0000000007" for name in opened
    ]
    assert lingering_runs.function(reports, act) == runs
