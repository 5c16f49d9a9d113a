"""One Spark session for all of tests/spark_jobs, and jobs that run in it."""

from contextlib import redirect_stderr, redirect_stdout
from importlib import import_module
from pathlib import Path

import pytest

from kafka_maintenance.spark import submit
from spark_jobs.io import datasets
from tests.spark_session import spark

__all__ = ["spark"]


def pytest_collection_modifyitems(items):
    for item in items:
        if "spark" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.spark)


@pytest.fixture
def submitted_here(spark, monkeypatch):
    """What is submitted runs in the session of the tests, by its own `main` and its own arguments: a JVM less."""

    def run_job(job, log_file):
        with log_file.open("w") as log, redirect_stdout(log), redirect_stderr(log):
            status = import_module(f"spark_jobs.{Path(job.application).stem}").main(job.arguments)
        if status:
            raise submit.SparkJobError(f"{job.name} ended with status {status}", status)

    monkeypatch.setattr(submit, "run_job", run_job)
    monkeypatch.setattr(datasets, "session", lambda _: spark)
    monkeypatch.setattr(spark, "stop", lambda: None)
