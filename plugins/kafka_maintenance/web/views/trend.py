"""The trend of any number that the stored tables hold, for the page History: a form that asks which, and the figure."""

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.tables import TABLES
from kafka_maintenance.operations.analysis.overviews import newest_overviews, readable_overviews
from kafka_maintenance.operations.analysis.published import tables_there
from kafka_maintenance.operations.analysis.tables import table_of
from kafka_maintenance.operations.analysis.trends import (
    HOW,
    ROWS,
    Trend,
    numeric_columns,
    trend_of_results,
    trend_of_snapshots,
)
from kafka_maintenance.web import figures
from kafka_maintenance.web.blocks import Block, Choice, Form, Lines, Note, short
from kafka_maintenance.web.views.clusters import DATES_SHOWN

_OF_SNAPSHOTS: Final = "of the snapshots"
_OF_ANALYSES: Final = "of the analyses"


class Measure(NamedTuple):
    """Which number: a table, a column of it or `ROWS`, and what is made of its values; empty: not chosen."""

    table: str = ""
    column: str = ""
    how: str = ""


class _Source(NamedTuple):
    """The tables that there are: name → what it is of; and the key of the newest analysis, where there is one."""

    tables: Mapping[str, str]
    manifest: str | None


def trend_blocks(
    store: ObjectStore,
    cluster: str,
    by_date: Mapping[str, Sequence[str]],
    asked: Measure,
    *,
    hidden: Mapping[str, str],
    sees_analyses: bool,
) -> list[Block]:
    """A form that asks for a table, then for a column of it, and the trend of what was chosen over the last dates.

    Args:
        store: where snapshots and analyses are.
        cluster: whose.
        by_date: date → keys of the manifests of its snapshots.
        asked: what was chosen.
        hidden: what else the page's address has.
        sees_analyses: whether the reader may see what the analyses found.
    """
    source = _source(store, sees_analyses=sees_analyses)
    choices = [("", "choose one"), *((name, f"{name} ({of})") for name, of in source.tables.items())]
    fields = [Choice(name="table", label="Table", value=asked.table, choices=choices)]
    if asked.table not in source.tables:
        said = (
            f"There is no table {asked.table!r} to choose." if asked.table else "Choose a table, then a column of it."
        )
        return [Form(action="history", button="Choose", fields=fields, hidden=hidden), Note(said)]
    columns = _columns(store, cluster, asked.table, source)
    chosen = Measure(
        asked.table,
        asked.column if asked.column in columns else ROWS,
        asked.how if asked.how in HOW else next(iter(HOW)),
    )
    fields += [
        Choice(name="column", label="Column", value=chosen.column, choices=[(name, name) for name in (ROWS, *columns)]),
        Choice(name="how", label="Of its values the", value=chosen.how, choices=[(name, name) for name in HOW]),
    ]
    form = Form(action="history", button="Draw", fields=fields, hidden=hidden)
    found = _found(store, cluster, by_date, chosen, source)
    return [form, *_drawn(found, chosen, source.tables[chosen.table])]


def _source(store: ObjectStore, *, sees_analyses: bool) -> _Source:
    newest = newest_overviews(store, 1) if sees_analyses else []
    manifest = newest[-1].manifest if newest else None
    results = tables_there(store, manifest) if manifest else ()
    return _Source(dict.fromkeys(TABLES, _OF_SNAPSHOTS) | dict.fromkeys(results, _OF_ANALYSES), manifest)


def _columns(store: ObjectStore, cluster: str, table: str, source: _Source) -> list[str]:
    if table in TABLES:
        return numeric_columns(TABLES[table])
    return numeric_columns(table_of(store, str(source.manifest), table, cluster=cluster).schema)


def _found(
    store: ObjectStore, cluster: str, by_date: Mapping[str, Sequence[str]], chosen: Measure, source: _Source
) -> Trend:
    if source.tables[chosen.table] == _OF_SNAPSHOTS:
        last = {day: by_date[day] for day in sorted(by_date)[-DATES_SHOWN:]}
        return trend_of_snapshots(store, last, *chosen)
    overviews, damaged = readable_overviews(store, DATES_SHOWN)
    found = trend_of_results(store, cluster, [each for each in overviews if cluster in each.clusters], *chosen)
    return found._replace(unreadable=[*damaged, *found.unreadable])


def _drawn(found: Trend, chosen: Measure, of: str) -> list[Block]:
    unread = [Lines("Cannot be read", found.unreadable)] if found.unreadable else []
    known = [value for value in found.values if value is not None]
    if not known:
        return [Note("No date has a value of it."), *unread]
    what = (
        f"{ROWS} of {chosen.table}" if chosen.column == ROWS else f"{chosen.how} of {chosen.column} in {chosen.table}"
    )
    figure = figures.lines(
        "trend",
        f"{what[0].upper()}{what[1:]}",
        f"{of[0].upper()}{of[1:]}, on {len(known)} of the last {len(found.dates)} dates: from {short(known[0])} to {short(known[-1])}.",
        found.dates,
        {what: found.values},
    )
    return [figure, *unread]
