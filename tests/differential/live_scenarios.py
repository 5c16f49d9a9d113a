"""Scenarios that real brokers live through under Kafka's own controller and under the core: both must end alike.

One start of three brokers serves all scenarios of a version. Each has a topic of its own, its name; it ends with all brokers up and its topic
deleted, so that the next begins where it began. Whoever is the controller is broker 4, which has no replicas: one of Kafka's, or the laboratory.
"""

import json
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from controller_core.model.dialect import dialect_for
from controller_core.model.errors import BrokerError, NodeExistsError
from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.ports.zookeeper import ANY_VERSION, ZooKeeper
from controller_core.znodes import (
    BROKER_IDS,
    CONFIG_CHANGES,
    PREFERRED_REPLICA_ELECTION,
    REASSIGN_PARTITIONS,
    ConfigZnode,
    TopicZnode,
    config_path,
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
    UnansweredError,
    alter_reassignments,
    elect_preferred_leaders,
)
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked, admin_client
from kafka_maintenance.servers.kafka import KafkaCluster
from kafka_maintenance.servers.process import wait_until
from tests.differential.live_looks import (
    ISR_NOTICES,
    NOT_COMPARED,
    REQUESTS,
    expected_rows,
    ids_of,
    lists_of,
    told_by,
    tree_of,
    without_epochs,
)
from tests.differential.live_worlds import BROKERS, TIMEOUT_S, World

FILES = sorted((Path(__file__).parent / "scenarios").glob("*.txt"))
STABLE_S = 0.4
LOOK_S = 0.1


class Ended(NamedTuple):
    """What a scenario came to: tree and metadata at each of its looks, what its writers were told, and what it took."""

    looks: list[dict[str, Any]]
    acknowledged: int
    missing: int
    seconds: float
    controller_cpu_s: float


