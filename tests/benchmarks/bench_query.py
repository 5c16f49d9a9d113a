"""The ten documented questions, by DuckDB and by Spark, each as the command runs them: a process of its own for Spark.

    python -m tests.benchmarks.bench_query [--partitions 20000] [--dates 30] [--engine duckdb --engine spark] [--question 3]

CPU seconds include children. Figures are printed, nothing is asserted.
"""

import argparse
import os
import re
import tempfile
import time
from pathlib import Path

from controller_core.adapters.object_store.open import open_store
from kafka_maintenance.operations.snapshots.query import query_history
from tests.benchmarks.bench_analysis import write_fleet
from tests.benchmarks.yardstick import yardstick
from tests.source_files import ROOT


def cpu_s():
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--partitions", type=int, default=20_000)
    parser.add_argument("--dates", type=int, default=30)
    parser.add_argument(
        "--engine", choices=("duckdb", "spark"), action="append", help="may be repeated (default: both)"
    )
    parser.add_argument("--question", type=int, action="append", help="its number; may be repeated (default: all ten)")
    given = parser.parse_args()
    examples = re.findall(r"```sql\n(.*?)```", (ROOT / "docs" / "history.md").read_text(encoding="utf-8"), re.DOTALL)
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "root"
        root.mkdir()
        write_fleet(Path(folder), 1, given.dates, given.partitions).rename(root / "v1")
        store = open_store(str(root))
        print(f"1 cluster x {given.dates} dates x {given.partitions:,} partitions; yardstick {yardstick():.2f} CPU s")
        for number in given.question or range(1, len(examples) + 1):
            sql, told = examples[number - 1], []
            for engine in given.engine or ("duckdb", "spark"):
                wall, cpu = time.perf_counter(), cpu_s()
                found = query_history(store, sql, folder=Path(folder) / "cache", engine=engine)
                told.append(
                    f"{engine} {time.perf_counter() - wall:6.2f} s {cpu_s() - cpu:6.2f} CPU s {len(found.rows):6} rows"
                )
            print(f"question {number:2}: {'   '.join(told)}", flush=True)


if __name__ == "__main__":
    main()
