"""Is a cut that says `consistent` exactly the state after its zxid? Judged against a writer that logs each transaction.

    python -m tests.snapshot_consistency --cuts 7 --rates 100,500,1000,3000 --servers standalone,ensemble

A process (`tests.snapshot_writer`) writes at a given rate and logs every transaction with its zxid. The quiet tree plus the
log up to the cut's zxid is compared with the cut: paths, data, czxid, mzxid, pzxid, version, cversion, number of children.
A run whose writer failed is an error; one whose writer had ended before the cut settled counts as no evidence.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from controller_core.adapters.snapshot.reader import Cut, ReadOptions, read_cut
from controller_core.adapters.snapshot.tree_writer import NewZnode, WriteOptions, write_tree
from tests.snapshot_writer import STATE, client_of


@dataclass
class Expected:
    """A znode as the log says it must be."""

    data: bytes
    czxid: int
    mzxid: int
    pzxid: int
    version: int
    cversion: int
    num_children: int


@dataclass(frozen=True)
class Verdict:
    """One cut judged: how many znodes are wrong, whether the writer was still at work when it settled."""

    server: str
    asked_rate: int
    rate: float
    consistent: bool
    evidence: bool
    wrong: int
    plain_wrong: int
    rounds: int
    unresolved: int
    scan_s: float
    settle_s: float
    plain_s: float


# ------------------------------------------------------------------------------------------------- the tree


def topics_tree(topic_count: int, partition_count: int) -> Iterator[NewZnode]:
    """Topics in Kafka's layout."""
    for path in ("/brokers", "/brokers/ids", "/brokers/topics"):
        yield NewZnode(path, b"")
    for number in range(topic_count):
        topic = f"/brokers/topics/topic-{number:05}"
        replicas = {str(partition): [1, 2, 3] for partition in range(partition_count)}
        yield NewZnode(topic, json.dumps({"version": 1, "partitions": replicas}, separators=(",", ":")).encode())
        yield NewZnode(f"{topic}/partitions", None)
        for partition in range(partition_count):
            yield NewZnode(f"{topic}/partitions/{partition}", None)
            state = STATE.format(leader=1 + partition % 3, epoch=0).encode()
            yield NewZnode(f"{topic}/partitions/{partition}/state", state)


def fill(hosts: str, topic_count: int, partition_count: int) -> None:
    """Writes the tree below the chroot of `hosts`, which is made."""
    host, _, chroot = hosts.partition("/")
    with client_of(host) as client:
        client.ensure_path(f"/{chroot}")
    with client_of(hosts) as client:
        write_tree(client, topics_tree(topic_count, partition_count), WriteOptions(count_max=100))


# ------------------------------------------------------------------------------------------------- the judge


def expected_tree(cut: Cut) -> dict[str, Expected]:
    """A quiet tree as the judge's starting point."""
    tree: dict[str, Expected] = {}
    for path, znode in cut.znodes.items():
        stat = znode.decoded_stat
        tree[path] = Expected(
            znode.data or b"", stat.czxid, stat.mzxid, stat.pzxid, stat.version, stat.cversion, stat.num_children
        )
    return tree


def replay(tree: dict[str, Expected], zxid: int, operations: Sequence[Sequence[str]]) -> None:
    """One transaction on the judge's tree."""
    for kind, path, data in operations:
        parent = tree[path.rpartition("/")[0] or "/"]
        if kind == "set":
            znode = tree[path]
            znode.data, znode.mzxid, znode.version = data.encode(), zxid, znode.version + 1
        elif kind == "create":
            tree[path] = Expected(data.encode(), zxid, zxid, zxid, 0, 0, 0)
            parent.cversion, parent.pzxid, parent.num_children = parent.cversion + 1, zxid, parent.num_children + 1
        else:
            del tree[path]
            parent.cversion, parent.pzxid, parent.num_children = parent.cversion + 1, zxid, parent.num_children - 1


def wrong_znodes(tree: dict[str, Expected], cut: Cut) -> list[str]:
    """Paths at which the cut is not the judge's tree."""
    wrong = sorted(tree.keys() ^ cut.znodes.keys())
    for path in tree.keys() & cut.znodes.keys():
        stat, data = cut.znodes[path].decoded_stat, cut.znodes[path].data or b""
        found = Expected(data, stat.czxid, stat.mzxid, stat.pzxid, stat.version, stat.cversion, stat.num_children)
        if found != tree[path]:
            wrong.append(path)
    return wrong


