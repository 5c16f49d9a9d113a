"""Disks measured once a run, the newest of a date staged for the analysis, expired ones removed."""

import json
from datetime import UTC, date, datetime
from pathlib import Path

import pytest

from kafka_maintenance.operations.analysis import disks
from kafka_maintenance.operations.analysis.run import stage
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.cluster.log_dirs import SizesUnknownError
from tests.spark_jobs.worlds import DAY, World, publish

NOW = datetime(DAY.year, DAY.month, DAY.day, 2, tzinfo=UTC)
BROKERS = BrokersAsked("b:9092")


def said(error=0, **volume):
    rows = [{"partition_index": 0, "partition_size": 7, "is_future_key": False}]
    return {"log_dir": "/data", "error_code": error, "topics": [{"name": "t", "partitions": rows}], **volume}


@pytest.fixture
def answers(monkeypatch):
    """What the brokers say, and why the others do not."""
    given = ({1: [said(total_bytes=10, usable_bytes=5)]}, {})
    monkeypatch.setattr(disks, "answers_of", lambda *_, **__: given)
    return given


def measured(store, run="r", now=NOW, cluster="alpha"):
    return disks.measure_disks(store, cluster, BROKERS, run_id=run, now=now)


def test_a_run_measures_once(store, answers):
    key = measured(store)
    content = store.get(key)
    answers[0][2] = [said()]
    assert measured(store) == key
    assert store.get(key) == content
    assert measured(store, "again") != key


def test_a_broker_that_does_not_answer_is_named_in_the_log(store, answers, caplog):
    answers[1][3] = "Timeout"
    assert measured(store)
    assert "disks of alpha: no answer of broker 3: Timeout" in caplog.text


def test_nobody_answers(store, answers):
    answers[0].clear()
    answers[1][3] = "Timeout"
    with pytest.raises(SizesUnknownError, match=r"disks of 'alpha' not measured: .* found broker 3: Timeout"):
        measured(store)
    assert store.list("") == []


def test_the_newest_of_the_date_that_can_be_read_counts(store, answers, caplog):
    measured(store, "old", NOW.replace(hour=1))
    newest = measured(store, "new")
    measured(store, "other date", NOW.replace(day=NOW.day - 1))
    store.put(f"{disks.PREFIX}cluster=alpha/date={DAY}/zz.parquet", b"no Parquet")
    store.put(f"{disks.PREFIX}cluster=beta/date={DAY}/r.parquet", store.get(newest))
    assert disks.newest_disks(store, ["alpha", "beta", "gamma"], DAY) == {"alpha": (newest, store.get(newest))}
    assert "no whole Parquet file" in caplog.text
    assert "beta/date=2026-11-20/r.parquet holds other rows" in caplog.text


def test_the_analysis_is_given_them(store, answers, tmp_path):
    measured(store)
    measured(store, cluster="omega")
    stage(store, [publish(World(brokers={1: None}), store)], tmp_path, run_id="r", day=DAY)
    (path,) = json.loads((tmp_path / "disks.json").read_text())
    assert "cluster=alpha" in path
    assert disks._measured_at(Path(path).read_bytes(), path, "alpha") == NOW


def test_what_is_older_than_wanted_goes(store, answers):
    kept = measured(store)
    old = measured(store, now=NOW.replace(day=1))
    assert disks.remove_expired_disks(store, date(2026, 11, 2)) == [old]
    assert store.list(disks.PREFIX) == [kept]
