"""What is wrong with single partitions.

Source: Kafka's own metrics of the same names (`OfflinePartitionsCount` of the controller, `UnderMinIsrPartitionCount` and
`UnderReplicatedPartitions` of a leader); where a definition here is stricter, its finding says so.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects

from spark_jobs.schemas import FINDINGS
from spark_jobs.transforms import racks
from spark_jobs.transforms.facts import KEY, being_reassigned, led_by_another, min_isr_of_topics, offline, staying
from spark_jobs.transforms.findings import (
    BROKER_DOWN,
    CRITICAL,
    INFO,
    WARNING,
    as_findings,
    counted,
    each_finding,
    finding,
    listed,
)


def partition_findings(partitions: DataFrame, facts: DataFrame, configs: DataFrame) -> DataFrame:
    """Everything that is wrong with single partitions, those of topics queued for deletion apart.

    The controller takes leaders and replicas from a topic that goes: `deletion_eligibility` says what keeps it. Rows with
    nothing suspicious are left out by compiled code first; texts are made of the few that remain.

    In:  schemas.PARTITIONS, FACTS and CONFIGS.
    Out: schemas.FINDINGS, one row per (partition, kind): offline, under_min_isr, under_replicated (also without a leader,
         where Kafka counts none), single_replica, rack_violation, non_preferred_leader, no_state, leader_outside_isr,
         isr_outside_assignment, min_isr_unreachable, empty_reassignment_target, being_reassigned.
    """
    judged = _judged(staying(partitions, facts), facts, configs)
    return each_finding(judged, (*KEY, "topic", "partition"), *_checks()).select(*FINDINGS.names)


def unmoved_findings(partitions: DataFrame, earlier: DataFrame) -> DataFrame:
    """Reassignments that stand as they stood in the snapshot before, whoever started them.

    In:  schemas.PARTITIONS of the current snapshot and of the snapshot before (at most one snapshot per cluster each).
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


def lagging() -> Column:
    """Replicas outside the ISR, those being added apart; null without a state."""
    settled = F.when(F.size("adding") > 0, F.array_except("replicas", "adding")).otherwise(F.col("replicas"))
    return F.when(F.col("isr").isNotNull(), F.array_except(settled, F.col("isr")))


def min_isr_findings(partitions: DataFrame, facts: DataFrame, configs: DataFrame) -> DataFrame:
    """Topics that no restart of a broker spares: as many in-sync replicas are wanted as there are replicas.

    In:  schemas.PARTITIONS, FACTS and CONFIGS.
    Out: schemas.FINDINGS, one row min_isr_equals_replication_factor per topic.
    """
    size = F.size(_target())
    found = (
        _with_min_isr(staying(partitions, facts), facts.select(*KEY, "min_isr_capped", "min_isr_default"), configs)
        .where((size > 1) & (F.col("min_isr") == size))
        .groupBy(*KEY, "topic")
        .agg(F.count(F.lit(1)).alias("partitions"), F.max("min_isr").alias("min_isr"))
    )
    text = "%s as many replicas as min.insync.replicas=%d: the restart of any broker that holds one stops acks=all"
    return as_findings(
        found.select(
            *(*KEY, "topic"),
            F.lit("min_isr_equals_replication_factor").alias("kind"),
            F.lit(WARNING).alias("severity"),
            F.format_string(text, counted(F.col("partitions"), "partition", "have"), "min_isr").alias("detail"),
        )
    )


def _holders() -> Column:
    """Replicas, and the leader where it is none of them."""
    return F.when(F.col("leader") >= 0, F.array_union("replicas", F.array("leader"))).otherwise(F.col("replicas"))


def _with_min_isr(partitions: DataFrame, of_cluster: DataFrame, configs: DataFrame) -> DataFrame:
    """PARTITIONS with the columns of `of_cluster`, `min_isr_wanted` as configured, and `min_isr`, which counts.

    From Kafka 3.7 on a leader wants no more in-sync replicas than the partition has (`Partition.effectiveMinIsr`).
    """
    wanted = F.coalesce("topic_min_isr", "min_isr_default")
    counts = F.when(F.col("min_isr_capped"), F.least(wanted, F.size("replicas"))).otherwise(wanted)
    return (
        partitions.join(F.broadcast(of_cluster), KEY)
        .join(F.broadcast(min_isr_of_topics(configs)), [*KEY, "topic"], how="left")
        .withColumns({"min_isr_wanted": wanted, "min_isr": counts})
    )


def _judged(partitions: DataFrame, facts: DataFrame, configs: DataFrame) -> DataFrame:
    """Suspicious PARTITIONS with `min_isr`, `min_isr_wanted`, `lagging`, `live`, and what `racks.too_close` looks at.

    `racks` are those of the replicas, null for a broker that is not registered, and as a whole where none can lie too close;
    `dead` are replicas, and a leader, that are not registered.
    """
    of_cluster = facts.select(
        *KEY, "live", "min_isr_capped", "min_isr_default", "rack_count", "unreadable_states", *racks.of_snapshot()
    )
    replica_racks = F.transform(_target(), lambda broker: F.try_element_at("rack_by_broker", broker))
    return (
        _with_min_isr(partitions, of_cluster, configs)
        .where(_is_suspicious())
        .withColumns(
            {
                "lagging": lagging(),
                "dead": F.array_except(_holders(), "live"),
                "racks": F.when(racks.may_lie_close(), replica_racks),
                "even": F.get("spreads", F.size(_target())),
            }
        )
    )


