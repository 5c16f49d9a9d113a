"""The last act of a migration: the cluster is told to have left ZooKeeper, and its last snapshot is kept.

Source: docs/kraft.md, "Afterwards".
"""

from datetime import UTC, datetime

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.model.errors import ObjectMissingError
from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.record.departures import Departure, departure_of, record_departure, record_return
from kafka_maintenance.operations.snapshots.catalog import newest_snapshot
from kafka_maintenance.operations.snapshots.pins import pin


def leave(store: ObjectStore, cluster: str, *, by: str, reason: str, now: datetime) -> Departure:
    """Pins the newest snapshot of the cluster and records that it has left ZooKeeper; a second call changes nothing.

    Args:
        store: of snapshots, plans and records.
        cluster: its name.
        by: who says so.
        reason: in that person's words.
        now: the time, UTC.

    Raises:
        ObjectMissingError: there is no snapshot, so nothing would be kept.
    """
    known = departure_of(store, cluster)
    if known is not None:
        return known
    last = newest_snapshot(store, cluster, now=now)
    if last is None:
        raise ObjectMissingError(
            f"cluster {cluster!r} not recorded as gone from ZooKeeper: expected a snapshot of it in {store.uri!r}, found none; correct the name"
        )
    pin(store, last, reason=f"the last of ZooKeeper: {reason}", by=by, now=now)
    departure = Departure(cluster, by, reason, now.astimezone(UTC).isoformat(timespec="seconds"), last.uri)
    record_departure(store, departure)
    return departure


def come_back(store: ObjectStore, cluster: str, *, by: str, reason: str, now: datetime) -> Departure:
    """Takes a departure back; the pin stays.

    Args:
        store: of snapshots, plans and records.
        cluster: its name.
        by: who says so.
        reason: in that person's words.
        now: the time, UTC.

    Raises:
        BadInputError: the cluster has not left.
    """
    known = departure_of(store, cluster)
    if known is None:
        raise BadInputError(f"cluster {cluster!r} not taken back: no record says that it has left ZooKeeper")
    back = known._replace(by=by, reason=reason, at=now.astimezone(UTC).isoformat(timespec="seconds"))
    record_return(store, back)
    return back
