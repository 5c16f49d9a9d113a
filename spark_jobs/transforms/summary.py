"""A snapshot in a few numbers, and what each broker carries."""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects

from spark_jobs.schemas import BROKER_LOAD, CLUSTER_SUMMARY
from spark_jobs.transforms.facts import KEY, led_by_another, offline, queued_topics
from spark_jobs.transforms.partition_findings import lagging


def cluster_summary(partitions: DataFrame, facts: DataFrame) -> DataFrame:
    """Each snapshot in a few numbers, comparable between dates.

    In:  schemas.PARTITIONS and FACTS.
    Out: schemas.CLUSTER_SUMMARY, one row per (cluster, snapshot_id); sizes count every topic, what is wrong counts those
         that are not queued for deletion.
    """
    queued = queued_topics(facts).withColumn("queued", F.lit(True))
    stays = F.col("queued").isNull()
    marked = partitions.join(F.broadcast(facts.select(*KEY, "live")), KEY).join(
        F.broadcast(queued),
        [*KEY, "topic"],
        how="left",  # a topic is queued once
    )
    counted = marked.groupBy(*KEY).agg(
        F.countDistinct("topic").alias("topic_count"),
        F.count(F.lit(1)).alias("partition_count"),
        F.sum(F.size("replicas")).alias("replica_count"),
        F.count(F.when(stays & offline(), 1)).alias("offline_count"),
        F.count(F.when(stays & led_by_another(), 1)).alias("imbalanced_count"),
        F.count(F.when(stays & (F.size(lagging()) > 0), 1)).alias("under_replicated_count"),
    )
    counts = [name for name in CLUSTER_SUMMARY.names if name.endswith("_count") and name != "broker_count"]
    return (
        facts.select(
            *(*KEY, "taken_at", "kafka_version", "version_reason"), F.size("live").cast("long").alias("broker_count")
        )
        .join(counted, KEY, how="left")
        .na.fill(0, counts)
        .select(*CLUSTER_SUMMARY.names)
    )


def broker_load(partitions: DataFrame, facts: DataFrame) -> DataFrame:
    """Replicas, leaders and preferred leaders of every broker.

    In:  schemas.PARTITIONS and FACTS.
    Out: schemas.BROKER_LOAD, one row per (cluster, snapshot_id, broker_id): registered, leading, or holding a replica.
    """
    placed = F.transform("replicas", lambda broker, index: F.struct(broker.alias("id"), index.alias("place")))
    leads = F.struct(F.col("leader").alias("id"), F.lit(-1).alias("place"))
    is_stranger = (F.col("leader") >= 0) & ~F.array_contains("replicas", F.col("leader"))
    replica = F.explode(F.when(is_stranger, F.array_append(placed, leads)).otherwise(placed))
    held = (
        partitions.select(*KEY, "leader", replica.alias("replica"))
        .groupBy(*KEY, F.col("replica.id").alias("broker_id"))
        .agg(
            F.count(F.when(F.col("replica.place") >= 0, 1)).alias("replica_count"),
            F.count(F.when(F.col("leader") == F.col("replica.id"), 1)).alias("leader_count"),
            F.count(F.when(F.col("replica.place") == 0, 1)).alias("preferred_count"),
        )
    )
    registered = facts.select(*KEY, F.inline("rack_of")).withColumn("live", F.lit(True))
    return (
        held.join(registered, [*KEY, "broker_id"], how="full")  # one row per broker on each side
        .na.fill(0, ["replica_count", "leader_count", "preferred_count"])
        .withColumn("live", F.coalesce("live", F.lit(False)))
        .select(*BROKER_LOAD.names)
    )
