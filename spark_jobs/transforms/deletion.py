"""Topics queued for deletion: who can go, who cannot, every reason, and what would help.

Source: controller-behaviour §9.2; Kafka 3.9 `TopicDeletionManager`. Held equal to `controller_core.topic_deletion` by a
property test.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects

from controller_core.eligibility import IneligibilityKind
from spark_jobs.schemas import DELETION_ELIGIBILITY, INELIGIBILITY_REASON
from spark_jobs.transforms.facts import KEY, being_reassigned

_DISABLED = "delete.topic.enable is false: the controller drops every deletion request"
_REASONS = f"array<{INELIGIBILITY_REASON.simpleString()}>"
_KIND = IneligibilityKind
_MOVE, _ELECT = "reassign_partitions", "preferred_replica_election"
_GAPS_MAX = 10_000
"""Broker ids that lie wider apart are too sparse to list the missing ones."""
_REMEDIES = (
    (_KIND.DELETION_DISABLED, "set delete.topic.enable=true on every broker and ask again"),
    (_KIND.UNKNOWN_TOPIC, "nothing to do: the controller drops a request for a topic that does not exist"),
    (_KIND.DEAD_REPLICA, "start the brokers that the reasons name; the deletion then goes on by itself"),
    (_KIND.REASSIGNMENT, "let the reassignment finish"),
    (_KIND.PREFERRED_ELECTION, "let the preferred election finish"),
)


def deletion_eligibility(partitions: DataFrame, topics: DataFrame, requests: DataFrame, facts: DataFrame) -> DataFrame:
    """Every topic queued for deletion with every reason why the controller does not delete it now.

    In:  schemas.PARTITIONS, TOPICS, REQUESTS and FACTS.
    Out: schemas.DELETION_ELIGIBILITY, one row per (cluster, snapshot_id, topic) that is asked to be deleted. Reasons are
         those of the core, in its order; an eligible topic has none and a null remedy.
    """
    asked = (
        requests.where(F.col("kind") == "delete_topics")
        .groupBy(*KEY, "topic")
        .agg(F.min("ctime").alias("requested_at"))
        .join(F.broadcast(facts.select(*KEY, "deletion_enabled")), KEY, how="inner")
        .join(topics.select(*KEY, "topic", "partition_count"), [*KEY, "topic"], how="left")
    )
    by_partition = F.array_sort(F.collect_list(F.struct("partition", "place", "reasons")))
    blocked = (
        blocking_partitions(partitions, asked, requests, facts)
        .groupBy(*KEY, "topic")
        .agg(F.flatten(F.transform(by_partition, lambda row: row["reasons"])).alias("of_partitions"))
    )
    reasons = (
        F.when(~F.col("deletion_enabled"), F.array(_reason(_KIND.DELETION_DISABLED, F.lit(_DISABLED))))
        .when(F.col("partition_count").isNull(), F.array(_reason(_KIND.UNKNOWN_TOPIC, _unknown_text())))
        .otherwise(F.coalesce("of_partitions", F.array().cast(_REASONS)))
    )
    return (
        asked.join(blocked, [*KEY, "topic"], how="left")
        .withColumn("reasons", reasons)
        .withColumn("eligible", F.size("reasons") == 0)
        .withColumn("partition_count", F.coalesce("partition_count", F.lit(0)).cast("long"))
        .withColumn("remedy", _remedy())
        .select(*DELETION_ELIGIBILITY.names)
    )


def blocking_partitions(partitions: DataFrame, asked: DataFrame, requests: DataFrame, facts: DataFrame) -> DataFrame:
    """The partitions of queued topics that stand in the way, with their reasons.

    In:  schemas.PARTITIONS; one row per queued (cluster, snapshot_id, topic); schemas.REQUESTS and FACTS.
    Out: (cluster, snapshot_id, topic, partition, place, reasons), only the partitions that have one: in place 0 what is
         said of dead replicas, in place 1 what is being done to the partition.
    """
    name = F.concat_ws("-", "topic", F.col("partition").cast("string"))
    dead = F.col("dead")
    dead_text = F.concat(
        name,
        F.lit(" has replicas on brokers ["),
        F.concat_ws(", ", dead.cast("array<string>")),
        F.lit("], which are down or lost the log directory"),
    )
    waits = F.lit("; the deletion waits until that is done")
    moving_text = F.concat(name, F.lit(" is being reassigned"), waits)
    electing_text = F.concat(name, F.lit(" is in a preferred-replica election"), waits)
    reasons = F.array_compact(
        F.array(
            F.when(F.size(dead) > 0, _reason(_KIND.DEAD_REPLICA, dead_text, F.col("partition"), dead)),
            F.when(F.col("is_moving"), _reason(_KIND.REASSIGNMENT, moving_text, F.col("partition"))),
            F.when(F.col("is_electing"), _reason(_KIND.PREFERRED_ELECTION, electing_text, F.col("partition"))),
        )
    )
    return (
        _with_dead_replicas(partitions, facts)
        .unionByName(_under_way(partitions, requests, facts))
        .repartition(*KEY, "topic")  # for the grouping to come; and the scans' own code stays small and fast
        .join(asked.select(*KEY, "topic"), [*KEY, "topic"], how="left_semi")  # both sides lie alike already
        .select(*KEY, "topic", "partition", "place", reasons.alias("reasons"))
    )


def _with_dead_replicas(partitions: DataFrame, facts: DataFrame) -> DataFrame:
    """Partitions with replicas on brokers that are not live: `explode` tests each replica by two comparisons and no set."""
    lowest, highest = F.array_min("live"), F.array_max("live")
    gaps = F.when(highest - lowest < _GAPS_MAX, F.array_except(F.sequence(lowest, highest), F.col("live")))
    live = facts.select(*KEY, "live", lowest.alias("lowest"), highest.alias("highest"), gaps.alias("gaps"))

    def is_dead(broker: Column) -> Column:
        inside = F.coalesce(F.array_contains("gaps", broker), ~F.array_contains("live", broker))
        return (broker < F.col("lowest")) | (broker > F.col("highest")) | inside

    return (
        partitions.select(*KEY, "topic", "partition", "replicas")
        .join(F.broadcast(live), KEY, how="inner")  # many partitions to one snapshot
        .select("*", F.explode("replicas").alias("replica"))
        .where(is_dead(F.col("replica")))
        .withColumn("dead", F.filter("replicas", is_dead))
        .where(F.col("replica") == F.col("dead")[0])  # once per partition
        .select(
            *(*KEY, "topic", "partition"),
            F.lit(0).alias("place"),
            "dead",
            F.lit(False).alias("is_moving"),
            F.lit(False).alias("is_electing"),
        )
    )


def _under_way(partitions: DataFrame, requests: DataFrame, facts: DataFrame) -> DataFrame:
    """Partitions that are being reassigned, or in an election that this version waits for."""
    key = [*KEY, "topic", "partition"]
    named = requests.where(F.col("kind").isin(_MOVE, _ELECT)).groupBy(*key).agg(F.collect_set("kind").alias("asked_to"))
    return (
        partitions.select(*key, "adding", "removing")
        .join(F.broadcast(named), key, how="left")  # one row per partition on each side
        .where(being_reassigned() | F.col("asked_to").isNotNull())
        .join(F.broadcast(facts.select(*KEY, "deletion_blocked_by_election")), KEY, how="inner")
        .select(
            *key,
            F.lit(1).alias("place"),
            F.array().cast("array<int>").alias("dead"),
            (being_reassigned() | _is_asked_to(_MOVE)).alias("is_moving"),
            (F.col("deletion_blocked_by_election") & _is_asked_to(_ELECT)).alias("is_electing"),
        )
        .where(F.col("is_moving") | F.col("is_electing"))
    )


def _is_asked_to(kind: str) -> Column:
    return F.coalesce(F.array_contains("asked_to", kind), F.lit(False))


def _unknown_text() -> Column:
    return F.concat(F.lit("topic '"), "topic", F.lit("' does not exist: the controller drops the request"))


def _reason(
    kind: IneligibilityKind, text: Column, partition: Column | None = None, brokers: Column | None = None
) -> Column:
    whole = F.struct(
        F.lit(kind.value).alias("kind"),
        (F.lit(None) if partition is None else partition).cast("int").alias("partition"),
        (F.array() if brokers is None else brokers).cast("array<int>").alias("brokers"),
        text.alias("text"),
    )
    return whole.cast(INELIGIBILITY_REASON)


def _remedy() -> Column:
    kinds = F.col("reasons")["kind"]
    helps = [F.when(F.array_contains(kinds, kind.value), F.lit(text)) for kind, text in _REMEDIES]
    return F.nullif(F.concat_ws("; ", *helps), F.lit(""))
