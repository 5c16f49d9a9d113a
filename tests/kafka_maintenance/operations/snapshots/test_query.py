"""Questions in SQL about stored snapshots, answered by Spark or by DuckDB."""

import functools
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from controller_core.model.errors import ObjectDamagedError
from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.snapshots import catalog as snapshots
from kafka_maintenance.operations.snapshots import query as snapshot_query
from kafka_maintenance.operations.snapshots.query import query_history, query_text
from kafka_maintenance.spark.submit import SparkJobError, SparkSettings
from tests.kafka_maintenance.operations.snapshots.taken import OPS, take
from tests.spark_jobs.worlds import World, publish, put_in, write


@pytest.fixture
def spark_job(monkeypatch):
    """A job that answers every query with its SQL and its inputs; `job(meanwhile)` calls that before it answers."""

    def install(meanwhile=lambda: None):
        def run_job(submit, log):
            words = Path(submit.arguments[0].removeprefix("@")).read_text().splitlines()
            given = dict(zip(words[::2], words[1::2], strict=True))
            meanwhile()
            rows = [[Path(given["--sql-file"]).read_text(), given["--input"]]]
            found = {"columns": ["sql", "input"], "types": ["string"] * 2, "rows": rows, "cut_off": False}
            Path(given["--output"]).write_text(json.dumps({**found, "snapshots": words.count("--input")}))

        monkeypatch.setattr(snapshot_query, "run_job", run_job)

    return install


def test_queries_that_overlap_keep_their_own_rows_and_fetch_one_after_the_other(
    corpus, tmp_path, spark_job, monkeypatch
):
    both, fetching, fetch = threading.Barrier(2, timeout=30), threading.Lock(), snapshots.fetch_tables
    arrived, locked, met = threading.Semaphore(0), snapshot_query.locked, threading.Event()

    def locked_and_counted(path):
        arrived.release()
        return locked(path)

    def fetch_alone(*arguments):
        assert fetching.acquire(blocking=False), "another query is fetching"
        if not met.is_set():  # the first one fetches when the second one has come as far as the lock
            met.set()
            assert [arrived.acquire(timeout=30), arrived.acquire(timeout=30)] == [True, True]
        folder = fetch(*arguments)
        fetching.release()
        return folder

    spark_job(both.wait)
    monkeypatch.setattr(snapshot_query, "locked", locked_and_counted)
    monkeypatch.setattr(snapshot_query, "fetch_tables", fetch_alone)
    asked = ("SELECT 1", "SELECT 2")

    def ask(sql):
        return snapshot_query.query_history(corpus, sql, folder=tmp_path / "q", engine="spark")

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(ask, asked))
    assert tuple(result.rows[0][0] for result in results) == asked
    assert list((tmp_path / "q" / "work").iterdir()) == []


def test_a_query_passes_over_what_cannot_be_read_and_says_so(corpus, tmp_path, spark_job):
    spark_job()
    lost = publish(World(cluster="other", brokers={1: None}), corpus)
    torn = publish(World(cluster="other", brokers={1: None}).on(1), corpus).object("brokers").key
    corpus.put(lost.key, b"{")
    corpus.put(torn, b"PAR1 no longer")
    result = snapshot_query.query_history(corpus, "SELECT 1", folder=tmp_path, engine="spark")
    assert (result.snapshots, "cluster=corpus" in result.rows[0][1]) == (1, True)
    told = [line for line in snapshot_query.query_text(result).splitlines() if line.startswith("passed over: ")]
    assert [lost.key in told[0], torn in told[1]] == [True, True]
    with pytest.raises(ObjectDamagedError, match="found 2 that cannot"):
        snapshot_query.query_history(corpus, "SELECT 1", folder=tmp_path, cluster="other")


def test_duckdb_answers_and_passes_over_rows_of_another_cluster(corpus, tmp_path, monkeypatch):
    monkeypatch.setattr(snapshot_query, "run_job", None)  # no Spark
    sql = "SELECT DISTINCT cluster, count(*) OVER () AS n FROM brokers"
    result = snapshot_query.query_history(corpus, sql, folder=tmp_path)
    assert (result.engine, result.types, result.passed_over) == ("duckdb", ("string", "bigint"), ())
    assert [row[0] for row in result.rows] == ["corpus"]
    place = write(World(cluster="ours", brokers={1: None}), tmp_path / "store" / "v1")
    theirs = write(World(cluster="theirs", brokers={1: None}), tmp_path / "elsewhere")
    put_in(place, "brokers", (theirs / "brokers.parquet").read_bytes())
    result = snapshot_query.query_history(corpus, sql, folder=tmp_path)
    assert ([row[0] for row in result.rows], result.snapshots) == (["corpus"], 1)
    assert "holds rows of" in result.passed_over[0]


def test_what_does_not_fit_into_memory_lies_in_the_folder_of_the_query(corpus, tmp_path, monkeypatch):
    ask, asked = snapshot_query.local_answer, "SELECT current_setting('temp_directory')"
    monkeypatch.setattr(snapshot_query, "local_answer", lambda _, *given, **named: ask(asked, *given, **named))
    ((place,),) = snapshot_query.query_history(corpus, "SELECT 1", folder=tmp_path).rows
    assert (Path(place).parent, Path(place).exists()) == (tmp_path / "work", False)


def test_the_engine_is_chosen_by_hand_or_by_the_statement(corpus, tmp_path, spark_job):
    spark_job()
    ask = functools.partial(snapshot_query.query_history, corpus, folder=tmp_path)
    assert ask("SELECT 1").engine == "duckdb"
    assert ask("SELECT 1", engine="spark").engine == "spark"
    assert ask("SELECT 1", settings=SparkSettings()).engine == "spark", "a deployment has named its Spark"
    assert ask("SELECT percentile(leader, 0.5) FROM partitions").engine == "spark"
    assert ask("SELECT nothing FROM partitions").engine == "spark", (
        "the engine that knows the language says what is wrong"
    )
    with pytest.raises(BadInputError, match="leave the engine out, and Spark runs it"):
        ask("SELECT percentile(leader, 0.5) FROM partitions", engine="duckdb")
    with pytest.raises(BadInputError, match=r"query refused by DuckDB: .*nothing"):
        ask("SELECT nothing FROM partitions", engine="duckdb")


def test_the_log_of_a_query_that_fails_is_kept(corpus, tmp_path, monkeypatch):
    def fail(submit, log):
        log.write_text("out of memory")
        raise SparkJobError(f"its log is {log}", 1)

    monkeypatch.setattr(snapshot_query, "run_job", fail)
    with pytest.raises(SparkJobError) as told:
        snapshot_query.query_history(corpus, "SELECT 1", folder=tmp_path, engine="spark")
    assert Path(str(told.value).removeprefix("its log is ")).read_text() == "out of memory"


@pytest.mark.services
def test_a_query_tells_what_its_rows_lack(half_open, chroot, store, tmp_path, monkeypatch):
    monkeypatch.setattr(
        snapshot_query,
        "_answer",
        lambda *_, **__: {"columns": [], "types": [], "rows": [], "cut_off": 0, "snapshots": 2},
    )
    take(chroot, store, auth=OPS)
    take(chroot, store, 1)
    text = query_text(query_history(store, "SELECT 1", folder=tmp_path))
    assert "/config/users could not be read in 1 of 2 snapshots: what it held then is unknown, not gone" in text
