"""Each operation on real brokers of each version while applications write with acks=all and read, disturbed in mid-wave.

    python -m tests.kafka_maintenance.operations.apply.traffic_matrix [--versions "3.9 2.8 2.4 1.1 0.10.2"] [--faults 'ZooKeeper restarts,…'] [--road admin_api]

A plan moves four partitions onto a fourth broker with two log directories, in two waves, under a throttle; its run is a process of its own, which is
started again where it died. Then leaders are elected, and the topic is deleted. One application writes as an idempotent producer does (Kafka
0.11 or newer), one without that, and two consumers of a group read. After each plan its predictions must hold, every ISR be whole, and each step
have been asked for once, of the brokers or by request znodes, as `--road` says; at the end of the topic every acknowledged message must stand there and
have been read by the consumers, and no message of the idempotent producer twice. Prints a table for docs/reliability.md.
"""

import argparse
import multiprocessing
import os
import signal
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from kafka import KafkaProducer

from controller_core.adapters.object_store.open import open_store
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.dialect import dialect_for
from controller_core.model.errors import BadVersionError, NodeExistsError
from controller_core.model.partitions import BrokerId, ReplicaAssignment, TopicPartition
from controller_core.plans.request_znodes import Target
from controller_core.znodes import TopicZnode, decode_topic, encode_reassign_partitions, encode_topic
from controller_core.znodes import paths as znode
from kafka_maintenance.demo.traffic import Writer, create_topic, message_counts, partition_states
from kafka_maintenance.operations.apply.execution import Road
from kafka_maintenance.operations.apply.plan import apply_plan, verify
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked, admin_client
from kafka_maintenance.operations.errors import ClusterBusyError, NotFinishedError
from kafka_maintenance.operations.plans.deletions import plan_deletions
from kafka_maintenance.operations.plans.drain import plan_drain
from kafka_maintenance.operations.plans.elections import plan_elections
from kafka_maintenance.operations.plans.reassignment import plan_reassignment
from kafka_maintenance.operations.plans.store import StoredPlan
from kafka_maintenance.operations.record.receipts import read_events
from kafka_maintenance.servers.kafka import KafkaCluster
from kafka_maintenance.servers.process import wait_until
from tests.kafka_maintenance.operations.act_as_controller.world import Readers

CLUSTER: Final = "alpha"
DELETED, BESIDE, JBOD_BROKER = "deleted", "beside", 4
RING: Final = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2), 3: (1, 3, 2)}
WAVES: Final = ({0: (2, 3, 4), 1: (3, 4, 1)}, {2: (4, 1, 2), 3: (4, 3, 2)})
DELETED_RING: Final = {0: (1, 2, 3), 1: (2, 3, 1)}
DELETED_WAVES: Final = ({0: (2, 3, 4)}, {1: (3, 1, 4)})
RECORDS, RECORD_BYTES, RATE_BYTES_PER_S = 250, 10_000, 500_000
WAIT_S: Final = 240.0
AWAY_S: Final = 4.0
_CONTEXT = multiprocessing.get_context("forkserver")


class Row(NamedTuple):
    """One topic's life: what disturbed its move, how often its run was started, seconds of the move, longest pauses of applications.

    `lost` counts acknowledged messages that do not stand in the topic or that no consumer has read, `twice` those of the idempotent producer
    that stand there more than once; None where brokers know no such producer.
    """

    version: str
    road: Road
    fault: str
    runs: int
    moved_s: float
    gap_s: float
    read_gap_s: float
    exceptions: int
    acknowledged: int
    lost: int
    twice: int | None


def child(folder: str, uri: str, digest: str, hosts: str, brokers: str | None, result: Any) -> None:
    """One run of the plan."""
    try:
        receipt = apply_plan(
            store=open_store(folder), plan_uri=uri, approved_digest=digest, approver="anna", zookeeper=ClusterAddress(hosts),
            now=datetime.now(UTC), step_timeout_s=WAIT_S, brokers=None if brokers is None else BrokersAsked(brokers),
        )  # fmt: skip
        result.put(("done", len(receipt.exceptions)))
    except (NotFinishedError, ClusterBusyError) as error:
        result.put(("again", str(error)[:600]))


