"""Published analyses and snapshots of clusters that need no Spark to be made: rows of `schemas.OUTPUTS`, written with pyarrow."""

import json
import tempfile
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from pyarrow.fs import LocalFileSystem

from kafka_maintenance.operations.analysis.published import publish as publish_analysis
from spark_jobs import schemas
from spark_jobs.io.arrow import arrow_schema
from spark_jobs.io.delivery import deliver
from spark_jobs.io.folders import Folder
from tests.spark_jobs.worlds import World
from tests.spark_jobs.worlds import publish as publish_snapshot

RUN = "scheduled__date_of_run"
HISTORY = 8
MIDNIGHT = time(0, 0)  # so that nothing of today is in the future, at whatever time the tests run


@dataclass(frozen=True)
class Sick:
    """A cluster of `brokers` brokers in `racks` racks with `topics` topics of `partitions` partitions each.

    `critical` partitions are offline and `warnings` under-replicated; broker 2 is down when any is.
    """

    name: str
    brokers: int = 3
    racks: int = 3
    topics: int = 4
    partitions: int = 6
    critical: int = 0
    warnings: int = 0
    queued: bool = False
    migrating: bool = False
    growth: int = 0
    dates: tuple = field(default=())

    @property
    def ill(self):
        return bool(self.critical or self.warnings)

    def world(self, day):
        """The snapshot of `day` dates before today."""
        partitions = []
        for topic in range(self.topics):
            for number in range(self.partitions):
                at = topic + number
                replicas = tuple((at + step) % self.brokers + 1 for step in range(min(3, self.brokers)))
                live = tuple(b for b in replicas if not (self.ill and day == 0 and b == 2))
                leader = -1 if self.ill and topic * self.partitions + number < self.critical else live[0]
                partitions.append((f"topic-{topic:03}", number, replicas, leader, live))
        brokers = {
            b: f"rack-{b % self.racks}" for b in range(1, self.brokers + 1) if not (self.ill and day == 0 and b == 2)
        }
        return World(
            cluster=self.name,
            day=today() - timedelta(days=day),
            time_of_day=MIDNIGHT,
            zxid=9000 - day,
            brokers=brokers,
            partitions=tuple(partitions),
            queued={"topic-000": 7200} if self.queued and day == 0 else {},
            configs=(
                ("topics", "topic-000", "retention.ms", "86400000"),
                ("topics", "topic-000", "min.insync.replicas", "2"),
            ),
        )


def today():
    return datetime.now(UTC).date()


def publish(store, clusters, *, dates=HISTORY, snapshots=2, run=RUN):
    """Publishes an analysis for each of the last dates, and the newest snapshots of each cluster."""
    for day in reversed(range(dates)):
        publish_date(store, clusters, day, run=run)
    for cluster in clusters:
        for day in range(snapshots):
            publish_snapshot(cluster.world(day), store)


def publish_date(store, clusters, day, *, run=RUN, more=None):
    """The analysis of one date; `more` are rows by the name of the result that they are added to."""
    date_of_run = today() - timedelta(days=day)
    rows = {name: [] for name in schemas.OUTPUTS}
    summary = {}
    for cluster in clusters:
        for name, found in _rows(cluster, day, date_of_run).items():
            rows[name] += found
        summary[cluster.name] = _summary(
            cluster,
            {name: [r for r in found if r["cluster"] == cluster.name] for name, found in rows.items()}
            if len(clusters) < 20
            else rows,
            day,
        )
    for name, found in (more or {}).items():
        rows[name] += found
    with tempfile.TemporaryDirectory() as scratch:
        output = Path(scratch)
        for name, found in rows.items():
            schema = arrow_schema(schemas.OUTPUTS[name])
            columns = {column: [row.get(column) for row in found] for column in schema.names}
            (output / name).mkdir()
            pq.write_table(pa.table(columns, schema=schema), output / name / "part-0.parquet")
        document = {"schema_version": 1, "run": run, "date": str(date_of_run), "clusters": summary, "not_analysed": []}
        (output / "summary.json").write_text(json.dumps(document))
        (output / "report.md").write_text("# Report\n")
        (output / "report.html").write_text("<!doctype html><title>Report</title>")
        place = Folder(LocalFileSystem(), str(output), str(output))
        deliver(place, place.names(""))
        now = datetime.combine(date_of_run, MIDNIGHT, UTC)
        return publish_analysis(output, store, day=date_of_run, run_id=f"{run}-{date_of_run}", now=now)


