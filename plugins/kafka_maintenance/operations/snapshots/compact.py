"""Compact history: what the daily analysis reads of earlier dates, one file a table for each cluster and month.

A copy that can be made again: `v1/history/cluster=C/month=YYYY-MM/compact.json` names its files and the snapshots whose rows are
in them, by digest, and is written last. Rows are sorted by what they describe and then by time, so that a partition that stays as
it is takes next to nothing. Whoever finds it missing, damaged or of other snapshots reads the snapshots themselves (ADR 18).
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Final

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import ROOT, Manifest, StoredObject, partition_rows, require_name
from controller_core.adapters.snapshot.parquet import table_from_parquet, table_to_parquet
from controller_core.adapters.snapshot.tables import TABLES
from controller_core.model.errors import ObjectDamagedError, ObjectMissingError
from controller_core.model.typed import converted
from kafka_maintenance.operations.at_once import at_once
from kafka_maintenance.operations.snapshots.catalog import (
    UNUSABLE,
    checked_object,
    keys_by_date,
    newest_of,
    read_table,
)

FORMAT_VERSION: Final = 1
NAME: Final = "compact.json"
ORDER: Final[Mapping[str, Sequence[str]]] = {
    "partitions": ("topic", "partition", "taken_at"),
    "brokers": ("broker_id", "taken_at"),
    "cluster": ("taken_at",),
}
"""The tables that history reads, and how their rows are sorted."""
ROWS_MAX: Final = 5_000_000
"""Partition rows of a month; of a cluster with more the snapshots are read: they have many rows for each object already."""
_UNREADABLE: Final = (ObjectDamagedError, ObjectMissingError)
_OTHER_COLUMNS: Final = (KeyError, ValueError, pa.ArrowException)
"""What `select` and `cast` raise: of a column that is not there, of nulls where none may be, of another type."""


@dataclass(frozen=True, slots=True)
class Compact:
    """The compact history of one cluster and month: `snapshots` are id → digest of the manifest."""

    cluster: str
    month: str
    snapshots: Mapping[str, str]
    objects: tuple[StoredObject, ...]

    def covers(self, manifest: Manifest) -> bool:
        """Whether it holds the rows of exactly that snapshot."""
        return self.snapshots.get(manifest.snapshot_id) == manifest.digest


def months_of(store: ObjectStore, cluster: str) -> list[str]:
    """The months, YYYY-MM, of which the cluster has snapshots or a compact history, oldest first."""
    kept = {key.split("/")[3].removeprefix("month=") for key in store.list(f"{ROOT}/history/cluster={cluster}/")}
    return sorted(kept | {day[:7] for day in keys_by_date(store, cluster)})


def read_compact(store: ObjectStore, cluster: str, month: str) -> Compact | None:
    """The compact history of that month, or None; its files are not looked at.

    Raises:
        ObjectDamagedError: what says it cannot be read.
    """
    key = f"{_prefix(cluster, month)}{NAME}"
    try:
        content = store.get(key)
    except ObjectMissingError:
        return None
    try:
        found, version = _parsed(content)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, msgspec.ValidationError) as error:
        raise ObjectDamagedError(_unread(store.uri_of(key), f"{type(error).__name__}: {error}")) from error
    if (found.cluster, found.month, version) != (cluster, month, FORMAT_VERSION):
        raise ObjectDamagedError(
            _unread(store.uri_of(key), f"format {version} of {found.cluster!r}, {found.month}, lies there")
        )
    return found


def keep_compact(store: ObjectStore, cluster: str, month: str) -> Compact | None:
    """Makes the compact history of a month what the store's snapshots say now, by reading only those that it lacks.

    It holds the newest readable snapshot of each date. Rows of snapshots that are gone, or were replaced, go. A snapshot with a
    damaged table is left out. None, and nothing is stored, where no snapshot is left or there are more than `ROWS_MAX` rows.

    Raises:
        ObjectStoreError: the store failed; what was there is there.
    """
    wanted = _newest_of_each_date(store, cluster, month)
    before = _known(store, cluster, month)
    if not wanted or partition_rows(wanted) > ROWS_MAX:
        remove_compact(store, cluster, month)
        return None
    known = [manifest for manifest in wanted if before is not None and before.covers(manifest)]
    if before is not None and len(known) == len(wanted) == len(before.snapshots):
        return before
    stale = set(store.list(_prefix(cluster, month)))  # now: what another one writes meanwhile is not ours to remove
    tables, there = _tables_of(store, before, known), known
    for manifest in wanted:
        if manifest not in known and (rows := _rows_of(store, manifest)) is not None:
            there = [*there, manifest]
            tables = {name: [*found, rows[name]] for name, found in tables.items()}
    if not there:
        remove_compact(store, cluster, month)
        return None
    objects = []
    for name, parts in tables.items():
        content = table_to_parquet(_sorted(name, parts))
        sha256 = hashlib.sha256(content).hexdigest()
        key = f"{_prefix(cluster, month)}{sha256[:12]}/{name}.parquet"
        store.put(key, content)
        objects.append(StoredObject(key, len(content), sha256, sum(part.num_rows for part in parts)))
    made = Compact(cluster, month, {each.snapshot_id: each.digest for each in there}, tuple(objects))
    _publish(store, made)
    for key in sorted(stale - {each.key for each in objects} - {f"{_prefix(cluster, month)}{NAME}"}):
        store.delete(key)
    return made


def follow_snapshots(store: ObjectStore, cluster: str, months: Iterable[str]) -> None:
    """After snapshots of these months are gone: their rows go, too. Makes no compact history where there is none."""
    for month in sorted(set(months)):
        if store.list(_prefix(cluster, month)):
            keep_compact(store, cluster, month)


def remove_compact(store: ObjectStore, cluster: str, month: str) -> None:
    """Removes the compact history of a month, what names it first."""
    keys = store.list(_prefix(cluster, month))
    for key in sorted(keys, key=lambda key: not key.endswith(f"/{NAME}")):
        store.delete(key)


def check_compact(store: ObjectStore, cluster: str, month: str) -> list[str]:
    """How the compact history of a month differs from the snapshots that it names; empty where it does not, or there is none.

    Every snapshot is read again, and every row compared.
    """
    try:
        found = read_compact(store, cluster, month)
        if found is None:
            return []
        stored = {name: _read(store, found, name) for name in ORDER}
    except _UNREADABLE as error:
        return [str(error)]
    sources = [each for each in _newest_of_each_date(store, cluster, month) if found.covers(each)]
    wrong = [
        f"names the snapshot {name}, which is not the newest of a date any more"
        for name in sorted(set(found.snapshots) - {each.snapshot_id for each in sources})
    ]
    read = [(manifest, _rows_of(store, manifest)) for manifest in sources]
    wrong += [
        f"names the snapshot {each.snapshot_id}, whose tables cannot be read" for each, rows in read if rows is None
    ]
    if not wrong:
        expected = {name: _sorted(name, [rows[name] for _, rows in read if rows is not None]) for name in ORDER}
        wrong = [
            f"{name}: {table.num_rows} rows, not the {expected[name].num_rows} of its snapshots"
            for name, table in stored.items()
            if not table.equals(expected[name])
        ]
    return [f"{_prefix(cluster, month)}{NAME}: {each}" for each in wrong]


def compacts_for(store: ObjectStore, manifests: Iterable[Manifest]) -> list[tuple[Compact, tuple[Manifest, ...]]]:
    """The compact histories that hold some of these snapshots, each with those it holds; damaged ones are passed over."""
    by_month: dict[tuple[str, str], list[Manifest]] = {}
    for manifest in manifests:
        by_month.setdefault((manifest.cluster, manifest.date[:7]), []).append(manifest)
    found = zip(by_month.values(), at_once(lambda month: _known(store, *month), by_month), strict=True)
    held = [(one, tuple(filter(one.covers, of_month))) for of_month, one in found if one is not None]
    return [(one, covered) for one, covered in held if covered]


def _prefix(cluster: str, month: str) -> str:
    return f"{ROOT}/history/cluster={require_name(cluster, 'cluster')}/month={require_name(month, 'month')}/"


def _newest_of_each_date(store: ObjectStore, cluster: str, month: str) -> list[Manifest]:
    found = []
    for day, keys in sorted(keys_by_date(store, cluster).items()):
        if day.startswith(f"{month}-"):
            try:
                found.append(newest_of(store, keys, passed_over=lambda _: None))
            except UNUSABLE:
                continue
    return found


def _known(store: ObjectStore, cluster: str, month: str) -> Compact | None:
    """As `read_compact`; what is damaged is none."""
    try:
        return read_compact(store, cluster, month)
    except ObjectDamagedError:
        return None


def _tables_of(store: ObjectStore, before: Compact | None, known: list[Manifest]) -> dict[str, list[pa.Table]]:
    """The rows of `known` snapshots that were stored before; where they cannot be read, `known` is emptied."""
    if before is not None and known:
        try:
            names = pa.array([each.snapshot_id for each in known])
            read = {name: _read(store, before, name) for name in ORDER}
            return {name: [each.filter(pc.is_in(each["snapshot_id"], names))] for name, each in read.items()}
        except _UNREADABLE:
            known.clear()
    return {name: [] for name in ORDER}


def _read(store: ObjectStore, compact: Compact, name: str) -> pa.Table:
    for stored in compact.objects:
        if stored.table == name:
            found = table_from_parquet(checked_object(store, stored), store.uri_of(stored.key))
            try:
                return found.select(TABLES[name].names).cast(TABLES[name])
            except _OTHER_COLUMNS as error:
                raise ObjectDamagedError(_unread(store.uri_of(stored.key), f"other columns, {error}")) from error
    raise ObjectDamagedError(f"compact history of {compact.cluster!r}, {compact.month}: it has no table {name!r}")


def _rows_of(store: ObjectStore, manifest: Manifest) -> dict[str, pa.Table] | None:
    """The tables of a snapshot; None where one cannot be read, or holds rows of another."""
    try:
        found = {
            name: read_table(store, manifest, name).select(TABLES[name].names).cast(TABLES[name]) for name in ORDER
        }
    except (*_UNREADABLE, *_OTHER_COLUMNS):
        return None
    for table in found.values():
        for column, own in (("cluster", manifest.cluster), ("snapshot_id", manifest.snapshot_id)):
            if set(pc.unique(table[column]).to_pylist()) - {own}:
                return None
    return found


def _sorted(name: str, parts: Sequence[pa.Table]) -> pa.Table:
    whole = pa.concat_tables([TABLES[name].empty_table(), *parts])
    return whole.sort_by([(column, "ascending") for column in ORDER[name]])


def _parsed(content: bytes) -> tuple[Compact, int]:
    """What the document says, and its format version; ValueError and others for one that is none, or was changed."""
    document = json.loads(content)
    claimed = document.pop("digest")
    if _digest(document) != claimed:
        raise ValueError("it was changed")
    return converted(document, Compact), document["format_version"]


def _unread(uri: str, reason: str) -> str:
    return f"compact history {uri!r} not read: {reason}; `snapshots compact` makes it again"


def _publish(store: ObjectStore, made: Compact) -> None:
    document: dict[str, Any] = {"format_version": FORMAT_VERSION, **asdict(made)}
    content = json.dumps({**document, "digest": _digest(document)}, sort_keys=True, indent=1) + "\n"
    store.put(f"{_prefix(made.cluster, made.month)}{NAME}", content.encode())


def _digest(document: object) -> str:
    return hashlib.sha256(json.dumps(document, sort_keys=True).encode()).hexdigest()