class Matrix:
    """One version's cluster of four brokers."""

    def __init__(self, kafka: KafkaCluster, folder: str, road: Road, say: Callable[[str], None]) -> None:
        self.kafka, self.folder, self.road, self.say = kafka, folder, road, say
        self.store = open_store(folder)
        self.where = ClusterAddress(kafka.zookeeper_connect)
        self.lives = 0
        self.cancels = dialect_for(kafka.version).adding_and_removing_replicas

    @property
    def topic(self) -> str:
        return f"moved{self.lives}"

    def live(self, fault: str) -> Row:
        """A topic is created, filled, moved, led by its preferred replicas again, and deleted; under traffic until then."""
        self.lives += 1  # brokers of 2.8 take a topic for its namesake of before
        partitions = create_topic(self.kafka, self.topic, RING)
        waves = [dict(wave) for wave in targets_of(self.topic, WAVES)]
        if fault == "a topic of the plan is deleted":
            create_topic(self.kafka, DELETED, DELETED_RING)
            for wave, more in zip(waves, targets_of(DELETED, DELETED_WAVES), strict=True):
                wave.update(more)
        if fault == "another tool moves a topic beside":
            create_topic(self.kafka, BESIDE, {0: (1, 2, 3)})
        self.fill(sorted({each for wave in waves for each in wave}))
        plan = plan_reassignment(
            self.store, CLUSTER, waves=[[Target(*each, to) for each, to in wave.items()] for wave in waves], zookeeper=self.where,
            throttle_bytes_per_s=RATE_BYTES_PER_S, kafka_version=self.kafka.version,
        )  # fmt: skip
        knows_idempotence = self.kafka.version != "0.10.2"
        with ExitStack() as applications:
            readers = applications.enter_context(Readers(self.kafka, self.topic))
            writers = [
                applications.enter_context(Writer(self.kafka, partitions, idempotent=idempotent))
                for idempotent in (False, True)[: 1 + knows_idempotence]
            ]
            for each in (*writers, readers):
                each.await_flowing()
                each.reset()
            begun_s = time.monotonic()
            runs, exceptions = self.carry_out(plan, fault)
            assert fault != "another tool cancels one partition" or exceptions == 1, exceptions
            moved_s = time.monotonic() - begun_s
            self.whole(partitions)
            self.uses_both_log_directories()
            elections = plan_elections(self.store, CLUSTER, topics=[self.topic], zookeeper=self.where)
            if elections is not None:
                self.carry_out(elections, "undisturbed")
            for writer in writers:
                writer.stop()
            acknowledged = set().union(*(each.messages for each in writers))
            unread = readers.unread(acknowledged)
        counts = message_counts(self.kafka, self.topic)
        written = sum((each.acknowledged for each in writers), Counter())
        missing = sum(max(0, written[each] + RECORDS - counts[each.partition]) for each in partitions)
        again = [each for each in readers.offsets if each.startswith("idempotent") and len(readers.offsets[each]) > 1]
        deletion = plan_deletions(
            self.store, CLUSTER, topics=[self.topic], zookeeper=self.where, kafka_version=self.kafka.version
        )
        self.carry_out(deletion, "undisturbed")
        return Row(
            self.kafka.version,
            self.road,
            fault,
            runs,
            moved_s,
            max(each.longest_gap_s for each in writers),
            readers.longest_gap_s,
            exceptions,
            len(acknowledged),
            max(missing, len(unread)),
            len(again) if knows_idempotence else None,
        )

    def fill(self, partitions: list[TopicPartition]) -> None:
        with closing(KafkaProducer(bootstrap_servers=self.kafka.bootstrap_servers)) as producer:
            for number in range(len(partitions) * RECORDS):
                topic, partition = partitions[number % len(partitions)]
                producer.send(topic, b"x" * RECORD_BYTES, partition=partition)

    def uses_both_log_directories(self) -> None:
        """What broker 4 got lies in each of its log directories."""
        folders = self.kafka[JBOD_BROKER].settings()["log.dirs"].split(",")
        assert all(list(Path(each).glob(f"{self.topic}-[0-9]")) for each in folders), folders

    def carry_out(self, plan: StoredPlan | None, fault: str) -> tuple[int, int]:
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
                wait_until(
                    lambda: "requested" in self.events(plan), what="the first wave is asked for", timeout_s=WAIT_S
                )
                with self.disturbance(fault, process.pid):
                    time.sleep(AWAY_S)
            if fault == "a topic of the plan is deleted":
                self.clear_what_lingers(plan, process)
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
        asks_brokers = plan.kind in {"reassign_partitions", "elect_preferred_leaders"}
        wanted = self.road if asks_brokers else Road.REQUEST_ZNODES
        assert roads == {wanted}, f"{self.kafka.version}, {fault}: {plan.kind} took the road {roads}"
        told = verify(store=self.store, plan_uri=plan.uri, zookeeper=self.where)
        assert told.done, f"{self.kafka.version}, {fault}: {told.text}"
        return runs, exceptions

    def clear_what_lingers(self, plan: StoredPlan, run: Any) -> None:
        """As the record says: by a forced re-election, which is a plan of its own, beside the run that waits for it."""
        while run.is_alive():
            last = read_events(self.store, CLUSTER, plan.digest)[-1]
            if last.event == "waiting" and "names only partitions that do not exist" in str(last.detail["reasons"]):
                drain = plan_drain(self.store, CLUSTER, zookeeper=self.where, kafka_version=self.kafka.version)
                if drain is not None:  # else the controller has removed it meanwhile
                    self.say(
                        "  the next step waits for a request that names only partitions that do not exist: cleared"
                    )
                    self.carry_out(drain, "undisturbed")
                return
            run.join(1.0)

    def events(self, plan: StoredPlan) -> list[str]:
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
            case "another tool moves a topic beside":
                self.move_beside()
                yield
            case "a topic of the plan is deleted":
                with kafka.session() as zookeeper:  # as `kafka-topics.sh --delete` of versions with ZooKeeper does
                    zookeeper.create(znode.delete_topic_path(DELETED))
                yield
            case _:
                raise AssertionError(fault)

    def cancel_one(self) -> None:
        """Kafka's own way, through the Admin API; a partition that has just arrived is no longer cancelled, so another one is."""
        from kafka import TopicPartition as ClientPartition

        with admin_client("cancel", BrokersAsked(self.kafka.bootstrap_servers), 30.0, NotFinishedError) as admin:

            def is_cancelled() -> bool:
                moving = sorted(ClientPartition(*each) for each in admin.list_partition_reassignments())
                return any(admin.alter_partition_reassignments({each: None}) == {each: None} for each in moving)

            wait_until(is_cancelled, what="the controller has begun, and cancelled one partition", timeout_s=WAIT_S)

    def extend(self) -> None:
        """As `kafka-topics.sh --alter --partitions` of versions with ZooKeeper does."""
        with self.kafka.session() as zookeeper:
            path = znode.topic_path(self.topic)
            while True:
                data, stat = zookeeper.get(path)
                found = decode_topic(data, path=path)
                more = {**found.assignments, len(RING): ReplicaAssignment(tuple(map(BrokerId, (1, 2, 3))))}
                try:
                    zookeeper.set(path, encode_topic(TopicZnode(more, found.topic_id, found.version)), stat.version)
                except BadVersionError:
                    continue
                return

    def move_beside(self) -> None:
        """By the Admin API at once; before that, by the request znode as soon as ours is gone, as `kafka-reassign-partitions.sh` does it."""
        from kafka import TopicPartition as ClientPartition

        if self.cancels:
            with admin_client("move", BrokersAsked(self.kafka.bootstrap_servers), 30.0, NotFinishedError) as admin:
                moved = ClientPartition(BESIDE, 0)
                assert admin.alter_partition_reassignments({moved: [1, 2, 4]}) == {moved: None}
            return
        request = encode_reassign_partitions({TopicPartition(BESIDE, 0): tuple(map(BrokerId, (1, 2, 4)))})
        with self.kafka.session() as zookeeper:
            while True:
                gone = threading.Event()
                if zookeeper.exists(znode.REASSIGN_PARTITIONS, watch=lambda _, gone=gone: gone.set()) is not None:
                    assert gone.wait(WAIT_S)
                try:
                    zookeeper.create(znode.REASSIGN_PARTITIONS, request)
                except NodeExistsError:
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

        wait_until(is_whole, what="every ISR is whole", timeout_s=WAIT_S)


