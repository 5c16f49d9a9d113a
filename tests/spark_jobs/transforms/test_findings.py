"""The words of findings that Spark makes are those of the core."""

import pytest
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects

from controller_core.model import words
from spark_jobs.transforms.findings import counted


@pytest.mark.parametrize("said", [("replica",), ("broker", "hold"), ("partition", "have"), ("topic", "are")])
def test_spark_counts_in_the_words_of_the_core(spark, said):
    numbers = (0, 1, 2, 21, 1_000, 1_234_567)
    frame = spark.createDataFrame([(number,) for number in numbers], "number bigint")
    found = frame.orderBy("number").select(counted(F.col("number"), *said)).collect()
    assert [text for (text,) in found] == [words.counted(number, *said) for number in numbers]
