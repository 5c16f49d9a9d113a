"""The connection of Spark."""

from tests import airflow_home  # isort: skip  # before anything of Airflow


import pytest

from tests.kafka_maintenance.connection_fields import Fields

assert airflow_home


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

    from kafka_maintenance.connections.spark import spark_settings_from

    assert spark_settings_from(fields).master == master
    connection = Connection(conn_id="x", conn_type="spark", host=fields.host, port=fields.port)
    monkeypatch.setattr(SparkSubmitHook, "get_connection", lambda *_: connection)
    assert SparkSubmitHook(conn_id="x")._connection["master"] == master


def test_the_spark_connection_carries_what_a_cluster_needs():
    from kafka_maintenance.connections.spark import spark_settings_from

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
    from kafka_maintenance.connections.fields import SettingsMissingError
    from kafka_maintenance.connections.spark import spark_settings_from

    with pytest.raises(SettingsMissingError, match=message):
        spark_settings_from(fields)
