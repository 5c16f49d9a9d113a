"""One function makes the arguments of every job."""

import shlex
import subprocess
import sys
import zipfile
from itertools import pairwise

import pytest

from kafka_maintenance.spark import submit
from kafka_maintenance.spark.submit import (
    COMPILES_ALL_JAVA,
    LARGE_JAVA,
    QUICK_JAVA,
    SparkJobError,
    SparkSettings,
    class_data_archive,
    package_zip,
    run_job,
    submit_arguments,
)


def test_the_zip_is_the_same_for_the_same_sources(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    first, second = package_zip(tmp_path / "a"), package_zip(tmp_path / "b")
    assert (first.name, first.read_bytes()) == (second.name, second.read_bytes())
    names = zipfile.ZipFile(first).namelist()
    assert {"controller_core/model/partitions.py", "spark_jobs/planner/planning.py"} <= set(names)
    assert all(name.endswith(".py") for name in names)


def test_the_zip_is_all_that_an_executor_needs(tmp_path):
    code = "import spark_jobs.on_core.drill, controller_core, sys; print(controller_core.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path.insert(0, {str(package_zip(tmp_path))!r}); {code}"],
        env={}, cwd=tmp_path, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert ".zip/controller_core" in found.stdout


def test_operator_and_command_say_the_same(tmp_path):
    made = submit_arguments(
        "nightly_analysis", ["--run", "r"], work_folder=tmp_path, settings=SparkSettings(jars=("a.jar",))
    )
    command, kwargs = made.command(), made.operator_kwargs()
    assert command[-3:] == [kwargs["application"], "--run", "r"]
    assert command[command.index("--py-files") + 1] == kwargs["py_files"]
    assert command[command.index("--jars") + 1] == kwargs["jars"] == "a.jar"
    told = dict(part.split("=", 1) for flag, part in pairwise(command) if flag == "--conf")
    assert told == kwargs["conf"]
    assert told["spark.sql.session.timeZone"] == "UTC"


@pytest.mark.parametrize(
    ("settings", "row_count", "java", "generates_code", "loopback"),
    [
        pytest.param(
            SparkSettings(), 150, f"{QUICK_JAVA} {COMPILES_ALL_JAVA}", False, True, id="few rows on this machine"
        ),
        pytest.param(SparkSettings(), 200_000, f"{QUICK_JAVA} {COMPILES_ALL_JAVA}", True, True, id="a large cluster"),
        pytest.param(SparkSettings(), 6_000_000, f"{LARGE_JAVA} {COMPILES_ALL_JAVA}", True, True, id="many rows"),
        pytest.param(SparkSettings(), None, f"{LARGE_JAVA} {COMPILES_ALL_JAVA}", True, True, id="unknown"),
        pytest.param(SparkSettings(master="spark://h:7077"), 150, "", True, False, id="a cluster"),
    ],
)
def test_the_rows_and_the_master_decide_how_the_jvm_is_started(
    tmp_path, monkeypatch, settings, row_count, java, generates_code, loopback
):
    monkeypatch.setattr(sys, "prefix", str(tmp_path))  # where no classes are recorded
    conf = submit_arguments("history", [], work_folder=tmp_path, settings=settings, row_count=row_count).conf
    assert conf["spark.driver.extraJavaOptions"].partition("-Dlog4j2")[0].strip() == java
    assert conf.get("spark.executor.extraJavaOptions") == (None if settings.local else COMPILES_ALL_JAVA)
    assert (conf.get("spark.sql.codegen.wholeStage") != "false") == generates_code
    assert ("spark.driver.host" in conf) == loopback


@pytest.mark.parametrize("master", ["local[2]", "spark://h:7077"])
def test_recorded_classes_are_named_to_jobs_on_a_local_master(tmp_path, monkeypatch, master):
    monkeypatch.setattr(sys, "prefix", str(tmp_path / "an environment"))

    def java_options():
        conf = submit_arguments("history", [], work_folder=tmp_path, settings=SparkSettings(master=master)).conf
        return shlex.split(conf["spark.driver.extraJavaOptions"])

    archive = class_data_archive()
    named = f"-XX:SharedArchiveFile={archive}"
    assert named not in java_options()
    archive.parent.mkdir(parents=True)
    archive.touch()
    assert (named in java_options()) == (master == "local[2]")


def test_a_folder_with_a_comma_is_told_and_not_made(tmp_path):
    with pytest.raises(SparkJobError, match=r"without a comma, .*name another"):
        submit_arguments("nightly_analysis", [], work_folder=tmp_path / "a,b")
    assert not list(tmp_path.iterdir())


def test_an_unknown_job_is_told(tmp_path):
    with pytest.raises(SparkJobError, match="name a job that exists"):
        submit_arguments("nightly_dance", [], work_folder=tmp_path)


@pytest.mark.parametrize(
    ("program", "status", "words"),
    [
        pytest.param("#!/bin/sh\necho no luck >&2\nexit 3\n", 3, "no luck", id="the job fails"),
        pytest.param("#!/bin/sh\nkill -9 $$\n", -9, "status -9", id="the job is killed"),
        pytest.param("#!/nowhere/sh\n", None, "not started", id="it does not start"),
    ],
)
def test_a_failed_job_quotes_its_log(tmp_path, monkeypatch, program, status, words):
    fake = tmp_path / "spark-submit"
    fake.write_text(program)
    fake.chmod(0o755)
    monkeypatch.setattr(submit, "spark_submit_path", lambda: str(fake))
    with pytest.raises(SparkJobError) as raised:
        run_job(submit_arguments("history", [], work_folder=tmp_path), tmp_path / "log")
    assert raised.value.status == status
    assert words in str(raised.value)


@pytest.mark.parametrize(
    "master",
    ["spark://nobody.invalid:7077", "spark://nobody.invalid:7077,no.invalid:7077", "k8s://https://nobody.invalid:6443"],
)
def test_a_master_that_nobody_knows_is_told_before_a_job_is_started(tmp_path, master):
    made = submit_arguments("history", [], work_folder=tmp_path, settings=SparkSettings(master=master))
    with pytest.raises(SparkJobError, match=r"not started: .*no host of that name is known: nobody\.invalid"):
        run_job(made, tmp_path / "log")
    assert not (tmp_path / "log").exists()
