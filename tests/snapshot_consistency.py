"""Is a cut that says `consistent` exactly the state after its zxid? Judged against a writer that logs each transaction.

    python -m tests.snapshot_consistency --cuts 7 --rates 100,500,1000,3000 --servers standalone,ensemble

A process writes at a given rate (70 % random states, 15 % fifty hot ones, 10 % two far ones in one transaction, 5 % topics
made and removed) and logs every transaction with its zxid. The quiet tree plus the log up to the cut's zxid is compared
with the cut: paths, data, czxid, mzxid, pzxid, version, cversion, number of children. A run in which the writer failed, or
had ended before the cut settled, counts as no evidence.
"""

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from controller_core.adapters.snapshot_reader import Cut, ReadOptions, read_cut
from controller_core.adapters.snapshot_writer import NewZnode, WriteOptions, write_tree

STATE = '{{"controller_epoch":1,"leader":{leader},"version":1,"leader_epoch":{epoch},"isr":[1,2,3]}}'
HOT_COUNT = 50
IN_FLIGHT_MAX = 2000
TICK_S = 0.01


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


@contextmanager
def client_of(hosts: str) -> Iterator[KazooClient]:
    client = KazooClient(hosts, timeout=20)
    client.start(timeout=30)
    try:
        yield client
    finally:
        client.stop()
        client.close()


# ------------------------------------------------------------------------------------------------- the writer


