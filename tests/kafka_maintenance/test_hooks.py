"""Connections and variables → clusters, store, pools and settings; every mistake says what to correct."""

from tests import airflow_home  # isort: skip  # before anything of Airflow

import json
import re
from pathlib import Path

import pytest

from kafka_maintenance.connections.fields import SettingsMissingError

assert airflow_home


@pytest.fixture
def two_clusters(monkeypatch, tmp_path):
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_STORE", str(tmp_path))
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_CLUSTERS", '["alpha", "old", "ghost"]')
    monkeypatch.setenv("AIRFLOW_CONN_ALPHA", json.dumps({"conn_type": "generic", "host": "zk1:1,zk2:2"}))
    old = {"conn_type": "generic", "host": "gone", "extra": {"archived": True}}
    monkeypatch.setenv("AIRFLOW_CONN_OLD", json.dumps(old))


def test_archived_clusters_are_not_live_and_unusable_ones_hold_up_nobody(two_clusters):
    from kafka_maintenance.hooks import live_names

    assert live_names() == ("alpha", "ghost")
    assert live_names(["old", "alpha", "alpha"]) == ("alpha",)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param("gamma", "lists alpha, old, ghost; add it there", id="not listed"),
        pytest.param("ghost", "there is none of that id", id="listed, but without a connection"),
    ],
)
def test_an_unknown_cluster_says_what_is_missing(two_clusters, name, message):
    from kafka_maintenance.hooks import cluster

    with pytest.raises(SettingsMissingError, match=message):
        cluster(name)


def _connections(monkeypatch, writer):
    """Cluster alpha is read as `reader`, and written as the connection `alpha-writer` says."""
    extra = {"auth": "sasl", "chroot": "/kafka"}
    reader = {
        "host": "zk1:1,zk2:2",
        "login": "reader",
        "password": "r",
        "extra": extra | {"write_connection": "alpha-writer"},
    }
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_CLUSTERS", "alpha")
    monkeypatch.setenv("AIRFLOW_CONN_ALPHA", json.dumps({"conn_type": "generic", **reader}))
    if writer is not None:
        given = {"conn_type": "generic", "login": "writer", "password": "w", "extra": extra, **writer}
        monkeypatch.setenv("AIRFLOW_CONN_ALPHA-WRITER", json.dumps(given))


def test_a_second_connection_writes_and_the_first_one_reads(monkeypatch):
    from kafka_maintenance import hooks

    _connections(monkeypatch, {"host": "zk2:3,zk1:4"})
    reading, writing = hooks.cluster("alpha"), hooks.cluster_to_write("alpha")
    assert (reading.address.principal, writing.address.principal) == ("sasl:reader", "sasl:writer")
    assert (writing.name, writing.address.zookeeper) == ("alpha", "zk2:3,zk1:4/kafka")


@pytest.mark.parametrize(
    ("writer", "message"),
    [
        pytest.param(None, "connection 'alpha-writer' not used: there is none", id="none of that id"),
        pytest.param({"host": "zk1:1"}, "'alpha-writer' is of zk1:1/kafka, expected the hosts", id="other hosts"),
        pytest.param(
            {"host": "zk1:1,zk2:2", "extra": {"auth": "sasl"}}, "expected the hosts and the chroot", id="another chroot"
        ),
    ],
)
def test_a_second_connection_to_another_tree_is_refused(monkeypatch, writer, message):
    from kafka_maintenance import hooks

    _connections(monkeypatch, writer)
    with pytest.raises(SettingsMissingError, match=message):
        hooks.cluster_to_write("alpha")
    assert hooks.cluster("alpha").address.principal == "sasl:reader"


def test_the_connection_test_reports_an_unreachable_zookeeper(monkeypatch):
    from kafka_maintenance import hooks

    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_CLUSTERS", "alpha")
    monkeypatch.setenv("AIRFLOW_CONN_ALPHA", json.dumps({"conn_type": "generic", "host": "127.0.0.1:1"}))
    monkeypatch.setattr(hooks, "ZOOKEEPER_TIMEOUT_S", 0.5)
    ok, message = hooks.KafkaClusterHook("alpha").test_connection()
    assert not ok
    assert "127.0.0.1:1" in message


@pytest.mark.parametrize(
    ("extra", "approvers", "caps"),
    [
        ({}, None, {}),
        ({"approvers": "", "caps": ""}, None, {}),
        ({"approvers": "ada, otto,"}, {"ada", "otto"}, {}),
        ({"approvers": ["ada"], "caps": {"topics_max": 5}}, {"ada"}, {"topics_max": 5}),
        ({"caps": '{"bytes_max": 10}'}, None, {"bytes_max": 10}),
    ],
)
def test_a_connection_says_who_may_approve_and_how_much(monkeypatch, extra, approvers, caps):
    from kafka_maintenance import hooks

    monkeypatch.setenv("AIRFLOW_CONN_ALPHA", json.dumps({"conn_type": "kafka_zookeeper", "host": "zk", "extra": extra}))
    assert hooks.limits_of("alpha") == (approvers, caps)


