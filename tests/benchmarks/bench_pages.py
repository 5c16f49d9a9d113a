"""How long the pages take to make at 1,000 clusters, and for a cluster of 200 brokers and 200,000 partitions; cold and warm, with memory.

`python -m tests.benchmarks.bench_pages [--only Plan]`. Cold: nothing of the store is in memory. Warm: the same page once more. HTML included. The CPU
seconds stand beside the wall time: on a busy machine they are what tells.
"""

import argparse
import tempfile
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import cache, partial
from multiprocessing import get_context
from time import perf_counter, process_time

import psutil

from controller_core.adapters.object_store.open import open_store
from controller_core.adapters.snapshot.manifest import changed_manifest, manifest_bytes, snapshot_prefix
from kafka_maintenance.operations.analysis import tables
from kafka_maintenance.operations.kraft.rehearsal.copy import copy_of
from kafka_maintenance.operations.plans.reassignment import plan_reassignment
from kafka_maintenance.web import render
from kafka_maintenance.web.views.approvals import Gate, approvals_page
from kafka_maintenance.web.views.cluster import cluster_page
from kafka_maintenance.web.views.clusters import Listed, clusters_page
from kafka_maintenance.web.views.execution import execution_page
from kafka_maintenance.web.views.history import Asked, history_page
from kafka_maintenance.web.views.plan import Named, plan_page
from kafka_maintenance.web.views.record import read_record
from kafka_maintenance.web.views.topic import topic_page
from kafka_maintenance.web.views.trend import Measure
from spark_jobs.planner.goals import Goals
from spark_jobs.planner.waves import Limits
from tests.benchmarks.bench_drills import stored
from tests.benchmarks.bench_kraft import BROKERS, PARTITIONS_PER_TOPIC, big_tree
from tests.kafka_maintenance.operations.kraft.trees import encoded, state
from tests.kafka_maintenance.web.fleet import Sick, publish
from tests.kafka_maintenance.web.records import BEGAN, GB, observed, put_record, started
from tests.visible_snapshots import visible_snapshots

BIG = Sick("big", brokers=200, racks=4, topics=2000, partitions=100, warnings=900, critical=20, growth=100)
FLEET = tuple(
    Sick(f"cluster-{number:04}", topics=2, partitions=3, warnings=number % 5, critical=number % 50 == 0)
    for number in range(1000)
)
WELL = Sick("well", brokers=200, racks=4, topics=2000, partitions=100)
PLANS = {1: "3,000 moves", 10: "30,000 moves"}  # brokers that are emptied
WAVES, OBSERVATIONS, LAGGING, GATES = 150, 10, 200, 1000
DATES = 30
PARTITIONS = 200_000
TREND = Measure("partitions", "leader_epoch", "mean")
COLD_S_MAX, WARM_S_MAX = 1.0, 0.3


