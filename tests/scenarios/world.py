"""The language of the scenario files: a cluster, commands, and the effects as text.

`given …` sets the scene and prints nothing: `given a cluster` describes brokers and partitions, `given that X` lets
`when X` happen. `when …` is a command, and what stands below `----` is what comes out: effects by
`controller_core.runtime.render`, then refusals. ZooKeeper compares and sets; after `given ZooKeeper answers by hand` each
`when ZooKeeper …` block answers the one question that is open.
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
from controller_core.model.config import UNCLEAN_LEADER_ELECTION, config_from
from controller_core.model.partitions import BrokerId, ReplicaAssignment, TopicPartition
from controller_core.runtime.render import render, render_context, render_refusals
from tests.controller_core.clusters import ZooKeeper, broker, cluster, led

LINE = "----"


@dataclass
class Block:
    """One block of a file: its comments, its command, what came out."""

    head: list[str]
    command: list[str]
    output: str | None  # None: the block is silent

    def text(self) -> str:
        if self.output is None:
            return "\n".join([*self.head, *self.command]) + "\n"
        return "\n".join([*self.head, *self.command, LINE, self.output.rstrip("\n")]).rstrip("\n") + "\n"


def blocks(path: Path) -> Iterator[Block]:
    for part in re.split(r"\n\n+(?=#|given|when|then)", path.read_text(encoding="utf-8").strip()):
        told, line, output = part.partition(f"\n{LINE}")
        lines = told.split("\n")
        head = [text for text in lines if text.startswith("#")]
        command = [text for text in lines if not text.startswith("#")]
        assert bool(line) is not command[0].startswith("given"), f"{path.name}: {command[0]!r} and its {LINE!r}"
        yield Block(head, command, output.removeprefix("\n") if line else None)


class ComparingZooKeeper(ZooKeeper):
    """Compares versions, so that a state that somebody else wrote in between is not overwritten."""

    def _write_states(self, effect: e.WritePartitionStates, states: e.PartitionStates) -> answers.Answer:
        lost = {p: "BADVERSION" for p, state in states if self.states[p].partition_epoch != state.partition_epoch}
        done = super()._write_states(effect, tuple(row for row in states if row[0] not in lost))
        return answers.StatesWritten(effect, done.versions, {**done.problems, **lost})


class World:
    """One cluster through the blocks of a file; `told`, `asked` and `answered` are the kinds that occurred."""

    def __init__(self) -> None:
        self.last = Step(cluster({}))
        self.zookeeper = ComparingZooKeeper(found=self.context)
        self.by_hand = False
        self.told: set[type] = set()
        self.asked: set[type] = set()
        self.answered: set[type] = set()

    @property
    def context(self) -> ControllerContext:
        return self.last.context

    def perform(self, block: Block) -> str:
        """What comes out of a block."""
        first, *more = block.command
        words = first.split()
        if first.startswith("given"):
            self._set_up(first, words, more)
            return ""
        if first.startswith("when ZooKeeper answers and the controller dies"):
            self._zookeeper_answers()
            return "nothing"
        if first == "then the controller knows":
            return render_context(self.context)
        if first.startswith("when ZooKeeper refuses with"):
            assert self.last.awaiting is not None
            return self._run(answers.Failed(self.last.awaiting, words[-1]))
        if first == "when ZooKeeper answers":
            return self._run(self._zookeeper_answers())
        if words[3:6] == ["changes", "the", "isr"]:  # when broker 2 changes the isr of t-0 to 2
            self._change_state(_partition(words[7]), _ids(words[9]))
            return "nothing"
        return self._run(self._command(first, words, more))

    def _set_up(self, first: str, words: list[str], more: list[str]) -> None:
        zookeeper = self.zookeeper
        match words[1:]:
            case ["a", "cluster", *_]:
                self._given_cluster(first, more)
            case ["that", *event]:
                by_hand, self.by_hand = self.by_hand, False
                self._run(self._command(first, ["when", *event], more))
                self.by_hand = by_hand
            case ["ZooKeeper", "answers", "by", "hand"]:
                self.by_hand = True
            case ["ZooKeeper", "answers", "by", "itself"]:
                self.by_hand = False
            case ["broker", number, "is", "the", "controller"]:
                zookeeper.controller = int(number)
                self.last = Step(replace(self.context, active_controller_id=BrokerId(int(number))))
            case ["the", "cluster", "migrates", "to", "KRaft"]:
                zookeeper.migrating = True
            case ["topic", topic, "is", "queued", "for", "deletion"]:
                self.last = Step(self.context.queue_topic_deletion([topic]))
            case ["topic", topic, "has", "no", "id"]:
                zookeeper.topics = {topic: zookeeper.content(topic)._replace(topic_id=None)}
            case ["an", "isr", "notification", "of", name, "waits"]:
                zookeeper.isr_notifications = {"isr_change_0000000001": (_partition(name),)}
            case ["a", "log", "dir", "event", "of", "broker", number, "waits"]:
                zookeeper.log_dir_events = {"log_dir_event_0000000001": int(number)}
            case ["the", "state", "of", name, "is", "damaged"]:
                zookeeper.problems[_partition(name)] = answers.ReadProblem("MALFORMED", "no JSON")
            case ["ZooKeeper", "fails", effect, "with", code]:
                zookeeper.failures[effect] = code
            case _:
                raise AssertionError(f"not understood: {first!r}")

    def _zookeeper_answers(self) -> answers.Answer:
        assert self.last.awaiting is not None
        answer = self.zookeeper.answer(self.last.awaiting)
        self.answered.add(type(answer))
        return answer

    def _change_state(self, partition: TopicPartition, isr: list[int]) -> None:
        """A leader writes its ISR."""
        state = self.zookeeper.states[partition]
        members = tuple(map(BrokerId, isr))
        self.zookeeper.states[partition] = state._replace(isr=members, partition_epoch=state.partition_epoch + 1)

    def _given_cluster(self, first: str, more: list[str]) -> None:
        version = re.search(r"of Kafka (\S+)", first)
        live: list[int] = []
        partitions, states = {}, {}
        assignments = {}
        configs: dict[str, str] = {}
        for line in more:
            name, *told = line.split()
            if name == "config":
                configs |= [told[0].split("=")]
                continue
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
        controller = context.config.controller_id
        config = config_from(configs, controller_id=controller, dialect=context.dialect) if configs else context.config
        self.last = Step(replace(context, config=config))
        self.zookeeper = ComparingZooKeeper(found=self.context, controller=1)

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
                found = _assignments(more)
                everything = {name: zookeeper.content(name) for name in self.context.all_topics()}
                zookeeper.topics = everything | {topic: answers.TopicContent(found, f"id-of-{topic}")}
                return events.TopicsChanged()
            case ["topic", topic, "grows"]:
                content = {**zookeeper.content(topic).assignments, **_assignments(more)}
                zookeeper.topics = {topic: answers.TopicContent(content, f"id-of-{topic}")}
                return events.TopicDataChanged(topic)
            case ["deletion", "of", topic, "is", "requested"]:
                zookeeper.deletions = (topic,)
                return events.DeletionsChanged()
            case ["reassignment", "of", name, "to", target, "is", "requested"]:
                others = (line.split(" to ") for line in more)
                asked = [(name, target), *((each.strip(), to) for each, to in others)]
                zookeeper.targets = {_partition(each): tuple(map(BrokerId, _ids(to))) for each, to in asked}
                return events.ReassignmentRequested()
            case ["reassignment", "of", name, "is", "cancelled"]:
                return events.AlterReassignments(((_partition(name), None),))
            case ["the", "running", "reassignments", "are", "listed"]:
                return events.ListReassignments()
            case ["the", "isr", "of", name, "becomes", isr]:
                return self._isr(_partition(name), tuple(map(BrokerId, _ids(isr))))
            case ["leaders", "notify", "of", name, "with", "isr", isr]:
                self._change_state(_partition(name), _ids(isr))
                zookeeper.isr_notifications = {"isr_change_0000000001": (_partition(name),)}
                names = () if self.context.dialect.lists_notifications_when_processed else ("isr_change_0000000001",)
                return events.IsrNotificationsChanged(names)
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

    def _request(self, words: list[str]) -> Command | None:
        """What clients and brokers ask of the controller."""
        match words[1:]:
            case ["a", "client", "asks", "for", "the", "preferred", "leader", "of", name]:
                return events.ElectLeaders((_partition(name),))
            case ["a", "client", "asks", "to", "reassign", name, "to", target]:
                return events.AlterReassignments(((_partition(name), tuple(map(BrokerId, _ids(target)))),))
            case ["broker", number, "asks", "for", "isr", isr, "of", name, "in", "leader", "epoch", epoch]:
                state = self.zookeeper.states[_partition(name)]
                members = tuple(map(BrokerId, _ids(isr)))
                change = events.IsrChange(_partition(name), int(epoch), state.partition_epoch, members)
                return events.AlterPartition(BrokerId(int(number)), 1, (change,))
        return None

    def _controller_command(self, first: str, words: list[str]) -> Command:
        """Commands about who is controller."""
        zookeeper = self.zookeeper
        request = self._request(words)
        if request is not None:
            return request
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
        before = self.zookeeper
        self.zookeeper = ComparingZooKeeper(
            found=known, states=dict(before.states), targets=before.targets, topics=before.topics,
            problems=before.problems, migrating=before.migrating, isr_notifications=before.isr_notifications,
            log_dir_events=before.log_dir_events, elections=before.elections,
            deletions=tuple(sorted(known.topics_to_be_deleted)),
        )  # fmt: skip
        self.zookeeper.controller = before.controller if before.controller != known.config.controller_id else None
        self.zookeeper.epoch = known.epoch
        nothing = cluster({}, live=(), version=known.dialect.version)
        self.last = Step(replace(nothing, active_controller_id=None, config=known.config))
        return events.Startup()

    def _isr(self, name: TopicPartition, isr: tuple[BrokerId, ...]) -> Command:
        state = self.zookeeper.states[name]
        if self.context.dialect.isr_through_controller:
            change = events.IsrChange(name, state.leader_epoch, state.partition_epoch, isr)
            return events.AlterPartition(state.leader, self.context.brokers[state.leader].epoch, (change,))
        self._change_state(name, list(isr))
        return events.PartitionStateChanged(name)

    def _run(self, command: Command) -> str:
        effects: list[e.Effect] = []
        refusals = []
        (self.answered if isinstance(command, answers.Answer) else self.told).add(type(command))
        self.last = self.last.then(command)
        while True:
            self.asked |= set(map(type, self.last.effects))
            effects += self.last.effects
            refusals += self.last.refusals
            if self.last.awaiting is None or self.by_hand:
                break
            self.last = self.last.then(self._zookeeper_answers())
        return "\n".join(part for part in (render(effects), render_refusals(refusals)) if part) or "nothing"


def _ids(text: str) -> list[int]:
    return [] if text == "-" else [int(number) for number in text.split(",")]


def _partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


def _assignments(lines: list[str]) -> dict[int, ReplicaAssignment]:
    """Lines such as `t-0 replicas=1,2`, by partition number."""
    found = {}
    for line in lines:
        name, replicas = line.split()
        found[_partition(name).partition] = ReplicaAssignment(
            tuple(map(BrokerId, _ids(replicas.removeprefix("replicas="))))
        )
    return found
