"""Runs as active controller of real brokers, disturbed at every point, while an application writes with acks=all.

    python -m tests.kafka_maintenance.operations.act_as_controller.kill_matrix [--versions 3.9,2.8,2.4,1.1] [--points 'taken,written']

After each run a broker must be controller, every ISR whole, and the metadata of every broker as ZooKeeper has it; at the end every
acknowledged message must be readable. The rule that the controller be a minute old is switched off here, to save the waiting.
Prints a table for docs/reliability.md.
"""

import argparse
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

from controller_core.adapters.brokers.connection import BrokerConnection
from controller_core.model.errors import BrokerUnreachableError
from controller_core.model.partitions import TopicPartition
from kafka_maintenance.demo.traffic import Writer, message_counts
from kafka_maintenance.operations.act_as_controller import refusals
from kafka_maintenance.operations.act_as_controller.controllership import Point
from kafka_maintenance.servers.kafka import KafkaCluster
from tests.kafka_maintenance.operations.act_as_controller import world

FAULTS = ("killed", "stopped for 9 s", "cut off from ZooKeeper for 9 s", "cut off from one broker", "slowed")
POINTS = (Point.TAKEN, Point.ANNOUNCED, Point.READ, Point.WRITTEN, Point.LEADERS_TOLD, Point.METADATA_TOLD)
STOPPED_S = 9.0
SLOW_S = 2.0
_CONTEXT = multiprocessing.get_context("forkserver")
_CONTEXT.set_forkserver_preload(["tests.kafka_maintenance.operations.act_as_controller.world"])


class Row(NamedTuple):
    """One disturbed run."""

    version: str
    fault: str
    point: str
    ended: str
    moved: int
    healed_s: float
    gap_s: float


def disturb(fault: str, there: Any, cut: Any) -> None:
    """What happens to this process at its point."""
    there.set()
    if fault == "killed":
        os.kill(os.getpid(), signal.SIGKILL)
    elif fault == "stopped for 9 s":
        os.kill(os.getpid(), signal.SIGSTOP)
    elif fault == "cut off from ZooKeeper for 9 s":
        cut.wait(5)
    elif fault == "cut off from one broker":
        real = BrokerConnection.ask

        def ask(self: Any, *given: Any, **named: Any) -> Any:
            if "broker 3 at" in self._where:
                raise BrokerUnreachableError("cut off")
            return real(self, *given, **named)

        BrokerConnection.ask = ask  # type: ignore[method-assign]
    else:
        time.sleep(SLOW_S)


def child(folder: str, plan: Any, hosts: str, fault: str, point: str, there: Any, cut: Any, result: Any) -> None:
    refusals.CONTROLLER_AGE_MIN_MS = 0  # type: ignore[misc]

    def at(reached: Point) -> None:
        if reached == point:
            disturb(fault, there, cut)

    try:
        receipt = world.act(Path(folder), plan, hosts, at=at, verify_timeout_s=20.0)
        result.put("done" if not receipt.exceptions else f"done, {len(receipt.exceptions)} left out")
    except Exception as error:  # noqa: BLE001 - how it ends is what is noted
        result.put(f"{type(error).__name__}: {str(error)[:300]}")


class Matrix:
    """One version's cluster, and its runs."""

    def __init__(self, kafka: KafkaCluster, version: str, folder: Path) -> None:
        self.kafka, self.version, self.folder = kafka, version, folder
        self.partitions: list[TopicPartition] = world.make_topic(kafka, partitions=6)
        self.turn = 0

    def run(self, writer: Writer, fault: str, point: Point) -> Row:
        plan = None
        while plan is None:
            self.turn += 1
            plan = world.drain_plan_of(self.kafka, self.folder, self.turn % 3 + 1)
        before = world.led_by(self.kafka, self.partitions)
        named = SimpleNamespace(uri=plan.uri, digest=plan.digest)
        relay = world.Relay(*self._zookeeper())
        hosts = f"127.0.0.1:{relay.port}{self.kafka.chroot}"
        there, cut, result = _CONTEXT.Event(), _CONTEXT.Event(), _CONTEXT.Queue()
        writer.reset()
        arguments = (str(self.folder), named, hosts, fault, point.value, there, cut, result)
        process = _CONTEXT.Process(target=child, args=arguments, daemon=True)
        process.start()
        begun = there.wait(60)
        if fault == "stopped for 9 s" and begun and process.pid:
            time.sleep(STOPPED_S)
            os.kill(process.pid, signal.SIGCONT)
        if fault == "cut off from ZooKeeper for 9 s":
            relay.cut()
            cut.set()
            time.sleep(STOPPED_S)
            relay.restore()
        process.join(90)
        if process.is_alive():
            process.kill()
            process.join()
        ended = "killed" if process.exitcode == -signal.SIGKILL else result.get(timeout=5)
        healed_s = world.await_agreement(self.kafka, self.partitions)
        world.await_unlocked(self.kafka)
        relay.close()
        after = world.led_by(self.kafka, self.partitions)
        moved = sum(before[each] != after[each] for each in self.partitions)
        if not begun:
            raise AssertionError(f"{fault} at {point}: the run did not come there: {ended}")
        return Row(self.version, fault, point.value, ended, moved, healed_s, writer.longest_gap_s)

    def _zookeeper(self) -> tuple[str, int]:
        host, _, port = self.kafka.zookeeper.hosts.rpartition(":")
        return host, int(port)


def rows_of(version: str, say: Callable[[str], None], points: tuple[Point, ...] = POINTS) -> list[Row]:
    """All runs of one version; raises where an acknowledged message is missing or brokers disagree."""
    rows = []
    with (
        tempfile.TemporaryDirectory() as folder,
        KafkaCluster(version, brokers=3, mode="shared_jvm") as kafka,
    ):
        matrix = Matrix(kafka, version, Path(folder))
        with Writer(kafka, matrix.partitions) as writer:
            writer.await_flowing()
            for fault in FAULTS:
                for point in points:
                    row = matrix.run(writer, fault, point)
                    rows.append(row)
                    say(" | ".join(str(round(cell, 2) if isinstance(cell, float) else cell) for cell in row))
        counts = message_counts(kafka, world.TOPIC)
        lost = {str(each): writer.acknowledged[each] - counts[each.partition] for each in matrix.partitions}
        missing = {name: count for name, count in lost.items() if count > 0}
        say(f"{version}: {sum(writer.acknowledged.values())} messages acknowledged, lost: {missing or 'none'}")
        assert not missing
    return rows


def told(line: str) -> None:
    print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--versions", default="3.9,2.8,2.4,1.1")
    parser.add_argument("--points", default=",".join(POINTS))
    arguments = parser.parse_args()
    points = tuple(Point(each) for each in arguments.points.split(","))
    found = [row for version in arguments.versions.split(",") for row in rows_of(version, told, points)]
    print("\n| Kafka | disturbed | runs | healed within | longest pause of a writer |\n| --- | --- | --- | --- | --- |")
    for version in arguments.versions.split(","):
        for fault in FAULTS:
            rows = [row for row in found if (row.version, row.fault) == (version, fault)]
            healed, gap = max(row.healed_s for row in rows), max(row.gap_s for row in rows)
            print(f"| {version} | {fault} | {len(rows)} | {healed:.1f} s | {gap:.1f} s |")
    print(f"{len(found)} runs; threads left: {threading.active_count()}")


if __name__ == "__main__":
    main()
