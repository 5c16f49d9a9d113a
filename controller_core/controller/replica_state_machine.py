"""The replica state machine: what each transition reads, writes and sends.

Source: Kafka 3.9 `ZkReplicaStateMachine`. A call handles its replicas broker by broker, in the
order that the context says; only → Offline needs ZooKeeper.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import assert_never

from controller_core.context.context import ControllerContext
from controller_core.context.partition_entries import NOTHING, PartitionEntry, state_of, with_replica_state
from controller_core.controller.partition_state_machine import describe_problem, unclean_permitted
from controller_core.controller.state_answers import read_states, why_written_failed, written_states
from controller_core.engine import request_batch
from controller_core.engine.batch import REPLICA_MACHINE, Add, AddLeaderAndIsr
from controller_core.engine.turn import Task, Turn
from controller_core.messages.answers import BAD_VERSION, MALFORMED, NO_NODE, ReadProblem
from controller_core.messages.effects import ReadPartitionStates, ReadTopicConfigs, WritePartitionStates
from controller_core.model.partitions import (
    NO_ASSIGNMENT,
    NO_LEADER,
    BrokerId,
    LeaderAndIsr,
    PartitionAndReplica,
    TopicPartition,
)
from controller_core.model.refusals import Refusal, RefusalKind
from controller_core.model.states import ReplicaState, previous_replica_states

_R = ReplicaState
_ENDS_CALL = (
    "the decoder raises in the middle of the call: no replica of the call goes offline, and the StopReplicas added "
    "before stay in the batch, so that every later call of the replica state machine fails until another controller "
    "takes over"
)
_LAST_REPLICA = (
    "removing the last replica raises in the imbalance counter: the replica keeps its state, and the rest of the call "
    "is not done"
)


@dataclass(frozen=True, slots=True)
class ChangeReplicaStates(Task):
    """`handleStateChanges`: one batched call."""

    replicas: tuple[PartitionAndReplica, ...]
    target: ReplicaState

    def __call__(self, turn: Turn) -> None:
        if not self.replicas and turn.context.dialect.batched_state_changes:
            return
        if not turn.open_batch(REPLICA_MACHINE):
            return
        groups: dict[BrokerId, list[TopicPartition]] = {}
        for partition, broker in dict.fromkeys(self.replicas):
            groups.setdefault(broker, []).append(partition)
        ordered = tuple((broker, tuple(groups[broker])) for broker in turn.context.in_call_order(groups))
        turn.push(SendReplicaBatch())
        if self.target is _R.OFFLINE:
            turn.push(*(TakeReplicasOffline(broker, partitions) for broker, partitions in ordered))
        else:
            call = _Call(turn, self.target)
            for broker, partitions in ordered:
                call.handle(broker, partitions)
            call.finish()


@dataclass(frozen=True, slots=True)
class StartReplicaMachine(Task):
    """`startup`: initial states, then online replicas → Online and (Kafka 2.3) offline ones → Offline."""

    def __call__(self, turn: Turn) -> None:
        context = turn.context
        entries, online, offline = initial_replica_entries(context)
        turn.context = context.with_partitions(entries)
        if context.dialect.startup_moves_dead_replicas_offline:
            turn.push(ChangeReplicaStates(tuple(offline), _R.OFFLINE))
        turn.push(ChangeReplicaStates(tuple(online), _R.ONLINE))


def initial_replica_entries(
    context: ControllerContext,
) -> tuple[dict[TopicPartition, PartitionEntry], list[PartitionAndReplica], list[PartitionAndReplica]]:
    """Entries with the states that a starting machine gives its replicas, and the replicas online and offline."""
    online, offline = context.online_and_offline_replicas()
    entries: dict[TopicPartition, PartitionEntry] = {}
    for replicas, state in ((online, _R.ONLINE), (offline, _R.DELETION_INELIGIBLE)):
        for partition, broker in replicas:
            entry = entries.get(partition) or context.partitions[partition]
            assignment, leadership, partition_state, states = entry
            after = with_replica_state(states, broker, state)
            if after != states:
                entries[partition] = PartitionEntry(assignment, leadership, partition_state, after)
    return entries, online, offline


@dataclass(frozen=True, slots=True)
class SendReplicaBatch(Task):
    """The end of a call: everything that was collected leaves at once."""

    def __call__(self, turn: Turn) -> None:
        turn.send_batch()


class _Call:
    """The transitions of one call that need no ZooKeeper, broker by broker, on entries as they change."""

    def __init__(self, turn: Turn, target: ReplicaState) -> None:
        self._turn = turn
        self._target = target
        self._before = turn.context.partitions
        self._changes: dict[TopicPartition, PartitionEntry] = {}
        self._adds: list[Add] = []
        dialect = turn.context.dialect
        self._previous = previous_replica_states(target, ineligible_from_offline=dialect.ineligible_from_offline)
        self._queued = turn.context.topics_to_be_deleted

    def handle(self, broker: BrokerId, partitions: tuple[TopicPartition, ...]) -> None:
        """One broker's replicas."""
        transition = self._transition()
        changes, before, previous = self._changes, self._before, self._previous
        for partition in partitions:
            entry = changes.get(partition)
            if entry is None:
                entry = before.get(partition, NOTHING)
            state = state_of(entry.replica_states, broker)
            if state in previous:
                transition(broker, partition, entry, state)
            else:
                _refuse_illegal(self._turn, PartitionAndReplica(partition, broker), state, self._target)

    def finish(self) -> None:
        """What changed becomes the context; what was added becomes the batch."""
        self._turn.change_states(self._turn.context.with_partitions(self._changes), self._changes)
        self._turn.add(self._adds)

    def _transition(self) -> Callable[[BrokerId, TopicPartition, PartitionEntry, ReplicaState], None]:
        match self._target:
            case _R.NEW:
                return self._to_new
            case _R.ONLINE:
                return self._to_online
            case _R.DELETION_STARTED:
                return self._to_deletion_started
            case _R.NON_EXISTENT:
                return self._to_non_existent
            case _R.OFFLINE | _R.DELETION_INELIGIBLE | _R.DELETION_SUCCESSFUL:
                return self._to_state_only
            case _:
                assert_never(self._target)

    def _put(self, broker: BrokerId, partition: TopicPartition, entry: PartitionEntry) -> None:
        assignment, leadership, state, replicas = entry
        after = with_replica_state(replicas, broker, self._target)
        self._changes[partition] = PartitionEntry(assignment, leadership, state, after)

    def _tell(self, broker: BrokerId, partition: TopicPartition, entry: PartitionEntry, *, is_new: bool) -> None:
        leadership = entry.leadership
        if leadership is not None:
            known = entry.assignment or NO_ASSIGNMENT
            self._adds.append(AddLeaderAndIsr((broker,), partition, leadership, known, is_new, leadership))

    def _to_state_only(
        self, broker: BrokerId, partition: TopicPartition, entry: PartitionEntry, _state: ReplicaState
    ) -> None:
        self._put(broker, partition, entry)

    def _to_new(self, broker: BrokerId, partition: TopicPartition, entry: PartitionEntry, _state: ReplicaState) -> None:
        if entry.leadership is not None and entry.leadership.leader == broker:
            replica = PartitionAndReplica(partition, broker)
            self._turn.refuse(RefusalKind.FAILED_TRANSITION, replica, "it leads the partition, so it cannot be new")
            return
        self._tell(broker, partition, entry, is_new=True)
        self._put(broker, partition, entry)

    def _to_online(
        self, broker: BrokerId, partition: TopicPartition, entry: PartitionEntry, state: ReplicaState
    ) -> None:
        if state is _R.NEW:
            assignment = entry.assignment or NO_ASSIGNMENT
            if broker not in assignment.replicas:
                grown = assignment._replace(replicas=(*assignment.replicas, broker))
                self._put(broker, partition, entry._replace(assignment=grown))
                return
        else:
            self._tell(broker, partition, entry, is_new=False)
        self._put(broker, partition, entry)

    def _to_deletion_started(
        self, broker: BrokerId, partition: TopicPartition, entry: PartitionEntry, _state: ReplicaState
    ) -> None:
        self._put(broker, partition, entry)
        self._adds.append(request_batch.stop_replica(self._turn.context, (broker,), partition, delete=True))

    def _to_non_existent(
        self, broker: BrokerId, partition: TopicPartition, entry: PartitionEntry, _state: ReplicaState
    ) -> None:
        assignment = (entry.assignment or NO_ASSIGNMENT).remove_replica(broker)
        if not assignment.replicas and entry.leadership is not None and partition.topic not in self._queued:
            self._turn.refuse(
                RefusalKind.ISOLATED,
                PartitionAndReplica(partition, broker),
                "the partition has no replica left but still has leadership",
                kafka=_LAST_REPLICA,
            )
        states = with_replica_state(entry.replica_states, broker, None)
        self._changes[partition] = PartitionEntry(assignment, entry.leadership, entry.state, states)


