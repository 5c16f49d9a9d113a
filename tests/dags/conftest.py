"""The DagBag and the database that the tests of this folder share."""

from tests import airflow_home  # isort: skip  # before anything of Airflow

import pytest


@pytest.fixture(scope="session")
def database():
    """Airflow's metadata database, made once, with the pools that the scheduler would make."""
    from airflow.utils.db import initdb

    from kafka_maintenance.pools import make_missing_pools

    initdb()
    make_missing_pools()
    return airflow_home.HOME / "airflow.db"


@pytest.fixture(scope="session")
def bag(database):
    """Our DAGs as the DAG processor reads them."""
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(dag_folder=str(airflow_home.ROOT / "dags"))