class Writer:
    """Makes transactions at a rate and remembers each with its zxid."""

    def __init__(self, client: KazooClient, states: Sequence[str], rate: int, seed: int) -> None:
        self._client = client
        self._states = states
        self._hot = states[: len(states) : max(1, len(states) // HOT_COUNT)][:HOT_COUNT]
        self._rate = rate
        self._seed = seed  # the topics of an earlier writer stay
        self._random = random.Random(seed)
        self._own: deque[str] = deque()
        self._made = 0
        self._in_flight: deque[tuple[list[list[str]], Any]] = deque()
        self.log: list[tuple[int, list[list[str]]]] = []

    def run(self, stop: list[bool]) -> float:
        """Writes until `stop` is filled; the rate that was reached."""
        began = time.monotonic()
        count = 0
        while not stop:
            due = int((time.monotonic() - began) * self._rate) + 1
            while count < due and len(self._in_flight) < IN_FLIGHT_MAX:
                self._submit()
                count += 1
            while self._in_flight and (self._in_flight[0][1].ready() or len(self._in_flight) >= IN_FLIGHT_MAX):
                self._settle()
            time.sleep(TICK_S)
        elapsed = time.monotonic() - began
        while self._in_flight:
            self._settle()
        return count / elapsed

    def _submit(self) -> None:
        dice = self._random.random()
        if dice < 0.70:
            operations = [self._set(self._random.choice(self._states))]
        elif dice < 0.85:
            operations = [self._set(self._random.choice(self._hot))]
        elif dice < 0.95:
            operations = [self._set(path) for path in self._random.sample(self._states, 2)]
        elif dice < 0.98 or not self._own:
            topic = f"/brokers/topics/made-{self._seed}-{self._made:06}"
            self._made += 1
            self._own.append(topic)
            operations = [
                ["create", topic, "{}"],
                ["create", f"{topic}/partitions", ""],
                ["set", topic, '{"version":1,"partitions":{}}'],
            ]
        else:
            topic = self._own.popleft()
            operations = [
                ["delete", f"{topic}/partitions", ""],
                ["delete", topic, ""],
                self._set(self._random.choice(self._states)),
            ]
        self._in_flight.append((operations, self._send(operations)))

    def _set(self, path: str) -> list[str]:
        return ["set", path, STATE.format(leader=self._random.randint(1, 3), epoch=self._random.randint(0, 10**6))]

    def _send(self, operations: list[list[str]]) -> Any:
        if len(operations) == 1:
            return self._client.set_async(operations[0][1], operations[0][2].encode())
        transaction = self._client.transaction()
        for kind, path, data in operations:
            if kind == "set":
                transaction.set_data(path, data.encode())
            elif kind == "create":
                transaction.create(path, data.encode())
            else:
                transaction.delete(path)
        return transaction.commit_async()

    def _settle(self) -> None:
        operations, pending = self._in_flight.popleft()
        result = pending.get(timeout=60)
        answers = result if len(operations) > 1 else [result]
        failed = [answer for answer in answers if isinstance(answer, Exception)]
        if failed:
            raise RuntimeError(f"the writer failed at {operations}: {failed}")
        (zxid,) = {answer.mzxid for answer in answers if hasattr(answer, "mzxid")}
        self.log.append((zxid, operations))


def writer_main(hosts: str, rate: int, log_file: str, seed: int) -> None:
    """The process: writes until SIGTERM, then stores its log; any failure ends it with another status than 0."""
    stop: list[bool] = []
    signal.signal(signal.SIGTERM, lambda *_: stop.append(True))
    with client_of(hosts) as client:
        states = [
            f"/brokers/topics/{topic}/partitions/{partition}/state"
            for topic in sorted(client.get_children("/brokers/topics"))
            if topic.startswith("topic-")
            for partition in client.get_children(f"/brokers/topics/{topic}/partitions")
        ]
        random.Random(seed).shuffle(states)
        writer = Writer(client, states, rate, seed)
        Path(f"{log_file}.ready").touch()
        reached = writer.run(stop)
    Path(log_file).write_text(json.dumps({"rate": reached, "log": writer.log}))


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
    hosts: str, reader_hosts: str, *, server: str, rate: int, cuts: int, folder: Path, seed: int, rule: str = "events"
) -> list[Verdict]:
    """Takes `cuts` cuts, each after a plain scan, while a writer runs, and judges them all."""
    options = ReadOptions(acls="never", rule=rule)
    log_file = folder / f"log-{server}-{rate}-{seed}.json"
    with client_of(reader_hosts) as reader:
        quiet = read_cut(reader, ReadOptions(acls="never"))
        command = [
            sys.executable,
            "-m",
            "tests.snapshot_consistency",
            "--writer",
            hosts,
            str(rate),
            str(log_file),
            str(seed),
        ]
        writer = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)})
        try:
            while not Path(f"{log_file}.ready").exists():
                if writer.poll() is not None:
                    raise RuntimeError("the writer died before it began")
                time.sleep(0.02)
            taken = []
            for _ in range(cuts):
                with client_of(reader_hosts) as plain_reader:
                    plain = read_cut(plain_reader, ReadOptions(acls="never", method="plain"))
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
    if arguments[:1] == ["--writer"]:
        writer_main(arguments[1], int(arguments[2]), arguments[3], int(arguments[4]))
        return 0
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cuts", type=int, default=7, help="per server and rate")
    parser.add_argument("--rates", default="100,500,1000,3000")
    parser.add_argument("--servers", default="standalone,ensemble")
    parser.add_argument("--topics", type=int, default=1000)
    parser.add_argument("--partitions", type=int, default=50)
    parser.add_argument("--rule", choices=("events", "strict"), default="events")
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
                    rule=found.rule,
                )
                print(report(verdicts), flush=True)
    return int(any(each.wrong for each in verdicts if each.consistent))


def started(stack: ExitStack, server: str) -> tuple[str, str]:
    """Hosts to write to, hosts to read from: through a follower where there is one."""
    from kafka_maintenance.local import ZooKeeperEnsemble, ZooKeeperServer

    if server == "standalone":
        hosts = stack.enter_context(ZooKeeperServer(heap_mb=1024)).hosts
        return hosts, hosts
    ensemble = stack.enter_context(ZooKeeperEnsemble(size=3))
    leader = ensemble.leader()
    follower = next(each for each in ensemble.servers if each is not leader)
    return leader.hosts, follower.hosts


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