@dataclass(frozen=True, slots=True)
class TakeReplicasOffline(Task):
    """→ Offline of one broker's replicas: stop them, and remove them from their ISRs."""

    broker: BrokerId
    partitions: tuple[TopicPartition, ...]

    def __call__(self, turn: Turn) -> None:
        context, broker = turn.context, self.broker
        valid = _valid_to_go_offline(turn, broker, self.partitions)
        turn.add(request_batch.stop_replica(context, (broker,), p, delete=False) for p in valid)
        led = tuple(p for p in valid if context.leadership(p) is not None)
        leaderless = tuple(p for p in valid if context.leadership(p) is None)
        if leaderless:
            turn.push(TakeLeaderlessReplicasOffline(broker, leaderless))
        if led:
            turn.push(RemoveReplicasFromIsr(broker, led))


@dataclass(frozen=True, slots=True)
class TakeLeaderlessReplicasOffline(Task):
    """→ Offline of replicas whose partition has no leadership: nothing to shrink."""

    broker: BrokerId
    partitions: tuple[TopicPartition, ...]

    def __call__(self, turn: Turn) -> None:
        context = turn.context
        if context.dialect.offline_without_leader_ok:
            brokers = context.live_or_shutting_down_broker_ids
            turn.add(request_batch.update_metadata(context, brokers, (p,)) for p in self.partitions)
            _put_offline(turn, self.broker, {p: context.entry(p) for p in self.partitions})
        elif context.dialect.offline_without_leader_fails:
            for partition in self.partitions:
                if partition.topic not in context.topics_to_be_deleted:
                    replica = PartitionAndReplica(partition, self.broker)
                    turn.refuse(RefusalKind.FAILED_TRANSITION, replica, "the partition has no leadership")


