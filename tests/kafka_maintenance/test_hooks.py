"""Connections and variables → clusters, store, pools and settings; every mistake says what to correct."""

from tests import airflow_home  # isort: skip  # before anything of Airflow

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from controller_core.model.errors import TlsSettingsError

assert airflow_home


@dataclass
class Fields:
    """What is read of a connection; `extra_dejson` is `extra` as Airflow reads it."""

    host: str | None = "zk1"
    port: int | None = None
    login: str | None = None
    password: str | None = None
    schema: str | None = None
    extra_dejson: Any = None
    conn_type: str = "generic"

    def __post_init__(self):
        self.extra = json.dumps(self.extra_dejson) if self.extra_dejson is not None else None
        self.extra_dejson = {} if self.extra_dejson is None else self.extra_dejson


@pytest.mark.parametrize(
    ("fields", "zookeeper"),
    [
        pytest.param(Fields(), "zk1:2181", id="a host alone has ZooKeeper's port"),
        pytest.param(Fields(port=2281), "zk1:2281", id="the port field counts for hosts without one"),
        pytest.param(Fields(host="zk1:1, zk2:2 ,zk3"), "zk1:1,zk2:2,zk3:2181", id="several hosts"),
        pytest.param(Fields(extra_dejson={"chroot": "/kafka/"}), "zk1:2181/kafka", id="a chroot with slashes"),
        pytest.param(Fields(extra_dejson={"chroot": "a/b"}), "zk1:2181/a/b", id="a deep chroot without a slash"),
        pytest.param(Fields(extra_dejson={"chroot": "/"}), "zk1:2181", id="the root is no chroot"),
        pytest.param(Fields(extra_dejson={"chroot": None}), "zk1:2181", id="null is nothing"),
        pytest.param(Fields(host="::1"), "[::1]:2181", id="an IPv6 address gets brackets"),
        pytest.param(Fields(host="[::1]:1,::2,zk3", port=3), "[::1]:1,[::2]:3,zk3:3", id="several, some IPv6"),
    ],
)
def test_the_connect_string_of_a_connection(fields, zookeeper):
    from kafka_maintenance.hooks import cluster_from

    assert cluster_from("alpha", fields).address.zookeeper == zookeeper


def test_all_that_a_connection_may_say():
    from kafka_maintenance.hooks import cluster_from

    extra = {"auth": "sasl", "kafka_version": "3.9", "inter_broker_protocol_version": "2.6", "archived": True}
    found = cluster_from("alpha", Fields(login="kafka", password="secret of zookeeper", extra_dejson=extra))
    assert (found.name, found.kafka_version, found.inter_broker_protocol_version) == ("alpha", "3.9", "2.6")
    assert found.archived
    assert (found.address.auth.scheme, found.address.auth.username) == ("sasl", "kafka")
    assert "secret of zookeeper" not in repr(found)


