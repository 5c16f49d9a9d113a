"""Rules that Spark SQL states again for speed, held against the core on a few clusters, others each day.

Imbalance and deletion eligibility stay in SQL for a measured reason: for 200,000 partitions SQL takes 4 to 9 CPU s where one pass of the core
takes 8 to 14 (docs/analysis.md). So that the two cannot drift apart unseen, the clusters of the day's sample go through the core as
well, and a difference is a finding of its own.
"""

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from functools import reduce
from operator import or_

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects

from spark_jobs.on_core import bridge
from spark_jobs.transforms import deletion, imbalance
from spark_jobs.transforms.facts import KEY
from spark_jobs.transforms.findings import CRITICAL, as_findings

SAMPLE_MAX = 3
SAMPLE_ROWS_MAX = 25_000
"""Partitions of a cluster that go through the core in one task; of a larger one a slice of its topics of about that size."""
_COMPARED: dict[str, Sequence[str]] = {
    "imbalance": ("broker_id", "preferred_count", "imbalanced_count", "ratio", "triggers", "candidate_count"),
    "imbalanced_partitions": ("topic", "partition", "preferred_leader", "leader", "candidate"),
    "deletion_eligibility": ("topic", "eligible", "reasons"),
}


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
    Out: schemas.FINDINGS, one row analysis_disagrees per snapshot and result.
    """
    by_sql = {
        "imbalance": imbalance.imbalance(partitions, facts),
        "imbalanced_partitions": imbalance.imbalanced_partitions(partitions, facts),
        "deletion_eligibility": deletion.deletion_eligibility(partitions, topics, requests, facts),
    }
    by_core = {
        "imbalance": bridge.core_broker_imbalance(partitions, core_facts),
        "imbalanced_partitions": bridge.core_imbalance(partitions, core_facts),
        "deletion_eligibility": bridge.core_eligibility(partitions, core_facts),
    }
    found = [
        _different(name, by_sql[name].select(*KEY, *columns), by_core[name].select(*KEY, *columns))
        for name, columns in _COMPARED.items()
    ]
    return as_findings(reduce(DataFrame.unionByName, found))


def _different(name: str, one: DataFrame, other: DataFrame) -> DataFrame:
    rows = one.exceptAll(other).unionByName(other.exceptAll(one))
    first = F.min(F.to_json(F.struct(*_COMPARED[name])))
    return (
        rows.groupBy(*KEY)
        .agg(F.count(F.lit(1)).alias("rows"), first.alias("first"))
        .select(
            *KEY,
            F.lit("analysis_disagrees").alias("kind"),
            F.lit(CRITICAL).alias("severity"),
            F.format_string(
                f"Spark SQL and controller_core differ in %d rows of {name}, e.g. %s: trust neither, and report it to the "
                "maintainers of this project",
                *("rows", "first"),
            ).alias("detail"),
        )
    )
