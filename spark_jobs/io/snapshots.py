"""Snapshots found and read, every column checked on the way.

A snapshot is a folder with `manifest.json` and one Parquet file per table. Nothing here raises for one unreadable
snapshot: it comes back as a `Problem`.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects

from controller_core.adapters.snapshot.manifest import MANIFEST, RAW, Manifest, StoredObject, parse_manifest
from controller_core.adapters.snapshot.parquet import table_from_parquet
from controller_core.adapters.snapshot.tables import LATER_TABLES, TABLES, came_later
from controller_core.model.errors import ControllerCoreError, ObjectDamagedError
from spark_jobs import schemas
from spark_jobs.io.arrow import arrow_type, same_type
from spark_jobs.io.datasets import parquet_rows
from spark_jobs.io.errors import DatasetError
from spark_jobs.io.folders import Folder, folder, literal

_ANALYSIS = "analysis"
_READERS = 8
_HASHED = "path string, size bigint, sha256 string, error string"


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot folder whose manifest was read and whose tables have the expected columns."""

    uri: str
    manifest: Manifest
    there: frozenset[str] = frozenset(
        schemas.INPUTS
    )  # tables that lie in the folder: of earlier ones not all are fetched

    @property
    def cluster(self) -> str:
        """Our name of the cluster."""
        return self.manifest.cluster

    @property
    def date(self) -> str:
        """The UTC date of the snapshot, in ISO 8601."""
        return self.manifest.date

    @property
    def snapshot_id(self) -> str:
        """The id that the snapshot has in its cluster."""
        return self.manifest.snapshot_id

    def table_uri(self, table: str) -> str:
        """Where the Parquet file of `table` lies."""
        return f"{self.uri}/{table}.parquet"

    @property
    def tables(self) -> list[StoredObject]:
        """The decoded tables that the manifest names."""
        return [stored for stored in self.manifest.objects if stored.table in schemas.INPUTS]

    @property
    def row_counts(self) -> Mapping[str, int]:
        """Rows by table, as the manifest says."""
        return {stored.table: stored.rows for stored in self.tables}


HISTORY = "history"
"""Stage of a `Problem` with a snapshot that the analysed date does not need: of another date, or replaced by another."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A cluster, or a part of its analysis, that could not be read or computed."""

    cluster: str
    snapshot_id: str
    stage: str
    reason: str
    date: str = ""  # of the snapshot, where its manifest or its folder says it


def find_snapshots(
    spark: SparkSession, inputs: Iterable[str], tables: Iterable[str] = tuple(schemas.INPUTS)
) -> tuple[list[Snapshot], list[Problem]]:
    """Every snapshot at or below `inputs`, oldest first, and what is wrong with the others.

    Args:
        spark: the session whose S3 settings are used.
        inputs: snapshot folders, or folders that hold some at any depth.
        tables: those whose columns and rows are looked at, by their footers; `misshapen` looks at more.

    Returns:
        Snapshots sorted by (taken_at, cluster, snapshot_id) and the problems of folders that cannot be used.
    """
    wanted = tuple(tables)
    places = [folder(spark, uri) for uri in inputs]
    with ThreadPoolExecutor(_READERS) as readers:  # each listing of S3 is waited for
        folders = [found for of_place in readers.map(_with_tables, places) for found in of_place]
        results = list(readers.map(lambda one: _open_snapshot(one[0], one[1], wanted), folders))
    good = {(found.cluster, found.snapshot_id): found for found in results if isinstance(found, Snapshot)}
    problems = [found for found in results if isinstance(found, Problem)]
    return sorted(good.values(), key=lambda s: (s.manifest.taken_at, s.cluster, s.snapshot_id)), problems


