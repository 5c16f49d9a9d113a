"""The page of all clusters: what is wrong with each, which addresses are shown to whom, where a row leads."""

import json
from datetime import UTC, datetime

import pytest

from controller_core.adapters.object_store.open import open_store
from tests.dags.browsing import PREFIX
from tests.dags.world import CLUSTER
from tests.kafka_maintenance.web.fleet import Sick, publish, today


def test_the_overview_lists_clusters_and_what_is_wrong_with_them(clients, world, monkeypatch):
    connection = {
        "conn_type": "generic",
        "host": "zk1,zk2",
        "login": "kafka",
        "password": "never shown",
        "extra": {"kafka_version": "3.9", "auth": "sasl"},
    }
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_CLUSTERS", json.dumps([CLUSTER, "ghost"]))
    monkeypatch.setenv(f"AIRFLOW_CONN_{CLUSTER.upper()}", json.dumps(connection))
    text = clients["olivia"].get(f"{PREFIX}/clusters").text
    assert "zk1:2181,zk2:2181" in text
    assert "no snapshot yet" in text
    assert "ghost" in text
    assert "never shown" not in text


@pytest.mark.parametrize("form", ["", "?json=1", "?csv=clusters"])
def test_a_viewer_sees_no_address_that_airflow_withholds_from_him(clients, world, monkeypatch, form):
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_CLUSTERS", json.dumps([CLUSTER, "odd"]))
    monkeypatch.setenv(f"AIRFLOW_CONN_{CLUSTER.upper()}", "generic://zk1:2181")
    monkeypatch.setenv("AIRFLOW_CONN_ODD", "generic://zk9:2181/kafka")  # a path: the message names the host
    assert clients["victor"].get("/api/v2/connections").status_code == 403
    seen = {name: clients[name].get(f"{PREFIX}/clusters{form}").text for name in ("victor", "olivia")}
    assert "zk1" in seen["olivia"]
    assert "zk9" in seen["olivia"] or "csv" in form
    assert ("zk1" in seen["victor"], "zk9" in seen["victor"]) == (False, False)
    assert "odd" in seen["victor"]


@pytest.fixture
def stored_connections(database):
    """Connections in Airflow's database: one that is well, one whose extra is no JSON, two that another key encrypted."""
    from airflow.models.connection import Connection
    from airflow.models.crypto import get_fernet
    from airflow.utils.session import create_session
    from cryptography.fernet import Fernet
    from sqlalchemy import delete

    def stored(conn_id, **columns):
        made = Connection(conn_id=conn_id, conn_type="generic", host=f"{conn_id}:2181")
        for column, value in columns.items():
            setattr(made, column, value)
        with create_session() as session:
            session.add(made)
        ids.append(made.id)

    ids, ours, other = [], get_fernet(), Fernet(Fernet.generate_key())
    stored("well")
    stored("half-read", _extra=ours.encrypt(b'{"tls": true,}').decode(), is_extra_encrypted=ours.is_encrypted)
    stored("lost-extra", _extra=other.encrypt(b"{}").decode(), is_extra_encrypted=True)
    yield stored, other
    with create_session() as session:
        session.execute(delete(Connection).where(Connection.id.in_(ids)))  # without loading them


@pytest.fixture
def with_a_key(monkeypatch):
    """An Airflow that encrypts what it keeps."""
    from airflow.models import crypto
    from cryptography.fernet import Fernet

    monkeypatch.setenv("AIRFLOW__CORE__FERNET_KEY", Fernet.generate_key().decode())
    crypto.get_fernet.cache_clear()
    yield
    monkeypatch.undo()
    crypto.get_fernet.cache_clear()


