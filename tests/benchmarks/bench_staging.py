"""A fleet's dates chosen and staged from a real S3 server, whose answers come as late as those of a distant one.

    python -m tests.benchmarks.bench_staging [--clusters 10] [--days 60] [--delay-ms 20]

Beside it, in the same run, the plain way: each object fetched after the other, as `boto3` in a loop would.
Figures are printed, nothing is asserted: they depend on the machine and on what else it does.
"""

import argparse
import tempfile
import time
from datetime import timedelta
from pathlib import Path

from controller_core.adapters.object_store.open import open_store
from kafka_maintenance.operations.analysis import run as analyse
from kafka_maintenance.operations.snapshots.catalog import fetch_tables
from kafka_maintenance.operations.snapshots.choice import HISTORY_DAYS, choose, earlier_snapshots
from kafka_maintenance.servers import ObjectStoreServer
from tests.spark_jobs.worlds import DAY, World, publish


class Distant:
    """A store each of whose answers comes later; counts them."""

    def __init__(self, store, delay_s):
        self._store, self._delay_s, self.answers = store, delay_s, 0

    def __getattr__(self, name):
        found = getattr(self._store, name)
        if name not in {"get", "list"}:
            return found

        def late(*given):
            time.sleep(self._delay_s)
            self.answers += 1
            return found(*given)

        return late


def timed(what, store, work):
    before, started = store.answers, time.perf_counter()
    result = work()
    print(f"{what:32} {time.perf_counter() - started:7.1f} s, {store.answers - before:6} answers", flush=True)
    return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clusters", type=int, default=10)
    parser.add_argument("--days", type=int, default=60)
    parser.add_argument("--delay-ms", type=float, default=20)
    options = parser.parse_args()
    replicas = tuple(("topic", number, (1, 2, 3), 1, (1, 2, 3)) for number in range(100))
    with ObjectStoreServer() as server, tempfile.TemporaryDirectory() as scratch:
        store = open_store(
            server.create_bucket("bench"), endpoint_url=server.endpoint_url,
            access_key=server.access_key, secret_key=server.secret_key,
        )  # fmt: skip
        for number in range(options.clusters):
            for ago in range(options.days):
                day = DAY - timedelta(days=ago)
                publish(World(cluster=f"c{number:03}", day=day, brokers={1: "a"}, partitions=replicas), store)
        print(f"{options.clusters} clusters × {options.days} dates; {HISTORY_DAYS} dates are analysed", flush=True)
        distant = Distant(store, options.delay_ms / 1000)
        choice = timed("choose", distant, lambda: choose(distant, DAY))
        folder = Path(scratch)
        timed(
            "stage, several at a time",
            distant,
            lambda: analyse.stage(distant, choice.snapshots, folder / "ours", run_id="bench", day=DAY),
        )
        earlier, _ = earlier_snapshots(store, [manifest.cluster for manifest in choice.snapshots], DAY)
        timed(
            "one after the other",
            distant,
            lambda: [fetch_tables(distant, manifest, folder / "plain") for manifest in (*earlier, *choice.snapshots)],
        )


if __name__ == "__main__":
    main()