def misshapen(spark: SparkSession, needed: Iterable[tuple[Snapshot, str]]) -> list[Problem]:
    """Snapshots of which a `needed` table is missing, lacks a column, or holds other rows than its manifest says."""

    def look(one: tuple[Snapshot, str]) -> Problem | None:
        snapshot, table = one
        try:
            _check_footer(folder(spark, snapshot.uri), snapshot, table)
        except (OSError, ValueError, DatasetError) as error:
            return _problem(snapshot, error)
        return None

    with ThreadPoolExecutor(_READERS) as readers:
        found = [problem for problem in readers.map(look, needed) if problem is not None]
    return list({(problem.cluster, problem.snapshot_id): problem for problem in reversed(found)}.values())


def damaged(spark: SparkSession, needed: Iterable[tuple[Snapshot, str]], *, decode: bool = False) -> list[Problem]:
    """Snapshots of which a `needed` table has other bytes than the manifest names, by size and SHA-256.

    `decode`: also those of which a page cannot be decoded, although its bytes are those that were written.

    A Parquet footer tells nothing of the pages: one that is damaged would end the job, and with it every other cluster's
    date. Each table is read once more for this, by the executors.
    """
    listed = [
        (snapshot, entry) for snapshot, table in needed for entry in snapshot.manifest.objects if entry.table == table
    ]
    paths = [snapshot.table_uri(entry.table) for snapshot, entry in listed]
    if not paths:
        return []
    content = spark.read.format("binaryFile").option("recursiveFileLookup", "true")  # no partition columns
    files = content.load(list(map(literal, paths)))
    hashed = files.select(
        "path",
        F.col("length").alias("size"),
        F.sha2("content", 256).alias("sha256"),
        (F.col("content") if decode else F.lit(None).cast("binary")).alias("content"),
    ).mapInArrow(_decoded, _HASHED)
    there = {_without_scheme(row["path"]): row for row in hashed.toArrow().to_pylist()}
    found: dict[str, Problem] = {}
    for (snapshot, entry), path in zip(listed, paths, strict=True):
        row = there[_without_scheme(path)]
        for field, expected in (("size", entry.size), ("sha256", entry.sha256)):
            if row[field] != expected and snapshot.uri not in found:
                reason = f"{entry.table}.parquet has the {field} {row[field]!s:.12}, its manifest says {expected!s:.12}"
                found[snapshot.uri] = _problem(snapshot, DatasetError(reason))
        if row["error"] is not None and snapshot.uri not in found:
            found[snapshot.uri] = _problem(snapshot, DatasetError(row["error"]))
    return list(found.values())


