"""A million partitions: import and export as a file of ZooKeeper's own, start of a server from it, snapshot, diff.

    python -m tests.benchmarks.bench_zookeeper_files [--topics 20000] [--partitions 50]

Each step is the command as an operator runs it, in a process of its own; its seconds, CPU seconds and peak memory are printed
as a table in Markdown. The first file is made here: two million znodes are made in no other way in a minute.
"""

import argparse
import contextlib
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from controller_core.adapters.object_store.open import FolderStore
from controller_core.adapters.zookeeper_files.jute import OPEN_ACL
from controller_core.adapters.zookeeper_files.snapshot_file import write_snapshot
from controller_core.adapters.zookeeper_files.tree import ROOT, Node, new_tree
from kafka_maintenance.servers import Workspace, ZooKeeperServer
from kafka_maintenance.servers.process import wait_until
from tests.benchmarks.yardstick import yardstick
from tests.snapshot_consistency import topics_tree
from tests.snapshot_writer import client_of
from tests.visible_snapshots import visible_snapshots

CHANGED_MAX = 1000
HEAP_MB = 5000
START_TIMEOUT_S = 900.0


def tree_file(folder, topics, partitions):
    """A file with that many partitions; the number of its znodes."""
    made = [("/brokers/ids", b""), ("/cluster", b""), ("/cluster/id", b'{"version":"1","id":"AAAAAAAAAAAAAAAAAAAAAA"}')]
    content = {znode.path: znode.data for znode in topics_tree(topics, partitions)} | dict(made)
    content.setdefault("/brokers", b"")
    children = Counter(each.rpartition("/")[0] for each in content)
    nodes = [(ROOT, Node(b"", OPEN_ACL, 0, 0, 0, 0, 0, children[ROOT], 0, 0, len(content)))]
    for zxid, name in enumerate(sorted(content), start=1):
        if name == "/":
            continue
        time_ms = 1_700_000_000_000 + zxid
        nodes.append((name, Node(content[name], OPEN_ACL, zxid, zxid, time_ms, time_ms, 0, children[name], 0, 0, zxid)))
    own = [(name, node) for name, node in new_tree().nodes.items() if name != ROOT]
    folder.mkdir(parents=True)
    write_snapshot(folder / f"snapshot.{len(nodes):x}", len(nodes), [*nodes, *own], {})
    return len(nodes)


@contextlib.contextmanager
def timed_server(workspace, lines, what):
    began = time.perf_counter()
    with contextlib.ExitStack() as stack:
        server = ZooKeeperServer(workspace, heap_mb=HEAP_MB, tick_time_ms=3000)
        stack.callback(server.stop)
        server.launch()
        wait_until(
            lambda: "Mode:" in server.command("srvr"),
            what="the server serves",
            timeout_s=START_TIMEOUT_S,
            children=[server.child],
        )
        lines.append((what, time.perf_counter() - began, None, None))
        yield server


def command(lines, what, *arguments):
    """Runs a command; its line in the table."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-m", "kafka_maintenance", *map(str, arguments)], stdout=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"{what}: exit status {process.returncode}")
    lines.append((what, time.perf_counter() - began, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024))
    print(*lines[-1], file=sys.stderr, flush=True)


def bench(topics, partitions):
    """The lines (what, seconds, CPU seconds, MB) and the number of znodes."""
    lines = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        store, files = FolderStore(folder / "store"), folder / "copy" / "zookeeper" / "version-2"
        common = ("--store", store.uri, "--cluster", "big")
        znodes = tree_file(folder / "first" / "version-2", topics, partitions)
        command(lines, "import of a ZooKeeper file", "import", folder / "first", *common)
        files.mkdir(parents=True)
        command(lines, "export as a ZooKeeper file", "export", "newest", "--zookeeper-snapshot", files, *common)
        size = sum(path.stat().st_size for path in files.iterdir())
        with timed_server(Workspace(folder / "copy"), lines, "start of a server from the exported file") as server:
            if "zk_digest_mismatches_count\t0" not in server.command("mntr"):
                sys.exit("the server's digest differs")
            with client_of(server.hosts) as client:
                changed = min(topics, CHANGED_MAX)
                for number in range(changed):
                    state = f"/brokers/topics/topic-{number:05}/partitions/0/state"
                    client.set(state, client.get(state)[0].replace(b'"leader":1', b'"leader":2'))
            command(lines, "snapshot of that server", "snapshot", "--zookeeper", server.hosts, *common)
        after, before = sorted(visible_snapshots(store, "big"), key=lambda each: each.method)
        command(lines, f"diff, {changed:,} states changed", "diff", before.snapshot_id, after.snapshot_id, *common)
        stored = sum(each.size for each in before.objects)
    return lines, znodes, size, stored


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=20_000)
    parser.add_argument("--partitions", type=int, default=50)
    arguments = parser.parse_args()
    unit = yardstick()
    lines, znodes, size, stored = bench(arguments.topics, arguments.partitions)
    print(
        f"{arguments.topics * arguments.partitions:,} partitions, {znodes:,} znodes; {platform.machine()}, {os.cpu_count()} cores, ",
        end="",
    )
    print(
        f"load {os.getloadavg()[1]:.0f}, yardstick {unit:.2f} CPU s; file {size / 1e6:,.0f} MB, snapshot {stored / 1e6:,.1f} MB\n"
    )
    print("| what | seconds | CPU seconds | peak memory, MB |\n| --- | --- | --- | --- |")
    for what, seconds, cpu, memory in lines:
        print(
            f"| {what} | {seconds:,.1f} | {'' if cpu is None else f'{cpu:,.1f}'} | {'' if memory is None else f'{memory:,.0f}'} |"
        )


if __name__ == "__main__":
    main()