@dataclass
class Scenario:
    """One file on one cluster; `end` leaves the cluster as it was."""

    world: World
    name: str
    traffic: Traffic | None = None
    partitions: list[TopicPartition] = field(default_factory=list)
    acknowledged: Counter[TopicPartition] = field(default_factory=Counter)
    written: int = 0
    missing: int = 0
    looks: list[dict[str, Any]] = field(default_factory=list)
    configs_set: bool = False
    paused: set[int] = field(default_factory=set)
    epochs_vary: bool = False
    lost: dict[int, Path] = field(default_factory=dict)

    @property
    def topic(self) -> str:
        return self.name.replace("_", "-")

    def perform(self, line: str) -> None:
        """One line of the file."""
        verb, *arguments = line.split()
        if verb == "then":
            self.then(line.removeprefix("then "))
        else:
            getattr(self, f"do_{verb}")(*arguments)

    # the topic

    def do_topic(self, *lists: str) -> None:
        self.partitions = [TopicPartition(self.topic, number) for number in range(len(lists))]
        with suppress(NodeExistsError):
            self.zookeeper.create(config_path("topics", self.topic), encode_config(ConfigZnode({})))
        self.zookeeper.create(topic_path(self.topic), encode_topic(TopicZnode(version=1, assignments=lists_of(lists))))

    def do_make(self, *lists: str) -> None:
        self.partitions = [TopicPartition(self.topic, number) for number in range(len(lists))]
        with admin_client("a new topic", self.asked, TIMEOUT_S, UnansweredError) as admin:
            admin.create_topics({self.topic: {"assignments": dict(enumerate(map(ids_of, lists)))}})

    def do_grow(self, *lists: str) -> None:
        path = topic_path(self.topic)
        content = json.loads(self.zookeeper.get(path)[0])
        for ids in lists:
            number = len(self.partitions)
            content["partitions"][str(number)] = ids_of(ids)
            self.partitions.append(TopicPartition(self.topic, number))
        self.zookeeper.set(path, json.dumps(content).encode(), ANY_VERSION)

    def do_delete(self) -> None:
        self.account()
        self.zookeeper.create(delete_topic_path(self.topic), encode_delete_topic())

    def do_withdraw(self) -> None:
        self.zookeeper.delete(delete_topic_path(self.topic), ANY_VERSION)

    def do_empty(self) -> None:
        """Nothing of what was acknowledged before the topic was to be deleted can be read."""
        counts = message_counts(self.kafka, self.topic)
        assert counts and not any(counts.values()), counts

    def do_set(self, what: str, override: str) -> None:
        key, value = override.split("=")
        self.configs_set = self.configs_set or what == "brokers"
        self._configure(what, {key: value})

    # brokers and the controller

    def do_kill(self, broker: str) -> None:
        self.kafka[int(broker)].kill(forget=True)

    def do_stop(self, broker: str) -> None:
        """Before Kafka 3.3 a leader may take it back into the ISR while it stops: whether its death costs another epoch is a matter of chance."""
        self.epochs_vary |= not dialect_for(self.kafka.version).refuses_isr_of_unavailable
        self.kafka[int(broker)].terminate()

    def do_start(self, broker: str) -> None:
        self.kafka[int(broker)].start()

    def do_bounce(self, broker: str) -> None:
        self.do_kill(broker)
        self.do_start(broker)

    def do_pause(self, broker: str) -> None:
        self.paused.add(int(broker))
        self.kafka[int(broker)].pause()

    def do_resume(self, broker: str) -> None:
        self.kafka[int(broker)].resume()
        self.paused.discard(int(broker))

    def do_lose(self, broker: str) -> None:
        """The log directory of partition 0 fails: a file is in its place, so that the next checkpoint cannot be written."""
        (found,) = (
            Path(each)
            for each in self.kafka[int(broker)].settings()["log.dirs"].split(",")
            if (Path(each) / f"{self.topic}-0").is_dir()
        )
        self.lost[int(broker)] = found
        found.rename(found.with_suffix(".lost"))
        found.touch()

    def do_find(self, broker: str) -> None:
        """It is back; a broker takes it when it starts."""
        lost = self.lost.pop(int(broker))
        lost.unlink()
        lost.with_suffix(".lost").rename(lost)

    def do_failover(self) -> None:
        self.world.successor()

    # requests

    def do_assign(self, *targets: str) -> None:
        wanted = {partition: tuple(map(BrokerId, ids or ())) for partition, ids in map(self._target, targets)}
        self.zookeeper.create(REASSIGN_PARTITIONS, encode_reassign_partitions(wanted))

    def do_move(self, *targets: str) -> None:
        self._alter(dict(map(self._target, targets)))

    def do_cancel(self, *numbers: str) -> None:
        self._alter(dict.fromkeys(self._numbered(numbers)))

    def do_elect(self, *numbers: str) -> None:
        content = encode_preferred_replica_election(self._numbered(numbers))
        self.zookeeper.create(PREFERRED_REPLICA_ELECTION, content)

    def do_ask(self, kind: str, *numbers: str) -> None:
        if kind == "preferred":
            refused = elect_preferred_leaders(self.asked, self._numbered(numbers), "an election")
            assert not refused, refused
            return
        with admin_client("an unclean election", self.asked, TIMEOUT_S, UnansweredError) as admin:
            admin.elect_leaders(1, {self.topic: list(map(int, numbers))})

    # writers

    def do_write(self) -> None:
        """From here on applications write to every partition; each acknowledges something."""
        self.do_quiet()
        self.traffic = Traffic(self.kafka, self.partitions)
        self.traffic.__enter__()
        self.do_flow()

    def do_flow(self) -> None:
        traffic = self.traffic
        assert traffic is not None, "nobody writes"
        before = traffic.acknowledged.copy()
        wait_until(
            lambda: all(traffic.acknowledged[each] > before[each] for each in self.partitions),
            what=f"{self.name}: each partition acknowledges messages",
            timeout_s=TIMEOUT_S,
        )

    def do_quiet(self) -> None:
        if self.traffic is not None:
            self.traffic.stop()
            self.acknowledged += self.traffic.acknowledged
            self.traffic = None

    def account(self) -> None:
        """Compares what can be read with what was acknowledged."""
        self.do_quiet()
        if not self.acknowledged:
            return
        counts = message_counts(self.kafka, self.topic)
        self.written += sum(self.acknowledged.values())
        self.missing += sum(max(0, told - counts[each.partition]) for each, told in self.acknowledged.items())
        self.acknowledged.clear()

    # what came of it

    def then(self, wanted: str) -> None:
        """Waits until the tree is as the file says, nothing is under way, and every live broker tells the same; keeps both."""
        expected = expected_rows(wanted)
        deadline_s = time.monotonic() + TIMEOUT_S
        since_s, last = 0.0, None
        while True:
            now_s = time.monotonic()
            found = self._looked(waits=wanted == "queued" or "adding=" in wanted)
            told = found if isinstance(found, str) else self._objection(found, wanted, expected)
            if told is not None or found != last:
                since_s, last = now_s, None if told else found
            elif now_s > since_s + STABLE_S:
                assert isinstance(found, dict)
                self.looks.append(without_epochs(found) if self.epochs_vary else found)
                return
            if now_s > deadline_s:
                raise AssertionError(f"{self.name}: then {wanted}: {told or 'it does not come to rest'}; found {found}")
            time.sleep(LOOK_S)

    def end(self) -> None:
        """Leaves the cluster as the next scenario expects it."""
        for broker in BROKERS:
            if not self.kafka[broker].is_running:
                self.kafka[broker].start()
        if self.configs_set:
            self._configure("brokers", {})
            self.zookeeper.delete(config_path("brokers", "<default>"), ANY_VERSION)
        if self.zookeeper.exists(topic_path(self.topic)) is not None:
            self.do_delete()
        self.then("gone")

    def _looked(self, *, waits: bool) -> dict[str, Any] | str:
        """Tree and metadata, or what is under way."""
        tree = tree_of(self.zookeeper)
        for path in tree:
            if path.startswith(ISR_NOTICES) or (path.startswith(REQUESTS) and not waits):
                return f"{path} is there"
        try:
            told = {broker: told_by(self.zookeeper, broker, self.topic) for broker in self._live()}
        except BrokerError as error:
            return str(error)
        compared = {path: data for path, data in tree.items() if not path.startswith(NOT_COMPARED)}
        return {"tree": compared, "metadata": told}

    def _objection(
        self, found: Mapping[str, Any], wanted: str, expected: Mapping[int, Mapping[str, Any]]
    ) -> str | None:
        tree, told = found["tree"], found["metadata"]
        if any(each != next(iter(told.values())) for each in told.values()):
            return "brokers tell different things"
        metadata = next(iter(told.values()))
        if wanted in {"gone", "queued"}:
            is_there = topic_path(self.topic) in tree
            if wanted == "queued":
                return None if delete_topic_path(self.topic) in tree else "nothing waits"
            return "the topic is there" if is_there or "partitions" in metadata else None
        for number, row in expected.items():
            state = tree.get(f"{topic_path(self.topic)}/partitions/{number}/state")
            if not row:
                if state is not None:
                    return f"partition {number} has a state"
                continue
            content = tree.get(topic_path(self.topic), {})
            have = {
                "leader": state and state["leader"],
                "isr": state and state["isr"],
                "replicas": content.get("partitions", {}).get(str(number)),
                "adding": content.get("adding_replicas", {}).get(str(number), []),
                "removing": content.get("removing_replicas", {}).get(str(number), []),
            }
            if have != {**have, "adding": [], "removing": [], **row}:
                return f"partition {number}: {have}"
            seen = metadata.get("partitions", {}).get(number, {})
            if (seen.get("leader"), seen.get("isr")) != (have["leader"], have["isr"]) or (
                state and seen.get("epoch", state["leader_epoch"]) != state["leader_epoch"]
            ):
                return f"partition {number} is told as {seen}"
        return None

    def _live(self) -> list[int]:
        return [each for each in map(int, self.zookeeper.children(BROKER_IDS)) if each not in self.paused]

    @property
    def kafka(self) -> KafkaCluster:
        return self.world.kafka

    @property
    def zookeeper(self) -> ZooKeeper:
        return self.world.zookeeper

    @property
    def asked(self) -> BrokersAsked:
        return BrokersAsked(",".join(each.address for each in self.kafka.brokers.values() if each.is_running))

    def _alter(self, targets: Mapping[TopicPartition, list[int] | None]) -> None:
        refused = alter_reassignments(self.asked, targets, "a reassignment")
        assert not refused, refused

    def _numbered(self, numbers: tuple[str, ...]) -> list[TopicPartition]:
        return [TopicPartition(self.topic, int(each)) for each in numbers]

    def _target(self, target: str) -> tuple[TopicPartition, list[int] | None]:
        number, _, ids = target.partition(":")
        return TopicPartition(self.topic, int(number)), ids_of(ids)

    def _configure(self, what: str, config: Mapping[str, str]) -> None:
        kind, name = ("topics", self.topic) if what == "topic" else ("brokers", "<default>")
        path, content = config_path(kind, name), encode_config(ConfigZnode(dict(config)))
        if self.zookeeper.exists(path) is None:
            self.zookeeper.create(path, content, make_parents=True)
        else:
            self.zookeeper.set(path, content, ANY_VERSION)
        notice = encode_config_change(ConfigChange(f"{kind}/{name}"))
        self.zookeeper.create(f"{CONFIG_CHANGES}/{CONFIG_CHANGE_PREFIX}", notice, sequential=True)


