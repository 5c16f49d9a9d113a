"""The whole analysis at the size of a fleet, beside its bars: linear in rows, the history of many clusters, drills.

    python -m tests.benchmarks.bench_analysis [--only linear,history,compact,drill] [--scale 1.0]

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

from controller_core.adapters.object_store.open import open_store
from kafka_maintenance.operations.analysis.run import OF_HISTORY, stage
from kafka_maintenance.operations.snapshots.compact import keep_compact, months_of
from spark_jobs import nightly_analysis
from tests.benchmarks.bench_spark import cpu_of, days, family, peak_of, session
from tests.benchmarks.yardstick import yardstick
from tests.spark_jobs.worlds import DAY, World, put_in, write
from tests.visible_snapshots import visible_snapshots

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
            put_in(write(world, folder / "v1"), "partitions", buffer.getvalue(), rows=len(table))
    shutil.rmtree(folder / "rows")
    return folder / "v1"


def job(spark, store, *arguments):
    """Wall and CPU seconds of one job over `store`; tells those of each result."""
    output = ("--output", str(store.parent / "out"))
    return run(spark, "--input", str(store), *output, "--run", "bench", "--date", str(DAY), "--verified", *arguments)


def run(spark, *arguments):
    lines = []
    before, started = cpu_of(family()), time.perf_counter()
    nightly_analysis.run(spark, nightly_analysis.parse(list(arguments)), say=lines.append)
    wall, cpu = time.perf_counter() - started, cpu_of(family()) - before
    print("   ", "; ".join(line for line in lines if line.endswith(" s")), flush=True)
    return wall, cpu


def stored_in(folder):
    """Objects and MiB of the tables that history reads."""
    files = [path for name in OF_HISTORY for path in folder.rglob(f"{name}.parquet")]
    return f"{len(files):,} objects, {sum(path.stat().st_size for path in files) / 2**20:.1f} MiB"


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


def bench_compact(spark, folder, scale):
    """The same from the compact history, as the daily run reads it: kept a date at a time, and what that costs."""
    clusters = max(1, int(50 * scale))
    tables = write_fleet(folder, clusters, 30, 5_000)
    print(f"    snapshots: {stored_in(tables)}", flush=True)
    store = open_store(str(folder))
    chosen = visible_snapshots(store, day=DAY)
    for manifest in chosen:
        for month in months_of(store, manifest.cluster):
            keep_compact(store, manifest.cluster, month)
    print(f"    compact history: {stored_in(tables / 'history')}", flush=True)
    started = time.perf_counter()
    staged = stage(store, chosen, folder / "work", run_id="bench", day=DAY)
    print(f"    staged in {time.perf_counter() - started:.1f} s", flush=True)
    wall, cpu = run(spark, *staged.arguments, "--only", *HISTORY)
    told("the same from its compact history", clusters * 30 * 5_000, wall, cpu, 120 * scale)


def bench_drill(spark, folder, scale):
    """Clusters of 6,000 partitions, each broker and rack fails: 1 CPU s a cluster."""
    clusters = max(1, int(100 * scale))
    store = write_fleet(folder, clusters, 1, 6_000)
    wall, cpu = job(spark, store, "--only", "failure_drill", "not_analysed", "--drill-pairs-max", "0")
    told(f"drill, {clusters} clusters x 6,000", clusters * 6_000, wall, cpu, clusters)


BENCHES = {"linear": bench_linear, "history": bench_history, "compact": bench_compact, "drill": bench_drill}


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
