"""Overviews: one small object per published analysis, with the counts of each cluster.

What a fleet looks like over thirty dates takes thirty small reads that way: a listing of the analyses themselves names
every plan of every cluster. An overview lies at `v1/overviews/date=D/run=TOKEN.CONTENT.json` and is written once, after the
manifest of its analysis. Of a date and a cluster the newest run that analysed it counts.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from itertools import groupby
from math import isfinite
from typing import Any, Final

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import MANIFEST, ROOT, last_date
from controller_core.model.errors import ControllerCoreError, ObjectDamagedError, ObjectExistsError, ObjectMissingError
from kafka_maintenance.operations.analysis.tables import CACHE, rows_of
from kafka_maintenance.operations.at_once import at_once

PREFIX: Final = f"{ROOT}/overviews/"
COUNTS: Final = (
    "critical_count",
    "warning_count",
    "info_count",
    "topic_count",
    "partition_count",
    "replica_count",
    "broker_count",
    "offline_count",
    "under_replicated_count",
    "imbalanced_count",
    "ratio_max",
)
"""What an overview has of each cluster; None where the analysis did not look for it."""
MIGRATIONS: Final = "kraft_migration_count"
"""1 for a cluster that is on its way to KRaft; None where it was not looked for, absent in overviews of before 2026-11-24."""
BYTES_OF_A_CLUSTER: Final = 2000
"""What the counts of one cluster take in memory, about."""
KRAFT_PHASE: Final = "kraft_phase"
"""P0 to P6 of docs/kraft.md; None where it was not judged, absent in overviews of before 2026-11-24."""
_ZOOKEEPER_ALONE: Final = "P0"
_TAKEN_AT: Final = "taken_at"


def is_judged(counts: Mapping[str, Any]) -> bool:
    """Whether the analysis looked for findings."""
    return counts.get("critical_count") is not None


def is_migrating(counts: Mapping[str, Any]) -> bool | None:
    """Whether a cluster is on its way to KRaft, as its findings or its phase say; None where neither was looked for."""
    found, phase = counts.get(MIGRATIONS), counts.get(KRAFT_PHASE)
    return None if found is None and phase is None else bool(found) or phase not in {None, _ZOOKEEPER_ALONE}


def mode_text(counts: Mapping[str, Any]) -> str:
    """Whether a cluster is in ZooKeeper mode, with the phase of its migration where it is known: `ZooKeeper (P0)`; a dash where neither is."""
    migrating, phase = is_migrating(counts), counts.get(KRAFT_PHASE)
    if migrating is None:
        return "-"
    return f"{'migrating to KRaft' if migrating else 'ZooKeeper'}{f' ({phase})' if phase else ''}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """The counts of one analysis: `clusters` maps a cluster to its `COUNTS`; `manifest` is the key of the analysis.

    That of a date is the one of its newest run, with the clusters that this run left out, and in `earlier` the run of each of them.
    """

    date: str
    run_id: str
    created_at: datetime
    manifest: str
    clusters: Mapping[str, Mapping[str, Any]]
    earlier: Mapping[str, "Overview"] = field(default_factory=dict)

    def run_of(self, cluster: str) -> "Overview":
        """The newest run of the date that analysed the cluster."""
        return self.earlier.get(cluster, self)

    @property
    def runs(self) -> tuple["Overview", ...]:
        """The runs that count for a cluster of the date."""
        return tuple({run.manifest: run for run in (*self.earlier.values(), self)}.values())


def keep_overview(store: ObjectStore, key: str, document: Mapping[str, Any]) -> None:
    """Writes the overview of an analysis, if it has none.

    Args:
        store: where the analysis is.
        key: of the analysis' manifest.
        document: the manifest.

    Raises:
        StoreUnwritableError, StoreUnreachableError: the same call can be made again.
    """
    overview = {name: document[name] for name in ("format_version", "date", "run_id", "created_at")} | {
        "manifest": key,
        "clusters": {
            cluster: {
                **{name: numbers.get(name) for name in COUNTS},
                KRAFT_PHASE: numbers.get(KRAFT_PHASE),
                **_for_the_page(numbers),
            }
            for cluster, numbers in sorted(document["summary"]["clusters"].items())
        },
    }
    _, date, run = key.removeprefix(f"{ROOT}/").split("/")[:3]
    with suppress(ObjectExistsError):
        store.put_new(f"{PREFIX}{date}/{run}.json", json.dumps(overview, sort_keys=True).encode())


def _for_the_page(numbers: Mapping[str, Any]) -> dict[str, Any]:
    """What the page Clusters shows beside, so that it reads no manifest; overviews of before 2026-11-24 do not have it."""
    above, kinds = numbers.get("brokers_above_ratio"), numbers.get("findings")
    return {
        **{name: numbers.get(name) for name in (_TAKEN_AT, "consistent", "deletions_waiting_count")},
        "brokers_above_ratio_count": None if above is None else len(above),
        "reassigning_count": None if kinds is None else kinds.get("being_reassigned", 0),
        MIGRATIONS: None if kinds is None else kinds.get("kraft_migration", 0),
    }


def newest_overviews(store: ObjectStore, dates: int, *, until: str | None = None) -> list[Overview]:
    """The overview of each of the last `dates` dates that have one, oldest first; none in an empty store.

    `until` is the last date looked at; where it is not given, that is no date in the future.

    Raises:
        ObjectDamagedError: one of them cannot be read.
    """
    return _of_each_date(at_once(lambda key: _kept(store, key), _keys_of(store, dates, until)))


def overviews_back(store: ObjectStore, dates: int, *, until: str) -> Iterator[Overview]:
    """As `newest_overviews`, newest first, each read when it is asked for: who finds what it seeks reads no earlier one."""
    for _, keys in groupby(reversed(_keys_of(store, dates, until)), key=_date_in):
        yield from _of_each_date(_kept(store, key) for key in keys)


def rows_of_date(
    store: ObjectStore, overview: Overview, table: str, columns: Sequence[str]
) -> Iterator[Mapping[str, Any]]:
    """The rows of a result that count for a date: of each cluster those of the newest run that analysed it.

    Args:
        store: where the analyses are.
        overview: of the date.
        table: the result.
        columns: these, `cluster` among them.

    Raises:
        ObjectDamagedError: a table cannot be read.
    """
    for run in overview.runs:
        for row in rows_of(store, run.manifest, table, columns=columns):
            if overview.run_of(row["cluster"]).manifest == run.manifest:
                yield row


def readable_overviews(store: ObjectStore, dates: int) -> tuple[list[Overview], list[str]]:
    """As `newest_overviews`, for a page: what cannot be read is said in words beside, and an earlier analysis of its date counts."""

    def read(key: str) -> Overview | str:
        try:
            return _kept(store, key)
        except (ObjectDamagedError, ObjectMissingError) as error:
            return str(error)

    found = list(at_once(read, _keys_of(store, dates)))
    return _of_each_date(one for one in found if isinstance(one, Overview)), [
        one for one in found if isinstance(one, str)
    ]


def _keys_of(store: ObjectStore, dates: int, until: str | None = None) -> list[str]:
    last = until or last_date(datetime.now(UTC)).isoformat()
    by_date: dict[str, list[str]] = {}
    for key in store.list(PREFIX):
        if (day := _date_in(key)) <= last:
            by_date.setdefault(day, []).append(key)
    return [key for day in sorted(by_date)[-dates:] for key in by_date[day]]


def _date_in(key: str) -> str:
    return key.removeprefix(f"{PREFIX}date=").partition("/")[0]


def _of_each_date(found: Iterable[Overview]) -> list[Overview]:
    by_date: dict[str, list[Overview]] = defaultdict(list)
    for one in sorted(found, key=_age):
        by_date[one.date].append(one)
    return [_together(runs) for runs in by_date.values()]


def _together(runs: Sequence[Overview]) -> Overview:
    """What the runs of a date, oldest first, say of it: of each cluster the newest that analysed it counts."""
    newest = runs[-1]
    earlier = {cluster: run for run in runs for cluster in run.clusters.keys() - newest.clusters.keys()}
    if not earlier:
        return newest
    counts = {**{cluster: run.clusters[cluster] for cluster, run in earlier.items()}, **newest.clusters}
    return replace(newest, clusters=dict(sorted(counts.items())), earlier=earlier)


def _kept(store: ObjectStore, key: str) -> Overview:
    """As `read_overview`; what was read is kept, for it never changes."""

    def read() -> tuple[Overview, int]:
        found = read_overview(store, key)
        return found, BYTES_OF_A_CLUSTER * len(found.clusters)

    kept: Overview = CACHE.get((store.uri, key), read)
    return kept


def require_overview(store: ObjectStore, date: str | None = None) -> Overview:
    """The newest overview, of one date where it is given.

    Raises:
        ObjectMissingError: there is none; says what to run.
    """
    found = newest_overviews(store, 1, until=date)
    if not found or date not in {None, found[-1].date}:
        raise ObjectMissingError(
            f"overview{f' of {date}' if date else ''} not found in {store.uri!r}: expected that of a published analysis, found "
            f"{f'the newest of {found[-1].date}' if found else 'none'}; run nightly_analysis, or `kafka-maintenance analyse`"
        )
    return found[-1]


def report_of_date(store: ObjectStore, date: str, cluster: str) -> str:
    """The HTML of the report of the newest run of a date that analysed the cluster; errors: see `require_overview`, and where the report is gone."""
    manifest = require_overview(store, date).run_of(cluster).manifest
    return store.get(f"{manifest.removesuffix(MANIFEST)}report.html").decode(errors="replace")


def read_overview(store: ObjectStore, key: str) -> Overview:
    """The overview at a key; raises ObjectDamagedError when it is none."""
    try:
        document = json.loads(store.get(key))
        return Overview(
            date=_day(document["date"], key),
            run_id=document["run_id"],
            created_at=_moment(document["created_at"]),
            manifest=document["manifest"],
            clusters={str(cluster): _counts(counts) for cluster, counts in document["clusters"].items()},
        )
    except ControllerCoreError:
        raise
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ObjectDamagedError(
            f"overview {store.uri_of(key)!r} not read: expected the counts of an analysis, found {type(error).__name__}: {error}; "
            "remove the object and publish the analysis again"
        ) from error


def _counts(document: Mapping[str, Any]) -> dict[str, Any]:
    """The counts of a cluster, each a number or None; raises ValueError for another value, and TypeError for what are no counts."""
    found = {**dict.fromkeys((*COUNTS, KRAFT_PHASE, _TAKEN_AT)), **document}
    for name, value in found.items():
        is_count = isinstance(value, int | float) and isfinite(value)
        if name.endswith(("_count", "ratio_max")) and not is_count and value is not None:
            raise ValueError(f"{name} {value!r}, which is no count")
    if found[_TAKEN_AT] is not None:
        _moment(found[_TAKEN_AT])
    if not isinstance(found[KRAFT_PHASE], str | None):
        raise ValueError(f"{KRAFT_PHASE} {found[KRAFT_PHASE]!r}, which is no phase")  # noqa: TRY004 - as above
    return found


def _day(text: str, key: str) -> str:
    """The date, as the key of its overview has it; raises ValueError for another one, and for what is none."""
    if not key.startswith(f"{PREFIX}date={text}/"):
        raise ValueError(f"the date {text!r}, which is not that of its key")
    return date.fromisoformat(text).isoformat()


def _moment(text: str) -> datetime:
    """A time with its zone; raises ValueError for one without."""
    moment = datetime.fromisoformat(text)
    if moment.tzinfo is None:
        raise ValueError(f"the time {text!r}, which has no zone")
    return moment


def _age(overview: Overview) -> tuple[str, datetime, str]:
    return overview.date, overview.created_at, overview.run_id
