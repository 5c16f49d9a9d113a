"""Topics queued for deletion: who can go, who cannot, every reason, and what would help.

Source: Kafka 3.9 `TopicDeletionManager`. Held equal to `controller_core.controller.topic_deletion` by a
property test.
"""

from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects

from controller_core.controller.deletion_eligibility import IneligibilityKind
from spark_jobs.schemas import DELETION_ELIGIBILITY, INELIGIBILITY_REASON
from spark_jobs.transforms.facts import KEY, being_reassigned

_DISABLED = "delete.topic.enable is false: the controller drops every deletion request"
_REASONS = f"array<{INELIGIBILITY_REASON.simpleString()}>"
_KIND = IneligibilityKind
_MOVE, _ELECT = "reassign_partitions", "preferred_replica_election"
_FLAGS_MAX = 10_000
"""The largest broker id with a flag of its own; partitions of those beyond are looked at one by one."""
_LOOKED_AT = 6
"""Replicas of a partition that compiled code looks at; partitions with more are looked at one by one."""
_REMEDIES = (
    (_KIND.DELETION_DISABLED, "set delete.topic.enable=true on every broker and ask again"),
    (_KIND.UNREADABLE, "repair what the reasons name, or take a snapshot that can read it, and judge again"),
    (_KIND.UNKNOWN_TOPIC, "nothing to do: the controller drops a request for a topic that does not exist"),
    (_KIND.DEAD_REPLICA, "start the brokers that the reasons name; the deletion then goes on by itself"),
    (
        _KIND.NEVER_LED,
        "remove the request, have another broker become controller so that the partition gets a leader, and ask again",
    ),
    (
        _KIND.REASSIGNMENT,
        "let the reassignment finish; where nobody leads the partition any more, start the brokers that it moves to",
    ),
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
        .select(*KEY, "topic", F.col("ctime").alias("requested_at"))
        .join(F.broadcast(facts.select(*KEY, "deletion_enabled")), KEY, how="inner")
        .join(topics.select(*KEY, "topic", "partition_count"), [*KEY, "topic"], how="left")
        .join(F.broadcast(facts.select(*KEY, F.inline("unreadable"))), [*KEY, "topic"], how="left")  # one row per topic
    )
    by_partition = F.array_sort(F.collect_list(F.struct("partition", "place", "reasons")))
    blocked = (
        blocking_partitions(partitions, requests, facts)
        .groupBy(*KEY, "topic")
        .agg(F.flatten(by_partition["reasons"]).alias("of_partitions"))
    )
    reasons = (
        F.when(~F.col("deletion_enabled"), F.array(_reason(_KIND.DELETION_DISABLED, F.lit(_DISABLED))))
        .when(F.col("path").isNotNull(), F.array(_reason(_KIND.UNREADABLE, _unreadable_text())))
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


def blocking_partitions(partitions: DataFrame, requests: DataFrame, facts: DataFrame) -> DataFrame:
    """The partitions that would stand in the way if their topic were queued, with their reasons.

    In:  schemas.PARTITIONS, REQUESTS and FACTS.
    Out: (cluster, snapshot_id, topic, partition, place, reasons): in place 0 what the partition's lists say, in place 1
         what is asked for. Few rows have no reason.
    """
    name = F.concat_ws("-", "topic", F.col("partition").cast("string"))
    dead = F.col("dead")
    dead_text = F.concat(
        name,
        F.lit(" has replicas on brokers ["),
        F.concat_ws(", ", dead.cast("array<string>")),
        F.lit("], which are down or lost the log directory"),
        _gone(),
    )
    never_led_text = F.concat(
        name, F.lit(" never had a leader; up to Kafka 1.1 the deletion then begins and never ends (KAFKA-6650)")
    )
    moving_text = F.concat(name, F.lit(" is being reassigned"), _gone())
    electing_text = F.concat(name, F.lit(" is in a preferred-replica election"), _gone())
    reasons = F.array_compact(
        F.array(
            F.when(F.size(dead) > 0, _reason(_KIND.DEAD_REPLICA, dead_text, F.col("partition"), dead)),
            F.when(F.col("is_never_led"), _reason(_KIND.NEVER_LED, never_led_text, F.col("partition"))),
            F.when(F.col("is_moving"), _reason(_KIND.REASSIGNMENT, moving_text, F.col("partition"))),
            F.when(F.col("is_electing"), _reason(_KIND.PREFERRED_ELECTION, electing_text, F.col("partition"))),
        )
    )
    return (
        _seen_in_lists(partitions, facts)
        .unionByName(_seen_in_requests(partitions, requests, facts))
        .repartition(*KEY, "topic")  # for the grouping to come; and the scans' own code stays small and fast
        .select(*KEY, "topic", "partition", "place", reasons.alias("reasons"))
    )


def _seen_in_lists(partitions: DataFrame, facts: DataFrame) -> DataFrame:
    """Partitions with replicas on brokers that are not live, without a state where that counts, or being reassigned.

    Whether all replicas are live in every snapshot is asked before the snapshot's own facts are joined: the strings of a row
    that goes no further are never decoded. Lambdas are SQL: those of `F.filter` and the like have another name each time, for
    which Spark compiles the whole stage again. A row with nothing in the way may pass (long lists).
    """
    common = F.expr("aggregate(collect_list(live), first(live), (some, others) -> array_intersect(some, others))")
    everywhere = facts.agg(common.alias("live")).select(_flags_of_live().alias("everywhere"))
    own = facts.select(*KEY, "live", _flags_of_live().alias("flags"), "deletion_needs_leader")
    has_no_state = F.col("leader").isNull()
    is_never_led = has_no_state & F.col("deletion_needs_leader")
    return (
        partitions.select(*KEY, "topic", "partition", "replicas", "adding", "removing", "leader")
        .crossJoin(F.broadcast(everywhere))  # one row
        .where(_may_be_dead(F.col("everywhere")) | being_reassigned() | has_no_state)
        .join(F.broadcast(own), KEY, how="inner")  # many partitions to one snapshot
        .where(_may_be_dead(F.col("flags")) | being_reassigned() | is_never_led)
        .select(
            *(*KEY, "topic", "partition"),
            F.lit(0).alias("place"),
            F.expr("filter(replicas, broker -> not array_contains(live, broker))").alias("dead"),
            *(_online(), _is_led()),
            is_never_led.alias("is_never_led"),
            being_reassigned().alias("is_moving"),
            F.lit(False).alias("is_electing"),
        )
    )


def _flags_of_live() -> Column:
    """An array that is true at the id of each broker in the column `live`; it ends with the last one or at `_FLAGS_MAX`."""
    ids = f"sequence(0, least(array_max(live), {_FLAGS_MAX}))"
    return F.expr(f"transform({ids}, broker -> array_contains(live, broker))")


def _may_be_dead(flags: Column) -> Column:
    """False only where all replicas are live; one look into an array for each, compiled, and no set or lambda for a row."""
    size = F.size("replicas")
    dead = [
        (size > place) & ~F.coalesce(F.get(flags, F.get("replicas", F.lit(place))), F.lit(False))
        for place in range(_LOOKED_AT)
    ]
    return reduce(or_, dead, size > _LOOKED_AT)


def _seen_in_requests(partitions: DataFrame, requests: DataFrame, facts: DataFrame) -> DataFrame:
    """Partitions whose reassignment is asked for and not begun, or in an election that this version waits for."""
    key = [*KEY, "topic", "partition"]
    named = requests.where(F.col("kind").isin(_MOVE, _ELECT)).groupBy(*key).agg(F.collect_set("kind").alias("asked_to"))
    return (
        partitions.select(*key, "replicas", "adding", "removing", "leader")
        .join(F.broadcast(named), key, how="inner")  # one row per partition on each side; nobody named, nothing read
        .join(F.broadcast(facts.select(*KEY, "live", "deletion_blocked_by_election")), KEY, how="inner")
        .select(
            *key,
            F.lit(1).alias("place"),
            F.array().cast("array<int>").alias("dead"),
            *(_online(), _is_led()),
            F.lit(False).alias("is_never_led"),
            (~being_reassigned() & F.array_contains("asked_to", _MOVE)).alias("is_moving"),
            (F.col("deletion_blocked_by_election") & F.array_contains("asked_to", _ELECT)).alias("is_electing"),
        )
    )


def _online() -> Column:
    return F.expr("filter(replicas, broker -> array_contains(live, broker))").alias("online")


def _is_led() -> Column:
    return (F.coalesce("leader", F.lit(-1)) >= 0).alias("is_led")


def _gone() -> Column:
    """What of a partition of a queued topic is gone: the core's words."""
    brokers = F.concat_ws(", ", F.col("online").cast("array<string>"))
    return F.when(
        F.col("is_led"), F.lit("; the deletion waits for that, and nothing of the partition is deleted yet")
    ).otherwise(
        F.concat(F.lit("; its replicas on brokers ["), brokers, F.lit("] are deleted already, or nobody can read them"))
    )


def _unreadable_text() -> Column:
    known = F.concat(F.lit("what is known of topic '"), "topic", F.lit("' is not enough to judge it"))
    return F.concat("path", F.lit(": "), "reason", F.lit("; "), known)


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
