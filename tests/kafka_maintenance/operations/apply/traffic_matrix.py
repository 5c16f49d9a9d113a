"""Each operation on real brokers of each version while an application writes with acks=all, disturbed in mid-wave.

    python -m tests.kafka_maintenance.operations.apply.traffic_matrix [--versions 3.9,2.8,2.4,1.1,0.10.2] [--faults 'ZooKeeper restarts,…'] [--road admin_api]

A plan moves four partitions onto a fourth broker, in two waves, under a throttle; its run is a process of its own, which is started again
where it died or left. Then leaders are elected, and the topic is deleted. After each plan its predictions must hold, every ISR be whole, and
each step have been asked for once, of the brokers or by request znodes, as `--road` says; at the end of the topic every acknowledged message must have been readable. Prints a table for docs/reliability.md.
"""

import argparse
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from kafka import KafkaProducer

from controller_core.adapters.object_store.open import open_store
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.dialect import dialect_for
from controller_core.model.errors import BadVersionError
from controller_core.model.partitions import BrokerId, ReplicaAssignment, TopicPartition
from controller_core.plans.request_znodes import Target
from controller_core.znodes import TopicZnode, decode_topic, encode_topic
from controller_core.znodes import paths as znode
from kafka_maintenance.demo.traffic import create_topic, message_counts, partition_states
from kafka_maintenance.operations.apply.execution import Road
from kafka_maintenance.operations.apply.plan import apply_plan, verify
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked, admin_client
from kafka_maintenance.operations.errors import ClusterBusyError, NotFinishedError
from kafka_maintenance.operations.plans import make as planning
from kafka_maintenance.operations.record.receipts import read_events
from kafka_maintenance.servers.kafka import KafkaCluster
from kafka_maintenance.servers.process import wait_until
from tests.kafka_maintenance.operations.act_as_controller.world import Writer

CLUSTER: Final = "alpha"
RING: Final = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2), 3: (1, 3, 2)}
WAVES: Final = ({0: (2, 3, 4), 1: (3, 4, 1)}, {2: (4, 1, 2), 3: (4, 3, 2)})
RECORDS, RECORD_BYTES, RATE_BYTES_PER_S = 250, 10_000, 500_000
WAIT_S: Final = 240.0
AWAY_S: Final = 4.0
_CONTEXT = multiprocessing.get_context("forkserver")


class Row(NamedTuple):
    """One topic's life: what disturbed its move, how often its run was started, seconds of the move, longest pause of a writer."""

    version: str
    road: Road
    fault: str
    runs: int
    moved_s: float
    gap_s: float
    exceptions: int
    acknowledged: int
    lost: int


def child(folder: str, uri: str, digest: str, hosts: str, brokers: str | None, result: Any) -> None:
    """One run of the plan."""
    try:
        receipt = apply_plan(
            store=open_store(folder), plan_uri=uri, approved_digest=digest, approver="anna", zookeeper=ClusterAddress(hosts),
            now=datetime.now(UTC), step_timeout_s=WAIT_S, brokers=None if brokers is None else BrokersAsked(brokers),
        )  # fmt: skip
        result.put(("done", len(receipt.exceptions)))
    except (NotFinishedError, ClusterBusyError) as error:
        result.put(("again", str(error)[:300]))


