"""The page History: what differs between two snapshots, since when a topic is as it is, what a failure would have hurt, and any trend."""

import json
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import Manifest, last_date
from controller_core.model.words import counted
from kafka_maintenance.operations.analysis.overviews import newest_overviews
from kafka_maintenance.operations.analysis.tables import CACHE
from kafka_maintenance.operations.snapshots.blame import blame
from kafka_maintenance.operations.snapshots.catalog import keys_by_date, newest_of
from kafka_maintenance.operations.snapshots.changes import KINDS, Diff
from kafka_maintenance.operations.snapshots.diff import diff, sides_of_snapshots
from kafka_maintenance.web import figures
from kafka_maintenance.web.blocks import Block, Cell, Choice, Column, Filter, Form, Note, Page, Section, Table
from kafka_maintenance.web.views.drill import drill_blocks
from kafka_maintenance.web.views.parts import as_published, or_why
from kafka_maintenance.web.views.trend import Measure, trend_blocks

CHANGES_READ_MAX: Final = 20_000
NOT_SEEN: Final = "Only who may read the DAG nightly_analysis sees what it found."
_DATES_SHOWN: Final = 60
_VALUE_MAX: Final = 300
_CHANGE_BYTES: Final = 1000
"""What a change takes in memory, about."""


class Asked(NamedTuple):
    """What the address of the page asks for.

    `cluster`: empty for the first; `before` and `after`: UTC dates of two snapshots, empty for the two newest
    that are not in the future; `subject`: a topic, or
    TOPIC-NUMBER, empty for none; `trend`: which number to draw over the dates.
    """

    cluster: str = ""
    before: str = ""
    after: str = ""
    subject: str = ""
    trend: Measure = Measure()


def history_page(store: ObjectStore, clusters: Sequence[str], asked: Asked, *, sees_analyses: bool) -> Page:
    """Two dates of a cluster compared, the failure drill of the newer one, the history of one topic or partition, and that of a number.

    Args:
        store: where the snapshots are.
        clusters: all there are.
        asked: which of it.
        sees_analyses: whether the reader may see what the analyses found.

    Raises:
        ObjectStoreError: the store cannot be read.
    """
    chosen = asked.cluster or next(iter(clusters), "")
    if not chosen:
        return Page(title="History", here="history", head=(Note("No cluster is listed.", "info"),))
    by_date = keys_by_date(store, chosen)
    dates, last = sorted(by_date)[-_DATES_SHOWN:], last_date(datetime.now(UTC)).isoformat()
    come = [day for day in dates if day <= last]
    newer = asked.after or (come[-1] if come else "")
    older = asked.before or (come[-2] if len(come) > 1 else newer)
    choices = [(day, day) for day in reversed(dates)]
    form = Form(
        action="history",
        button="Show",
        fields=[
            Choice(name="cluster", label="Cluster", value=chosen, choices=[(name, name) for name in clusters]),
            Choice(name="before", label="From", value=older, choices=choices),
            Choice(name="after", label="To", value=newer, choices=choices),
            Choice(name="subject", label="Topic or partition", value=asked.subject),
        ],
        hidden={name: value for name, value in asked.trend._asdict().items() if value},
    )
    stays = {"cluster": chosen, "before": older, "after": newer, "subject": asked.subject}
    until_now = {day: keys for day, keys in by_date.items() if day <= last}
    blocks = or_why(lambda: _diff(store, chosen, by_date, older, newer))
    history = or_why(lambda: _blame(store, chosen, asked.subject))
    drill = or_why(lambda: _drill(store, chosen, newer)) if sees_analyses else [Note(NOT_SEEN)]
    trend = or_why(
        lambda: trend_blocks(store, chosen, until_now, asked.trend, hidden=stays, sees_analyses=sees_analyses)
    )
    return Page(
        title="History",
        subtitle=f"{counted(len(by_date), 'date')} of {chosen}",
        here="history",
        head=(form,),
        sections=[
            Section(title="What changed", anchor="diff", blocks=blocks),
            Section(title="Since when", anchor="blame", blocks=history),
            Section(title="When brokers fail", anchor="drill", blocks=drill),
            Section(title="Trend", anchor="trend-section", blocks=trend),
        ],
    )


