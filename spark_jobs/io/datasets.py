"""Frames made, checked and written as their schema says."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects
from pyspark.sql.types import StructType

from spark_jobs import schemas
from spark_jobs.io.arrow import arrow_schema
from spark_jobs.io.errors import DatasetError
from spark_jobs.io.folders import literal

SESSION_CONF: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.compression.codec": "zstd",
    # Spark lists each path of a table in a task of its own, up to 10,000: one task costs more than a hundred local listings.
    "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
}
"""What the jobs cannot do without, whatever spark-submit set."""


_CLASSES_OF_COLUMNS = (
    "functions",
    "org.apache.spark.sql.functions",
    "org.apache.spark.sql.classic.SparkSession",
    "PythonSQLUtils",
    "PythonUtils",
)


def session(name: str) -> SparkSession:
    """The session of a job."""
    return with_classes_known(SparkSession.builder.appName(name).config(map=dict(SESSION_CONF)).getOrCreate())


def with_classes_known(spark: SparkSession) -> SparkSession:
    """`spark`, whose Python side knows from now on the classes that it asks the JVM for with each column described.

    For a name without a package the JVM first looks for a class of no package, in each of Spark's jars, and again at the next column.

    Source: `py4j.reflection.TypeUtil.getClass`; `pyspark.sql.classic.column`.
    """
    jvm: Any = spark.sparkContext._jvm  # noqa: SLF001 - PySpark itself gets them from there
    for name in _CLASSES_OF_COLUMNS:
        setattr(jvm, name, getattr(jvm, name))
    return spark


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


def parquet_rows(spark: SparkSession, uris: Iterable[str], schema: StructType) -> DataFrame:
    """The rows of Parquet files, or of folders of them, as `schema` has them; none without any file."""
    paths = list(map(literal, uris))
    return spark.read.schema(schema).parquet(*paths) if paths else driver_rows(spark, [], schema)


def through_driver(frame: DataFrame, schema: StructType) -> DataFrame:
    """`frame`, computed now and held by the driver: what is made of it is planned without what it was made of.

    For few rows, such as one for each snapshot.
    """
    return frame.sparkSession.createDataFrame(frame.select(*schema.names).toArrow(), schema)


def write_result(frame: DataFrame, folder_uri: str, name: str, *, files: int = 1) -> None:
    """Writes `frame` as `schemas.OUTPUTS[name]` to `<folder>/<name>`, sorted by its columns, in `files` files.

    Args:
        frame: with the columns of the schema.
        folder_uri: of the run's results.
        name: of the table.
        files: how many.
    """
    schema = schemas.OUTPUTS[name]
    keys = [field.name for field in schema.fields if field.dataType.typeName() not in {"array", "struct", "map"}][:6]
    rest = [name for name in schema.names if name not in keys]  # rows alike in all keys: else their order is chance
    few = checked(frame, schema, name)
    spread = few.repartition(1) if files == 1 else few.repartitionByRange(files, *keys[:2])
    spread.sortWithinPartitions(*keys, *rest).write.mode("overwrite").parquet(f"{folder_uri}/{name}")


def key_of(table: DataFrame) -> DataFrame:
    """The distinct (cluster, snapshot_id) of a table."""
    return table.select(*(F.col(name) for name in schemas.SNAPSHOT_KEY)).distinct()


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
