"""Boundary: who may edit XComs and start runs, as Airflow's role `op` may, against what tasks do.

What a task returned may be anything: its successor takes names from it and finds the rest itself.
"""

from contextlib import suppress
from types import SimpleNamespace

import pytest

from controller_core.model.errors import ControllerCoreError
from tests.dags.runs import answered_by, answering, states_of
from tests.dags.world import CLUSTER


@pytest.mark.parametrize("kind", ["delete_topics", "elect_preferred_leaders"])
def test_a_forged_plan_is_not_applied_under_the_text_of_another(bag, clients, world, plan, deletion, monkeypatch, kind):
    """The approver of "1 election" deleted a topic whose deletion was rejected minutes before; here the record of the run names it, too."""
    from kafka_maintenance.operations.apply import step
    from kafka_maintenance.tasks.plans import kept_for_gate

    monkeypatch.setattr(step, "await_outcomes", lambda *_: None)  # where it gets so far: nobody deletes the topic here
    dag = bag.dags["elect_preferred_leaders"]
    monkeypatch.setattr(
        dag.get_task("verify"), "python_callable", lambda *_, **__: True
    )  # it would wait for the deletion
    forged = {"kind": kind, "cluster": CLUSTER, "digest": deletion.digest}
    told = {**forged, "summary": plan.summary, "markdown": plan.markdown, "uri": deletion.uri}
    monkeypatch.setattr(dag.get_task("plan_elections"), "python_callable", lambda *_: kept_for_gate(forged) and told)
    with answering(clients, dag.dag_id, answered_by(clients["olivia"], "Approve")):
        run = dag.test(run_conf={"cluster": CLUSTER, "plan": plan.digest}, logical_date=None)
    assert states_of(run)["plan_elections"] == "success"
    assert world.zookeeper.children("/admin/delete_topics") == []


def test_nothing_of_what_the_worker_runs_comes_from_an_xcom(bag):
    """Who forged the output of the staging task ran a program of his own on the worker."""
    from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
    from airflow.sdk.definitions.xcom_arg import XComArg

    submitting = [task for task in bag.dags["nightly_analysis"].tasks if isinstance(task, SparkSubmitOperator)]
    assert submitting
    for task in submitting:
        told = [getattr(task, name, None) for name in SparkSubmitOperator.template_fields]
        assert [list(XComArg.iter_xcom_references(value)) for value in told] == [[]] * len(told)


def test_no_folder_is_emptied_that_a_task_was_told(bag, world, monkeypatch, tmp_path):
    from kafka_maintenance.tasks import analysis

    victim = tmp_path / "theirs"
    victim.mkdir()
    (victim / "summary.json").write_text('{"clusters": {}, "not_analysed": []}')
    for name in ("report.html", "report.md"):
        (victim / name).write_text("x")
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_MAINTENANCE_SPARK", '{"conn_type": "spark", "host": "local[2]"}')
    run = SimpleNamespace(dag_id="nightly_analysis", run_id="manual")
    monkeypatch.setattr(analysis, "context_of_run", lambda: {"dag_run": run})
    forged = {"folder": str(victim), "output": str(victim), "run": "manual", "night": "2026-11-02", "try": 1}
    choice = {"night": "2026-11-02", "date": "2026-11-02", "missing": [], "snapshots": []}
    with suppress(
        ControllerCoreError
    ):  # what was analysed lies elsewhere; up to 0.1 this folder was published and emptied
        analysis.publish_report.function(forged, choice)
    assert (victim / "summary.json").exists()


@pytest.mark.parametrize("place", ["date=2026-11-01/live/plans/x.json", "../secrets.json", "v1/cluster=beta/p.json"])
def test_a_run_names_a_plan_by_its_digest_and_never_by_a_place(bag, world, place, tmp_path):
    from kafka_maintenance.operations.errors import BadInputError
    from kafka_maintenance.tasks.plans import stored

    with pytest.raises(BadInputError, match="expected its digest, 64 hex digits"):
        stored("elect_preferred_leaders", CLUSTER, place)


def test_a_name_in_the_store_leads_to_no_object_outside_the_clusters_folder(world, plan, tmp_path):
    from controller_core.adapters.object_store.open import FolderStore
    from controller_core.model.errors import InvalidPlanError
    from kafka_maintenance.operations.plans.store import find_plan

    store = FolderStore(tmp_path)
    (name,) = [key for key in store.list("v1/plans/") if plan.digest in key]
    for place in ("v1/cluster=beta/date=2026-11-21/live/plans/p.json", f"v1/cluster={CLUSTER}/../../p.json"):
        store.delete(name)
        store.put(name, place.encode())
        with pytest.raises(InvalidPlanError, match="expected one in a folder of 'alpha'"):
            find_plan(store, cluster=CLUSTER, kind=plan.kind, digest=plan.digest)
