"""Snapshots found and read, results written, every column checked on the way.

Paths are local folders or `s3a://bucket/prefix`; the small files beside the tables (manifests, reports) go through
Arrow's file systems with the same endpoint and credentials that Spark has. A snapshot is a folder with `manifest.json`
and one Parquet file per table. Nothing here raises for one unreadable snapshot: it comes back as a `Problem`.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs as arrow_fs
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects
from pyspark.sql.types import ArrayType, DataType, StructType

from spark_jobs import schemas

_MANIFEST = "manifest.json"
_ANALYSIS = "analysis"
_S3 = ("s3a://", "s3://")
_READERS = 8
_ROWS_AT_ONCE = 1_000


class DatasetError(Exception):
    """A dataset that is not there or has other columns than its schema says."""


@dataclass(frozen=True, slots=True)
class Snapshot:
    """A snapshot folder whose manifest was read and whose tables have the expected columns."""

    uri: str
    cluster: str
    date: str
    snapshot_id: str
    taken_at: str
    manifest: Mapping[str, Any]

    def table_uri(self, table: str) -> str:
        """Where the Parquet file of `table` lies."""
        return f"{self.uri}/{table}.parquet"

    @property
    def table_objects(self) -> list[Mapping[str, Any]]:
        """What the manifest says of each decoded table: `key`, `size` in bytes, `sha256` in hex, `rows`."""
        return [entry for entry in self.manifest.get("objects", ()) if Path(entry["key"]).stem in schemas.INPUTS]

    @property
    def row_counts(self) -> Mapping[str, int]:
        """Rows by table, as the manifest says; tables it does not count are absent."""
        return {
            Path(entry["key"]).stem: int(entry["rows"])
            for entry in self.manifest.get("objects", ())
            if entry.get("rows") is not None
        }


HISTORY = "history"
"""Stage of a `Problem` with a snapshot that the analysed night does not need: of another night, or replaced by another."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A cluster, or a part of its analysis, that could not be read or computed."""

    cluster: str
    snapshot_id: str
    stage: str
    reason: str
    date: str = ""  # of the snapshot, where its manifest or its folder says it


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder on some file system: reads and writes small files below it."""

    filesystem: arrow_fs.FileSystem
    path: str
    uri: str

    def read(self, name: str) -> bytes:
        """Bytes of `name`; raises FileNotFoundError."""
        with self.filesystem.open_input_stream(self._at(name)) as stream:
            return bytes(stream.read())

    def write(self, name: str, data: bytes) -> None:
        """Creates or replaces `name`."""
        self.filesystem.create_dir(self._at(name).rpartition("/")[0], recursive=True)
        with self.filesystem.open_output_stream(self._at(name)) as stream:
            stream.write(data)

    def remove(self, name: str) -> None:
        """Deletes the file `name`; raises FileNotFoundError."""
        self.filesystem.delete_file(self._at(name))

    def rows(self, table: str, limit: int | None = None, columns: Sequence[str] | None = None) -> list[dict[str, Any]]:
        """The first rows of a result written by `write_result`, in file order; none when it was not written."""
        return list(islice(self.each(table, columns), limit))

    def each(
        self, table: str, columns: Sequence[str] | None = None, at_once: int = _ROWS_AT_ONCE
    ) -> Iterator[dict[str, Any]]:
        """Those rows one after the other, only `at_once` of them in memory."""
        for path in self._parts(table):
            with pq.ParquetFile(path, filesystem=self.filesystem) as file:
                for batch in file.iter_batches(at_once, columns=None if columns is None else list(columns)):
                    yield from batch.to_pylist()

    def row_count(self, table: str) -> int:
        """Rows of a result, from its files' footers."""
        return sum(pq.read_metadata(path, filesystem=self.filesystem).num_rows for path in self._parts(table))

    def counted(self, table: str, keys: Sequence[str], first: Sequence[str] = ()) -> list[dict[str, Any]]:
        """The rows of a result by the values of `keys`, in the order in which they first come; never all in memory.

        Each has `keys`, `count`, and of the first row, in file order, the columns `first`.
        """
        of_first = [(name, "first", pc.ScalarAggregateOptions(skip_nulls=False)) for name in first]
        found: dict[tuple[Any, ...], dict[str, Any]] = {}
        for path in self._parts(table):
            with pq.ParquetFile(path, filesystem=self.filesystem) as file:
                for batch in file.iter_batches(columns=[*keys, *first]):
                    groups = pa.Table.from_batches([batch]).group_by(list(keys), use_threads=False)
                    for row in groups.aggregate([([], "count_all"), *of_first]).to_pylist():
                        key = tuple(row[name] for name in keys)
                        fresh = {**dict(zip(keys, key, strict=True)), "count": 0}
                        same = found.setdefault(key, fresh | {name: row[f"{name}_first"] for name in first})
                        same["count"] += row["count_all"]
        return list(found.values())

    def files(self, name: str = "") -> list[str]:
        """Paths of all files below `name`, as the file system knows them."""
        selector = arrow_fs.FileSelector(self._at(name) if name else self.path, recursive=True, allow_not_found=True)
        return [info.path for info in self.filesystem.get_file_info(selector) if info.type == arrow_fs.FileType.File]

    def _parts(self, table: str) -> list[str]:
        return sorted(path for path in self.files(table) if path.endswith(".parquet"))

    def _at(self, name: str) -> str:
        return f"{self.path}/{name}"


