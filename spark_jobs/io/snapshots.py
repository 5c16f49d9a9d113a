"""Snapshots found and read, every column checked on the way.

A snapshot is a folder with `manifest.json` and one Parquet file per table. Nothing here raises for one unreadable
snapshot: it comes back as a `Problem`.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects
from pyspark.sql.types import StructType

from controller_core.adapters.snapshot.manifest import MANIFEST, Manifest, StoredObject, parse_manifest
from controller_core.adapters.snapshot.tables import LATER_TABLES, TABLES, came_later
from controller_core.model.errors import ControllerCoreError
from spark_jobs import schemas
from spark_jobs.io.arrow import arrow_type, same_type
from spark_jobs.io.datasets import driver_rows
from spark_jobs.io.errors import DatasetError
from spark_jobs.io.folders import Folder, folder

_ANALYSIS = "analysis"
_READERS = 8


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot folder whose manifest was read and whose tables have the expected columns."""

    uri: str
    manifest: Manifest

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


def find_snapshots(spark: SparkSession, inputs: Iterable[str]) -> tuple[list[Snapshot], list[Problem]]:
    """Every snapshot at or below `inputs`, oldest first, and what is wrong with the others.

    Args:
        spark: the session whose S3 settings are used.
        inputs: snapshot folders, or folders that hold some at any depth.

    Returns:
        Snapshots sorted by (taken_at, cluster, snapshot_id) and the problems of folders that cannot be used.
    """
    folders = [found for uri in inputs for found in _manifests(folder(spark, uri))]
    with ThreadPoolExecutor(_READERS) as readers:
        results = list(readers.map(_open_snapshot, folders))
    good = {(found.cluster, found.snapshot_id): found for found in results if isinstance(found, Snapshot)}
    problems = [found for found in results if isinstance(found, Problem)]
    return sorted(good.values(), key=lambda s: (s.manifest.taken_at, s.cluster, s.snapshot_id)), problems


def damaged(spark: SparkSession, snapshots: Iterable[Snapshot]) -> list[Problem]:
    """Snapshots with a table whose bytes are not those that the manifest names, by size and SHA-256.

    A Parquet footer tells nothing of the pages: one that is damaged would end the job, and with it every other cluster's
    date. Each table is read once more for this, by the executors.
    """
    listed = [(snapshot, entry) for snapshot in snapshots for entry in snapshot.tables]
    paths = [snapshot.table_uri(entry.table) for snapshot, entry in listed]
    if not paths:
        return []
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(paths)  # no partition columns
    hashed = files.select("path", F.col("length").alias("size"), F.sha2("content", 256).alias("sha256"))
    there = {_without_scheme(row["path"]): row for row in hashed.toArrow().to_pylist()}
    found: dict[str, Problem] = {}
    for (snapshot, entry), path in zip(listed, paths, strict=True):
        row = there[_without_scheme(path)]
        for field, expected in (("size", entry.size), ("sha256", entry.sha256)):
            if row[field] != expected and snapshot.uri not in found:
                reason = f"{entry.table}.parquet has the {field} {row[field]!s:.12}, its manifest says {expected!s:.12}"
                told = _unreadable(snapshot.uri, DatasetError(reason))
                found[snapshot.uri] = Problem(snapshot.cluster, snapshot.snapshot_id, "read", told, snapshot.date)
    return list(found.values())


def read_table(spark: SparkSession, snapshots: Sequence[Snapshot], table: str) -> DataFrame:
    """One decoded table of all `snapshots` as `schemas.INPUTS[table]`; empty without snapshots that have it."""
    schema = schemas.INPUTS[table]
    holders = [found for found in snapshots if table not in LATER_TABLES or table in found.row_counts]
    if not holders:
        return driver_rows(spark, [], schema)
    return spark.read.schema(schema).parquet(*(snapshot.table_uri(table) for snapshot in holders))


def _manifests(place: Folder) -> list[Folder]:
    """Folders at or below `place` that hold a manifest."""
    found = sorted(path for path in place.files() if path.endswith("/" + MANIFEST))
    inside = [path.removesuffix("/" + MANIFEST) for path in found]
    return [Folder(place.filesystem, path, place.uri + path.removeprefix(place.path)) for path in inside]


def _open_snapshot(place: Folder) -> Snapshot | Problem | None:
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
        snapshot = Snapshot(place.uri, manifest)
        for table, schema in schemas.INPUTS.items():
            if table in LATER_TABLES and table not in snapshot.row_counts:
                continue
            _check_footer(place, table, schema, snapshot.row_counts.get(table))
    except (OSError, ValueError, ControllerCoreError, DatasetError) as error:
        return Problem(cluster, snapshot_id, "read", _unreadable(place.uri, error), date)
    return snapshot


def _unreadable(uri: str, error: Exception) -> str:
    return f"snapshot {uri} cannot be read: {type(error).__name__}: {error}; take or download it again"


def _without_scheme(path: str) -> str:
    """A path as `spark.read` takes it or gives it back: `file:/a`, `file:///a` and `/a` are the same."""
    return path.removeprefix("file:").lstrip("/")


def _check_footer(place: Folder, table: str, schema: StructType, row_count: int | None) -> None:
    with pq.ParquetFile(f"{place.path}/{table}.parquet", filesystem=place.filesystem) as file:
        found, rows = file.schema_arrow, file.metadata.num_rows
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
