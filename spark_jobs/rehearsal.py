"""What the jobs ask Spark for, once, of rows that say nothing: for whoever records which classes that takes.

    spark-submit --py-files JOBS.zip spark_jobs/rehearsal.py --output FOLDER

Started by `kafka_maintenance.spark.class_archive`. What it writes to FOLDER means nothing.
"""

import argparse
import sys
from collections.abc import Sequence

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects
from pyspark.sql.types import StructType

from spark_jobs import schemas
from spark_jobs.io import datasets
from spark_jobs.on_core import agreement
from spark_jobs.transforms import imbalance


def run(spark: SparkSession, folder: str) -> None:
    """Reads and writes Parquet, joins, groups, and asks the core through Python workers."""
    partitions = _stored(spark, schemas.PARTITIONS, f"{folder}/partitions")
    facts = datasets.through_driver(_stored(spark, schemas.CORE_FACTS, f"{folder}/facts"), schemas.CORE_FACTS)
    results = (imbalance.imbalance(partitions, facts), agreement.core_judgement(partitions, facts))
    for number, result in enumerate(results):
        result.write.mode("overwrite").parquet(f"{folder}/result-{number}")


def _stored(spark: SparkSession, schema: StructType, path: str) -> DataFrame:
    nulls = (F.lit(None).cast(field.dataType).alias(field.name) for field in schema.fields)
    spark.range(1).select(*nulls).write.mode("overwrite").parquet(path)
    return spark.read.schema(schema).parquet(path)


def main(argv: Sequence[str]) -> int:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="rehearsal", description=__doc__)
    parser.add_argument("--output", metavar="FOLDER", required=True)
    spark = datasets.session("rehearsal")
    try:
        run(spark, parser.parse_args(argv).output)
    finally:
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
