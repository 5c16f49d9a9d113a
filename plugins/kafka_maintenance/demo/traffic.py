"""Topics and messages on a local cluster: made as an operator's scripts and applications would make them.

Topics are made by their two znodes, which every broker version accepts; messages go through kafka-python and are
acknowledged by the whole ISR, so that none that was acknowledged may ever be missing.
"""

import contextlib
import logging
import threading
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Self

from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as ClientPartition
from kafka.errors import KafkaError

from controller_core.model.partitions import LeaderAndIsr, TopicPartition
from controller_core.ports.zookeeper import ZooKeeper
from controller_core.znodes.partitions import decode_state
from controller_core.znodes.paths import state_path, topic_path
from kafka_maintenance.servers.kafka import KafkaCluster
from kafka_maintenance.servers.process import wait_until

SETTLE_TIMEOUT_S = 60.0
MESSAGE = b"x" * 200
STOP_TIMEOUT_S = 20.0
STUCK_AFTER_S = 30.0
ROUND_INTERVAL_S = 0.5
NOT_READY_INTERVAL_S = 0.05

logging.getLogger("kafka").setLevel(logging.CRITICAL)  # brokers die here on purpose


def create_topic(cluster: KafkaCluster, topic: str, assignment: Mapping[int, Sequence[int]]) -> list[TopicPartition]:
    """Create a topic and wait until every partition has a leader and its whole ISR.

    Args:
        cluster: a running cluster.
        topic: its name.
        assignment: partition → broker ids, preferred replica first.

    Returns:
        Its partitions.
    """
    replicas = ",".join(f'"{number}":{list(brokers)}' for number, brokers in sorted(assignment.items()))
    partitions = [TopicPartition(topic, number) for number in sorted(assignment)]
    with cluster.session() as zookeeper:
        zookeeper.create(f"/config/topics/{topic}", b'{"version":1,"config":{}}')
        zookeeper.create(topic_path(topic), f'{{"version":1,"partitions":{{{replicas}}}}}'.encode())
        wait_until(
            lambda: all(
                state is not None and set(state.isr) == set(assignment[partition.partition])
                for partition, state in partition_states(zookeeper, partitions).items()
            ),
            what=f"topic {topic} is served by all its replicas",
            timeout_s=SETTLE_TIMEOUT_S,
        )
    return partitions


def partition_states(
    zookeeper: ZooKeeper, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, LeaderAndIsr | None]:
    """Leader and ISR of partitions as their state znodes say; None where there is no such znode."""
    paths = [state_path(partition) for partition in partitions]
    answers = zookeeper.get_many(paths)
    return {
        partition: None if answer is None else decode_state(answer[0], path=path, version=answer[1].version)
        for partition, path, answer in zip(partitions, paths, answers, strict=True)
    }


def produce(cluster: KafkaCluster, topic: str, partition: int, *, count: int) -> int:
    """Write messages to one partition; how many were acknowledged by the whole ISR.

    Args:
        cluster: its brokers.
        topic: its name.
        partition: its number.
        count: of messages.
    """
    with Traffic(cluster, [TopicPartition(topic, partition)], rounds=count) as traffic:
        traffic.finish()
    return sum(traffic.acknowledged.values())


def message_counts(cluster: KafkaCluster, topic: str) -> dict[int, int]:
    """Partition → messages that a consumer can read, of one topic.

    Raises:
        KafkaError: the brokers do not answer, not even when asked again for a minute.
    """
    deadline_s = time.monotonic() + SETTLE_TIMEOUT_S
    while True:
        try:
            return _message_counts(cluster, topic)
        except KafkaError:  # asking for the metadata, the client does not ask a second broker
            if time.monotonic() > deadline_s:
                raise
            time.sleep(ROUND_INTERVAL_S)


def _message_counts(cluster: KafkaCluster, topic: str) -> dict[int, int]:
    consumer = KafkaConsumer(bootstrap_servers=cluster.bootstrap_servers)
    try:
        numbers = consumer.partitions_for_topic(topic) or set()
        partitions = [ClientPartition(topic, number) for number in sorted(numbers)]
        first, last = consumer.beginning_offsets(partitions), consumer.end_offsets(partitions)
        return {partition.partition: last[partition] - first[partition] for partition in partitions}
    finally:
        consumer.close()


