"""Spark SQL over the decoded tables of all snapshots: every cluster, every date.

    spark-submit --py-files JOBS.zip spark_jobs/query.py --input FOLDER… --sql-file FILE --output FILE [--rows-max N]

The tables are those of `schemas.INPUTS`, each with a column `date` (the snapshot's UTC date) in front of its own, and
`snapshots` with one row per snapshot. Where published analyses lie below an input (`v1/analysis`), their results are tables too, by the
names of `schemas.OUTPUTS`: `run_date` and `run` say which run made a row, `current` whether that is the newest of its date. The result is one JSON document: columns, types, rows, whether rows were cut off.
Exit status 0: done; 2: bad input, such as SQL that Spark refuses.
"""

import argparse
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects

from controller_core.adapters.snapshot.znode_rows import ZNODES_TABLE
from spark_jobs import schemas
from spark_jobs.io import datasets
from spark_jobs.io import snapshots as stored
from spark_jobs.io.analyses import PublishedRun, find_analyses, read_result
from spark_jobs.io.errors import DatasetError
from spark_jobs.io.folders import literal
from spark_jobs.io.snapshots import Snapshot
from spark_jobs.json_values import as_json
from spark_jobs.select_only import refusal

DONE, BAD_INPUT = 0, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Args:
    """The command line; `rows_max` bounds what is brought to the driver; `znodes`: each snapshot's folder has that table."""

    inputs: tuple[str, ...]
    sql: str
    output: Path
    rows_max: int = 10_000
    znodes: bool = False


def run(spark: SparkSession, args: Args) -> None:
    """Registers the tables, runs the query, writes the document.

    Raises:
        DatasetError: no snapshot is there, the statement is not one SELECT over tables, Spark refuses it, or its answer is not for JSON.
    """
    refused = refusal(spark, args.sql)
    if refused is not None:
        raise DatasetError(f"query refused: {refused}")
    snapshots, problems = stored.find_snapshots(spark, args.inputs)
    if not snapshots:
        raise DatasetError(f"query not run: expected snapshots in {list(args.inputs)!r}, found none; fetch some first")
    register(spark, snapshots)
    if args.znodes:
        register_znodes(spark, snapshots)
    register_results(spark, find_analyses(spark, args.inputs))
    try:
        found = spark.sql(args.sql)
        rows = found.limit(args.rows_max + 1).collect()
    except PySparkException as error:
        raise DatasetError(f"query refused by Spark: {error}") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise DatasetError(
            "query has no answer: expected values that a JSON document can have (dates of the years 1 to 9999, maps whose keys hold "
            f"no array), found one that it cannot: {error}; select it as text, with string(…)"
        ) from error
    document = {
        "columns": found.columns,
        "types": [kind for _, kind in found.dtypes],
        "rows": [[as_json(value) for value in row] for row in rows[: args.rows_max]],
        "cut_off": len(rows) > args.rows_max,
        "snapshots": len(snapshots),
        "unreadable": [problem.reason for problem in problems],
    }
    args.output.write_text(json.dumps(document, indent=1, ensure_ascii=False, default=str), encoding="utf-8")


def register(spark: SparkSession, snapshots: Sequence[Snapshot]) -> None:
    """Makes the tables of `snapshots` known to SQL by their names."""
    for table in schemas.INPUTS:
        dated(stored.read_table(spark, snapshots, table)).createOrReplaceTempView(table)
    known = stored.read_table(spark, snapshots, "cluster")
    dated(known).select(
        "date", "cluster", "snapshot_id", "taken_at", "zxid", "consistent", "kafka_cluster_id"
    ).createOrReplaceTempView("snapshots")


def register_znodes(spark: SparkSession, snapshots: Sequence[Snapshot]) -> None:
    """Makes the table `znodes` known, which lies beside the others where a query names it."""
    rows = spark.read.parquet(*(literal(snapshot.table_uri(ZNODES_TABLE)) for snapshot in snapshots))
    dated(rows).createOrReplaceTempView(ZNODES_TABLE)


def register_results(spark: SparkSession, runs: Sequence[PublishedRun]) -> None:
    """Makes the results of published `runs` known to SQL by their names."""
    for result in schemas.OUTPUTS:
        read_result(spark, runs, result).createOrReplaceTempView(result)


def dated(rows: DataFrame) -> DataFrame:
    """The rows with `date`, the UTC date of their snapshot, in front."""
    return rows.select(F.to_date("taken_at").alias("date"), "*")


def parse(argv: Sequence[str]) -> Args:
    """The command line; raises ValueError for SQL that cannot be read."""
    parser = argparse.ArgumentParser(prog="query", description=__doc__, fromfile_prefix_chars="@")
    parser.add_argument(
        "--input", nargs="+", action="extend", required=True, help="snapshot folders, or folders that hold some"
    )
    parser.add_argument("--sql-file", type=Path, required=True)
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("--rows-max", type=int, default=10_000)
    parser.add_argument("--znodes", action="store_true")
    found = parser.parse_args(argv)
    try:
        sql = found.sql_file.read_text(encoding="utf-8").strip().rstrip(";")
    except OSError as error:
        raise ValueError(
            f"query not run: {found.sql_file} not read ({error}); give a file with one statement"
        ) from error
    return Args(inputs=tuple(found.input), sql=sql, output=found.output, rows_max=found.rows_max, znodes=found.znodes)


def main(argv: Sequence[str]) -> int:
    """The job as a program."""
    try:
        args = parse(argv)
        os.environ["TZ"] = "UTC"  # PySpark gives times in the zone of its process
        time.tzset()
        spark = datasets.session("query")
        try:
            run(spark, args)
        finally:
            spark.stop()
    except (DatasetError, ValueError) as error:
        sys.stderr.write(f"query: {error}\n")
        return BAD_INPUT
    return DONE


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
