"""Small clusters for the tests of the core, and a ZooKeeper that answers at once."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from controller_core.context.builder import build_context
from controller_core.context.context import ControllerContext
from controller_core.context.partition_entries import PartitionEntry
from controller_core.controller.step import Command, Step, step
from controller_core.engine.batch import BatchFault
from controller_core.engine.turn import RunTasks, UnderWay
from controller_core.messages import answers
from controller_core.messages import effects as e
from controller_core.model.config import ControllerConfig
from controller_core.model.dialect import dialect_for
from controller_core.model.partitions import (
    Broker,
    BrokerId,
    Endpoint,
    LeaderAndIsr,
    LeaderRecoveryState,
    PartitionAndReplica,
    ReplicaAssignment,
    TopicPartition,
)
from controller_core.model.refusals import Refusal
from controller_core.runtime.driver import answered_steps
from controller_core.runtime.simulated.answers import SimulatedAnswers

RECOVERED = LeaderRecoveryState.RECOVERED


def partition(text: str) -> TopicPartition:
    topic, _, number = text.rpartition("-")
    return TopicPartition(topic, int(number))


T0 = partition("t-0")


def replica(text: str) -> PartitionAndReplica:
    name, _, number = text.rpartition("-")
    return PartitionAndReplica(partition(name), BrokerId(int(number)))


def broker(broker_id: int, epoch: int = 1) -> Broker:
    return Broker(BrokerId(broker_id), epoch, (Endpoint(f"h{broker_id}", 9092, "PLAINTEXT", "PLAINTEXT"),))


def led(leader: int, isr: Iterable[int], epoch: int = 5, version: int = 7, controller_epoch: int = 1) -> LeaderAndIsr:
    members = tuple(map(BrokerId, isr))
    return LeaderAndIsr(BrokerId(leader), epoch, members, RECOVERED, version, controller_epoch)


def cluster(
    replicas: dict[str, Iterable[int]],
    *,
    states: dict[str, LeaderAndIsr] | None = None,
    live: Iterable[int] = (1, 2, 3),
    version: str = "3.9",
    ibp: str | None = None,
    started: bool = True,
    **fields: object,
) -> ControllerContext:
    """Partitions on brokers, with broker 1 as active controller under epoch 1; every partition led by its first replica unless said."""
    dialect = dialect_for(version, ibp)
    assigned = {partition(p): ReplicaAssignment(tuple(map(BrokerId, r))) for p, r in replicas.items()}
    known = {p: led(a.replicas[0], a.replicas) for p, a in assigned.items()}
    if states is not None:
        known = {partition(p): state for p, state in states.items()}
    context = build_context(
        dialect=dialect,
        brokers=[broker(b) for b in live],
        assignments=assigned,
        states=known,
        topic_ids={p.topic: f"id-of-{p.topic}" for p in assigned},
        config=ControllerConfig(controller_id=BrokerId(1)),
        epoch=1,
        epoch_zk_version=1,
        machines_started=started,
    )
    return replace(context, active_controller_id=BrokerId(1), **fields)


@dataclass(kw_only=True)
class ZooKeeper(SimulatedAnswers):
    """One that may also fail: by an effect's class name, by partition or by topic, or so many times by a lost race.

    `listed`: the partitions that are there, of whatever topic; None: those with a state.
    """

    problems: dict[TopicPartition, answers.ReadProblem] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    lost_races: dict[TopicPartition, int] = field(default_factory=dict)
    topic_problems: dict[str, str] = field(default_factory=dict)
    listed: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        for p, entry in self.found.partitions.items():
            if entry.leadership is not None:
                self.states.setdefault(p, entry.leadership)

    def state(self, partition: TopicPartition) -> LeaderAndIsr | None:
        return self.states.get(partition)

    def answer(self, effect: e.AnsweredEffect) -> answers.Answer:
        failure = self.failures.get(type(effect).__name__)
        if failure is not None:
            return answers.Failed(effect, failure)
        match effect:
            case e.ReadPartitionStates(partitions=asked):
                found = {p: self.states[p] for p in asked if p in self.states and p not in self.problems}
                return answers.StatesRead(effect, found, {p: self.problems[p] for p in asked if p in self.problems})
            case e.CreatePartitionStates(states=states):
                there = {p: "NODEEXISTS" for p, _ in states if p in self.states}
                self.states.update({p: state for p, state in states if p not in there})
                return answers.StatesCreated(effect, there)
            case e.WritePartitionStates(states=states):
                return self._write_states(effect, states)
            case e.ReadTopicAssignments(topics=topics):
                found = {topic: self.content(topic) for topic in topics if topic not in self.topic_problems}
                problems = {topic: why for topic, why in self.topic_problems.items() if topic in topics}
                return answers.TopicAssignmentsRead(effect, found, problems)
            case e.ListPartitions() if self.listed is not None:
                return answers.PartitionsListed(effect, self.listed)
            case e.ReadReassignmentRequests():
                problem = self.failures.get("reassignment json", "")
                return answers.ReassignmentRequestsRead(effect, self.targets, problem)
        return super().answer(effect)

    def _write_states(self, effect: e.WritePartitionStates, states: e.PartitionStates) -> answers.Answer:
        versions, problems = {}, {}
        for p, state in states:
            if self.lost_races.get(p, 0) > 0:
                self.lost_races[p] -= 1
                problems[p] = "BADVERSION"
            elif p not in self.states:
                problems[p] = "NONODE"
            else:
                versions[p] = state.partition_epoch + 1
                self.states[p] = state._replace(partition_epoch=versions[p])
        return answers.StatesWritten(effect, versions, problems)


@dataclass
class Run:
    """What a command led to, when nothing was awaited any more."""

    context: ControllerContext
    effects: list[e.Effect] = field(default_factory=list)
    refusals: list[Refusal] = field(default_factory=list)
    steps: list[Step] = field(default_factory=list)

    def of(self, kind: type) -> list:
        return [effect for effect in self.effects if isinstance(effect, kind)]

    def kinds(self) -> list[str]:
        return [type(effect).__name__ for effect in self.effects]

    def entry(self, text: str) -> PartitionEntry:
        return self.context.entry(partition(text))

    def leadership(self, text: str) -> LeaderAndIsr | None:
        return self.context.leadership(partition(text))


def zookeeper_of(context: ControllerContext, **fields: object) -> ZooKeeper:
    """What ZooKeeper holds where the controller is right, and broker 1 is it."""
    return ZooKeeper(**{"found": context, "controller": 1, **fields})


def run(
    context: ControllerContext,
    command: Command,
    zookeeper: ZooKeeper | None = None,
    *,
    batch_fault: BatchFault | None = None,
) -> Run:
    return settle(step(context, command, UnderWay(batch_fault=batch_fault)), zookeeper or zookeeper_of(context))


def settle(done: Step, zookeeper: ZooKeeper) -> Run:
    found = Run(done.context)
    for each in answered_steps(done, zookeeper.answer, limit=1000):
        found.steps.append(each)
        found.effects += each.effects
        found.refusals += each.refusals
        found.context = each.context
        for effect in each.effects:
            if isinstance(effect, e.SendLeaderAndIsr):
                assert effect.broker in each.context.brokers
    return found


def perform(
    context: ControllerContext,
    *tasks: object,
    zookeeper: ZooKeeper | None = None,
    batch_fault: BatchFault | None = None,
) -> Run:
    return run(context, RunTasks(tasks), zookeeper, batch_fault=batch_fault)
