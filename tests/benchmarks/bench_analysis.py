"""The whole analysis at the size of a fleet, beside its bars: linear in rows, the history of many clusters, drills.

    python -m tests.benchmarks.bench_analysis [--only linear,history,drill] [--scale 1.0]

CPU seconds are those of the JVM and its Python workers, of one run in a session of its own, snapshots on local disk. `--scale 0.1` runs a tenth of the
rows and divides the bars likewise. Figures are printed, nothing is asserted.
"""

import argparse
import shutil
import subprocess
import sys
import tempfile
import time
from io import BytesIO
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from spark_jobs import nightly_analysis
from tests.benchmarks.bench_spark import cpu_of, days, family, peak_of, session
from tests.benchmarks.yardstick import yardstick
from tests.spark_jobs.worlds import DAY, World, put_in, write

BROKERS = 30
HISTORY = ("growth", "leader_churn", "unstable_partitions", "broker_history", "controller_churn", "not_analysed")


def write_fleet(folder, clusters, dates, partitions):
    """Snapshots of `clusters` clusters on `dates` dates, as the snapshot operation leaves them."""
    (folder / "rows").mkdir(parents=True)
    files = days(folder / "rows", dates, partitions, brokers=BROKERS)
    for number in range(clusters):
        for ago, file in zip(reversed(range(dates)), files, strict=True):
            world = World(cluster=f"c{number:04}", brokers={broker: f"r{broker % 3}" for broker in range(BROKERS)})
            world = world.on(ago)
            table = pq.read_table(file, partitioning=None)
            for name, value in (("cluster", world.cluster), ("snapshot_id", world.snapshot_id)):
                column = pa.array([value]).take(pa.array(np.zeros(len(table), np.int32)))
                table = table.set_column(table.schema.get_field_index(name), name, column)
            taken = pa.array([world.taken_at] * len(table), table.schema.field("taken_at").type)
            table = table.set_column(table.schema.get_field_index("taken_at"), "taken_at", taken)
            buffer = BytesIO()
            pq.write_table(table, buffer, compression="zstd")
            put_in(write(world, folder / "store"), "partitions", buffer.getvalue(), rows=len(table))
    shutil.rmtree(folder / "rows")
    return folder / "store"


def job(spark, store, *arguments):
    """Wall and CPU seconds of one job over `store`."""
    given = [
        "--input",
        str(store),
        "--output",
        str(store.parent / "out"),
        "--run",
        "bench",
        "--date",
        str(DAY),
        "--verified",
    ]
    before, started = cpu_of(family()), time.perf_counter()
    nightly_analysis.run(spark, nightly_analysis.parse([*given, *arguments]), say=list)
    return time.perf_counter() - started, cpu_of(family()) - before


def told(what, rows, wall, cpu, bar):
    print(
        f"{what:44} {rows / 1e6:6.2f}M rows  {wall:7.1f} s, {cpu:7.1f} CPU s (bar {bar:.0f}), peak {peak_of(family()):.2f} GB",
        flush=True,
    )


def bench_linear(spark, folder, scale):
    """One cluster, everything but plans and drill, three sizes: the CPU seconds grow no faster than the rows."""
    for place, size in enumerate((250_000, 500_000, 1_000_000)):
        rows = int(size * scale)
        store = write_fleet(folder / str(place), 1, 1, rows)
        wall, cpu = job(spark, store, "--no-plans", "--no-drill")
        told(f"analysis, {rows:,} partitions", rows, wall, cpu, 90 * rows / 1e6)


def bench_history(spark, folder, scale):
    """50 clusters, 30 dates, 5,000 partitions each."""
    clusters = max(1, int(50 * scale))
    store = write_fleet(folder, clusters, 30, 5_000)
    rows = clusters * 30 * 5_000
    wall, cpu = job(spark, store, "--only", *HISTORY)
    told(f"history, {clusters} clusters x 30 dates x 5,000", rows, wall, cpu, 120 * scale)


def bench_drill(spark, folder, scale):
    """Clusters of 6,000 partitions, each broker and rack fails: 1 CPU s a cluster."""
    clusters = max(1, int(100 * scale))
    store = write_fleet(folder, clusters, 1, 6_000)
    wall, cpu = job(spark, store, "--only", "failure_drill", "not_analysed", "--drill-pairs-max", "0")
    told(f"drill, {clusters} clusters x 6,000", clusters * 6_000, wall, cpu, clusters)


BENCHES = {"linear": bench_linear, "history": bench_history, "drill": bench_drill}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default=",".join(BENCHES), help="comma-separated: %(default)s")
    parser.add_argument("--scale", type=float, default=1.0)
    options = parser.parse_args()
    names = options.only.split(",")
    if len(names) > 1:  # none profits from what another one warmed up
        for name in names:
            command = [
                sys.executable,
                "-m",
                "tests.benchmarks.bench_analysis",
                "--only",
                name,
                f"--scale={options.scale}",
            ]
            subprocess.run(command, check=True)
        return
    folder = Path(tempfile.mkdtemp(prefix="bench-analysis-"))
    spark = session(folder, "4g", int(1_000_000 * options.scale))
    spark.sparkContext.setLogLevel("ERROR")
    print(f"{names[0]}: yardstick {yardstick():.2f} CPU s", flush=True)
    try:
        BENCHES[names[0]](spark, folder / names[0], options.scale)
    finally:
        spark.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main()