@pytest.mark.parametrize(
    ("extra", "message"),
    [
        ({"approvers": " , "}, r"says approvers ' , ', expected names of users with commas"),
        ({"approvers": [1]}, r"says approvers \[1\], expected names"),
        (
            {"caps": {"topics": 5}},
            "says caps .*expected an object of partitions_max, topics_max, brokers_max, bytes_max",
        ),
        ({"caps": {"topics_max": 0}}, "whole numbers from 1 on"),
        ({"caps": {"topics_max": True}}, "whole numbers from 1 on"),
        ({"caps": "5"}, "its caps is a str, expected a JSON object"),
    ],
)
def test_limits_that_cannot_be_read_are_refused_and_not_passed_over(monkeypatch, extra, message):
    from kafka_maintenance import hooks

    monkeypatch.setenv("AIRFLOW_CONN_ALPHA", json.dumps({"conn_type": "kafka_zookeeper", "host": "zk", "extra": extra}))
    with pytest.raises(SettingsMissingError, match=message):
        hooks.limits_of("alpha")


def test_a_cluster_without_a_connection_has_no_limits_of_its_own():
    from kafka_maintenance import hooks

    assert hooks.limits_of("nobody") == (None, {})


@pytest.mark.parametrize(
    ("fields", "url", "user"),
    [
        ({"conn_type": "http", "host": "airflow", "port": 8080, "login": "ada"}, "http://airflow:8080", "ada"),
        ({"conn_type": "https", "host": "airflow"}, "https://airflow", None),
        ({"conn_type": "generic", "host": "https://airflow/base"}, "https://airflow/base", None),
    ],
)
def test_the_connection_to_airflows_own_api(fields, url, user, monkeypatch):
    from kafka_maintenance.hooks import airflow_api

    assert airflow_api() is None
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_MAINTENANCE_AIRFLOW", json.dumps({**fields, "password": "secret"}))
    found = airflow_api()
    assert (found.url, found.user, found.secret) == (url, user, "secret")
    assert "secret" not in repr(found)


@pytest.mark.parametrize(
    "fields", [{"conn_type": "http", "host": "airflow"}, {"conn_type": "generic", "host": "x", "password": "y"}]
)
def test_an_unusable_connection_to_airflows_own_api_says_why(fields, monkeypatch):
    from kafka_maintenance.hooks import airflow_api

    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_MAINTENANCE_AIRFLOW", json.dumps(fields))
    with pytest.raises(SettingsMissingError, match="expected type http or https, a host and a password"):
        airflow_api()


def test_gated_runs_are_not_opened_unless_the_variable_says_so(monkeypatch):
    from kafka_maintenance.hooks import open_gated_runs

    assert not open_gated_runs()
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_OPEN_GATED_RUNS", "true")
    assert open_gated_runs()
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_OPEN_GATED_RUNS", "y")
    with pytest.raises(SettingsMissingError, match="says 'y', expected true or false"):
        open_gated_runs()


def test_the_keys_of_snapshots_come_from_one_place(monkeypatch, tmp_path):
    from kafka_maintenance.connections.store import STORE_CONNECTION
    from kafka_maintenance.hooks import snapshot_key_file

    named, variable = tmp_path / "snapshot.key", f"AIRFLOW_CONN_{STORE_CONNECTION.upper()}"
    assert (snapshot_key_file(named), snapshot_key_file(None)) == (named, None)
    monkeypatch.setenv(variable, json.dumps({"conn_type": "kafka_maintenance_store"}))
    assert (snapshot_key_file(named), snapshot_key_file(None)) == (named, None)
    extra = {"snapshot_keys": "bmV3\nb2xk"}
    monkeypatch.setenv(variable, json.dumps({"conn_type": "kafka_maintenance_store", "extra": extra}))
    assert snapshot_key_file(None).read_text() == "bmV3\nb2xk"
    with pytest.raises(SettingsMissingError, match="expected one place, found snapshot_keys in the connection"):
        snapshot_key_file(named)


@pytest.mark.parametrize(
    ("pool", "conf", "there", "expected"),
    [
        pytest.param("kafka_apply", {"cluster": "alpha"}, True, "kafka_apply_alpha", id="a writing task"),
        pytest.param("kafka_apply", {"cluster": "alpha"}, False, "kafka_apply", id="its cluster has no pool yet"),
        pytest.param("kafka_apply", {}, True, "kafka_apply", id="a run without a cluster"),
        pytest.param("kafka_apply", None, True, "kafka_apply", id="a scheduled run"),
        pytest.param("spark", {"cluster": "alpha"}, True, "spark", id="another pool"),
    ],
)
def test_a_writing_task_takes_the_slot_of_its_cluster(pool, conf, there, expected):
    from kafka_maintenance.tasks.pools import pool_of

    assert pool_of(pool, conf, lambda _: there) == expected


