"""Boundary: who sees a list of processes, a page of a task or the help of the command. None of them shows a login."""

import argparse
import json
import re

import pytest

from kafka_maintenance.cli.main import parser
from kafka_maintenance.connections.fields import SettingsMissingError
from kafka_maintenance.hooks import spark_settings, store_settings
from kafka_maintenance.spark.submit import submit_arguments

SECRETS = ("s3cr3t-of-the-store", "s3cr3t-of-zookeeper", "s3cr3t-of-airflow", "s3cr3t-of-the-environment")
STORE, ZOOKEEPER, AIRFLOW, ENVIRONMENT = SECRETS


@pytest.fixture
def logins(monkeypatch):
    """Connections and an environment that hold a secret each."""
    for name, connection in {
        "KAFKA_MAINTENANCE_STORE": {"conn_type": "kafka_maintenance_store", "login": "key", "password": STORE},
        "KAFKA_MAINTENANCE_AIRFLOW": {"conn_type": "http", "host": "a", "login": "v", "password": AIRFLOW},
        "KAFKA_MAINTENANCE_SPARK": {"conn_type": "spark", "host": "local[2]"},
        "ALPHA": {
            "conn_type": "kafka_zookeeper",
            "host": "zk:2181",
            "login": "kafka",
            "password": ZOOKEEPER,
            "extra": {"auth": "sasl"},
        },
    }.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(connection))
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_STORE", "s3://bucket")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", ENVIRONMENT)
    monkeypatch.setenv("KAFKA_MAINTENANCE_ZOOKEEPER_PASSWORD", ENVIRONMENT)


def _secrets_in(*shown):
    return [secret for secret in SECRETS if any(secret in each for each in shown)]


def test_no_process_of_ours_is_told_a_login_in_its_arguments(logins, tmp_path):
    assert store_settings().secret_key == STORE, "the connection is read"
    submit = submit_arguments(
        "nightly_analysis", ["--date", "2026-11-23"], work_folder=tmp_path, settings=spark_settings()
    )
    assert _secrets_in(*submit.command(), json.dumps(submit.operator_kwargs())) == []


@pytest.mark.parametrize(
    "key",
    [
        "spark.hadoop.fs.s3a.secret.key",
        "spark.hadoop.fs.s3a.access.key",
        "spark.hadoop.fs.s3a.session.token",
        "spark.authenticate.secret",
        "spark.ssl.keyStorePassword",
    ],
)
def test_a_secret_in_sparks_connection_is_refused_before_it_is_an_argument(monkeypatch, key):
    found = {"conn_type": "spark", "host": "local[2]", "extra": {"conf": {key: STORE}}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_MAINTENANCE_SPARK", json.dumps(found))
    with pytest.raises(SettingsMissingError, match=f"{re.escape(key)}.*spark-defaults.conf") as refused:
        spark_settings()
    assert STORE not in str(refused.value)


def test_what_chooses_a_provider_of_credentials_is_let_through(monkeypatch):
    conf = {
        "spark.hadoop.fs.s3a.aws.credentials.provider": "software.amazon.awssdk.auth.credentials.ProfileCredentialsProvider"
    }
    found = {"conn_type": "spark", "host": "local[2]", "extra": {"conf": conf}}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_MAINTENANCE_SPARK", json.dumps(found))
    assert spark_settings().conf == conf


def test_no_field_that_a_task_renders_holds_a_login(logins, bag):
    rendered = {
        f"{dag.dag_id}.{task.task_id}": repr([getattr(task, name, None) for name in task.template_fields])
        for dag in bag.dags.values()
        for task in dag.tasks
    }
    assert len(rendered) > len(bag.dags)
    assert {name: found for name, shown in rendered.items() if (found := _secrets_in(shown))} == {}


def test_no_option_of_the_command_takes_a_password():
    """An argument stands in the list of processes; `--zookeeper-key` and `--key-file` name files."""
    options, parsers = set(), [parser()]
    while parsers:
        for action in parsers.pop()._actions:
            if isinstance(action, argparse._SubParsersAction):
                parsers += action.choices.values()
            elif action.nargs != 0:
                options.update(action.option_strings)
    assert "--zookeeper-user" in options
    assert [each for each in sorted(options) if re.search(r"password|secret|token", each)] == []
