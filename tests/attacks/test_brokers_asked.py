"""Boundary: who may start runs, against the login with which a cluster's connection has its brokers asked."""

import pytest

from kafka_maintenance.connections.clusters import Cluster
from kafka_maintenance.operations.errors import BadInputError

LOGIN = {"security_protocol": "SASL_SSL", "sasl_plain_username": "maintenance", "sasl_plain_password": "s3cret"}
BOTH = "kafka1:9092, kafka2:9092"


def _cluster(servers):
    return Cluster(name="alpha", address=None, bootstrap_servers=servers, client_settings=LOGIN)


@pytest.mark.parametrize(
    ("dag_id", "task_id", "arguments"),
    [("reassign_partitions", "plan_reassignment", (100, {})), ("delete_topics", "plan_deletions", (["orders"],))],
)
@pytest.mark.parametrize("named", ["attacker:9092", "kafka1:9092,attacker:9092", "kafka1:9093"])
def test_a_run_names_no_server_that_gets_the_login_of_the_connection(
    bag, monkeypatch, dag_id, task_id, arguments, named
):
    """It would be handed the login before any gate, and answer how large replicas are and who uses a topic."""
    from kafka_maintenance import hooks

    monkeypatch.setattr(hooks, "cluster", lambda _: _cluster(BOTH))
    planning = bag.dags[dag_id].get_task(task_id).python_callable
    with pytest.raises(BadInputError, match=f"among those of its connection, {BOTH}, found {named.split(',')[-1]}"):
        planning("alpha", None, None, *arguments, named)


@pytest.mark.parametrize(
    ("connection", "run", "asked"),
    [
        pytest.param(BOTH, None, ("kafka1:9092,kafka2:9092", LOGIN), id="those of the connection"),
        pytest.param(BOTH, "kafka2:9092", ("kafka2:9092", LOGIN), id="one of them"),
        pytest.param(None, "kafka3:9092", ("kafka3:9092", None), id="those of the run, without the login"),
        pytest.param(None, " , ", None, id="none that is named"),
        pytest.param(None, None, None, id="none"),
    ],
)
def test_who_is_asked_and_with_which_login(database, connection, run, asked):
    from kafka_maintenance.tasks.common import brokers_of

    assert brokers_of(_cluster(connection), run) == asked
