"""Which findings of an analysis call for a person: of a severity, new or standing, and not acknowledged.

An acknowledgement says who knows of a finding, why it may stand, and until when. It lies at
`v1/acknowledgements/cluster=C/TIME.json`, is written once and never removed: it ends by its date.
Source: docs/analysis.md, "Alarms".
"""

import json
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from typing import Any, Final, NamedTuple

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import ROOT, require_name
from controller_core.model.errors import ObjectDamagedError, ObjectMissingError
from controller_core.plans.plain import plain
from controller_core.ports.object_store import put_once
from kafka_maintenance.operations.analysis.overviews import (
    Overview,
    is_judged,
    newest_overviews,
    overviews_back,
    rows_of_date,
)
from kafka_maintenance.operations.analysis.tables import rows_of
from kafka_maintenance.operations.at_once import at_once
from kafka_maintenance.operations.errors import BadInputError
from spark_jobs.severities import SEVERITIES

LOOKED_BACK_DATES: Final = 31
"""Analysed dates before that of an alarm, in which its cluster is looked for."""
_COLUMNS: Final = ("cluster", "kind", "severity", "topic", "partition", "brokers", "detail", "cause")


class Acknowledgement(NamedTuple):
    """What stands with somebody's knowledge: findings of a `kind` on a cluster, of one `topic` or (None) of all; `until` a date, UTC."""

    cluster: str
    kind: str
    topic: str | None
    reason: str
    by: str
    at: str
    until: str

    def covers(self, row: Mapping[str, Any], day: date) -> bool:
        """Whether it is about that finding, and counts on that date."""
        about = (self.cluster, self.kind) == (row["cluster"], row["kind"]) and self.topic in {None, row["topic"]}
        return about and day <= date.fromisoformat(self.until)


class Alarm(NamedTuple):
    """A finding that calls for a person; `is_new`: the analysis of its cluster before did not have it."""

    cluster: str
    severity: str
    kind: str
    subject: str
    detail: str
    is_new: bool
    acknowledged: str | None

    @property
    def text(self) -> str:
        """One line."""
        mark = "new: " if self.is_new else ""
        known = f" (acknowledged: {self.acknowledged})" if self.acknowledged else ""
        return f"{mark}{self.cluster}: {self.severity}: {self.kind} {self.subject}: {self.detail}{known}"


def severities_from(mildest: str) -> tuple[str, ...]:
    """The severities that ring where `mildest` does; none for `none`.

    Raises:
        BadInputError: no severity.
    """
    if mildest == "none":
        return ()
    if mildest not in SEVERITIES:
        raise BadInputError(
            f"alarms not chosen: expected {', '.join(SEVERITIES)} or none, found {mildest!r}; correct it"
        )
    return SEVERITIES[: SEVERITIES.index(mildest) + 1]


def alarms_of(
    store: ObjectStore, manifest: str, day: date, *, mildest: str, of_cluster: Mapping[str, str] | None = None
) -> tuple[Alarm, ...]:
    """The alarms of an analysis: new ones first, then by severity; those that are acknowledged are the last.

    A finding that follows from another one is none of its own.

    Args:
        store: where the analysis is.
        manifest: key of its manifest.
        day: its date, UTC.
        mildest: severity that rings: critical, warning, info, or none.
        of_cluster: the same for single clusters.

    Raises:
        BadInputError: no severity.
        ObjectStoreError: as its subclasses say.
    """
    return _alarms(store, rows_of(store, manifest, "findings", columns=_COLUMNS), day, mildest, of_cluster or {})


def alarms_of_date(store: ObjectStore, overview: Overview, *, mildest: str) -> tuple[Alarm, ...]:
    """As `alarms_of`, of a date whoever analysed it: of each cluster those of the newest run that analysed it."""
    rows = rows_of_date(store, overview, "findings", _COLUMNS)
    return _alarms(store, rows, date.fromisoformat(overview.date), mildest, {})


def _alarms(
    store: ObjectStore, rows: Iterable[Mapping[str, Any]], day: date, mildest: str, of_cluster: Mapping[str, str]
) -> tuple[Alarm, ...]:
    rings = {name: severities_from(mild) for name, mild in of_cluster.items()}
    usual = severities_from(mildest)
    ringing = [row for row in rows if row["cause"] is None and row["severity"] in rings.get(row["cluster"], usual)]
    stood = _stood(store, {row["cluster"] for row in ringing}, day)
    known = {cluster: acknowledgements(store, cluster) for cluster in _clusters(store)}
    found = [
        Alarm(
            row["cluster"],
            row["severity"],
            row["kind"],
            _subject(row),
            row["detail"] or "",
            _identity(row) not in stood,
            next(
                (
                    plain(f"{each.by} until {each.until}: {each.reason}")
                    for each in known.get(row["cluster"], ())
                    if each.covers(row, day)
                ),
                None,
            ),
        )
        for row in ringing
    ]
    return tuple(sorted(found, key=_order))


