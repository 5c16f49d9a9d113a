"""A cluster that has left ZooKeeper: no snapshot of it is tried, its analysis waits for none, and the page says since when."""

from contextlib import nullcontext
from datetime import UTC, datetime

import pytest

from controller_core.adapters.object_store.open import open_store
from controller_core.model.errors import ObjectDamagedError
from kafka_maintenance.operations.record.departures import Departure, departure_of, record_departure
from tests.dags.connections import airflow_knows


@pytest.fixture
def store(world, monkeypatch, tmp_path):
    connection = {"conn_type": "kafka_zookeeper", "host": "zk", "port": 2181}
    airflow_knows(monkeypatch, tmp_path, alpha=connection, beta=connection)
    store = open_store(str(tmp_path))
    record_departure(store, Departure("beta", "ann", "finalised", "2026-11-24T12:00:00+00:00", "/s/manifest.json"))
    return store


def test_no_snapshot_is_tried(store):
    from kafka_maintenance.tasks.snapshots import live_clusters

    assert live_clusters.function() == ["alpha"]
    assert live_clusters.function(only=["beta"]) == []


def test_its_zookeeper_is_not_asked_and_its_last_phase_not_rehearsed(store):
    from kafka_maintenance.tasks.drain import clusters_to_report
    from kafka_maintenance.tasks.kraft_rehearsal import clusters_to_rehearse

    assert clusters_to_report.function(None) == [["alpha"]]
    assert clusters_to_report.function("beta") == []
    assert clusters_to_rehearse.function(None) == ["alpha"]
    assert clusters_to_rehearse.function(["alpha", "alpha"]) == ["alpha"]
    assert clusters_to_rehearse.function(["beta"]) == ["beta"]  # whoever names it wants to see it


def test_its_analysis_is_that_of_an_archived_cluster(store):
    from kafka_maintenance.tasks.choice import clusters_listed

    assert {each["cluster"]: each["archived"] for each in clusters_listed()} == {"alpha": False, "beta": True}


def test_the_page_of_all_clusters_says_since_when(store):
    from kafka_maintenance.web.views.clusters import Listed, clusters_page

    page = clusters_page(store, [Listed(name="alpha"), Listed(name="beta")], {}, now=datetime.now(UTC))
    ((table,),) = ([block for block in section.blocks if hasattr(block, "rows")] for section in page.sections)
    mode = next(at for at, column in enumerate(table.columns) if column.name == "Mode")
    assert {row[0].text: row[mode].text for row in table.rows} == {"alpha": "-", "beta": "KRaft since 2026-11-24"}


@pytest.mark.parametrize("damaged", ["alpha", "removed"])
def test_a_record_that_is_damaged_holds_up_no_other_cluster(store, damaged):
    from kafka_maintenance.tasks.choice import clusters_listed
    from kafka_maintenance.tasks.snapshots import live_clusters

    store.put(f"v1/kraft/cluster={damaged}/20261124T120000.000Z-left.json", b"{")
    assert live_clusters.function() == ["alpha"]
    listed = {each["cluster"]: each for each in clusters_listed()}
    assert listed["beta"] == {"cluster": "beta", "archived": True, "unusable": None}
    assert (listed["alpha"]["unusable"] is not None) is (damaged == "alpha")
    with pytest.raises(ObjectDamagedError) if damaged == "alpha" else nullcontext():
        departure_of(store, "alpha")
