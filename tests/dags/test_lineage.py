"""What tasks tell Airflow's collector of lineage, and the OpenLineage datasets that follow from it."""

from types import SimpleNamespace

import pytest

from tests.dags.test_gates import _answer, _run, answering


@pytest.fixture
def collected(monkeypatch):
    """A collector that collects, as where a reader of lineage is installed."""
    from airflow.sdk.lineage import HookLineageCollector

    from kafka_maintenance.tasks import lineage

    made = HookLineageCollector()
    monkeypatch.setattr(lineage, "get_hook_lineage_collector", lambda: made)
    return made


def _uris(found):
    return [each.asset.uri for each in found]


def test_a_gated_run_leads_from_its_plan_to_its_receipt(bag, clients, plan, collected):
    with answering(clients, "elect_preferred_leaders", _answer(clients["olivia"], "Approve")):
        run, _ = _run(bag, plan)
    receipt = run.get_task_instance("apply_plan").xcom_pull(task_ids="apply_plan")["receipt"]
    lineage = collected.collected_assets
    assert _uris(lineage.inputs) == [f"file://{plan.uri}"]
    assert _uris(lineage.outputs) == [f"file://{plan.uri}", f"file://{receipt}"]


def test_a_plan_comes_from_the_snapshot_beside_which_it_lies(collected):
    from kafka_maintenance.tasks.lineage import snapshot_of_plan, tell_lineage

    beside = "s3://bucket/v1/cluster=alpha/date=2026-11-21/snap=1"
    plan = f"{beside}/plans/reassign_partitions-1a2b.json"
    tell_lineage(read=snapshot_of_plan(plan), written=[plan])
    assert _uris(collected.collected_assets.inputs) == [f"{beside}/manifest.json"]
    assert _uris(collected.collected_assets.outputs) == [plan]
    assert snapshot_of_plan("/store/v1/cluster=alpha/date=2026-11-21/live/plans/x.json") == []


def test_without_a_reader_nothing_is_collected(bag):
    from airflow.sdk.lineage import NoOpCollector, get_hook_lineage_collector

    from kafka_maintenance.tasks.lineage import tell_lineage

    tell_lineage(read=["/a/b.json"], written=["s3://bucket/c.json"])
    assert isinstance(get_hook_lineage_collector(), NoOpCollector)


def test_an_object_in_s3_is_named_as_openlineage_names_it(monkeypatch):
    from airflow.providers.common.compat.openlineage import facet
    from airflow.sdk import Asset
    from airflow.sdk.providers_manager_runtime import ProvidersManagerTaskRuntime

    from kafka_maintenance.provider.openlineage import dataset_of_s3

    monkeypatch.setattr(facet, "Dataset", SimpleNamespace)  # that of OpenLineage, where it is installed
    converters = ProvidersManagerTaskRuntime().asset_to_openlineage_converters
    assert converters["s3"] is dataset_of_s3
    found = converters["s3"](Asset(uri="s3://bucket/v1/cluster=alpha/manifest.json"), None)
    assert (found.namespace, found.name) == ("s3://bucket", "v1/cluster=alpha/manifest.json")
