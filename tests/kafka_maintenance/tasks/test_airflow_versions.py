"""An Airflow that is too old is told in a sentence, when the first DAG file is read."""

from tests import airflow_home  # isort: skip  # before anything of Airflow

import importlib

import pytest

assert airflow_home


def test_an_airflow_without_partitioned_runs_is_refused_in_a_sentence(monkeypatch):
    import airflow.sdk

    from kafka_maintenance.tasks import airflow_versions

    with monkeypatch.context() as older:
        older.delitem(airflow.sdk.__dict__, "CronPartitionTimetable", raising=False)
        older.setattr(airflow.sdk, "__getattr__", _lacks, raising=False)
        with pytest.raises(ImportError, match=r"expected Airflow 3\.2 or newer.*, found 3\.\d+\.\d+; upgrade Airflow"):
            importlib.reload(airflow_versions)
    importlib.reload(airflow_versions)


def _lacks(name):
    raise AttributeError(name)
