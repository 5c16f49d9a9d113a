"""A real cluster under traffic, a plan to drain a broker of leadership, and what must be so after a run."""

import secrets
import socket
import threading
import time
from collections import defaultdict
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from kafka import KafkaConsumer
from kafka.errors import KafkaError

from controller_core.adapters.object_store.open import open_store
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.partitions import BrokerId, TopicPartition
from kafka_maintenance.demo.broker_metadata import broker_metadata
from kafka_maintenance.demo.traffic import create_topic, partition_states
from kafka_maintenance.operations.act_as_controller.act import Permission, act_as_controller
from kafka_maintenance.operations.apply.cluster_lock import LOCK_PATH
from kafka_maintenance.operations.plans.leaders import plan_leader_moves
from kafka_maintenance.servers.kafka import KafkaCluster
from kafka_maintenance.servers.process import wait_until

CLUSTER = "alpha"
TOPIC = "orders"
RING = ((1, 2, 3), (2, 3, 1), (3, 1, 2))
SETTLE_S = 240.0  # on a machine that does much else


class Relay:
    """A TCP relay on loopback in front of a server: it can be cut, and be made slow."""

    def __init__(self, host: str, port: int) -> None:
        self._target = (host, port)
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.delay_s = 0.0
        self._cut = False
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self) -> None:
        self._cut = True
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def restore(self) -> None:
        self._cut = False

    def close(self) -> None:
        self.cut()
        self._listening.shutdown(socket.SHUT_RDWR)  # which wakes the thread that accepts
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                if self._cut:
                    near.close()
                    continue
                far = socket.create_connection(self._target)
                self._open += [near, far]
                for one, other in ((near, far), (far, near)):
                    threading.Thread(target=self._pump, args=(one, other), daemon=True).start()

    def _pump(self, source: socket.socket, sink: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(1 << 16):
                if self.delay_s:
                    time.sleep(self.delay_s)
                sink.sendall(data)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def make_topic(kafka: KafkaCluster, *, partitions: int = 12) -> list[TopicPartition]:
    return create_topic(kafka, TOPIC, {number: RING[number % 3] for number in range(partitions)})


def led_by(kafka: KafkaCluster, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    with kafka.session() as zookeeper:
        return {each: state.leader for each, state in partition_states(zookeeper, partitions).items() if state}


def drain_plan_of(kafka: KafkaCluster, folder: Path, broker: int) -> Any:
    store = open_store(str(folder))
    with kafka.session() as zookeeper:
        return plan_leader_moves(store, CLUSTER, zookeeper=zookeeper, brokers=[BrokerId(broker)])


def act(folder: Path, plan: Any, hosts: str, **more: Any) -> Any:
    return act_as_controller(
        store=open_store(str(folder)),
        plan_uri=plan.uri,
        approved_digest=plan.digest,
        approver="anna",
        address=ClusterAddress(hosts),
        permission=more.pop("permission", Permission(may_act=True, confirmed_unfenced=True)),
        now=datetime.now(UTC),
        **more,
    )


class Readers:
    """Two consumers of one group, which read a topic from its beginning and commit; they note their longest pause.

    Attributes:
        offsets: message → the places at which it was read.
        longest_gap_s: between two messages of one partition, since `reset`.
    """

    def __init__(self, kafka: KafkaCluster, topic: str) -> None:
        group = f"readers-{secrets.token_hex(4)}"  # another one of the same name would go on where it ended
        self._consumers = [
            KafkaConsumer(
                topic,
                bootstrap_servers=kafka.bootstrap_servers,
                group_id=group,
                auto_offset_reset="earliest",
                auto_commit_interval_ms=1000,
                session_timeout_ms=6000,
                heartbeat_interval_ms=1000,
                request_timeout_ms=10_000,
                metadata_max_age_ms=5_000,
            )
            for _ in range(2)
        ]
        self.offsets: dict[str, set[tuple[int, int]]] = defaultdict(set)
        self.longest_gap_s = 0.0
        self._last_s: dict[int, float] = {}
        self._stopped = threading.Event()
        self._threads = [threading.Thread(target=self._read, args=(each,), daemon=True) for each in self._consumers]

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stopped.set()
        for each in self._threads:
            each.join(70)
        for consumer in self._consumers:
            with suppress(KafkaError):
                consumer.close(autocommit=False)

    def await_flowing(self) -> None:
        wait_until(lambda: self._last_s, what="messages are read", timeout_s=SETTLE_S)

    def reset(self) -> None:
        self.longest_gap_s = 0.0

    def unread(self, messages: set[str]) -> set[str]:
        """Which of these were not read, after some time."""
        deadline_s = time.monotonic() + SETTLE_S
        left = messages
        while left and time.monotonic() < deadline_s:
            time.sleep(0.1)
            left = {each for each in left if each not in self.offsets}
        return left

    def _read(self, consumer: KafkaConsumer) -> None:
        while not self._stopped.is_set():
            try:
                found = consumer.poll(timeout_ms=200)
            except KafkaError:
                continue
            now_s = time.monotonic()
            for partition, records in found.items():
                last_s = self._last_s.get(partition.partition, now_s)
                self.longest_gap_s = max(self.longest_gap_s, now_s - last_s)
                self._last_s[partition.partition] = now_s
                for record in records:
                    self.offsets[record.value.decode()].add((record.partition, record.offset))


def disagreement(kafka: KafkaCluster, partitions: list[TopicPartition]) -> str:
    """What is not whole: a controller that is a broker, full ISRs, and every broker's metadata as ZooKeeper has it; empty when it is."""
    with kafka.session() as zookeeper:
        states = partition_states(zookeeper, partitions)
    if kafka.controller_id() not in kafka.brokers:
        return "no broker is controller"
    for partition, state in states.items():
        if state is None or state.leader not in kafka.brokers or len(state.isr) != len(kafka.brokers):
            return f"{partition} {state}"
    for broker in kafka.brokers.values():
        view = broker_metadata("127.0.0.1", broker.port)
        for partition, state in states.items():
            seen = view.get(partition)
            if state is None or seen is None or seen.leader != state.leader or set(seen.isr) != set(state.isr):
                return f"broker {broker.id} believes {seen} of {partition}, ZooKeeper says {state}"
    return ""


def await_unlocked(kafka: KafkaCluster) -> None:
    """The lock of a run that was killed stands until its session ends."""
    with kafka.session() as zookeeper:
        wait_until(lambda: zookeeper.exists(LOCK_PATH) is None, what="the lock is gone", timeout_s=SETTLE_S)


def await_agreement(kafka: KafkaCluster, partitions: list[TopicPartition], *, timeout_s: float = SETTLE_S) -> float:
    """Seconds until nothing is in disagreement; raises with what still is."""
    begun_s = time.monotonic()
    while found := disagreement(kafka, partitions):
        if time.monotonic() - begun_s > timeout_s:
            raise AssertionError(f"after {timeout_s} s: {found}")
        time.sleep(0.1)
    return time.monotonic() - begun_s
