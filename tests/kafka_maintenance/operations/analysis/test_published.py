"""Published is what a job says it delivered, once: nothing that another try left beside it, nothing unfinished."""

import hashlib
import json
import re
import shutil
import signal
from datetime import UTC, datetime
from pathlib import Path
from unittest.mock import Mock

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow.fs import LocalFileSystem

from controller_core.adapters.object_store.open import FolderStore, MemoryStore, open_store
from kafka_maintenance.operations.analysis import published as published_analyses
from kafka_maintenance.operations.analysis.overviews import newest_overviews
from kafka_maintenance.operations.analysis.published import latest_report, list_analyses, of_run, publish
from kafka_maintenance.operations.analysis.tables import table_of
from kafka_maintenance.operations.errors import BadInputError
from spark_jobs.io import delivery
from spark_jobs.io.folders import Folder
from spark_jobs.io.snapshots import HISTORY
from tests.kafka_maintenance.killed import Fuse, in_child

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


class Bucket(MemoryStore):
    """A store whose addresses are those of S3, where a job leaves its results in the store itself."""

    @property
    def uri(self):
        return "s3://bucket"


@pytest.fixture
def other_output(output, tmp_path):
    """What another try of the job delivers, with another page."""
    folder = Path(shutil.copytree(output, tmp_path / "other"))
    (folder / "report.md").write_text("# Other")
    place = Folder(LocalFileSystem(), str(folder), str(folder))
    delivery.deliver(place, [name for name in place.names("") if name != delivery.DELIVERED])
    return folder


def do_after_puts(monkeypatch, count, act):
    """Does something once in the middle of publishing: after so many objects were written."""
    real, puts = FolderStore.put, []

    def put(store, key, data):
        real(store, key, data)
        puts.append(key)
        if len(puts) == count:
            act()

    monkeypatch.setattr(FolderStore, "put", put)


def other_contents(store):
    """What is published and is not as its manifest names it."""
    named = [
        entry
        for done in list_analyses(store)
        for entry in json.loads(store.get(published_analyses.key_of(store, done.uri)))["objects"]
    ]
    return [entry["key"] for entry in named if hashlib.sha256(store.get(entry["key"])).hexdigest() != entry["sha256"]]


def publish_and_die(puts, output, store, run_id):
    fuse = Fuse(puts)
    fuse.after(FolderStore, "put")
    fuse.after(FolderStore, "put_new")
    publish(output, open_store(store), day=DAY, run_id=run_id)


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


@pytest.mark.parametrize("puts", range(1, 5))
def test_of_two_tries_that_publish_at_once_one_is_published_and_whole(store, output, other_output, monkeypatch, puts):
    do_after_puts(monkeypatch, puts, lambda: publish(other_output, store, day=DAY, run_id="r"))
    done = publish(output, store, day=DAY, run_id="r")
    assert (list_analyses(store), other_contents(store)) == ([done], [])
    assert store.get(published_analyses.key_of(store, done.report_markdown)) == b"# Other"


def test_two_tries_that_end_at_the_same_moment_are_both_whole_and_the_first_is_the_runs(
    store, output, other_output, monkeypatch
):
    monkeypatch.setattr(published_analyses, "of_run", lambda *_: None)
    both = [
        publish(each, store, day=DAY, run_id="r", now=datetime(2026, 11, 20, hour, tzinfo=UTC))
        for hour, each in ((2, output), (1, other_output))
    ]
    monkeypatch.undo()
    assert (list_analyses(store), other_contents(store)) == ([both[1], both[0]], [])
    assert of_run(store, DAY, "r") == publish(output, store, day=DAY, run_id="r") == both[1]


@pytest.mark.parametrize("puts", range(1, 7))
def test_a_try_that_is_killed_while_it_publishes_spoils_none_that_publishes_with_it(store, output, other_output, puts):
    assert in_child(publish_and_die, puts, str(other_output), store.uri, "r") == -signal.SIGKILL
    done = publish(output, store, day=DAY, run_id="r")
    assert (list_analyses(store), other_contents(store)) == ([done], [])
    assert [each.manifest for each in newest_overviews(store, 1)] == [published_analyses.key_of(store, done.uri)]


@pytest.mark.parametrize("method", ["put", "put_new", "delete"])
def test_what_a_job_left_in_the_store_is_removed_also_after_a_try_that_ended_while_it_published(
    output, monkeypatch, method
):
    store = Bucket()
    for path in filter(Path.is_file, output.rglob("*")):
        store.put(f"unpublished/run=r/{path.relative_to(output)}", path.read_bytes())
    with monkeypatch.context() as killed:
        killed.setattr(store, method, Mock(side_effect=InterruptedError))
        with pytest.raises(InterruptedError):
            publish("s3a://bucket/unpublished/run=r", store, day=DAY, run_id="r")
    done = publish("s3a://bucket/unpublished/run=r", store, day=DAY, run_id="r")
    assert (list_analyses(store), other_contents(store), store.list("unpublished/")) == ([done], [], [])


def test_a_run_of_the_earlier_layout_is_read_and_published_no_second_time(store, output):
    """Until 2026-11-29 no content was in the folder's name; the id of another run may begin with that name."""
    new = publish(output, store, day=DAY, run_id="r")
    for key in store.list(published_analyses.PREFIX):
        old = re.sub(r"\.[0-9a-f]{12}/", "/", key)
        document = re.sub(rb"(run=r-[0-9a-f]+)\.[0-9a-f]{12}", rb"\1", store.get(key))
        if old.endswith("manifest.json"):
            told = json.loads(document)
            told.pop("digest")
            document = json.dumps({**told, "digest": published_analyses._digest(told)}).encode()
        store.delete(key)
        store.put(old, document)
    token = new.uri.rpartition("run=")[2].partition(".")[0]
    assert of_run(store, DAY, f"{token}.x") is None
    publish(output, store, day=DAY, run_id=f"{token}.0123456789ab")
    old = of_run(store, DAY, "r")
    assert old.uri == store.uri_of(f"v1/analysis/date={DAY}/run={token}/manifest.json")
    assert publish(output, store, day=DAY, run_id="r") == old
    assert table_of(store, published_analyses.key_of(store, old.uri), "findings").num_rows == 4


def test_an_analysis_that_is_removed_while_others_are_read_is_none(store, output, monkeypatch):
    kept, removed = (publish(output, store, day=DAY, run_id=run) for run in ("r", "s"))
    listed = FolderStore.list

    def list_and_lose(store, prefix):
        keys = listed(store, prefix)
        for key in keys:
            if store.uri_of(key) == removed.uri:
                store.delete(key)
        return keys

    monkeypatch.setattr(FolderStore, "list", list_and_lose)
    assert latest_report(store) == kept


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
