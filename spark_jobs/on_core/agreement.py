"""Rules that Spark SQL states again for speed, held against the core on a few clusters, others each day.

Imbalance and deletion eligibility stay in SQL for a measured reason: for 200,000 partitions SQL takes 4 to 9 CPU s where one pass of the core
takes 8 to 14 (docs/analysis.md). So that the two cannot drift apart unseen, the clusters of the day's sample go through the core as
well, and a difference is a finding of its own.
"""

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from functools import reduce
from operator import or_
from typing import Any

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects
from pyspark.sql.types import StringType, StructField, StructType

from controller_core.context.context import ControllerContext
from controller_core.controller.deletion_eligibility import deletion_eligibility
from controller_core.controller.leader_imbalance import BrokerImbalance, leader_imbalance, triggered_brokers
from controller_core.model.partitions import BrokerId
from spark_jobs.on_core.bridge import SnapshotRows, context_of, per_snapshot
from spark_jobs.schemas import OUTPUTS
from spark_jobs.transforms import deletion, imbalance
from spark_jobs.transforms.facts import KEY
from spark_jobs.transforms.findings import CRITICAL, as_findings, counted

SAMPLE_MAX = 3
SAMPLE_ROWS_MAX = 25_000
"""Partitions of a cluster that go through the core in one task; of a larger one a slice of its topics of about that size."""
_COMPARED = {
    "imbalance": ("broker_id", "preferred_count", "imbalanced_count", "ratio", "triggers", "candidate_count"),
    "imbalanced_partitions": ("topic", "partition", "preferred_leader", "leader", "candidate", "reason"),
    "deletion_eligibility": ("topic", "eligible", "reasons"),
}
"""The columns of each result that Spark SQL and the core both know."""
JUDGED = StructType(
    [
        *(StructField(key, StringType()) for key in KEY),
        *(
            StructField(name, StructType([OUTPUTS[name][one] for one in columns]))
            for name, columns in _COMPARED.items()
        ),
    ]
)
"""A row of one of the compared results, as a struct in the column with its name; the others are null."""


@dataclass(frozen=True, slots=True)
class Sampled:
    """A cluster of the sample: of so many slices of its topics that one; a small cluster is one slice."""

    cluster: str
    slice: int
    slices: int

    def holds(self) -> Column:
        """Whether a row with `cluster` and `topic` belongs to it; one that names no topic does."""
        place = F.pmod(F.crc32("topic"), F.lit(self.slices))
        return (F.col("cluster") == self.cluster) & F.coalesce(place == self.slice, F.lit(True))