def leave_out(store, manifest, table):
    """Makes an analysis one that was not asked for that result."""
    key = manifest.replace("manifest.json", f"{table}.parquet")
    document = json.loads(store.get(manifest))
    document["objects"] = [each for each in document["objects"] if each["key"] != key]
    store.put(manifest, json.dumps(document).encode())
    store.delete(key)


def _summary(cluster, rows, day):
    findings = [row for row in rows["findings"] if row["cluster"] == cluster.name]
    severities = Counter(row["severity"] for row in findings)
    total = cluster.topics * cluster.partitions
    imbalance = [row["ratio"] for row in rows["imbalance"] if row["cluster"] == cluster.name]
    return {
        "snapshot_id": cluster.world(day).snapshot_id,
        "snapshot_digest": "d" * 64,
        "taken_at": cluster.world(day).taken_at.isoformat(),
        "consistent": True,
        "topic_count": cluster.topics,
        "partition_count": total,
        "replica_count": total * min(3, cluster.brokers),
        "broker_count": cluster.brokers,
        "offline_count": cluster.critical if day == 0 else 0,
        "imbalanced_count": total // 5,
        "under_replicated_count": cluster.warnings if day == 0 else 0,
        "before": None,
        "brokers_above_ratio": [1] if cluster.ill else [],
        "ratio_max": max(imbalance, default=0.0),
        "electable_count": total // 10,
        "findings": dict(Counter(row["kind"] for row in findings)),
        **{f"{severity}_count": severities[severity] for severity in ("critical", "warning", "info")},
        "deletions_eligible": [],
        "deletions_eligible_count": 0,
        "deletions_waiting": ["topic-000"] if cluster.queued else [],
        "deletions_waiting_count": int(cluster.queued),
        "plan": {"status": "planned", "reason": None, "moves": 12, "moves_lower_bound": 12, "leader_changes": 3},
        "refused_row_count": 0,
        "kraft_phase": "P3" if cluster.migrating else "P0",
    }