def _decoded(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Files with the first error that decoding their `content` gives; null where there is none, or no content."""
    for batch in batches:
        errors = list(map(_decode_error, batch.column("content").to_pylist(), batch.column("path").to_pylist()))
        kept = batch.select(["path", "size", "sha256"])
        yield pa.RecordBatch.from_arrays([*kept.columns, pa.array(errors, pa.string())], [*kept.schema.names, "error"])


def _decode_error(content: bytes | None, uri: str) -> str | None:
    if content is None:
        return None
    try:
        table_from_parquet(content, uri)
    except ObjectDamagedError as error:
        return str(error)
    return None


def read_table(spark: SparkSession, snapshots: Sequence[Snapshot], table: str) -> DataFrame:
    """One decoded table of all `snapshots` as `schemas.INPUTS[table]`; empty without snapshots that have it."""
    holders = [found for found in snapshots if table not in LATER_TABLES or table in found.row_counts]
    return parquet_rows(spark, [each.table_uri(table) for each in holders], schemas.INPUTS[table])


def _with_tables(place: Folder) -> list[tuple[Folder, frozenset[str]]]:
    """Folders at or below `place` that hold a manifest, each with the tables that lie there; one listing for all."""
    names: dict[str, set[str]] = defaultdict(set)
    for path in place.files():
        inside, _, name = path.rpartition("/")
        names[inside].add(name)
    return [
        (
            Folder(place.filesystem, inside, place.uri + inside.removeprefix(place.path)),
            frozenset(table for table in (*schemas.INPUTS, RAW) if f"{table}.parquet" in names[inside]),
        )
        for inside in sorted(inside for inside, found in names.items() if MANIFEST in found)
    ]


def _open_snapshot(place: Folder, there: frozenset[str], tables: Iterable[str]) -> Snapshot | Problem | None:
    """None for a published analysis, which lies in the same store."""
    named = dict(part.split("=", 1) for part in place.path.split("/") if "=" in part)
    cluster, snapshot_id, date = named.get("cluster", place.path), named.get("snap", ""), named.get("date", "")
    try:
        content = place.read(MANIFEST)
        document = json.loads(content)
        if isinstance(document, dict) and document.get("kind") == _ANALYSIS:
            return None
        manifest = parse_manifest(content, f"{place.uri}/{MANIFEST}", MANIFEST)
        cluster, snapshot_id, date = manifest.cluster, manifest.snapshot_id, manifest.date
        _check_place(named, manifest)
        snapshot = Snapshot(place.uri, manifest, there)
        for table in tables:
            _check_footer(place, snapshot, table)
    except (OSError, ValueError, RecursionError, ControllerCoreError, DatasetError) as error:
        return Problem(cluster, snapshot_id, "read", _unreadable(place.uri, error), date)
    return snapshot


def _problem(snapshot: Snapshot, error: Exception) -> Problem:
    return Problem(snapshot.cluster, snapshot.snapshot_id, "read", _unreadable(snapshot.uri, error), snapshot.date)


def _unreadable(uri: str, error: Exception) -> str:
    return f"snapshot {uri} cannot be read: {type(error).__name__}: {error}; take or download it again"


def _without_scheme(path: str) -> str:
    """A path as `spark.read` takes it or gives it back: `file:/a`, `file:///a` and `/a` are the same."""
    return path.removeprefix("file:").lstrip("/")


def _check_place(named: Mapping[str, str], manifest: Manifest) -> None:
    """Where a folder names cluster, date or snapshot, its manifest says the same."""
    for name, said in (("cluster", manifest.cluster), ("date", manifest.date), ("snap", manifest.snapshot_id)):
        if named.get(name, said) != said:
            raise DatasetError(f"its folder says {name}={named[name]}, its manifest {said!r}")


def _check_owner(file: pq.ParquetFile, snapshot: Snapshot, table: str) -> None:
    """Every row carries the cluster and the id of its snapshot: rows of another would be counted as that one's.

    The statistics of the footer say so; where a writer left them out, the columns are read.
    """
    for name, expected in (("cluster", snapshot.cluster), ("snapshot_id", snapshot.snapshot_id)):
        column = file.schema_arrow.get_field_index(name)
        for group in range(file.metadata.num_row_groups):
            told = file.metadata.row_group(group).column(column).statistics
            if told is not None and told.has_min_max and told.has_null_count and not told.null_count:
                found = {told.min, told.max}
            else:
                found = set(file.read_row_group(group, columns=[name]).column(name).unique().to_pylist())
            if found - {expected}:
                raise DatasetError(
                    f"table {table!r} holds rows of {name} {min(map(str, found - {expected}))!r}, expected {expected!r} only"
                )


def _check_footer(place: Folder, snapshot: Snapshot, table: str) -> None:
    schema, row_count = schemas.INPUTS[table], snapshot.row_counts.get(table)
    if table in LATER_TABLES and row_count is None:
        return
    with pq.ParquetFile(f"{place.path}/{table}.parquet", filesystem=place.filesystem) as file:
        found, rows = file.schema_arrow, file.metadata.num_rows
        if {"cluster", "snapshot_id"} <= set(found.names):
            _check_owner(file, snapshot, table)
    for field in schema.fields:
        wanted = arrow_type(field.dataType)
        if field.name not in found.names and came_later(TABLES[table].field(field.name)):
            continue
        if field.name not in found.names:
            raise DatasetError(f"table {table!r} has no column {field.name!r} (expected {wanted}); has {found.names!r}")
        if not same_type(found.field(field.name).type, wanted):
            raise DatasetError(
                f"table {table!r}: column {field.name!r} is {found.field(field.name).type}, expected {wanted}"
            )
    if row_count is not None and row_count != rows:
        raise DatasetError(f"table {table!r} holds {rows} rows, its manifest says {row_count}")
