"""Snapshots of a store that is read as it lies: one that cannot be read is told, and ends nothing."""

from threading import Barrier

import pyarrow as pa
import pytest
from pyarrow import fs as arrow_fs

from controller_core.adapters.snapshot import parquet as snapshot_parquet
from controller_core.adapters.snapshot.parquet import table_to_parquet
from spark_jobs.io import snapshots as stored
from spark_jobs.io.folders import Folder
from spark_jobs.io.snapshots import Problem, _decode_error, _open_snapshot
from tests.spark_jobs.worlds import World, rows_of, write


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b"null", b"[" * 200_000, b'{"kind": []}', b'{"format_version": {}}', b"\xff"]
)
def test_a_manifest_that_nobody_can_read_is_a_problem_of_its_cluster(tmp_path, content):
    place = tmp_path / "cluster=alpha/date=2026-11-20/snap=one"
    place.mkdir(parents=True)
    (place / "manifest.json").write_bytes(content)
    found = _open_snapshot(Folder(arrow_fs.LocalFileSystem(), str(place), str(place)), frozenset(), ())
    assert isinstance(found, Problem)
    assert (found.cluster, found.snapshot_id, found.stage, found.date) == ("alpha", "one", "read", "2026-11-20")


def test_a_file_that_decodes_to_more_than_any_of_ours_is_not_decoded(monkeypatch):
    """A worker of Spark would die of it, and tell nobody which snapshot is to blame."""
    content = table_to_parquet(pa.table({"topic": ["0" * 1000] * 3000}))
    assert _decode_error(content, "topics.parquet") is None
    monkeypatch.setattr(snapshot_parquet, "UNCOMPRESSED_BYTES_MAX", 1 << 20)
    assert "object 'topics.parquet' not read: expected at most 1048576 bytes" in str(
        _decode_error(content, "topics.parquet")
    )


def test_many_inputs_are_listed_several_at_a_time(monkeypatch, tmp_path):
    """Of a store in S3 each is a request that is waited for, and a year has thousands."""
    for name in "ab":
        write(World(cluster=name, brokers={1: None}), tmp_path / name)
    both, list_files = Barrier(2), Folder.files

    def files(place):
        both.wait(timeout=60)
        return list_files(place)

    monkeypatch.setattr(Folder, "files", files)
    found, problems = stored.find_snapshots(None, [str(tmp_path / name) for name in "ab"])
    assert ([each.cluster for each in found], problems) == (["a", "b"], [])


@pytest.mark.parametrize("name", ["of [1] {a,b}", "100% *", "what?", "back\\slash"])
def test_the_name_of_a_folder_is_no_pattern(spark, tmp_path, name):
    write(World(brokers={1: None}, partitions=(("t", 0, (1,), 1, (1,)),)), tmp_path / name)
    found, problems = stored.find_snapshots(spark, [str(tmp_path / name)])
    assert problems == []
    assert rows_of(stored.read_table(spark, found, "partitions"), "topic") == [("t",)]
    assert stored.damaged(spark, [(found[0], "partitions")]) == []
