"""What tasks tell Airflow's collector of lineage, and the OpenLineage datasets that follow from it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.airflow_home import ROOT
from tests.dags.runs import answered_by, answering, run_plan

OPENLINEAGE = (
    "apache-airflow-providers-openlineage==2.20.3",
    "openlineage-python==1.54.0",
    "openlineage-integration-common==1.54.0",
    "openlineage-sql==1.54.0",
    "httpx2==2.16.2",
)


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
    with answering(clients, "elect_preferred_leaders", answered_by(clients["olivia"], "Approve")):
        run, _ = run_plan(bag, plan)
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


@pytest.mark.services
def test_the_events_of_runs_are_as_openlineages_own_classes_say(tmp_path):
    """In a pytest of its own: where the provider is installed, every task of this Airflow would emit events."""
    site, events = tmp_path / "site", tmp_path / "events.jsonl"
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile", "--target", site)
    subprocess.run([*pip, *OPENLINEAGE], check=True, capture_output=True)
    transport = {"type": "file", "log_file_path": str(events), "append": True}
    path = os.pathsep.join((str(site), os.environ.get("PYTHONPATH", "")))
    env = os.environ | {
        "PYTHONPATH": path,
        "OPENLINEAGE__TRANSPORT": json.dumps(transport),
        "EVENTS_OF_TESTS": str(events),
    }
    script = Path(__file__).with_name("openlineage_events.py")
    # -P: of plugins that it finds twice, as ours in the folder of a checkout, Airflow 3.3 takes none that comes after them.
    command = (sys.executable, "-P", "-m", "pytest", "-q", script)
    done = subprocess.run(command, env=env, cwd=ROOT, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
