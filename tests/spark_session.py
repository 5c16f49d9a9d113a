"""The Spark session of the tests: one for all of a run, small and quiet; a conftest that imports `spark` has it."""

import os
import sys

import pytest

from kafka_maintenance.spark.submit import FEW_CONF, LEAN_CONF, QUICK_JAVA, recorded_classes
from spark_jobs.io.datasets import SESSION_CONF, with_classes_known

os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)  # executors are processes of their own
os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    from pyspark.sql import SparkSession

    scratch = tmp_path_factory.mktemp("spark")
    conf = {
        **FEW_CONF,
        **LEAN_CONF,
        **SESSION_CONF,
        "spark.default.parallelism": "2",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"{QUICK_JAVA} {recorded_classes()}",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.local.dir": str(scratch / "local"),
        "spark.sql.warehouse.dir": str(scratch / "warehouse"),
    }
    session = SparkSession.builder.master("local[2]").appName("tests").config(map=conf).getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield with_classes_known(session)
    session.stop()
