"""Past one machine: a real standalone cluster and a real S3 server give what one machine gives, bit for bit.

The workers run in a Python environment of their own, made of the libraries that docs/scaling.md names; the repository
is not on its path, so all our code travels in the zip.
"""

import json
import os
import sys
import venv
from importlib.metadata import PackageNotFoundError, distribution
from io import BytesIO
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from packaging.requirements import Requirement

from controller_core.adapters.object_store.open import open_store
from controller_core.adapters.snapshot.parquet import table_to_parquet
from kafka_maintenance.operations.analysis import published as published_analyses
from kafka_maintenance.operations.analysis import run as analyse
from kafka_maintenance.operations.analysis.disks import DISKS
from kafka_maintenance.operations.analysis.disks import PREFIX as DISKS_PREFIX
from kafka_maintenance.operations.snapshots.catalog import fetch_tables
from kafka_maintenance.operations.snapshots.choice import choose
from kafka_maintenance.operations.snapshots.compact import keep_compact
from kafka_maintenance.servers.ports import free_ports
from kafka_maintenance.servers.process import start_child, wait_until
from kafka_maintenance.servers.s3 import ObjectStoreServer
from kafka_maintenance.servers.s3a_jars import s3a_jars
from kafka_maintenance.servers.workspace import Workspace
from kafka_maintenance.spark.submit import (
    FEW_CONF,
    QUICK_JAVA,
    SparkSettings,
    recorded_classes,
    run_job,
    submit_arguments,
)
from spark_jobs import nightly_analysis, query, schemas
from tests.spark_jobs.fleet import ALPHA, BETA, ROWS
from tests.spark_jobs.worlds import DAY, World, publish
from tests.visible_snapshots import visible_snapshots

pytestmark = pytest.mark.services

ON_EXECUTORS = ("immutables", "msgspec", "numpy", "ortools", "pandas", "pyarrow")
JAVA = f"{QUICK_JAVA} {recorded_classes()}"
BESIDE_OUR_PROGRAMS = Path(sys.executable).parent
CREDENTIALS = "software.amazon.awssdk.auth.credentials.EnvironmentVariableCredentialsProvider"


def executor_python(folder):
    """An environment with the documented libraries and what they need; nothing else."""
    venv.create(folder, with_pip=False)
    site = next((folder / "lib").glob("python*/site-packages"))
    waiting, seen = list(ON_EXECUTORS), set()
    while waiting:
        name = waiting.pop()
        try:
            found = distribution(name)
        except PackageNotFoundError:
            continue
        if name.lower() in seen:
            continue
        seen.add(name.lower())
        tops = {Path(file).parts[0] for file in found.files or () if Path(file).parts[0] not in {"..", "__pycache__"}}
        for top in tops:
            if not (site / top).exists():
                (site / top).symlink_to(Path(found.locate_file(top)).resolve())
        needs = [Requirement(text) for text in found.requires or ()]
        waiting += [need.name for need in needs if need.marker is None or need.marker.evaluate({"extra": ""})]
    return folder / "bin" / "python"


@pytest.fixture(scope="module")
def workspace():
    with Workspace.create_temporary() as made:
        yield made


@pytest.fixture(scope="module")
def s3(workspace):
    with ObjectStoreServer(workspace) as server:
        server.create_bucket("kafka")
        yield server


@pytest.fixture(scope="module")
def master(workspace, s3):
    """A master and two workers of one core each; yields the master's URL."""
    port, web, *worker_webs = free_ports(4)
    environment = {
        "PATH": os.environ["PATH"],
        "HOME": str(workspace.folder),
        "SPARK_HOME": pyspark.__path__[0],
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_DAEMON_JAVA_OPTS": JAVA,
        "AWS_ACCESS_KEY_ID": s3.access_key,
        "AWS_SECRET_ACCESS_KEY": s3.secret_key,
        **({"JAVA_HOME": os.environ["JAVA_HOME"]} if "JAVA_HOME" in os.environ else {}),
    }
    program = str(BESIDE_OUR_PROGRAMS / "spark-class")

    def start(name, class_name, *arguments):
        command = [program, f"org.apache.spark.deploy.{class_name}", "--host", "127.0.0.1", *arguments]
        return start_child(workspace, name, command, env=environment)

    url = f"spark://127.0.0.1:{port}"
    children = [start("master", "master.Master", "--port", str(port), "--webui-port", str(web))]
    for number, worker_web in enumerate(worker_webs, start=1):
        work = str(workspace.subfolder(f"work{number}"))
        sizes = ("--cores", "1", "--memory", "1g", "--webui-port", str(worker_web), "--work-dir", work)
        children.append(start(f"worker{number}", "worker.Worker", *sizes, url))

    def both_are_there():
        try:
            return httpx.get(f"http://127.0.0.1:{web}/json/").json()["aliveworkers"] == 2
        except (httpx.HTTPError, ValueError):
            return False

    wait_until(both_are_there, what="two workers are registered", timeout_s=180, children=children)
    yield url
    for child in reversed(children):
        child.stop()


