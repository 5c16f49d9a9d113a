"""Speed and size of snapshots beside their peers, in one run on one machine.

    python -m tests.benchmarks.bench_snapshots [--topics 4000] [--partitions 50] [--rounds 3]

Peers are Java's ZooKeeper client, asynchronous and by multi-read (compiled when a JDK is there; without one ours is printed
alone), and single asynchronous creations by kazoo. Prints a table in Markdown with the bars of docs/snapshots.md; ends with
status 1 when a bar is missed.
"""

import argparse
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from controller_core.adapters.snapshot.decode import SnapshotIdentity, decode_tables
from controller_core.adapters.snapshot.format import raw_from_parquet, raw_layer, raw_to_parquet
from controller_core.adapters.snapshot.reader import ReadOptions, read_cut
from controller_core.adapters.snapshot.tree_writer import WriteOptions, write_tree
from controller_core.adapters.zookeeper.multi_read import GET_DATA, MultiRead, bounded
from kafka_maintenance.servers import ZooKeeperServer
from kafka_maintenance.servers.zookeeper import class_path
from tests.snapshot_consistency import topics_tree
from tests.snapshot_writer import client_of

JAVA = Path(__file__).with_name("StateReader.java")
READ_BATCH = 1000


@dataclass(frozen=True)
class Line:
    """One row of the result; `met` None: no bar."""

    what: str
    found: str
    bar: str
    met: bool | None


def bench(topic_count: int, partition_count: int, rounds: int, single_count: int, watched_s: float) -> list[Line]:
    """All measurements, on one server."""
    lines: list[Line] = []
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        server = stack.enter_context(ZooKeeperServer(heap_mb=2048))
        with client_of(server.hosts) as client:
            client.ensure_path("/kafka")
        hosts = f"{server.hosts}/kafka"
        znodes = list(topics_tree(topic_count, partition_count))
        with client_of(hosts) as client:
            seconds = timed(lambda: write_tree(client, znodes, WriteOptions()))
            restore_rate = len(znodes) / seconds
        states = [znode.path for znode in znodes if znode.path.endswith("/state")]
        lines += _restore_lines(server.hosts, restore_rate, single_count)
        lines += _read_lines(hosts, states, rounds, folder)
        lines += _cut_lines(hosts, rounds)
        lines += _table_lines(hosts)
        lines += _latency_lines(hosts, watched_s)
        lines += _memory_lines(hosts, folder)
    return lines


def timed(work) -> float:
    """Seconds that a call takes."""
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def _restore_lines(host: str, rate: float, single_count: int) -> list[Line]:
    with client_of(host) as client:
        client.ensure_path("/singles")
        pending: deque = deque()

        def single() -> None:
            for number in range(single_count):
                pending.append(client.create_async(f"/singles/{number:06}", b"x" * 80))
                if len(pending) > 256:
                    pending.popleft().get()
            while pending:
                pending.popleft().get()

        singles = single_count / timed(single)
        client.delete("/singles", recursive=True)
    return [
        Line("restore, transactions", f"{rate:,.0f} znodes/s", "", None),
        Line("single asynchronous creations", f"{singles:,.0f} znodes/s", "", None),
        Line("restore against single creations", f"{rate / singles:.1f} times", "≥ 8", rate / singles >= 8),
    ]


