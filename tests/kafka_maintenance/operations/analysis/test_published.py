"""Published is what a job says it delivered, once: nothing that another try left beside it, nothing unfinished."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem

from controller_core.adapters.object_store.open import open_store
from kafka_maintenance.operations.analysis import published as published_analyses
from kafka_maintenance.operations.analysis.published import latest_report, list_analyses, of_run, publish
from kafka_maintenance.operations.errors import BadInputError
from spark_jobs.io import delivery
from spark_jobs.io.folders import Folder
from spark_jobs.io.snapshots import HISTORY

DAY = "2026-11-20"
SUMMARY = {"clusters": {"alpha": {"snapshot_id": "s", "snapshot_digest": "d"}}, "not_analysed": []}


@pytest.fixture
def output(tmp_path):
    """What a job delivers: a table of two parts, one of one, a page, the summary."""
    folder = tmp_path / "output"
    for name in ("findings/part-a.parquet", "findings/part-b.parquet", "growth/part-a.parquet"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table({"kind": [name, name]}), folder / name)
    (folder / "report.md").write_text("# Report")
    (folder / "summary.json").write_text(json.dumps(SUMMARY))
    place = Folder(LocalFileSystem(), str(folder), str(folder))
    delivery.deliver(place, [name for name in place.names("") if not name.startswith(".")])
    return folder


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "store"))


def names(store):
    return sorted(key.rpartition("run=")[2].partition("/")[2] for key in store.list(published_analyses.PREFIX))


def test_what_another_try_left_in_the_output_is_not_published(store, output):
    pq.write_table(pa.table({"kind": ["twice"]}), output / "findings" / "part-0.parquet")
    (output / "imbalance").mkdir()
    pq.write_table(pa.table({"kind": ["half"]}), output / "imbalance" / "part-a.parquet")
    done = publish(output, store, day=DAY, run_id="r")
    assert names(store) == [
        "findings/part-00000.parquet", "findings/part-00001.parquet", "growth.parquet", "manifest.json", "report.md",
        "summary.json",
    ]  # fmt: skip
    listed = json.loads(store.get(published_analyses.key_of(store, done.uri)))["objects"]
    assert {entry["key"].rpartition("/")[2]: entry["rows"] for entry in listed}["growth.parquet"] == 2


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        pytest.param(lambda folder: (folder / delivery.DELIVERED).unlink(), "run the job again", id="unfinished"),
        pytest.param(
            lambda folder: (folder / delivery.DELIVERED).write_text('{"files"'), "run the job", id="torn list"
        ),
        pytest.param(lambda folder: (folder / "report.md").write_text("# Other"), "report.md as the job", id="changed"),
        pytest.param(lambda folder: (folder / "report.md").unlink(), "report.md not read", id="lost"),
        pytest.param(
            lambda folder: (folder / delivery.DELIVERED).write_text(
                json.dumps({"files": [{"name": "../secret", "size": 1, "sha256": "", "rows": None}]})
            ),
            "a name that is none: '../secret'",
            id="a name that leads out",
        ),
    ],
)
def test_what_is_not_as_it_was_delivered_is_not_published(store, output, spoil, words):
    spoil(output)
    with pytest.raises(BadInputError, match=words):
        publish(output, store, day=DAY, run_id="r")
    assert list_analyses(store) == []


def test_a_run_is_published_once_whatever_lies_in_its_output_later(store, output):
    assert of_run(store, DAY, "r") is None
    first = publish(output, store, day=DAY, run_id="r")
    before = {key: store.get(key) for key in store.list("")}
    (output / "report.md").write_text("# Another")
    assert publish(output, store, day=DAY, run_id="r") == first == of_run(store, DAY, "r") == latest_report(store)
    assert {key: store.get(key) for key in store.list("")} == before


def test_an_analysis_dated_in_the_future_is_not_the_newest_but_where_its_date_is_named(store, output):
    newest, ahead = publish(output, store, day=DAY, run_id="r"), publish(output, store, day="9999-12-31", run_id="r")
    assert (latest_report(store), latest_report(store, "9999-12-31")) == (newest, ahead)


def test_a_job_withdraws_the_list_of_the_one_before(output):
    place = Folder(LocalFileSystem(), str(output), str(output))
    delivery.withdraw(place)
    assert not place.holds(delivery.DELIVERED)
    delivery.withdraw(place)


def test_the_names_that_the_plugin_repeats_without_spark_are_the_jobs():
    assert published_analyses._DELIVERED == delivery.DELIVERED
    assert published_analyses._HISTORY == HISTORY