FAULTS: Final = (
    "undisturbed",
    "our run is killed",
    "a broker of the wave dies",
    "the controller dies",
    "ZooKeeper restarts",
    "another tool cancels one partition",
    "the topic gets a partition",
    "another tool moves a topic beside",
    "a topic of the plan is deleted",
)


def targets_of(
    topic: str, waves: Sequence[Mapping[int, Sequence[int]]]
) -> list[dict[TopicPartition, tuple[BrokerId, ...]]]:
    """The new replicas of a topic's partitions, wave by wave."""
    return [
        {TopicPartition(topic, number): tuple(map(BrokerId, replicas)) for number, replicas in wave.items()}
        for wave in waves
    ]


def rows_of(version: str, road: Road, faults: Sequence[str], say: Callable[[str], None]) -> Iterator[Row]:
    """One topic's life after the other, on one cluster: four brokers in three racks, the last of them with two log directories."""
    newer = dialect_for(version).adding_and_removing_replicas
    if road is Road.ADMIN_API and not newer:
        return
    kafka = KafkaCluster(version, brokers=4, racks=("a", "b", "c"), config={"offsets.topic.replication.factor": "3"})
    folders = ",".join(str(kafka.workspace.subfolder(f"logs-{JBOD_BROKER}-{number}")) for number in (1, 2))
    kafka.broker_config[JBOD_BROKER] = {"log.dirs": folders}
    with tempfile.TemporaryDirectory() as folder, kafka:
        matrix = Matrix(kafka, folder, road, say)
        for fault in faults:
            if newer or fault != "another tool cancels one partition":
                yield matrix.live(fault)