@dataclass(frozen=True, slots=True)
class RemoveReplicasFromIsr(Task):
    """One round of removals; partitions that lose a race are removed again in another."""

    broker: BrokerId
    partitions: tuple[TopicPartition, ...]

    def __call__(self, turn: Turn) -> None:
        turn.ask(ReadPartitionStates(partitions=self.partitions), ShrinkIsrs(self.broker, self.partitions))


@dataclass(frozen=True, slots=True)
class ShrinkIsrs(Task):
    """Judges what the `state` znodes hold; asks for configs where the last ISR member would go (through Kafka 1.0)."""

    broker: BrokerId
    partitions: tuple[TopicPartition, ...]

    def __call__(self, turn: Turn) -> None:
        found, problems = read_states(turn, self.partitions)
        refusals = []
        for partition, problem in problems.items():
            if _holds_nothing(problem) and partition.topic in turn.context.topics_to_be_deleted:
                continue  # the znode is gone because the topic is: nothing to do
            replica = PartitionAndReplica(partition, self.broker)
            kafka = _ENDS_CALL if problem.ends_kafkas_call else ""
            reason = describe_problem(problem)
            kind = RefusalKind.FAILED_TRANSITION
            refusals.append(Refusal(kind=kind, subject=replica, reason=reason, kafka=kafka))
        turn.defer(refusals)
        if not turn.context.dialect.retain_last_isr_always:
            last = tuple(p for p, state in found.items() if state.isr == (self.broker,))
            if last:
                topics = tuple(sorted({p.topic for p in last}))
                turn.ask(ReadTopicConfigs(topics=topics), ShrinkIsrsToNothing(self.broker, found, last))
                return
        turn.push(WriteShrunkIsrs(self.broker, found, frozenset()))


@dataclass(frozen=True, slots=True)
class ShrinkIsrsToNothing(Task):
    """Through Kafka 1.0: where unclean election is on, the last member leaves the ISR too."""

    broker: BrokerId
    found: Mapping[TopicPartition, LeaderAndIsr]
    last: tuple[TopicPartition, ...]

    def __call__(self, turn: Turn) -> None:
        permitted, _ = unclean_permitted(turn, self.last)
        turn.push(WriteShrunkIsrs(self.broker, self.found, frozenset(permitted)))


