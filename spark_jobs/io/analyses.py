"""Published analyses found and read: each result of every run, with the run that made it."""

import json
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects
from pyspark.sql.types import BooleanType, StringType, StructField, StructType

from controller_core.adapters.snapshot.manifest import MANIFEST
from spark_jobs import schemas
from spark_jobs.io.datasets import driver_rows, parquet_rows
from spark_jobs.io.folders import Folder, folder

_KIND, _READERS = "analysis", 8
_PLACE = [StructField("run_date", StringType()), StructField("run_folder", StringType())]
_RUNS = StructType([*_PLACE, StructField("run", StringType()), StructField("newest", BooleanType())])
_ANALYSED = StructType([*_PLACE, StructField("cluster", StringType()), StructField("current", BooleanType())])


@dataclass(frozen=True, slots=True)
class PublishedRun:
    """One published analysis: `files` are the names below `uri` that its manifest lists; the `clusters` that it analysed."""

    uri: str
    date: str
    run: str
    created_at: str
    files: tuple[str, ...]
    clusters: tuple[str, ...]

    def parts(self, result: str) -> list[str]:
        """Where the files of a result lie."""
        own = (f"{result}.parquet", f"{result}/")
        return [f"{self.uri}/{name}" for name in self.files if name == own[0] or name.startswith(own[1])]


def find_analyses(spark: SparkSession, inputs: Iterable[str]) -> list[PublishedRun]:
    """Every analysis at or below `inputs` that has a manifest; what is none, or is damaged, is passed over."""
    places = [found for uri in inputs for found in _with_manifest(folder(spark, uri))]
    with ThreadPoolExecutor(_READERS) as readers:
        found = [run for run in readers.map(_read, places) if run is not None]
    return sorted(found, key=lambda run: (run.date, run.created_at, run.run))


def read_result(spark: SparkSession, runs: Sequence[PublishedRun], result: str) -> DataFrame:
    """A result of all `runs`: `run_date`, `run`, `current`, then schemas.OUTPUTS[result].

    `current`: of its date no newer run analysed the row's cluster; of a cluster that none analysed, the newest run's rows are.
    """
    schema = schemas.OUTPUTS[result]
    paths = [path for run in runs for path in run.parts(result)]
    newest = {run.date: run for run in runs}
    told = [{**_place(run), "run": run.run, "newest": newest[run.date] is run} for run in runs]
    rows = parquet_rows(spark, paths, schema)
    part = r"/date=([^/]+)/(run=[^/]+)/"
    path = F.col("_metadata.file_path") if paths else F.lit("")
    named = rows.select(
        F.regexp_extract(path, part, 1).alias("run_date"), F.regexp_extract(path, part, 2).alias("run_folder"), "*"
    )
    return (
        named.join(F.broadcast(driver_rows(spark, told, _RUNS)), ["run_date", "run_folder"], how="inner")
        .join(
            F.broadcast(driver_rows(spark, left_out_by_newest(runs), _ANALYSED)),
            ["run_date", "run_folder", "cluster"],
            how="left",  # one row per run and cluster
        )
        .withColumns({"run_date": F.to_date("run_date"), "current": F.coalesce("current", "newest")})
        .select("run_date", "run", "current", *schema.names)
    )


def left_out_by_newest(runs: Sequence[PublishedRun]) -> list[dict[str, Any]]:
    """Which run counts for each cluster that the newest run of a date left out, and that this one does not: few rows in whole years.

    Args:
        runs: as `find_analyses` sorts them.
    """
    newest = {run.date: run for run in runs}
    newest_of = {(run.date, cluster): run for run in runs for cluster in run.clusters}
    return [
        {**_place(run), "cluster": cluster, "current": is_current}
        for (date, cluster), counts in newest_of.items()
        if counts is not newest[date]
        for run, is_current in ((counts, True), (newest[date], False))
    ]


def _place(run: PublishedRun) -> dict[str, str]:
    return {"run_date": run.date, "run_folder": run.uri.rpartition("/")[2]}


def _with_manifest(place: Folder) -> list[Folder]:
    found = sorted(path for path in place.files() if path.endswith(f"/{MANIFEST}") and "/run=" in path)
    inside = [path.removesuffix(f"/{MANIFEST}") for path in found]
    return [Folder(place.filesystem, path, place.uri + path.removeprefix(place.path)) for path in inside]


def _read(place: Folder) -> PublishedRun | None:
    try:
        document = json.loads(place.read(MANIFEST))
        if document.get("kind") != _KIND:
            return None
        prefix = f"/date={document['date']}/{place.uri.rpartition('/')[2]}/"
        files = tuple(entry["key"].partition(prefix)[2] for entry in document["objects"])
        clusters = tuple(each["cluster"] for each in document["snapshots"])
        return PublishedRun(place.uri, document["date"], document["run_id"], document["created_at"], files, clusters)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None
