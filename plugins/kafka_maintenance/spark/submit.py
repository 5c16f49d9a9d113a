"""The arguments of a Spark job: the one place that makes them, for the DAG's operator and for the command alike.

A job is a file of `spark_jobs`, started by `spark-submit` with one zip of `controller_core` and `spark_jobs`. The zip
holds only Python source; what those packages import (pyarrow, numpy, ortools, msgspec and immutables, which are compiled and cannot
travel in a zip) must be installed where the executors run. In local mode that is this very environment.
"""

import hashlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from typing import Any

import controller_core
import spark_jobs
from controller_core.adapters.host_names import hosts_in, unknown_hosts

FEW_ROWS_MAX = 50_000
"""Input rows up to which a job on a local master is quicker when Spark generates no code: between 6,000, where that saves a quarter of
the CPU, and 200,000, where it costs a half."""
FEW_CONF = {
    "spark.broadcast.blockSize": "64k",  # Spark clears 4 MB for each broadcast
    "spark.buffer.pageSize": "256k",  # and 4 to 64 MB, by the heap, for each join and aggregation, whatever they hold
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.files.minPartitionNum": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    "spark.sql.shuffle.partitions": "1",
}
"""What suits a job of so few rows."""
LEAN_CONF = {
    "spark.python.sql.dataFrameDebugging.enabled": "false",  # it asks the JVM five things for each column described
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
"""What no job uses, and each would pay for."""
QUICK_ROWS_MAX = 1_000_000
"""Input rows up to which the JVM's quick compiler alone is cheaper than both: a job asks each question once, and ends before the slow one has paid."""
COMPILES_ALL_JAVA = "-XX:-DontCompileHugeMethods"
"""Of its own accord the JVM interprets a method of over 8,000 bytes for ever. Spark writes a stage as one method: that of the findings took five times the CPU."""
QUICK_JAVA = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m -XX:+UseSerialGC"
"""Starts a job of so many rows. The cache is as large as a JVM with both compilers reserves: of its own accord this one reserves
48 MB, which the third run of a session fills, and then nothing more is compiled."""
LARGE_JAVA = "-XX:+UseParallelGC"
"""Starts another job on a local master: a tenth to a quarter less CPU than with the JVM's own choice where rows are sorted or joined."""
JAVA_OPTIONS = "spark.driver.extraJavaOptions"
EXECUTOR_JAVA_OPTIONS = "spark.executor.extraJavaOptions"
_PACKAGES = (controller_core, spark_jobs)
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)
_LOG4J2 = """\
# Warnings and errors of Spark only; the job prints its own progress.
status = error
rootLogger.level = warn
rootLogger.appenderRef.console.ref = console
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{HH:mm:ss} %p %c{1}: %m%n%ex
logger.native.name = org.apache.hadoop.util.NativeCodeLoader
logger.native.level = error
logger.conf.name = org.apache.spark.SparkConf
logger.conf.level = error
"""