def _rows(cluster, day, date_of_run):
    key = {"cluster": cluster.name, "snapshot_id": cluster.world(day).snapshot_id}
    taken_at = cluster.world(day).taken_at
    total = cluster.topics * cluster.partitions
    replicas = total * min(3, cluster.brokers)
    window = [date_of_run - timedelta(days=back) for back in reversed(range(7))]
    return {
        "findings": [key | row for row in _findings(cluster, day)],
        "cluster_summary": [
            key
            | {
                "taken_at": taken_at,
                "topic_count": cluster.topics,
                "partition_count": total,
                "replica_count": replicas,
                "broker_count": cluster.brokers,
                "kafka_version": "3.9",
                "version_reason": "the connection names it",
            }
        ],
        "broker_load": [
            key
            | {
                "broker_id": broker,
                "rack": f"rack-{broker % cluster.racks}",
                "live": not (cluster.ill and day == 0 and broker == 2),
                "replica_count": replicas // cluster.brokers + (broker * 7919 % 11) - 5,
                "leader_count": max(0, total // cluster.brokers + (broker * 104729 % 9) - 4),
                "preferred_count": total // cluster.brokers,
            }
            for broker in range(1, cluster.brokers + 1)
        ],
        "imbalance": [
            key
            | {
                "broker_id": broker,
                "live": True,
                "preferred_count": total // cluster.brokers,
                "imbalanced_count": broker * 31 % 5,
                "ratio": (broker * 31 % 5) / 20,
                "triggers": broker * 31 % 5 > 2,
                "electable_count": 1,
            }
            for broker in range(1, cluster.brokers + 1)
        ],
        "failure_drill": [
            key
            | {
                "scenario": "broker",
                "failed": [broker],
                "affected_count": total // 3,
                "offline_count": max(0, cluster.critical - broker + 1),
                "under_min_isr_count": 2 * (cluster.brokers - broker) % 7,
                "unclean_count": 0,
                "leaders_moved_count": total // cluster.brokers,
                "leaders_gained_max": 3,
                "leaders_gained_max_broker": broker % cluster.brokers + 1,
                "rank": broker,
                "state_changes": [
                    {
                        "subject": "partition",
                        "before": "OnlinePartition",
                        "after": "OfflinePartition",
                        "count": max(1, cluster.critical - broker + 1),
                    },
                    {"subject": "replica", "before": "OnlineReplica", "after": "OfflineReplica", "count": total // 3},
                ],
            }
            for broker in range(1, min(cluster.brokers, 20) + 1)
        ],
        "deletion_eligibility": [
            key
            | {
                "topic": "topic-000",
                "requested_at": taken_at - timedelta(hours=2),
                "partition_count": cluster.partitions,
                "eligible": False,
                "reasons": [
                    {
                        "kind": "dead replica",
                        "partition": 0,
                        "brokers": [2],
                        "text": "replica 2 of topic-000-0 is offline",
                    }
                ],
                "remedy": "start broker 2 again",
            }
        ]
        if cluster.queued and day == 0
        else [],
        "proposals": [
            key
            | {
                "status": "planned",
                "moves": 12,
                "moves_lower_bound": 12,
                "leader_changes": 3,
                "explanation": "8 partitions: a broker holds too many replicas.\n4 partitions: it makes room for another move.",
                "plan": "{}",
                "rollback": "{}",
                "certificate": "{}",
            }
        ],
        "growth": [
            {
                "cluster": cluster.name,
                "date": when,
                "topic_count": cluster.topics,
                "partition_count": total + at * cluster.growth,
                "replica_count": replicas + 3 * at * cluster.growth,
                "broker_count": cluster.brokers,
            }
            for at, when in enumerate(window)
        ],
        "leader_churn": [
            {
                "cluster": cluster.name,
                "date": when,
                "partition_count": total,
                "leader_changes": at % 4,
                "isr_changes": at % 3,
                "assignment_changes": 0,
            }
            for at, when in enumerate(window)
        ],
        "controller_churn": [
            {
                "cluster": cluster.name,
                "date": when,
                "controller_id": 1 + at // 5,
                "controller_epoch": 7 + at // 5,
                "elections": int(at == 5),
            }
            for at, when in enumerate(window)
        ],
    }


def _findings(cluster, day):
    """Critical ones are of today; half of the warnings stand since the date before."""
    count = cluster.critical if day == 0 else 0
    for number in range(count):
        topic, partition = divmod(number, cluster.partitions)
        yield {
            "kind": "offline",
            "severity": "critical",
            "topic": f"topic-{topic:03}",
            "partition": partition,
            "brokers": [1, 2, 3],
            "detail": "no replica in the ISR is live: broker 2 is not registered",
        }
    for number in range(cluster.warnings if day == 0 else cluster.warnings // 2):
        topic, partition = divmod(number + cluster.critical, cluster.partitions)
        yield {
            "kind": "under_replicated",
            "severity": "warning",
            "topic": f"topic-{topic:03}",
            "partition": partition,
            "brokers": [2],
            "detail": "broker 2 is not in the ISR, it is not registered",
        }
    if cluster.queued and day == 0:
        yield {
            "kind": "stuck_deletion",
            "severity": "warning",
            "topic": "topic-000",
            "age_s": 7200,
            "detail": "queued for two hours",
        }
    if cluster.migrating:
        yield {"kind": "kraft_migration", "severity": "warning", "detail": "a migration to KRaft has begun"}
