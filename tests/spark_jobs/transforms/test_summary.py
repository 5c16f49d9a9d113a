"""The numbers of a cluster and of its brokers."""

from pyspark.testing import assertSchemaEqual

from spark_jobs import schemas
from spark_jobs.transforms import summary
from tests.spark_jobs.facts import facts_of
from tests.spark_jobs.worlds import SICK, frames, rows_of


def test_cluster_summary_and_broker_load_count_everything_once(spark):
    tables = frames(spark, SICK)
    found = facts_of(spark, tables)
    numbers = summary.cluster_summary(tables["partitions"], found)
    load = summary.broker_load(tables["partitions"], found)
    assertSchemaEqual(numbers.schema, schemas.CLUSTER_SUMMARY, ignoreNullable=True)
    assertSchemaEqual(load.schema, schemas.BROKER_LOAD, ignoreNullable=True)
    counts = ("topic_count", "partition_count", "replica_count", "broker_count", "offline_count", "imbalanced_count")
    assert rows_of(numbers, *counts, "under_replicated_count") == [(11, 11, 22, 3, 1, 3, 2)]
    assert rows_of(numbers, "kafka_version", "version_reason") == [("3.9", "named in the settings")]
    assert rows_of(load, "broker_id", "live", "replica_count", "leader_count", "preferred_count") == [
        (1, True, 9, 5, 9),
        (2, True, 9, 2, 1),
        (3, True, 2, 1, 0),
        (8, False, 1, 0, 0),
        (9, False, 1, 0, 1),
    ]
