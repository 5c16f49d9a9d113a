"""Leaders that move on purpose: preferred elections, automatic rebalance, controlled shutdown.

Source: Kafka 3.9 `KafkaController.onReplicaElection`,
`checkAndTriggerAutoLeaderRebalance`, `doControlledShutdown`.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from controller_core.context.context import ControllerContext
from controller_core.controller import elections
from controller_core.controller.elections import ElectionStrategy
from controller_core.controller.leader_imbalance import leader_imbalance, triggered_brokers
from controller_core.controller.partition_state_machine import (
    ChangePartitionStates,
    TriggerOnlinePartitionStateChange,
)
from controller_core.controller.replica_state_machine import ChangeReplicaStates
from controller_core.controller.topic_deletion import MarkTopicsIneligible, ResumeDeletionForTopics
from controller_core.engine import request_batch
from controller_core.engine.turn import Acknowledge, Task, Turn
from controller_core.messages.answers import PreferredElectionRequestRead
from controller_core.messages.effects import (
    DeletePreferredElectionRequest,
    ReadPreferredElectionRequest,
    ReplyControlledShutdown,
    ReplyElections,
    ScheduleRebalance,
)
from controller_core.messages.events import ElectLeaders
from controller_core.model.partitions import UNKNOWN_BROKER_EPOCH, BrokerId, PartitionAndReplica, TopicPartition
from controller_core.model.refusals import RefusalKind
from controller_core.model.states import PartitionState, ReplicaState

_EMPTY_ASSIGNMENT = (
    "automatic rebalance takes the head of an empty replica list and raises: no partition of the cluster is rebalanced "
    "as long as this one is so"
)
_ELECTION_WEDGED = (
    "the clean-up raises over this partition, so the node stays: no other election can be asked for until somebody "
    "deletes it (since 1.1: and moves the controller, which no longer watches it), or the controller moves"
)
_LEADERLESS = "looking for its leader raises: no partition of the request is elected, nobody is answered, and a request node stays"
_LEADERLESS_AT_FAILOVER = (
    "looking for its leader raises and ends the failover: the controller resigns, and so does every next one, until "
    "somebody deletes the request node"
)
_NOT_NEEDED, _UNSUPPORTED = "ELECTION_NOT_NEEDED", "UNSUPPORTED_VERSION"

# Automatic rebalance


@dataclass(frozen=True, slots=True)
class RebalanceLeaders(Task):
    """`checkAndTriggerAutoLeaderRebalance`: one preferred election per broker above the threshold."""

    def __call__(self, turn: Turn) -> None:
        context = turn.context
        for partition in _without_replicas(context):
            turn.refuse(RefusalKind.ISOLATED, partition, "it has no replicas", kafka=_EMPTY_ASSIGNMENT)
        imbalance = leader_imbalance(context)
        tasks: list[Task] = []
        for broker in triggered_brokers(context, imbalance):
            electable = imbalance[broker].electable
            groups = ((p,) for p in electable) if context.dialect.rebalance_elects_one_by_one else (electable,)
            tasks += [OnReplicaElection(group, elections.PREFERRED) for group in groups]
        turn.push(*tasks)


def _without_replicas(context: ControllerContext) -> list[TopicPartition]:
    known = context.partitions.items()
    return [p for p, entry in known if entry.assignment is not None and not entry.assignment[0]]


@dataclass(frozen=True, slots=True)
class ProcessRebalanceDue(Task):
    """`AutoPreferredReplicaLeaderElection`: rebalances, and schedules the next time once that is over."""

    def __call__(self, turn: Turn) -> None:
        turn.push(RebalanceLeaders(), ScheduleNextRebalance(turn.context.config.imbalance_check_interval_s))


@dataclass(frozen=True, slots=True)
class ScheduleNextRebalance(Task):
    """Sets the timer."""

    delay_s: int

    def __call__(self, turn: Turn) -> None:
        turn.send(ScheduleRebalance(delay_s=self.delay_s))


# Preferred and unclean elections


@dataclass(frozen=True, slots=True)
class OnReplicaElection(Task):
    """`onReplicaElection`: one call of the partition machine."""

    partitions: tuple[TopicPartition, ...]
    strategy: ElectionStrategy

    def __call__(self, turn: Turn) -> None:
        turn.push(ChangePartitionStates(self.partitions, PartitionState.ONLINE, self.strategy))


@dataclass(frozen=True, slots=True)
class ProcessPreferredElectionRequest(Task):
    """`ReplicaLeaderElection` from ZooKeeper: reads the request node."""

    def __call__(self, turn: Turn) -> None:
        turn.ask(ReadPreferredElectionRequest(), ElectRequested())


@dataclass(frozen=True, slots=True)
class ElectRequested(Task):
    """Elects what was asked for, then cleans up."""

    at_failover: bool = False

    def __call__(self, turn: Turn) -> None:
        answer = turn.answer
        if not isinstance(answer, PreferredElectionRequestRead) or answer.partitions is None:
            return
        context = turn.context
        under_way = context.partitions_in_preferred_election
        asked = sorted(set(answer.partitions) - under_way)
        wanted, errors = _sort_out(context, asked, elections.PREFERRED, at_failover=self.at_failover)
        _refuse_leaderless(turn, asked if self.at_failover else wanted, at_failover=self.at_failover)
        for partition, error in errors.items():
            if error:
                reason = f"preferred election not done: {error}"
                turn.refuse(RefusalKind.INVALID_REQUEST, partition, reason, error=error)
        cleaned_up = EndElectionRequest(tuple(wanted), self.at_failover)
        tasks: list[Task] = [OnReplicaElection(tuple(wanted), elections.PREFERRED), cleaned_up]
        if context.dialect.preferred_election_blocks_deletion:
            topics = tuple(sorted({p.topic for p in wanted}))
            turn.change(partitions_in_preferred_election=under_way.union(wanted))
            tasks = [MarkTopicsIneligible(topics), *tasks]
        turn.push(*tasks)


@dataclass(frozen=True, slots=True)
class EndElectionRequest(Task):
    """`removePartitionsFromPreferredReplicaElection`: through Kafka 2.1 a partition without leadership stops it.

    At a failover those versions do not elect what they do not know, so nothing stops the clean-up there.
    """

    partitions: tuple[TopicPartition, ...]
    at_failover: bool = False

    def __call__(self, turn: Turn) -> None:
        context = turn.context
        raises = not context.dialect.preferred_elections_filtered and not self.at_failover
        stuck = [p for p in self.partitions if raises and context.leadership(p) is None]
        for partition in stuck:
            reason = "preferred election not done: nobody leads it; the request node stays"
            turn.refuse(RefusalKind.INVALID_REQUEST, partition, reason, kafka=_ELECTION_WEDGED)
        if stuck:
            return
        tasks: list[Task] = [DeleteElectionRequest()]
        if context.dialect.preferred_election_blocks_deletion:
            topics = tuple(sorted({p.topic for p in self.partitions}))
            tasks += [EndPreferredElection(self.partitions), ResumeDeletionForTopics(topics)]
        turn.push(*tasks)


@dataclass(frozen=True, slots=True)
class EndPreferredElection(Task):
    """Through Kafka 0.10.2: the election no longer stands against deletions."""

    partitions: tuple[TopicPartition, ...]

    def __call__(self, turn: Turn) -> None:
        left = turn.context.partitions_in_preferred_election.difference(self.partitions)
        turn.change(partitions_in_preferred_election=left)


@dataclass(frozen=True, slots=True)
class DeleteElectionRequest(Task):
    """Deletes the request node, so that the next can come."""

    def __call__(self, turn: Turn) -> None:
        turn.ask(
            DeletePreferredElectionRequest(controller_epoch_version=turn.context.controller_epoch_version),
            Acknowledge(),
        )


@dataclass(frozen=True, slots=True)
class ProcessElectLeaders(Task):
    """`ReplicaLeaderElection` of an administrator: elects, and answers per partition."""

    request: ElectLeaders

    def __call__(self, turn: Turn) -> None:
        context, request = turn.context, self.request
        if request.unclean and not context.dialect.unclean_by_argument:
            reason = "the brokers' protocol has no unclean elections before Kafka 2.4; set the topic's config instead"
            turn.refuse(RefusalKind.INVALID_REQUEST, "unclean elections", reason, error=_UNSUPPORTED)
            turn.send(ReplyElections(errors=(), error=_UNSUPPORTED))
            return
        strategy = elections.OFFLINE_ALLOWING_UNCLEAN if request.unclean else elections.PREFERRED
        asked = request.partitions or tuple(
            sorted(p for p, x in context.partitions.items() if x.assignment is not None)
        )
        wanted, errors = _sort_out(context, asked, strategy)
        _refuse_leaderless(turn, wanted)
        failure = "ELIGIBLE_LEADERS_NOT_AVAILABLE" if request.unclean else "PREFERRED_LEADER_NOT_AVAILABLE"
        turn.push(OnReplicaElection(tuple(wanted), strategy), AnswerElections(asked, errors, failure))


@dataclass(frozen=True, slots=True)
class AnswerElections(Task):
    """Tells the administrator how each election went."""

    asked: tuple[TopicPartition, ...]
    errors: Mapping[TopicPartition, str] = field(default_factory=dict)
    failure: str = ""

    def __call__(self, turn: Turn) -> None:
        failed = turn.results.failed
        found = ((p, self.errors.get(p, self.failure if p in failed else "")) for p in self.asked)
        turn.send(ReplyElections(errors=tuple(found)))


def _sort_out(
    context: ControllerContext,
    asked: Iterable[TopicPartition],
    strategy: ElectionStrategy,
    *,
    at_failover: bool = False,
) -> tuple[list[TopicPartition], dict[TopicPartition, str]]:
    """Partitions to elect, and Kafka's error for the others; "" where none is needed and that is no error."""
    wanted: list[TopicPartition] = []
    errors: dict[TopicPartition, str] = {}
    needless_is_error = context.dialect.needless_election_is_error and not at_failover
    for partition in asked:
        error = _objection(context, partition, strategy, at_failover=at_failover)
        if error is None:
            wanted.append(partition)
        else:
            errors[partition] = error if needless_is_error or error != _NOT_NEEDED else ""
    return wanted, errors