@dataclass(frozen=True, slots=True)
class WriteShrunkIsrs(Task):
    """Writes the ISRs without the broker; `emptied` may become empty, others keep their last member."""

    broker: BrokerId
    found: Mapping[TopicPartition, LeaderAndIsr]
    emptied: frozenset[TopicPartition]

    def __call__(self, turn: Turn) -> None:
        broker, epoch = self.broker, turn.context.epoch
        states: list[tuple[TopicPartition, LeaderAndIsr]] = []
        untouched: dict[TopicPartition, LeaderAndIsr] = {}
        shrunk: dict[tuple[BrokerId, ...], tuple[BrokerId, ...]] = {}  # equal ISRs are one tuple: memory of successors
        for partition, state in self.found.items():
            isr = state.isr
            if broker not in isr:
                untouched[partition] = (
                    state if state.controller_epoch == epoch else state._replace(controller_epoch=epoch)
                )
                continue
            leader = NO_LEADER if state.leader == broker else state.leader
            if len(isr) > 1 or partition in self.emptied:
                isr = shrunk.get(isr) or shrunk.setdefault(isr, tuple(member for member in isr if member != broker))
            states.append((partition, state.new_leader_and_isr(leader, isr, state.recovery, epoch)))
        if states:
            written = tuple(states)
            effect = WritePartitionStates(
                states=written, controller_epoch_version=turn.context.controller_epoch_version
            )
            turn.ask(effect, AdoptShrunkIsrs(broker, written, untouched))
        else:
            _adopt(turn, broker, untouched)
            turn.report_deferred()


@dataclass(frozen=True, slots=True)
class AdoptShrunkIsrs(Task):
    """Takes up which removals ZooKeeper accepted; lost races go round again."""

    broker: BrokerId
    states: tuple[tuple[TopicPartition, LeaderAndIsr], ...]
    untouched: Mapping[TopicPartition, LeaderAndIsr]

    def __call__(self, turn: Turn) -> None:
        versions, problems = written_states(turn, [partition for partition, _ in self.states])
        after: dict[TopicPartition, LeaderAndIsr] = dict(self.untouched)
        for partition, state in self.states:
            version = versions.get(partition)
            if version is not None:
                leader, epoch, isr, recovery, _, controller_epoch, extra = state
                after[partition] = LeaderAndIsr(leader, epoch, isr, recovery, version, controller_epoch, extra)
        _adopt(turn, self.broker, after)
        turn.report_deferred()
        for partition, code in problems.items():
            if code != BAD_VERSION:
                replica = PartitionAndReplica(partition, self.broker)
                turn.refuse(RefusalKind.FAILED_TRANSITION, replica, why_written_failed(code))
        again = tuple(p for p, code in problems.items() if code == BAD_VERSION)
        if again:
            turn.push(RemoveReplicasFromIsr(self.broker, again))


def _holds_nothing(problem: ReadProblem) -> bool:
    """Whether Kafka takes the znode for absent: it is, or its text is no JSON."""
    return problem.code == NO_NODE or (problem.code == MALFORMED and not problem.ends_kafkas_call)


def _adopt(turn: Turn, broker: BrokerId, after: Mapping[TopicPartition, LeaderAndIsr]) -> None:
    """Leaderships become known, the replicas Offline; the others of each partition hear of it."""
    context = turn.context
    queued = context.topics_to_be_deleted
    adds: list[Add] = []
    for partition, state in after.items():
        if partition.topic not in queued:
            known = context.full_assignment(partition)
            others = tuple(member for member in known.replicas if member != broker)
            adds.append(AddLeaderAndIsr(others, partition, state, known, False, state))  # hot loop
    turn.change_states(context.with_leaderships(after, offline_on=broker), after, left_isr=broker)
    turn.add(adds)


def _put_offline(turn: Turn, broker: BrokerId, entries: Mapping[TopicPartition, PartitionEntry]) -> None:
    changes = {}
    for partition, (assignment, leadership, state, replicas) in entries.items():
        after = with_replica_state(replicas, broker, _R.OFFLINE)
        changes[partition] = PartitionEntry(assignment, leadership, state, after)
    turn.change_states(turn.context.with_partitions(changes), changes)


def _valid_to_go_offline(turn: Turn, broker: BrokerId, partitions: Iterable[TopicPartition]) -> list[TopicPartition]:
    previous = previous_replica_states(_R.OFFLINE, ineligible_from_offline=True)
    entries = turn.context.partitions
    valid = []
    for partition in partitions:
        state = state_of(entries.get(partition, NOTHING).replica_states, broker)
        if state in previous:
            valid.append(partition)
        else:
            _refuse_illegal(turn, PartitionAndReplica(partition, broker), state, _R.OFFLINE)
    return valid


def _refuse_illegal(turn: Turn, replica: PartitionAndReplica, state: ReplicaState, target: ReplicaState) -> None:
    reason = f"{state.value} → {target.value} is not a legal transition"
    turn.refuse(RefusalKind.ILLEGAL_TRANSITION, replica, reason)