class Matrix:
    """One version's cluster of four brokers."""

    def __init__(self, kafka: KafkaCluster, folder: str, road: Road, say: Callable[[str], None]) -> None:
        self.kafka, self.folder, self.road, self.say = kafka, folder, road, say
        self.store = open_store(folder)
        self.where = ClusterAddress(kafka.zookeeper_connect)
        self.cancels = dialect_for(kafka.version).adding_and_removing_replicas

    def live(self, fault: str, topic: str) -> Row:
        """A topic is created, filled, moved, led by its preferred replicas again, and deleted; under traffic until then."""
        partitions = create_topic(self.kafka, topic, RING)
        with closing(KafkaProducer(bootstrap_servers=self.kafka.bootstrap_servers)) as producer:
            for number in range(len(RING) * RECORDS):
                producer.send(topic, b"x" * RECORD_BYTES, partition=number % len(RING))
        waves = [
            [Target(TopicPartition(topic, number), tuple(map(BrokerId, replicas))) for number, replicas in wave.items()]
            for wave in WAVES
        ]
        plan = planning.plan_reassignment(
            self.store, CLUSTER, waves=waves, zookeeper=self.where, throttle_bytes_per_s=RATE_BYTES_PER_S,
            kafka_version=self.kafka.version,
        )  # fmt: skip
        with Writer(self.kafka, partitions) as writer:
            writer.await_flowing()
            writer.reset()
            begun_s = time.monotonic()
            runs, exceptions = self.carry_out(plan, fault)
            moved_s = time.monotonic() - begun_s
            self.whole(partitions)
            elections = planning.plan_elections(self.store, CLUSTER, topics=[topic], zookeeper=self.where)
            if elections is not None:
                self.carry_out(elections, "undisturbed")
            gap_s = writer.longest_gap_s
        counts = message_counts(self.kafka, topic)
        lost = sum(max(0, writer.acknowledged[each] + RECORDS - counts[each.partition]) for each in partitions)
        deletion = planning.plan_deletions(
            self.store, CLUSTER, topics=[topic], zookeeper=self.where, kafka_version=self.kafka.version
        )
        self.carry_out(deletion, "undisturbed")
        return Row(
            self.kafka.version,
            self.road,
            fault,
            runs,
            moved_s,
            gap_s,
            exceptions,
            sum(writer.acknowledged.values()),
            lost,
        )

    def carry_out(self, plan: planning.StoredPlan | None, fault: str) -> tuple[int, int]:
        """Runs the plan, disturbed in its first step, until it is done: how many runs that took, what its receipt excepts."""
        assert plan is not None
        runs, ended, exceptions = 0, "again", 0
        disturbed = fault == "undisturbed"
        while ended == "again":
            runs += 1
            result = _CONTEXT.Queue()
            brokers = self.kafka.bootstrap_servers if self.road is Road.ADMIN_API else None
            arguments = (self.folder, plan.uri, plan.digest, self.kafka.zookeeper_connect, brokers, result)
            process = _CONTEXT.Process(target=child, args=arguments, daemon=True)
            process.start()
            if not disturbed:
                disturbed = True
                wait_until(lambda: "requested" in self.events(plan), what="the first wave is asked for", timeout_s=60)
                with self.disturbance(fault, process.pid):
                    time.sleep(AWAY_S)
            process.join(WAIT_S + 60)
            if process.exitcode == 0:
                ended, exceptions = result.get(timeout=5)
                if ended == "again":
                    self.say(f"  {exceptions}")
            elif process.exitcode != -signal.SIGKILL:
                raise AssertionError(f"{self.kafka.version}, {fault}: the run ended with status {process.exitcode}")
        asked = [each for each in read_events(self.store, CLUSTER, plan.digest) if each.event == "requested"]
        steps, roads = [each.step for each in asked], {each.detail["road"] for each in asked}
        assert len(steps) == len(set(steps)), f"{self.kafka.version}, {fault}: asked twice: {steps}"
        wanted = Road.REQUEST_ZNODES if plan.kind == "delete_topics" else self.road
        assert roads == {wanted}, f"{self.kafka.version}, {fault}: {plan.kind} took the road {roads}"
        told = verify(store=self.store, plan_uri=plan.uri, zookeeper=self.where)
        assert told.done, f"{self.kafka.version}, {fault}: {told.text}"
        return runs, exceptions

    def events(self, plan: planning.StoredPlan) -> list[str]:
        return [str(each.event) for each in read_events(self.store, CLUSTER, plan.digest)]

    @contextmanager
    def disturbance(self, fault: str, run: int | None) -> Iterator[None]:
        """Happens at the beginning; what was away is back at the end."""
        kafka = self.kafka
        controller = kafka.controller_id()
        broker = kafka[next(each for each in (4, 3, 2) if each != controller)]
        match fault:
            case "our run is killed":
                assert run is not None
                os.kill(run, signal.SIGKILL)
                yield
            case "a broker of the wave dies":
                broker.kill()
                yield
                broker.start()
            case "the controller dies":
                kafka[controller].kill()
                yield
                kafka[controller].start()
            case "ZooKeeper restarts":
                kafka.zookeeper.kill()
                yield
                kafka.zookeeper.start()
            case "another tool cancels one partition":
                self.cancel_one()
                yield
            case "the topic gets a partition":
                self.extend()
                yield
            case _:
                raise AssertionError(fault)

    def cancel_one(self) -> None:
        """Kafka's own way, through the Admin API."""
        from kafka import TopicPartition as ClientPartition

        with admin_client("cancel", BrokersAsked(self.kafka.bootstrap_servers), 30.0, NotFinishedError) as admin:
            moving = sorted(admin.list_partition_reassignments())
            assert moving
            admin.alter_partition_reassignments({ClientPartition(*moving[0]): None})

    def extend(self) -> None:
        """As `kafka-topics.sh --alter --partitions` of versions with ZooKeeper does."""
        with self.kafka.session() as zookeeper:
            (topic,) = [each for each in zookeeper.children(znode.TOPICS) if each.startswith("moved")]
            path = znode.topic_path(topic)
            while True:
                data, stat = zookeeper.get(path)
                found = decode_topic(data, path=path)
                more = {**found.assignments, len(RING): ReplicaAssignment(tuple(map(BrokerId, (1, 2, 3))))}
                try:
                    zookeeper.set(path, encode_topic(TopicZnode(more, found.topic_id, found.version)), stat.version)
                except BadVersionError:
                    continue
                return

    def whole(self, partitions: list[TopicPartition]) -> None:
        """Every ISR has all replicas, and a leader that lives."""

        def is_whole() -> bool:
            with self.kafka.session() as zookeeper:
                states = partition_states(zookeeper, partitions)
            return all(
                state is not None and len(state.isr) == 3 and state.leader in self.kafka.brokers
                for state in states.values()
            )

        wait_until(is_whole, what="every ISR is whole", timeout_s=90)


