"""The preconditions of a migration to KRaft on executors: a snapshot's raw layer in, what each rule says out.

Spark deals out the snapshots; `spark_jobs.kraft.rules` judges, here as in the command. Rows of `schemas.KRAFT_READINESS`.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects

from controller_core.adapters.snapshot.manifest import RAW
from controller_core.model.gc_pause import collector_paused
from spark_jobs import schemas
from spark_jobs.io.arrow import arrow_schema
from spark_jobs.io.datasets import driver_rows, parquet_rows
from spark_jobs.io.snapshots import Snapshot
from spark_jobs.kraft.phase import phase_of
from spark_jobs.kraft.rules import judge_all
from spark_jobs.kraft.tree import TREE_COLUMNS, tree_of
from spark_jobs.on_core.bridge import with_error

_KEY = list(schemas.SNAPSHOT_KEY)
_TASKS_A_CORE = 8
PublicConfigs = Mapping[tuple[str, str], Mapping[str, Mapping[str, str]]]
"""(cluster, snapshot) → path of a redacted config → its settings that are no secrets."""


def kraft_readiness(spark: SparkSession, snapshots: Sequence[Snapshot], public: PublicConfigs) -> DataFrame:
    """What each rule says of each snapshot whose raw layer is at hand.

    In:  the snapshots; `public`, see `public_configs`.
    Out: schemas.KRAFT_READINESS and a column `error`: null, or the only thing that a row of a failed snapshot says beside its key.
    """
    wanted = with_error(schemas.KRAFT_READINESS)
    judged = [one for one in snapshots if RAW in one.there]
    if not judged:
        return driver_rows(spark, [], wanted)
    files = [
        {"cluster": one.cluster, "snapshot_id": one.snapshot_id, "path": _without_scheme(one.table_uri(RAW))}
        for one in judged
    ]
    rows = (
        parquet_rows(spark, [one.table_uri(RAW) for one in judged], schemas.RAW)
        .select(*TREE_COLUMNS, _file().alias("file"))
        .join(F.broadcast(driver_rows(spark, files, schemas.PATHS).withColumnRenamed("path", "file")), "file")
        .drop("file")
    )
    tasks = 1 if len(judged) == 1 else _TASKS_A_CORE * spark.sparkContext.defaultParallelism
    return rows.repartition(tasks, *_KEY).groupBy(*_KEY).applyInArrow(_judge(public), wanted)


def public_configs(configs: DataFrame, snapshots: Sequence[Snapshot]) -> PublicConfigs:
    """What is known of configs that hold secrets, collected: few clusters have some.

    In: schemas.CONFIGS of the snapshots.
    """
    redacted = {
        (one.cluster, one.snapshot_id): {path for path in one.manifest.redacted if path.startswith("/config/")}
        for one in snapshots
    }
    if not any(redacted.values()):
        return {}
    found: dict[tuple[str, str], dict[str, dict[str, str]]] = {
        key: {path: {} for path in paths} for key, paths in redacted.items() if paths
    }
    path = F.concat_ws("/", F.lit("/config"), "entity_type", "entity_name").alias("path")
    all_paths = driver_rows(
        configs.sparkSession,
        [{"cluster": key[0], "snapshot_id": key[1], "path": each} for key, paths in redacted.items() for each in paths],
        schemas.PATHS,
    )
    rows = configs.select(*_KEY, path, "key", "value").join(F.broadcast(all_paths), [*_KEY, "path"], how="left_semi")
    for row in rows.collect():
        found[row["cluster"], row["snapshot_id"]][row["path"]][row["key"]] = row["value"]
    return found


def _judge(public: PublicConfigs) -> Callable[[pa.Table], pa.Table]:
    columns = arrow_schema(with_error(schemas.KRAFT_READINESS))

    def run(raw: pa.Table) -> pa.Table:
        key = {name: raw.column(name)[0].as_py() for name in _KEY}
        try:
            with collector_paused():
                rows = list(_rows(raw, public.get((key["cluster"], key["snapshot_id"]))))
        except Exception as error:  # noqa: BLE001 - one cluster's failure is a row, whatever it is
            rows = [{"error": f"{type(error).__name__}: {error}"}]
        return pa.Table.from_pylist([{**key, **row} for row in rows], schema=columns)

    return run


def _rows(raw: pa.Table, public: Mapping[str, Mapping[str, str]] | None) -> Iterator[dict[str, Any]]:
    tree = tree_of(raw.sort_by("path"), public)
    phase = phase_of(tree)
    for rule, judged in judge_all(tree).items():
        yield {
            "phase": phase.id.value,
            "phase_text": f"{phase.text}: {phase.advice}",
            "rule": rule,
            "verdict": judged.verdict.value,
            "evidence": list(judged.evidence),
        }


def _file() -> Column:
    """From which file a row comes, as `_without_scheme` writes it."""
    plain = F.url_decode(F.replace(F.col("_metadata.file_path"), F.lit("+"), F.lit("%2B")))  # Spark gives a URI
    return F.regexp_replace(plain, "^file:/*|^/+", "")


def _without_scheme(uri: str) -> str:
    return uri.removeprefix("file:").lstrip("/")
