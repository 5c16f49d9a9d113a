"""Leader imbalance as the controller's own check computes it, and what an election would change.

Source: Kafka 3.9 `checkAndTriggerAutoLeaderRebalance`. Held equal to
`controller_core.controller.leader_imbalance` by a property test.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects

from controller_core.controller.leader_imbalance import DEAD, ELECTION_RUNNING, NOT_IN_ISR, REASSIGNMENT_RUNNING
from spark_jobs.schemas import IMBALANCE, IMBALANCED_PARTITIONS
from spark_jobs.transforms.facts import KEY, led_by_another, snapshot_number, staying


def imbalance(partitions: DataFrame, facts: DataFrame) -> DataFrame:
    """Per preferred leader: how many of its partitions another broker leads, and what an election repairs.

    In:  schemas.PARTITIONS; schemas.FACTS.
    Out: schemas.IMBALANCE, one row per (cluster, snapshot_id, broker_id). Partitions without a state count in
         `preferred_count` only; those led by nobody are imbalanced.
    """
    in_isr = led_by_another() & _preferred_in_isr()
    counted = (
        staying(partitions, facts)
        .groupBy(snapshot_number().alias("snapshot"), F.col("preferred_leader").alias("broker_id"))
        .agg(
            F.count(F.lit(1)).alias("preferred_count"),
            F.count(F.when(led_by_another(), 1)).alias("imbalanced_count"),
            F.count(F.when(in_isr, 1)).alias("in_isr_count"),
        )
    )
    live = F.array_contains("live", F.col("broker_id"))
    ratio = F.col("imbalanced_count") / F.col("preferred_count")
    electable = F.when(live, F.col("in_isr_count")).otherwise(0)
    candidates = (
        F.when(~live | _blocked(), 0)
        .when(F.col("election_needs_isr"), F.col("in_isr_count"))
        .otherwise(F.col("imbalanced_count"))
    )
    results = {
        "live": live,
        "ratio": ratio,
        "triggers": ratio > F.col("imbalance_ratio_max"),
        "candidate_count": candidates.cast("long"),
        "electable_count": electable.cast("long"),
        "ratio_after_election": (F.col("imbalanced_count") - electable) / F.col("preferred_count"),
    }
    return (
        counted.join(F.broadcast(facts.withColumn("snapshot", snapshot_number())), "snapshot", how="inner")
        .withColumns(results)
        .select(*IMBALANCE.names)
    )


def imbalanced_partitions(partitions: DataFrame, facts: DataFrame) -> DataFrame:
    """Each partition led by another than its preferred leader, and why that one cannot be elected.

    In:  schemas.PARTITIONS; schemas.FACTS.
    Out: schemas.IMBALANCED_PARTITIONS, one row per imbalanced (cluster, snapshot_id, topic, partition).
         `electable`: an election succeeds now; `candidate`: the controller's own timer would try it.
    """
    preferred = F.col("preferred_leader")
    is_live = F.array_contains("live", preferred)
    in_isr = _preferred_in_isr()
    reason = (
        F.when(_waits_for_reassignment(), F.lit(REASSIGNMENT_RUNNING))
        .when(_waits_for_election(), F.lit(ELECTION_RUNNING))
        .when(~is_live, F.lit(DEAD))
        .when(~in_isr, F.lit(NOT_IN_ISR))
    )
    return (
        staying(partitions, facts)
        .where(led_by_another())
        .join(F.broadcast(facts), KEY, how="inner")
        .withColumns(
            {
                "electable": is_live & in_isr,
                "candidate": is_live & ~_blocked() & (in_isr | ~F.col("election_needs_isr")),
                "reason": reason,
            }
        )
        .select(*IMBALANCED_PARTITIONS.names)
    )


def _preferred_in_isr() -> Column:
    return F.array_contains("isr", F.col("preferred_leader"))


def _blocked() -> Column:
    return _waits_for_reassignment() | _waits_for_election()


def _waits_for_reassignment() -> Column:
    return F.col("election_blocked_by_reassignment") & F.col("any_reassignment")


def _waits_for_election() -> Column:
    return F.col("deletion_blocked_by_election") & F.col("any_election")