def _read_lines(hosts: str, states: list[str], rounds: int, folder: Path) -> list[Line]:
    chroot = "/" + hosts.partition("/")[2]
    rates: dict[str, list[float]] = {"ours": []}
    program = _java(folder)
    for _ in range(rounds):
        with client_of(hosts) as client:
            rates["ours"].append(len(states) / timed(lambda: _multi_read(client, chroot, states)))
        if program:
            (folder / "paths").write_text("\n".join(chroot + path for path in states))
            for mode in ("async", "multi"):
                found = subprocess.run(
                    [*program, hosts.partition("/")[0], str(folder / "paths"), mode],
                    capture_output=True,
                    text=True,
                    check=True,
                )
                rates.setdefault(mode, []).append(float(found.stdout.split()[-1]))
    median = {name: statistics.median(values) for name, values in rates.items()}
    lines = [Line(f"{len(states):,} states, multi-read through kazoo", f"{median['ours']:,.0f}/s", "", None)]
    if "async" not in median:
        return [*lines, Line("Java client", "not measured: no JDK (javac) here", "", None)]
    to_async, to_multi = median["ours"] / median["async"], median["ours"] / median["multi"]
    return [
        *lines,
        Line("Java client, asynchronous getData", f"{median['async']:,.0f}/s", "", None),
        Line("Java client, multi-read", f"{median['multi']:,.0f}/s", "", None),
        Line("ours against Java asynchronous", f"{to_async:.1f} times", "≥ 10", to_async >= 10),
        Line("ours against Java multi-read", f"{to_multi:.2f} times", "≥ 0.5", to_multi >= 0.5),
    ]


def _multi_read(client, chroot: str, paths: list[str]) -> int:
    pending: deque = deque()
    count = 0
    for group in bounded(paths, count_max=READ_BATCH):
        request = MultiRead([(GET_DATA, chroot + path) for path in group])
        result = client.handler.async_result()
        client._call(request, result)
        pending.append(result)
        if len(pending) >= 3:
            count += len(pending.popleft().get().answers())
    while pending:
        count += len(pending.popleft().get().answers())
    return count


def _java(folder: Path) -> list[str] | None:
    if shutil.which("javac") is None:
        return None
    classes = folder / "classes"
    subprocess.run(["javac", "-cp", class_path(), "-d", str(classes), str(JAVA)], check=True)
    return ["java", "-Xmx1g", "-cp", f"{classes}:{class_path()}", "StateReader"]


