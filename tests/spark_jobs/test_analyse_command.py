"""`kafka-maintenance analyse` from end to end on the recorded dates: what it prints, stores, and how it ends."""

import json
import re
import tempfile
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from controller_core.adapters.object_store.open import open_store
from kafka_maintenance.cli.main import main
from kafka_maintenance.demo import sample_history
from kafka_maintenance.operations.analysis import published as published_analyses
from kafka_maintenance.spark import submit
from tests.spark_jobs.worlds import World, publish

LAST = sample_history.DAYS[-1]
OTHER = World(cluster="other", brokers={1: None}, partitions=(("t", 0, (1,), 1, (1,)),), day=LAST)


@pytest.fixture
def store(tmp_path):
    found = open_store(str(tmp_path / "store"))
    sample_history.copy_into(found)
    return found


def run(capsys, store, *arguments):
    """Exit status, standard output and standard error."""
    status = main(["analyse", "--store", store.uri, "--driver-memory", "1g", *arguments])
    printed = capsys.readouterr()
    return status, printed.out, printed.err


@pytest.mark.spark
def test_the_newest_day_is_analysed_and_its_report_is_printed(store, tmp_path, capsys):
    status, out, err = run(capsys, store, "--folder", str(tmp_path / "kept"))
    assert (status, err) == (0, "")
    assert f"# Kafka maintenance report, {LAST}" in out
    assert "1 cluster analysed, 0 problems, 0 rows refused." in out
    assert "The dates so far" in out
    assert str(sample_history.DAYS[0]) in out
    html, manifest = out.split()[-2:]
    assert store.get(published_analyses.key_of(store, html)).startswith(b"<!doctype html>")
    assert main(["report", "--store", store.uri, "--html", str(tmp_path / "page.html")]) == 0
    assert capsys.readouterr().out == out
    assert (tmp_path / "page.html").read_bytes() == store.get(published_analyses.key_of(store, html))
    assert main(["report", "--store", store.uri, "--date", str(LAST), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["manifest_uri"] == manifest
    assert main(["report", "--store", store.uri, "--date", "2020-01-01"]) == 2
    assert f"no report of 2020-01-01 in {store.uri!r}: expected a published analysis, found those of {LAST};" in (
        capsys.readouterr().err
    )
    days = pq.read_table(tmp_path / "kept" / "output" / "growth", partitioning=None).column("date").to_pylist()
    assert days == list(sample_history.DAYS)


@pytest.mark.spark
def test_a_damaged_cluster_is_named_and_fails_at_the_end_if_asked(submitted_here, store, tmp_path, capsys):
    damaged = publish(OTHER, store)
    store.put(damaged.object("partitions").key, b"PAR1 no longer")
    named = [word for name in (sample_history.CLUSTER, "other", "nobody") for word in ("--cluster", name)]
    status, out, err = run(capsys, store, "--fail-if-incomplete", "--json", "--run-id", "strict", *named)
    told = json.loads(out)
    assert (status, told["exit_status"], told["error"]) == (3, 3, "AnalysisIncompleteError")
    assert "other: " in err
    assert "nobody: cluster 'nobody' has no snapshot" in err
    (published,) = published_analyses.list_analyses(store, LAST)
    assert published.run_id == "strict"
    assert set(published.summary["clusters"]) == {sample_history.CLUSTER}


@pytest.mark.parametrize("printed", [b"what the job said", None], ids=["it has run", "it was not started"])
def test_of_a_job_that_fails_the_log_stays_and_nothing_else(store, tmp_path, capsys, monkeypatch, printed):
    def run_job(job, log_file):
        if printed is not None:
            log_file.write_bytes(printed)
        raise submit.SparkJobError(f"its log is {log_file}", 1)

    monkeypatch.setattr(submit, "run_job", run_job)
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "scratch"))
    (tmp_path / "scratch").mkdir()
    status, _, err = run(capsys, store)
    assert status == 3
    (log,) = re.findall(r"its log is (\S+)", err)
    left = {path: path.read_bytes() for path in (tmp_path / "scratch").rglob("*") if path.is_file()}
    assert left == ({} if printed is None else {Path(log): printed})
    assert list((tmp_path / "scratch").iterdir()) == [path.parent for path in left]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        pytest.param(("--date", "2026-01-01"), "dates with one are", id="no snapshot of that date"),
        pytest.param(("--goals", "/nowhere"), "correct the file", id="no goals file"),
        pytest.param(("--cluster", "nobody"), "expected a snapshot", id="no such cluster"),
        pytest.param(("--history-days", "100000000"), "expected 1 to 3660 dates", id="more dates than there were"),
    ],
)
def test_bad_input_ends_with_2_before_spark_starts(store, capsys, arguments, words):
    status, _, err = run(capsys, store, *arguments)
    assert status == 2
    assert words in err


def test_an_empty_store_is_told(tmp_path, capsys):
    status, _, err = run(capsys, open_store(str(tmp_path)))
    assert status == 2
    assert "take one first" in err
