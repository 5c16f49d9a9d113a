"""Folders on this machine or in S3: the small files beside the tables (manifests, reports), and rows of results.

Paths are local folders or `s3a://bucket/prefix`, which Arrow's file systems reach with the same endpoint and credentials
that Spark has.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import fs as arrow_fs
from pyspark.sql import SparkSession

_S3 = ("s3a://", "s3://")
_ROWS_AT_ONCE = 1_000
_OF_PATTERNS = re.compile(r"[\[\]{}*?\\]")


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

    def holds(self, name: str) -> bool:
        """Whether there is a file of that name."""
        (info,) = self.filesystem.get_file_info([self._at(name)])
        return bool(info.type == arrow_fs.FileType.File)

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

    def names(self, name: str) -> list[str]:
        """The files below `name`, as `read` takes them."""
        return [path.removeprefix(f"{self.path}/") for path in self.files(name)]

    def _parts(self, table: str) -> list[str]:
        return sorted(path for path in self.files(table) if path.endswith(".parquet"))

    def _at(self, name: str) -> str:
        return f"{self.path}/{name}"


def literal(uri: str) -> str:
    """A path for `spark.read`, which takes each for a pattern: what has a meaning there stands for itself."""
    return _OF_PATTERNS.sub(r"\\\g<0>", uri)


def folder(spark: SparkSession, uri: str) -> Folder:
    """The folder at `uri`, reached with Spark's own S3 settings when it is `s3a://`; a local path becomes absolute, and without `..`, as Spark tells it."""
    uri = uri.rstrip("/")
    if not uri.startswith(_S3):
        path = str(Path(uri.removeprefix("file:")).resolve())
        return Folder(arrow_fs.LocalFileSystem(), path, path)
    return Folder(_s3(spark), uri.split("://", 1)[1], "s3a://" + uri.split("://", 1)[1])


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
    """One client for all folders: a run may read thousands."""
    return arrow_fs.S3FileSystem(**settings)
