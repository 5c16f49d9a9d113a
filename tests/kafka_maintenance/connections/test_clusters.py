"""Connections → clusters; every mistake says what to correct."""

from tests import airflow_home  # isort: skip  # before anything of Airflow

import json
from pathlib import Path

import pytest

from controller_core.model.errors import TlsSettingsError
from tests.kafka_maintenance.connection_fields import Fields

assert airflow_home


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
    from kafka_maintenance.connections.clusters import cluster_from

    assert cluster_from("alpha", fields).address.zookeeper == zookeeper


def test_all_that_a_connection_may_say():
    from kafka_maintenance.connections.clusters import cluster_from

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
    from kafka_maintenance.connections.clusters import cluster_from

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
    from kafka_maintenance.connections.clusters import cluster_from
    from kafka_maintenance.connections.fields import SettingsMissingError

    with pytest.raises(SettingsMissingError, match=message):
        cluster_from("alpha", fields)


@pytest.mark.parametrize("name", ["prod:eu", "a b", "-a", "prod/eu"])
def test_a_connection_whose_id_can_be_no_name_in_the_store_is_refused(name):
    from kafka_maintenance.connections.clusters import cluster_from
    from kafka_maintenance.connections.fields import SettingsMissingError

    with pytest.raises(
        SettingsMissingError, match=f"connection '{name}' not used: its id names the cluster in the store"
    ):
        cluster_from(name, Fields())


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

    from kafka_maintenance.connections.clusters import cluster_from
    from kafka_maintenance.connections.fields import SettingsMissingError

    with pytest.raises(SettingsMissingError, match=message):
        cluster_from("alpha", Connection(conn_id="alpha", **given))


def test_objects_may_be_typed_into_the_form_as_text():
    from airflow.sdk import Connection

    from kafka_maintenance.connections.clusters import cluster_from

    extra = {"tls": '{"ca": "/etc/ca.pem"}', "analysis": ' {"min_insync_replicas": 2}'}
    found = cluster_from("alpha", Connection(conn_id="alpha", host="zk1", extra=json.dumps(extra)))
    assert (found.address.tls.ca, dict(found.analysis)) == ("/etc/ca.pem", {"min_insync_replicas": 2})


def test_an_ipv6_uri_keeps_its_port():
    from airflow.sdk import Connection

    from kafka_maintenance.connections.clusters import cluster_from

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
    from kafka_maintenance.connections.clusters import names_from

    assert names_from(text) == names


@pytest.mark.parametrize("text", [None, "", " ", "[", '["alpha", 3]', "alpha,,beta"])
def test_a_list_that_cannot_be_read_says_how_to_set_it(text):
    from kafka_maintenance.connections.clusters import names_from
    from kafka_maintenance.connections.fields import SettingsMissingError

    with pytest.raises(SettingsMissingError, match="set the Variable kafka_maintenance_clusters to a JSON list"):
        names_from(text)


@pytest.mark.services
def test_pem_text_of_a_connection_opens_a_session_and_lies_on_no_disk(tmp_path):
    from controller_core.adapters.memory_file import path_of
    from kafka_maintenance.connections.clusters import cluster_from
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
