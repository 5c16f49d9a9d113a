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
    from kafka_maintenance.operations.plans.make import plan_deletions

    return plan_deletions(open_store(str(tmp_path)), CLUSTER, topics=["orders"], zookeeper=world.zookeeper)
