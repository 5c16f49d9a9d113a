"""What monitoring reads of each cluster: Kafka's own names where the meaning is Kafka's, ours beside them.

Everything is read from the store: the newest published analysis, and the newest snapshot of each cluster. No cluster is contacted.
Source: docs/monitoring.md; Kafka 3.9 `KafkaController` (its gauges), OpenMetrics 1.0.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.openmetrics.exposition import generate_latest
from prometheus_client.registry import CollectorRegistry

from controller_core.adapters.local_file import write_whole
from controller_core.adapters.object_store.open import ObjectStore
from kafka_maintenance.operations.analysis.alarms import alarms_of_date
from kafka_maintenance.operations.analysis.overviews import Overview, is_judged, require_overview, rows_of_date
from kafka_maintenance.operations.analysis.published import read_analysis
from kafka_maintenance.operations.at_once import at_once
from kafka_maintenance.operations.snapshots.catalog import UNUSABLE, newest_snapshot
from spark_jobs.severities import SEVERITIES

PREFIX: Final = "kafka_maintenance_"
METRICS: Final[Mapping[str, str]] = MappingProxyType({
    "ActiveControllerCount": "1 where a registered broker held /controller, else 0.",
    "OfflinePartitionsCount": "Partitions without a live leader.",
    "PreferredReplicaImbalanceCount": "Partitions that another broker than the preferred one leads.",
    "UnderReplicatedPartitions": "Partitions with a replica outside the ISR, one that is being added apart; those without a leader count, too.",
    "GlobalTopicCount": "Topics.",
    "GlobalPartitionCount": "Partitions.",
    "ActiveBrokerCount": "Registered brokers.",
    "TopicsToDeleteCount": "Topics queued for deletion.",
    "TopicsIneligibleToDeleteCount": "Topics queued for deletion whose deletion cannot end now.",
    "ReplicasIneligibleToDeleteCount": "Replicas of queued topics on brokers that are not registered.",
    "findings": "Findings that follow from no other one, by severity.",
    "findings_unacknowledged": "Those of them that nobody has acknowledged.",
    "imbalance_ratio_max": "The highest leader-imbalance ratio of a broker, 0 to 1.",
    "plan_moves": "Replicas that the proposed reassignment copies; they wait for a person's yes.",
    "plan_gap": "Moves of the proposed reassignment above the proven lower bound.",
    "analysis_timestamp_seconds": "When the analysis was published, Unix time.",
    "snapshot_timestamp_seconds": "When the newest readable snapshot was taken, Unix time.",
    "snapshot_consistent": "1 where that snapshot is of one moment, else 0.",
})  # fmt: skip
"""Every metric, without `PREFIX`, and what it says. Each has the label `cluster`; those of findings have `severity`, too."""
_COUNTED: Final = {
    "OfflinePartitionsCount": "offline_count",
    "PreferredReplicaImbalanceCount": "imbalanced_count",
    "UnderReplicatedPartitions": "under_replicated_count",
    "GlobalTopicCount": "topic_count",
    "GlobalPartitionCount": "partition_count",
    "ActiveBrokerCount": "broker_count",
    "imbalance_ratio_max": "ratio_max",
}
"""Metrics that are counts of an overview."""
_NO_CONTROLLER: Final = ("no_controller", "controller_not_registered")
_DEAD_REPLICA: Final = "dead replica"


class Sample(NamedTuple):
    """The value of a metric for one cluster, and, of findings, one severity."""

    metric: str
    cluster: str
    value: float
    severity: str | None = None

    @property
    def labels(self) -> dict[str, str]:
        """Names and values of its labels."""
        return {"cluster": self.cluster} | ({} if self.severity is None else {"severity": self.severity})


def samples(store: ObjectStore) -> list[Sample]:
    """All that is known, in the order of `METRICS`; what an analysis did not look for is left out.

    Raises:
        ObjectMissingError: no analysis is published; says what to run.
        ObjectDamagedError: it cannot be read.
    """
    newest = require_overview(store)
    found = [
        *_of_overview(newest),
        *_of_alarms(store, newest),
        *_of_analysis(store, newest),
        *_of_snapshots(store, newest.clusters),
    ]
    order = {name: at for at, name in enumerate(METRICS)}
    return sorted(found, key=lambda each: (order[each.metric], each.cluster, each.severity or ""))


def openmetrics(found: Iterable[Sample]) -> str:
    """The samples as OpenMetrics text."""
    text: bytes = generate_latest(_registry(found))  # type: ignore[no-untyped-call]
    return text.decode()


def write_openmetrics(found: Iterable[Sample], path: Path) -> None:
    """Replaces the file as a whole, so that whoever scrapes it sees one state or the other."""
    write_whole(path, openmetrics(found).encode())


def _of_overview(newest: Overview) -> Iterator[Sample]:
    for cluster, counts in newest.clusters.items():
        yield Sample("analysis_timestamp_seconds", cluster, newest.run_of(cluster).created_at.timestamp())
        for metric, field in _COUNTED.items():
            if counts[field] is not None:
                yield Sample(metric, cluster, counts[field])
        for severity in SEVERITIES:
            if counts[f"{severity}_count"] is not None:
                yield Sample("findings", cluster, counts[f"{severity}_count"], severity)


def _of_alarms(store: ObjectStore, newest: Overview) -> Iterator[Sample]:
    looked_for = [cluster for cluster, counts in newest.clusters.items() if is_judged(counts)]
    if not looked_for:
        return
    alarms = alarms_of_date(store, newest, mildest=SEVERITIES[-1])
    ringing = Counter((alarm.cluster, alarm.severity) for alarm in alarms if alarm.acknowledged is None)
    for cluster in looked_for:
        for severity in SEVERITIES:
            yield Sample("findings_unacknowledged", cluster, ringing[cluster, severity], severity)


def _of_analysis(store: ObjectStore, newest: Overview) -> Iterator[Sample]:
    summaries = {run.manifest: read_analysis(store, run.manifest).summary["clusters"] for run in newest.runs}
    summary: Mapping[str, Mapping[str, Any]] = {
        cluster: summaries[newest.run_of(cluster).manifest].get(cluster, {}) for cluster in newest.clusters
    }
    queued = any(numbers.get("deletions_waiting_count") for numbers in summary.values())
    dead = _dead_replicas(store, newest) if queued else {}
    for cluster, numbers in summary.items():
        if (kinds := numbers.get("findings")) is not None:
            yield Sample("ActiveControllerCount", cluster, 0 if any(kinds.get(kind) for kind in _NO_CONTROLLER) else 1)
        if (waiting := numbers.get("deletions_waiting_count")) is not None:
            yield Sample("TopicsToDeleteCount", cluster, waiting + numbers["deletions_eligible_count"])
            yield Sample("TopicsIneligibleToDeleteCount", cluster, waiting)
            yield Sample("ReplicasIneligibleToDeleteCount", cluster, dead.get(cluster, 0))
        plan = numbers.get("plan") or {}
        if plan.get("status") == "planned":
            yield Sample("plan_moves", cluster, plan["moves"])
            yield Sample("plan_gap", cluster, plan["moves"] - plan["moves_lower_bound"])


def _dead_replicas(store: ObjectStore, newest: Overview) -> dict[str, int]:
    counts: dict[str, int] = {}
    for row in rows_of_date(store, newest, "deletion_eligibility", ("cluster", "reasons")):
        dead = sum(len(reason["brokers"]) for reason in row["reasons"] or () if reason["kind"] == _DEAD_REPLICA)
        counts[row["cluster"]] = counts.get(row["cluster"], 0) + dead
    return counts


def _of_snapshots(store: ObjectStore, clusters: Iterable[str]) -> Iterator[Sample]:
    names = sorted(clusters)
    for cluster, taken in zip(names, at_once(lambda name: _newest_snapshot(store, name), names), strict=True):
        if taken is not None:
            taken_at, consistent = taken
            yield Sample("snapshot_timestamp_seconds", cluster, taken_at.astimezone(UTC).timestamp())
            yield Sample("snapshot_consistent", cluster, int(consistent))


def _newest_snapshot(store: ObjectStore, cluster: str) -> tuple[datetime, bool] | None:
    """When it was taken and whether it is of one moment; None where there is none that can be read: `snapshots check` says why."""
    try:
        manifest = newest_snapshot(store, cluster)
    except UNUSABLE:
        return None
    return None if manifest is None else (manifest.taken_at, manifest.consistent)


def _registry(found: Iterable[Sample]) -> CollectorRegistry:
    families: dict[str, GaugeMetricFamily] = {}
    for sample in found:
        labels = sample.labels
        if sample.metric not in families:
            families[sample.metric] = GaugeMetricFamily(
                PREFIX + sample.metric, METRICS[sample.metric], labels=list(labels)
            )
        families[sample.metric].add_metric(list(labels.values()), sample.value)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Families(families.values()))
    return registry


class _Families:
    """What a registry asks for its metrics."""

    def __init__(self, families: Iterable[GaugeMetricFamily]) -> None:
        self._families = list(families)

    def collect(self) -> list[GaugeMetricFamily]:
        return self._families
