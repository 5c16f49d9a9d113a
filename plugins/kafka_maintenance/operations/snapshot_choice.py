"""Which snapshots a night consists of: the newest of each cluster, those of the nights before, and what is missing.

A snapshot that cannot be read is told in its place, and keeps no other one from being used. Only manifests of the nights in
question are read.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Final

from controller_core.adapters.object_store import ObjectStore
from controller_core.errors import ObjectDamagedError, ObjectMissingError, UnknownFormatError
from kafka_maintenance.operations.errors import BadInputError, listed
from kafka_maintenance.operations.snapshot_manifest import Manifest
from kafka_maintenance.operations.snapshots import (
    at_once,
    keys_by_date,
    manifest_keys,
    newest_of,
    newest_snapshot,
    opened,
    place_of,
)

HISTORY_NIGHTS: Final = 30
UNUSABLE: Final = (ObjectDamagedError, ObjectMissingError, UnknownFormatError)
"""What is wrong with one snapshot alone."""
_NEAREST_COUNT: Final = 2
_SHOWN_MAX: Final = 10


class NoSnapshotError(BadInputError):
    """A cluster has no snapshot of a night; the message names the nearest nights that have one."""


@dataclass(frozen=True, slots=True)
class Choice:
    """The snapshots to analyse, one per cluster, and the clusters that are `missing`: cluster → why."""

    snapshots: tuple[Manifest, ...]
    missing: Mapping[str, str]


def snapshot_of_night(store: ObjectStore | str, cluster: str, night: date | str) -> Manifest:
    """The newest snapshot of a cluster of that UTC date.

    Raises:
        NoSnapshotError: it has none.
        ObjectDamagedError, ObjectMissingError, UnknownFormatError: a manifest of that date cannot be read (`UNUSABLE`).
    """
    store = opened(store)
    found = newest_snapshot(store, cluster, night)
    if found is None:
        raise NoSnapshotError(_missing_note(cluster, str(night), keys_by_date(store, cluster)))
    return found


def choose(
    store: ObjectStore | str,
    night: date | str,
    clusters: Iterable[str] | None = None,
    *,
    history_nights: int = HISTORY_NIGHTS,
) -> Choice:
    """The newest snapshot of each cluster of that UTC date, and the clusters that are missing.

    Args:
        store: where the snapshots are.
        night: the date.
        clusters: the expected ones; when not given, those with a snapshot of the night or of one of those before.
        history_nights: how many nights that looks at, the chosen one included.

    Raises:
        BadInputError: no cluster has a snapshot of that night that can be used; says why, and names the nights there are.
    """
    store = opened(store)
    places = None
    if clusters is None:
        places = {place_of(key) for key in manifest_keys(store)}
        first = _first_of(night, history_nights)
        clusters = sorted({cluster for cluster, day in places if first <= day <= str(night)})
    snapshots, missing = [], {}
    for name in clusters:
        try:
            snapshots.append(snapshot_of_night(store, name, night))
        except (NoSnapshotError, *UNUSABLE) as error:
            missing[name] = str(error)
    if not snapshots:
        nights = sorted({day for _, day in places or map(place_of, manifest_keys(store))})
        raise BadInputError(
            f"night {night} not analysed: expected a snapshot in {store.uri!r}, found none that can be used; "
            f"nights with one are {', '.join(nights[-_SHOWN_MAX:]) or 'none'}: name one of them, or take a snapshot"
            + (f" ({listed(list(missing.values()))})" if missing else "")
        )
    return Choice(tuple(snapshots), missing)


def earlier_snapshots(
    store: ObjectStore | str, clusters: Iterable[str], night: date | str, nights: int = HISTORY_NIGHTS
) -> tuple[list[Manifest], dict[tuple[str, str], str]]:
    """The newest snapshot of each night before `night` within so many nights, of each cluster.

    Returns:
        The manifests by cluster and date; and (cluster, date) → why nothing of that night can be used.
    """
    store = opened(store)
    first = _first_of(night, nights)

    def of_cluster(cluster: str) -> tuple[list[Manifest], dict[tuple[str, str], str]]:
        found, unusable = [], {}
        for day, keys in keys_by_date(store, cluster).items():
            if first <= day < str(night):
                try:
                    found.append(newest_of(store, keys))
                except UNUSABLE as error:
                    unusable[cluster, day] = str(error)
        return found, unusable

    by_cluster = list(at_once(of_cluster, sorted(set(clusters))))
    return (
        [manifest for found, _ in by_cluster for manifest in found],
        {place: reason for _, unusable in by_cluster for place, reason in unusable.items()},
    )


def _first_of(night: date | str, nights: int) -> str:
    """The first of so many nights that end with `night`."""
    return (date.fromisoformat(str(night)) - timedelta(days=nights - 1)).isoformat()


def _missing_note(cluster: str, night: str, nights: Iterable[str]) -> str:
    """One sentence that says that `cluster` has no snapshot of `night`, and which nearest nights have one."""
    day = date.fromisoformat(night)
    nearest = sorted(sorted(nights, key=lambda other: (abs(date.fromisoformat(other) - day), other))[:_NEAREST_COUNT])
    if not nearest:
        return f"cluster {cluster!r} has no snapshot of {night}, and none of any other night."
    return f"cluster {cluster!r} has no snapshot of {night}; the nearest are of {', '.join(nearest)}."