FAULTS: Final = (
    "undisturbed",
    "our run is killed",
    "a broker of the wave dies",
    "the controller dies",
    "ZooKeeper restarts",
    "another tool cancels one partition",
    "the topic gets a partition",
)


def rows_of(version: str, road: Road, faults: tuple[str, ...], say: Callable[[str], None]) -> Iterator[Row]:
    """All topics of one version, one after the other, on one cluster."""
    for fault in faults:
        newer = dialect_for(version).adding_and_removing_replicas
        if not newer and (fault == "another tool cancels one partition" or road is Road.ADMIN_API):
            continue
        with tempfile.TemporaryDirectory() as folder, KafkaCluster(version, brokers=4, racks=("a", "b", "c")) as kafka:
            row = Matrix(kafka, folder, road, say).live(fault, "moved")
        say(" | ".join(str(round(cell, 1) if isinstance(cell, float) else cell) for cell in row))
        assert row.lost == 0, row
        yield row


def told(line: str) -> None:
    print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--versions", default="3.9,2.8,2.4,1.1,0.10.2")
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--road", choices=[*Road], default=Road.REQUEST_ZNODES)
    arguments = parser.parse_args()
    faults, road = tuple(arguments.faults.split(",")), Road(arguments.road)
    found = [row for version in arguments.versions.split(",") for row in rows_of(version, road, faults, told)]
    print(
        "\n| Kafka | road | disturbed by | runs | moved in | longest pause of a writer | left out or elsewhere | acknowledged | lost |"
    )
    print("| --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for row in found:
        print(
            f"| {row.version} | {row.road} | {row.fault} | {row.runs} | {row.moved_s:.0f} s | {row.gap_s:.1f} s | {row.exceptions} | "
            f"{row.acknowledged:,} | {row.lost} |"
        )


if __name__ == "__main__":
    main()
