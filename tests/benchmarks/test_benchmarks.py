"""Benchmarks run to their end, at a size at which their figures mean nothing.

Those that need a session of Spark or a whole Airflow for minutes (`LONG`) are not run here.
"""

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.services

SMALL = {
    "bench_channels": ["--partitions", "100"],
    "bench_core": ["--partitions", "600", "--drills", "2"],
    "bench_drills": ["--rounds", "1", "1000"],
    "bench_kraft": ["100"],
    "bench_pages": ["--only", "Approvals"],
    "bench_planning": ["--sizes", "S", "--racks", "3", "--modes", "totals", "--kinds", "grow"],
    "bench_query": ["--partitions", "200", "--dates", "2", "--engine", "duckdb"],
    "bench_snapshots": [
        *("--topics", "20", "--partitions", "5", "--rounds", "1"),
        *("--singles", "100", "--watched-s", "0.5"),
    ],
    "bench_staging": ["--clusters", "1", "--days", "2", "--delay-ms", "1"],
    "bench_waiting": ["--waves", "2"],
    "bench_zookeeper_files": ["--topics", "20", "--partitions", "5"],
}
"""Benchmark → options of a small run."""
LONG = {"bench_analysis", "bench_fleet", "bench_spark"}


def test_no_benchmark_is_forgotten():
    assert {path.stem for path in Path(__file__).parent.glob("bench_*.py")} == SMALL.keys() | LONG


@pytest.mark.parametrize("name", SMALL)
def test_it_prints_its_figures(name):
    command = [sys.executable, "-m", f"tests.benchmarks.{name}", *SMALL[name]]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    missed_a_bar = done.returncode == 1 and "**no**" in done.stdout
    assert done.returncode == 0 or missed_a_bar, done.stderr[-3000:]
    assert "Traceback" not in done.stderr
    assert any(character.isdigit() for character in done.stdout)