@pytest.mark.parametrize(
    ("tls", "fields"),
    [
        pytest.param(None, None, id="plain text"),
        pytest.param("no", None, id="said so"),
        pytest.param(False, None, id="said so, as JSON"),
        pytest.param("Yes", (None, None, None, True), id="as a word, e.g. in a URI"),
        pytest.param(True, (None, None, None, True), id="the system's authorities, no certificate of ours"),
        pytest.param({"ca": "/ca.pem"}, ("/ca.pem", None, None, True), id="an authority of our own"),
        pytest.param(
            {"ca": "/ca.pem", "certificate": "/our.pem", "key": "/our.key", "check_hostname": False},
            ("/ca.pem", "/our.pem", "/our.key", False),
            id="mutual TLS, any host name",
        ),
    ],
)
def test_tls_of_a_connection(tls, fields):
    from kafka_maintenance.hooks import cluster_from

    found = cluster_from("alpha", Fields(extra_dejson={"tls": tls})).address.tls
    assert (found and (found.ca, found.certificate, found.key, found.check_hostname)) == fields


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param(Fields(host=""), "its connection has no host", id="no host"),
        pytest.param(
            Fields(extra_dejson={"tls": {"cert": "x"}}), r"tls with \['cert'\], expected ca", id="unknown in tls"
        ),
        pytest.param(
            Fields(extra_dejson={"tls": "required"}), "says tls 'required', expected true, false", id="no word"
        ),
        pytest.param(Fields(extra_dejson={"tls": ""}), "says tls '', expected true, false", id="an empty word"),
        pytest.param(Fields(extra_dejson={"tls": ["/ca.pem"]}), r"says tls \['/ca.pem'\], expected true", id="a list"),
        pytest.param(
            Fields(extra_dejson={"tls": {"check_hostname": "flase"}}),
            "says tls with check_hostname 'flase', expected true or false",
            id="no word in tls",
        ),
        pytest.param(
            Fields(extra_dejson={"archived": "y"}), "says archived 'y', expected true or false", id="archived"
        ),
        pytest.param(
            Fields(extra_dejson={"TLS": True, "ssl": True, "chroot": "k"}),
            r"extra holds \['TLS', 'ssl'\], expected only chroot, auth, tls, write_connection, kafka_version",
            id="unknown fields",
        ),
        pytest.param(Fields(schema="kafka"), "holds a path .*schema 'kafka'.* as chroot", id="a path in the URI"),
        pytest.param(Fields(host="zk1,zk2/kafka"), "holds a path .* as chroot", id="a path after the hosts"),
        pytest.param(Fields(extra_dejson={"auth": "digest"}), "holds no login and password", id="auth without login"),
        pytest.param(
            Fields(login="kafka", password="secret of zookeeper"), "would be anonymous", id="login without auth"
        ),
        pytest.param(
            Fields(login="a", password="b", extra_dejson={"auth": "plain"}),
            "says auth 'plain', expected 'digest', 'sasl' or 'kerberos'",
            id="unknown auth",
        ),
        pytest.param(
            Fields(login="kafka@EXAMPLE.COM", password="b", extra_dejson={"auth": "kerberos"}),
            "expected a principal as login and no password .*found login 'kafka@EXAMPLE.COM' and a password",
            id="Kerberos with a password",
        ),
        pytest.param(
            Fields(extra_dejson={"auth": "kerberos"}),
            "expected a principal as login and no password .*found login None and no password",
            id="Kerberos without a principal",
        ),
        pytest.param(Fields(extra_dejson=[1]), "its extra is a list, expected a JSON object", id="extra is no object"),
        pytest.param(
            Fields(extra_dejson={"analysis": "x"}), "its analysis is a str, expected a JSON object", id="no analysis"
        ),
    ],
)
def test_an_unusable_connection_says_why(fields, message):
    from kafka_maintenance.hooks import SettingsMissingError, cluster_from

    with pytest.raises(SettingsMissingError, match=message):
        cluster_from("alpha", fields)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        pytest.param(
            {"host": "zk1", "extra": '{"auth": "digest", "tls": true,}'}, "its extra is not JSON", id="a trailing comma"
        ),
        pytest.param({"host": "zk1", "extra": '["tls"]'}, "expected a JSON object", id="extra is no object"),
        pytest.param({"uri": "generic://zk1:2181/kafka"}, "holds a path", id="a path in the URI"),
        pytest.param({"uri": "generic://zk1/?tls=%7B%22ca%22%3A"}, "says tls", id="half an object in the URI"),
    ],
)
def test_a_connection_that_airflow_reads_by_halves_is_refused_in_tasks(given, message):
    from airflow.sdk import Connection

    from kafka_maintenance.hooks import SettingsMissingError, cluster_from

    with pytest.raises(SettingsMissingError, match=message):
        cluster_from("alpha", Connection(conn_id="alpha", **given))


def test_objects_may_be_typed_into_the_form_as_text():
    from airflow.sdk import Connection

    from kafka_maintenance.hooks import cluster_from

    extra = {"tls": '{"ca": "/etc/ca.pem"}', "analysis": ' {"min_insync_replicas": 2}'}
    found = cluster_from("alpha", Connection(conn_id="alpha", host="zk1", extra=json.dumps(extra)))
    assert (found.address.tls.ca, dict(found.analysis)) == ("/etc/ca.pem", {"min_insync_replicas": 2})


def test_an_ipv6_uri_keeps_its_port():
    from airflow.sdk import Connection

    from kafka_maintenance.hooks import cluster_from

    connection = Connection.from_uri("generic://[::1]:2281", conn_id="alpha")
    assert cluster_from("alpha", connection).address.zookeeper == "[::1]:2281"


@pytest.mark.parametrize(
    ("text", "names"),
    [
        pytest.param('["alpha", "beta"]', ("alpha", "beta"), id="a JSON list"),
        pytest.param("alpha, beta", ("alpha", "beta"), id="names with commas"),
        pytest.param('["alpha", "alpha"]', ("alpha",), id="a name twice counts once"),
    ],
)
def test_the_list_of_clusters(text, names):
    from kafka_maintenance.hooks import names_from

    assert names_from(text) == names


