"""A number of each date of a cluster: a column of a stored table, or how many rows it has. Read with pyarrow, a column at a time.

The tables are those of the snapshots and the results of the analyses; of a date the newest of either counts.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.tables import TABLES
from kafka_maintenance.operations.analysis.overviews import Overview
from kafka_maintenance.operations.analysis.tables import CACHE, table_of
from kafka_maintenance.operations.at_once import at_once
from kafka_maintenance.operations.snapshots.catalog import UNUSABLE, newest_of, read_table

ROWS: Final = "rows"
"""Stands for a column: how many rows there are."""
HOW: Final[Mapping[str, Callable[[Any], Any]]] = {
    "sum": lambda values: pc.sum(values, min_count=0),
    "mean": pc.mean,
    "smallest": pc.min,
    "largest": pc.max,
    "distinct values": pc.count_distinct,
}
"""What is made of the values of a column; of yes and no, yes counts as 1."""
_DATE: Final = "date"
"""A result with this column has rows of several dates: its own alone count."""
_NUMBER_BYTES: Final = 100
Value: TypeAlias = float | int | None


class Trend(NamedTuple):
    """Dates, oldest first, and the value of each: None where there is none; and why that of some could not be read."""

    dates: Sequence[str]
    values: Sequence[Value]
    unreadable: Sequence[str]


def numeric_columns(schema: pa.Schema) -> list[str]:
    """The columns that hold numbers, or yes and no."""
    tests = (pa.types.is_integer, pa.types.is_floating, pa.types.is_boolean)
    return [field.name for field in schema if any(is_so(field.type) for is_so in tests)]


def trend_of_snapshots(
    store: ObjectStore, by_date: Mapping[str, Sequence[str]], table: str, column: str, how: str
) -> Trend:
    """The trend of a table of snapshots.

    Args:
        store: where they are.
        by_date: date → keys of the manifests of a cluster's snapshots.
        table: of `tables.TABLES`.
        column: one of its numeric columns, or `ROWS`.
        how: of `HOW`.
    """
    wanted = TABLES[table].names[0] if column == ROWS else column

    def of_date(day: str) -> Value:
        return _number(read_table(store, newest_of(store, by_date[day]), table, [wanted]), column, how)

    keys = {day: (store.uri, table, column, how, *by_date[day]) for day in by_date}
    return _trend(sorted(by_date), keys, of_date)


def trend_of_results(
    store: ObjectStore, cluster: str, overviews: Sequence[Overview], table: str, column: str, how: str
) -> Trend:
    """The trend of a result of analyses; a date whose analysis does not have it has no value.

    Args:
        store: where they are.
        cluster: whose rows.
        overviews: of analyses that have the cluster, oldest first.
        table: the result.
        column: one of its numeric columns, or `ROWS`.
        how: of `HOW`.
    """
    manifests = {each.date: each.run_of(cluster).manifest for each in overviews}

    def of_date(day: str) -> Value:
        found = table_of(store, manifests[day], table, cluster=cluster)
        if _DATE in found.column_names:
            found = found.filter(pc.equal(found[_DATE], date.fromisoformat(day)))
        return _number(found, column, how) if found.num_columns else None

    keys = {day: (store.uri, manifests[day], cluster, table, column, how) for day in manifests}
    return _trend(list(manifests), keys, of_date)


def _trend(dates: Sequence[str], keys: Mapping[str, tuple[str, ...]], of_date: Callable[[str], Value]) -> Trend:
    """What stands in published tables never changes: each number is read once."""

    def read(day: str) -> Value | str:
        try:
            kept: Value = CACHE.get(("trend", *keys[day]), lambda: (of_date(day), _NUMBER_BYTES))
        except UNUSABLE as error:
            return f"{day}: {error}"
        return kept

    found = list(at_once(read, dates))
    values = [None if isinstance(value, str) else value for value in found]
    return Trend(dates, values, [value for value in found if isinstance(value, str)])


def _number(found: pa.Table, column: str, how: str) -> Value:
    if column == ROWS:
        return int(found.num_rows)
    if column not in found.column_names:
        return None
    values = found[column]
    number: Value = HOW[how](values.cast(pa.int8()) if pa.types.is_boolean(values.type) else values).as_py()
    return number
