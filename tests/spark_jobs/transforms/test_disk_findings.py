"""Disks that are full or offline, and brokers that hold or lead much more than the others."""

import json

import pyarrow as pa
import pytest

from kafka_maintenance.operations.analysis.disks import DISKS
from spark_jobs import schemas
from spark_jobs.io.arrow import arrow_schema
from spark_jobs.transforms import disk_findings
from tests.spark_jobs.facts import facts_of
from tests.spark_jobs.worlds import World, frames

GIB = 2**30
WORLD = World(
    brokers={1: None, 2: None, 3: None}, partitions=(("t", 0, (1, 2, 3), 1, (1, 2, 3)), ("t", 1, (2, 3), 2, (2, 3)))
)


def log_dir(broker, *replicas, total=1000, usable=500, error=0):
    """Rows of one log directory, in GiB; `replicas` are (partition, size) of topic t."""
    own = {
        "cluster": WORLD.cluster,
        "taken_at": WORLD.taken_at,
        "broker_id": broker,
        "log_dir": "/data",
        "error_code": error,
    }
    own |= {"total_bytes": total and int(total * GIB), "usable_bytes": usable and int(usable * GIB)}
    rows = [
        {"topic": "t", "partition": number, "size": int(size * GIB), "is_future": False} for number, size in replicas
    ]
    return [{**own, **row} for row in rows or [{}]]


@pytest.fixture(scope="module")
def found(spark):
    """`found(*log_dirs)`: what is found in WORLD with these log directories."""
    tables = frames(spark, WORLD)
    told = facts_of(spark, tables, "{}")

    def found_with(*log_dirs):
        disks = pa.Table.from_pylist([row for rows in log_dirs for row in rows], schema=arrow_schema(schemas.DISKS))
        result = disk_findings.disk_findings(spark.createDataFrame(disks, schemas.DISKS), tables["partitions"], told)
        assert result.columns == schemas.FINDINGS.names
        return sorted((row["kind"], row["severity"], row["brokers"][0], row["detail"]) for row in result.collect())

    return found_with


def kinds(rows):
    return [row[:3] for row in rows]


@pytest.mark.parametrize(
    ("usable", "expected"),
    [
        pytest.param(150, [], id="just enough is left"),
        pytest.param(149, [("disk_nearly_full", "warning", 1)], id="less is left"),
        pytest.param(50, [("disk_nearly_full", "warning", 1)], id="not yet critical"),
        pytest.param(49, [("disk_nearly_full", "critical", 1)], id="critical"),
        pytest.param(None, [], id="Kafka before 3.3 does not say"),
    ],
)
def test_how_much_of_a_disk_is_left(found, usable, expected):
    total = 1000 if usable is not None else None
    assert kinds(found(log_dir(1, (0, 1), (1, 1), total=total, usable=usable))) == expected


def test_a_log_directory_that_is_offline(found):
    ((kind, severity, broker, detail),) = found(log_dir(2, total=None, usable=None, error=56))
    assert (kind, severity, broker) == ("log_dir_offline", "critical", 2)
    assert detail == "/data of broker 2 is offline (error 56): its replicas are; replace the disk"


def test_bytes_and_leaders_are_compared_with_the_average_broker(found):
    rows = found(log_dir(1, (0, 90)), log_dir(2, (0, 8), (1, 10)), log_dir(3, (1, 9)))
    assert kinds(rows) == [("bytes_skew", "warning", 1), ("leader_bytes_skew", "info", 1)]
    assert (
        rows[0][3] == "broker 1 holds 90.0 GiB, the average broker 39.0 GiB (2.3 times): plan a reassignment with sizes"
    )
    assert rows[1][3].startswith("broker 1 leads 90.0 GiB, the average broker 33.3 GiB")


def test_small_differences_and_brokers_that_did_not_answer_are_no_skew(found):
    assert found(log_dir(1, (0, 9)), log_dir(2, (1, 1)), log_dir(3)) == []
    assert found(log_dir(1, (0, 90)), log_dir(2, (1, 1))) == []


def test_sizes_whose_sum_is_no_long_end_no_job(found):
    """A broker may say any; in the session all clusters are analysed at once."""
    huge = 2**33 - 1
    rows = found(log_dir(1, (0, huge), (1, huge)), log_dir(2, (1, 1)), log_dir(3))
    assert kinds(rows) == [("bytes_skew", "warning", 1), ("leader_bytes_skew", "info", 1)]


def test_a_copy_between_two_directories_of_one_broker_does_not_lead(found):
    future = [{**row, "is_future": True} for row in log_dir(1, (0, 90))]
    assert kinds(found(future, log_dir(2, (1, 1)), log_dir(3))) == [("bytes_skew", "warning", 1)]


def test_the_columns_are_those_that_are_kept():
    assert json.dumps([[field.name, str(field.type)] for field in DISKS]) == json.dumps(
        [[field.name, str(field.type)] for field in arrow_schema(schemas.DISKS)]
    )
