"""A sample of clusters goes through SQL and core each day; what differs is a finding."""

from datetime import date, timedelta

from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects

from spark_jobs import schemas
from spark_jobs.on_core import agreement
from spark_jobs.transforms import facts, imbalance
from tests.spark_jobs.on_core.test_bridge import random_world
from tests.spark_jobs.transforms.test_transforms import facts_of
from tests.spark_jobs.worlds import frames

DAY = date(2026, 11, 20)


def test_the_sample_is_chosen_anew_each_day_and_leaves_out_what_is_large():
    fleet = [(f"c{number:02}", 100) for number in range(20)]
    samples = [agreement.sample_of(fleet, DAY + timedelta(days=days)) for days in range(30)]
    assert samples[0] == agreement.sample_of(reversed(fleet), DAY)
    assert {len(sample) for sample in samples} == {agreement.SAMPLE_MAX}
    assert len({cluster for sample in samples for cluster in sample}) == 20
    assert agreement.sample_of([("big", agreement.SAMPLE_ROWS_MAX + 1), ("fits", agreement.SAMPLE_ROWS_MAX)], DAY) == [
        "fits"
    ]


def test_a_difference_between_sql_and_core_is_a_finding(spark, monkeypatch):
    tables = frames(spark, *(random_world(number) for number in range(6)))
    told = facts_of(spark, tables, "{}").cache()
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
    assert rows
    assert {(row["kind"], row["severity"]) for row in rows} == {("analysis_disagrees", "critical")}
    assert "rows of imbalance, e.g. {" in rows[0]["detail"]
