"""The language of the scenario files: a cluster, commands, and the effects as text.

`given a cluster` describes brokers and partitions, `when …` is a command, and what stands below `----` is what comes out:
effects by `controller_core.runtime.render`, then refusals. ZooKeeper is a dictionary that takes every write, unless a block says
what it answers; `when ZooKeeper …` blocks answer the one question that is open.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from controller_core.context.context import ControllerContext
from controller_core.controller.step import Command, Step
from controller_core.messages import answers, events
from controller_core.messages import effects as e
from controller_core.model.config import UNCLEAN_LEADER_ELECTION
from controller_core.model.partitions import BrokerId, ReplicaAssignment, TopicPartition
from controller_core.runtime.render import render, render_context, render_refusals
from tests.controller_core.clusters import broker, cluster, led, zookeeper_of

LINE = "----"


@dataclass
class Block:
    """One block of a file: its comments, its command, what came out."""

    head: list[str]
    command: list[str]
    output: str

    def text(self) -> str:
        return "\n".join([*self.head, *self.command, LINE, self.output.rstrip("\n")]).rstrip("\n") + "\n"


def blocks(path: Path) -> Iterator[Block]:
    for part in re.split(r"\n\n+(?=#|given|when|then)", path.read_text(encoding="utf-8").strip()):
        told, _, output = part.partition(f"\n{LINE}")
        lines = told.split("\n")
        head = [line for line in lines if line.startswith("#")]
        yield Block(head, [line for line in lines if not line.startswith("#")], output.removeprefix("\n"))


class World:
    """One cluster through the blocks of a file."""

    def __init__(self) -> None:
        self.last = Step(cluster({}))
        self.zookeeper = zookeeper_of(self.context)
        self.by_hand = False
        self.told: set[type] = set()

    @property
    def context(self) -> ControllerContext:
        return self.last.context

    def perform(self, block: Block) -> str:
        """What comes out of a block; `told` collects what kinds of command were given."""
        first, *more = block.command
        words = first.split()
        if first.startswith("given a cluster"):
            return self._given(first, more)
        if first.startswith("given ZooKeeper answers by hand"):
            self.by_hand = True
            return "ok"
        if first.startswith("given ZooKeeper answers by itself"):
            self.by_hand = False
            return "ok"
        if first.startswith("when ZooKeeper answers and the controller dies"):
            assert self.last.awaiting is not None
            self.zookeeper.answer(self.last.awaiting)
            return "nothing"
        if first == "then the controller knows":
            return render_context(self.context)
        if first.startswith("when ZooKeeper"):
            assert self.last.awaiting is not None
            return self._run(self._answer(words, self.last.awaiting))
        command = self._command(first, words, more)
        self.told.add(type(command))
        return self._run(command)

    def _given(self, first: str, more: list[str]) -> str:
        version = re.search(r"of Kafka (\S+)", first)
        live: list[int] = []
        partitions, states = {}, {}
        assignments = {}
        for line in more:
            name, *told = line.split()
            fields = dict(word.split("=", 1) for word in told if "=" in word)
            if name == "brokers":
                live = _ids(told[0])
                continue
            partitions[name] = _ids(fields["replicas"])
            if "adding" in fields or "removing" in fields:
                lists = (_ids(fields[key]) if key in fields else [] for key in ("replicas", "adding", "removing"))
                assignments[name] = ReplicaAssignment(*(tuple(map(BrokerId, each)) for each in lists))
            if "leader" in fields:
                epoch, znode = int(fields.get("leader_epoch", 0)), int(fields.get("version", 0))
                states[name] = led(int(fields["leader"]), _ids(fields["isr"]), epoch, znode)
        name = version[1] if version else "3.9"
        context = cluster(partitions, states=states, live=live, version=name)
        for text, assignment in assignments.items():
            context = context.with_entry(_partition(text), assignment=assignment)
            moving = context.partitions_being_reassigned.set(_partition(text), None)
            context = replace(context, partitions_being_reassigned=moving)
        self.last = Step(context)
        self.zookeeper = zookeeper_of(self.context)
        return "ok"

    def _command(self, first: str, words: list[str], more: list[str]) -> Command:
        zookeeper = self.zookeeper
        known = {b.id: b for b in self.context.brokers.values()}
        match words[1:]:
            case ["broker", number, "fails"]:
                zookeeper.brokers = tuple(b for b in known.values() if b.id != int(number))
                return events.BrokersChanged()
            case ["broker", number, "starts"]:
                zookeeper.brokers = (*known.values(), broker(int(number), epoch=9))
                return events.BrokersChanged()
            case ["broker", number, "bounces"]:
                zookeeper.brokers = tuple(b._replace(epoch=9) if b.id == int(number) else b for b in known.values())
                return events.BrokersChanged()
            case ["broker", number, "asks", "to", "shut", "down"]:
                return events.ControlledShutdown(BrokerId(int(number)))
            case ["broker", number, "has", "deleted", topic]:
                partitions = [
                    p for p in self.context.partitions_for_topic(topic) if int(number) in self.context.assignment(p)
                ]
                return events.StopReplicaAnswered(BrokerId(int(number)), "NONE", dict.fromkeys(partitions, "NONE"))
            case ["broker", number, "loses", "the", "log", "directory", "of", name]:
                errors = {_partition(name): "KAFKA_STORAGE_ERROR"}
                return events.LeaderAndIsrAnswered(BrokerId(int(number)), "NONE", errors)
            case ["topic", topic, "is", "created"]:
                found = {}
                for line in more:
                    name, told = line.split()
                    found[_partition(name).partition] = ReplicaAssignment(
                        tuple(map(BrokerId, _ids(told.split("=")[1])))
                    )
                everything = {name: zookeeper.content(name) for name in self.context.all_topics()}
                zookeeper.topics = everything | {topic: answers.TopicContent(found, f"id-of-{topic}")}
                return events.TopicsChanged()
            case ["topic", topic, "grows"]:
                content = dict(zookeeper.content(topic).assignments)
                for line in more:
                    name, told = line.split()
                    content[_partition(name).partition] = ReplicaAssignment(
                        tuple(map(BrokerId, _ids(told.split("=")[1])))
                    )
                zookeeper.topics = {topic: answers.TopicContent(content, f"id-of-{topic}")}
                return events.TopicDataChanged(topic)
            case ["deletion", "of", topic, "is", "requested"]:
                zookeeper.deletions = (topic,)
                return events.DeletionsChanged()
            case ["reassignment", "of", name, "to", target, "is", "requested"]:
                zookeeper.targets = {_partition(name): tuple(map(BrokerId, _ids(target)))}
                return events.ReassignmentRequested()
            case ["reassignment", "of", name, "is", "cancelled"]:
                return events.AlterReassignments(((_partition(name), None),))
            case ["the", "running", "reassignments", "are", "listed"]:
                return events.ListReassignments()
            case ["the", "isr", "of", name, "becomes", isr]:
                return self._isr(_partition(name), tuple(map(BrokerId, _ids(isr))))
            case ["leaders", "notify", "of", name, "with", "isr", isr]:
                state = zookeeper.states[_partition(name)]
                members = tuple(map(BrokerId, _ids(isr)))
                zookeeper.states[_partition(name)] = state._replace(
                    isr=members, partition_epoch=state.partition_epoch + 1
                )
                zookeeper.isr_notifications = {"isr_change_0000000001": (_partition(name),)}
                return events.IsrNotificationsChanged()
            case ["the", "preferred", "leader", "of", name, "is", "wanted"]:
                zookeeper.elections = (_partition(name),)
                return events.PreferredElectionRequested()
            case ["an", "unclean", "election", "of", name, "is", "asked", "for"]:
                return events.ElectLeaders((_partition(name),), unclean=True)
            case ["the", "rebalance", "is", "due"]:
                return events.RebalanceDue()
            case ["broker", number, "listens", "at", host]:
                moved = tuple(at._replace(host=host) for at in known[BrokerId(int(number))].endpoints)
                zookeeper.brokers = tuple(
                    b._replace(endpoints=moved) if b.id == int(number) else b for b in known.values()
                )
                return events.BrokerDataChanged(BrokerId(int(number)))
            case ["broker", number, "announces", "a", "failed", "log", "directory"]:
                zookeeper.log_dir_events = {"log_dir_event_0000000001": int(number)}
                return events.LogDirEventsChanged()
            case ["broker", number, "refuses", "metadata", "with", error]:
                return events.UpdateMetadataAnswered(BrokerId(int(number)), error)
            case ["unclean", "election", "is", "switched", "on", "for", topic]:
                zookeeper.configs[topic] = {UNCLEAN_LEADER_ELECTION: "true"}
                return events.UncleanElectionEnabled(topic)
            case _:
                return self._controller_command(first, words)

    def _controller_command(self, first: str, words: list[str]) -> Command:
        """Commands about who is controller."""
        zookeeper = self.zookeeper
        match words[1:]:
            case ["the", "controller", "starts"]:
                return self._start()
            case ["another", "broker", "becomes", "controller"]:
                zookeeper.controller = 2
                return events.ControllerChanged()
            case ["the", "controller", "node", "vanishes"]:
                zookeeper.controller = None
                return events.ControllerVanished()
            case ["the", "session", "expires"]:
                zookeeper.controller = None
                return events.SessionExpired()
            case ["a", "new", "session", "stands"]:
                return events.SessionEstablished()
            case ["the", "controller", "resigns"]:
                return events.MoveController()
        raise AssertionError(f"not understood: {first!r}")

    def _start(self) -> Command:
        """A fresh controller, on what ZooKeeper holds."""
        known = self.context
        self.zookeeper = zookeeper_of(known, states=dict(self.zookeeper.states), targets=self.zookeeper.targets)
        self.zookeeper.deletions = tuple(sorted(known.topics_to_be_deleted))
        self.zookeeper.controller = None
        self.zookeeper.epoch = known.epoch
        nothing = cluster({}, live=(), version=known.dialect.version)
        self.last = Step(replace(nothing, active_controller_id=None, config=known.config))
        return events.Startup()

    def _isr(self, name: TopicPartition, isr: tuple[BrokerId, ...]) -> Command:
        state = self.zookeeper.states[name]
        if self.context.dialect.isr_through_controller:
            change = events.IsrChange(name, state.leader_epoch, state.partition_epoch, isr)
            return events.AlterPartition(state.leader, self.context.brokers[state.leader].epoch, (change,))
        self.zookeeper.states[name] = state._replace(isr=isr, partition_epoch=state.partition_epoch + 1)
        return events.PartitionStateChanged(name)

    def _answer(self, words: list[str], asked: e.Effect) -> answers.Answer:
        match words[2:]:
            case ["answers"]:
                return self.zookeeper.answer(asked)
            case ["refuses", "with", code]:
                return answers.Failed(asked, code)
            case ["has", "a", "newer", "state", "of", name]:
                assert isinstance(asked, e.WritePartitionStates)
                return answers.StatesWritten(asked, {}, {_partition(name): "BADVERSION"})
        raise AssertionError(f"not understood: {' '.join(words)!r}")

    def _run(self, command: Command) -> str:
        effects: list[e.Effect] = []
        refusals = []
        self.last = self.last.then(command)
        while True:
            effects += self.last.effects
            refusals += self.last.refusals
            if self.last.awaiting is None or self.by_hand:
                break
            self.last = self.last.then(self.zookeeper.answer(self.last.awaiting))
        return "\n".join(part for part in (render(effects), render_refusals(refusals)) if part) or "nothing"


def _ids(text: str) -> list[int]:
    return [] if text == "-" else [int(number) for number in text.split(",")]


def _partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))
