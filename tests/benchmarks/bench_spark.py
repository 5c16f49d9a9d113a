"""Spark beside DuckDB on the same Parquet files, and the jobs at the sizes that docs/scaling.md speaks of.

    python -m tests.benchmarks.bench_spark [--only rows,history,day,drill,fleet] [--days 30] [--partitions 200000]

CPU seconds are those of the JVM and its Python workers, or of this process for DuckDB. Of a query's runs in one session the first
is told, the best of the next five (warm, as DuckDB's best of five), and the best of five after ten more (settled): by then the JVM
has less left to compile.
Figures are printed, nothing is asserted: they depend on the machine and on what else it does. How fast it is (`yardstick`) is told
before and after each part.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import duckdb
import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq

os.environ["PYSPARK_PYTHON"] = sys.executable
os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the name every PySpark reader expects
from pyspark.sql.window import Window

from kafka_maintenance.spark.submit import SparkSettings, submit_arguments
from spark_jobs import nightly_analysis, schemas
from spark_jobs.io import datasets
from spark_jobs.io.arrow import arrow_schema
from spark_jobs.on_core import bridge, drill
from spark_jobs.on_core.proposals import propose
from spark_jobs.planner.goals import Goals
from spark_jobs.transforms import deletion, history, imbalance
from tests.benchmarks.yardstick import yardstick
from tests.spark_jobs.worlds import World, write

CORES = 2
WARM, SETTLED = slice(1, 6), slice(16, 21)
RUNS = SETTLED.stop
BROKERS = 200
START = datetime(2026, 1, 1, 2, 30, tzinfo=UTC)


def session(folder, memory, rows=None):
    """A session as the daily job has it for that many rows."""
    settings = SparkSettings(driver_memory=memory)
    submit = submit_arguments("nightly_analysis", [], work_folder=folder, settings=settings, row_count=rows)
    builder = SparkSession.builder.master(f"local[{CORES}]").config("spark.driver.memory", memory)
    builder = builder.config(map=dict(datasets.SESSION_CONF))
    for key, value in submit.conf.items():
        builder = builder.config(key, value)
    return datasets.with_classes_known(builder.getOrCreate())


def family():
    """The JVM and its Python workers, not this process."""
    return psutil.Process().children(recursive=True)


def cpu_of(processes):
    total = 0.0
    for process in processes:
        try:
            times = process.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system + times.children_user + times.children_system  # of workers that ended, too
    return total


def peak_of(processes):
    """GB of resident memory that these processes had at most since they started (Linux)."""
    total = 0
    for process in processes:
        try:
            status = Path(f"/proc/{process.pid}/status").read_text()
        except FileNotFoundError:
            continue
        peak = status.partition("VmHWM:")[2].split()  # one that has just ended has none
        total += int(peak[0]) if peak else 0
    return total / 2**20


def spark_clock():
    return cpu_of(family())


def runs_of(work, count, clock=spark_clock):
    """(wall s, CPU s by `clock`, result) of each of `count` runs, in order."""
    found = []
    for _ in range(count):
        before, started = clock(), time.perf_counter()
        result = work()
        found.append((time.perf_counter() - started, clock() - before, result))
    return found


def cheapest(runs):
    return min(runs, key=lambda run: run[1])


def measured_here(work):
    """The best of five runs in this process."""
    return cheapest(runs_of(work, 5, time.process_time))


def drained(frame):
    frame.write.format("noop").mode("overwrite").save()


def lists(values, kept=None):
    """A list column of the rows of a matrix, of the values that are `kept` where that is given."""
    kept = np.ones(values.shape, bool) if kept is None else kept
    offsets = np.concatenate(([0], np.cumsum(kept.sum(1))))
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), pa.array(values[kept], pa.int32()))


def days(folder, count, partitions, brokers=BROKERS, seed=1):
    """`count` dates of one cluster, one Parquet file each: 2 % of the leaders change, 3 % of the partitions lag behind theirs."""
    dice = np.random.default_rng(seed)
    first = dice.integers(0, brokers, partitions)
    replicas = np.stack([first, (first + 1 + dice.integers(0, brokers // 3, partitions)) % brokers,
                         (first + brokers // 3 + 1 + dice.integers(0, brokers // 3, partitions)) % brokers], 1)  # fmt: skip
    number = np.arange(partitions)
    topics = pa.array([f"topic-{topic:05}" for topic in range(partitions // 50 + 1)])
    topic = pa.DictionaryArray.from_arrays(pa.array(number // 50, pa.int32()), topics).cast(pa.string())
    leader, epoch = replicas[:, 0].copy(), np.full(partitions, 3)
    files = []
    for day in range(count):
        changed = dice.random(partitions) < 0.02
        leader[changed] = replicas[changed, dice.integers(0, 3, changed.sum())]
        epoch[changed] += 1
        in_sync = (dice.random((partitions, 1)) >= 0.03) | (replicas == leader[:, None])
        taken = START + timedelta(days=day)
        same = {
            "cluster": pa.array(["alpha"]).take(pa.array(np.zeros(partitions, np.int32))),
            "snapshot_id": pa.array([f"{day:016x}-run"]).take(pa.array(np.zeros(partitions, np.int32))),
            "taken_at": pa.array([taken] * partitions, pa.timestamp("us", tz="UTC")),
            "topic": topic,
            "partition": pa.array(number % 50, pa.int32()),
            "replicas": lists(replicas),
            "adding": empty_lists(partitions),
            "removing": empty_lists(partitions),
            "preferred_leader": pa.array(replicas[:, 0], pa.int32()),
            "leader": pa.array(leader, pa.int32()),
            "leader_epoch": pa.array(epoch, pa.int32()),
            "isr": lists(replicas, in_sync),
        }
        rest = {
            "controller_epoch": 7, "recovery": 0, "state_version": 5, "state_mtime": None, "czxid": 100,
        }  # fmt: skip
        schema = arrow_schema(schemas.PARTITIONS)
        for name, value in rest.items():
            kind = schema.field(name).type
            same[name] = pa.nulls(partitions, kind) if value is None else pa.array(np.full(partitions, value), kind)
        path = folder / f"date-{day:03}.parquet"
        pq.write_table(pa.table([same[name] for name in schema.names], schema=schema), path, compression="zstd")
        files.append(str(path))
    return files


def empty_lists(count):
    return pa.ListArray.from_arrays(pa.array(np.zeros(count + 1), pa.int32()), pa.array([], pa.int32()))


def facts_of(spark, count, brokers=BROKERS, dead=0):
    """CORE_FACTS of `count` dates, held by the driver, as the daily job holds FACTS; the broker `dead` is not registered."""
    live = [broker for broker in range(brokers) if broker != dead]
    rows = [
        {
            "cluster": "alpha", "snapshot_id": f"{day:016x}-run", "taken_at": START + timedelta(days=day),
            "live": live, "rack_of": [{"broker_id": broker, "rack": f"r{broker % 3}"} for broker in live],
            "rack_count": 3, "queued_topics": [], "any_reassignment": False, "any_election": False,
            "kafka_version": "3.9", "inter_broker_protocol_version": "3.9", "imbalance_ratio_max": 0.1,
            "deletion_enabled": True, "unclean_election_default": False, "election_needs_isr": True,
            "election_blocked_by_reassignment": False, "deletion_blocked_by_election": False, "min_isr_default": 2,
            "controller_epoch": 9, "controller_epoch_version": 9, "reassign_requests": [], "election_requests": [],
            "topic_unclean": [], "topic_min_isr": [], "unreadable": [], "unreadable_states": [], "kraft_begun": False,
        }
        for day in range(count)
    ]  # fmt: skip
    return datasets.driver_rows(spark, rows, schemas.CORE_FACTS)


def line(name, rows, runs, duck_cost=None):
    """One query: its warm runs, beside DuckDB where that is given; then the first one and the settled ones."""
    wall, cpu, _ = cheapest(runs[WARM])
    text = f"{name:34} {rows / 1e6:6.1f}M rows  Spark {wall:6.2f} s, {cpu:6.2f} CPU s = {rows / cpu / 1e6:5.2f}M rows/CPU s"
    if duck_cost:
        text += f"   DuckDB {duck_cost[0]:6.2f} s, {duck_cost[1]:6.2f} CPU s   CPU ratio {cpu / duck_cost[1]:5.2f}"
    _, settled, _ = cheapest(runs[SETTLED])
    text += f"   first run {runs[0][1]:.2f} CPU s; settled {settled:.2f} CPU s = {rows / settled / 1e6:.2f}M"
    print(text, flush=True)


def plain_questions(partitions):
    """What the prototype asked whose speed set the bars: {name: (Spark's query, DuckDB's, CPU s of the prototype's DuckDB)}.

    No electability, no queue, no reasons; nothing but leaders is compared from date to date. DuckDB asked the same of as many
    rows there (6M in 30 dates, two threads): how much longer it takes here tells how much slower this machine is at this hour.
    """
    day = ("cluster", "taken_at")
    moved = F.count(F.when(F.col("leader") != F.col("preferred_leader"), 1)).alias("found")
    whole = F.size("isr") == F.size("replicas")
    alive = F.expr(f"forall(replicas, broker -> broker IN ({', '.join(map(str, range(BROKERS)))}))")
    days = Window.partitionBy("cluster", "topic", "partition").orderBy("taken_at")
    changed = (F.col("leader") != F.lag("leader").over(days)).cast("int").alias("found")
    return {
        "  plain: led by another, per broker": (
            partitions.groupBy(*day, "preferred_leader").agg(moved),
            "SELECT count(*) FILTER (leader <> preferred_leader) AS found FROM partitions GROUP BY cluster, taken_at, preferred_leader",
            0.10,
        ),
        "  plain: whole and alive, per topic": (
            partitions.groupBy(*day, "topic").agg(F.bool_and(whole & alive).cast("int").alias("found")),
            f"""SELECT bool_and(len(isr) = len(replicas)
                AND len(list_filter(replicas, lambda b: NOT list_contains({list(range(BROKERS))}, b))) = 0)::INT AS found
                FROM partitions GROUP BY cluster, taken_at, topic""",
            1.20,
        ),
        "  plain: leader changes": (
            partitions.select(changed),
            """SELECT (leader <> lag(leader) OVER (PARTITION BY cluster, topic, partition ORDER BY taken_at))::INT AS found
                FROM partitions""",
            2.73,
        ),
    }


def bench_rows(spark, folder, options):
    """Imbalance, eligibility of every topic, and history windows, beside DuckDB."""
    files = days(folder, options.days, options.partitions)
    rows = options.days * options.partitions
    partitions = spark.read.schema(schemas.PARTITIONS).parquet(*files)
    facts = facts_of(spark, options.days)
    duck = duckdb.connect()
    duck.execute(f"SET threads TO {CORES}; SET enable_progress_bar = false; SET TimeZone = 'UTC'")
    duck.execute(f"CREATE VIEW partitions AS SELECT * FROM read_parquet({files!r})")

    ours = runs_of(
        lambda: imbalance.imbalance(partitions, facts).agg(F.sum("imbalanced_count"), F.sum("electable_count")).first(),
        RUNS,
    )
    theirs = measured_here(lambda: duck.execute("""
        SELECT sum(m), sum(e) FROM (SELECT snapshot_id, preferred_leader, count(*) AS n,
          count(*) FILTER (leader IS NOT NULL AND leader <> preferred_leader) AS m,
          count(*) FILTER (leader <> preferred_leader AND list_contains(isr, preferred_leader) AND preferred_leader > 0) AS e
        FROM partitions GROUP BY ALL)""").fetchone())  # fmt: skip
    print(f"{'':34} same answer: {tuple(ours[0][2]) == tuple(theirs[2])}")
    line("imbalance", rows, ours, theirs)

    key = ["cluster", "snapshot_id", "topic"]
    queue = partitions.select(*key).distinct()
    empty = [F.lit(None).cast(field.dataType).alias(field.name) for field in schemas.REQUESTS.fields]
    requests = queue.select(*(
        F.lit("delete_topics").alias("kind") if field.name == "kind"
        else F.col(field.name) if field.name in key
        else column
        for field, column in zip(schemas.REQUESTS.fields, empty, strict=True)
    )).cache()  # fmt: skip
    topics = partitions.groupBy(*key).agg(F.count(F.lit(1)).cast("int").alias("partition_count")).cache()
    requests.count(), topics.count()
    for dead in (0, BROKERS // 2):
        live = [broker for broker in range(BROKERS) if broker != dead]
        told = facts_of(spark, options.days, dead=dead)
        ours = runs_of(
            lambda: (
                deletion.deletion_eligibility(partitions, topics, requests, told)  # noqa: B023 - run at once
                .agg(F.count_if("eligible"), F.sum(F.size("reasons")))
                .first()
            ),
            RUNS,
        )
        theirs = measured_here(lambda: duck.execute(f"""
            SELECT count(*) FILTER (reasons = 0), sum(reasons) FROM (SELECT snapshot_id, topic,
              sum(CASE WHEN len(list_filter(replicas, lambda b: NOT list_contains({live}, b))) > 0 THEN 1 ELSE 0 END
                + CASE WHEN len(adding) > 0 OR len(removing) > 0 THEN 1 ELSE 0 END) AS reasons
            FROM partitions GROUP BY ALL)""").fetchone())  # fmt: skip  # noqa: B023 - run at once
        print(f"{'':34} same answer: {tuple(ours[0][2]) == tuple(theirs[2])} {tuple(ours[0][2])}")
        line(f"eligibility, broker {dead} is dead", rows, ours, theirs)
    requests.unpersist(), topics.unpersist()

    ours = runs_of(
        lambda: (
            history.partition_changes(partitions)
            .agg(
                F.count_if("leader_changed"), F.sum("leader_epoch_steps"), F.count_if("isr_changed"), F.count_if("lags")
            )
            .first()
        ),
        RUNS,
    )
    theirs = measured_here(lambda: duck.execute("""
        SELECT count(*) FILTER (leader <> leader_before), sum(greatest(leader_epoch - epoch_before, 0)),
          count(*) FILTER (in_sync <> isr_before), count(*) FILTER (lags)
        FROM (SELECT leader, leader_epoch, in_sync, lags, lag(leader) OVER w AS leader_before,
          lag(leader_epoch) OVER w AS epoch_before, lag(in_sync) OVER w AS isr_before, lag(assigned) OVER w AS assigned_before
          FROM (SELECT cluster, topic, partition, czxid, taken_at, leader, leader_epoch, hash(isr) AS in_sync,
            hash(replicas) AS assigned, len(isr) < len(replicas) AS lags FROM partitions)
          WINDOW w AS (PARTITION BY cluster, topic, partition, czxid ORDER BY taken_at))""").fetchone())  # fmt: skip
    print(f"{'':34} same answer: {tuple(ours[0][2]) == tuple(theirs[2])}")
    line("history windows", rows, ours, theirs)

    pace = []
    for name, (query, sql, elsewhere) in plain_questions(partitions).items():
        ours = runs_of(lambda: query.agg(F.sum("found")).first(), RUNS)  # noqa: B023 - run at once
        theirs = measured_here(lambda: duck.execute(f"SELECT sum(found) FROM ({sql})").fetchone())  # noqa: B023 - run at once
        print(f"{'':34} same answer: {tuple(ours[0][2]) == tuple(theirs[2])}")
        line(name, rows, ours, theirs)
        pace.append(theirs[1] / elsewhere)
    print(
        f"DuckDB takes {', '.join(f'{times:.2f}' for times in pace)} times the CPU s that it took for these three questions, of 6M rows, "
        "on the machine that the bars were taken on"
    )


def bench_history(spark, folder, options):
    """Cost of the history job's windows over ever more dates."""
    files = days(folder, 365, 20_000)
    for count in (30, 90, 365):
        partitions = spark.read.schema(schemas.PARTITIONS).parquet(*files[:count])
        wall, cpu, _ = cheapest(runs_of(lambda: drained(history.partition_changes(partitions)), 2))  # noqa: B023 - run at once
        print(
            f"{f'history, {count} days x 20k':34} {count / 50:6.1f}M rows  {wall:.2f} s, {cpu:.2f} CPU s, "
            f"{cpu / count * 1000:.0f} CPU ms a date, peak so far {peak_of(family()):.2f} GB",
            flush=True,
        )


def bench_day(spark, folder, options):
    """The whole daily analysis of one 6,000-partition cluster in a warm session."""
    dice = np.random.default_rng(5)
    rows = []
    for place in range(6000):
        replicas = tuple(int(broker) for broker in dice.choice(30, 3, replace=False))
        rows.append((f"topic-{place // 50:03}", place % 50, replicas, replicas[int(dice.random() < 0.1)], replicas))
    world = World(
        brokers={broker: f"r{broker % 3}" for broker in range(30)}, partitions=tuple(rows), queued={"topic-000": 700}
    )
    write(world, folder / "in")
    given = ["--input", str(folder / "in"), "--run", "bench", "--date", str(world.day)]
    for name in ("first in its session", "warm", "warm again", "and again"):
        args = nightly_analysis.parse([*given, "--output", str(folder / name)])
        before, started = cpu_of(family()), time.perf_counter()
        nightly_analysis.run(spark, args, say=list)
        wall = time.perf_counter() - started
        print(
            f"daily analysis, 6k partitions, {name:22} {wall:6.1f} s, {cpu_of(family()) - before:6.1f} CPU s",
            flush=True,
        )


def bench_drill(spark, folder, options):
    """Every broker, every rack and 10 pairs of 200 brokers with 200k partitions."""
    files = days(folder, 1, 200_000)
    partitions = spark.read.schema(schemas.PARTITIONS).parquet(*files).repartition(CORES).cache()
    partitions.count()
    facts = facts_of(spark, 1)

    def work():
        partial = drill.failure_drill(partitions, facts).cache()  # several results come from it, as in the daily job
        return drill.ranked(bridge.results(partial, drill.PARTIAL)).count()

    before, started = cpu_of(family()), time.perf_counter()
    scenarios = work()
    wall = time.perf_counter() - started
    print(
        f"failure drill, 200 x 200k, {scenarios} failures {wall:6.1f} s, {cpu_of(family()) - before:6.1f} CPU s",
        flush=True,
    )


def bench_fleet(spark, folder, options):
    """Reassignment plans of 200 clusters of 6,000 partitions: wall time against the solver's own seconds."""
    (path,) = days(folder, 1, 6000, brokers=30)
    one = spark.read.schema(schemas.PARTITIONS).parquet(path)
    clusters = spark.range(options.clusters).select(F.format_string("cluster-%03d", "id").alias("name"))
    partitions = one.crossJoin(F.broadcast(clusters)).withColumn("cluster", F.col("name")).drop("name").cache()
    facts = (
        facts_of(spark, 1, brokers=30)
        .crossJoin(F.broadcast(clusters))
        .withColumn("cluster", F.col("name"))
        .drop("name")
        .cache()
    )
    partitions.count(), facts.count()
    shuffle = spark.conf.get("spark.sql.shuffle.partitions")
    spark.conf.set("spark.sql.shuffle.partitions", str(CORES * 4))

    def work():
        planned = bridge.per_snapshot(partitions, facts, propose(Goals()), schemas.PROPOSALS)
        return planned.agg(F.sum("solver_seconds"), F.sum("moves"), F.count("error")).first()

    wall, cpu, (solver, moves, failed) = cheapest(runs_of(work, 2))
    spark.conf.set("spark.sql.shuffle.partitions", shuffle)
    print(
        f"fleet, {options.clusters} x 6k partitions: {wall:.1f} s, {cpu:.1f} CPU s, solver {solver:.1f} CPU s, "
        f"{moves} moves, {failed} failed; wall / (solver / {CORES} cores) = {wall / (solver / CORES):.2f}",
        flush=True,
    )


BENCHES = {
    "rows": bench_rows,
    "history": bench_history,
    "day": bench_day,
    "drill": bench_drill,
    "fleet": bench_fleet,
}
KNOWN_ROWS = {"day": 6000, "drill": 200_000}
"""Rows that the job knows it will read, where they decide how its JVM is started."""


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(BENCHES), help="comma-separated: %(default)s")
    parser.add_argument("--days", type=int, default=30)
    parser.add_argument("--partitions", type=int, default=200_000)
    parser.add_argument("--clusters", type=int, default=200)
    parser.add_argument("--memory", default="4g")
    options = parser.parse_args()
    names = options.only.split(",")
    if len(names) > 1:  # a JVM for each: their Java options differ, and none profits from what another one warmed up
        given = [f"--{name}={getattr(options, name)}" for name in ("days", "partitions", "clusters", "memory")]
        for name in names:
            subprocess.run([sys.executable, "-m", "tests.benchmarks.bench_spark", "--only", name, *given], check=True)
        return
    (name,) = names
    folder = Path(tempfile.mkdtemp(prefix="bench-spark-"))
    started = time.perf_counter()
    spark = session(folder, options.memory, KNOWN_ROWS.get(name))
    spark.sparkContext.setLogLevel("ERROR")
    spark.range(10).count()
    print(
        f"{name}: session and first job {time.perf_counter() - started:.1f} s; load average {json.dumps(os.getloadavg())}; "
        f"yardstick {yardstick():.2f} CPU s",
        flush=True,
    )
    try:
        place = folder / name
        place.mkdir()
        BENCHES[name](spark, place, options)
        print(f"{name}: done; yardstick {yardstick():.2f} CPU s", flush=True)
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
