"""The Airflow, the users and the cluster in memory of the DAG tests: an attacker has what a colleague has."""

from controller_core.adapters.object_store.open import open_store

from tests import airflow_home  # isort: skip  # before anything of Airflow

import pytest

from tests.dags.conftest import airflow_is_asked, api_address, bag, clients, database, plan, world
from tests.dags.world import CLUSTER

__all__ = ["airflow_home", "airflow_is_asked", "api_address", "bag", "clients", "database", "plan", "world"]


@pytest.fixture
def deletion(world, tmp_path):
    """A stored plan that deletes the topic `orders`."""
    from kafka_maintenance.operations.plans.deletions import plan_deletions

    return plan_deletions(open_store(str(tmp_path)), CLUSTER, topics=["orders"], zookeeper=world.zookeeper)


@pytest.fixture
def signed(monkeypatch, tmp_path_factory):
    """The keys that sign and verify the record stand in the settings; the attacker has neither."""
    from kafka_maintenance.cli.main import main
    from kafka_maintenance.operations.record import audit

    key = tmp_path_factory.mktemp("keys") / "audit.pem"
    assert main(["audit", "keygen", str(key)]) == 0
    assert key.stat().st_mode & 0o077 == 0
    monkeypatch.setenv(audit.KEY_FILE_VARIABLE, str(key))
    monkeypatch.setenv(audit.PUBLIC_KEYS_VARIABLE, f"{key}.pub")