@pytest.mark.parametrize("text", [None, "", " ", "[", '["alpha", 3]', "alpha,,beta"])
def test_a_list_that_cannot_be_read_says_how_to_set_it(text):
    from kafka_maintenance.hooks import SettingsMissingError, names_from

    with pytest.raises(SettingsMissingError, match="set the Variable kafka_maintenance_clusters to a JSON list"):
        names_from(text)


@pytest.fixture
def two_clusters(monkeypatch):
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_CLUSTERS", '["alpha", "old", "ghost"]')
    monkeypatch.setenv("AIRFLOW_CONN_ALPHA", json.dumps({"conn_type": "generic", "host": "zk1:1,zk2:2"}))
    old = {"conn_type": "generic", "host": "gone", "extra": {"archived": True}}
    monkeypatch.setenv("AIRFLOW_CONN_OLD", json.dumps(old))


def test_archived_clusters_are_not_live_and_unusable_ones_hold_up_nobody(two_clusters):
    from kafka_maintenance.hooks import live_names

    assert live_names() == ("alpha", "ghost")
    assert live_names(["old", "alpha"]) == ("alpha",)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        pytest.param("gamma", "lists alpha, old, ghost; add it there", id="not listed"),
        pytest.param("ghost", "there is none of that id", id="listed, but without a connection"),
    ],
)
def test_an_unknown_cluster_says_what_is_missing(two_clusters, name, message):
    from kafka_maintenance.hooks import SettingsMissingError, cluster

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
    with pytest.raises(hooks.SettingsMissingError, match=message):
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
    with pytest.raises(hooks.SettingsMissingError, match=message):
        hooks.limits_of("alpha")


def test_a_cluster_without_a_connection_has_no_limits_of_its_own():
    from kafka_maintenance import hooks

    assert hooks.limits_of("nobody") == (None, {})


def test_the_store_takes_its_credentials_from_the_connection():
    from kafka_maintenance.hooks import StoreSettings, store_settings_from

    fields = Fields(login="key", password="secret", extra_dejson={"endpoint_url": "http://s3:1", "region_name": "r"})
    assert store_settings_from("s3://bucket/prefix", fields) == StoreSettings(
        uri="s3://bucket/prefix", endpoint_url="http://s3:1", access_key="key", secret_key="secret", region="r"
    )
    assert store_settings_from("/srv/store", None) == StoreSettings(uri="/srv/store")


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
    from kafka_maintenance.hooks import SettingsMissingError, airflow_api

    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_MAINTENANCE_AIRFLOW", json.dumps(fields))
    with pytest.raises(SettingsMissingError, match="expected type http or https, a host and a password"):
        airflow_api()


def test_a_missing_store_says_how_to_name_one():
    from kafka_maintenance.hooks import SettingsMissingError, store_settings_from

    with pytest.raises(SettingsMissingError, match="set it to a folder or to s3://bucket/prefix"):
        store_settings_from(None, None)


def test_gated_runs_are_not_opened_unless_the_variable_says_so(monkeypatch):
    from kafka_maintenance.hooks import SettingsMissingError, open_gated_runs

    assert not open_gated_runs()
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_OPEN_GATED_RUNS", "true")
    assert open_gated_runs()
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_OPEN_GATED_RUNS", "y")
    with pytest.raises(SettingsMissingError, match="says 'y', expected true or false"):
        open_gated_runs()


@pytest.mark.services
def test_pem_text_of_a_connection_opens_a_session_and_lies_on_no_disk(tmp_path):
    from controller_core.adapters.memory_file import path_of
    from kafka_maintenance.hooks import cluster_from
    from tests.contracts.certificates import issued, started

    files = issued(tmp_path)
    texts = {"ca": "ours.pem", "certificate": "client.pem", "key": "client.key"}
    tls = {field: (files / file).read_text() for field, file in texts.items()}
    with started(files, "server") as server:
        fields = Fields(host=server.secure_hosts, extra_dejson={"tls": tls})
        address = cluster_from("alpha", fields).address
        assert address == cluster_from("alpha", fields).address, "the same text is one file, however often it is read"
        with address.session() as session:
            assert session.exists("/") is not None
    for file in (address.tls.ca, address.tls.certificate, address.tls.key):
        assert str(Path(file).readlink()) == "/memfd:kafka-maintenance (deleted)"
    assert tls["key"] not in repr(address)
    broken = Fields(extra_dejson={"tls": {"ca": "-----BEGIN CERTIFICATE-----"}})
    with (
        pytest.raises(TlsSettingsError, match="CA file the text of the connection: expected"),
        cluster_from("alpha", broken).address.session(),
    ):
        pass
    access = cluster_from("alpha", Fields(extra_dejson={"broker_access": {"tls": tls}})).broker_access["tls"]
    asked = cluster_from("alpha", Fields(extra_dejson={"client_settings": {"ssl_cafile": tls["ca"]}})).client_settings
    assert (access["key"], asked["ssl_cafile"]) == (path_of(tls["key"]), address.tls.ca)


