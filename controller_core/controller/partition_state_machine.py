"""The partition state machine: what each transition reads, writes and sends.

Source: Kafka 3.9 `ZkPartitionStateMachine`. One call is `ChangePartitionStates`; the tasks
after it are Kafka's methods, cut where Kafka waits for ZooKeeper. A bad partition fails alone.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from controller_core.context.context import ControllerContext
from controller_core.context.partition_entries import NOTHING, PartitionEntry
from controller_core.controller import elections
from controller_core.controller.elections import Elected, ElectionStrategy, Strategy
from controller_core.controller.state_answers import read_states, why_written_failed, written_states
from controller_core.engine.batch import PARTITION_MACHINE, AddLeaderAndIsr
from controller_core.engine.turn import NO_RESULTS, CallResults, Task, Turn
from controller_core.messages.answers import BAD_VERSION, Failed, ReadProblem, StatesCreated, TopicConfigsRead
from controller_core.messages.effects import (
    CreatePartitionStates,
    ReadPartitionStates,
    ReadTopicConfigs,
    WritePartitionStates,
)
from controller_core.model.config import UNCLEAN_LEADER_ELECTION, is_true
from controller_core.model.partitions import NO_ASSIGNMENT, BrokerId, LeaderAndIsr, LeaderRecoveryState, TopicPartition
from controller_core.model.refusals import Refusal, RefusalKind
from controller_core.model.states import VALID_PREVIOUS_PARTITION_STATES, PartitionState

_NEW, _ONLINE = PartitionState.NEW, PartitionState.ONLINE
_NON_EXISTENT = PartitionState.NON_EXISTENT
_ENDS_CALL = (
    "the decoder raises in the middle of the call: no partition of the call is elected, and where a New partition was "
    "created in it the partition state machine stays broken until another controller takes over"
)


@dataclass(frozen=True, slots=True)
class ChangePartitionStates(Task):
    """`handleStateChanges`: one batched call. Its results are in `turn.results` when it is over."""

    partitions: tuple[TopicPartition, ...]
    target: PartitionState
    strategy: ElectionStrategy | None = None

    def __call__(self, turn: Turn) -> None:
        turn.results = NO_RESULTS
        if not self.partitions and turn.context.dialect.batched_state_changes:
            return
        if not turn.open_batch(PARTITION_MACHINE):
            turn.results = CallResults({}, dict.fromkeys(self.partitions, "the request batch could not be opened"))
            return
        turn.push(SendPartitionBatch(self.partitions))
        valid = _check_valid(turn, self.partitions, self.target)
        if self.target is _ONLINE:
            self._bring_online(turn, valid)
        else:
            _put_state(turn, valid, self.target)

    def _bring_online(self, turn: Turn, valid: list[TopicPartition]) -> None:
        context = turn.context
        uninitialized = tuple(p for p in valid if context.partition_state(p) is _NEW)
        to_elect = tuple(p for p in valid if context.partition_state(p) is not _NEW)
        if to_elect:
            turn.push(
                RefuseToElect(to_elect) if self.strategy is None else ElectLeaderForPartitions(to_elect, self.strategy)
            )
        if uninitialized:
            turn.push(InitializeLeaderAndIsrForPartitions(uninitialized))


@dataclass(frozen=True, slots=True)
class RefuseToElect(Task):
    """An election was asked for without saying how."""

    partitions: tuple[TopicPartition, ...]

    def __call__(self, turn: Turn) -> None:
        _fail(turn, dict.fromkeys(self.partitions, "an election needs a strategy"))
        turn.report_deferred()


@dataclass(frozen=True, slots=True)
class TriggerOnlinePartitionStateChange(Task):
    """Elects for every New and Offline partition, of one topic or of all, whose topic is not queued for deletion."""

    topic: str | None = None

    def __call__(self, turn: Turn) -> None:
        selected = select_for_trigger_online(turn.context, self.topic)
        turn.push(ChangePartitionStates(tuple(selected), _ONLINE, elections.OFFLINE))


@dataclass(frozen=True, slots=True)
class StartPartitionMachine(Task):
    """`startup`: initial states, then trigger online."""

    def __call__(self, turn: Turn) -> None:
        turn.context = turn.context.with_partitions(initial_partition_entries(turn.context))
        turn.push(TriggerOnlinePartitionStateChange())


def select_for_trigger_online(context: ControllerContext, topic: str | None = None) -> list[TopicPartition]:
    """Partitions that the trigger brings online, sorted."""
    waiting = context.partitions_in_states((PartitionState.OFFLINE, _NEW), topic)
    return [p for p in waiting if p.topic not in context.topics_to_be_deleted]


def initial_partition_entries(context: ControllerContext) -> dict[TopicPartition, PartitionEntry]:
    """Every assigned partition with the state that a starting machine gives it."""
    brokers = frozenset(context.live_broker_ids)
    entries = {}
    for partition, entry in context.partitions.items():
        assignment, leadership, state, replicas = entry
        if assignment is None:
            continue
        if leadership is None:
            found = _NEW
        elif leadership.leader in brokers and context.is_replica_online(leadership.leader, partition):
            found = _ONLINE
        else:
            found = PartitionState.OFFLINE
        if found is not state:
            entries[partition] = PartitionEntry(assignment, leadership, found, replicas)
    return entries


@dataclass(frozen=True, slots=True)
class SendPartitionBatch(Task):
    """The end of a call: everything that was collected leaves at once."""

    partitions: tuple[TopicPartition, ...]

    def __call__(self, turn: Turn) -> None:
        if not turn.send_batch():
            turn.results = CallResults({}, dict.fromkeys(self.partitions, "the request batch could not be sent"))


@dataclass(frozen=True, slots=True)
class InitializeLeaderAndIsrForPartitions(Task):
    """Gives New partitions their first leader: the first live replica, with all live ones in the ISR."""

    partitions: tuple[TopicPartition, ...]

    def __call__(self, turn: Turn) -> None:
        context = turn.context
        states: list[tuple[TopicPartition, LeaderAndIsr]] = []
        for partition in self.partitions:
            live = context.online_replicas(context.assignment(partition), partition)
            if live:
                first = LeaderAndIsr(live[0], 0, live, LeaderRecoveryState.RECOVERED, 0, context.epoch)
                states.append((partition, first))
            else:
                reason = "no assigned replica is alive; bring one of its brokers back"
                turn.refuse(RefusalKind.FAILED_TRANSITION, partition, reason)
        if states:
            effect = CreatePartitionStates(
                states=tuple(states), controller_epoch_version=context.controller_epoch_version
            )
            turn.ask(effect, AdoptCreatedStates(tuple(states)))


@dataclass(frozen=True, slots=True)
class AdoptCreatedStates(Task):
    """Takes up which `state` znodes could be created."""

    states: tuple[tuple[TopicPartition, LeaderAndIsr], ...]

    def __call__(self, turn: Turn) -> None:
        problems = _creation_problems(turn, [partition for partition, _ in self.states])
        created: dict[TopicPartition, LeaderAndIsr] = {}
        adds = []
        for partition, first in self.states:
            if partition in problems:
                reason = f"state znode not created: {problems[partition]}"
                turn.refuse(RefusalKind.FAILED_TRANSITION, partition, reason)
                continue
            created[partition] = first
            assignment = turn.context.full_assignment(partition)
            adds.append(AddLeaderAndIsr(first.isr, partition, first, assignment, is_new=True, known=first))
        turn.change_states(turn.context.with_leaderships(created, _ONLINE), created)
        turn.add(adds)


@dataclass(frozen=True, slots=True)
class ElectLeaderForPartitions(Task):
    """One round of elections; partitions that lose a race are elected again in another."""

    partitions: tuple[TopicPartition, ...]
    strategy: ElectionStrategy

    def __call__(self, turn: Turn) -> None:
        turn.ask(ReadPartitionStates(partitions=self.partitions), DecideElections(self.partitions, self.strategy))


@dataclass(frozen=True, slots=True)
class DecideElections(Task):
    """Judges what the `state` znodes hold, and asks for topic configs where an unclean election may be needed."""

    partitions: tuple[TopicPartition, ...]
    strategy: ElectionStrategy

    def __call__(self, turn: Turn) -> None:
        found, problems = read_states(turn, self.partitions)
        _fail(turn, {p: describe_problem(problem) for p, problem in problems.items()}, problems)
        if self.strategy.strategy is Strategy.OFFLINE:
            context = turn.context
            leaderless = tuple(p for p, state in found.items() if not elections.has_live_isr_member(context, p, state))
            if self.strategy.allow_unclean:
                turn.push(WriteElectedLeaders(found, self.strategy, frozenset(leaderless)))
                return
            if leaderless:
                topics = tuple(sorted({p.topic for p in leaderless}))
                turn.ask(ReadTopicConfigs(topics=topics), DecideUncleanElections(found, self.strategy, leaderless))
                return
        turn.push(WriteElectedLeaders(found, self.strategy, frozenset()))


@dataclass(frozen=True, slots=True)
class DecideUncleanElections(Task):
    """`collectUncleanLeaderElectionState`: which partitions without a live ISR member may elect anybody."""

    found: Mapping[TopicPartition, LeaderAndIsr]
    strategy: ElectionStrategy
    leaderless: tuple[TopicPartition, ...]

    def __call__(self, turn: Turn) -> None:
        permitted, unreadable = unclean_permitted(turn, self.leaderless)
        reasons = {p: f"config of topic {p.topic!r} not read: {reason}" for p, reason in unreadable.items()}
        _fail(turn, reasons, at_once=True)
        found = {p: state for p, state in self.found.items() if p not in unreadable}
        turn.push(WriteElectedLeaders(found, self.strategy, frozenset(permitted)))


@dataclass(frozen=True, slots=True)
class WriteElectedLeaders(Task):
    """Runs the strategy on each partition, and writes what it chose."""

    found: Mapping[TopicPartition, LeaderAndIsr]
    strategy: ElectionStrategy
    unclean: frozenset[TopicPartition]

    def __call__(self, turn: Turn) -> None:
        context, strategy, unclean = turn.context, self.strategy, self.unclean
        states: list[tuple[TopicPartition, LeaderAndIsr]] = []
        recipients: list[tuple[BrokerId, ...]] = []
        failed: dict[TopicPartition, str] = {}
        not_needed: list[TopicPartition] = []
        uncleanly = 0
        for partition, leadership in self.found.items():
            result = elections.elect(context, partition, leadership, strategy, unclean_permitted=partition in unclean)
            if isinstance(result, Elected):
                states.append((partition, result.leadership))
                recipients.append(result.recipients)
                uncleanly += result.unclean
            elif result.reason == elections.NOT_NEEDED:  # through Kafka 1.0: swallowed, and the partition ends Online
                not_needed.append(partition)
            else:
                failed[partition] = _why_not_elected(context, partition, leadership, result.reason)
        _put_state(turn, not_needed, _ONLINE)
        _fail(turn, failed)
        if uncleanly:
            turn.change(unclean_election_count=context.unclean_election_count + uncleanly)
        if states:
            written = tuple(states)
            effect = WritePartitionStates(states=written, controller_epoch_version=context.controller_epoch_version)
            turn.ask(effect, AdoptElections(written, tuple(recipients), self.strategy))
        else:
            turn.report_deferred()


@dataclass(frozen=True, slots=True)
class AdoptElections(Task):
    """Takes up which elections ZooKeeper accepted; lost races go round again."""

    states: tuple[tuple[TopicPartition, LeaderAndIsr], ...]
    recipients: tuple[tuple[BrokerId, ...], ...]
    strategy: ElectionStrategy

    def __call__(self, turn: Turn) -> None:
        versions, problems = written_states(turn, [partition for partition, _ in self.states])
        partitions = turn.context.partitions
        elected: dict[TopicPartition, LeaderAndIsr] = {}
        adds: list[AddLeaderAndIsr] = []
        for (partition, state), brokers in zip(self.states, self.recipients, strict=True):
            version = versions.get(partition)
            if version is None:
                continue
            leader, epoch, isr, recovery, _, controller_epoch, extra = state
            after = LeaderAndIsr(leader, epoch, isr, recovery, version, controller_epoch, extra)
            elected[partition] = after
            known = partitions[partition].assignment or NO_ASSIGNMENT
            adds.append(AddLeaderAndIsr(brokers, partition, after, known, False, after))  # hot loop
        turn.change_states(turn.context.with_leaderships(elected, _ONLINE), elected)
        turn.results = replace(turn.results, elected={**turn.results.elected, **elected})
        turn.add(adds)
        _fail(turn, {p: why_written_failed(code) for p, code in problems.items() if code != BAD_VERSION})
        turn.report_deferred()
        again = tuple(p for p, code in problems.items() if code == BAD_VERSION)
        if again:
            turn.push(ElectLeaderForPartitions(again, self.strategy))


def _why_not_elected(
    context: ControllerContext, partition: TopicPartition, leadership: LeaderAndIsr, reason: str
) -> str:
    replicas = context.full_assignment(partition).replicas
    live = context.online_replicas(replicas, partition)
    return (
        f"{reason}: leader {leadership.leader}, ISR {list(leadership.isr)!r}; replicas {list(replicas)!r}, "
        f"of them live {list(live)!r}; controller {context.config.controller_id}, epoch {context.epoch}"
    )


def unclean_permitted(
    turn: Turn, partitions: Iterable[TopicPartition]
) -> tuple[set[TopicPartition], dict[TopicPartition, str]]:
    """From the answered topic configs: partitions that may be led uncleanly, and those whose config is unreadable."""
    answer = turn.answer
    default = turn.context.config.unclean_leader_election
    permitted: set[TopicPartition] = set()
    unreadable: dict[TopicPartition, str] = {}
    for partition in partitions:
        if not isinstance(answer, TopicConfigsRead):
            unreadable[partition] = answer.error if isinstance(answer, Failed) else "no answer"
        elif partition.topic in answer.problems:
            unreadable[partition] = answer.problems[partition.topic]
        else:
            override = answer.configs.get(partition.topic, {}).get(UNCLEAN_LEADER_ELECTION)
            if default if override is None else is_true(override):
                permitted.add(partition)
    return permitted, unreadable


def describe_problem(problem: ReadProblem) -> str:
    """One sentence on a state that could not be used."""
    return f"state znode not usable: {problem.code}{': ' if problem.what else ''}{problem.what}"


def _check_valid(turn: Turn, partitions: tuple[TopicPartition, ...], target: PartitionState) -> list[TopicPartition]:
    previous = VALID_PREVIOUS_PARTITION_STATES[target]
    entries = turn.context.partitions
    valid = []
    unseen = {}
    for partition in dict.fromkeys(partitions):
        entry = entries.get(partition, NOTHING)
        if entry.state is None:
            unseen[partition] = entry._replace(state=_NON_EXISTENT)
        state = entry.state or _NON_EXISTENT
        if state in previous:
            valid.append(partition)
        else:
            reason = f"{state.value} → {target.value} is not a legal transition"
            turn.refuse(RefusalKind.ILLEGAL_TRANSITION, partition, reason)
    turn.context = turn.context.with_partitions(unseen)
    return valid


def _put_state(turn: Turn, partitions: list[TopicPartition], state: PartitionState) -> None:
    entries = turn.context.partitions
    changes = {}
    for partition in partitions:
        assignment, leadership, old, replicas = entries[partition]
        if old is not state:
            changes[partition] = PartitionEntry(assignment, leadership, state, replicas)
    turn.change_states(turn.context.with_partitions(changes), changes)


def _fail(
    turn: Turn,
    failed: Mapping[TopicPartition, str],
    problems: Mapping[TopicPartition, ReadProblem] | None = None,
    *,
    at_once: bool = False,
) -> None:
    """Kafka logs failed elections after the write, so that a controller whose write the epoch check refuses hides them; unless `at_once`."""
    if not failed:
        return
    refusals = []
    for partition, reason in failed.items():
        ends_call = problems is not None and problems[partition].ends_kafkas_call
        kafka = _ENDS_CALL if ends_call else ""
        kind = RefusalKind.FAILED_TRANSITION
        refusals.append(Refusal(kind=kind, subject=partition, reason=reason, kafka=kafka))
    if at_once:
        turn.refusals.extend(refusals)
    else:
        turn.defer(refusals)
    turn.results = CallResults(turn.results.elected, {**turn.results.failed, **failed})


def _creation_problems(turn: Turn, partitions: list[TopicPartition]) -> Mapping[TopicPartition, str]:
    answer = turn.answer
    if isinstance(answer, StatesCreated):
        return answer.problems
    return dict.fromkeys(partitions, answer.error if isinstance(answer, Failed) else "no answer")