def folder(spark: SparkSession, uri: str) -> Folder:
    """The folder at `uri`, reached with Spark's own S3 settings when it is `s3a://`."""
    uri = uri.rstrip("/")
    if not uri.startswith(_S3):
        path = str(Path(uri.removeprefix("file://")).absolute())
        return Folder(arrow_fs.LocalFileSystem(), path, uri)
    return Folder(_s3(spark), uri.split("://", 1)[1], "s3a://" + uri.split("://", 1)[1])


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
    return sorted(good.values(), key=lambda s: (s.taken_at, s.cluster, s.snapshot_id)), problems


def damaged(spark: SparkSession, snapshots: Iterable[Snapshot]) -> list[Problem]:
    """Snapshots with a table whose bytes are not those that the manifest names, by size and SHA-256.

    A Parquet footer tells nothing of the pages: one that is damaged would end the job, and with it every other cluster's
    night. Each table is read once more for this, by the executors.
    """
    listed = [(snapshot, entry) for snapshot in snapshots for entry in snapshot.table_objects]
    paths = [snapshot.table_uri(Path(entry["key"]).stem) for snapshot, entry in listed]
    if not paths:
        return []
    files = spark.read.format("binaryFile").option("recursiveFileLookup", "true").load(paths)  # no partition columns
    hashed = files.select("path", F.col("length").alias("size"), F.sha2("content", 256).alias("sha256"))
    there = {_without_scheme(row["path"]): row for row in hashed.toArrow().to_pylist()}
    found: dict[str, Problem] = {}
    for (snapshot, entry), path in zip(listed, paths, strict=True):
        row = there[_without_scheme(path)]
        for field in ("size", "sha256"):
            if row[field] != entry.get(field) and snapshot.uri not in found:
                reason = (
                    f"{Path(path).name} has the {field} {row[field]!s:.12}, its manifest says {entry.get(field)!s:.12}"
                )
                told = _unreadable(snapshot.uri, DatasetError(reason))
                found[snapshot.uri] = Problem(snapshot.cluster, snapshot.snapshot_id, "read", told, snapshot.date)
    return list(found.values())


def read_table(spark: SparkSession, snapshots: Sequence[Snapshot], table: str) -> DataFrame:
    """One decoded table of all `snapshots` as `schemas.INPUTS[table]`; empty without snapshots."""
    schema = schemas.INPUTS[table]
    if not snapshots:
        return driver_rows(spark, [], schema)
    return spark.read.schema(schema).parquet(*(snapshot.table_uri(table) for snapshot in snapshots))


def checked(frame: DataFrame, schema: StructType, name: str) -> DataFrame:
    """`frame` with exactly the columns of `schema`, in its order.

    Raises:
        DatasetError: names the first column that is missing, surplus or of another type.
    """
    _check(name, frame.schema, schema)
    return frame.select(*schema.names)


def driver_rows(spark: SparkSession, rows: Sequence[Mapping[str, Any]], schema: StructType) -> DataFrame:
    """Few rows that the driver has, by column name, as a frame; an absent column is null.

    Through Arrow: rows as tuples would start Python workers only to be read.
    """
    return spark.createDataFrame(pa.Table.from_pylist(list(rows), schema=arrow_schema(schema)), schema)


def through_driver(frame: DataFrame, schema: StructType) -> DataFrame:
    """`frame`, computed now and held by the driver: what is made of it is planned without what it was made of.

    For few rows, such as one for each snapshot.
    """
    return frame.sparkSession.createDataFrame(frame.select(*schema.names).toArrow(), schema)


def write_result(frame: DataFrame, folder_uri: str, name: str, *, files: int = 1) -> None:
    """Writes `frame` as `schemas.OUTPUTS[name]` to `<folder>/<name>`, sorted by its columns, in `files` files."""
    schema = schemas.OUTPUTS[name]
    keys = [field.name for field in schema.fields if field.dataType.typeName() not in {"array", "struct", "map"}][:6]
    few = checked(frame, schema, name)
    spread = few.repartition(1) if files == 1 else few.repartitionByRange(files, *keys[:2])
    spread.sortWithinPartitions(*keys).write.mode("overwrite").parquet(f"{folder_uri}/{name}")