def sample_of(sizes: Iterable[tuple[str, int]], day: date) -> list[Sampled]:
    """The sample of a date, from (cluster, partitions): up to `SAMPLE_MAX` clusters and of each a slice, by a hash of date and name."""

    def drawn(cluster: str) -> int:
        return int.from_bytes(hashlib.sha256(f"{day}/{cluster}".encode()).digest(), "big")

    first = sorted(sizes, key=lambda one: drawn(one[0]))[:SAMPLE_MAX]
    slices = {cluster: max(1, -(-size // SAMPLE_ROWS_MAX)) for cluster, size in first}
    return [Sampled(cluster, drawn(cluster) % slices[cluster], slices[cluster]) for cluster, _ in first]


def in_sample(rows: DataFrame, sample: Iterable[Sampled]) -> DataFrame:
    """The rows, of one snapshot per cluster, that belong to the sample."""
    return rows.where(reduce(or_, (each.holds() for each in sample), F.lit(False)))


def disagreements(
    partitions: DataFrame, topics: DataFrame, requests: DataFrame, facts: DataFrame, core_facts: DataFrame
) -> DataFrame:
    """What Spark SQL and the core say differently of the same snapshots.

    In:  schemas.PARTITIONS, TOPICS, REQUESTS, FACTS and CORE_FACTS of the sample.
    Out: schemas.FINDINGS, one row analysis_disagrees per snapshot and result, and per snapshot of which the core can say nothing.
    """
    refused = F.when(~F.col("candidate"), F.col("reason"))  # the core names none for a candidate
    by_sql = {
        "imbalance": imbalance.imbalance(partitions, facts),
        "imbalanced_partitions": imbalance.imbalanced_partitions(partitions, facts).withColumn("reason", refused),
        "deletion_eligibility": deletion.deletion_eligibility(partitions, topics, requests, facts),
    }
    by_core = core_judgement(partitions, core_facts, tasks=1)  # a sample is small
    both = by_core.withColumn("balance", F.lit(-1))
    for name, found in by_sql.items():
        judged = found.select(*KEY, F.struct(*_COMPARED[name]).alias(name), F.lit(1).alias("balance"))
        both = both.unionByName(judged, allowMissingColumns=True)
    row = F.coalesce("error", *map(F.to_json, _COMPARED))
    differing = both.groupBy(*KEY, *_COMPARED, "error").agg(F.sum("balance").alias("balance")).where("balance <> 0")
    of_result = (
        differing.groupBy(*KEY, _result().alias("result"))
        .agg(F.sum(F.abs("balance")).alias("rows"), F.min(row).alias("first"))
        .withColumn(
            "found",
            F.when(
                F.col("result").isNull(), F.format_string("controller_core fails where Spark SQL judges: %s", "first")
            ).otherwise(
                F.format_string(
                    "Spark SQL and controller_core differ in %s of %s, e.g. %s",
                    counted(F.col("rows"), "row"),
                    "result",
                    "first",
                )
            ),
        )
    )
    return as_findings(
        of_result.select(
            *KEY,
            F.lit("analysis_disagrees").alias("kind"),
            F.lit(CRITICAL).alias("severity"),
            F.concat("found", F.lit(": trust neither, and report it to the maintainers of this project")).alias(
                "detail"
            ),
        )
    )


def core_judgement(partitions: DataFrame, core_facts: DataFrame, *, tasks: int | None = None) -> DataFrame:
    """The compared results as the core finds them, of every snapshot.

    In:  schemas.PARTITIONS and CORE_FACTS.
    Out: JUDGED, and `error`, by so many `tasks`, see `per_snapshot`.
    """
    return per_snapshot(partitions, core_facts, _judged, JUDGED, tasks=tasks)


def _result() -> Column:
    """The name of the result of which JUDGED has a row."""
    return F.coalesce(*(F.when(F.col(name).isNotNull(), F.lit(name)) for name in _COMPARED))


def _judged(rows: SnapshotRows) -> Iterator[dict[str, Any]]:
    """Rows of JUDGED of one snapshot, whose context is built once for all of them."""
    context = context_of(rows).context
    brokers = leader_imbalance(context)
    of_results = {
        "imbalance": _brokers(context, brokers),
        "imbalanced_partitions": _led_by_another(context, brokers),
        "deletion_eligibility": _queued(context, rows),
    }
    for name, found in of_results.items():
        for row in found:
            yield {name: row}


def _brokers(context: ControllerContext, brokers: Mapping[BrokerId, BrokerImbalance]) -> Iterator[dict[str, Any]]:
    triggered = set(triggered_brokers(context, brokers))
    for broker, found in brokers.items():
        yield {
            "broker_id": broker,
            "preferred_count": found.preferred,
            "imbalanced_count": len(found.imbalanced),
            "ratio": found.ratio,
            "triggers": broker in triggered,
            "candidate_count": len(found.electable),
        }


def _led_by_another(
    context: ControllerContext, brokers: Mapping[BrokerId, BrokerImbalance]
) -> Iterator[dict[str, Any]]:
    for broker, found in brokers.items():
        reasons = dict(found.not_electable)
        for partition in found.imbalanced:
            leadership = context.leadership(partition)
            yield {
                "topic": partition.topic,
                "partition": partition.partition,
                "preferred_leader": broker,
                "leader": None if leadership is None else leadership.leader,
                "candidate": partition not in reasons,
                "reason": reasons.get(partition),
            }


def _queued(context: ControllerContext, rows: SnapshotRows) -> Iterator[dict[str, Any]]:
    unreadable = rows.unreadable()
    for topic in sorted(rows.facts["queued_topics"]):
        found = deletion_eligibility(context, topic, unreadable=unreadable.get(topic))
        reasons = [
            {
                "kind": reason.kind.value,
                "partition": None if reason.partition is None else reason.partition.partition,
                "brokers": list(reason.brokers),
                "text": reason.text,
            }
            for reason in found.reasons
        ]
        yield {"topic": topic, "eligible": found.eligible, "reasons": reasons}
