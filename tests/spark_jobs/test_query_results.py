"""Results of published analyses are tables of `query`, with the run that made each row and whether it is the current one."""

import json
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from controller_core.adapters.object_store.open import open_store
from kafka_maintenance.operations.analysis.published import fetch_results, publish
from spark_jobs import query, schemas
from spark_jobs.io.analyses import PublishedRun, find_analyses, left_out_by_newest, read_result
from spark_jobs.io.arrow import arrow_schema
from spark_jobs.io.delivery import deliver
from spark_jobs.io.folders import Folder
from tests.spark_jobs.worlds import World
from tests.spark_jobs.worlds import publish as publish_snapshot


def published(store, folder, date, run, kinds, hour, clusters=("alpha",)):
    """An analysis of one result of `clusters`, in as many files as there are kinds."""
    schema = arrow_schema(schemas.FINDINGS)
    (folder / "findings").mkdir(parents=True)
    for number, kind in enumerate(kinds):
        rows = [{"cluster": name, "snapshot_id": "s", "kind": kind, "severity": "critical"} for name in clusters]
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / "findings" / f"part-{number}.parquet")
    analysed = {name: {"snapshot_id": "s", "snapshot_digest": "d"} for name in clusters if name != "failed"}
    (folder / "summary.json").write_text(json.dumps({"clusters": analysed, "not_analysed": []}))
    place = Folder(LocalFileSystem(), str(folder), str(folder))
    deliver(place, place.names(""))
    return publish(folder, store, day=date, run_id=run, now=datetime(2026, 11, 20, hour, tzinfo=UTC))


def test_results_are_tables_with_the_run_that_made_them(spark, tmp_path):
    store = open_store(str(tmp_path / "store"))
    publish_snapshot(World(brokers={1: None}), store)
    published(store, tmp_path / "a", "2026-11-19", "first", ["offline"], 3)
    published(store, tmp_path / "b", "2026-11-20", "first", ["offline", "broker_down"], 3)
    published(store, tmp_path / "c", "2026-11-20", "again", ["broker_down"], 5)
    args = query.Args(
        inputs=(str(tmp_path / "store"),), output=tmp_path / "out.json", rows_max=9, sql="SELECT 1 FROM snapshots"
    )
    query.run(spark, args)
    rows = spark.sql("SELECT run_date, run, current, kind FROM findings ORDER BY ALL").collect()
    assert [(str(row["run_date"]), *row[1:]) for row in rows] == [
        ("2026-11-19", "first", True, "offline"),
        ("2026-11-20", "again", True, "broker_down"),
        ("2026-11-20", "first", False, "broker_down"),
        ("2026-11-20", "first", False, "offline"),
    ]
    fetched = fetch_results(store, tmp_path / "cache")
    assert fetched == fetch_results(store, tmp_path / "cache")
    again = read_result(spark, find_analyses(spark, map(str, fetched)), "findings")
    assert sorted(again.collect(), key=str) == sorted(spark.table("findings").collect(), key=str)


def test_a_run_of_one_cluster_replaces_no_other(spark, tmp_path):
    store = open_store(str(tmp_path / "store"))
    all_of_them = ("alpha", "beta", "failed")
    published(store, tmp_path / "a", "2026-11-20", "whole", ["offline"], 3, all_of_them)
    published(store, tmp_path / "b", "2026-11-20", "again", ["offline"], 5, ("alpha", "failed"))
    rows = read_result(spark, find_analyses(spark, [str(tmp_path / "store")]), "findings").collect()
    assert sorted((row["cluster"], row["run"]) for row in rows if row["current"]) == [
        ("alpha", "again"),
        ("beta", "whole"),
        ("failed", "again"),
    ]


def test_years_of_a_fleet_name_only_the_clusters_that_a_newest_run_left_out():
    """As many rows as dates times clusters, or as runs times those, are none that a driver makes for each result."""
    fleet = tuple(f"c{number}" for number in range(100))
    days = [str(date(2024, 1, 1) + timedelta(days=day)) for day in range(700)]
    runs = [PublishedRun(f"v1/analysis/date={day}/run=a", day, "a", day, (), fleet) for day in days]
    assert left_out_by_newest(runs) == []
    again = PublishedRun(f"v1/analysis/date={days[-1]}/run=b", days[-1], "b", f"{days[-1]}T5", (), fleet[1:])
    assert [(row["run_folder"], row["cluster"], row["current"]) for row in left_out_by_newest([*runs, again])] == [
        ("run=a", "c0", True),
        ("run=b", "c0", False),
    ]


def test_without_analyses_the_tables_are_empty(spark):
    for result in schemas.OUTPUTS:
        empty = read_result(spark, [], result)
        assert empty.columns == ["run_date", "run", "current", *schemas.OUTPUTS[result].names]
        assert empty.isEmpty()
