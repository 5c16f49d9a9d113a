"""A page of a table that is damaged costs its own cluster only."""

import json
from dataclasses import replace

import pyarrow.parquet as pq
import pytest

from spark_jobs import nightly_analysis, schemas
from spark_jobs.io import snapshots as stored
from spark_jobs.io.choice import Check, intact
from tests.spark_jobs.fleet import ALPHA, BETA, GAMMA, run_by_hand
from tests.spark_jobs.worlds import DAY, put_in, write


def flip(path):
    """Another byte in the middle of a file's first page, which no footer tells."""
    data = bytearray(path.read_bytes())
    data[len(data) // 4] ^= 0xFF
    path.write_bytes(data)


@pytest.mark.parametrize("only", [(), ("--only", "imbalance", "findings")])
def test_a_damaged_page_costs_its_own_cluster_only(spark, tmp_path, only):
    flip(write(ALPHA, tmp_path / "store") / "partitions.parquet")
    write(BETA, tmp_path / "store")
    arguments = (tmp_path / "store", tmp_path / "out", "--no-drill", "--fail-if-incomplete", *only)
    assert run_by_hand(spark, *arguments) == nightly_analysis.INCOMPLETE
    (problem,) = pq.read_table(tmp_path / "out" / "not_analysed", partitioning=None).to_pylist()
    assert (problem["cluster"], problem["stage"]) == ("alpha", "read")
    assert "partitions.parquet has the sha256 " in problem["reason"]
    summary = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert (list(summary["clusters"]), summary["not_analysed_count"]) == (["beta"], 1)
    assert "1 cluster analysed, 1 problem," in (tmp_path / "out" / "report.md").read_text()


def wrecked(path):
    """The bytes of a file whose first page cannot be read; its footer can."""
    data = path.read_bytes()
    return data[:4] + bytes(40) + data[44:]


def wreck(folder, table):
    (folder / f"{table}.parquet").write_bytes(wrecked(folder / f"{table}.parquet"))


def rehashed(folder, table):
    """A damaged table whose manifest names the damaged bytes."""
    put_in(folder, table, wrecked(folder / f"{table}.parquet"))


@pytest.mark.parametrize(
    ("damage", "more"),
    [
        pytest.param(lambda folder: wreck(folder, "partitions"), ("--verified",), id="nobody verified it"),
        pytest.param(lambda folder: rehashed(folder, "brokers"), (), id="written so"),
    ],
)
def test_a_page_that_only_reading_betrays_costs_its_own_cluster_only(spark, tmp_path, monkeypatch, damage, more):
    """Named by a relative path, as a person does."""
    damage(write(ALPHA, tmp_path / "store"))
    write(BETA, tmp_path / "store")
    monkeypatch.chdir(tmp_path)
    arguments = ("store", "out", "--fail-if-incomplete", "--only", "broker_load", *more)
    assert run_by_hand(spark, *arguments) == nightly_analysis.INCOMPLETE
    (problem,) = pq.read_table(tmp_path / "out" / "not_analysed", partitioning=None).to_pylist()
    assert (problem["cluster"], problem["stage"]) == ("alpha", "read")
    assert {row["cluster"] for row in pq.read_table(tmp_path / "out" / "broker_load").to_pylist()} == {"beta"}


def test_of_a_date_with_a_damaged_page_the_snapshot_before_is_taken(spark, tmp_path):
    write(BETA, tmp_path / "store")
    flip(write(replace(BETA, zxid=5000), tmp_path / "store") / "partitions.parquet")
    flip(write(BETA.on(1), tmp_path / "store") / "brokers.parquet")
    snapshots, _ = stored.find_snapshots(spark, [str(tmp_path)])
    chosen, damaged = intact(spark, snapshots, DAY, 30, Check(hashes=True))
    assert [(found.cluster, found.snapshot_id) for found in chosen.window] == [("beta", BETA.snapshot_id)]
    assert len(damaged) == 2


def test_what_was_verified_is_not_read_twice(spark, tmp_path, monkeypatch):
    read = []
    monkeypatch.setattr(stored, "damaged", lambda _, needed, **__: read.extend(needed) or [])
    write(GAMMA, tmp_path / "store")
    for verified, count in ((("--verified",), 0), ((), 1)):
        assert run_by_hand(spark, tmp_path / "store", tmp_path / "out", *verified, "--only", "growth") == 0
        assert len(read) == count * len(schemas.OF_DATE)
