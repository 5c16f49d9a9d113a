"""Rows that no analysis may use, with the reason; everything else passes on unchanged."""

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects
from pyspark.sql.window import Window

from spark_jobs.schemas import PARTITIONS, REFUSED_ROWS
from spark_jobs.transforms.facts import KEY, NO_LEADER, some_are_equal

_PLACES = range(4)
"""Of an array, that are compared one by one, which takes half the time of a set or a sort; longer arrays are rare."""
_STATE_COLUMNS = ("leader", "leader_epoch", "isr", "controller_epoch", "state_version")


def with_reason(partitions: DataFrame) -> DataFrame:
    """PARTITIONS with a column `reason`, null for a good row.

    Of several rows with one key, one is kept and the others are refused.
    """
    same_key = Window.partitionBy(*KEY, "topic", "partition").orderBy("czxid", "replicas", "isr")
    return (
        partitions.withColumn("_copy", F.row_number().over(same_key))
        .withColumn("reason", F.coalesce(*_reasons()))
        .drop("_copy")
    )


def plausible(partitions: DataFrame) -> DataFrame:
    """In and out: schemas.PARTITIONS, without the rows that contradict themselves.

    Of rows with the same key all stay: to find them takes a sort, which the history of millions of rows makes once anyway.
    """
    return partitions.where(F.coalesce(*_of_row()).isNull())


def good_partitions(judged: DataFrame) -> DataFrame:
    """In: what `with_reason` made. Out: schemas.PARTITIONS, the rows without a reason."""
    return judged.where(F.col("reason").isNull()).select(*PARTITIONS.names)


def refused_rows(judged: DataFrame, undecoded: DataFrame) -> DataFrame:
    """In: what `with_reason` made, and schemas.BAD_ROWS of the snapshots. Out: schemas.REFUSED_ROWS."""
    path = F.concat_ws("/", F.lit("/brokers/topics"), "topic", F.lit("partitions"), F.col("partition").cast("string"))
    refused = judged.where(F.col("reason").isNotNull()).select(
        *KEY, F.lit("partitions").alias("dataset"), path.alias("path"), "reason"
    )
    earlier = undecoded.select(*KEY, F.lit("raw").alias("dataset"), "path", "reason")
    return refused.unionByName(earlier).select(*REFUSED_ROWS.names)


def _reasons() -> list[Column]:
    return [*_of_row(), F.when(F.col("_copy") > 1, F.lit("another row has the same topic and partition"))]


def _of_row() -> list[Column]:
    """What one row says against itself."""
    nulls_in_state = [F.col(name).isNull() for name in _STATE_COLUMNS]
    is_moving = (F.size("adding") > 0) | (F.size("removing") > 0)
    half_a_state = F.greatest(*nulls_in_state) != F.least(*nulls_in_state)
    checks = (
        (F.col("topic").isNull() | F.col("partition").isNull(), "topic or partition is null"),
        (F.col("partition") < 0, "partition number is negative"),
        (F.col("replicas").isNull() | (F.size("replicas") == 0), "replica list is empty"),
        (_has_hole("replicas"), "replica list holds null or a negative broker id"),
        (_names_twice("replicas"), "replica list names a broker twice"),
        (
            F.col("preferred_leader").isNull() | (F.col("preferred_leader") != F.get("replicas", F.lit(0))),
            "preferred_leader is not the first replica",
        ),
        (
            is_moving & (F.size(F.array_except(F.concat("adding", "removing"), "replicas")) > 0),
            "adds or removes a broker that is not among the replicas",
        ),
        (half_a_state, "leader, isr and epochs are partly null"),
        # The core has no place for such a state: the partition would be a new one, and healthy after its first election.
        (_names_twice("isr"), "ISR names a broker twice"),
        (_has_hole("isr"), "ISR holds null or a negative broker id"),
        (F.col("leader") < NO_LEADER, "leader is neither a broker id nor -1"),
        (F.col("leader_epoch") < 0, "leader epoch is negative"),
    )
    return [F.when(condition, F.lit(text)) for condition, text in checks]


def _has_hole(numbers: str) -> Column:
    """Whether an array holds null or a negative number. No lambda: Spark would interpret it, for each row."""
    first = F.get(F.sort_array(numbers), F.lit(0))  # nulls come first
    holes = [(F.size(numbers) > place) & F.coalesce(F.get(numbers, F.lit(place)) < 0, F.lit(True)) for place in _PLACES]
    return reduce(or_, holes, (F.size(numbers) > len(_PLACES)) & (first.isNull() | (first < 0)))


def _names_twice(numbers: str) -> Column:
    """Whether an array holds a number twice; a set is made only of long arrays."""
    places = [F.get(numbers, F.lit(place)) for place in _PLACES]
    is_long = F.size(numbers) > len(_PLACES)
    return some_are_equal(places) | (is_long & (F.size(F.array_distinct(numbers)) != F.size(numbers)))
