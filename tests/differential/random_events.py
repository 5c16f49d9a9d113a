"""Random events on real brokers under the core alone and, at the same time, under Kafka's own controller: `python -m tests.differential.random_events`.

A seed gives the same events to both. On paper a simulated cluster lives through them, too, from the first to the last. After each event
these must hold, on the real clusters:

* the live tree is the one on paper, and stays so; its leaders are in their ISRs, and these among the replicas;
* every live broker tells its clients what the tree says, and who the controller is.

At the end no acknowledged message is missing, and the core's controller has not ended. Prints what did not hold, and what each kind of event took
and cost, side by side, for docs/fidelity.md.
"""

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from dataclasses import replace
from multiprocessing import get_context
from random import Random
from statistics import median
from typing import NamedTuple

from controller_core.messages.events import AlterReassignments, ElectLeaders, Event, UncleanElectionEnabled
from controller_core.model.config import UNCLEAN_LEADER_ELECTION
from controller_core.model.dialect import Dialect
from controller_core.model.errors import BrokerError
from controller_core.model.partitions import BrokerId, ReplicaAssignment, TopicPartition
from controller_core.ports.zookeeper import ANY_VERSION, ZooKeeper
from controller_core.runtime.simulated.cluster import SimulatedCluster
from controller_core.znodes import (
    BROKER_IDS,
    CONFIG_CHANGES,
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
from controller_core.znodes.configs import ConfigChange, encode_config_change
from controller_core.znodes.paths import CONFIG_CHANGE_PREFIX
from kafka_maintenance.demo.traffic import Traffic, message_counts
from kafka_maintenance.operations.cluster.admin_requests import (
    Errors,
    UnansweredError,
    alter_reassignments,
    elect_preferred_leaders,
)
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked, admin_client
from kafka_maintenance.operations.plans.explain import Action
from kafka_maintenance.servers.process import wait_until
from tests.differential.leaving import shut_down
from tests.differential.live_looks import told_by
from tests.differential.live_worlds import (
    BROKERS,
    CONFIG,
    CONTROLLER_ID,
    TIMEOUT_S,
    World,
    under_kafkas,
    under_the_core,
)
from tests.differential.lockstep import (
    BROKER_CONFIG,
    LOOK_S,
    PARTITIONS,
    STABLE_S,
    TOPIC,
    Tree,
    copy_metadata,
    create_topic,
    told,
    tree,
)
from tests.differential.under_the_core import PATIENT, dialect_of_jars

TOPICS_MAX = 6
PARTITIONS_MAX = 4


class Happening(NamedTuple):
    """What happens: on paper, and for real."""

    kind: str
    what: str
    on_paper: Action
    for_real: Callable[[], None]


class Lived(NamedTuple):
    """An event that is over: how long it took until the tree was as on paper and had stood still, and what it cost the controller."""

    kind: str
    seconds: float
    cpu_ms: float


class Walked(NamedTuple):
    """What came of all events under one controller."""

    lived: list[Lived]
    cpu_s: float
    acknowledged: int
    objections: list[str]


class Walk:
    """A cluster that random events happen to; which ones depends on the seed alone."""

    def __init__(self, world: World, dialect: Dialect, seed: int) -> None:
        self.world, self.dialect, self.random = world, dialect, Random(seed)
        self.paper = self._blank(BROKERS)
        self.down: list[BrokerId] = []
        self.topics: dict[str, dict[int, tuple[int, ...]]] = {}
        self.made = 0

    def next(self) -> Happening:
        """The next event. One broker is always up, which holds what applications write; moves, deletions and what a broker does in order wait for all."""
        kinds: list[Callable[[], Happening]] = [self.elects, self.failover]
        if self.down:
            kinds += [self.comes_back, self.comes_back]
        else:
            kinds += [self.shuts_down, self.bounces]
            kinds += [self.moves, self.is_deleted] if self.topics else []
        if len(self.down) < len(BROKERS) - 1:
            kinds.append(self.dies)
            kinds += [self.new_topic] if len(self.topics) < TOPICS_MAX else []
            kinds += [self.grows] if self.topics else []
        if self._leaderless():
            kinds += [self.elects_uncleanly, self.permits_unclean]
        return self.random.choice(kinds)()

    def begin(self) -> Happening:
        """The topic that applications write to."""
        return self._request("a new topic", f"{TOPIC} is created", create_topic)

    # brokers and the controller

    def dies(self) -> Happening:
        broker = self._goes_down()
        return Happening(
            "a broker dies",
            f"broker {broker} dies",
            lambda cluster: cluster.stop_broker(broker),
            lambda: self.world.kafka[broker].kill(forget=True),
        )

    def shuts_down(self) -> Happening:
        broker = self._goes_down()

        def for_real() -> None:
            self.world.kafka[broker].terminate()

        what = f"broker {broker} shuts down in order"
        return Happening("a broker shuts down", what, lambda cluster: shut_down(cluster, broker), for_real)

    def comes_back(self) -> Happening:
        broker = self.random.choice(self.down)
        self.down.remove(broker)
        return Happening(
            "a broker comes back, its start included",
            f"broker {broker} is back",
            lambda cluster: cluster.start_broker(broker) and None,
            lambda: self.world.kafka[broker].start() and None,
        )

    def bounces(self) -> Happening:
        broker = BrokerId(self.random.choice(BROKERS))

        def on_paper(cluster: SimulatedCluster) -> None:
            cluster.stop_broker(broker)
            cluster.settle()
            cluster.start_broker(broker)

        def for_real() -> None:
            self.world.kafka[broker].kill(forget=True)
            self.world.kafka[broker].start()

        return Happening("a broker bounces, its start included", f"broker {broker} bounces", on_paper, for_real)

    def failover(self) -> Happening:
        return Happening("the controller changes", "the controller changes", elected_again, self.world.successor)

    # topics

    def new_topic(self) -> Happening:
        self.made += 1
        topic = f"random-{self.made}"
        lists = self.topics[topic] = {number: self._list() for number in range(self.random.randint(1, PARTITIONS_MAX))}
        content = dict(lists)

        def make(zookeeper: ZooKeeper) -> None:
            zookeeper.create(config_path("topics", topic), encode_config(ConfigZnode(config={})))
            zookeeper.create(topic_path(topic), content_of(content))

        return self._request("a new topic", f"{topic} is created: {content}", make)

    def grows(self) -> Happening:
        topic = self._topic()
        lists = self.topics[topic]
        lists[len(lists)] = self._list()
        content = dict(lists)

        def make(zookeeper: ZooKeeper) -> None:
            zookeeper.set(topic_path(topic), content_of(content, zookeeper.get(topic_path(topic))[0]), ANY_VERSION)

        return self._request("a partition is added", f"{topic} gets partition {len(lists) - 1}", make)

    def is_deleted(self) -> Happening:
        topic = self._topic()
        del self.topics[topic]

        def make(zookeeper: ZooKeeper) -> None:
            zookeeper.create(delete_topic_path(topic), encode_delete_topic())

        return self._request("a deletion", f"{topic} is deleted", make)

    # requests, by znode or by an administrator's client

    def moves(self) -> Happening:
        topic = self._topic()
        partition = TopicPartition(topic, self.random.choice(sorted(self.topics[topic])))
        target = self.topics[topic][partition.partition] = self._list()
        kind, what, ids = "a reassignment", f"{partition} moves to {target}", tuple(map(BrokerId, target))
        if self.random.random() < 0.5:
            content = encode_reassign_partitions({partition: ids})
            return self._request(kind, what, lambda zookeeper: zookeeper.create(REASSIGN_PARTITIONS, content) and None)
        return self._asked(
            kind,
            f"{what}, asked for",
            AlterReassignments(((partition, ids),)),
            lambda brokers: refuse_none(alter_reassignments(brokers, {partition: ids}, what)),
        )

    def elects(self) -> Happening:
        asked = [
            *PARTITIONS,
            *(TopicPartition(name, each) for name in sorted(self.topics) for each in self.topics[name]),
        ]
        kind, what = "an election", f"preferred leaders of {len(asked)} partitions are elected"
        if self.random.random() < 0.5:
            content = encode_preferred_replica_election(asked)
            return self._request(
                kind, what, lambda zookeeper: zookeeper.create(PREFERRED_REPLICA_ELECTION, content) and None
            )
        return self._asked(
            kind,
            f"{what}, asked for",
            ElectLeaders(tuple(asked)),
            lambda brokers: elect_preferred_leaders(brokers, asked, what) and None,
        )

    def elects_uncleanly(self) -> Happening:
        partition = self.random.choice(self._leaderless())

        def ask(brokers: BrokersAsked) -> None:
            with admin_client("an unclean election", brokers, TIMEOUT_S, UnansweredError) as admin:
                admin.elect_leaders(1, {partition.topic: [partition.partition]})

        what = f"unclean election of {partition}, asked for"
        return self._asked("an unclean election", what, ElectLeaders((partition,), unclean=True), ask)

    def permits_unclean(self) -> Happening:
        topic = self.random.choice(self._leaderless()).topic
        content = encode_config(ConfigZnode({UNCLEAN_LEADER_ELECTION: "true"}))

        def on_paper(cluster: SimulatedCluster) -> None:
            cluster.tools.zookeeper.set(config_path("topics", topic), content, ANY_VERSION)
            tell(cluster, UncleanElectionEnabled(topic))

        def for_real() -> None:
            self.world.zookeeper.set(config_path("topics", topic), content, ANY_VERSION)
            notice = encode_config_change(ConfigChange(f"topics/{topic}"))
            self.world.zookeeper.create(f"{CONFIG_CHANGES}/{CONFIG_CHANGE_PREFIX}", notice, sequential=True)

        return Happening("an unclean election", f"{topic} permits unclean election", on_paper, for_real)

    def _request(self, kind: str, what: str, make: Callable[[ZooKeeper], None]) -> Happening:
        return Happening(kind, what, lambda cluster: make(cluster.tools.zookeeper), lambda: make(self.world.zookeeper))

    def _asked(self, kind: str, what: str, event: Event, ask: Callable[[BrokersAsked], None]) -> Happening:
        running = [each.address for each in self.world.kafka.brokers.values() if each.is_running]
        return Happening(kind, what, lambda cluster: tell(cluster, event), lambda: ask(BrokersAsked(",".join(running))))

    def _goes_down(self) -> BrokerId:
        broker = BrokerId(self.random.choice([each for each in BROKERS if each not in self.down]))
        self.down.append(broker)
        return broker

    def _topic(self) -> str:
        return self.random.choice(sorted(self.topics))

    def _list(self) -> tuple[int, ...]:
        """Two or three replicas: with one broker down each partition gets a leader."""
        return tuple(self.random.sample(BROKERS, self.random.randint(2, len(BROKERS))))

    def _leaderless(self) -> list[TopicPartition]:
        """Partitions without leader that a live replica could lead."""
        rows = tree(self.paper.tools.zookeeper).rows
        return [
            partition
            for topic in sorted(self.topics)
            for partition in (TopicPartition(topic, number) for number in self.topics[topic])
            if rows[str(partition)].leader == -1 and set(rows[str(partition)].assignment.replicas) - set(self.down)
        ]

    # what must hold

    def foresee(self, event: Happening) -> Tree:
        """The tree, once it happened on paper."""
        event.on_paper(self.paper)
        self.paper.settle()
        found = tree(self.paper.tools.zookeeper)
        for name, row in found.rows.items():
            assert set(row.isr) <= set(row.assignment.replicas), f"the ISR of {name}: {row}"
            assert row.leader in {None, -1, *row.isr}, f"the leader of {name}: {row}"
        return found

    def live(self, event: Happening) -> Lived:
        """Lets it happen on paper and for real.

        Raises:
            AssertionError: what must hold does not.
        """
        wanted = self.foresee(event)
        begun_s, begun_cpu_s = time.monotonic(), self.world.cpu_s()
        event.for_real()
        agreed_s: float | None = None
        while agreed_s is None or time.monotonic() < agreed_s + STABLE_S:
            now_s, found = time.monotonic(), tree(self.world.zookeeper)
            agreed_s = (agreed_s or now_s) if found == wanted else None
            if agreed_s is None and now_s > begun_s + TIMEOUT_S:
                real, paper = set(told(found)), set(told(wanted))
                raise AssertionError(f"live, not on paper: {sorted(real - paper)}; not live: {sorted(paper - real)}")
            time.sleep(LOOK_S)
        took_s, cpu_s = time.monotonic() - begun_s, self.world.cpu_s() - begun_cpu_s
        while otherwise := self._told_otherwise(wanted):
            assert time.monotonic() < begun_s + 2 * TIMEOUT_S, f"told otherwise than the tree says: {otherwise}"
            time.sleep(LOOK_S)
        return Lived(event.kind, took_s, cpu_s * 1000)

    def begin_anew(self) -> None:
        """After an objection the live tree is the one on paper."""
        self.paper = self._blank([each for each in BROKERS if each not in self.down], self.world.zookeeper)

    def _blank(self, brokers: Iterable[int], copied: ZooKeeper | None = None) -> SimulatedCluster:
        cluster = SimulatedCluster(self.dialect, broker_config=BROKER_CONFIG)
        if copied is not None:
            copy_metadata(copied, cluster.tools)
        for broker in (CONTROLLER_ID, *brokers):  # all register before the first controller looks
            cluster.start_broker(BrokerId(broker))
        be_elected(cluster)
        cluster.settle()
        return cluster

    def _told_otherwise(self, wanted: Tree) -> list[str]:
        """What a broker tells that the tree does not say."""
        expected: defaultdict[str, dict[int, object]] = defaultdict(dict)
        for name, row in wanted.rows.items():
            topic, _, number = name.rpartition("-")
            epoch = None if row.leader == -1 else row.leader_epoch
            expected[topic][int(number)] = (row.leader, epoch, list(row.assignment.replicas), list(row.isr))
        found = []
        for broker in map(int, self.world.zookeeper.children(BROKER_IDS)):
            for topic, rows in expected.items():
                try:
                    answer = told_by(self.world.zookeeper, broker, topic)
                except BrokerError as error:
                    return [str(error)]
                told_rows = {
                    number: (row["leader"], row.get("epoch"), row["replicas"], row["isr"])
                    for number, row in answer.get("partitions", {}).items()
                }
                if (told_rows, answer["controller"]) != (rows, CONTROLLER_ID):
                    found.append(f"broker {broker} of {topic}: {answer}")
        return found


def be_elected(cluster: SimulatedCluster) -> None:
    """Broker 4 becomes the active controller before any other looks."""
    controller = cluster.nodes[CONTROLLER_ID].controller
    while controller.advance():
        pass


def refuse_none(refused: Errors) -> None:
    assert not refused, refused


def elected_again(cluster: SimulatedCluster) -> None:
    cluster.tools.zookeeper.delete(CONTROLLER, ANY_VERSION)
    be_elected(cluster)


def tell(cluster: SimulatedCluster, event: Event) -> None:
    """The active controller hears of it."""
    cluster.nodes[CONTROLLER_ID].controller.queue.append(event)


def content_of(lists: dict[int, tuple[int, ...]], before: bytes | None = None) -> bytes:
    """The topic's znode; what it holds beside its lists stays."""
    assignments = {number: ReplicaAssignment(tuple(map(BrokerId, ids))) for number, ids in lists.items()}
    if before is None:
        return encode_topic(TopicZnode(version=1, assignments=assignments))
    return encode_topic(replace(decode_topic(before, path="the topic"), assignments=assignments))


def walk(
    under: Callable[..., AbstractContextManager[World]], whose: str, version: str, seed: int, seconds: float
) -> Walked:
    """Lets events happen to brokers under one controller until the time is over."""
    lived: list[Lived] = []
    objections: list[str] = []
    with under(version, {**CONFIG, **PATIENT}) as world:
        events = Walk(world, dialect_of_jars(version), seed)
        events.live(events.begin())
        begun_cpu_s = world.cpu_s()
        with Traffic(world.kafka, PARTITIONS) as traffic:
            wait_until(
                lambda: len(traffic.acknowledged) == len(PARTITIONS),
                what="messages are acknowledged",
                timeout_s=TIMEOUT_S,
            )
            end_s = time.monotonic() + seconds
            while time.monotonic() < end_s:
                event = events.next()
                print(f"{whose}, {len(lived)}: {event.what}", flush=True)
                try:
                    lived.append(events.live(event))
                except Exception as error:  # noqa: BLE001 - the next events are still worth their run
                    objections.append(f"{whose}, {event.what}: {error!r}")
                    print(objections[-1], flush=True)
                    events.begin_anew()
            cpu_s = world.cpu_s() - begun_cpu_s
            for broker in events.down:
                world.kafka[broker].start()
        counts = message_counts(world.kafka, TOPIC)
    lost = {str(each): told - counts[each.partition] for each, told in traffic.acknowledged.items()}
    objections += [f"{whose}, {name}: {count} acknowledged messages lost" for name, count in lost.items() if count > 0]
    return Walked(lived, cpu_s, sum(traffic.acknowledged.values()), objections)


def main() -> None:
    """Prints a table: each kind of event under both controllers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--version", default="3.9", help="of the brokers (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="the same seed, the same events (default: %(default)s)")
    parser.add_argument("--minutes", type=float, default=60.0, help="under each controller (default: %(default)s)")
    arguments = parser.parse_args()
    worlds = {"the core": under_the_core, "Kafka's controller": under_kafkas}
    with ProcessPoolExecutor(len(worlds), mp_context=get_context("forkserver")) as pool:
        walks = [
            pool.submit(walk, under, whose, arguments.version, arguments.seed, arguments.minutes * 60)
            for whose, under in worlds.items()
        ]
        walked = dict(zip(worlds, [each.result() for each in walks], strict=True))
    for whose, run in walked.items():
        each_ms = run.cpu_s * 1000 / len(run.lived)
        print(f"{whose}: {len(run.lived)} events, {each_ms:.1f} CPU ms each, {run.acknowledged} messages acknowledged")
    print(f"| event | times | {' | '.join(worlds)} |\n| --- | --- | --- | --- |")
    for kind in sorted({each.kind for run in walked.values() for each in run.lived}):
        rows = [[each for each in run.lived if each.kind == kind] for run in walked.values()]
        cells = [
            f"{median(e.seconds for e in row):.2f} s, {median(e.cpu_ms for e in row):.1f} ms" for row in rows if row
        ]
        print(f"| {kind} | {' / '.join(str(len(row)) for row in rows)} | {' | '.join(cells)} |")
    objections = [objection for run in walked.values() for objection in run.objections]
    sys.exit("\n".join(objections) if objections else None)


if __name__ == "__main__":
    main()
