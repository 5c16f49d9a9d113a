"""A run in numbers, small enough for a task's result."""

from collections import Counter
from collections.abc import Mapping
from datetime import UTC
from typing import Any

from spark_jobs.report.content import COMPARED, Page, causes, count, missed, passed_over
from spark_jobs.report.readiness import standing_of
from spark_jobs.severities import SEVERITIES

SUMMARY_VERSION = 2
_NAMES_SHOWN = 20


def summary(page: Page) -> dict[str, Any]:
    """The run in numbers, for a task's result: counts by cluster, names cut to the first few."""
    return {
        "schema_version": SUMMARY_VERSION,
        "run": page.run,
        "date": page.date.isoformat(),
        "clusters": {
            snapshot.cluster: {
                "snapshot_id": snapshot.snapshot_id,
                "snapshot_digest": snapshot.manifest.digest,
                "taken_at": snapshot.manifest.taken_at.astimezone(UTC).isoformat(timespec="seconds"),
                "consistent": snapshot.manifest.consistent,
                **cluster_numbers(page, snapshot.cluster),
            }
            for snapshot in page.snapshots
        },
        "not_analysed": [
            {name: row[name] for name in ("cluster", "snapshot_id", "stage", "reason")}
            for row in (*missed(page), *[rows[0] for rows in passed_over(page).values()][:_NAMES_SHOWN])
        ],
        "not_analysed_count": len(page.of("not_analysed")),
        "refused_row_count": count(page.of("refused_rows")),
    }


def cluster_numbers(page: Page, cluster: str) -> dict[str, Any]:
    """Numbers of one cluster; None where the result that says it was not made.

    `findings` counts all by kind, `critical_count` and the like those that follow from no other.
    """
    rows = page.by_cluster[cluster]
    counted = rows["cluster_summary"][0] if rows["cluster_summary"] else {}
    before = rows["cluster_summary_before"][0] if rows["cluster_summary_before"] else {}
    eligible = [row["topic"] for row in rows["deletion_eligibility"] if row["eligible"]]
    waiting = [row["topic"] for row in rows["deletion_eligibility"] if not row["eligible"]]
    proposal = rows["proposals"][0] if rows["proposals"] else {}
    standing = standing_of(cluster, rows)
    kinds: Counter[str] = Counter()
    for row in rows["findings"]:
        kinds[row["kind"]] += row["count"]
    by_output: Mapping[str, Mapping[str, Any]] = {
        "cluster_summary": {
            **{name: counted.get(name) for name, _ in COMPARED},
            "before": {name: before.get(name) for name, _ in COMPARED} if before else None,
        },
        "imbalance": {
            "brokers_above_ratio": sorted(row["broker_id"] for row in rows["imbalance"] if row["triggers"]),
            "ratio_max": max((row["ratio"] for row in rows["imbalance"]), default=0.0),
            "electable_count": sum(row["electable_count"] for row in rows["imbalance"]),
        },
        "findings": {
            "findings": dict(sorted(kinds.items())),
            **{f"{name}_count": causes(rows["findings"], name) for name in SEVERITIES},
        },
        "deletion_eligibility": {
            "deletions_eligible": eligible[:_NAMES_SHOWN],
            "deletions_eligible_count": len(eligible),
            "deletions_waiting": waiting[:_NAMES_SHOWN],
            "deletions_waiting_count": len(waiting),
        },
        "proposals": {
            "plan": {
                name: proposal.get(name)
                for name in ("status", "reason", "moves", "moves_lower_bound", "leader_changes")
            },
        },
        "kraft_readiness": {
            "kraft_phase": standing.phase if standing else None,
            "kraft_not_met": list(standing.not_met) if standing else None,
        },
        "refused_rows": {"refused_row_count": count(rows["refused_rows"])},
    }
    return {
        name: number if output in page.rows else None
        for output, numbers in by_output.items()
        for name, number in numbers.items()
    }
