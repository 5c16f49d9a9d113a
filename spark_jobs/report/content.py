"""What a report is made of: the rows of the results, by cluster, the worst cluster first."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date
from functools import cached_property
from typing import Any

from spark_jobs import schemas
from spark_jobs.io.folders import Folder
from spark_jobs.io.snapshots import HISTORY, Snapshot
from spark_jobs.planner.goals import Goals
from spark_jobs.severities import SEVERITIES

Rows = list[dict[str, Any]]
ROWS_MAX = 200_000
"""Rows of one result that a report looks at; the tables hold all."""
COUNTED: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "findings": (("cluster", "snapshot_id", "severity", "kind", "cause"), ("topic", "partition", "detail")),
    "imbalanced_partitions": (("cluster", "snapshot_id", "electable", "reason"), ()),
    "refused_rows": (("cluster", "snapshot_id", "dataset", "reason"), ()),
}
"""Results of a row per partition or so: a report reads how many there are of a kind, and the first of each."""
UNREAD: Mapping[str, frozenset[str]] = {"proposals": frozenset({"plan", "rollback", "certificate"})}
"""Columns that no page shows, and that of all clusters together would not fit the driver."""
COMPARED = (
    ("topic_count", "topics"),
    ("partition_count", "partitions"),
    ("replica_count", "replicas"),
    ("broker_count", "brokers"),
    ("offline_count", "offline"),
    ("imbalanced_count", "not led by the preferred leader"),
    ("under_replicated_count", "under-replicated"),
)


@dataclass(frozen=True, slots=True)
class Changed:
    """What changed in a cluster since the date before that no result tells: heading → how many, and lines for people."""

    counts: Mapping[str, int]
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Page:
    """What a report is made of: rows by the name of each output that was made, and the current snapshots.

    Of the outputs in `COUNTED` a row is a kind with its `count`; `unread` says how many rows of the others are too many.
    """

    run: str
    date: date
    rows: Mapping[str, Rows]
    snapshots: Sequence[Snapshot]
    unread: Mapping[str, int] = field(default_factory=dict)
    goals: Goals = field(default_factory=Goals)  # of the proposals
    changed: Mapping[str, Changed] = field(default_factory=dict)

    def of(self, name: str) -> Rows:
        """Rows of an output; none of one that was not made."""
        return self.rows.get(name, [])

    @cached_property
    def by_cluster(self) -> Mapping[str, Mapping[str, Rows]]:
        """Rows by cluster and output name; the other date of `cluster_summary` is in `cluster_summary_before`."""
        current = {snapshot.cluster: snapshot.snapshot_id for snapshot in self.snapshots}
        found: dict[str, dict[str, Rows]] = {cluster: defaultdict(list) for cluster in sorted(current)}
        for name, rows in self.rows.items():
            for row in rows:
                own = row.get("snapshot_id") in {None, current.get(row["cluster"])}
                if row["cluster"] in found:
                    found[row["cluster"]][name if own else f"{name}_before"].append(row)
        return found

    @cached_property
    def order(self) -> list[str]:
        """Clusters, those with the most severe findings first; what follows from another finding counts after those."""

        def weight(cluster: str) -> tuple[int, ...]:
            found = self.by_cluster[cluster]["findings"]
            return (
                *(-causes(found, severity) for severity in SEVERITIES),
                *(-count(row for row in found if row["severity"] == severity) for severity in SEVERITIES),
            )

        return sorted(self.by_cluster, key=lambda cluster: (weight(cluster), cluster))


def read(
    place: Folder,
    made: Iterable[str],
    *,
    run: str,
    day: date,
    snapshots: Sequence[Snapshot],
    goals: Goals | None = None,
    changed: Mapping[str, Changed] | None = None,
) -> Page:
    """The page of the results `made` that lie in `place`.

    Args:
        place: of the results.
        made: names of the tables.
        run: its id.
        day: whose state is shown.
        snapshots: that were analysed.
        goals: of the proposed plans; None: there are none.
        changed: by cluster; None: nothing was compared.
    """
    rows, unread = {}, {}
    for name in made:
        if name in COUNTED:
            rows[name] = place.counted(name, *COUNTED[name])
            continue
        columns = [column for column in schemas.OUTPUTS[name].names if column not in UNREAD.get(name, ())]
        rows[name] = place.rows(name, ROWS_MAX, columns)
        if (more := place.row_count(name) - len(rows[name])) > 0:
            unread[name] = more
    return Page(run, day, rows, snapshots, unread, goals or Goals(), changed or {})


def missed(page: Page) -> Rows:
    """What of the current snapshot could not be analysed: never cut, a run fails by it."""
    return [row for row in page.of("not_analysed") if row["stage"] != HISTORY]


def passed_over(page: Page) -> Mapping[str, Rows]:
    """Snapshots that the date could do without, and had to, by cluster."""
    found: dict[str, Rows] = defaultdict(list)
    for row in page.of("not_analysed"):
        if row["stage"] == HISTORY:
            found[row["cluster"]].append(row)
    return found


def causes(findings: Iterable[Mapping[str, Any]], severity: str) -> int:
    """How many findings of a severity stand alone: one broker that is down is one, whatever it takes with it."""
    return count(row for row in findings if row["severity"] == severity and row["cause"] is None)


def count(rows: Iterable[Mapping[str, Any]]) -> int:
    """The sum of the rows' counts."""
    return sum(row["count"] for row in rows)
