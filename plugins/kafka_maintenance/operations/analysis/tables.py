"""Rows of published analyses and of snapshots, as pyarrow reads them: for pages, metrics and the command. No Spark.

Published objects never change, so what was read of one is kept in memory, within `CACHE_BYTES_MAX`.
"""

import json
from collections import OrderedDict
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import MANIFEST
from controller_core.adapters.snapshot.parquet import table_from_parquet
from controller_core.model.errors import ObjectDamagedError, ObjectMissingError
from controller_core.model.gc_pause import collector_paused
from kafka_maintenance.operations.at_once import at_once

CACHE_BYTES_MAX: Final = 256 * 2**20
_SUFFIX: Final = ".parquet"


class ByteCache:
    """Keeps the most recently used values, as many as fit."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max, self._bytes = bytes_max, 0
        self._kept: OrderedDict[tuple[str, ...], tuple[Any, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: tuple[str, ...], make: Callable[[], tuple[Any, int | None]]) -> Any:
        """The value of `key`; `make` returns it when it is not kept, with its size in bytes; None: it is never kept."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key][0]
        with collector_paused():
            value, size = make()
        with self._lock:
            if size is not None and size <= self._bytes_max and key not in self._kept:
                self._kept[key] = (value, size)
                self._bytes += size
            while self._bytes > self._bytes_max:
                self._bytes -= self._kept.popitem(last=False)[1][1]
        return value

    def clear(self) -> None:
        """Forgets all values."""
        with self._lock:
            self._kept.clear()
            self._bytes = 0


CACHE = ByteCache(CACHE_BYTES_MAX)


def table_of(
    store: ObjectStore,
    manifest: str,
    table: str,
    *,
    cluster: str | None = None,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """A result of an analysis, or a table of a snapshot.

    Args:
        store: where it is published.
        manifest: key of the manifest beside which the table lies.
        table: its name; one that the analysis was not asked for has no rows.
        cluster: only its rows.
        columns: only these, in their order; all where None.

    Raises:
        ObjectDamagedError: an object is not Parquet, holds more than any of ours, lacks a column, or is gone though the manifest names it.
        ObjectMissingError: the manifest is gone, and with it all that it names.
    """
    stem = f"{manifest.removesuffix(MANIFEST)}{table}"

    def read() -> tuple[pa.Table, int]:
        try:
            parts = [_read(store, f"{stem}{_SUFFIX}", cluster, columns)]
        except ObjectMissingError:  # of several parts, or of none
            parts = list(at_once(lambda key: _read(store, key, cluster, columns), _parts_of(store, manifest, stem)))
        found = pa.concat_tables(parts) if parts else pa.table({})
        return found, found.nbytes

    return CACHE.get((store.uri, stem, cluster or "", ",".join(columns or ())), read)


def rows_of(
    store: ObjectStore,
    manifest: str,
    table: str,
    *,
    cluster: str | None = None,
    columns: Sequence[str] | None = None,
    rows_max: int | None = None,
) -> list[dict[str, Any]]:
    """The rows of `table_of`, the first `rows_max` of them.

    Args:
        store: of snapshots, plans and records.
        manifest: address of the analysis.
        table: of schemas.OUTPUTS.
        cluster: only its rows; None: of all.
        columns: only these; None: all.
        rows_max: at most so many rows; None: all.
    """
    found = table_of(store, manifest, table, cluster=cluster, columns=columns)
    rows: list[dict[str, Any]] = (found if rows_max is None else found.slice(0, rows_max)).to_pylist()
    return rows


def _parts_of(store: ObjectStore, manifest: str, stem: str) -> list[str]:
    """Keys of the parts of a result that the manifest names; none where the analysis was not asked for it. Raises as `table_of`."""
    try:
        keys = [entry["key"] for entry in json.loads(store.get(manifest))["objects"]]
        named = [key for key in keys if key.startswith((f"{stem}/", f"{stem}{_SUFFIX}"))]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ObjectDamagedError(
            f"table {store.uri_of(stem)!r} not read: the manifest {store.uri_of(manifest)} beside it is damaged ({type(error).__name__}: {error}); "
            "analyse the date again"
        ) from error
    gone = sorted(set(named) - set(store.list(stem)))
    if gone:
        raise ObjectDamagedError(
            f"table {store.uri_of(gone[0])!r} not read: expected it, as the manifest beside it names it, found no such object; restore it "
            "from a copy of the store, or analyse the date again"
        )
    return named


def _read(store: ObjectStore, key: str, cluster: str | None, columns: Sequence[str] | None) -> pa.Table:
    uri = store.uri_of(key)
    try:
        found = table_from_parquet(store.get(key), uri, None if columns is None else [*columns, "cluster"])
        found = found if cluster is None else found.filter(pc.field("cluster") == cluster)
        return found.select(list(columns)) if columns else found
    except (pa.ArrowException, KeyError) as error:
        raise ObjectDamagedError(
            f"table {uri!r} not read: expected Parquet{f' with {list(columns)}' if columns else ''}, found {error}; "
            "restore the object from a copy of the store, or analyse the date again"
        ) from error
