"""Every benchmark in turn, each in a process of its own so that none keeps another's memory: `make bench`."""

import subprocess
import sys

BENCHMARKS = (
    *("bench_core", "bench_snapshots", "bench_staging", "bench_pages", "bench_planning", "bench_spark"),
    *("bench_analysis", "bench_waiting", "bench_query", "bench_fleet"),
)


def main() -> int:
    failed = []
    for name in BENCHMARKS:
        print(f"== {name}", flush=True)
        if subprocess.run([sys.executable, "-m", f"tests.benchmarks.{name}"], check=False).returncode:
            failed.append(name)
    if failed:
        print(f"did not end well: {', '.join(failed)}; what they say is above", file=sys.stderr)
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
