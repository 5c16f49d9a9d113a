"""A sample of clusters goes through SQL and core each day; what differs is a finding."""

from datetime import date, timedelta
from functools import partial

import pyarrow.parquet as pq
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects

from spark_jobs import nightly_analysis, schemas
from spark_jobs.on_core import agreement
from spark_jobs.transforms import facts, imbalance
from tests.spark_jobs.facts import facts_of
from tests.spark_jobs.random_worlds import random_world
from tests.spark_jobs.worlds import World, frames, write

DAY = date(2026, 11, 20)


def test_the_sample_is_chosen_anew_each_day_from_clusters_of_every_size():
    fleet = [(f"c{number:02}", 10 ** (number % 7)) for number in range(20)]
    samples = [agreement.sample_of(fleet, DAY + timedelta(days=days)) for days in range(30)]
    assert samples[0] == agreement.sample_of(reversed(fleet), DAY)
    assert {len(sample) for sample in samples} == {agreement.SAMPLE_MAX}
    assert len({each.cluster for sample in samples for each in sample}) == 20
    assert {each.slices for sample in samples for each in sample} == {1, 4, 40}


def test_a_large_cluster_shows_another_slice_on_another_day():
    size = 3 * agreement.SAMPLE_ROWS_MAX
    drawn = [agreement.sample_of([("big", size)], DAY + timedelta(days=days))[0] for days in range(30)]
    assert {(each.slice, each.slices) for each in drawn} == {(0, 3), (1, 3), (2, 3)}


def of_job(spark, folder, only=("findings", "not_analysed")):
    """What the whole job says of disagreements."""
    arguments = ["--input", str(folder), "--output", str(folder / "out"), "--run", "r", "--date", str(DAY)]
    assert nightly_analysis.run(spark, nightly_analysis.parse([*arguments, "--only", *only]), say=list) == 0
    rows = pq.read_table(folder / "out" / "findings", partitioning=None).to_pylist()
    return [row for row in rows if row["kind"] == "analysis_disagrees"]


def test_each_slice_is_judged_as_if_it_were_a_cluster(spark, tmp_path, monkeypatch):
    moving = ("moving", 0, (1, 2), 2, (2,), (1,), ())  # a reassignment keeps the whole cluster's timer from electing
    rows = [(f"t{number}", 0, (1, 2), 2, (1, 2)) for number in range(20)]
    world = World(brokers={1: "a", 2: "b"}, partitions=(*rows, moving), queued={"t1": 5, "t2": 5, "gone": 5}, day=DAY)
    write(world, tmp_path)
    monkeypatch.setattr(agreement, "SAMPLE_ROWS_MAX", 5)
    (sampled,) = agreement.sample_of([(world.cluster, len(world.partitions))], DAY)
    assert sampled.slices == 5
    assert of_job(spark, tmp_path) == []
    by_sql, seen = imbalance.imbalanced_partitions, []

    def wrong(partitions, told):
        seen.extend(partitions.select("topic").collect())
        return by_sql(partitions, told).withColumn("leader", F.lit(77))

    monkeypatch.setattr(imbalance, "imbalanced_partitions", wrong)
    (found,) = of_job(spark, tmp_path)
    assert "rows of imbalanced_partitions" in found["detail"]
    assert 0 < len(seen) < len(world.partitions)


def test_a_difference_between_sql_and_core_is_a_finding(spark, monkeypatch):
    tables = frames(spark, *(random_world(number) for number in range(6)))
    told = facts_of(spark, tables, "{}")
    core = facts.core_facts(told, tables)
    arguments = (tables["partitions"], tables["topics"], tables["requests"], told, core)
    assert agreement.disagreements(*arguments).collect() == []
    by_sql = imbalance.imbalance
    monkeypatch.setattr(
        imbalance, "imbalance", lambda *given: by_sql(*given).withColumn("triggers", ~F.col("triggers"))
    )
    found = agreement.disagreements(*arguments)
    assert found.columns == schemas.FINDINGS.names
    rows = found.collect()
    assert sorted((row["cluster"], row["detail"].split(", e.g. {")[0]) for row in rows) == [
        ("cluster-000", "Spark SQL and controller_core differ in 6 rows of imbalance"),
        ("cluster-002", "Spark SQL and controller_core differ in 2 rows of imbalance"),
    ]
    assert {(row["kind"], row["severity"]) for row in rows} == {("analysis_disagrees", "critical")}


def test_a_snapshot_that_the_core_cannot_judge_is_a_finding(spark, monkeypatch):
    tables = frames(spark, random_world(1))
    told = facts_of(spark, tables, "{}")
    core = facts.core_facts(told, tables)
    monkeypatch.setattr(agreement, "core_judgement", partial(failing, tables["partitions"]))
    found = agreement.disagreements(tables["partitions"], tables["topics"], tables["requests"], told, core).collect()
    details = {row["detail"].split(",")[0] for row in found}
    assert "controller_core fails where Spark SQL judges: ValueError: no such luck: trust neither" in details
    assert any(detail.startswith("Spark SQL and controller_core differ in ") for detail in details)


def failing(partitions, *_arguments, **_options):
    """What `core_judgement` says where the core raises an error."""
    nulls = (F.lit(None).cast(field.dataType).alias(field.name) for field in agreement.JUDGED.fields[2:])
    return (
        partitions.select("cluster", "snapshot_id")
        .distinct()
        .select("*", *nulls, F.lit("ValueError: no such luck").alias("error"))
    )
