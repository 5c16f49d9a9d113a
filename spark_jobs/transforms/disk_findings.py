"""What is wrong with the disks of brokers that were asked: full, offline, or much fuller than the others.

Source: Kafka protocol guide, DescribeLogDirs; KIP-827.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects

from spark_jobs.transforms.facts import KEY
from spark_jobs.transforms.findings import CRITICAL, INFO, WARNING, as_findings, each_finding, finding

FREE_MIN, FREE_CRITICAL = 0.15, 0.05
"""Of a volume: a broker whose log directory cannot be written ends."""
SKEW_MAX, SKEW_BYTES_MIN = 1.5, 10 * 2**30
"""A broker that holds so many times as much as the average one, and so much more in bytes, is fuller than the others."""
_GIB = 2**30


def disk_findings(disks: DataFrame, partitions: DataFrame, facts: DataFrame) -> DataFrame:
    """Log directories that are offline or nearly full, and brokers that hold, or lead, much more than the others.

    Brokers are compared only where all registered ones have answered.

    In:  schemas.DISKS, one measurement per cluster; schemas.PARTITIONS and FACTS of the analysed snapshots.
    Out: schemas.FINDINGS: log_dir_offline, disk_nearly_full, bytes_skew, leader_bytes_skew.
    """
    of_cluster = facts.select(*KEY, "live")
    named = disks.join(F.broadcast(of_cluster.select(*KEY)), ["cluster"])  # one snapshot per cluster
    volumes = named.groupBy(*KEY, "broker_id", "log_dir").agg(
        *(F.max(name).alias(name) for name in ("error_code", "total_bytes", "usable_bytes"))
    )
    of_volumes = each_finding(volumes, KEY, *_of_volume())
    loads = _compared(_loads(named, partitions), of_cluster)
    of_loads = each_finding(loads, KEY, *_of_load())
    return as_findings(of_volumes.unionByName(of_loads))


def _loads(disks: DataFrame, partitions: DataFrame) -> DataFrame:
    """(key, broker_id, bytes, leader_bytes): of all replicas, and of those that lead; doubles, which any sizes can be added to."""
    size = F.col("size").cast("double")
    led = partitions.select(*KEY, "topic", "partition", "leader")
    leads = (F.col("leader") == F.col("broker_id")) & ~F.col("is_future")
    return (
        disks.join(led, [*KEY, "topic", "partition"], how="left")  # one row per partition on the right
        .groupBy(*KEY, "broker_id")
        .agg(
            F.coalesce(F.sum(size), F.lit(0.0)).alias("bytes"),
            F.coalesce(F.sum(F.when(leads, size)), F.lit(0.0)).alias("leader_bytes"),
        )
    )


def _compared(loads: DataFrame, of_cluster: DataFrame) -> DataFrame:
    """The loads with `mean_bytes` and `mean_leader_bytes`, of clusters of which all registered brokers have answered."""
    means = loads.groupBy(*KEY).agg(
        F.collect_set("broker_id").alias("answered"),
        F.avg("bytes").alias("mean_bytes"),
        F.avg("leader_bytes").alias("mean_leader_bytes"),
    )
    whole = means.join(of_cluster, KEY).where(F.size(F.array_except("live", "answered")) == 0)
    return loads.join(F.broadcast(whole), KEY)


def _of_volume() -> list[Column]:
    free = F.col("usable_bytes") / F.nullif(F.col("total_bytes"), F.lit(0))
    text = F.format_string(
        "%s of broker %d: %.1f of %.1f GiB are left (%.1f %%): add space, delete, shorten retention, or move replicas away",
        *("log_dir", "broker_id"),
        *(F.col("usable_bytes") / _GIB, F.col("total_bytes") / _GIB, free * 100),
    )
    brokers = F.array("broker_id")
    return [
        finding(
            F.col("error_code") != 0,
            "log_dir_offline",
            CRITICAL,
            F.format_string(
                "%s of broker %d is offline (error %d): its replicas are; replace the disk",
                *("log_dir", "broker_id", "error_code"),
            ),
            brokers,
        ),
        finding(free < FREE_CRITICAL, "disk_nearly_full", CRITICAL, text, brokers),
        finding((free >= FREE_CRITICAL) & (free < FREE_MIN), "disk_nearly_full", WARNING, text, brokers),
    ]


def _of_load() -> list[Column]:
    return [
        finding(_is_high("bytes"), "bytes_skew", WARNING, _told("bytes", "holds"), F.array("broker_id")),
        finding(
            _is_high("leader_bytes"), "leader_bytes_skew", INFO, _told("leader_bytes", "leads"), F.array("broker_id")
        ),
    ]


def _is_high(name: str) -> Column:
    mean = F.col(f"mean_{name}")
    return (F.col(name) > SKEW_MAX * mean) & (F.col(name) - mean > SKEW_BYTES_MIN)


def _told(name: str, verb: str) -> Column:
    mean = F.col(f"mean_{name}")
    text = f"broker %d {verb} %.1f GiB, the average broker %.1f GiB (%.1f times): plan a reassignment with sizes"
    return F.format_string(text, "broker_id", F.col(name) / _GIB, mean / _GIB, F.col(name) / mean)
