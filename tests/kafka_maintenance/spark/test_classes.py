"""The classes of Spark, recorded once, are those that a job's JVM takes; a recording that failed leaves nothing."""

import subprocess
import sys

import pytest

from kafka_maintenance.spark import submit
from kafka_maintenance.spark.class_archive import record
from kafka_maintenance.spark.submit import SparkJobError, class_data_archive, recorded_classes, spark_submit_path


@pytest.mark.spark
def test_a_jvm_of_spark_takes_its_classes_from_the_archive(tmp_path):
    if not class_data_archive().is_file():  # `make setup` records
        record()
    log = tmp_path / "classes.log"
    options = f"-Xlog:class+load:file={log} {recorded_classes()}"
    command = [spark_submit_path(), "--driver-java-options", options, "--version"]
    subprocess.run(command, capture_output=True, check=True, timeout=300)
    found = [line for line in log.read_text().splitlines() if " org.apache.spark.deploy.SparkSubmit " in line]
    assert [line.rpartition("source: ")[2] for line in found] == ["shared objects file (top)"], (
        "record the classes again"
    )


@pytest.mark.parametrize(
    ("program", "words"),
    [
        pytest.param("#!/bin/sh\necho no room >&2\nexit 1\n", "status 1, expected 0(.|\n)*no room", id="the job fails"),
        pytest.param("#!/bin/sh\necho cannot dump\n", "not recorded(.|\n)*cannot dump", id="Java writes nothing"),
    ],
)
def test_a_recording_that_failed_leaves_what_was_there(tmp_path, monkeypatch, program, words):
    fake = tmp_path / "spark-submit"
    fake.write_text(program)
    fake.chmod(0o755)
    monkeypatch.setattr(submit, "spark_submit_path", lambda: str(fake))
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    archive = class_data_archive()
    archive.parent.mkdir(parents=True)
    archive.write_text("recorded before")
    with pytest.raises(SparkJobError, match=words):
        record()
    assert list(archive.parent.iterdir()) == [archive]
    assert archive.read_text() == "recorded before"
