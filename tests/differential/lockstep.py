"""Real brokers beside the simulated cluster: the same action on both, and what the tree shows after it."""

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import NamedTuple

from controller_core.model.dialect import dialect_for, parse_version
from controller_core.model.errors import NoNodeError
from controller_core.model.partitions import BrokerId, ReplicaAssignment, TopicPartition
from controller_core.ports.zookeeper import ZooKeeper
from controller_core.runtime.kafka_zk.adapter import KafkaZk
from controller_core.runtime.simulated.cluster import SimulatedCluster
from controller_core.runtime.state_change_log import state_change_log
from controller_core.znodes import (
    CONTROLLER_EPOCH,
    DELETE_TOPICS,
    PREFERRED_REPLICA_ELECTION,
    REASSIGN_PARTITIONS,
    TOPICS,
    ConfigZnode,
    TopicZnode,
    config_path,
    decode_state,
    decode_topic,
    delete_topic_path,
    encode_config,
    encode_delete_topic,
    encode_preferred_replica_election,
    encode_reassign_partitions,
    encode_topic,
    state_path,
    topic_path,
)
from kafka_maintenance.operations.plans.explain import Action
from kafka_maintenance.servers.kafka import KafkaCluster
from kafka_maintenance.servers.process import wait_until

BROKERS = (1, 2, 3)
BROKER_CONFIG = {"auto.leader.rebalance.enable": "false", "delete.topic.enable": "true"}  # as our brokers have it
TOPIC = "orders"
PARTITIONS = [TopicPartition(TOPIC, number) for number in range(3)]
ASSIGNMENT = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)}
TARGETS = {PARTITIONS[0]: (3, 2), PARTITIONS[1]: (1, 3, 2)}
REQUESTS = (REASSIGN_PARTITIONS, PREFERRED_REPLICA_ELECTION)
SETTLE_S = 120.0
STABLE_S = 0.3
LOOK_S = 0.05
CHANGE = re.compile(r"epoch=\d+\] (Changed .*?|Partition .* state changed to .*?)( \(state\.change\.logger\))?$")
SAME = re.compile(r"Changed state of replica .* from (\w+) to \1")
STATE = re.compile(
    r"LeaderAndIsr\(leader=(-?\d+), leaderEpoch=(\d+), (.*)\)|\(Leader:(-?\d+),ISR:([\d,]*),.*?LeaderEpoch:(\d+),.*?\)"
)


def changes(lines: Iterable[str]) -> list[str]:
    """State changes of a log, without what differs by design: epochs of the controller and of brokers, versions, order of an ISR."""
    found = [match[1] for line in lines if (match := CHANGE.search(line)) and not SAME.match(match[1])]
    return sorted(STATE.sub(leadership, line) for line in found)


def leadership(match: re.Match[str]) -> str:
    leader, epoch, rest, other_leader, other_isr, other_epoch = match.groups()
    if rest is None:
        return f"{other_leader} {other_epoch} {sorted(other_isr.split(','))}"
    isr = re.findall(r"brokerId=(\d+)", rest) or re.findall(r"\d+", rest.partition("(")[2].partition(")")[0])
    return f"{leader} {epoch} {sorted(isr)}"


class Row(NamedTuple):
    """What a partition's znodes say; the order of an ISR is the brokers' own business."""

    assignment: ReplicaAssignment
    leader: int | None
    leader_epoch: int | None
    isr: tuple[int, ...]


class Tree(NamedTuple):
    rows: Mapping[str, Row]
    requests: tuple[str, ...]


def tree(zookeeper: ZooKeeper) -> Tree:
    rows = {}
    for topic in zookeeper.children(TOPICS):
        try:
            data, _ = zookeeper.get(topic_path(topic))
        except NoNodeError:  # deleted since it was listed
            continue
        for number, assignment in decode_topic(data, path=topic_path(topic)).assignments.items():
            partition = TopicPartition(topic, number)
            rows[str(partition)] = Row(assignment, *state(zookeeper, partition))
    deletions = [delete_topic_path(topic) for topic in zookeeper.children(DELETE_TOPICS)]
    return Tree(rows, tuple([path for path in REQUESTS if zookeeper.exists(path)] + deletions))


def state(zookeeper: ZooKeeper, partition: TopicPartition) -> tuple[int | None, int | None, tuple[int, ...]]:
    path = state_path(partition)
    try:
        data, stat = zookeeper.get(path)
    except NoNodeError:
        return None, None, ()
    found = decode_state(data, path=path, version=stat.version)
    return found.leader, found.leader_epoch, tuple(sorted(found.isr))


def told(found: Tree) -> list[str]:
    """One line per partition, so that a difference is read at once."""
    return [f"{name} {row}" for name, row in found.rows.items()] + list(found.requests)


def _more(lines: Iterable[str], others: Iterable[str]) -> list[str]:
    return sorted((Counter(lines) - Counter(others)).elements())


def create_topic(zookeeper: ZooKeeper) -> None:
    zookeeper.create(config_path("topics", TOPIC), encode_config(ConfigZnode(config={})))
    assignments = {number: ReplicaAssignment(tuple(map(BrokerId, ids))) for number, ids in ASSIGNMENT.items()}
    zookeeper.create(topic_path(TOPIC), encode_topic(TopicZnode(version=1, assignments=assignments)))