def _objection(
    context: ControllerContext, partition: TopicPartition, strategy: ElectionStrategy, *, at_failover: bool
) -> str | None:
    """Kafka's error; None where there is no objection. At a failover every version looks, before 2.2 no other does."""
    filtered = at_failover or context.dialect.preferred_elections_filtered
    assignment = context.assignment(partition)
    if filtered and not assignment:
        return "UNKNOWN_TOPIC_OR_PARTITION"
    if partition.topic in context.topics_to_be_deleted:
        return "INVALID_TOPIC_EXCEPTION"
    leadership = context.leadership(partition)
    if not filtered or leadership is None:
        return None
    if strategy is elections.PREFERRED:
        needless = leadership.leader == assignment[0]
    else:
        needless = context.is_live(leadership.leader)
    return _NOT_NEEDED if needless else None


def _refuse_leaderless(turn: Turn, wanted: Iterable[TopicPartition], *, at_failover: bool = False) -> None:
    """Kafka asks for the leader of each partition before it elects any; one that never had a leader makes that raise.

    At a failover it asks before it leaves out those whose topic is to be deleted.
    """
    context = turn.context
    if at_failover or context.dialect.preferred_elections_filtered:
        kafka = _LEADERLESS_AT_FAILOVER if at_failover else _LEADERLESS
        for partition in (p for p in wanted if context.assignment(p) and context.leadership(p) is None):
            reason = "it never had a leader; the other elections are done all the same"
            turn.refuse(RefusalKind.ISOLATED, partition, reason, kafka=kafka)