def test_every_setting_has_an_environment_variable():

    from kafka_maintenance.tasks.settings import Settings, settings_from

    environment = {
        "KAFKA_MAINTENANCE_SNAPSHOT_CRON": "* * * * *",
        "KAFKA_MAINTENANCE_APPROVAL_TIMEOUT_S": "90",
        "KAFKA_MAINTENANCE_SCRATCH": "/scratch",
        "KAFKA_MAINTENANCE_DRIVER_MEMORY": "1g",
        "KAFKA_MAINTENANCE_SNAPSHOT_KEY_FILE": "/run/secrets/snapshot.key",
        "KAFKA_MAINTENANCE_KEEP_DAILY": "0",
        "KAFKA_MAINTENANCE_APPROVAL_REMINDER_S": "0",
        "KAFKA_MAINTENANCE_SNAPSHOT_LATE_S": "0",
        "KAFKA_MAINTENANCE_CLUSTER_DAGS": "blue, red",
    }
    assert settings_from(environment) == Settings(
        snapshot_cron="* * * * *",
        approval_timeout_s=90,
        scratch=Path("/scratch"),
        driver_memory="1g",
        snapshot_key_file=Path("/run/secrets/snapshot.key"),
        keep_daily=0,
        cluster_dags=("blue", "red"),
    )
    assert settings_from({}) == Settings()


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        pytest.param(
            "APPROVAL_TIMEOUT_S",
            "-1",
            "expected a whole number, 1 or more, 31622400 at most, found '-1'",
            id="negative",
        ),
        pytest.param(
            "KEEP_LAST",
            "0",
            "KEEP_LAST not read: expected how many .*, 1 or more, 100000 at most, found '0'",
            id="keep none",
        ),
        pytest.param(
            "KEEP_DAILY",
            "-1",
            "KEEP_DAILY not read: expected how many .*, 0 or more, 100000 at most, found '-1'",
            id="below 0",
        ),
        pytest.param("CLUSTER_DAGS", "a b", "expected names of clusters with commas, found 'a b'", id="no names"),
        pytest.param(
            "POKE_INTERVAL_S",
            "0",
            "expected a whole number, 1 or more, 31622400 at most, found '0'",
            id="without a pause",
        ),
        pytest.param(
            "SNAPSHOT_LATE_S", "-1", "expected a whole number, 0 or more, 31622400 at most, found '-1'", id="earlier"
        ),
        pytest.param(
            "ALARM_SEVERITY", "Critical", "expected one of critical, .*, none, found 'Critical'", id="severity"
        ),
        pytest.param("DRIVER_MEMORY", "2gb", "such as '2g', found '2gb'", id="no unit of Java"),
        pytest.param("DRIVER_MEMORY", "2048", "such as '2g', found '2048'", id="bytes"),
        pytest.param("SNAPSHOT_WAIT_S", "2h", "KAFKA_MAINTENANCE_SNAPSHOT_WAIT_S not read", id="with a unit"),
        pytest.param("STORE_FREE_PERCENT", "500", "1 or more, 99 at most, found '500'", id="more than all"),
        pytest.param("STORE_FREE_PERCENT", "100", "1 or more, 99 at most, found '100'", id="all of it"),
        pytest.param("ANALYSIS_TIMEOUT_S", "100000000000", "1 or more, 31622400 at most", id="milliseconds or so"),
        pytest.param("APPROVAL_TIMEOUT_S", "9" * 5000, "1 or more, 31622400 at most", id="of 5000 digits"),
        pytest.param("KEEP_ANALYSES_DAYS", "1000000", "0 or more, 100000 at most", id="days before the first year"),
    ],
)
def test_a_wrong_setting_says_which_and_what(name, value, message):
    from kafka_maintenance.tasks.settings import SettingsError, settings_from

    with pytest.raises(SettingsError, match=message):
        settings_from({f"KAFKA_MAINTENANCE_{name}": value})


@pytest.mark.parametrize(
    ("name", "cron", "well"),
    [
        pytest.param("snapshot", "30 1 * * *", True, id="a cron"),
        pytest.param("drill", "0 0 29 2 *", True, id="every four years"),
        pytest.param("analysis", "snapshots", True, id="after the snapshots"),
        pytest.param("snapshot", "snapshots", False, id="which only the analysis may be"),
        pytest.param("drain", "nightly", False, id="no cron"),
        pytest.param("drain", "0 1 * *", False, id="four fields"),
        pytest.param("drain", "0 0 1 * * *", False, id="six fields"),
        pytest.param("check", "61 * * * *", False, id="no minute"),
        pytest.param("retention", "0 0 31 2 *", False, id="no date"),
    ],
)
def test_a_wrong_cron_is_told_by_its_dag_alone(name, cron, well):
    from kafka_maintenance.tasks.settings import SettingsError, settings_from

    settings = settings_from({f"KAFKA_MAINTENANCE_{name.upper()}_CRON": cron})
    if well:
        assert settings.cron(name) == cron
    else:
        message = f"KAFKA_MAINTENANCE_{name.upper()}_CRON not read: expected a cron of five fields .*, found '{re.escape(cron)}'"
        with pytest.raises(SettingsError, match=message):
            settings.cron(name)
