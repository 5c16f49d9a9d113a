"""What a try of the daily analysis does with what the tries before it left."""

from tests import airflow_home  # isort: skip  # before anything of Airflow

from dataclasses import replace
from types import SimpleNamespace

import pytest

from controller_core.adapters.object_store.open import open_store
from controller_core.adapters.snapshot.manifest import run_token
from kafka_maintenance import hooks
from kafka_maintenance.operations.analysis.run import UNPUBLISHED
from kafka_maintenance.tasks import analysis

assert airflow_home


def test_a_try_removes_from_the_store_what_lost_tries_of_its_run_left(tmp_path, monkeypatch):
    """Their workers cannot: a job on a Spark cluster writes into the store."""
    store = open_store(str(tmp_path / "store"))
    context = {"ti": SimpleNamespace(try_number=3), "dag_run": SimpleNamespace(dag_id="nightly_analysis", run_id="a")}
    runs = ("nightly_analysis.a", "nightly_analysis.a.2", "nightly_analysis.b")
    for run in runs:
        store.put(f"{UNPUBLISHED}date=2026-11-20/run={run_token(run)}/findings/part-0.parquet", b"")
    monkeypatch.setattr(hooks, "store", lambda: store)
    monkeypatch.setattr(analysis, "SETTINGS", replace(analysis.SETTINGS, scratch=tmp_path / "scratch"))

    def staged(*_):
        raise InterruptedError

    monkeypatch.setattr(analysis, "_staged", staged)
    with pytest.raises(InterruptedError):
        analysis.AnalyseOperator(task_id="analyse", choice={"date": "2026-11-21"}).execute(context)
    assert store.list(UNPUBLISHED) == [f"{UNPUBLISHED}date=2026-11-20/run={run_token(runs[2])}/findings/part-0.parquet"]