def told(line: str) -> None:
    print(line, flush=True)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--versions", default="3.9 2.8 2.4 1.1 0.10.2")
    parser.add_argument("--faults", default=",".join(FAULTS))
    parser.add_argument("--road", choices=[*Road], default=Road.REQUEST_ZNODES)
    arguments = parser.parse_args()
    faults, road = tuple(arguments.faults.split(",")), Road(arguments.road)
    found = []
    for row in (row for version in arguments.versions.split() for row in rows_of(version, road, faults, told)):
        told(" | ".join(str(round(cell, 1) if isinstance(cell, float) else cell) for cell in row))
        assert (row.lost, row.twice or 0) == (0, 0), row
        found.append(row)
    print(
        "\n| Kafka | what happens in the first wave | runs of ours | the move took | longest pause of a writer | of the consumers | partitions of "
        "the plan that were not moved, as its receipt says | acknowledged messages | lost | written twice |"
    )
    print("| --- " * 10 + "|")
    for row in found:
        print(
            f"| {row.version} | {row.fault} | {row.runs} | {row.moved_s:.0f} s | {row.gap_s:.1f} s | {row.read_gap_s:.1f} s | {row.exceptions} | "
            f"{row.acknowledged:,} | {row.lost} | {'-' if row.twice is None else row.twice} |"
        )


if __name__ == "__main__":
    main()