def _cut_lines(hosts: str, rounds: int) -> list[Line]:
    """The cut against the plain scan while a process writes 500 times a second."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        command = [sys.executable, "-m", "tests.snapshot_writer", hosts, "500", str(log), "0"]
        writer = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        try:
            while not Path(f"{log}.ready").exists():
                time.sleep(0.05)
            plain, cut = [], []
            for _ in range(rounds):
                for method, times in (("plain", plain), ("cut", cut)):
                    with client_of(hosts) as client:
                        options = ReadOptions(acls=False, method=method)
                        times.append(timed(partial(read_cut, client, options)))
        finally:
            writer.terminate()
            writer.wait()
    scan, whole = statistics.median(plain), statistics.median(cut)
    return [
        Line("plain scan at 500 writes/s", f"{scan:.2f} s", "", None),
        Line("consistent cut at 500 writes/s", f"{whole:.2f} s", "", None),
        Line("cut against plain scan", f"{whole / scan:.2f} times", "≤ 1.3", whole / scan <= 1.3),
    ]


def _table_lines(hosts: str) -> list[Line]:
    with client_of(hosts) as client:
        layer = raw_layer(read_cut(client, ReadOptions(acls=False)))
    content = raw_to_parquet(layer.table)
    per_znode = len(content) / layer.table.num_rows
    identity = SnapshotIdentity(cluster="c", snapshot_id="s", taken_at=datetime.now(UTC), zxid=1, consistent=True)
    began = time.process_time()
    seconds = min(timed(lambda: decode_tables(raw_from_parquet(content, "raw"), identity)) for _ in range(3))
    cpu = (time.process_time() - began) / 3
    return [
        Line(f"raw of {layer.table.num_rows:,} znodes", f"{per_znode:.1f} bytes/znode", "≤ 30", per_znode <= 30),
        Line("raw to tables, best of 3", f"{seconds:.2f} s ({cpu:.2f} s of CPU)", "≤ 3", seconds <= 3),
    ]


def _latency_lines(hosts: str, watched_s: float) -> list[Line]:
    """What another client feels: a read every 5 ms, alone and while snapshots are read."""
    alone = _latencies(hosts, watched_s, lambda: time.sleep(watched_s))

    def snapshots() -> None:
        until = time.monotonic() + watched_s
        while time.monotonic() < until:
            with client_of(hosts) as client:
                read_cut(client, ReadOptions(acls=False))

    during = _latencies(hosts, watched_s, snapshots)
    return [
        Line("another client's read, alone", f"median {alone[0]:.1f} ms, 99 % {alone[1]:.1f} ms", "", None),
        Line("another client's read, during cuts", f"median {during[0]:.1f} ms, 99 % {during[1]:.1f} ms", "", None),
    ]


def _latencies(hosts: str, watched_s: float, work) -> tuple[float, float]:
    """Measured by a process of its own, so that our own threads do not count."""
    code = (
        "import sys, time\n"
        "from tests.snapshot_writer import client_of\n"
        "found = []\n"
        "with client_of(sys.argv[1]) as client:\n"
        "    print('ready', flush=True)\n"
        "    until = time.monotonic() + float(sys.argv[2])\n"
        "    while time.monotonic() < until:\n"
        "        began = time.perf_counter()\n"
        "        client.get('/brokers/topics')\n"
        "        found.append(1000 * (time.perf_counter() - began))\n"
        "        time.sleep(0.005)\n"
        "found.sort()\n"
        "print(found[len(found) // 2], found[len(found) * 99 // 100])\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    child = subprocess.Popen(
        [sys.executable, "-c", code, hosts, str(watched_s)], stdout=subprocess.PIPE, text=True, env=environment
    )
    child.stdout.readline()
    work()
    median, worst = child.communicate()[0].split()
    return float(median), float(worst)


def _memory_lines(hosts: str, folder: Path) -> list[Line]:
    """Two snapshots, each a whole `take_snapshot` in a process of its own: the first reads every ACL, the next carries them over."""
    code = (
        "import sys, time\n"
        "from datetime import UTC, datetime\n"
        "from controller_core.adapters.object_store.open import open_store\n"
        "from controller_core.adapters.zookeeper.address import ClusterAddress\n"
        "from kafka_maintenance.operations.snapshots.take import take_snapshot\n"
        "address, store = ClusterAddress(sys.argv[1]), open_store(sys.argv[2])\n"
        "began = time.perf_counter()\n"
        "result = take_snapshot(address=address, cluster='c', store=store, run_id=sys.argv[3], now=datetime.now(UTC))\n"
        "assert result.consistent\n"
        "status = open('/proc/self/status').read()\n"  # ru_maxrss would begin with the parent's memory
        "print(time.perf_counter() - began, int(status.split('VmHWM:')[1].split()[0]) / 1024)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    lines = []
    for run_id, what in (
        ("first", "snapshot into a folder, every ACL read"),
        ("next", "snapshot, the ACLs carried over"),
    ):
        found = subprocess.run(
            [sys.executable, "-c", code, hosts, str(folder / "store"), run_id],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        )
        seconds, memory = map(float, found.stdout.split())
        lines += [
            Line(f"{run_id} {what}", f"{seconds:.1f} s", "", None),
            Line("its peak memory", f"{memory:.0f} MB", "≤ 600", memory <= 600),
        ]
    return lines


def main() -> int:
    """Prints the table; 1 when a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--topics", type=int, default=4000)
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--singles", type=int, default=10_000, help="znodes that are created one after the other")
    parser.add_argument("--watched-s", type=float, default=4, help="seconds for which another client reads")
    found = parser.parse_args()
    load = os.getloadavg()[0]
    print(f"{platform.machine()}, {os.cpu_count()} cores, load {load:.1f} at the start, medians of {found.rounds}\n")
    print("| what | found | bar | met |\n| --- | --- | --- | --- |")
    lines = bench(found.topics, found.partitions, found.rounds, found.singles, found.watched_s)
    for line in lines:
        print(
            f"| {line.what} | {line.found} | {line.bar} | {'' if line.met is None else 'yes' if line.met else '**no**'} |"
        )
    return int(any(line.met is False for line in lines))


if __name__ == "__main__":
    sys.exit(main())
