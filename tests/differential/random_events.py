"""Random events on real brokers, first under Kafka's own controller and then under the core alone: `python -m tests.differential.random_events`.

A seed gives the same events to both. Invariants: after each event the live tree is the one that the core predicted from the tree before it, the core's
controller has not ended, and at the end no acknowledged message is lost. Prints how long each kind of event took until the tree was as predicted, side by
side, for docs/fidelity.md.
"""

import argparse
import time
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from random import Random
from statistics import median
from typing import NamedTuple

from controller_core.model.errors import NoNodeError
from controller_core.model.partitions import BrokerId, ReplicaAssignment, TopicPartition
from controller_core.ports.zookeeper import ANY_VERSION, ZooKeeper
from controller_core.runtime.simulated.cluster import SimulatedCluster
from controller_core.znodes import (
    CONTROLLER,
    PREFERRED_REPLICA_ELECTION,
    REASSIGN_PARTITIONS,
    ConfigZnode,
    TopicZnode,
    config_path,
    decode_topic,
    delete_topic_path,
    encode_config,
    encode_delete_topic,
    encode_preferred_replica_election,
    encode_reassign_partitions,
    encode_topic,
    topic_path,
)
from kafka_maintenance.demo.traffic import Traffic, message_counts
from kafka_maintenance.servers.kafka import KafkaCluster
from kafka_maintenance.servers.process import wait_until
from tests.differential.test_laboratory import shut_down, under_ours
from tests.differential.test_real_brokers import BROKER_CONFIG, BROKERS, PARTITIONS, TOPIC, Lockstep, create_topic

TOPICS_MAX = 6
PARTITIONS_MAX = 4


class Event(NamedTuple):
    """What happens: on paper, and for real."""

    kind: str
    what: str
    predicted: Callable[[SimulatedCluster], None]
    for_real: Callable[[], None]


class Walk:
    """A cluster that random events happen to; which ones depends on the seed alone."""

    def __init__(self, world: Lockstep, seed: int) -> None:
        self.world, self.random = world, Random(seed)
        self.down: BrokerId | None = None
        self.topics: dict[str, dict[int, tuple[int, ...]]] = {}
        self.made = 0

    def next(self) -> Event:
        """The next event: a broker that is down comes back sooner or later, and what needs all brokers waits for it."""
        kinds: list[Callable[[], Event]] = [self.elects]
        if self.down is not None:
            kinds.append(self.comes_back)
        else:
            kinds += [self.dies, self.shuts_down]
            if len(self.topics) < TOPICS_MAX:
                kinds.append(self.new_topic)
            if self.topics:
                kinds += [self.grows, self.moves, self.is_deleted]
        return self.random.choice(kinds)()

    def dies(self) -> Event:
        broker = self._goes_down()
        return Event(
            "a broker dies",
            f"broker {broker} dies",
            lambda cluster: cluster.stop_broker(broker),
            lambda: self.world.kafka[broker].kill(forget=True),
        )

    def shuts_down(self) -> Event:
        broker = self._goes_down()
        what = f"broker {broker} shuts down in order"
        return Event(
            "it shuts down", what, lambda cluster: shut_down(cluster, broker), self.world.kafka[broker].terminate
        )

    def comes_back(self) -> Event:
        assert self.down is not None, "asked only then"
        broker, self.down = self.down, None
        what = f"broker {broker} is back"
        return Event(
            "it comes back", what, lambda cluster: cluster.start_broker(broker), self.world.kafka[broker].start
        )

    def new_topic(self) -> Event:
        self.made += 1
        topic = f"random-{self.made}"
        lists = self.topics[topic] = {number: self._list() for number in range(self.random.randint(1, PARTITIONS_MAX))}

        def make(zookeeper: ZooKeeper) -> None:
            zookeeper.create(config_path("topics", topic), encode_config(ConfigZnode(config={})))
            zookeeper.create(topic_path(topic), _content(lists))

        return self._request("a new topic", f"{topic} is created: {lists}", make)

    def grows(self) -> Event:
        topic = self._topic()
        lists = self.topics[topic]
        lists[len(lists)] = self._list()
        content = dict(lists)

        def make(zookeeper: ZooKeeper) -> None:
            zookeeper.set(topic_path(topic), _content(content, zookeeper.get(topic_path(topic))[0]), ANY_VERSION)

        return self._request("a partition is added", f"{topic} gets partition {len(lists) - 1}", make)

    def moves(self) -> Event:
        topic = self._topic()
        number = self.random.choice(sorted(self.topics[topic]))
        target = self.topics[topic][number] = self._list()
        wanted = {TopicPartition(topic, number): tuple(map(BrokerId, target))}
        content = encode_reassign_partitions(wanted)
        return self._request(
            "a reassignment",
            f"{topic}-{number} moves to {target}",
            lambda zookeeper: zookeeper.create(REASSIGN_PARTITIONS, content) and None,
        )

    def is_deleted(self) -> Event:
        topic = self._topic()
        del self.topics[topic]
        return self._request(
            "a deletion",
            f"{topic} is deleted",
            lambda zookeeper: zookeeper.create(delete_topic_path(topic), encode_delete_topic()) and None,
        )

    def elects(self) -> Event:
        asked = [
            *PARTITIONS,
            *(TopicPartition(name, each) for name in sorted(self.topics) for each in self.topics[name]),
        ]
        content = encode_preferred_replica_election(asked)
        return self._request(
            "an election",
            f"preferred leaders of {len(asked)} partitions are elected",
            lambda zookeeper: zookeeper.create(PREFERRED_REPLICA_ELECTION, content) and None,
        )

    def _request(self, kind: str, what: str, make: Callable[[ZooKeeper], None]) -> Event:
        return Event(kind, what, lambda cluster: make(cluster.tools.zookeeper), lambda: make(self.world.zookeeper))

    def _goes_down(self) -> BrokerId:
        self.down = BrokerId(self.random.choice(BROKERS))
        return self.down

    def _topic(self) -> str:
        return self.random.choice(sorted(self.topics))

    def _list(self) -> tuple[int, ...]:
        """Two or three replicas: with one broker down each partition keeps a leader."""
        return tuple(self.random.sample(BROKERS, self.random.randint(2, len(BROKERS))))


