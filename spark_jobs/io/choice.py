"""Which snapshots an analysis reads, and what is said of those that it cannot."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date

from pyspark.sql import SparkSession

from controller_core.adapters.snapshot.manifest import RAW
from spark_jobs import schemas
from spark_jobs.io import snapshots as stored
from spark_jobs.io.snapshots import HISTORY, Problem, Snapshot


@dataclass(frozen=True, slots=True)
class Chosen:
    """The snapshots of a run, at most one per cluster and date."""

    current: tuple[Snapshot, ...]
    before: tuple[Snapshot, ...]  # the newest earlier one of each cluster that lies there whole
    window: tuple[Snapshot, ...]  # the current and the earlier ones of the history

    @property
    def needed(self) -> list[tuple[Snapshot, str]]:
        """Every table that is read: all of the date's snapshots and the ones before, of earlier ones what history reads."""
        whole = {snapshot.uri for snapshot in (*self.current, *self.before)}
        return [
            (snapshot, table)
            for snapshot in self.window
            for table in (schemas.OF_DATE if snapshot.uri in whole else schemas.OF_HISTORY)
        ]


def choose(snapshots: Sequence[Snapshot], day: date, history_days: int) -> Chosen:
    """The newest snapshot of each cluster and date, up to `day`; clusters without one of that date are left out."""
    newest = {(snapshot.cluster, snapshot.date): snapshot for snapshot in snapshots}  # sorted: the last one stays
    current = {cluster: found for (cluster, of), found in newest.items() if of == day.isoformat()}
    first = date.fromordinal(max(1, day.toordinal() - history_days + 1)).isoformat()
    earlier = [
        found for (cluster, of), found in sorted(newest.items()) if cluster in current and first <= of < day.isoformat()
    ]
    before = {found.cluster: found for found in earlier if found.there.issuperset(schemas.OF_DATE)}
    return Chosen(
        tuple(current[cluster] for cluster in sorted(current)),
        tuple(before[cluster] for cluster in sorted(before)),
        (*earlier, *(current[cluster] for cluster in sorted(current))),
    )


@dataclass(frozen=True, slots=True)
class Check:
    """How the bytes of snapshots are looked at before they are read: against the manifest's hash, and page by page."""

    hashes: bool
    decode: bool = False


def intact(
    spark: SparkSession, snapshots: Sequence[Snapshot], day: date, history_days: int, check: Check
) -> tuple[Chosen, list[Problem]]:
    """The snapshots of a run, and those that were not taken because they are damaged.

    Where one is damaged, an earlier one of its cluster and date takes its place.

    Args:
        spark: the session.
        snapshots: all that there are.
        day: whose state is wanted.
        history_days: dates before it.
        check: whether a snapshot is whole.
    """
    left, looked_at = list(snapshots), set[tuple[str, str]]()
    damaged: list[Problem] = []
    while True:
        chosen = choose(left, day, history_days)
        fresh = [(found, table) for found, table in chosen.needed if (found.uri, table) not in looked_at]
        found = stored.misshapen(spark, fresh)
        lost = {(problem.cluster, problem.snapshot_id) for problem in found}
        if check.hashes:
            raw = [(one, RAW) for one in chosen.current if RAW in one.there and (one.uri, RAW) not in looked_at]
            whole = [one for one in (*fresh, *raw) if (one[0].cluster, one[0].snapshot_id) not in lost]
            looked_at |= {(one.uri, RAW) for one in chosen.current}
            found += stored.damaged(spark, whole, decode=check.decode)
        if not found:
            return chosen, damaged
        damaged += found
        looked_at |= {(snapshot.uri, table) for snapshot, table in fresh}
        lost = {(problem.cluster, problem.snapshot_id) for problem in found}
        left = [snapshot for snapshot in left if (snapshot.cluster, snapshot.snapshot_id) not in lost]


def placed(problem: Problem, chosen: Chosen, day: date) -> Problem:
    """A snapshot that cannot be read is missing from the history only, if it is of another date or another took its place."""
    is_replaced = problem.cluster in {snapshot.cluster for snapshot in chosen.current}
    of_another_day = problem.date not in {"", day.isoformat()}
    return replace(problem, stage=HISTORY) if of_another_day or is_replaced else problem