def run(world: World, path: Path) -> Ended:
    """Lets the brokers live through one scenario.

    Raises:
        AssertionError: it did not come to what the file says, or an acknowledged message is missing.
    """
    scenario, begun_s, begun_cpu_s = Scenario(world, path.stem), time.monotonic(), world.cpu_s()
    try:
        for line in path.read_text(encoding="utf-8").splitlines():
            if line and not line.startswith("#"):
                scenario.perform(line)
        scenario.account()
        scenario.end()
    finally:
        scenario.do_quiet()
    assert scenario.missing == 0, (
        f"{path.stem}: {scenario.missing} of {scenario.written} acknowledged messages are missing"
    )
    took_s, cpu_s = time.monotonic() - begun_s, world.cpu_s() - begun_cpu_s
    return Ended(scenario.looks, scenario.written, scenario.missing, took_s, cpu_s)


def differences(kafkas: Ended, ours: Ended) -> list[str]:
    """What is not the same at the end of a scenario, or at one of its looks."""
    return [
        f"look {number + 1}, {part} {key}: Kafka's controller {there[part].get(key)}, the core {here[part].get(key)}"
        for number, (there, here) in enumerate(zip(kafkas.looks, ours.looks, strict=True))
        for part in ("tree", "metadata")
        for key in sorted({*there[part], *here[part]}, key=str)
        if there[part].get(key) != here[part].get(key)
    ]
