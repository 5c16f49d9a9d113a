"""Failure drill: what each imagined failure would do to a cluster, as the core's state machines decide it.

Partitions fail independently of each other, so a big cluster is cut into slices that are drilled at the same time;
their counts add up. A partition whose `state` znode cannot be read is left out and counted: Kafka's controller takes it
for a new one, finds the znode when it creates it, and leaves the partition without a leader (docs/fidelity.md). Runs on executors through `bridge.per_snapshot`.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import chain
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects
from pyspark.sql.types import ArrayType, IntegerType, LongType, StringType, StructField, StructType
from pyspark.sql.window import Window

from controller_core.context.context import ControllerContext
from controller_core.controller.brokers import OnBrokerFailure, RemoveLiveBrokers
from controller_core.controller.partition_state_machine import TriggerOnlinePartitionStateChange
from controller_core.engine.state_changes import ChangeKind
from controller_core.model.config import UNCLEAN_LEADER_ELECTION
from controller_core.model.partitions import BrokerId, TopicPartition
from spark_jobs.on_core import bridge
from spark_jobs.on_core.bridge import SnapshotRows, context_of
from spark_jobs.on_core.simulate import outcome
from spark_jobs.schemas import FAILURE_DRILL, SNAPSHOT_KEY, STATE_CHANGES

_KEY = list(SNAPSHOT_KEY)
SLICE_ROWS = 25_000
"""Partitions of a cluster that one task drills; a smaller cluster is one slice."""
PAIRS_MAX = 10
_COUNTS = (
    "affected_count",
    "unreadable_count",
    "offline_count",
    "under_min_isr_count",
    "unclean_count",
    "leaders_moved_count",
)
PARTIAL = StructType(
    [
        StructField("cluster", StringType()),
        StructField("snapshot_id", StringType()),
        StructField("scenario", StringType()),
        StructField("failed", ArrayType(IntegerType())),
        *(StructField(name, LongType()) for name in _COUNTS),
        StructField(
            "gained",
            ArrayType(StructType([StructField("broker", IntegerType()), StructField("leaders", LongType())])),
        ),
        StructField("state_changes", STATE_CHANGES),
    ]
)
"""One row per slice and scenario."""


def failure_drill(
    partitions: DataFrame, core_facts: DataFrame, *, pairs_max: int = PAIRS_MAX, tasks: int | None = None
) -> DataFrame:
    """Every live broker, every rack, and the pairs of brokers that share the most partitions fail, each by itself.

    A cluster without partitions has nothing to lose: no row.

    Args:
        partitions: schemas.PARTITIONS.
        core_facts: schemas.CORE_FACTS.
        pairs_max: how many pairs of a cluster fail at most; 0: none.
        tasks: see `per_snapshot`.

    Out: `PARTIAL` and `error`, one row per slice and scenario; `ranked` makes schemas.FAILURE_DRILL of it.
    """
    no_pairs = F.lit(None).cast(ArrayType(ArrayType(IntegerType()))).alias("pairs")
    with_pairs = (
        core_facts.join(shared_pairs(partitions, core_facts, pairs_max), _KEY, how="left")
        if pairs_max
        else core_facts.select("*", no_pairs)
    )
    sizes = partitions.groupBy(*_KEY).agg(F.ceil(F.count(F.lit(1)) / SLICE_ROWS).cast("int").alias("slices"))
    place = F.pmod(F.crc32(F.concat_ws("-", "topic", F.col("partition").cast("string"))), F.col("slices"))
    cut = partitions.join(F.broadcast(sizes), _KEY, how="inner").withColumn("slice", place.cast("int"))
    told = with_pairs.join(F.broadcast(sizes), _KEY, how="inner").withColumn(
        "slice", F.explode(F.sequence(F.lit(0), F.col("slices") - 1))
    )
    return bridge.per_snapshot(
        cut.drop("slices"), told.drop("slices"), _drill, PARTIAL, also_by=("slice",), tasks=tasks
    )


def slices_of(row_count: int) -> int:
    """Into how many slices a cluster of so many partitions is cut."""
    return -(-row_count // SLICE_ROWS)


def ranked(partial: DataFrame) -> DataFrame:
    """In: `PARTIAL`. Out: schemas.FAILURE_DRILL; rank 1 of a cluster is its worst failure."""
    key = [*_KEY, "scenario", "failed"]
    changes = F.flatten(F.collect_list("state_changes")).alias("state_changes")
    summed = partial.groupBy(*key).agg(*(F.sum(name).alias(name) for name in _COUNTS), changes)
    by_broker = (
        partial.select(*key, F.inline("gained"))
        .groupBy(*key, "broker")
        .agg(F.sum("leaders").alias("leaders"))
        .groupBy(*key)
        .agg(F.max(F.struct("leaders", (-F.col("broker")).alias("minus_broker"))).alias("most"))
    )
    worst = Window.partitionBy(*_KEY).orderBy(
        *(F.desc(name) for name in ("offline_count", "under_min_isr_count", "unclean_count", "leaders_gained_max")),
        F.desc("affected_count"),
        "scenario",
        F.concat_ws(",", F.transform("failed", lambda broker: F.format_string("%010d", broker))),
    )
    return (
        summed.join(by_broker, key, how="left")  # one row per scenario on each side
        .withColumns(
            {
                "leaders_gained_max": F.coalesce("most.leaders", F.lit(0)).cast("long"),
                "leaders_gained_max_broker": -F.col("most.minus_broker"),
            }
        )
        .withColumn("rank", F.row_number().over(worst))
        .withColumn("state_changes", _added_up(F.col("state_changes")))
        .select(*FAILURE_DRILL.names)
    )


def _added_up(changes: Column) -> Column:
    """The counts of all slices, one per kind, in the order of kinds."""

    def kind(change: Column) -> Column:
        return F.struct(*(change[name] for name in ChangeKind._fields))

    def of_kind(one: Column) -> Column:
        same = F.filter(changes, lambda each: kind(each) == one)
        count = F.aggregate(same, F.lit(0).cast("long"), lambda total, each: total + each["count"])
        return F.struct(*(one[name].alias(name) for name in ChangeKind._fields), count.alias("count"))

    return F.transform(F.array_sort(F.array_distinct(F.transform(changes, kind))), of_kind)


def shared_pairs(partitions: DataFrame, core_facts: DataFrame, pairs_max: int) -> DataFrame:
    """The pairs of live brokers that hold the most partitions together: a pair with a broker that is down takes no other's place.

    In:  schemas.PARTITIONS and CORE_FACTS. Out: (cluster, snapshot_id, pairs), at most `pairs_max` pairs for each snapshot.
    """
    both = F.filter(
        F.flatten(
            F.transform(
                "replicas",
                lambda one: F.transform("replicas", lambda other: F.array(one, other)),
            )
        ),
        lambda pair: pair[0] < pair[1],
    )
    most = Window.partitionBy(*_KEY).orderBy(F.desc("shared"), "pair")
    return (
        partitions.select(*_KEY, F.explode(both).alias("pair"))
        .groupBy(*_KEY, "pair")
        .agg(F.count(F.lit(1)).alias("shared"))
        .join(F.broadcast(core_facts.select(*_KEY, "live")), _KEY)
        .where(F.array_contains("live", F.col("pair")[0]) & F.array_contains("live", F.col("pair")[1]))
        .withColumn("place", F.row_number().over(most))
        .where(F.col("place") <= pairs_max)
        .groupBy(*_KEY)
        .agg(F.sort_array(F.collect_list("pair")).alias("pairs"))
    )


def scenarios(facts: Mapping[str, Any]) -> Iterator[tuple[str, tuple[BrokerId, ...]]]:
    """The imagined failures of one snapshot by name: brokers, racks of several brokers, pairs of live brokers."""
    live = [BrokerId(broker) for broker in facts["live"]]
    for broker in live:
        yield "broker", (broker,)
    racks: dict[str, list[BrokerId]] = {}
    for entry in facts["rack_of"]:
        if entry["rack"] is not None:
            racks.setdefault(entry["rack"], []).append(BrokerId(entry["broker_id"]))
    if len(racks) > 1:
        for rack in sorted(racks):
            yield f"rack:{rack}", tuple(sorted(racks[rack]))
    for pair in facts["pairs"] or ():
        yield "pair", tuple(map(BrokerId, pair))


def drill(
    context: ControllerContext,
    failed: tuple[BrokerId, ...],
    min_isr: Mapping[str, int],
    min_isr_default: int,
    topic_configs: Mapping[str, Mapping[str, str]],
) -> dict[str, Any]:
    """What the failure of `failed` does: the columns of `PARTIAL` that count.

    A partition is led where its leader is live. Offline and below min ISR are those that were not so before.

    Args:
        context: the cluster.
        failed: the brokers that fail at once.
        min_isr: topic → min.insync.replicas of its own.
        min_isr_default: of the brokers.
        topic_configs: topic → its configuration.
    """
    affected = _affected(context, failed)
    done = outcome(context, (RemoveLiveBrokers(failed), OnBrokerFailure(failed)), topic_configs)
    after = done.context
    gone, live = frozenset(failed), frozenset(after.live_broker_ids)
    offline = below = 0
    gained: Counter[BrokerId] = Counter()
    for partition in affected:
        was, is_now = context.leadership(partition), after.leadership(partition)
        if was is None or is_now is None:
            continue
        least = min_isr.get(partition.topic, min_isr_default)
        if context.dialect.min_isr_capped_by_replicas:
            least = min(least, len(context.full_assignment(partition).replicas))
        leads = is_now.leader in live
        if was.leader in gone:
            if leads:
                gained[is_now.leader] += 1
            else:
                offline += 1
        below += leads and len(is_now.isr) < least <= len(was.isr)
    return {
        "failed": list(failed),
        "affected_count": len(affected),
        "offline_count": offline,
        "under_min_isr_count": below,
        "unclean_count": after.unclean_election_count - context.unclean_election_count,
        "leaders_moved_count": gained.total(),
        "gained": [{"broker": broker, "leaders": gained[broker]} for broker in sorted(gained)],
        "state_changes": [{**kind._asdict(), "count": count} for kind, count in sorted(done.changes.items())],
    }


def _drill(rows: SnapshotRows) -> Iterator[dict[str, Any]]:
    min_isr = {each["topic"]: each["min_isr"] for each in rows.facts["topic_min_isr"]}
    configs = {each["topic"]: {UNCLEAN_LEADER_ELECTION: each["value"]} for each in rows.facts["topic_unclean"]}
    default = rows.facts["min_isr_default"]
    readable, unreadable = rows.split_by_state()
    # What is left to elect as things stand is no imagined failure's doing.
    context = outcome(context_of(readable).context, (TriggerOnlinePartitionStateChange(),), configs).context
    queued, named = rows.topics_to_be_deleted, zip(unreadable.names(), unreadable.broker_lists("replicas"), strict=True)
    holders = [frozenset(held) for name, held in named if name.topic not in queued]
    for name, failed in scenarios(rows.facts):
        unknown = sum(not held.isdisjoint(failed) for held in holders)
        yield {"scenario": name, "unreadable_count": unknown, **drill(context, failed, min_isr, default, configs)}


def _affected(context: ControllerContext, failed: tuple[BrokerId, ...]) -> set[TopicPartition]:
    """Partitions with a replica there; those of topics that are being deleted are nobody's loss, and nobody elects for them."""
    there = set(chain.from_iterable(map(context.partitions_on_broker, failed)))
    queued = context.topics_to_be_deleted
    return {partition for partition in there if partition.topic not in queued} if queued else there
