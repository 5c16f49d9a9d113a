"""What the core costs at 200 brokers and 200,000 partitions: `python -m tests.benchmarks.bench_core [--peer COMMAND]`.

CPU seconds of one process, requests built as in production; ZooKeeper is a dictionary in this process. `--peer` (or the
variable CORE_BENCH_PEER) is a command that prints what Kafka's own classes need for the same work, one line per
benchmark with its name's letter in parentheses and `cpu N unit/cpu-s`; the table then has the ratio.
"""

from __future__ import annotations

import argparse
import gc
import os
import re
import shlex
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from immutables import Map

from controller_core.context.builder import build_context
from controller_core.context.context import ControllerContext
from controller_core.controller.brokers import OnBrokerFailure
from controller_core.controller.elections import OFFLINE
from controller_core.controller.leader_imbalance import leader_imbalance
from controller_core.controller.partition_state_machine import ChangePartitionStates, StartPartitionMachine
from controller_core.controller.replica_state_machine import StartReplicaMachine
from controller_core.controller.step import Step
from controller_core.model.dialect import dialect_for
from controller_core.model.partitions import BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controller_core.model.states import PartitionState
from controller_core.runtime.simulated.answers import SimulatedAnswers
from tests.benchmarks.core_clusters import BROKERS, brokers, cluster, rows, run
from tests.benchmarks.core_memory import resident_mb


@dataclass(frozen=True)
class Row:
    """One line of the table: a bar is a rate to reach, or seconds, MB or a ratio not to exceed."""

    work: str
    letter: str
    value: float
    unit: str
    bar: str
    units_done: int = 0


def cpu(work: Callable[[], Any], *, collect: bool = True) -> tuple[float, Any]:
    if collect:
        gc.collect()
    start = time.process_time()
    result = work()
    return time.process_time() - start, result


def best(work: Callable[[], Any], runs: int = 2) -> tuple[float, Any]:
    """The quickest of some runs."""
    return min((cpu(work) for _ in range(runs)), key=itemgetter(0))


def bench_context(count: int) -> tuple[list[Row], ControllerContext]:
    decoded = list(rows(count))
    assignments = [(p, ReplicaAssignment(r)) for p, r in decoded]
    states = [(p, LeaderAndIsr(r[0], 0, r, controller_epoch=1)) for p, r in decoded]
    seconds, context = cpu(
        lambda: build_context(
            dialect=dialect_for("3.9"), brokers=brokers(), assignments=assignments, states=states, epoch=1
        )
    )
    return [
        Row("context from decoded snapshot tables", "c", seconds, "CPU s", "≤ 4 CPU s", count),
        Row("resident memory of that process", "", resident_mb(), "MB", "≤ 700 MB"),
    ], replace(context, epoch_zk_version=1)


def bench_elections(context: ControllerContext, count: int) -> Row:
    first: dict[BrokerId, set[TopicPartition]] = {}
    for partition, assigned in rows(count):
        first.setdefault(assigned[0], set()).add(partition)
    broken = replace(context, offline_dirs=Map({broker: frozenset(gone) for broker, gone in first.items()}))
    everything = tuple(broken.partitions)

    def work() -> Step:
        zookeeper = zookeepers.pop()
        offline = ChangePartitionStates(everything, PartitionState.OFFLINE)
        return run(broken, zookeeper, offline, ChangePartitionStates(everything, PartitionState.ONLINE, OFFLINE))

    zookeepers = [SimulatedAnswers(found=broken) for _ in range(2)]
    seconds, after = best(work, len(zookeepers))
    assert len(after.under_way.results.elected) == count
    return Row("elect all partitions (Offline → Online)", "a", count / seconds, "elections/CPU s", "14,000", count)


def bench_startup(count: int) -> Row:
    context = cluster(count, started=False)
    zookeeper = SimulatedAnswers(found=context)  # a start-up writes nothing
    seconds, _ = best(lambda: run(context, zookeeper, StartReplicaMachine(), StartPartitionMachine()))
    return Row("start both machines", "c'", 4 * count / seconds, "states/CPU s", "35,000", 4 * count)


def fail_one(context: ControllerContext, broker: int, *, collect: bool = False) -> tuple[float, Step]:
    zookeeper = SimulatedAnswers(found=context)
    dead = (BrokerId(broker),)
    return cpu(lambda: run(context.without_brokers(dead), zookeeper, OnBrokerFailure(dead)), collect=collect)


def bench_failures(context: ControllerContext, drills: int) -> Row:
    total = sum(fail_one(context, broker)[0] for broker in range(drills))
    all_of_them = total * BROKERS / drills
    return Row(
        f"failure drill: each of {BROKERS} brokers in turn", "a'", all_of_them, "CPU s", "≤ 60 CPU s, 64 in Kafka"
    )