@dataclass(frozen=True, slots=True)
class ProcessUncleanElectionEnabled(Task):
    """`UncleanLeaderElectionEnable`: offline partitions get another chance, of one topic or of all."""

    topic: str | None

    def __call__(self, turn: Turn) -> None:
        turn.push(TriggerOnlinePartitionStateChange(self.topic))


# Controlled shutdown


@dataclass(frozen=True, slots=True)
class ProcessControlledShutdown(Task):
    """`doControlledShutdown`: moves leaderships off a broker that wants to stop, and answers it."""

    broker: BrokerId
    broker_epoch: int | None

    def __call__(self, turn: Turn) -> None:
        context, broker = turn.context, self.broker
        error = _shutdown_objection(context, broker, self.broker_epoch)
        if error:
            reason = f"controlled shutdown of broker {broker} refused; the broker retries or stops anyway"
            turn.refuse(RefusalKind.INVALID_REQUEST, f"broker {broker}", reason, error=error)
            turn.send(ReplyControlledShutdown(broker=broker, error=error))
            return
        turn.change(shutting_down=context.shutting_down | {broker})
        led, followed = _to_act_on(turn.context, broker)
        turn.push(
            ChangePartitionStates(led, PartitionState.ONLINE, elections.CONTROLLED_SHUTDOWN),
            StopFollowers(broker, followed),
            ChangeReplicaStates(tuple(PartitionAndReplica(p, broker) for p in followed), ReplicaState.OFFLINE),
            AnswerControlledShutdown(broker),
        )


