"""A throw-away ZooKeeper gets its tree by transactions or from a file of its own: drills, and copies that a rehearsal migrates.

    python -m tests.benchmarks.bench_drills [--rounds 2] [PARTITIONS ...]

By turns in one run; CPU seconds are those of this process and of the server. A line of a copy is from nothing to the tree that a
controller could migrate: `first` with the start of the server, `next` is another attempt of the same rehearsal, which wants a fresh tree.
"""

import argparse
import os
import platform
import statistics
import sys
import time
from collections import Counter, defaultdict
from datetime import UTC, datetime, timedelta

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.adapters.snapshot.tree_writer import write_tree
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import connect
from controller_core.adapters.zookeeper_files.jute import OPEN_ACL
from controller_core.adapters.zookeeper_files.snapshot_file import write_snapshot
from controller_core.adapters.zookeeper_files.tree import ROOT, Node, new_tree
from controller_core.ports.zookeeper import ANY_VERSION
from kafka_maintenance.operations.kraft.rehearsal.copy import copy_of
from kafka_maintenance.operations.restore.drill import restore_drill
from kafka_maintenance.operations.snapshots.take import take_snapshot
from kafka_maintenance.servers import Workspace, ZooKeeperServer
from tests.benchmarks.bench_kraft import BROKERS, big_tree
from tests.benchmarks.yardstick import yardstick

NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)
HEAP_MB = 1500
WHAT = ("drill", "copy, first", "copy, next")


def cpu_s():
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def file_of(copy, chroot, folder):
    """The copy below a chroot as a file that a server starts from; stats are made up, for a copy has none."""
    named = [(f"/{chroot}", b""), *((f"/{chroot}{znode.path}", znode.data) for znode in copy.znodes)]
    children = Counter(path.rpartition("/")[0] or ROOT for path, _ in named)
    nodes = [(ROOT, Node(b"", OPEN_ACL, 0, 0, 0, 0, 0, children[ROOT], 0, 0, 1))]
    nodes += [(path, Node(data, OPEN_ACL, 1, 1, 0, 0, 0, children[path], 0, 0, 1)) for path, data in named]
    own = [(path, node) for path, node in new_tree().nodes.items() if path != ROOT]
    folder.mkdir(parents=True)
    write_snapshot(folder / "snapshot.1", 1, [*nodes, *own], {})


def copies_by_transactions(copy):
    """Seconds and CPU seconds of the first copy and of the next one."""
    began, cpu = time.perf_counter(), cpu_s()
    with ZooKeeperServer(heap_mb=HEAP_MB) as server:
        costs = []
        for name in ("first", "next"):
            with connect(f"{server.hosts}/{name}", create_chroot=True) as session:
                write_tree(session.client, copy.znodes)
            costs.append(time.perf_counter() - began)
    return costs[0], costs[1] - costs[0], (cpu_s() - cpu) / 2


def copies_from_files(copy):
    """Likewise, where each copy has a server of its own."""
    costs = []
    cpu = cpu_s()
    for name in ("first", "next"):
        began = time.perf_counter()
        with Workspace.create_temporary() as workspace:
            file_of(copy, name, workspace.folder / "copy" / "version-2")
            with (
                ZooKeeperServer(workspace, name="copy", heap_mb=HEAP_MB) as server,
                connect(f"{server.hosts}/{name}") as session,
            ):
                assert session.children("/brokers/topics")
                costs.append(time.perf_counter() - began)
    return costs[0], costs[1], (cpu_s() - cpu) / 2


def a_drill(store, *, by_transactions):
    began, cpu = time.perf_counter(), cpu_s()
    report = restore_drill(store=store, cluster="blue", now=NOW, by_transactions=by_transactions)
    assert report.passed, report.differences[:3]
    return time.perf_counter() - began, cpu_s() - cpu


def stored(copy, changed=None):
    """A store with a snapshot of the copy, taken from a real server: of a cluster whose brokers are stopped, as registrations are ephemeral.

    With `changed`, path → data, and another one of the day after, when these were written.
    """
    store = MemoryStore("drills")
    for broker in BROKERS:
        copy = copy.without(f"/brokers/ids/{broker}")
    with Workspace.create_temporary() as workspace:
        file_of(copy, "k", workspace.folder / "source" / "version-2")
        with ZooKeeperServer(workspace, name="source", heap_mb=HEAP_MB) as server:
            address = ClusterAddress(f"{server.hosts}/k")
            take_snapshot(address=address, cluster="blue", store=store, run_id="r", now=NOW)
            if changed:
                with address.session() as session:
                    for path, data in changed.items():
                        session.set(path, data, ANY_VERSION)
                take_snapshot(address=address, cluster="blue", store=store, run_id="s", now=NOW + timedelta(days=1))
    return store


def bench(partitions, rounds):
    copy, found = copy_of(big_tree(partitions)), defaultdict(list)
    store = stored(copy)
    for _ in range(rounds):
        for way, copies in (("transactions", copies_by_transactions), ("file", copies_from_files)):
            found["drill", way].append(a_drill(store, by_transactions=way == "transactions"))
            first, following, cpu = copies(copy)
            found["copy, first", way].append((first, cpu))
            found["copy, next", way].append((following, cpu))
            print(partitions, way, *(found[what, way][-1] for what in WHAT), file=sys.stderr, flush=True)
    for (what, way), costs in sorted(found.items()):
        seconds, cpu = (statistics.median(column) for column in zip(*costs, strict=True))
        print(f"| {partitions:,} | {what} | {way} | {seconds:.1f} | {cpu:.1f} |", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("partitions", type=int, nargs="*", default=[10_000, 200_000])
    parser.add_argument("--rounds", type=int, default=2)
    arguments = parser.parse_args()
    print(
        f"{platform.machine()}, {os.cpu_count()} cores, load {os.getloadavg()[1]:.0f}, yardstick {yardstick():.2f} CPU s\n"
    )
    print("| partitions | what | by | seconds | CPU seconds |\n| --- | --- | --- | --- | --- |")
    for partitions in arguments.partitions:
        bench(partitions, arguments.rounds)


if __name__ == "__main__":
    main()