def elect(zookeeper: ZooKeeper) -> None:
    zookeeper.create(PREFERRED_REPLICA_ELECTION, encode_preferred_replica_election(PARTITIONS))


def reassign(zookeeper: ZooKeeper) -> None:
    targets = {partition: tuple(map(BrokerId, ids)) for partition, ids in TARGETS.items()}
    zookeeper.create(REASSIGN_PARTITIONS, encode_reassign_partitions(targets))


def delete_topic(zookeeper: ZooKeeper) -> None:
    zookeeper.create(delete_topic_path(TOPIC), encode_delete_topic())


def copy_metadata(zookeeper: ZooKeeper, tools: KafkaZk) -> None:
    """Topics, their configs and states, and the controller's epoch: a controller elects nothing that a later one wrote."""
    tools.zookeeper.create(CONTROLLER_EPOCH, zookeeper.get(CONTROLLER_EPOCH)[0])
    for topic in zookeeper.children(TOPICS):
        numbers = zookeeper.children(f"{topic_path(topic)}/partitions")
        states = [state_path(TopicPartition(topic, int(number))) for number in numbers]
        for path in (topic_path(topic), config_path("topics", topic), *states):
            tools.zookeeper.create(path, zookeeper.get(path)[0], make_parents=True)


class Lockstep:
    """A real cluster, and a fresh simulated one for each prediction."""

    def __init__(self, kafka: KafkaCluster, zookeeper: ZooKeeper) -> None:
        self.kafka = kafka
        self.zookeeper = zookeeper
        self.dialect = dialect_for(kafka.version)
        version = parse_version(kafka.version)
        self.words_as_now = version >= (1, 1)
        self.logs_isr_changes = version >= (2, 8)  # 2.4.1 and before have no line for it, 2.8.2 has

    def predicted(self, action: Action) -> tuple[Tree, list[str]]:
        """The tree and the state changes that the core foresees when `action` is done on a copy of the live tree."""
        log: list[str] = []
        cluster = SimulatedCluster(
            self.dialect, broker_config=BROKER_CONFIG, stepped=lambda _, step: log.extend(state_change_log(step))
        )
        copy_metadata(self.zookeeper, cluster.tools)
        for broker in self.live():  # all register before the first controller looks
            cluster.start_broker(BrokerId(broker))
        controller = cluster.nodes[BrokerId(self.controller())].controller
        while controller.advance():  # the same broker becomes the active controller as in the live cluster
            pass
        cluster.settle()
        log.clear()
        action(cluster)
        cluster.settle()
        told = self.as_logged(log)
        if not self.logs_isr_changes:
            told = [line for line in told if not line.startswith("Partition ")]
        if (
            not self.dialect.startup_moves_dead_replicas_offline
        ):  # here a new controller took over, there the old one goes on
            told = [
                line.replace("from ReplicaDeletionIneligible to Online", "from OfflineReplica to Online")
                for line in told
            ]
        return tree(cluster.tools.zookeeper), told

    def as_logged(self, lines: Iterable[str]) -> list[str]:
        """The state changes that are compared: none where Kafka had other words for them."""
        return changes(lines) if self.words_as_now else []

    def logged(self) -> list[str]:
        """All lines of the live controller's log so far."""
        log = self.kafka.workspace.logs / f"{self.kafka.name}-{self.controller()}.log"
        return log.read_text(encoding="utf-8").splitlines()

    def live(self) -> list[int]:
        """Ids of the brokers that run, the controller's among them."""
        return sorted(broker.id for broker in self.kafka.brokers.values() if broker.is_running)

    def controller(self) -> int:
        """The live controller's id; a dead one is replaced within the session timeout."""
        wait_until(
            lambda: self.kafka.controller_id() is not None, what="there is an active controller", timeout_s=SETTLE_S
        )
        return self.kafka.controller_id() or 0

    def shows(
        self, what: str, action: Action, for_real: Callable[[], None], or_by_chance: Iterable[Action] = ()
    ) -> None:
        """Predict, do it for real, and wait until live tree and state changes are as predicted and stay so.

        `or_by_chance` are other courses that Kafka leaves open: one of them all is what tree and log show.
        """
        predictions = [self.predicted(each) for each in (action, *or_by_chance)]
        controller, before = self.controller(), len(self.logged())
        for_real()
        deadline = time.monotonic() + SETTLE_S
        agreed_since = None
        while agreed_since is None or time.monotonic() < agreed_since + STABLE_S:
            now, found = time.monotonic(), tree(self.zookeeper)
            logged = self.as_logged(self.logged()[before:])
            agreed_since = (agreed_since or now) if (found, logged) in predictions else None
            if agreed_since is None and now > deadline:
                (foreseen, log), *_ = predictions
                compared = {"the tree": (told(found), told(foreseen)), "the log": (logged, log)}
                differs = [
                    f"{which}: live, not predicted: {_more(live, core)}; predicted, not live: {_more(core, live)}"
                    for which, (live, core) in compared.items()
                ]
                who = f"controller {controller} before, {self.controller()} now, whose log is compared"
                raise AssertionError(f"{what} ({who}): {'; '.join(differs)}")
            time.sleep(LOOK_S)

    def request(self, what: str, make: Callable[[ZooKeeper], None]) -> None:
        """The same request node in both worlds."""
        self.shows(what, lambda cluster: make(cluster.tools.zookeeper), lambda: make(self.zookeeper))