def _shutdown_objection(context: ControllerContext, broker: BrokerId, epoch: int | None) -> str:
    if not context.is_active:
        return "ControllerMoved"
    known = context.brokers.get(broker)
    if context.dialect.broker_epochs and epoch is not None and epoch != UNKNOWN_BROKER_EPOCH:
        if known is None:
            return "NoSuchElement"  # the look-up of its epoch raises before anybody asks whether it is available
        if epoch < known.epoch:
            return "StaleBrokerEpoch"
    return "" if known is not None else "BrokerNotAvailable"


def _to_act_on(
    context: ControllerContext, broker: BrokerId
) -> tuple[tuple[TopicPartition, ...], tuple[TopicPartition, ...]]:
    skipped = context.topics_to_be_deleted if context.dialect.controlled_shutdown_skips_deletions else frozenset()
    led: list[TopicPartition] = []
    followed: list[TopicPartition] = []
    for partition in sorted(context.partitions_on_broker(broker)):
        leadership = context.leadership(partition)
        if leadership is None or len(context.assignment(partition)) < 2 or partition.topic in skipped:  # noqa: PLR2004
            continue
        (led if leadership.leader == broker else followed).append(partition)
    return tuple(led), tuple(followed)


@dataclass(frozen=True, slots=True)
class StopFollowers(Task):
    """Tells the broker to stop following, ahead of the ISR changes."""

    broker: BrokerId
    partitions: tuple[TopicPartition, ...]

    def __call__(self, turn: Turn) -> None:
        context, broker = turn.context, self.broker
        opened = turn.open_batch()
        if opened:
            turn.add(request_batch.stop_replica(context, (broker,), p, delete=False) for p in self.partitions)
        if not opened or not turn.send_batch():
            turn.send(ReplyControlledShutdown(broker=broker, error="IllegalState"))


@dataclass(frozen=True, slots=True)
class AnswerControlledShutdown(Task):
    """Tells the broker what it still leads; it asks again until that is nothing."""

    broker: BrokerId

    def __call__(self, turn: Turn) -> None:
        context = turn.context
        queued_too = not context.dialect.controlled_shutdown_skips_deletions
        led = tuple(context.partition_leaders_on_broker(self.broker, queued_too=queued_too))
        turn.send(ReplyControlledShutdown(broker=self.broker, partitions_still_led=led))
