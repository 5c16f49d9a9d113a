"""Old analyses go, the current run of a date stays longer than those that it replaced."""

import json
from datetime import UTC, date, datetime

import pytest
from pyarrow.fs import LocalFileSystem

from controller_core.adapters.object_store.open import open_store
from kafka_maintenance.operations.analysis.published import list_analyses, publish
from kafka_maintenance.operations.analysis.retention import expired_analyses, remove_analysis
from spark_jobs.io.delivery import deliver
from spark_jobs.io.folders import Folder

TODAY = date(2026, 11, 23)


def delivered(folder, *clusters):
    """What a job leaves that analysed these clusters."""
    folder.mkdir()
    found = {cluster: {"snapshot_id": "s", "snapshot_digest": "d"} for cluster in clusters}
    (folder / "report.md").write_text("# Report")
    (folder / "summary.json").write_text(json.dumps({"clusters": found, "not_analysed": []}))
    deliver(Folder(LocalFileSystem(), str(folder), str(folder)), ["report.md", "summary.json"])
    return folder


@pytest.fixture
def store(tmp_path):
    """One run of an old date, two of a date of three weeks ago, two of yesterday."""
    folder = delivered(tmp_path / "output")
    store = open_store(str(tmp_path / "store"))
    for day, run, hour in (
        ("2025-01-01", "a", 3), ("2026-11-02", "z", 3), ("2026-11-02", "b", 5), ("2026-11-22", "c", 3), ("2026-11-22", "d", 5)
    ):  # fmt: skip
        publish(folder, store, day=day, run_id=run, now=datetime(2026, 11, 22, hour, tzinfo=UTC))
    return store


@pytest.mark.parametrize(
    ("keep_days", "replaced_days", "left"),
    [
        pytest.param(400, 14, ["b", "c", "d"], id="the old date and the replaced run go"),
        pytest.param(4000, 4000, ["a", "b", "c", "d", "z"], id="nothing is old"),
        pytest.param(10, 10, ["c", "d"], id="three weeks are old"),
        pytest.param(10, 0, ["d"], id="replaced runs go at once"),
    ],
)
def test_what_expires(store, keep_days, replaced_days, left):
    for key in expired_analyses(store, TODAY, keep_days=keep_days, replaced_days=replaced_days):
        remove_analysis(store, key)
    assert sorted(found.run_id for found in list_analyses(store)) == left
    assert len([key for key in store.list("v1/analysis/") if not key.endswith("/")]) == 3 * len(left)


def test_what_a_run_left_that_never_published_goes_with_its_date_and_replaces_nothing(store):
    left = [
        f"v1/analysis/date={day}/run=killed-01234567.0123456789ab/report.md" for day in ("2024-12-31", "2026-11-02")
    ]
    for key in (*left, "v1/analysis/date=2024-12-31/note.txt", "v1/analysis/date=2024"):
        store.put(key, b"half")
    for key in expired_analyses(store, TODAY, keep_days=400, replaced_days=14):
        remove_analysis(store, key)
    assert [key for key in left if key in store.list("v1/analysis/")] == left[1:]
    assert [found.run_id for found in list_analyses(store)] == ["b", "c", "d"]


def test_a_run_stays_as_long_as_it_is_the_newest_of_one_of_its_clusters(tmp_path):
    store = open_store(str(tmp_path / "store"))
    both, one = delivered(tmp_path / "both", "alpha", "beta"), delivered(tmp_path / "one", "alpha")
    for output, run, hour in ((both, "whole", 3), (one, "alpha again", 5)):
        publish(output, store, day="2026-11-02", run_id=run, now=datetime(2026, 11, 2, hour, tzinfo=UTC))
    assert expired_analyses(store, TODAY, keep_days=400, replaced_days=0) == []
    publish(both, store, day="2026-11-02", run_id="whole again", now=datetime(2026, 11, 2, 7, tzinfo=UTC))
    expired = expired_analyses(store, TODAY, keep_days=400, replaced_days=0)
    assert sorted(json.loads(store.get(key))["run_id"] for key in expired) == ["alpha again", "whole"]