def key_of(table: DataFrame) -> DataFrame:
    """The distinct (cluster, snapshot_id) of a table."""
    return table.select(*(F.col(name) for name in schemas.SNAPSHOT_KEY)).distinct()


def _manifests(place: Folder) -> list[Folder]:
    """Folders at or below `place` that hold a manifest."""
    found = sorted(path for path in place.files() if path.endswith("/" + _MANIFEST))
    inside = [path.removesuffix("/" + _MANIFEST) for path in found]
    return [Folder(place.filesystem, path, place.uri + path.removeprefix(place.path)) for path in inside]


def _open_snapshot(place: Folder) -> Snapshot | Problem | None:
    """None for a published analysis, which lies in the same store."""
    named = dict(part.split("=", 1) for part in place.path.split("/") if "=" in part)
    cluster, snapshot_id, night = named.get("cluster", place.path), named.get("snap", ""), named.get("date", "")
    try:
        manifest = json.loads(place.read(_MANIFEST))
        if manifest.get("kind") == _ANALYSIS:
            return None
        cluster, snapshot_id, night = manifest["cluster"], manifest["snapshot_id"], manifest["date"]
        snapshot = Snapshot(place.uri, cluster, night, snapshot_id, manifest["taken_at"], manifest)
        for table, schema in schemas.INPUTS.items():
            _check_footer(place, table, schema, snapshot.row_counts.get(table))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, DatasetError) as error:
        return Problem(cluster, snapshot_id, "read", _unreadable(place.uri, error), night)
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
        if field.name not in found.names and (table, field.name) in schemas.LATER_COLUMNS:
            continue
        if field.name not in found.names:
            raise DatasetError(f"table {table!r} has no column {field.name!r} (expected {wanted}); has {found.names!r}")
        if not _same_type(found.field(field.name).type, wanted):
            raise DatasetError(
                f"table {table!r}: column {field.name!r} is {found.field(field.name).type}, expected {wanted}"
            )
    if row_count is not None and row_count != rows:
        raise DatasetError(f"table {table!r} holds {rows} rows, its manifest says {row_count}")


def _same_type(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Equality that ignores what a writer calls a list's element and whether it may be null."""
    if pa.types.is_list(found) and pa.types.is_list(wanted):
        return _same_type(found.value_type, wanted.value_type)
    return bool(found.equals(wanted))


def _check(name: str, found: StructType, wanted: StructType) -> None:
    types = {field.name: field.dataType for field in found.fields}
    for field in wanted.fields:
        if field.name not in types:
            raise DatasetError(f"dataset {name!r} lacks column {field.name!r} ({field.dataType.simpleString()})")
        if types[field.name].simpleString() != field.dataType.simpleString():
            raise DatasetError(
                f"dataset {name!r}: column {field.name!r} is {types[field.name].simpleString()}, "
                f"expected {field.dataType.simpleString()}"
            )
    surplus = sorted(set(types) - set(wanted.names))
    if surplus:
        raise DatasetError(f"dataset {name!r} has columns that its schema does not know: {surplus!r}")


_ARROW: Mapping[str, Callable[[], pa.DataType]] = {
    "string": pa.string,
    "integer": pa.int32,
    "long": pa.int64,
    "boolean": pa.bool_,
    "double": pa.float64,
    "date": pa.date32,
    "timestamp": lambda: pa.timestamp("us", tz="UTC"),
}


def arrow_type(kind: DataType) -> pa.DataType:
    """The Arrow type that our Parquet files have for a Spark type."""
    match kind:
        case ArrayType():
            return pa.list_(arrow_type(kind.elementType))
        case StructType():
            return pa.struct([pa.field(field.name, arrow_type(field.dataType)) for field in kind.fields])
        case _:
            return _ARROW[kind.typeName()]()


def arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema of a dataset, every column nullable."""
    return pa.schema([pa.field(field.name, arrow_type(field.dataType)) for field in schema.fields])


def _s3(spark: SparkSession) -> arrow_fs.S3FileSystem:
    """Arrow's S3 client with what `spark.hadoop.fs.s3a.*` says; the environment's credentials where it says nothing."""

    def setting(name: str) -> str | None:
        return spark.conf.get(f"spark.hadoop.fs.s3a.{name}", None)

    return _s3_client(
        access_key=setting("access.key"),
        secret_key=setting("secret.key"),
        endpoint_override=setting("endpoint"),
        region=setting("endpoint.region"),
        scheme="http" if setting("connection.ssl.enabled") == "false" else "https",
    )


@cache
def _s3_client(**settings: str | None) -> arrow_fs.S3FileSystem:
    """One client for all folders: a night may read thousands."""
    return arrow_fs.S3FileSystem(**settings)


def session(name: str) -> SparkSession:
    """The session of a job: what spark-submit set, and what the jobs cannot do without."""
    return (
        SparkSession.builder.appName(name)
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.sql.parquet.compression.codec", "zstd")
        .getOrCreate()
    )
