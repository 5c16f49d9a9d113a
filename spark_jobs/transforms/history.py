"""What changed over many dates: leaders, in-sync replicas, brokers, the controller, and how everything grows.

One snapshot per cluster and date. A topic that was deleted and created again is another topic: its `czxid` differs.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects
from pyspark.sql.window import Window

from spark_jobs.schemas import BROKER_HISTORY, CONTROLLER_CHURN, GROWTH, LEADER_CHURN, UNSTABLE_PARTITIONS
from spark_jobs.transforms.partition_findings import lagging

UNSTABLE_MAX = 100
"""Rows of a cluster in `unstable_partitions`."""
FLAPS_MIN = 3
"""A broker that went away this often within the window is called flapping."""


def partition_changes(partitions: DataFrame) -> DataFrame:
    """Each date of a partition that differs from the day before, or in which it was under-replicated.

    In:  schemas.PARTITIONS, one snapshot per cluster and date.
    Out: cluster, date, topic, partition, leader_changed, leader_epoch_steps, isr_changed, assignment_changed, lags. The
         window is one partition's dates in order; its first date changes nothing. Another order of the same ISR is
         a change: a leader writes its ISR only to shrink it (`--` of a Scala set) or to expand it (`+`; both in Kafka's
         `Partition`), so a replica left and came back.
    """
    key = ("topic", "partition", "cluster", "czxid")  # as the files are sorted: half of the sort's work is done
    slim = partitions.select(
        *(*key, "taken_at", "leader", "leader_epoch"),
        F.when(F.col("isr").isNotNull(), F.xxhash64("isr")).alias("in_sync"),
        F.xxhash64("replicas").alias("assigned"),
        ((F.col("isr") != F.col("replicas")) & (F.size(lagging()) > 0)).alias("lags"),  # sets are made of the few
    )
    days = Window.partitionBy(*key).orderBy("taken_at")
    compared = ("leader", "leader_epoch", "in_sync", "assigned")
    with_before = slim.select("*", *(F.lag(name).over(days).alias(f"{name}_before") for name in compared))
    judged = with_before.select(
        *("cluster", F.to_date("taken_at").alias("date"), "topic", "partition"),
        _differs("leader").alias("leader_changed"),
        F.greatest(F.col("leader_epoch") - F.col("leader_epoch_before"), F.lit(0)).alias("leader_epoch_steps"),
        _differs("in_sync").alias("isr_changed"),
        _differs("assigned").alias("assignment_changed"),
        F.coalesce("lags", F.lit(False)).alias("lags"),
    )
    is_news = (
        F.col("leader_changed")
        | (F.col("leader_epoch_steps") > 0)
        | F.col("isr_changed")
        | F.col("assignment_changed")
        | F.col("lags")
    )
    return judged.where(is_news)


def leader_churn(changes: DataFrame, growth_by_day: DataFrame) -> DataFrame:
    """In: what `partition_changes` made; schemas.GROWTH. Out: schemas.LEADER_CHURN, one row per cluster and date."""
    counted = changes.groupBy("cluster", "date").agg(
        _count_of("leader_changed").alias("leader_changes"),
        F.sum("leader_epoch_steps").alias("leader_epoch_steps"),
        _count_of("isr_changed").alias("isr_changes"),
        _count_of("assignment_changed").alias("assignment_changes"),
    )
    names = ["leader_changes", "leader_epoch_steps", "isr_changes", "assignment_changes"]
    return (
        growth_by_day.select("cluster", "date", "partition_count")
        .join(counted, ["cluster", "date"], how="left")  # one row per cluster and date on each side
        .na.fill(0, names)
        .select(*LEADER_CHURN.names)
    )


def unstable_partitions(changes: DataFrame) -> DataFrame:
    """The partitions that changed leader or ISR most often.

    In:  what `partition_changes` made.
    Out: schemas.UNSTABLE_PARTITIONS, at most `UNSTABLE_MAX` rows for each cluster, the worst ones.
    """
    worst = Window.partitionBy("cluster").orderBy(
        F.desc("leader_changes"), F.desc("isr_changes"), F.desc("leader_epoch_steps"), "topic", "partition"
    )
    return (
        changes.groupBy("cluster", "topic", "partition")
        .agg(
            F.count(F.lit(1)).alias("nights"),
            _count_of("leader_changed").alias("leader_changes"),
            F.sum("leader_epoch_steps").alias("leader_epoch_steps"),
            _count_of("isr_changed").alias("isr_changes"),
            _count_of("lags").alias("nights_under_replicated"),
        )
        .where((F.col("leader_changes") > 0) | (F.col("isr_changes") > 0))
        .withColumn("place", F.row_number().over(worst))
        .where(F.col("place") <= UNSTABLE_MAX)
        .select(*UNSTABLE_PARTITIONS.names)
    )


def replicas_by_day(partitions: DataFrame) -> DataFrame:
    """In: schemas.PARTITIONS. Out: cluster, taken_at, broker_id, replica_count; one row per date and holding broker."""
    return (
        partitions.select("cluster", "taken_at", F.explode("replicas").alias("broker_id"))
        .groupBy("cluster", "taken_at", "broker_id")
        .agg(F.count(F.lit(1)).alias("replica_count"))
    )


def broker_history(brokers: DataFrame, cluster: DataFrame, held: DataFrame) -> DataFrame:
    """How often each broker was there, registered anew, and how its load moved.

    In:  schemas.BROKERS and CLUSTER of the window; `held`, what `replicas_by_day` made.
    Out: schemas.BROKER_HISTORY, one row per (cluster, broker_id) that was ever registered. `nights_missing` are those
         without it since it was first seen; the trend is per date of the calendar. It went away as often as it
         registered anew, and once more if the last date lacks it: one that was retired is none that flaps.
    """
    days = cluster.select("cluster", "taken_at").distinct()
    by_broker = brokers.groupBy("cluster", "broker_id").agg(
        F.countDistinct("taken_at").alias("nights_seen"),
        F.countDistinct("broker_epoch").alias("registrations"),
        F.min("taken_at").alias("first_seen"),
        F.max("taken_at").alias("last_seen"),
    )
    day = F.unix_date(F.to_date("taken_at")).cast("double")
    load = (
        by_broker.select("cluster", "broker_id", "first_seen")
        .join(F.broadcast(days), ["cluster"], how="inner")  # brokers times dates
        .where(F.col("taken_at") >= F.col("first_seen"))
        .join(held, ["cluster", "taken_at", "broker_id"], how="left")
        .na.fill(0, ["replica_count"])
        .groupBy("cluster", "broker_id")
        .agg(
            F.count(F.lit(1)).alias("days_since"),
            F.max("taken_at").alias("last_day"),
            F.min_by("replica_count", "taken_at").alias("replica_count_first"),
            F.max_by("replica_count", "taken_at").alias("replica_count_last"),
            F.coalesce(F.regr_slope(F.col("replica_count"), day), F.lit(0.0)).alias("replica_trend_per_night"),
        )
    )
    is_gone = (F.col("last_seen") < F.col("last_day")).cast("int")
    flaps = F.col("registrations") - 1 + is_gone
    return (
        by_broker.join(load, ["cluster", "broker_id"], how="inner")  # one row per broker on each side
        .withColumn("nights_missing", F.col("days_since") - F.col("nights_seen"))
        .withColumn("flapping", flaps >= FLAPS_MIN)
        .select(*BROKER_HISTORY.names)
    )


def controller_churn(cluster: DataFrame) -> DataFrame:
    """In: schemas.CLUSTER of the window. Out: schemas.CONTROLLER_CHURN; elections since the day before, null first and beyond 32 bits."""
    days = Window.partitionBy("cluster").orderBy("taken_at")
    return cluster.select(
        "cluster",
        F.to_date("taken_at").alias("date"),
        "controller_id",
        "controller_epoch",
        F.try_subtract(F.col("controller_epoch"), F.lag("controller_epoch").over(days)).alias("elections"),
    ).select(*CONTROLLER_CHURN.names)


def growth(partitions: DataFrame, brokers: DataFrame, cluster: DataFrame) -> DataFrame:
    """In: schemas.PARTITIONS, BROKERS and CLUSTER of the window. Out: schemas.GROWTH, one row per cluster and date."""
    key = ["cluster", "taken_at"]
    counted = partitions.groupBy(*key, "topic").agg(
        F.count(F.lit(1)).alias("partitions"), F.sum(F.size("replicas")).alias("replicas")
    )
    by_day = counted.groupBy(*key).agg(
        F.count(F.lit(1)).alias("topic_count"),
        F.sum("partitions").alias("partition_count"),
        F.sum("replicas").alias("replica_count"),
    )
    registered = brokers.groupBy(*key).agg(F.countDistinct("broker_id").alias("broker_count"))
    counts = ["topic_count", "partition_count", "replica_count", "broker_count"]
    return (
        cluster.select(*key)
        .join(by_day, key, how="left")  # one row per date on each side
        .join(registered, key, how="left")
        .na.fill(0, counts)
        .withColumn("replicas_per_broker", F.col("replica_count") / F.nullif(F.col("broker_count"), F.lit(0)))
        .withColumn("date", F.to_date("taken_at"))
        .select(*GROWTH.names)
    )


def _differs(name: str) -> Column:
    return F.coalesce(F.col(name) != F.col(f"{name}_before"), F.lit(False))


def _count_of(flag: str) -> Column:
    return F.count(F.when(F.col(flag), 1))
