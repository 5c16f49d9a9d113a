"""The page Clusters: every cluster in one row, the worst first."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import urlencode

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import CLOCK_SLACK, dated_in_the_future
from controller_core.model.errors import ControllerCoreError
from controller_core.model.words import counted
from kafka_maintenance.operations.analysis.overviews import (
    Overview,
    is_judged,
    is_migrating,
    mode_text,
    readable_overviews,
)
from kafka_maintenance.operations.analysis.tables import CACHE
from kafka_maintenance.operations.at_once import at_once
from kafka_maintenance.operations.record.departures import Departure, Known, readable_departures
from kafka_maintenance.operations.snapshots.catalog import newest_snapshot
from kafka_maintenance.web.blocks import (
    Cell,
    Column,
    Facts,
    Filter,
    Lines,
    Note,
    Page,
    Section,
    Table,
    Tone,
    age_text,
    number,
)
from spark_jobs.severities import SEVERITIES

DATES_SHOWN: Final = 30
ROWS_SHOWN_MAX: Final = 2000
SNAPSHOT_AGE_WARNING_S: Final = 26 * 3600.0
"""A snapshot is taken every day: one that is two hours older than a day is late."""
_DEPARTURE_BYTES: Final = 1000
"""What the record of a cluster that has left ZooKeeper takes in memory, about."""
_COLUMNS: Final = (
    Column("Cluster"),
    Column("Severity", words="The worst severity among the findings"),
    Column("Critical", numeric=True, words="Critical findings, and the change since the date before"),
    Column("Warnings", numeric=True, words="Warnings, and the change since the date before"),
    Column("Trend", words="Critical findings and warnings over the last dates"),
    Column("Offline", numeric=True, words="Partitions without a leader"),
    Column(
        "Under-replicated",
        numeric=True,
        words="Partitions with a replica outside the ISR, one that is being added apart",
    ),
    Column("Imbalance", numeric=True, words="The largest share of preferred leaderships of a broker that others have"),
    Column("Deletions", numeric=True, words="Topics queued for deletion that cannot be deleted now"),
    Column("Reassigning", numeric=True, words="Partitions in reassignment"),
    Column("Approvals", numeric=True, words="Plans that wait for a person, and the age of the oldest in hours"),
    Column(
        "Snapshot",
        numeric=True,
        words="Age of the snapshot that was analysed last; where that is late, of the newest one",
    ),
    Column("Consistent", words="Whether that snapshot is of one moment"),
    Column("Mode", words="ZooKeeper, or a migration to KRaft; its phase, P0 to P6"),
    Column("Report", words="That of the last analysis, by its date"),
    Column("Runs", words="The plans of the cluster that were begun"),
    Column("Partitions", numeric=True),
    Column("Brokers", numeric=True),
    Column("Tags"),
    Column("ZooKeeper"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Listed:
    """A cluster as Airflow knows it; `problem` says why its connection cannot be used. Both are of a connection, which not everybody may read."""

    name: str
    zookeeper: str = "-"
    tags: tuple[str, ...] = ()
    archived: bool = False
    problem: str | None = None

    @property
    def withheld(self) -> "Listed":
        """For a user from whom Airflow withholds connections: no address, and no words of a message that may hold one."""
        problem = (
            None if self.problem is None else "its connection cannot be used; who may read connections sees here why"
        )
        return replace(self, zookeeper="-", problem=problem)


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting:
    """Plans of a cluster that wait for a person."""

    count: int
    oldest: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class _Snapshot:
    """What is known of the newest snapshot; `problem` says why it is not."""

    taken_at: datetime | None = None
    consistent: bool | None = None
    counts: Mapping[str, int] | None = None
    problem: str | None = None


def clusters_page(
    store: ObjectStore, listed: Sequence[Listed], waiting: Mapping[str, Waiting], *, now: datetime
) -> Page:
    """All clusters, the worst first; nothing is read from any of them.

    Args:
        store: of snapshots, plans and records.
        listed: a row for each cluster.
        waiting: cluster → what waits for a person.
        now: the time, UTC.

    Raises:
        ObjectStoreError: the store cannot be read.
    """
    (overviews, damaged), gone = readable_overviews(store, DATES_SHOWN), readable_departures(store, _kept(store))
    newest = overviews[-1].clusters if overviews else {}
    snapshots = _snapshots(store, listed, newest, now)
    rows = [
        _row(one, overviews, newest.get(one.name), snapshots[one.name], waiting.get(one.name), gone, now)
        for one in listed
    ]
    rows.sort(key=lambda row: row[0])
    cells = [row[1] for row in rows]
    tags = sorted({tag for one in listed for tag in one.tags})
    filters = [Filter(label="Severity", column="Severity", choices=[*SEVERITIES, "healthy", "not analysed"])]
    if tags:
        filters.append(Filter(label="Tag", column="Tags", choices=tags))
    table = Table(
        id="clusters",
        caption=f"{counted(len(listed), 'cluster')}, the worst first",
        columns=_COLUMNS,
        rows=cells,
        searchable=True,
        filters=filters,
        empty="No cluster is listed: set the Variable kafka_maintenance_clusters.",
        rows_shown_max=ROWS_SHOWN_MAX,
    )
    head: list[Facts | Lines | Note] = [_facts(listed, overviews, waiting, rows)]
    problems = [
        f"{one.name}: {text}"
        for one in listed
        for text in (one.problem or snapshots[one.name].problem, gone.damaged.get(one.name))
        if text
    ]
    if problems or damaged:
        head.append(Lines("Cannot be shown whole", [*damaged, *problems]))
    if not overviews and not damaged:
        head.append(
            Note(
                "No analysis is published yet: run the DAG nightly_analysis. Until then only snapshots are shown.",
                "info",
            )
        )
    return Page(
        title="Clusters",
        subtitle=f"Store {store.uri}",
        here="clusters",
        head=head,
        sections=[Section(title="All clusters", anchor="all", blocks=[table])],
    )


def _kept(store: ObjectStore) -> Callable[[str, Callable[[], Departure]], Departure]:
    def kept(key: str, read: Callable[[], Departure]) -> Departure:
        found: Departure = CACHE.get((store.uri, key), lambda: (read(), _DEPARTURE_BYTES))
        return found

    return kept


def _facts(
    listed: Sequence[Listed], overviews: Sequence[Overview], waiting: Mapping[str, Waiting], rows: Sequence[Any]
) -> Facts:
    severities = [row[1][1].text for row in rows]
    counted = {name: severities.count(name) for name in ("critical", "warning")}
    gates = sum(each.count for each in waiting.values())
    return Facts(
        (
            ("Clusters", number(len(listed))),
            ("With critical findings", number(counted["critical"], tone="critical" if counted["critical"] else "good")),
            ("With warnings at worst", number(counted["warning"], tone="warning" if counted["warning"] else "good")),
            ("Healthy", number(severities.count("healthy"))),
            ("Plans that wait", Cell(str(gates), "warning" if gates else None, href="approvals")),
            ("Analysed date", Cell(overviews[-1].date if overviews else "none", None if overviews else "quiet")),
        )
    )


def _snapshots(
    store: ObjectStore, listed: Sequence[Listed], analysed: Mapping[str, Mapping[str, Any]], now: datetime
) -> Mapping[str, _Snapshot]:
    """The snapshot of each cluster: that of the newest analysis, and where that is late or there is none, the newest of the store.

    So a fleet that is well costs no request a cluster; those that are looked for are looked for once a minute.
    """
    found = {one.name: _analysed(analysed.get(one.name, {}), now) for one in listed}
    sought = [one.name for one in listed if one.problem is None and found[one.name] is None]
    if sought:
        key = (store.uri, f"newest at {now:%Y-%m-%d %H:%M}", *sought)
        found |= CACHE.get(
            key,
            lambda: (
                dict(zip(sought, at_once(lambda name: _read_newest(store, name, now), sought), strict=True)),
                500 * len(sought),
            ),
        )
    return {name: one or _Snapshot() for name, one in found.items()}


def _analysed(counts: Mapping[str, Any], now: datetime) -> _Snapshot | None:
    """What an overview says of a snapshot that is not late; None where it is, where it is dated in the future, or where it does not say."""
    if counts.get("taken_at") is None:
        return None
    taken_at = datetime.fromisoformat(counts["taken_at"])
    if not -CLOCK_SLACK.total_seconds() <= (now - taken_at).total_seconds() <= SNAPSHOT_AGE_WARNING_S:
        return None
    return _Snapshot(taken_at=taken_at, consistent=counts.get("consistent"))


def _read_newest(store: ObjectStore, name: str, now: datetime) -> _Snapshot:
    """Looks at today first, so that one listing of one date is enough most of the time."""
    try:
        found = newest_snapshot(store, name, now.date())
        if found is None or dated_in_the_future(found, now):
            found = newest_snapshot(store, name, now=now)
    except ControllerCoreError as error:
        return _Snapshot(problem=str(error))
    if found is None:
        return _Snapshot(problem="no snapshot yet")
    return _Snapshot(taken_at=found.taken_at, consistent=found.consistent, counts=found.counts)


def _row(
    cluster: Listed,
    overviews: Sequence[Overview],
    numbers: Mapping[str, Any] | None,
    snapshot: _Snapshot,
    waiting: Waiting | None,
    gone: Known,
    now: datetime,
) -> tuple[tuple[Any, ...], tuple[Cell, ...]]:
    """What the row is sorted by, and its cells."""
    found = numbers or {}
    before = overviews[-2].clusters.get(cluster.name, {}) if len(overviews) > 1 else {}
    severity = _severity(found, analysed=numbers is not None)
    remark = cluster.problem or snapshot.problem or gone.damaged.get(cluster.name, "")
    tone: Mapping[str, Tone] = {
        "critical": "critical",
        "warning": "warning",
        "healthy": "good",
        "not analysed": "quiet",
    }
    counts = snapshot.counts or {}
    tags = (*(("archived",) if cluster.archived else ()), *cluster.tags)
    cells = (
        Cell(cluster.name, href=f"cluster?{urlencode({'name': cluster.name})}"),
        Cell(severity, tone.get(severity)),
        _with_change(found.get("critical_count"), before.get("critical_count"), "critical"),
        _with_change(found.get("warning_count"), before.get("warning_count"), "warning"),
        _trend(cluster.name, overviews),
        _count(found.get("offline_count"), "critical"),
        _count(found.get("under_replicated_count"), "warning"),
        _percent(found.get("ratio_max"), found.get("brokers_above_ratio_count")),
        _count(found.get("deletions_waiting_count"), "warning"),
        _count(found.get("reassigning_count"), None),
        _approvals(cluster.name, waiting, now),
        _age(snapshot.taken_at, now),
        _consistent(snapshot.consistent),
        _mode(cluster.name, numbers, gone),
        _report(cluster.name, overviews, analysed=numbers is not None),
        Cell("executions", href=f"executions?{urlencode({'cluster': cluster.name})}"),
        number(found.get("partition_count", counts.get("partitions"))),
        number(found.get("broker_count", counts.get("brokers"))),
        Cell(", ".join(tags)),
        Cell(cluster.zookeeper, "quiet"),
    )
    order = ("critical", "remark", "warning", "info", "not analysed", "healthy")
    rank = (
        order.index("remark" if remark and severity != "critical" else severity),
        -(found.get("critical_count") or 0),
        -(found.get("warning_count") or 0),
        -(found.get("info_count") or 0),
        cluster.name,
    )
    return rank, cells


def _severity(found: Mapping[str, Any], *, analysed: bool) -> str:
    if not analysed or not is_judged(found):
        return "not analysed"
    return next((severity for severity in SEVERITIES if found.get(f"{severity}_count")), "healthy")


def _with_change(now: int | None, before: int | None, tone: Tone) -> Cell:
    if now is None:
        return Cell("-", "quiet")
    change = f" ({now - before:+d})" if before is not None and now != before else ""
    return Cell(f"{now:,}{change}", tone if now else "quiet", now)


def _trend(cluster: str, overviews: Sequence[Overview]) -> Cell:
    counts = [
        one["critical_count"] + one["warning_count"]
        for one in (overview.clusters.get(cluster) for overview in overviews)
        if one is not None and is_judged(one)
    ]
    if len(counts) < 2:  # noqa: PLR2004 - a line has two points
        return Cell("-", "quiet")
    return Cell(
        f"{counts[0]} to {counts[-1]} findings over {counted(len(counts), 'date')}", value=counts[-1], spark=counts
    )


def _count(value: int | None, tone: Tone | None) -> Cell:
    return number(value, tone=tone if value else "quiet")


def _percent(ratio: float | None, above: int | None) -> Cell:
    return number(None if ratio is None else ratio * 100, unit=" %", tone="warning" if above else None)


def _report(cluster: str, overviews: Sequence[Overview], *, analysed: bool) -> Cell:
    if not analysed:
        return Cell("-", "quiet")
    date = overviews[-1].date
    return Cell(date, href=f"date-report?{urlencode({'date': date, 'cluster': cluster})}")


def _approvals(cluster: str, waiting: Waiting | None, now: datetime) -> Cell:
    if waiting is None:
        return Cell("0", "quiet", 0)
    hours = (now - waiting.oldest).total_seconds() / 3600
    href = f"approvals?{urlencode({'cluster': cluster})}"
    return Cell(f"{waiting.count} ({hours:.0f} h)", "warning", waiting.count, href=href)


def _age(taken_at: datetime | None, now: datetime) -> Cell:
    if taken_at is None:
        return Cell("none", "critical")
    seconds = (now - taken_at.astimezone(UTC)).total_seconds()
    return Cell(age_text(seconds), "warning" if seconds > SNAPSHOT_AGE_WARNING_S else None, seconds)


def _mode(cluster: str, found: Mapping[str, Any] | None, gone: Known) -> Cell:
    if cluster in gone.damaged:
        return Cell("not known", "warning")
    if cluster in gone.departures:
        return Cell(f"KRaft since {gone.departures[cluster].at[:10]}", "quiet")
    counts = found or {}
    if is_migrating(counts):
        return Cell(mode_text(counts), "warning", href=f"kraft?{urlencode({'cluster': cluster})}")
    return Cell(mode_text(counts))


def _consistent(value: bool | None) -> Cell:  # noqa: FBT001 - a value that is shown
    match value:
        case None:
            return Cell("-", "quiet")
        case True:
            return Cell("yes", "good")
        case _:
            return Cell("no", "warning")
