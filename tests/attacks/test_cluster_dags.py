"""Boundary: who may start and answer runs of one cluster's DAGs, against the other clusters."""

from dataclasses import replace

import pytest

from kafka_maintenance.operations.errors import RefusedError
from kafka_maintenance.tasks import cluster_dags
from tests.airflow_home import ROOT
from tests.dags.runs import answered_by, answering, states_of
from tests.dags.world import CLUSTER

OF_CLUSTERS = {
    "cancel_execution",
    "delete_topics",
    "drain_isr_notifications",
    "elect_preferred_leaders",
    "move_leaders",
    "reassign_partitions",
    "restore_metadata",
    "retain_snapshots",
}


@pytest.fixture
def two(database, monkeypatch):
    """Our DAGs where `alpha` and `beta` have DAGs of their own."""
    from airflow.dag_processing.dagbag import DagBag

    monkeypatch.setattr(cluster_dags, "SETTINGS", replace(cluster_dags.SETTINGS, cluster_dags=(CLUSTER, "beta")))
    return DagBag(dag_folder=str(ROOT / "dags"))


def test_each_dag_that_changes_a_cluster_or_its_snapshots_is_there_once_more_for_each(two):
    from airflow.serialization.serialized_objects import DagSerialization

    assert not two.import_errors
    own = {dag_id for dag_id in two.dags if "__" in dag_id}
    assert own == {f"{name}__{cluster}" for name in OF_CLUSTERS for cluster in (CLUSTER, "beta")}
    changing = {dag.dag_id for dag in two.dags.values() if dag.tags & {"changes-cluster", "changes-store"}}
    assert {dag_id.partition("__")[0] for dag_id in changing} == OF_CLUSTERS
    for dag_id in own:
        dag, common = two.dags[dag_id], two.dags[dag_id.partition("__")[0]]
        assert dag.params["cluster"] == dag_id.partition("__")[2]
        assert dag.params.get_param("cluster").schema["const"] == dag_id.partition("__")[2]
        assert (dag.doc_md, set(dag.task_ids)) == (common.doc_md, set(common.task_ids))
        assert not getattr(dag.timetable, "expression", None)
        assert "scheduled" not in dag.tags
        assert DagSerialization.to_dict(dag)


def test_a_run_of_the_common_dag_does_nothing_to_a_cluster_that_has_its_own(two, clients, world, plan, capfd):
    dag = two.dags["elect_preferred_leaders"]
    with answering(clients, dag.dag_id, answered_by(clients["olivia"], "Approve")) as asked:
        run = dag.test(run_conf={"cluster": CLUSTER, "plan": plan.digest}, logical_date=None)
    assert not asked.done()
    assert (states_of(run)["approve"], world.requests) == ("failed", [])
    assert "start elect_preferred_leaders__alpha" in "".join(capfd.readouterr())


def test_a_run_of_the_clusters_own_dag_is_approved_and_applied(two, clients, world, plan):
    dag = two.dags[f"elect_preferred_leaders__{CLUSTER}"]
    with answering(clients, dag.dag_id, answered_by(clients["olivia"], "Approve")):
        run = dag.test(run_conf={"plan": plan.digest}, logical_date=None)
    assert states_of(run)["verify"] == "success"
    assert len(world.requests) == 1


def test_no_run_is_for_another_cluster_than_its_dag(two):
    with pytest.raises(RefusedError, match="expected a run of delete_topics__beta, found one of delete_topics__alpha"):
        cluster_dags.require_dag_for("delete_topics__alpha", "beta")
    with pytest.raises(RefusedError, match="expected a run of delete_topics, found one of delete_topics__alpha"):
        cluster_dags.require_dag_for("delete_topics__alpha", "gamma")
    cluster_dags.require_dag_for("delete_topics__beta", "beta")
    cluster_dags.require_dag_for("delete_topics", "gamma")


def test_runs_that_open_by_themselves_open_in_the_clusters_own_dag(two):
    from kafka_maintenance.tasks.common import gated_run

    found = [gated_run("delete_topics", "nightly", "2026-11-02", name, "d")["trigger_dag_id"] for name in "ab"]
    assert found == ["delete_topics", "delete_topics"]
    assert gated_run("delete_topics", "nightly", "2026-11-02", "beta", "d")["trigger_dag_id"] == "delete_topics__beta"