@pytest.mark.parametrize("a_password_is_lost", [False, True])
def test_a_connection_that_cannot_be_read_is_one_row_of_the_overview(
    clients, world, with_a_key, stored_connections, monkeypatch, a_password_is_lost
):
    stored, other = stored_connections
    stored("prod:eu")
    names = ["well", "half-read", "lost-extra", "comma", "prod:eu", CLUSTER]
    if a_password_is_lost:
        stored("lost-password", _password=other.encrypt(b"secret").decode(), is_encrypted=True)
        names.append("lost-password")
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_CLUSTERS", json.dumps(names))
    monkeypatch.setenv("AIRFLOW_CONN_COMMA", '{"conn_type": "generic", "host": "zk1", "extra": "{,}"}')
    monkeypatch.setenv(f"AIRFLOW_CONN_{CLUSTER.upper()}", "generic://zk1:2181")
    answer = clients["olivia"].get(f"{PREFIX}/clusters")
    assert answer.status_code == 200
    rows = answer.text
    for name in {*names} - {"well", CLUSTER, "half-read", "comma", "prod:eu"}:
        assert f"connection &#39;{name}&#39; not used: there is none of that id, or none that Airflow can read" in rows
    assert "connection &#39;half-read&#39; not used: " in rows
    assert "connection &#39;prod:eu&#39; not used: its id names the cluster in the store" in rows
    assert "connection &#39;comma&#39; not used: its extra is not JSON" in rows
    assert "zk1:2181" in rows
    assert "well:2181" in rows


def test_connections_of_the_database_are_read_at_once_and_those_of_a_secret_backend_one_by_one(
    database, with_a_key, stored_connections, monkeypatch
):
    from kafka_maintenance import hooks
    from kafka_maintenance.web import airflow_records

    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_CLUSTERS", '["well", "well_too"]')
    monkeypatch.setenv("AIRFLOW_CONN_WELL_TOO", "generic://zk1:2181")
    asked, connection = [], hooks.KafkaClusterHook.settings
    monkeypatch.setattr(hooks.KafkaClusterHook, "settings", lambda hook: asked.append(hook.cluster) or connection(hook))
    assert [one.zookeeper for one in airflow_records.listed_clusters()] == ["well:2181", "zk1:2181"]
    assert asked == ["well_too"]
    monkeypatch.setenv("AIRFLOW__SECRETS__BACKEND", "airflow.secrets.local_filesystem.LocalFilesystemBackend")
    assert [one.zookeeper for one in airflow_records.listed_clusters()] == ["well:2181", "zk1:2181"]
    assert asked == ["well_too", "well", "well_too"]


def test_a_row_leads_to_report_runs_and_gates_of_its_cluster(clients, world, tmp_path, monkeypatch):
    from kafka_maintenance.web import airflow_records
    from kafka_maintenance.web.views.approvals import Gate

    publish(open_store(str(tmp_path)), [Sick(CLUSTER, migrating=True)], dates=1, snapshots=0)
    asked = {
        "dag_id": "d",
        "run_id": "r",
        "requester": "olivia",
        "asked": datetime.now(UTC),
        "expires": None,
        "address": "/x",
    }
    gates = [Gate(cluster=name, subject=f"subject of {name}", **asked) for name in (CLUSTER, "beta")]
    monkeypatch.setattr(airflow_records, "open_gates", lambda _: gates)
    client = clients["victor"]
    (table,) = client.get(f"{PREFIX}/clusters?json=1").json()["sections"][0]["blocks"]
    row = dict(zip((column["name"] for column in table["columns"]), table["rows"][0], strict=True))
    assert row["Mode"]["text"] == "migrating to KRaft (P3)"
    assert row["Snapshot"]["tone"] is None, "it is that of the analysis, and none is looked for in the store"
    led = {name: row[name]["href"] for name in ("Report", "Runs", "Approvals", "Mode")}
    assert led == {
        "Report": f"date-report?date={today()}&cluster={CLUSTER}",
        "Runs": f"executions?cluster={CLUSTER}",
        "Approvals": f"approvals?cluster={CLUSTER}",
        "Mode": f"kraft?cluster={CLUSTER}",
    }
    report, runs, approvals, _ = (client.get(f"{PREFIX}/{address}") for address in led.values())
    assert report.text == "<!doctype html><title>Report</title>"
    assert "script" not in report.headers["content-security-policy"].partition("sandbox")[0]
    assert f"Of {CLUSTER} alone" in runs.text
    assert ("subject of alpha" in approvals.text, "subject of beta" in approvals.text) == (True, False)
