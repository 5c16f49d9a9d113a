"""What is wrong with a cluster now, as one table of findings; and its size in a few numbers.

Source: Kafka's own metrics of the same names (UnderReplicatedPartitions, UnderMinIsrPartitionCount,
OfflinePartitionsCount); docs/operations.md, "ISR-change notifications", for what a wedged controller leaves behind.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects

from spark_jobs.schemas import BROKER_LOAD, CLUSTER_SUMMARY, FINDINGS
from spark_jobs.transforms.facts import (
    KEY,
    MIN_ISR,
    NO_LEADER,
    being_reassigned,
    led_by_another,
    queued_topics,
    staying,
)

CRITICAL, WARNING, INFO = "critical", "warning", "info"
STUCK_AFTER_S = 600
"""A request older than this is called stuck; Kafka handles one in seconds, data movement apart."""
STALE_AFTER_S = 60
"""A notification older than this means that nobody handles them (docs/operations.md, "ISR-change notifications")."""
_RATE_KEYS = ("leader.replication.throttled.rate", "follower.replication.throttled.rate")
_REPLICA_KEYS = ("leader.replication.throttled.replicas", "follower.replication.throttled.replicas")
_REPLICAS_MAX = 64
"""How an even spread looks is worked out for partitions of up to so many replicas."""
_FINDING = "struct<kind:string,severity:string,brokers:array<int>,age_s:bigint,detail:string>"


def partition_findings(partitions: DataFrame, facts: DataFrame, configs: DataFrame) -> DataFrame:
    """Everything that is wrong with single partitions, those of topics queued for deletion apart.

    The controller takes leaders and replicas from a topic that goes: `deletion_eligibility` says what keeps it.

    In:  schemas.PARTITIONS, FACTS and CONFIGS.
    Out: schemas.FINDINGS, one row per (partition, kind): offline, under_min_isr, under_replicated, single_replica,
         rack_violation, non_preferred_leader, no_state, leader_outside_isr, isr_outside_assignment,
         min_isr_unreachable, empty_reassignment_target, being_reassigned.
    """
    judged = _with_judgement(staying(partitions, facts), facts, configs)
    return (
        judged.withColumn("finding", F.explode(F.array_compact(F.array(*_partition_checks()))))
        .select(*KEY, "topic", "partition", "finding.*")
        .select(*FINDINGS.names)
    )


def request_findings(requests: DataFrame, notifications: DataFrame) -> DataFrame:
    """Requests that nobody finishes and notifications that nobody handles.

    In:  schemas.REQUESTS and NOTIFICATIONS.
    Out: schemas.FINDINGS, one row per stuck request kind and topic, and per stale notification kind; `age_s` is the
         oldest, in seconds before the snapshot.
    """
    age_s = F.unix_timestamp("taken_at") - F.unix_timestamp("ctime")
    stuck = (
        requests.withColumn("age_s", age_s)
        .where(F.col("age_s") >= STUCK_AFTER_S)
        .groupBy(*KEY, F.col("kind").alias("request"), "topic")
        .agg(F.max("age_s").alias("age_s"), F.count("partition").alias("partition_count"))
        .select(
            *KEY,
            F.concat(F.lit("stuck_"), "request").alias("kind"),
            F.lit(WARNING).alias("severity"),
            "topic",
            "age_s",
            F.format_string("request for %s pending for %d s", "topic", "age_s").alias("detail"),
        )
    )
    stale = (
        notifications.where(F.col("kind") != "config_change")  # brokers leave those behind on purpose, for 15 minutes
        .withColumn("age_s", age_s)
        .where(F.col("age_s") >= STALE_AFTER_S)
        .groupBy(*KEY, F.col("kind").alias("queue"))
        .agg(
            F.max("age_s").alias("age_s"),
            F.countDistinct("name").alias("name_count"),
            F.sort_array(F.collect_set("broker")).alias("brokers"),
        )
        .select(
            *KEY,
            F.concat(F.lit("stale_"), "queue").alias("kind"),
            F.lit(CRITICAL).alias("severity"),
            "brokers",
            "age_s",
            F.format_string(
                "%d notifications wait, the oldest for %d s: the controller does not handle them", "name_count", "age_s"
            ).alias("detail"),
        )
    )
    return as_findings(stuck.unionByName(stale, allowMissingColumns=True))


def unmoved_findings(partitions: DataFrame, earlier: DataFrame) -> DataFrame:
    """Reassignments that stand as they stood in the snapshot before, whoever started them.

    In:  schemas.PARTITIONS of the current snapshot and of the one before (at most one snapshot per cluster each).
    Out: schemas.FINDINGS, one row per partition whose lists have not moved; `age_s` is the time between the snapshots.
    """
    lists = ("replicas", "adding", "removing")
    before = earlier.where(being_reassigned()).select(
        *("cluster", "topic", "partition", "czxid"),
        F.col("taken_at").alias("taken_before"),
        F.struct(*lists).alias("before"),
    )
    stuck = (
        partitions.where(being_reassigned())
        .withColumn("now", F.struct(*lists))
        .join(before, ["cluster", "topic", "partition", "czxid"], how="inner")  # one row per partition on each side
        .where(F.col("now") == F.col("before"))
        .select(
            *KEY,
            F.lit("stuck_reassignment").alias("kind"),
            F.lit(WARNING).alias("severity"),
            "topic",
            "partition",
            F.col("adding").alias("brokers"),
            (F.unix_timestamp("taken_at") - F.unix_timestamp("taken_before")).alias("age_s"),
            F.lit("reassigned since the snapshot before, and nothing has moved: do the added replicas catch up?").alias(
                "detail"
            ),
        )
    )
    return as_findings(stuck)


def config_findings(configs: DataFrame, facts: DataFrame) -> DataFrame:
    """Replication throttles that stayed behind after the reassignment they were for.

    In:  schemas.CONFIGS and FACTS. Out: schemas.FINDINGS, one row per throttled broker or topic.
    """
    is_throttle = F.col("key").isin(*_RATE_KEYS, *_REPLICA_KEYS)
    idle = facts.where(~F.col("any_reassignment")).select(*KEY)
    stale = (
        configs.where(is_throttle)
        .join(F.broadcast(idle), KEY)
        .groupBy(*KEY, "entity_type", "entity_name")
        .agg(F.concat_ws(", ", F.sort_array(F.collect_set("key"))).alias("keys"))
        .select(
            *KEY,
            F.lit("stale_throttle").alias("kind"),
            F.lit(WARNING).alias("severity"),
            F.when(F.col("entity_type") == "topics", F.col("entity_name")).alias("topic"),
            F.when(F.col("entity_type") == "brokers", F.array(F.col("entity_name").try_cast("int"))).alias("brokers"),
            F.format_string("%s %s keeps %s while nothing is reassigned", "entity_type", "entity_name", "keys").alias(
                "detail"
            ),
        )
    )
    return as_findings(stale)


def cluster_findings(cluster: DataFrame, earlier: DataFrame, bad_rows: DataFrame, *, churn_max: int = 3) -> DataFrame:
    """What is wrong with the controller and with the tree itself.

    In:  schemas.CLUSTER of the current snapshot and of the one before (at most one row per cluster each); schemas.BAD_ROWS.
    Out: schemas.FINDINGS: no_controller, controller_churn (more than `churn_max` elections since the snapshot before),
         kraft_migration, inconsistent_snapshot, unreadable_znode.
    """
    before = earlier.select("cluster", F.col("controller_epoch").alias("epoch_before"))
    elections = F.col("controller_epoch") - F.col("epoch_before")
    in_migration = (F.col("kraft_controller_epoch") >= 0) | F.col("migration").isNotNull()
    checks = (
        _finding(F.col("controller_id").isNull(), "no_controller", CRITICAL, "no broker is controller"),
        _finding(
            elections > churn_max,
            "controller_churn",
            WARNING,
            F.format_string("%d controller elections since the snapshot before", elections),
        ),
        _finding(in_migration, "kraft_migration", WARNING, "a migration to KRaft is under way: change nothing by hand"),
        _finding(
            ~F.col("consistent"), "inconsistent_snapshot", INFO, "the tree changed while it was read; see its manifest"
        ),
    )
    of_cluster = (
        cluster.join(F.broadcast(before), ["cluster"], how="left")
        .withColumn("finding", F.explode(F.array_compact(F.array(*checks))))
        .select(*KEY, "finding.*")
    )
    is_state = F.col("path").rlike("/partitions/[0-9]+/state$")
    unreadable = bad_rows.select(
        *KEY,
        F.lit("unreadable_znode").alias("kind"),
        F.when(is_state, CRITICAL).otherwise(WARNING).alias("severity"),
        F.concat_ws(
            "",
            F.format_string("%s: %s", "path", "reason"),
            F.when(is_state, F.lit("; one such state can end the elections of every partition in the same call")),
        ).alias("detail"),
    )
    return as_findings(of_cluster.unionByName(unreadable, allowMissingColumns=True))


def cluster_summary(partitions: DataFrame, facts: DataFrame) -> DataFrame:
    """Each snapshot in a few numbers, comparable between dates.

    In:  schemas.PARTITIONS and FACTS.
    Out: schemas.CLUSTER_SUMMARY, one row per (cluster, snapshot_id); sizes count every topic, what is wrong counts those
         that are not queued for deletion.
    """
    queued = queued_topics(facts).withColumn("queued", F.lit(True))
    stays = F.col("queued").isNull()
    marked = partitions.join(F.broadcast(queued), [*KEY, "topic"], how="left")  # a topic is queued once
    counted = marked.groupBy(*KEY).agg(
        F.countDistinct("topic").alias("topic_count"),
        F.count(F.lit(1)).alias("partition_count"),
        F.sum(F.size("replicas")).alias("replica_count"),
        F.count(F.when(stays & (F.coalesce("leader", F.lit(NO_LEADER)) < 0), 1)).alias("leaderless_count"),
        F.count(F.when(stays & led_by_another(), 1)).alias("imbalanced_count"),
        F.count(F.when(stays & (F.size(_lagging()) > 0), 1)).alias("under_replicated_count"),
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
    Out: schemas.BROKER_LOAD, one row per (cluster, snapshot_id, broker_id): registered, or holding a replica.
    """
    replica = F.explode(
        F.transform("replicas", lambda broker, index: F.struct(broker.alias("id"), index.alias("place")))
    )
    held = (
        partitions.select(*KEY, "leader", replica.alias("replica"))
        .groupBy(*KEY, F.col("replica.id").alias("broker_id"))
        .agg(
            F.count(F.lit(1)).alias("replica_count"),
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


def as_findings(frame: DataFrame) -> DataFrame:
    """`frame` with the columns of schemas.FINDINGS; absent ones are null."""
    present = set(frame.columns)
    return frame.select(
        *[
            (F.col(field.name) if field.name in present else F.lit(None)).cast(field.dataType).alias(field.name)
            for field in FINDINGS.fields
        ]
    )


def _with_judgement(partitions: DataFrame, facts: DataFrame, configs: DataFrame) -> DataFrame:
    """PARTITIONS with `min_isr`, `min_isr_wanted`, `lagging`, `live`, and what `_too_close` looks at.

    `racks` are those of the replicas, null for a broker that is not registered. From Kafka 3.7 on a leader wants no more
    in-sync replicas than the partition has replicas (`Partition.effectiveMinIsr`): `min_isr` is what counts.
    """
    is_min_isr = (F.col("key") == MIN_ISR) & (F.col("entity_type") == "topics")
    of_topic = configs.where(is_min_isr).select(
        *KEY, F.col("entity_name").alias("topic"), F.col("value").try_cast("int").alias("topic_min_isr")
    )
    context = facts.select(
        *KEY,
        "live",
        "min_isr_capped",
        "rack_count",
        *_spread(),
        F.map_from_entries(F.filter("rack_of", lambda entry: entry["rack"].isNotNull())).alias("rack_by_broker"),
        F.exists("rack_of", lambda entry: entry["rack"].isNull()).alias("some_without_rack"),
        "min_isr_default",
    )
    racks = F.transform(_target(), lambda broker: F.try_element_at("rack_by_broker", broker))
    wanted = F.coalesce("topic_min_isr", "min_isr_default")
    return (
        partitions.join(F.broadcast(context), KEY)
        .join(F.broadcast(of_topic), [*KEY, "topic"], how="left")
        .withColumns(
            {
                "min_isr_wanted": wanted,
                "min_isr": F.when(F.col("min_isr_capped"), F.least(wanted, F.size("replicas"))).otherwise(wanted),
                "lagging": _lagging(),
                "racks": racks,
                "even": F.get("spreads", F.size(_target())),
            }
        )
    )


def _spread() -> tuple[Column, Column]:
    """Of one snapshot's racks `rack_sizes`: (rack, count of brokers); and `spreads`: (least, most) replicas in a rack.

    A partition of n replicas is spread evenly when each rack holds `spreads[n].least` to `spreads[n].most`, or as many as
    it has brokers where that is less: the planner's `bounds.rack_quota`. `least` is the most that all racks can hold of n.
    """
    sizes = (
        "transform(array_distinct(rack_of.rack), name -> "
        "named_struct('rack', name, 'count', size(filter(rack_of, broker -> broker.rack = name))))"
    )
    held = f"aggregate({sizes}, 0, (sum, one) -> sum + least(one.count, level))"
    filled = f"transform(sequence(0, {_REPLICAS_MAX}), level -> {held})"
    level = "size(filter(filled, sum -> sum <= replicas)) - 1"
    spread = f"named_struct('least', {level}, 'most', {level} + if(array_contains(filled, replicas), 0, 1))"
    spreads = f"transform(array({filled}), filled -> transform(sequence(0, {_REPLICAS_MAX}), replicas -> {spread}))[0]"
    return F.expr(sizes).alias("rack_sizes"), F.expr(spreads).alias("spreads")


def _too_close() -> Column:
    """Whether some rack holds more, or fewer, of the replicas than an even spread allows.

    Fewer counts only where the racks of all replicas are known. More is true whatever racks the others are in: further
    brokers would lower what a rack may hold. Where each replica has a rack of its own there is nothing to look at.
    """
    uneven = F.expr("""
        exists(rack_sizes, one ->
            size(filter(racks, rack -> rack = one.rack)) > least(one.count, even.most)
            or (not exists(racks, rack -> rack is null)
                and size(filter(racks, rack -> rack = one.rack)) < least(one.count, even.least)))
    """)
    several = F.size(F.array_distinct("racks")) < F.size("racks")
    return ~F.col("some_without_rack") & (F.col("rack_count") > 1) & F.when(several, uneven).otherwise(F.lit(False))


def _racks_in_words() -> Column:
    counts = F.expr("""
        array_sort(transform(filter(array_distinct(racks), rack -> rack is not null),
            name -> concat(name, ': ', size(filter(racks, rack -> rack = name)))))
    """)
    unknown = F.expr("size(filter(racks, rack -> rack is null))")
    return F.concat(
        F.concat_ws(", ", counts), F.when(unknown > 0, F.format_string(", not known: %d", unknown)).otherwise(F.lit(""))
    )


def _partition_checks() -> list[Column]:
    leader, isr = F.col("leader"), F.col("isr")
    has_leader = leader >= 0
    unreachable = F.size(_target()) < F.col("min_isr_wanted")
    stray = F.array_except("isr", "replicas")
    return [
        _finding(leader.isNull(), "no_state", WARNING, "the controller has not written a state for this partition"),
        _finding(
            leader.isNotNull() & ~F.array_contains("live", leader),
            "offline",
            CRITICAL,
            F.format_string("leader is %d, which is no live broker; ISR %s", leader, _listed(isr)),
        ),
        _finding(
            has_leader & (F.size(isr) < F.col("min_isr")),
            "under_min_isr",
            CRITICAL,
            F.format_string("ISR %s is smaller than min.insync.replicas=%d", _listed(isr), "min_isr"),
        ),
        _finding(
            F.size("lagging") > 0,
            "under_replicated",
            WARNING,
            F.format_string("replicas %s are not in the ISR %s", _listed(F.col("lagging")), _listed(isr)),
            F.col("lagging"),
        ),
        _finding(
            unreachable & ~F.col("min_isr_capped"),
            "min_isr_unreachable",
            CRITICAL,
            F.format_string("%d replicas can never be min.insync.replicas=%d", F.size(_target()), "min_isr_wanted"),
        ),
        _finding(
            unreachable & F.col("min_isr_capped"),
            "min_isr_unreachable",
            WARNING,
            F.format_string(
                "%d replicas can never be min.insync.replicas=%d: since Kafka 3.7 their number counts instead",
                F.size(_target()),
                "min_isr_wanted",
            ),
        ),
        _finding(F.size(_target()) == 1, "single_replica", WARNING, "one replica only: its broker's failure stops it"),
        _finding(
            _too_close(),
            "rack_violation",
            WARNING,
            F.format_string(
                "replicas by rack are %s; evenly spread a rack holds %d to %d, fewer where it has fewer brokers",
                _racks_in_words(),
                "even.least",
                "even.most",
            ),
            _target(),
        ),
        _finding(
            led_by_another(),
            "non_preferred_leader",
            INFO,
            F.format_string("led by %d, preferred is %d", leader, "preferred_leader"),
        ),
        _finding(
            has_leader & ~F.array_contains(isr, leader),
            "leader_outside_isr",
            CRITICAL,
            F.format_string("leader %d is not in its own ISR %s", leader, _listed(isr)),
        ),
        _finding(
            F.size(stray) > 0,
            "isr_outside_assignment",
            WARNING,
            F.format_string("ISR names %s, which the assignment does not", _listed(stray)),
            stray,
        ),
        _finding(
            (F.size("removing") > 0) & (F.size(_target()) == 0),
            "empty_reassignment_target",
            CRITICAL,
            "reassigned to nothing: automatic leader rebalance fails for the whole cluster while this lasts",
        ),
        _finding(
            being_reassigned(),
            "being_reassigned",
            INFO,
            F.format_string("adds %s, removes %s", _listed(F.col("adding")), _listed(F.col("removing"))),
        ),
    ]


def _target() -> Column:
    """Replicas without those being removed."""
    return F.when(F.size("removing") > 0, F.array_except("replicas", "removing")).otherwise(F.col("replicas"))


def _lagging() -> Column:
    """Replicas outside the ISR, those being added apart; null without a state."""
    settled = F.when(F.size("adding") > 0, F.array_except("replicas", "adding")).otherwise(F.col("replicas"))
    return F.when(F.col("isr").isNotNull(), F.array_except(settled, F.col("isr")))


def _finding(
    condition: Column, kind: str, severity: str, detail: str | Column, brokers: Column | None = None
) -> Column:
    whole = F.struct(
        F.lit(kind).alias("kind"),
        F.lit(severity).alias("severity"),
        (F.lit(None) if brokers is None else brokers).cast("array<int>").alias("brokers"),
        F.lit(None).cast("bigint").alias("age_s"),
        (F.lit(detail) if isinstance(detail, str) else detail).alias("detail"),
    )
    return F.when(condition, whole.cast(_FINDING))


def _listed(brokers: Column) -> Column:
    return F.concat(F.lit("["), F.concat_ws(", ", brokers.cast("array<string>")), F.lit("]"))
