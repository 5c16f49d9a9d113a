"""Which snapshots a date consists of: the newest of each cluster, those of the dates before, and what is missing.

A snapshot that cannot be read is named in its place, and keeps no other one, not even of its own date, from being used. Only
manifests of the dates in question are read.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date
from itertools import takewhile
from typing import Final, NamedTuple

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import Manifest
from controller_core.model.errors import ControllerCoreError
from kafka_maintenance.operations.at_once import at_once
from kafka_maintenance.operations.errors import BadInputError, listed
from kafka_maintenance.operations.snapshots.catalog import (
    UNUSABLE,
    keys_by_date,
    manifest_keys,
    newest_of,
    newest_snapshot,
    place_of,
    readable_snapshots,
)

HISTORY_DAYS: Final = 30
HISTORY_DAYS_MAX: Final = 3660
"""Ten years: more is a slip of the finger."""
_NEAREST_COUNT: Final = 2
_SHOWN_MAX: Final = 10

__all__ = [
    "HISTORY_DAYS",
    "UNUSABLE",
    "Beside",
    "Choice",
    "NoSnapshotError",
    "beside",
    "choose",
    "earlier_snapshots",
    "snapshots_of_date",
]


class NoSnapshotError(BadInputError):
    """A cluster has no snapshot of a date; the message names the nearest dates that have one."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The snapshots to analyse, one per cluster, and the clusters that are `missing`: cluster → why."""

    snapshots: tuple[Manifest, ...]
    missing: Mapping[str, str]


def snapshots_of_date(
    store: ObjectStore, clusters: Iterable[str], day: date | str
) -> tuple[list[Manifest], dict[str, ControllerCoreError]]:
    """The newest snapshot of each cluster of that UTC date that can be read, in the clusters' order; the log tells of others.

    Returns:
        The manifests; and cluster → why it has none: `NoSnapshotError`, or one of `UNUSABLE` where no manifest of that date
        can be read.
    """

    def of_cluster(name: str) -> Manifest | ControllerCoreError:
        try:
            found = newest_snapshot(store, name, day)
        except UNUSABLE as error:
            return error
        return found or NoSnapshotError(_missing_note(name, str(day), keys_by_date(store, name)))

    names = list(clusters)
    found = dict(zip(names, at_once(of_cluster, names), strict=True))
    return (
        [one for one in found.values() if isinstance(one, Manifest)],
        {name: one for name, one in found.items() if not isinstance(one, Manifest)},
    )


def choose(
    store: ObjectStore,
    day: date | str,
    clusters: Iterable[str] | None = None,
    *,
    history_days: int = HISTORY_DAYS,
) -> Choice:
    """The newest snapshot of each cluster of that UTC date, and the clusters that are missing.

    Args:
        store: where the snapshots are.
        day: the date.
        clusters: the expected ones; when not given, those with a snapshot of the date or of one of those before.
        history_days: how many dates that looks at, the chosen one included; 1 to `HISTORY_DAYS_MAX`.

    Raises:
        BadInputError: no cluster has a snapshot of that date that can be used (says why, and names the dates there are);
            `history_days` is invalid.
    """
    places, first = None, _first_of(day, history_days)
    if clusters is None:
        places = {place_of(key) for key in manifest_keys(store)}
        clusters = sorted({cluster for cluster, stored in places if first <= stored <= str(day)})
    snapshots, errors = snapshots_of_date(store, clusters, day)
    missing = {name: str(error) for name, error in errors.items()}
    if not snapshots:
        days = sorted({day for _, day in places or map(place_of, manifest_keys(store))})
        raise BadInputError(
            f"date {day} not analysed: expected a snapshot in {store.uri!r}, found none that can be used; "
            f"dates with one are {', '.join(days[-_SHOWN_MAX:]) or 'none'}: name one of them, or take a snapshot"
            + (f" ({listed(list(missing.values()))})" if missing else "")
        )
    return Choice(tuple(snapshots), missing)


def earlier_snapshots(
    store: ObjectStore, clusters: Iterable[str], day: date | str, days: int = HISTORY_DAYS
) -> tuple[list[Manifest], dict[tuple[str, str], str]]:
    """The newest snapshot that can be read of each date before `day` within so many dates, of each cluster.

    Args:
        store: of snapshots, plans and records.
        clusters: their names.
        day: the date that is not among them.
        days: dates back.

    Returns:
        The manifests by cluster and date; and (cluster, date) → why a snapshot of that date cannot be used.

    Raises:
        BadInputError: `days` is not 1 to `HISTORY_DAYS_MAX`.
    """
    first = _first_of(day, days)

    def of_cluster(cluster: str) -> tuple[list[Manifest], dict[tuple[str, str], str]]:
        found: list[Manifest] = []
        unusable: dict[tuple[str, str], str] = {}
        for stored, keys in keys_by_date(store, cluster).items():
            if first <= stored < str(day):
                reasons: list[str] = []
                try:
                    found.append(newest_of(store, keys, passed_over=reasons.append))
                except UNUSABLE as error:
                    reasons.append(str(error))
                if reasons:
                    unusable[cluster, stored] = listed(reasons)
        return found, unusable

    by_cluster = list(at_once(of_cluster, sorted(set(clusters))))
    return (
        [manifest for found, _ in by_cluster for manifest in found],
        {place: reason for _, unusable in by_cluster for place, reason in unusable.items()},
    )


class Beside(NamedTuple):
    """The other snapshots of a cluster and date: why some cannot be read, empty where all can; and the older ones that can, newest first, which take the
    place of the chosen one where an object of it is damaged.
    """

    unusable: str
    older: list[Manifest]


def beside(store: ObjectStore, manifest: Manifest) -> Beside:
    """The snapshots of the cluster and date of this one."""
    of_date, unusable = readable_snapshots(store, manifest_keys(store, manifest.cluster, manifest.date))
    return Beside(listed(unusable), list(takewhile(lambda each: each.key != manifest.key, of_date))[::-1])


def _first_of(day: date | str, days: int) -> str:
    """The first of so many dates that end with `day`; `BadInputError` for a number that is invalid."""
    if not 1 <= days <= HISTORY_DAYS_MAX:
        raise BadInputError(
            f"history of {day} not read: expected 1 to {HISTORY_DAYS_MAX} dates, found {days}; correct the number"
        )
    return date.fromordinal(max(1, date.fromisoformat(str(day)).toordinal() - days + 1)).isoformat()


def _missing_note(cluster: str, day: str, days: Iterable[str]) -> str:
    """One sentence that says that `cluster` has no snapshot of `day`, and which nearest dates have one."""
    wanted = date.fromisoformat(day)
    nearest = sorted(sorted(days, key=lambda other: (abs(date.fromisoformat(other) - wanted), other))[:_NEAREST_COUNT])
    if not nearest:
        return f"cluster {cluster!r} has no snapshot of {day}, and none of any other date."
    return f"cluster {cluster!r} has no snapshot of {day}; the nearest are of {', '.join(nearest)}."