@pytest.fixture(scope="module")
def store(s3):
    """Three clusters, one of them for three dates."""
    found = open_store(
        "s3://kafka/store",
        endpoint_url=s3.endpoint_url, access_key=s3.access_key, secret_key=s3.secret_key, region="us-east-1",
    )  # fmt: skip
    gamma = World(cluster="gamma", brokers=dict.fromkeys(range(6), "a"), partitions=ROWS)
    for world in (ALPHA.on(2), ALPHA.on(1), ALPHA, BETA, gamma):
        publish(world, found)
    return found


@pytest.fixture(scope="module")
def settings(workspace, master, s3):
    s3a = "spark.hadoop.fs.s3a."
    return SparkSettings(
        master=master,
        driver_memory="1g",
        jars=(f"{s3a_jars()[0].parent}/*.jar",),  # as docker-compose.yml names them
        conf={
            **FEW_CONF,
            f"{s3a}endpoint": s3.endpoint_url,
            f"{s3a}endpoint.region": "us-east-1",
            f"{s3a}path.style.access": "true",
            f"{s3a}connection.ssl.enabled": "false",
            f"{s3a}aws.credentials.provider": CREDENTIALS,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "768m",
            "spark.driver.extraJavaOptions": JAVA,
            "spark.executor.extraJavaOptions": JAVA,
            "spark.pyspark.python": str(executor_python(workspace.folder / "executor-python")),
        },
    )


@pytest.fixture
def elsewhere(s3, tmp_path, monkeypatch):
    """A driver that finds no repository, only its credentials."""
    monkeypatch.delenv("PYTHONPATH", raising=False)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3.access_key)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3.secret_key)
    monkeypatch.chdir(tmp_path)


def objects(store, analysis):
    """What an analysis published by name, its manifest apart: that one says when."""
    prefix = published_analyses.key_of(store, analysis.uri).removesuffix("manifest.json")
    return {
        key.removeprefix(prefix): store.get(key) for key in store.list(prefix) if not key.endswith("/manifest.json")
    }


def untimed(content):
    """A table without the only column that measures time."""
    table = pq.read_table(BytesIO(content))
    return table.drop_columns([name for name in ("solver_seconds",) if name in table.column_names])


def test_a_cluster_that_reads_s3_gives_what_one_machine_gives(spark, store, settings, tmp_path, elsewhere):
    chosen = choose(store, DAY).snapshots
    volume = {"cluster": "alpha", "taken_at": ALPHA.taken_at, "broker_id": 0, "log_dir": "/data", "error_code": 0}
    nearly_full = pa.Table.from_pylist([volume | {"total_bytes": 100, "usable_bytes": 3}], schema=DISKS)
    store.put(f"{DISKS_PREFIX}cluster=alpha/date={DAY}/r.parquet", table_to_parquet(nearly_full))
    staged = analyse.stage(store, chosen, tmp_path / "here", run_id="r", day=DAY)
    nightly_analysis.run(spark, nightly_analysis.parse(staged.arguments), say=list)
    beside = open_store(str(tmp_path / "beside"))
    here = objects(beside, published_analyses.publish(staged.output, beside, day=DAY, run_id="r"))

    assert keep_compact(store, "alpha", f"{DAY:%Y-%m}") is not None
    done = analyse.analyse(store, chosen, tmp_path / "there", run_id="r", day=DAY, spark_settings=settings)

    there = objects(store, done)
    assert set(there) == set(here) >= {f"{name}.parquet" for name in schemas.OUTPUTS} | {"report.md", "report.html"}
    for name in sorted(here):
        if name.endswith(".parquet"):
            assert untimed(there[name]).equals(untimed(here[name])), name
        else:
            assert there[name] == here[name], name
    assert b"3 clusters analysed" in there["report.md"]
    assert b"proven minimal" in there["report.md"]
    assert b"disk_nearly_full" in there["report.md"]
    compact = json.loads((tmp_path / "there" / "compact.json").read_text())
    assert [cluster for cluster, _ in compact["snapshots"]] == ["alpha"]
    assert {path[: len("s3a://")] for paths in compact["files"].values() for path in paths} == {"s3a://"}
    assert not (tmp_path / "there" / "input").exists()  # the workers read the store themselves
    assert not [key for key in store.list(analyse.UNPUBLISHED) if not key.endswith("/")]


def test_a_query_on_a_cluster_gives_what_it_gives_here(spark, store, settings, tmp_path, elsewhere):
    sql, here, there = (tmp_path / name for name in ("query.sql", "here.json", "there.json"))
    sql.write_text(
        "SELECT date, cluster, broker, count(*) AS replicas, avg(size(isr)) AS in_sync "
        "FROM partitions LATERAL VIEW explode(replicas) AS broker GROUP BY ALL ORDER BY ALL"
    )
    folders = {str(fetch_tables(store, manifest, tmp_path / "fetched")) for manifest in visible_snapshots(store)}
    query.run(spark, query.Args(inputs=tuple(folders), sql=sql.read_text(), output=here))

    given = ("--input", store.uri_of("v1").replace("s3://", "s3a://"), "--sql-file", str(sql), "--output", str(there))
    run_job(submit_arguments("query", given, work_folder=tmp_path / "work", settings=settings), tmp_path / "query.log")

    found = json.loads(there.read_text())
    assert found == json.loads(here.read_text())
    assert found["snapshots"] == len(folders) == 5
    assert {row[1] for row in found["rows"]} == {"alpha", "beta", "gamma"}
