"""Clusters that have left ZooKeeper: nothing of ours reads or writes their tree any more.

A person says so, once the quorum is finalised; a mistake is taken back the same way. Each is a record of the audit chain at
`v1/kraft/cluster=C/TIME-left.json` or `…-returned.json`; the newest counts. Source: docs/kraft.md, "Afterwards".
"""

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import ROOT
from controller_core.model.errors import ObjectDamagedError, ObjectMissingError
from controller_core.plans.plain import plain
from kafka_maintenance.operations.at_once import at_once
from kafka_maintenance.operations.errors import RefusedError
from kafka_maintenance.operations.record.audit import AuditChain

PREFIX: Final = f"{ROOT}/kraft/cluster="
_LEFT, _RETURNED = "left", "returned"
_MOMENT: Final = "%Y%m%dT%H%M%S%fZ"


class Departure(NamedTuple):
    """Who said that a cluster has left ZooKeeper, why, when (ISO 8601, UTC), and its last snapshot, which is pinned."""

    cluster: str
    by: str
    reason: str
    at: str
    snapshot: str


class Known(NamedTuple):
    """Cluster → its departure, and cluster → why nobody knows whether it has left: its record cannot be read."""

    departures: dict[str, Departure]
    damaged: dict[str, str]


def record_departure(store: ObjectStore, departure: Departure) -> None:
    """Records that a cluster has left ZooKeeper."""
    _append(store, departure, _LEFT)


def record_return(store: ObjectStore, departure: Departure) -> None:
    """Records that it has not, after all: `departure` is the one that is taken back, with who does so, why and when."""
    _append(store, departure, _RETURNED)


def readable_departures(
    store: ObjectStore, kept: Callable[[str, Callable[[], Departure]], Departure] = lambda _, read: read()
) -> Known:
    """All that have left ZooKeeper: of a cluster whose record cannot be read it says why, and hides no other one.

    Args:
        store: of snapshots, plans and records.
        kept: (key of a record, what reads it) → it, for whoever keeps what was read: a record never changes.
    """

    def known(key: str) -> Departure | str:
        try:
            return kept(key, lambda: _read(store, key))
        except (ObjectDamagedError, ObjectMissingError) as error:
            return str(error)

    left = _left(store)
    found = dict(zip(left, at_once(known, left.values()), strict=True))
    return Known(
        {cluster: one for cluster, one in found.items() if isinstance(one, Departure)},
        {cluster: one for cluster, one in found.items() if isinstance(one, str)},
    )


def departure_of(store: ObjectStore, cluster: str) -> Departure | None:
    """The departure of a cluster that has left ZooKeeper; None of one that has not.

    Raises:
        ObjectDamagedError: its record cannot be read; nobody knows then whether it has left.
    """
    keys = store.list(f"{PREFIX}{cluster}/")
    return _read(store, keys[-1]) if keys and _is_left(keys[-1]) else None


def refuse_departed(store: ObjectStore, cluster: str) -> None:
    """Lets nothing be written to the tree of a cluster that has left ZooKeeper.

    Raises:
        RefusedError: it has; says who said so, and how to take that back.
    """
    found = departure_of(store, cluster)
    if found is not None:
        raise RefusedError(
            f"nothing written to {cluster!r}: it has left ZooKeeper, as {found.by!r} recorded at {plain(found.at)} ({plain(found.reason)}); what stands in "
            f"ZooKeeper is no longer true: use Kafka's own tools. Where that is a mistake: kafka-maintenance kraft returned --cluster {cluster}"
        )


def _left(store: ObjectStore) -> dict[str, str]:
    """Cluster → key of its newest record, of those that have left."""
    newest: dict[str, str] = {}
    for key in store.list(PREFIX):
        newest[key.removeprefix(PREFIX).partition("/")[0]] = key  # keys come in order, and the time is a part of them
    return {cluster: key for cluster, key in newest.items() if _is_left(key)}


def _is_left(key: str) -> bool:
    return key.endswith(f"-{_LEFT}.json")


def _append(store: ObjectStore, departure: Departure, what: str) -> None:
    moment = datetime.fromisoformat(departure.at).astimezone(UTC)
    folder = f"{PREFIX}{departure.cluster}/"
    for newest in store.list(folder)[-1:]:  # what is said last counts, whatever the clocks of two machines say
        known = datetime.strptime(newest.removeprefix(folder).partition("-")[0], _MOMENT).replace(tzinfo=UTC)
        moment = max(moment, known + timedelta(microseconds=1))
    key = f"{folder}{moment.strftime(_MOMENT)}-{what}.json"
    AuditChain(store, departure.cluster).append(f"{what}_zookeeper", key, departure._asdict())


def _read(store: ObjectStore, key: str) -> Departure:
    try:
        document = json.loads(store.get(key))
        return Departure(**{name: str(document[name]) for name in Departure._fields})
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise ObjectDamagedError(
            f"record {store.uri_of(key)} not read: expected who said that the cluster has left ZooKeeper, found {error!r}; see "
            "`kafka-maintenance audit verify`"
        ) from error
