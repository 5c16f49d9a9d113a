"""What the controller will do with a plan: its waves, run one after the other through `controller_core`.

Nothing outside is touched. ZooKeeper is imagined: reads are answered from what was written before, writes succeed, and
once a wave's requests are out every new replica catches up. What is checked on the way: each wave ends at its lists, no
znode outgrows ZooKeeper's limit, and every partition keeps its in-sync majority: while it copies the in-sync replicas are
more than half of all that are assigned, and afterwards a majority of its new list. One that starts below may not get
worse: it copies one replica at a time, as nothing smaller exists, and has never fewer in sync than before.
Source: Kafka 3.9 `KafkaController.onPartitionReassignment`; docs/planning.md.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from controller_core.context.builder import build_context
from controller_core.context.context import ControllerContext
from controller_core.controller.step import Command, step
from controller_core.engine.state_changes import ChangeKind, transition_counts
from controller_core.messages.answers import (
    Answer,
)
from controller_core.messages.effects import (
    AnsweredEffect,
    Effect,
    WritePartitionStates,
    WriteTopicAssignment,
)
from controller_core.messages.events import AlterPartition, IsrChange, PartitionStateChanged, ReassignmentRequested
from controller_core.model.dialect import Dialect
from controller_core.model.partitions import (
    ZERO_TOPIC_ID,
    Broker,
    BrokerId,
    Endpoint,
    LeaderAndIsr,
    ReplicaAssignment,
    TopicPartition,
)
from controller_core.plans.request_znodes import CreateReassignPartitions, Target, request_data
from controller_core.runtime.driver import answered_steps
from controller_core.runtime.simulated.answers import SimulatedAnswers
from controller_core.znodes.partitions import TopicZnode, encode_topic
from spark_jobs.planner.columns import Ints
from spark_jobs.planner.model import ClusterState
from spark_jobs.planner.prediction import PlanPrediction, Prediction, Stand, WavePrediction
from spark_jobs.planner.waves import Schedule
from spark_jobs.planner.znode_sizes import TopicZnodes

_WHOLE_REQUESTS_MAX = 300
"""Up to so many partitions of a wave the rewrites of the request node are imagined in full: they are quadratic."""
_STEPS_MAX = 10_000_000
_EPOCH = 1
_ENDPOINT = Endpoint("imagined", 9092, "PLAINTEXT", "PLAINTEXT")
Targets = Sequence[tuple[TopicPartition, tuple[BrokerId, ...]]]
Moves = tuple[Ints, Ints]
"""Rows of a state [N], and the list that each of them gets [N, F]: positions of brokers, -1 padded."""


def targets_of(state: ClusterState, schedule: Schedule) -> Iterator[Targets]:
    """The waves as the core names them: partitions and broker ids, wave after wave."""
    ids = state.broker_ids.tolist()
    return (_targets(state, ids, *moved) for moved in moves_of(schedule))


def moves_of(schedule: Schedule) -> Iterator[Moves]:
    """The waves as rows and lists of positions."""
    return ((wave.rows, wave.lists) for wave in schedule.waves)


def given_moves(state: ClusterState, waves: Iterable[Targets]) -> Iterator[Moves]:
    """Waves that somebody else made, as rows and lists of positions; all of their partitions and brokers are of the state."""
    position = {broker: place for place, broker in enumerate(state.broker_ids.tolist())}
    row_of = {
        (state.topics[topic], number): row
        for row, (topic, number) in enumerate(zip(state.topic.tolist(), state.number.tolist(), strict=True))
    }
    for targets in waves:
        width = max((len(replicas) for _, replicas in targets), default=0)
        lists = [[*map(position.__getitem__, replicas), *[-1] * (width - len(replicas))] for _, replicas in targets]
        yield np.array([row_of[partition] for partition, _ in targets], np.int64), np.array(lists, np.int64)


def _targets(state: ClusterState, ids: Sequence[int], rows: Ints, lists: Ints) -> Targets:
    return [
        (
            TopicPartition(state.topics[state.topic[row]], int(state.number[row])),
            tuple(BrokerId(ids[b]) for b in replicas if b >= 0),
        )
        for row, replicas in zip(rows.tolist(), lists.tolist(), strict=True)
    ]


def predict(
    context: ControllerContext, waves: Iterable[Targets], *, heard: Callable[[Effect], None] | None = None
) -> Prediction:
    """Runs waves through the controller.

    Args:
        context: an active controller's, of the cluster as it is now.
        waves: partitions and their lists, wave after wave.
        heard: gets every effect, in order; for a text that a person reads.

    Returns:
        The figures of each wave and the context after the last; never raises for an unfinished wave.
    """
    world = _World(context=context, heard=heard)
    return Prediction(waves=tuple(world.wave(targets) for targets in waves), context=world.context)


class _Walk(NamedTuple):
    """What the controller does with one partition on its way to a list, brokers being numbered by appearance."""

    end: Stand
    effects: Mapping[str, int]
    broadcasts: int  # of the effects: one to each live broker
    unfinished: bool
    endangered: bool
    refusals: tuple[str, ...]
    changes: Mapping[ChangeKind, int]


def predict_plan(state: ClusterState, moves: Iterable[Moves], dialect: Dialect) -> PlanPrediction:
    """Runs the waves of a large plan through the controller, each distinct walk of a partition once.

    What the controller does with a partition depends on its lists, its in-sync replicas, its leader and on who is live,
    not on its name nor on other partitions: partitions that differ only in the numbers of their brokers share a walk.
    Not reproduced are the rewrites of the request node, which depend on what else is in it; `predict` has those.
    """
    walks: dict[tuple[Stand, tuple[int, ...], frozenset[int]], _Walk] = {}
    ids = state.broker_ids.tolist()
    live = frozenset(b for b, ok in zip(ids, state.live.tolist(), strict=True) if ok)
    stands: dict[int, Stand] = {}
    znodes = TopicZnodes(state)
    waves = []
    for rows, lists in moves:
        targets = _targets(state, ids, rows, lists)
        counts: Counter[str] = Counter()
        changes: Counter[ChangeKind] = Counter()
        unfinished: list[str] = []
        endangered: list[str] = []
        refusals: list[str] = []
        for row, (partition, target) in zip(rows.tolist(), targets, strict=True):
            now = stands.get(row) or _stand(state, row, ids)
            names = list(dict.fromkeys((*now.replicas, *target)))
            number = {b: n for n, b in enumerate(names)}
            number[-1] = -1
            start = Stand(tuple(number[b] for b in now.replicas), tuple(number[b] for b in now.isr), number[now.leader])
            goal = tuple(number[b] for b in target)
            up = frozenset(number[b] for b in names if b in live)
            walk = walks.get((start, goal, up))
            if walk is None:
                walk = walks[start, goal, up] = _walk(start, goal, up, dialect)
            names.append(-1)
            stands[row] = Stand(
                tuple(names[n] for n in walk.end.replicas),
                tuple(names[n] for n in walk.end.isr),
                names[walk.end.leader],
            )
            counts.update(walk.effects)
            changes.update(walk.changes)
            counts["SendUpdateMetadata"] += walk.broadcasts * len(live)
            if walk.unfinished:
                unfinished.append(str(partition))
            if walk.endangered:
                endangered.append(str(partition))
            refusals.extend(f"{partition}: {reason}" for reason in walk.refusals)
        request = CreateReassignPartitions(targets=tuple(Target(*p, replicas) for p, replicas in targets))
        waves.append(
            WavePrediction(
                partitions=len(targets),
                effects=dict(sorted(counts.items())),
                request_bytes=len(request_data(request)),
                topic_bytes=znodes.largest(rows, lists),
                unfinished=tuple(unfinished),
                endangered=tuple(endangered),
                refusals=tuple(refusals),
                changes=changes,
            )
        )
    return PlanPrediction(waves=tuple(waves), stands=stands)


def context_of(state: ClusterState, dialect: Dialect) -> ControllerContext:
    """The context of an active controller of this cluster; epochs are not known to a state and are all 1."""
    ids = state.broker_ids.tolist()
    names = [
        TopicPartition(state.topics[topic], number)
        for topic, number in zip(state.topic.tolist(), state.number.tolist(), strict=True)
    ]
    stands = [_stand(state, row, ids) for row in range(state.partition_count)]
    return _context(names, stands, [b for b, ok in zip(ids, state.live.tolist(), strict=True) if ok], dialect)


def _stand(state: ClusterState, row: int, ids: Sequence[int]) -> Stand:
    replicas = tuple(ids[b] for b in state.replicas[row].tolist() if b >= 0)
    isr = tuple(b for b, ok in zip(replicas, state.in_sync[row].tolist(), strict=False) if ok)
    leader = int(state.leader[row])
    return Stand(replicas, isr, -1 if leader < 0 else ids[leader])


def _context(
    names: Sequence[TopicPartition], stands: Sequence[Stand], live: Iterable[int], dialect: Dialect
) -> ControllerContext:
    return build_context(
        dialect=dialect,
        brokers=[Broker(BrokerId(b), epoch=_EPOCH, endpoints=(_ENDPOINT,)) for b in live],
        assignments=[
            (name, ReplicaAssignment(tuple(map(BrokerId, stand.replicas))))
            for name, stand in zip(names, stands, strict=True)
        ],
        states=[
            (
                name,
                LeaderAndIsr(BrokerId(stand.leader), _EPOCH, tuple(map(BrokerId, stand.isr)), controller_epoch=_EPOCH),
            )
            for name, stand in zip(names, stands, strict=True)
        ],
        epoch=_EPOCH + 1,
    )


def _walk(start: Stand, goal: tuple[int, ...], live: frozenset[int], dialect: Dialect) -> _Walk:
    partition = TopicPartition("t", 0)
    world = _World(context=_context([partition], [start], sorted(live), dialect), heard=None)
    done = world.wave([(partition, tuple(map(BrokerId, goal)))])
    state = world.context.leadership(partition)
    updates = done.effects.get("SendUpdateMetadata", 0)
    return _Walk(
        end=Stand(
            tuple(map(int, world.context.full_assignment(partition).replicas)),
            () if state is None else tuple(map(int, state.isr)),
            -1 if state is None else int(state.leader),
        ),
        effects={name: count for name, count in done.effects.items() if name != "SendUpdateMetadata"},
        broadcasts=updates // max(1, len(live)),
        unfinished=bool(done.unfinished),
        endangered=bool(done.endangered),
        refusals=done.refusals,
        changes=done.changes,
    )


@dataclass(slots=True)
class _World:
    """The simulated ZooKeeper and the brokers around one controller."""

    context: ControllerContext
    heard: Callable[[Effect], None] | None
    zookeeper: SimulatedAnswers = field(init=False)
    counts: Counter[str] = field(default_factory=Counter)
    changes: Counter[ChangeKind] = field(default_factory=Counter)
    topic_bytes: int = 0
    before: dict[TopicPartition, int] = field(default_factory=dict)
    majority: dict[TopicPartition, int] = field(default_factory=dict)
    endangered: set[TopicPartition] = field(default_factory=set)
    refusals: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.zookeeper = SimulatedAnswers(found=self.context)

    def wave(self, targets: Targets) -> WavePrediction:
        self.counts, self.changes, self.topic_bytes, self.refusals = Counter(), Counter(), 0, []
        self.before = {p: len(state.isr) for p, _ in targets if (state := self.zookeeper.state(p)) is not None}
        self.majority = {p: len(replicas) // 2 + 1 for p, replicas in targets}
        self.endangered = {p for p, replicas in targets if self._copies_too_many(p, replicas)}
        request = CreateReassignPartitions(targets=tuple(Target(*p, replicas) for p, replicas in targets))
        whole = len(targets) <= _WHOLE_REQUESTS_MAX
        self.zookeeper.targets = dict(targets)
        self._run(ReassignmentRequested())
        if not whole:
            # From here on the request znode holds nothing else than what is just being completed.
            self.zookeeper.targets = None
        for command in list(self._catch_up(targets)):
            self._run(command)
        self.zookeeper.targets = None
        unfinished = [str(p) for p, replicas in targets if self.context.full_assignment(p).replicas != replicas]
        return WavePrediction(
            partitions=len(targets),
            effects=dict(sorted(self.counts.items())),
            request_bytes=len(request_data(request)),
            topic_bytes=self.topic_bytes,
            unfinished=tuple(unfinished),
            endangered=tuple(str(p) for p in sorted(self.endangered)),
            refusals=tuple(self.refusals),
            changes=self.changes,
        )

    def _catch_up(self, targets: Targets) -> Iterator[Command]:
        """Every live new replica of a partition with a leader is in sync now; leaders say so, or write it."""
        by_leader: dict[BrokerId, list[IsrChange]] = {}
        for partition, replicas in targets:
            state = self.zookeeper.state(partition)
            if state is None or not self.context.is_live(state.leader):
                continue
            fresh = tuple(b for b in replicas if b not in state.isr and self.context.is_live(b))
            if not fresh:
                continue
            isr = (*state.isr, *fresh)
            if self.context.dialect.isr_through_controller:
                change = IsrChange(partition, state.leader_epoch, state.partition_epoch, isr)
                by_leader.setdefault(state.leader, []).append(change)
            else:
                self.zookeeper.states[partition] = state._replace(isr=isr, partition_epoch=state.partition_epoch + 1)
                yield PartitionStateChanged(partition)
        for leader, changes in sorted(by_leader.items()):
            yield AlterPartition(leader, self.context.brokers[leader].epoch, tuple(changes))

    def _copies_too_many(self, partition: TopicPartition, target: Sequence[BrokerId]) -> bool:
        """Several replicas at once, so that those in sync are no majority of all that are assigned meanwhile."""
        now = self.context.full_assignment(partition).replicas
        fresh = set(target) - set(now)
        return len(fresh) > 1 and 2 * self.before.get(partition, 0) <= len(now) + len(fresh)

    def _run(self, command: Command) -> None:
        for done in answered_steps(step(self.context, command), self._answer, limit=_STEPS_MAX):
            self.context = done.context
            self.refusals.extend(refusal.reason for refusal in done.refusals)
            self.changes.update(transition_counts(done.changes))
            for effect in done.effects:
                self.counts[type(effect).__name__] += 1
                if self.heard is not None:
                    self.heard(effect)

    def _answer(self, effect: AnsweredEffect) -> Answer:
        if isinstance(effect, WriteTopicAssignment):
            content = encode_topic(TopicZnode(dict(effect.assignments), ZERO_TOPIC_ID))
            self.topic_bytes = max(self.topic_bytes, len(content))
        elif isinstance(effect, WritePartitionStates):
            self.endangered.update(p for p, state in effect.states if len(state.isr) < self._least(p))
        return self.zookeeper.answer(effect)

    def _least(self, partition: TopicPartition) -> int:
        """In-sync replicas that the partition must keep: as many as before, or a majority."""
        return min(self.before.get(partition, 0), self.majority.get(partition, 0))
