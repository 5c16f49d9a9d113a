"""The session of a job: what it asks its JVM for."""

import pyarrow.parquet as pq
import pytest
from py4j.clientserver import ClientServerConnection
from pyspark.sql import functions as F  # noqa: N812 - as everywhere

from spark_jobs import schemas
from spark_jobs.io import datasets

LOOKS_FOR_A_CLASS = "r\nu\n"


@pytest.mark.spark
def test_to_describe_columns_the_jvm_looks_for_no_class(spark, monkeypatch):
    asked = []
    send = ClientServerConnection.send_command

    def told(connection, command):
        asked.append(command)
        return send(connection, command)

    monkeypatch.setattr(ClientServerConnection, "send_command", told)
    described = F.when(F.col("a").isin(1, 2), F.array("b", F.lit(1))).otherwise(F.transform("c", lambda each: each + 1))
    assert described is not None
    assert asked
    assert [command for command in asked if command.startswith(LOOKS_FOR_A_CLASS)] == []


@pytest.mark.spark
def test_the_session_of_a_job_knows_the_classes_of_columns(spark):
    known = vars(spark.sparkContext._jvm)
    del known["functions"]
    datasets.session("a job")
    assert "functions" in known


@pytest.mark.spark
def test_rows_that_only_a_list_tells_apart_have_one_order(spark, tmp_path):
    same = {"cluster": "a", "snapshot_id": "s", "kind": "broker_down", "severity": "critical"}
    rows = [{**same, "brokers": [broker], "detail": f"broker {broker}"} for broker in (1, 2, 3)]
    for name, given in (("there", rows), ("back", rows[::-1])):
        frame = datasets.driver_rows(spark, given, schemas.FINDINGS)
        datasets.write_result(frame, str(tmp_path / name), "findings")
    found = [pq.read_table(tmp_path / name / "findings")["brokers"].to_pylist() for name in ("there", "back")]
    assert found == [[[1], [2], [3]]] * 2