def judged(
    hosts: str, reader_hosts: str, *, server: str, rate: int, cuts: int, folder: Path, seed: int
) -> list[Verdict]:
    """Takes `cuts` cuts, each after a plain scan, while a writer runs, and judges them all."""
    options = ReadOptions(acls=False)
    log_file = folder / f"log-{server}-{rate}-{seed}.json"
    with client_of(reader_hosts) as reader:
        quiet = read_cut(reader, ReadOptions(acls=False))
        command = [sys.executable, "-m", "tests.snapshot_writer", hosts, str(rate), str(log_file), str(seed)]
        writer = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        try:
            while not Path(f"{log_file}.ready").exists():
                if writer.poll() is not None:
                    raise RuntimeError("the writer died before it began")
                time.sleep(0.02)
            taken = []
            for _ in range(cuts):
                with client_of(reader_hosts) as plain_reader:
                    plain = read_cut(plain_reader, ReadOptions(acls=False, method="plain"))
                with client_of(reader_hosts) as cut_reader:
                    taken.append((plain, read_cut(cut_reader, options)))
        finally:
            writer.send_signal(signal.SIGTERM)
            status = writer.wait(timeout=120)
    if status != 0:
        raise RuntimeError(f"the writer failed with status {status}: no ground truth")
    stored = json.loads(log_file.read_text())
    log = sorted(stored["log"])
    tree = expected_tree(quiet)
    at = 0
    verdicts: list[Verdict] = []
    for plain, cut in taken:
        wrong = []
        for state in (plain, cut):
            while at < len(log) and log[at][0] <= state.zxid:
                replay(tree, log[at][0], log[at][1])
                at += 1
            wrong.append(len(wrong_znodes(tree, state)))
        evidence = bool(log) and log[0][0] < cut.zxid < log[-1][0]
        verdicts.append(
            Verdict(
                server,
                rate,
                stored["rate"],
                cut.consistent,
                evidence,
                wrong[1],
                wrong[0],
                cut.rounds,
                cut.unresolved,
                cut.seconds[0],
                cut.seconds[1],
                plain.seconds[0],
            )
        )
    return verdicts


# ------------------------------------------------------------------------------------------------- the command


def report(verdicts: Sequence[Verdict]) -> str:
    """A table in Markdown, one row per server and rate."""
    lines = [
        (
            "| server | writes/s asked, reached | cuts (evidence) | consistent | wrong znodes in them | rounds | settling s "
            "| plain scan s | wrong znodes in a plain scan |"
        ),
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for server, rate in dict.fromkeys((each.server, each.asked_rate) for each in verdicts):
        own = [each for each in verdicts if (each.server, each.asked_rate) == (server, rate)]
        sure = [each for each in own if each.consistent]
        lines.append(
            f"| {server} | {rate}, {own[0].rate:.0f} | {len(own)} ({sum(each.evidence for each in own)}) | {len(sure)} "
            f"| {sum(each.wrong for each in sure)} | {_span(each.rounds for each in own)} "
            f"| {_span(round(each.settle_s, 3) for each in own)} | {_span(round(each.plain_s, 2) for each in own)} "
            f"| {_span(each.plain_wrong for each in own)} |"
        )
    total = [each for each in verdicts if each.consistent and each.evidence]
    lines.append(
        f"\n{len(total)} consistent cuts with evidence, {sum(each.wrong for each in total)} wrong znodes in them"
    )
    return "\n".join(lines)


def _span(values: Any) -> str:
    found = list(values)
    return f"{min(found)}" if min(found) == max(found) else f"{min(found)} to {max(found)}"


def main(arguments: Sequence[str]) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuts", type=int, default=7, help="per server and rate")
    parser.add_argument("--rates", default="100,500,1000,3000")
    parser.add_argument("--servers", default="standalone,ensemble")
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=50)
    found = parser.parse_args(arguments)
    verdicts: list[Verdict] = []
    for server in found.servers.split(","):
        with ExitStack() as stack:
            hosts, reader_hosts = started(stack, server)
            fill(f"{hosts}/kafka", found.topics, found.partitions)
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            for seed, rate in enumerate(map(int, found.rates.split(","))):
                verdicts += judged(
                    f"{hosts}/kafka",
                    f"{reader_hosts}/kafka",
                    server=server,
                    rate=rate,
                    cuts=found.cuts,
                    folder=folder,
                    seed=seed,
                )
                print(report(verdicts), flush=True)
    return int(any(each.wrong for each in verdicts if each.consistent))


def started(stack: ExitStack, server: str) -> tuple[str, str]:
    """Hosts to write to, hosts to read from: through a follower where there is one."""
    from kafka_maintenance.servers import ZooKeeperEnsemble, ZooKeeperServer

    if server == "standalone":
        hosts = stack.enter_context(ZooKeeperServer(heap_mb=1024)).hosts
        return hosts, hosts
    ensemble = stack.enter_context(ZooKeeperEnsemble(size=3))
    leader = ensemble.leader()
    follower = next(each for each in ensemble.servers if each is not leader)
    return leader.hosts, follower.hosts


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