def _content(lists: dict[int, tuple[int, ...]], before: bytes | None = None) -> bytes:
    """The topic's znode; what it holds beside its lists stays."""
    assignments = {number: ReplicaAssignment(tuple(map(BrokerId, ids))) for number, ids in lists.items()}
    if before is None:
        return encode_topic(TopicZnode(version=1, assignments=assignments))
    return encode_topic(replace(decode_topic(before, path="the topic"), assignments=assignments))


class Unlogged(Lockstep):
    """Kafka's own controller, which moves when its broker dies: the tree is compared, its log is not."""

    def __init__(self, kafka: KafkaCluster, zookeeper: ZooKeeper) -> None:
        super().__init__(kafka, zookeeper)
        self.words_as_now = False
        self.victim: BrokerId | None = None

    def logged(self) -> list[str]:
        return []

    def shows(self, what: str, deed: Callable[[SimulatedCluster], None], for_real: Callable[[], None]) -> None:
        """A broker that goes is not the controller: what the next one finds, when that dies, is a matter of chance."""
        while self.victim == self.controller():
            with suppress(NoNodeError):
                self.zookeeper.delete(CONTROLLER, ANY_VERSION)
        super().shows(what, deed, for_real)


@contextmanager
def kafkas(version: str) -> Iterator[Lockstep]:
    """Three brokers under Kafka's own controller."""
    with KafkaCluster(version, brokers=len(BROKERS), config=BROKER_CONFIG) as kafka, kafka.session() as zookeeper:
        yield Unlogged(kafka, zookeeper)


@contextmanager
def ours(version: str) -> Iterator[Lockstep]:
    """Three brokers that know no controller but the core; the tree is compared, its log is not."""
    with under_ours(version) as world:
        world.words_as_now = False
        yield world


def walk(world: Lockstep, seed: int, seconds: float, event_count: int | None) -> dict[str, list[float]]:
    """Lets events happen until the time is over, or so many have; kind → seconds until the tree was as predicted.

    Raises:
        AssertionError: a tree that the core did not predict, or an acknowledged message that is missing.
    """
    create_topic(world.zookeeper)
    took: defaultdict[str, list[float]] = defaultdict(list)
    events = Walk(world, seed)
    end_s = time.monotonic() + seconds
    with Traffic(world.kafka, PARTITIONS) as traffic:
        wait_until(
            lambda: len(traffic.acknowledged) == len(PARTITIONS), what="messages are acknowledged", timeout_s=120
        )
        while sum(map(len, took.values())) != event_count and time.monotonic() < end_s:
            event = events.next()
            begun_s = time.monotonic()
            print(f"{len(events.topics)} topics: {event.what}", flush=True)
            if isinstance(world, Unlogged):
                world.victim = events.down
            world.shows(event.what, event.predicted, event.for_real)
            took[event.kind].append(time.monotonic() - begun_s)
        if events.down is not None:
            world.kafka[events.down].start()
    counts = message_counts(world.kafka, TOPIC)
    lost = {str(each): traffic.acknowledged[each] - counts[each.partition] for each in PARTITIONS}
    assert all(missing <= 0 for missing in lost.values()), lost
    print(f"{sum(traffic.acknowledged.values())} messages acknowledged, none lost", flush=True)
    return took


def main() -> None:
    """Prints a table: each kind of event under both controllers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="3.9", help="of the brokers (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="the same seed, the same events (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=60.0, help="under the core (default: %(default)s)")
    arguments = parser.parse_args()
    with ours(arguments.version) as world:
        by_core = walk(world, arguments.seed, arguments.minutes * 60, None)
    count = sum(map(len, by_core.values()))
    print(f"{count} events under the core, {arguments.minutes:g} minutes, seed {arguments.seed}", flush=True)
    with kafkas(arguments.version) as world:
        by_kafka = walk(world, arguments.seed, 2 * arguments.minutes * 60, count)
    print(
        "| event | times | until the tree was as predicted, the core | Kafka's controller |\n| --- | --- | --- | --- |"
    )
    for kind, took in sorted(by_core.items()):
        print(f"| {kind} | {len(took)} | {median(took):.2f} s | {median(by_kafka[kind]):.2f} s |")


if __name__ == "__main__":
    main()