def main() -> None:
    """Prints a line per page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="pages whose names begin so")
    only = parser.parse_args().only
    with tempfile.TemporaryDirectory() as folder:
        for name, make in _pages(folder).items():
            if name.startswith(only):
                _print(name, make())


def _pages(folder):
    """Name → what makes the store of the page and returns what makes the page."""

    @cache
    def store(name, dates, *clusters):
        made = open_store(f"{folder}/{name}")
        publish(made, clusters, dates=dates, snapshots=1)
        return made

    def clusters():
        fleet, listed = store("fleet", DATES, *FLEET), [Listed(name=one.name) for one in FLEET]
        return lambda: clusters_page(fleet, listed, {}, now=datetime.now(UTC))

    def plan(drained):
        of_plans = store("well", 1, WELL)
        goals = Goals(drain=frozenset(range(7, 7 + drained)))
        made = plan_reassignment(
            of_plans,
            "well",
            goals=goals,
            limits=Limits(in_max=20, out_max=20),
        )
        return partial(plan_page, of_plans, Named(kind=made.kind, cluster=made.cluster, digest=made.digest))

    def execution():
        of_record = open_store(f"{folder}/record")
        put_record(of_record, "well", "a" * 64, _record())
        now = BEGAN + timedelta(days=3)
        return lambda: execution_page(
            read_record(of_record, "well", "a" * 64), dag_of=str, withheld=lambda *_: "", now=now
        )

    @cache
    def two_dates():
        made = get_context("spawn").Process(target=_two_dates, args=(f"{folder}/two",))
        made.start()
        made.join()
        return open_store(f"{folder}/two")

    @cache
    def many_dates():
        _tables_of_earlier_dates(two_dates())
        return two_dates()

    def history(asked, store=two_dates):
        return partial(history_page, store(), ["blue"], asked, sees_analyses=True)

    return {
        "Clusters, 1,000 clusters, 30 dates": clusters,
        "Cluster, 200 brokers × 200,000 partitions": lambda: partial(cluster_page, store("big", 3, BIG), "big"),
        "Topic, of 2,000 with 200,000 partitions": lambda: partial(
            topic_page, store("big", 3, BIG), "big", "topic-100"
        ),
        **{f"Plan, {text} of 200,000 partitions": partial(plan, drained) for drained, text in PLANS.items()},
        f"Execution, {WAVES} waves, {WAVES * (OBSERVATIONS + 3)} events": execution,
        f"Approvals, {GATES:,} that wait": _approvals,
        "History, 200,000 partitions, 4,000 written": partial(history, Asked()),
        "History, the same with a trend": partial(history, Asked(trend=TREND)),
        f"History, the same with a trend over {DATES} dates": partial(history, Asked(trend=TREND), many_dates),
    }


def _record():
    """A plan of many waves, the last of which is under way with what lags."""
    events, minute = [("started", None, 0, started(steps=WAVES))], 0
    for wave in range(WAVES):
        events += [
            ("intended", wave, minute, {"bytes": 200 * GB, "estimate_s": 1800, "paths": ["/admin/reassign_partitions"]})
        ]
        events += [("requested", wave, minute, {"road": "admin_api"})]
        for look in range(OBSERVATIONS):
            minute += 2
            lagging = [
                {
                    "topic": f"topic-{at:03}",
                    "partition": 7,
                    "broker": at + 1,
                    "is_live": True,
                    "bytes_copied": look * GB,
                    "bytes": 10 * GB,
                }
                for at in range(LAGGING)
            ]
            detail = observed(120 * look, look, lagging, bytes_copied=look * 20 * GB, bytes=200 * GB)
            events += [("observed", wave, minute, detail)]
        if wave < WAVES - 1:
            events += [("verified", wave, minute, {"conditions": 400, "estimate_s": 1800, "took_s": 1700})]
    return events


def _approvals():
    now = datetime.now(UTC)
    gates = [
        Gate(
            dag_id="reassign_partitions",
            run_id=f"manual__{at}",
            cluster=f"cluster-{at:04}",
            subject="reassign: 12 partitions to move in 3 steps",
            requester="olivia",
            asked=now - timedelta(minutes=at),
            expires=now + timedelta(minutes=at),
            address="/dags/x",
        )
        for at in range(GATES)
    ]
    return lambda: approvals_page(gates, now=now)


def _two_dates(folder):
    """Stores two snapshots of one cluster, in between which 2 % of the partitions got another leader; in a process of its own, for its memory."""
    copy, changed = copy_of(big_tree(PARTITIONS)), {}
    for number in range(PARTITIONS // PARTITIONS_PER_TOPIC // 5):
        path = f"/brokers/topics/topic-{number:06d}/partitions/0/state"
        changed[path] = encoded(state(BROKERS[1], BROKERS))
    made, kept = stored(copy, changed), open_store(folder)
    for key in made.list("v1/"):
        kept.put(key, made.get(key))


def _tables_of_earlier_dates(store):
    """Adds snapshots of the dates before with as many partitions, so that there are `DATES`; without their raw layer, which a trend does not read."""
    first = visible_snapshots(store)[0]
    table = first.object("partitions")
    for day in range(1, DATES - 1):
        taken_at, name = first.taken_at - timedelta(days=day), f"{day}-earlier"
        prefix = snapshot_prefix(first.cluster, taken_at, name)
        moved = replace(table, key=f"{prefix}/partitions.parquet")
        store.put(moved.key, store.get(table.key))
        manifest = changed_manifest(
            first,
            prefix=prefix,
            date=str(taken_at.date()),
            taken_at=taken_at,
            snapshot_id=name,
            run_id=name,
            zxid=first.zxid - day,
            objects=(moved,),
        )
        store.put_new(manifest.key, manifest_bytes(manifest))


def _print(name, make) -> None:
    process = psutil.Process()
    tables.CACHE.clear()
    before = process.memory_info().rss
    seconds, cpu = [], []
    for _ in range(4):
        begin, begin_cpu = perf_counter(), process_time()
        text = render.page_html(make(), nonce="n")
        seconds.append(perf_counter() - begin)
        cpu.append(process_time() - begin_cpu)
    grown = (process.memory_info().rss - before) / 2**20
    cold, warm = seconds[0], min(seconds[1:])
    said = "within" if cold <= COLD_S_MAX and warm <= WARM_S_MAX else "ABOVE"
    print(
        f"{name:45} cold {cold:6.3f} s ({cpu[0]:6.3f} CPU)  warm {warm:6.3f} s ({min(cpu[1:]):6.3f} CPU)  {len(text) / 2**20:5.1f} MiB of HTML  "
        f"+{grown:6.1f} MiB  {said} the bars",
        flush=True,
    )


if __name__ == "__main__":
    main()