def bench_memory(count: int) -> list[Row]:
    """Successors held at once, in a process of their own."""
    command = [sys.executable, "-m", "tests.benchmarks.core_memory", "--partitions", str(count)]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    one, elections, failures = map(float, printed.split())
    held = f"one context and {BROKERS} successors held at once"
    return [
        Row("memory of one context", "", one, "MB", ""),
        Row(f"{held}, one election each", "", (one + elections) / one, "x one", "≤ 2 x one"),
        Row(f"{held}, another broker failed in each", "", (one + failures) / one, "x one", "3 x the partitions"),
    ]


def bench_imbalance(context: ControllerContext, count: int) -> Row:
    seconds, _ = cpu(lambda: leader_imbalance(context))
    return Row("preferred-leader imbalance of all brokers", "b", count / seconds, "partitions/CPU s", "128,000", count)


def bench_growth(context: ControllerContext, count: int) -> Row:
    """The same change in a small and in a large cluster: a broker that leads and follows as many partitions."""
    small = cluster(count // 20)
    lost = BrokerId(7)
    keep = len(small.on_broker[lost])
    large = context
    extra = sorted(large.on_broker[lost])[keep:]
    moved = {
        p: large.entry(p)._replace(
            assignment=ReplicaAssignment(
                tuple(BrokerId((b + 1) % BROKERS) if b == lost else b for b in large.assignment(p))
            ),
            leadership=None,
            replica_states=(),
        )
        for p in extra
    }
    large = large.with_partitions(moved)
    # In turns, each after a full collection: neither finds its partitions in the processor's caches.
    runs = [[fail_one(size, lost, collect=True)[0] for size in (small, large)] for _ in range(3)]
    times = [min(each) for each in zip(*runs, strict=True)]
    return Row(f"one broker's failure, {count} against {count // 20} partitions", "", times[1] / times[0], "x", "≤ 3 x")


def bench_blackout(context: ControllerContext, count: int) -> Row:
    """Every broker fails at once, so that every election fails: the cost of a failure must not grow with their number."""
    everybody = tuple(map(BrokerId, range(BROKERS)))

    def each(context: ControllerContext) -> float:
        zookeeper = SimulatedAnswers(found=context)
        seconds, after = cpu(lambda: run(context.without_brokers(everybody), zookeeper, OnBrokerFailure(everybody)))
        assert len(after.under_way.results.failed) == len(after.context.partitions)
        return seconds / len(after.context.partitions)

    small = each(cluster(count // 20))
    return Row(
        f"every broker fails at once, a partition of {count} against {count // 20}",
        "",
        each(context) / small,
        "x",
        "≤ 3 x",
    )


def peer_rates(command: str) -> dict[str, float]:
    """Rates of the peer by letter, from lines such as `(a) elect … real batch  … cpu  14000 elections/cpu-s`."""
    printed = subprocess.run(shlex.split(command), capture_output=True, text=True, check=True).stdout
    rates = {}
    for line in printed.splitlines():
        found = re.match(r"\(([a-d]'?)\) (.*?)\s+[\d.]+ s wall\s+[\d.]+ s cpu\s+([\d.]+) ", line)
        if found and "no batch" not in found[2]:
            rates[found[1]] = float(found[3])
    return rates


def ratio(row: Row, rates: dict[str, float], count: int) -> str:
    if row.letter == "a'" and "a'" in rates:  # per led partition, of one broker
        return f"{count / rates[_FAILURES] / row.value:.2f}"
    if row.letter in rates and row.unit.endswith("/CPU s"):
        return f"{row.value / rates[row.letter]:.2f}"
    if row.letter == "c" and "c" in rates:
        return f"{row.units_done / row.value / rates['c']:.2f}"
    return ""


_FAILURES = "a'"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--partitions", type=int, default=200_000)
    parser.add_argument("--drills", type=int, default=BROKERS, help="brokers failed; the sum is scaled to all")
    parser.add_argument("--peer", default=os.environ.get("CORE_BENCH_PEER", ""))
    options = parser.parse_args()
    count = options.partitions
    table, context = bench_context(count)
    table.append(bench_elections(context, count))
    table.append(bench_startup(count))
    table.append(bench_imbalance(context, count))
    table.append(bench_growth(context, count))
    table.append(bench_blackout(context, count))
    table.append(bench_failures(context, options.drills))
    table += bench_memory(count)
    rates = peer_rates(options.peer) if options.peer else {}
    print(f"{count} partitions, RF 3, {BROKERS} brokers; CPU seconds of one process")
    print("| work | value | unit | bar | x Kafka's JVM |")
    print("| --- | --- | --- | --- | --- |")
    for row in table:
        print(f"| {row.work} | {row.value:,.2f} | {row.unit} | {row.bar} | {ratio(row, rates, count)} |")


if __name__ == "__main__":
    main()
