"""Compact history: files that hold the rows of many earlier snapshots each, checked before the job (`--compact`)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from spark_jobs import schemas
from spark_jobs.io.datasets import driver_rows, parquet_rows


@dataclass(frozen=True, slots=True)
class Compact:
    """The snapshots (cluster, snapshot id) whose rows are read from `files`, which are named by table."""

    snapshots: tuple[tuple[str, str], ...] = ()
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


def compact_of(document: Mapping[str, Any]) -> Compact:
    """What the file `--compact` says; an empty document is no compact history."""
    return Compact(
        tuple((str(cluster), str(snapshot_id)) for cluster, snapshot_id in document.get("snapshots", ())),
        {str(table): tuple(map(str, paths)) for table, paths in document.get("files", {}).items()},
    )


def read_compact(spark: SparkSession, compact: Compact, table: str, clusters: Collection[str]) -> DataFrame:
    """The rows of a table of those snapshots that belong to `clusters`: schemas.INPUTS[table].

    Args:
        spark: the session.
        compact: the files, and the snapshots in question.
        table: its name, one of schemas.OF_HISTORY.
        clusters: those that are analysed.
    """
    schema = schemas.INPUTS[table]
    named = [dict(zip(schemas.SNAPSHOT_KEY, each, strict=True)) for each in compact.snapshots if each[0] in clusters]
    if not named:
        return driver_rows(spark, [], schema)
    wanted = driver_rows(spark, named, schemas.SNAPSHOTS).hint("broadcast")
    rows = parquet_rows(spark, compact.files[table], schema)
    return rows.join(wanted, list(schemas.SNAPSHOT_KEY), how="left_semi").select(*schema.names)