class SparkJobError(Exception):
    """A Spark job cannot be started, or ended with a failure; `status` is its exit status, None when not started."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """What an installation chooses; the defaults suit one machine of two cores.

    `master` as spark-submit takes it; `driver_memory` with a unit (in local mode the driver is the executor);
    `shuffle_partitions` about twice the cores; `jars` local paths, e.g. the S3A set of docs/scaling.md; `conf` wins
    over everything that is set here.
    """

    master: str = "local[2]"
    driver_memory: str = "2g"
    shuffle_partitions: int = 4
    jars: tuple[str, ...] = ()
    conf: Mapping[str, str] = field(default_factory=dict)

    @property
    def local(self) -> bool:
        """Whether driver and executors are one process on this machine."""
        return self.master.startswith("local")


@dataclass(frozen=True, slots=True)
class SubmitArguments:
    """One spark-submit, as data."""

    application: str
    name: str
    settings: SparkSettings
    py_files: str
    conf: Mapping[str, str]
    arguments: tuple[str, ...]
    environment: Mapping[str, str]

    def command(self) -> list[str]:
        """The command line, for `subprocess`."""
        jars = ["--jars", ",".join(self.settings.jars)] if self.settings.jars else []
        conf = [part for key, value in sorted(self.conf.items()) for part in ("--conf", f"{key}={value}")]
        return [
            spark_submit_path(),
            *("--master", self.settings.master, "--name", self.name),
            *("--driver-memory", self.settings.driver_memory, "--py-files", self.py_files),
            *jars,
            *conf,
            self.application,
            *self.arguments,
        ]

    def operator_kwargs(self) -> dict[str, Any]:
        """Keyword arguments of `SparkSubmitOperator`; its connection names the master, so that is not among them."""
        return {
            "application": self.application,
            "name": self.name,
            "py_files": self.py_files,
            "jars": ",".join(self.settings.jars) or None,
            "driver_memory": self.settings.driver_memory,
            "conf": dict(self.conf),
            "application_args": list(self.arguments),
            "env_vars": dict(self.environment),
        }


def submit_arguments(
    job: str,
    arguments: Sequence[str],
    *,
    work_folder: Path,
    settings: SparkSettings | None = None,
    row_count: int | None = None,
) -> SubmitArguments:
    """How `spark_jobs/<job>.py` is started.

    Args:
        job: module name below `spark_jobs`, e.g. "nightly_analysis".
        arguments: the job's own command line.
        work_folder: gets the zip of the packages (named by its digest, so runs share it), the log settings and
            Spark's scratch files; made when absent.
        settings: master, memory and configuration; `SparkSettings()` when not given.
        row_count: rows that the job will read, where known; few rows on a local master start a leaner JVM.

    Raises:
        SparkJobError: there is no such job, or Spark would take the folder for a list of several.
    """
    settings = settings or SparkSettings()
    if "," in str(work_folder.absolute()):
        raise SparkJobError(
            f"Spark job {job!r} not started: expected a folder for its files without a comma, which separates folders for Spark, found {work_folder.absolute()}; "
            "name another"
        )
    application = Path(spark_jobs.__path__[0]) / f"{job}.py"
    if not application.is_file():
        raise SparkJobError(f"Spark job {job!r} not started: expected the file {application}; name a job that exists")
    work_folder = work_folder.absolute()
    work_folder.mkdir(parents=True, exist_ok=True)
    log_settings = work_folder / "log4j2.properties"
    _replace(log_settings, _LOG4J2.encode())
    return SubmitArguments(
        application=str(application),
        name=f"kafka-maintenance {job}",
        settings=settings,
        py_files=str(package_zip(work_folder)),
        conf=_conf(settings, work_folder, log_settings, row_count),
        arguments=tuple(arguments),
        environment=_environment(settings),
    )


def run_job(submit: SubmitArguments, log_file: Path) -> None:
    """Runs `submit` to its end; everything it prints goes to `log_file`.

    Raises:
        SparkJobError: the job ended with another status than 0 (its last lines are quoted), or could not be started.
    """
    master = submit.settings.master
    if unknown := unknown_hosts(hosts_in(master.rpartition("://")[2] if "://" in master else "")):
        raise SparkJobError(
            f"{submit.name} not started: {master}: no host of that name is known: {', '.join(unknown)}; check the spelling and the name service"
        )
    with log_file.open("wb") as log:
        environment = {**os.environ, **submit.environment}
        try:
            status = subprocess.run(
                submit.command(), stdout=log, stderr=subprocess.STDOUT, env=environment, check=False
            ).returncode
        except OSError as error:
            raise SparkJobError(f"{submit.name} not started: {error}; install the pinned requirements") from error
    if status != 0:
        last = "\n".join(log_file.read_text(errors="replace").splitlines()[-20:])
        raise SparkJobError(
            f"{submit.name} ended with status {status}, expected 0; its log is {log_file}, which ends:\n{last}", status
        )


def class_data_archive() -> Path:
    """Where `kafka_maintenance.spark.class_archive` keeps what it recorded, in this Python environment; nothing need be there."""
    return Path(sys.prefix) / "share" / "kafka-maintenance" / "spark-classes.jsa"


def recorded_classes() -> str:
    """The options with which a JVM of Spark takes its classes from the archive; empty where there is none.

    One that fits another Java or other jars is passed over by the JVM, which would say so in the log of each job.
    """
    archive = class_data_archive()
    return f'-XX:SharedArchiveFile="{archive}" -Xlog:cds=off -Xlog:cds+dynamic=off' if archive.is_file() else ""


def package_zip(folder: Path) -> Path:
    """Writes `controller_core` and `spark_jobs` as one zip into `folder`; equal sources give an equal file and name."""
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in _PACKAGES:
            root = Path(package.__path__[0])
            for source in sorted(root.rglob("*.py")):
                member = zipfile.ZipInfo(f"{root.name}/{source.relative_to(root).as_posix()}", _ZIP_TIME)
                member.compress_type = zipfile.ZIP_DEFLATED
                archive.writestr(member, source.read_bytes())
    data = buffer.getvalue()
    target = folder / f"kafka_maintenance_jobs-{hashlib.sha256(data).hexdigest()[:12]}.zip"
    if not target.exists():
        _replace(target, data)
    return target


def spark_submit_path() -> str:
    """`spark-submit` of this Python environment, else the one on the PATH.

    Raises:
        SparkJobError: there is none.
    """
    beside = Path(sys.executable).parent / "spark-submit"
    found = str(beside) if beside.is_file() else shutil.which("spark-submit")
    if found is None:
        raise SparkJobError(
            f"no spark-submit beside {sys.executable} and none on the PATH: pip install the requirements"
        )
    return found


def _conf(settings: SparkSettings, work_folder: Path, log_settings: Path, row_count: int | None) -> dict[str, str]:
    local = settings.local
    few, quick = (local and row_count is not None and row_count <= most for most in (FEW_ROWS_MAX, QUICK_ROWS_MAX))
    java = f"{QUICK_JAVA if quick else LARGE_JAVA} {COMPILES_ALL_JAVA} {recorded_classes()} " if local else ""
    executors = {} if local else {EXECUTOR_JAVA_OPTIONS: COMPILES_ALL_JAVA}
    loopback = {"spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1"} if local else {}
    return {
        **loopback,
        **executors,
        JAVA_OPTIONS: f"{java}-Dlog4j2.configurationFile={log_settings.as_uri()}",
        "spark.local.dir": str(work_folder / "spark-local"),
        "spark.pyspark.driver.python": sys.executable,
        "spark.pyspark.python": sys.executable,  # of the executors; a cluster names its own in `SparkSettings.conf`
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(settings.shuffle_partitions),
        "spark.sql.warehouse.dir": str(work_folder / "spark-warehouse"),
        **LEAN_CONF,
        **(FEW_CONF if few else {}),
        **settings.conf,
    }


def _environment(settings: SparkSettings) -> dict[str, str]:
    here = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    return {**here, "SPARK_LOCAL_IP": "127.0.0.1"} if settings.local else here


def _replace(path: Path, data: bytes) -> None:
    """Writes `path` in one step, so that a job that starts at the same time never reads half of it."""
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_bytes(data)
    partial.replace(path)