def _stood(store: ObjectStore, clusters: AbstractSet[str], day: date) -> set[tuple[Any, ...]]:
    """The findings of the clusters before the date: of each those of the last date on which it was judged, as far as is looked back."""
    stood, left = set[tuple[Any, ...]](), set(clusters)
    for one in overviews_back(store, LOOKED_BACK_DATES, until=(day - timedelta(days=1)).isoformat()) if left else ():
        judged = {cluster for cluster in left & one.clusters.keys() if is_judged(one.clusters[cluster])}
        with suppress(ObjectMissingError):  # retention has removed the analysis, and left its counts
            rows = rows_of_date(store, one, "findings", _COLUMNS) if judged else ()
            stood |= {_identity(row) for row in rows if row["cluster"] in judged}
            left -= judged
        if not left:
            break
    return stood


def acknowledge(
    store: ObjectStore, cluster: str, kind: str, *, topic: str | None, reason: str, by: str, until: date, now: datetime
) -> Acknowledgement:
    """Records that findings of a kind may stand until a date.

    Args:
        store: where it is kept.
        cluster: its name in the store.
        kind: of the findings.
        topic: of one topic only; None: of all.
        reason: why they may stand.
        by: who says so.
        until: the last date, UTC, on which it counts.
        now: the time, with zone.

    Raises:
        BadInputError: no reason, or a date that is over.
    """
    if not reason.strip() or until < now.astimezone(UTC).date():
        raise BadInputError(
            f"{kind} on {cluster!r} not acknowledged: expected a reason and a date that is to come, found {reason!r} and {until}"
        )
    at = now.astimezone(UTC)
    made = Acknowledgement(cluster, kind, topic, reason, by, at.isoformat(timespec="seconds"), until.isoformat())
    key = f"{_prefix(cluster)}{at.strftime('%Y%m%dT%H%M%S%fZ')}.json"
    put_once(store, key, json.dumps(made._asdict(), sort_keys=True, ensure_ascii=False).encode())
    return made


def covered(store: ObjectStore, made: Acknowledgement, day: date) -> int | None:
    """How many findings of the newest analysis the acknowledgement is about; None where nothing is analysed.

    Raises:
        ObjectStoreError: as its subclasses say.
    """
    newest = newest_overviews(store, 1)
    if not newest:
        return None
    return sum(made.covers(row, day) for row in rows_of_date(store, newest[-1], "findings", _COLUMNS))


def acknowledgements(store: ObjectStore, cluster: str) -> tuple[Acknowledgement, ...]:
    """All of a cluster, the oldest first; those that ended, too.

    Raises:
        ObjectDamagedError: one cannot be read.
    """

    def read(key: str) -> Acknowledgement:
        try:
            return Acknowledgement(**json.loads(store.get(key)))
        except (ValueError, TypeError) as error:
            raise ObjectDamagedError(
                f"acknowledgement {store.uri_of(key)!r} not read: {error}; remove the object and acknowledge again"
            ) from error

    return tuple(at_once(read, store.list(_prefix(cluster))))


def _clusters(store: ObjectStore) -> Iterable[str]:
    prefix = f"{ROOT}/acknowledgements/cluster="
    return {key.removeprefix(prefix).partition("/")[0] for key in store.list(prefix)}


def _prefix(cluster: str) -> str:
    return f"{ROOT}/acknowledgements/cluster={require_name(cluster, 'cluster')}/"


def _identity(row: Mapping[str, Any]) -> tuple[Any, ...]:
    return row["cluster"], row["kind"], row["topic"], row["partition"], tuple(row["brokers"] or ())


def _subject(row: Mapping[str, Any]) -> str:
    if row["topic"] is None:
        return f"of broker(s) {', '.join(map(str, row['brokers']))}" if row["brokers"] else "of the cluster"
    return str(row["topic"]) if row["partition"] is None else f"{row['topic']}-{row['partition']}"


def _order(alarm: Alarm) -> tuple[bool, bool, int, str, str, str]:
    rank = SEVERITIES.index(alarm.severity)
    return alarm.acknowledged is not None, not alarm.is_new, rank, alarm.cluster, alarm.kind, alarm.subject