class Traffic:
    """An application that writes to partitions all the time; a context manager that stops it.

    `acknowledged` counts what the whole ISR has, by partition. What a hanging or dead leader does not take within ten
    seconds is dropped, and not counted.
    """

    def __init__(
        self, cluster: KafkaCluster, partitions: Sequence[TopicPartition], *, rounds: int | None = None
    ) -> None:
        """Describe the traffic; `rounds` messages to each partition, None for as long as it runs."""
        self.partitions = tuple(partitions)
        self.acknowledged: Counter[TopicPartition] = Counter()
        self._cluster = cluster
        self._rounds = rounds
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._closed = False
        self._answered_s = time.monotonic()
        self._producer = _producer(cluster)
        self._thread = threading.Thread(target=self._write, name="traffic", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def finish(self) -> None:
        """Wait until all rounds are written and answered."""
        self._thread.join()
        self._producer.flush(SETTLE_TIMEOUT_S)

    def stop(self, *, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """Stop writing; what is on its way is waited for, so many seconds at most. Stopping twice does nothing."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join()
        if not self._closed:
            self._closed = True
            _close(self._producer, timeout_s)

    def _write(self) -> None:
        written = 0
        while not self._stopped.is_set() and written != self._rounds:
            for partition in self.partitions:
                self._send(partition)
            written += 1
            if self._rounds is None:
                self._replace_a_stuck_producer()
                self._stopped.wait(ROUND_INTERVAL_S)

    def _replace_a_stuck_producer(self) -> None:
        """An application would be restarted when nothing is acknowledged any more; so is this one's producer."""
        if time.monotonic() - self._answered_s <= STUCK_AFTER_S:
            return
        with contextlib.suppress(KafkaError):  # not reachable now: tried again in the next round
            fresh = _producer(self._cluster)
            _close(self._producer, 0)
            self._producer = fresh
            self._answered_s = time.monotonic()

    def _send(self, partition: TopicPartition) -> None:
        try:
            promise = self._producer.send(partition.topic, MESSAGE, partition=partition.partition)
        except KafkaError:
            return
        promise.add_callback(lambda _: self._count(partition))

    def _count(self, partition: TopicPartition) -> None:
        with self._lock:
            self.acknowledged[partition] += 1
            self._answered_s = time.monotonic()


class Writer:
    """An application with one message in flight, acknowledged by the whole ISR; it notes its longest pause.

    Each message is another one, also where it was not acknowledged and the application tries again; only the client itself sends one twice.

    Attributes:
        acknowledged: how many messages of each partition.
        messages: those that were acknowledged.
        longest_gap_s: between two acknowledged messages of one partition, since `reset`.
    """

    def __init__(self, kafka: KafkaCluster, partitions: Sequence[TopicPartition], *, idempotent: bool = False) -> None:
        self._partitions = partitions
        self._name = "idempotent" if idempotent else "plain"
        self._producers = [
            _patient_producer(
                kafka,
                acks="all",
                enable_idempotence=idempotent,
                max_in_flight_requests_per_connection=1,
                linger_ms=0,
                retries=1000,
                retry_backoff_ms=50,
                request_timeout_ms=10_000,
                delivery_timeout_ms=60_000,
                metadata_max_age_ms=30_000,
            )
            for _ in partitions
        ]
        self.acknowledged: Counter[TopicPartition] = Counter()
        self.messages: set[str] = set()
        self.longest_gap_s = 0.0
        self._stopped = threading.Event()
        self._threads = [
            threading.Thread(target=self._write, args=each, daemon=True)
            for each in zip(self._producers, partitions, strict=True)
        ]

    def __enter__(self) -> Self:
        for each in self._threads:
            each.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()

    def stop(self) -> None:
        """What is on its way is waited for. Stopping twice does nothing."""
        self._stopped.set()
        for each in self._threads:
            each.join(70)
        for producer in self._producers:
            producer.close(timeout=5)

    def await_flowing(self) -> None:
        """Wait until each partition has acknowledged two more messages."""
        before = self.acknowledged.copy()
        wait_until(
            lambda: all(self.acknowledged[each] > before[each] + 1 for each in self._partitions),
            what="messages flow",
            timeout_s=SETTLE_TIMEOUT_S,
        )

    def reset(self) -> None:
        """Forget the longest pause so far."""
        self.longest_gap_s = 0.0

    def _write(self, producer: KafkaProducer, partition: TopicPartition) -> None:
        last_s, number = None, 0
        while not self._stopped.is_set():
            number += 1
            message = f"{self._name} {partition} {number}".ljust(100)
            try:
                producer.send(partition.topic, message.encode(), partition=partition.partition).get(timeout=70)
            except KafkaError:
                continue
            now_s = time.monotonic()
            if last_s is not None:
                self.longest_gap_s = max(self.longest_gap_s, now_s - last_s)
            last_s = now_s
            self.acknowledged[partition] += 1
            self.messages.add(message)
            self._stopped.wait(0.02)


def _producer(cluster: KafkaCluster) -> KafkaProducer:
    return _patient_producer(
        cluster,
        acks="all",
        enable_idempotence=False,  # with it one partition without a leader can block the others
        linger_ms=5,
        metadata_max_age_ms=2000,
        request_timeout_ms=5000,
        delivery_timeout_ms=10_000,
        retry_backoff_ms=1000,
        reconnect_backoff_ms=1000,
        max_block_ms=5000,
        bootstrap_timeout_ms=15_000,
    )


def _patient_producer(cluster: KafkaCluster, **settings: Any) -> KafkaProducer:
    """A producer that asks 20 times a second whether a silent broker is ready; kafka-python 3.0.12 asks without a pause, on a whole core.

    Source: `kafka.producer.sender.Sender._send_producer_data` takes the seconds of `connection_delay` for milliseconds, and 0 is among them.
    """
    producer = KafkaProducer(bootstrap_servers=cluster.bootstrap_servers, **settings)
    client = producer._sender._client  # noqa: SLF001 - it has no setting for that
    delay_s = client.connection_delay
    client.connection_delay = lambda node: 1000 * max(NOT_READY_INTERVAL_S, delay_s(node))
    return producer


def _close(producer: KafkaProducer, timeout_s: float) -> None:
    try:
        producer.close(timeout=timeout_s)
    except KafkaError:  # messages still wait, and close() gives up on that before it closes
        producer._sender.force_close()  # noqa: SLF001 - its only way to drop what waits
        producer._sender.join(STOP_TIMEOUT_S)  # noqa: SLF001 - as above
        with contextlib.suppress(KafkaError):
            producer.close(timeout=1)