def _diff(store: ObjectStore, cluster: str, by_date: dict[str, list[str]], older: str, newer: str) -> list[Block]:
    if not by_date:
        return [Note(f"Cluster {cluster} has no snapshot yet: run the DAG snapshot_metadata.", "info")]
    missing = [day for day in (older, newer) if day not in by_date]
    if missing:
        return [Note(f"There is no snapshot of {missing[0]}; choose another date.", "warning")]
    if older == newer:
        return [Note("Choose two different dates.", "info")]
    found = _found(store, *(newest_of(store, by_date[day]) for day in (older, newer)))
    counts = Counter(change.kind for change in found.changes)
    torn = [text for text in (found.before_torn, found.after_torn) if text]
    rows = [
        (Cell(change.subject), Cell(KINDS[change.kind]), Cell(_shown(change.before)), Cell(_shown(change.after)))
        for change in found.changes[:CHANGES_READ_MAX]
    ]
    table = Table(
        id="changes",
        caption=f"{counted(len(found.changes), 'change')} from {older} to {newer}",
        columns=(Column("Subject"), Column("What"), Column("Before"), Column("After")),
        rows=rows,
        more=max(0, len(found.changes) - CHANGES_READ_MAX),
        empty="Nothing differs.",
        searchable=True,
        filters=[Filter(label="What", column="What", choices=[KINDS[kind] for kind in KINDS if kind in counts])],
        rows_shown_max=2000,
    )
    blocks: list[Block] = [
        Note(f"One side is not of one moment, so some changes may be none: {text}", "warning") for text in torn
    ]
    if counts:
        kinds = [kind for kind in KINDS if kind in counts]
        blocks.append(
            figures.bars(
                "change-kinds",
                "Changes by kind",
                f"{counted(len(found.changes), 'change')} of {len(kinds)} kinds.",
                head="kind",
                names=[KINDS[kind] for kind in kinds],
                series={"changes": [counts[kind] for kind in kinds]},
                lying=True,
            )
        )
    return [*blocks, table]


def _found(store: ObjectStore, before: Manifest, after: Manifest) -> Diff:
    """The difference of two snapshots, which stays what it is: kept in memory."""

    def make() -> tuple[Diff, int]:
        found = diff(*sides_of_snapshots(store, before, after))
        return found, _CHANGE_BYTES * len(found.changes)

    kept: Diff = CACHE.get(("diff", before.uri, before.digest, after.uri, after.digest), make)
    return kept


def _drill(store: ObjectStore, cluster: str, date: str) -> list[Block]:
    """The failure drill of the newest analysis of a date."""
    found = newest_overviews(store, 1, until=date)
    if not found or found[-1].date != date or cluster not in found[-1].clusters:
        return [
            Note(f"No published analysis has {cluster} on {date or 'any date'}: run nightly_analysis for it.", "info")
        ]
    run = found[-1].run_of(cluster)
    with as_published(store, run.manifest):
        return [Note(f"Of the analysis of {date}, run {run.run_id}."), *drill_blocks(store, run, cluster)]


def _blame(store: ObjectStore, cluster: str, subject: str) -> list[Block]:
    if not subject:
        return [
            Note(
                "Name a topic, or TOPIC-NUMBER for one partition, to see which snapshot first shows each of its values."
            )
        ]
    report = blame(store, cluster, subject)
    rows = [
        (
            Cell(one.field),
            Cell(_shown(seen.value)),
            Cell("now" if at == 0 else "before", None if at == 0 else "quiet"),
            Cell(f"{seen.taken_at:%Y-%m-%d %H:%M}"),
            Cell(seen.snapshot_id, "quiet"),
        )
        for one in report.blames
        for at, seen in enumerate(one.history)
    ]
    columns = (Column("Field"), Column("Value"), Column("Held"), Column("First seen, UTC"), Column("Snapshot"))
    caption = f"{subject} in {counted(report.snapshot_count, 'snapshot')} since {report.since:%Y-%m-%d}"
    return [Table(id="blame-table", caption=caption, columns=columns, rows=rows, searchable=True)]


def _shown(value: Any) -> str:
    if value is None:
        return "-"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _VALUE_MAX else f"{text[:_VALUE_MAX]}…"