def test_the_keys_of_snapshots_come_from_one_place(monkeypatch, tmp_path):
    from kafka_maintenance.hooks import STORE_CONNECTION, SettingsMissingError, snapshot_key_file

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
    from pathlib import Path

    from kafka_maintenance.tasks.settings import Settings, settings_from

    environment = {
        "KAFKA_MAINTENANCE_SNAPSHOT_CRON": "* * * * *",
        "KAFKA_MAINTENANCE_APPROVAL_TIMEOUT_S": "90",
        "KAFKA_MAINTENANCE_SCRATCH": "/scratch",
        "KAFKA_MAINTENANCE_DRIVER_MEMORY": "1g",
        "KAFKA_MAINTENANCE_SNAPSHOT_KEY_FILE": "/run/secrets/snapshot.key",
        "KAFKA_MAINTENANCE_KEEP_DAILY": "0",
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
        pytest.param("SNAPSHOT_CRON", "nightly", "expected a cron of five fields", id="no cron"),
        pytest.param("APPROVAL_TIMEOUT_S", "-1", "expected a whole number above 0, found '-1'", id="negative"),
        pytest.param(
            "KEEP_LAST", "0", "KEEP_LAST not read: expected how many .*, 1 or more, found '0'", id="keep none"
        ),
        pytest.param(
            "KEEP_DAILY", "-1", "KEEP_DAILY not read: expected how many .*, 0 or more, found '-1'", id="below 0"
        ),
        pytest.param("CLUSTER_DAGS", "a b", "expected names of clusters with commas, found 'a b'", id="no names"),
        pytest.param("SNAPSHOT_WAIT_S", "2h", "KAFKA_MAINTENANCE_SNAPSHOT_WAIT_S not read", id="with a unit"),
    ],
)
def test_a_wrong_setting_says_which_and_what(name, value, message):
    from kafka_maintenance.tasks.settings import SettingsError, settings_from

    with pytest.raises(SettingsError, match=message):
        settings_from({f"KAFKA_MAINTENANCE_{name}": value})


@pytest.mark.parametrize(
    ("fields", "master"),
    [
        pytest.param(Fields(conn_type="spark", host="local[2]"), "local[2]", id="one machine"),
        pytest.param(Fields(conn_type="spark", host="spark://one:7077"), "spark://one:7077", id="typed into the form"),
        pytest.param(Fields(conn_type="spark", host="one", port=7077), "spark://one:7077", id="given as a URI"),
        pytest.param(Fields(conn_type="spark", host="yarn"), "yarn", id="YARN"),
    ],
)
def test_the_spark_connection_names_the_master_that_the_operator_takes(fields, master, monkeypatch):
    from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
    from airflow.sdk import Connection

    from kafka_maintenance.hooks import spark_settings_from

    assert spark_settings_from(fields).master == master
    connection = Connection(conn_id="x", conn_type="spark", host=fields.host, port=fields.port)
    monkeypatch.setattr(SparkSubmitHook, "get_connection", lambda *_: connection)
    assert SparkSubmitHook(conn_id="x")._connection["master"] == master


def test_the_spark_connection_carries_what_a_cluster_needs():
    from kafka_maintenance.hooks import spark_settings_from

    extra = {"jars": ["/jars/hadoop-aws.jar"], "conf": {"spark.executor.cores": 2}}
    found = spark_settings_from(Fields(conn_type="spark", host="spark://one:7077", extra_dejson=extra))
    assert (found.jars, dict(found.conf), found.local) == (
        ("/jars/hadoop-aws.jar",),
        {"spark.executor.cores": "2"},
        False,
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        pytest.param(Fields(conn_type="spark", host=None), "expected a host such as", id="no host"),
        pytest.param(Fields(host="x", extra_dejson={"jars": "a,b"}), "a list 'jars'", id="jars as text"),
        pytest.param(Fields(host="x", extra_dejson={"conf": "a=b"}), "expected a JSON object", id="conf as text"),
    ],
)
def test_an_unusable_spark_connection_says_why(fields, message):
    from kafka_maintenance.hooks import SettingsMissingError, spark_settings_from

    with pytest.raises(SettingsMissingError, match=message):
        spark_settings_from(fields)