def _is_suspicious() -> Column:
    """False only for a partition without any finding: led by its live preferred leader, all replicas in sync, none moving."""
    leader, size = F.col("leader"), F.size("replicas")
    healthy = (
        leader.isNotNull()
        & ~led_by_another()
        & ~offline()
        & (F.size("isr") == size)
        & (F.size(F.array_except("isr", "replicas")) == 0)
        & ~being_reassigned()
        & (size > 1)
        & (size >= F.col("min_isr_wanted"))
        & ~racks.may_lie_close()
    )
    return ~F.coalesce(healthy, F.lit(False))


def _checks() -> list[Column]:
    """What can be wrong with one partition; null where it is not."""
    dead = F.col("dead")
    of_dead = F.when(F.size(dead) > 0, F.concat(F.lit(f"{BROKER_DOWN} "), listed(dead)))
    unreachable = F.size(_target()) < F.col("min_isr_wanted")
    of_config = F.when(unreachable & ~F.col("min_isr_capped"), F.lit("min_isr_unreachable"))
    return [
        *_of_state(of_dead, of_config),
        *_of_replicas(unreachable, of_config),
        *_of_leader(of_dead),
        *_of_reassignment(),
    ]


def _of_state(of_dead: Column, of_config: Column) -> list[Column]:
    leader, isr, dead = F.col("leader"), F.col("isr"), F.col("dead")
    is_led = leader.isNotNull() & ~offline()
    lost_leader = (leader >= 0) | ~F.arrays_overlap("isr", "live")
    with_live = F.size(isr) + F.size(F.array_except("lagging", dead))  # were every live replica in the ISR
    unreadable = F.array_contains("unreadable_states", F.struct("topic", "partition"))
    return [
        finding(
            leader.isNull() & ~unreadable,
            "no_state",
            WARNING,
            "the controller has not written a state for this partition",
        ),
        finding(
            offline(),
            "offline",
            CRITICAL,
            F.format_string("leader is %d, which is no live broker; ISR %s", leader, listed(isr)),
            cause=F.when(lost_leader, of_dead),
        ),
        finding(
            is_led & (F.size(isr) < F.col("min_isr")),
            "under_min_isr",
            CRITICAL,
            F.format_string("ISR %s is smaller than min.insync.replicas=%d", listed(isr), "min_isr"),
            cause=F.coalesce(of_config, F.when(with_live < F.col("min_isr"), of_dead)),
        ),
        finding(
            F.size("lagging") > 0,
            "under_replicated",
            WARNING,
            F.format_string("replicas %s are not in the ISR %s", listed(F.col("lagging")), listed(isr)),
            F.col("lagging"),
            cause=F.when(F.size(F.array_except("lagging", dead)) == 0, of_dead),
        ),
    ]


def _of_replicas(unreachable: Column, of_config: Column) -> list[Column]:
    of_target = counted(F.size(_target()), "replica")
    return [
        finding(
            unreachable & ~F.col("min_isr_capped"),
            "min_isr_unreachable",
            CRITICAL,
            F.format_string("%s can never be min.insync.replicas=%d", of_target, "min_isr_wanted"),
        ),
        finding(
            unreachable & F.col("min_isr_capped"),
            "min_isr_unreachable",
            WARNING,
            F.format_string(
                "%s can never be min.insync.replicas=%d: since Kafka 3.7 the number of replicas counts instead",
                of_target,
                "min_isr_wanted",
            ),
        ),
        finding(
            F.size(_target()) == 1,
            "single_replica",
            WARNING,
            "one replica only: its broker's failure stops it",
            cause=of_config,
        ),
        finding(
            racks.too_close(),
            "rack_violation",
            WARNING,
            F.format_string(
                "replicas by rack are %s; evenly spread a rack holds %d to %d, fewer where it has fewer brokers",
                racks.racks_in_words(),
                "even.least",
                "even.most",
            ),
            _target(),
        ),
    ]


def _of_leader(of_dead: Column) -> list[Column]:
    leader, isr = F.col("leader"), F.col("isr")
    stray = F.array_except("isr", "replicas")
    return [
        finding(
            led_by_another(),
            "non_preferred_leader",
            INFO,
            F.format_string("led by %d, preferred is %d", leader, "preferred_leader"),
            cause=F.when(F.array_contains("dead", F.col("preferred_leader")), of_dead),
        ),
        finding(
            (leader >= 0) & ~F.array_contains(isr, leader),
            "leader_outside_isr",
            CRITICAL,
            F.format_string("leader %d is not in its own ISR %s", leader, listed(isr)),
        ),
        finding(
            F.size(stray) > 0,
            "isr_outside_assignment",
            WARNING,
            F.format_string("ISR names %s, which the assignment does not", listed(stray)),
            stray,
        ),
    ]


def _of_reassignment() -> list[Column]:
    return [
        finding(
            (F.size("removing") > 0) & (F.size(_target()) == 0),
            "empty_reassignment_target",
            CRITICAL,
            "reassigned to nothing: automatic leader rebalance fails for the whole cluster while this lasts",
        ),
        finding(
            being_reassigned(),
            "being_reassigned",
            INFO,
            F.format_string("adds %s, removes %s", listed(F.col("adding")), listed(F.col("removing"))),
        ),
    ]


def _target() -> Column:
    """Replicas without those being removed."""
    return F.when(F.size("removing") > 0, F.array_except("replicas", "removing")).otherwise(F.col("replicas"))
