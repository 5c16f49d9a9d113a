"""Leader election: the pure choices, and the strategies on top of them.

Source: Kafka 3.9 `PartitionLeaderElectionAlgorithms` and `Election`, Kafka 1.0
`PartitionLeaderSelector`.
"""

from collections.abc import Collection, Sequence
from enum import Enum
from typing import NamedTuple, assert_never

from controller_core.context.context import ControllerContext
from controller_core.model.partitions import BrokerId, LeaderAndIsr, LeaderRecoveryState, TopicPartition


class Strategy(Enum):
    """How a leader is chosen; NO_OP exists through Kafka 1.0 and chooses nothing."""

    OFFLINE = "offline"
    REASSIGN = "reassign"
    PREFERRED = "preferred"
    CONTROLLED_SHUTDOWN = "controlled_shutdown"
    NO_OP = "noop"


class ElectionStrategy(NamedTuple):
    """A strategy; `allow_unclean` is an administrator's wish (Kafka 2.4) and means something for OFFLINE only."""

    strategy: Strategy
    allow_unclean: bool = False


OFFLINE = ElectionStrategy(Strategy.OFFLINE)
OFFLINE_ALLOWING_UNCLEAN = ElectionStrategy(Strategy.OFFLINE, allow_unclean=True)
REASSIGN = ElectionStrategy(Strategy.REASSIGN)
PREFERRED = ElectionStrategy(Strategy.PREFERRED)
CONTROLLED_SHUTDOWN = ElectionStrategy(Strategy.CONTROLLED_SHUTDOWN)

NO_ELECTABLE_LEADER = "no electable leader"
PREFERRED_NOT_ELECTABLE = "preferred replica not electable"
NOT_NEEDED = "election not needed"


class Elected(NamedTuple):
    """A leadership to be written, and which brokers hear of it; `unclean` where the leader was not in sync."""

    leadership: LeaderAndIsr
    recipients: tuple[BrokerId, ...]
    unclean: bool = False


class NotElected(NamedTuple):
    """Why there is no leader, in the words of this module's constants."""

    reason: str


def offline_leader(
    assignment: Sequence[BrokerId], isr: Collection[BrokerId], live: Collection[BrokerId], *, unclean: bool
) -> tuple[BrokerId | None, bool]:
    """The first assigned broker that is live and in sync; else, if `unclean` is permitted, the first live one.

    Args:
        assignment: assigned brokers, preferred first.
        isr: the in-sync brokers.
        live: brokers that are live and hold the replica on a healthy log directory.
        unclean: whether a replica that is not in sync may lead.

    Returns:
        The leader or None, and whether the choice was unclean.
    Source:
        Kafka 3.9 `PartitionLeaderElectionAlgorithms.offlinePartitionLeaderElection`.
    """
    for broker in assignment:
        if broker in live and broker in isr:
            return broker, False
    if unclean:
        for broker in assignment:
            if broker in live:
                return broker, True
    return None, False


def reassign_leader(
    target: Sequence[BrokerId], isr: Collection[BrokerId], live: Collection[BrokerId]
) -> BrokerId | None:
    """The first target replica that is live and in sync. Source: `reassignPartitionLeaderElection`."""
    return next((broker for broker in target if broker in live and broker in isr), None)


def preferred_leader(
    assignment: Sequence[BrokerId], isr: Collection[BrokerId], live: Collection[BrokerId]
) -> BrokerId | None:
    """The first assigned broker, if it is live and in sync. Source: `preferredReplicaPartitionLeaderElection`."""
    return next((broker for broker in assignment[:1] if broker in live and broker in isr), None)


def controlled_shutdown_leader(
    assignment: Sequence[BrokerId],
    isr: Collection[BrokerId],
    live: Collection[BrokerId],
    shutting_down: Collection[BrokerId],
) -> BrokerId | None:
    """The first assigned broker that is registered, in sync and not shutting down. Source: `controlledShutdownPartitionLeaderElection`.

    Args:
        assignment: assigned brokers, preferred first.
        isr: the in-sync brokers.
        live: registered brokers, shutting down or not.
        shutting_down: brokers in controlled shutdown.
    """
    return next(
        (broker for broker in assignment if broker in live and broker in isr and broker not in shutting_down), None
    )


def has_live_isr_member(context: ControllerContext, partition: TopicPartition, leadership: LeaderAndIsr) -> bool:
    """Whether an unclean election is out of the question: someone in sync is online."""
    return bool(context.online_replicas(leadership.isr, partition))


def elect(
    context: ControllerContext,
    partition: TopicPartition,
    leadership: LeaderAndIsr,
    strategy: ElectionStrategy,
    *,
    unclean_permitted: bool = False,
    target: tuple[BrokerId, ...] | None = None,
) -> Elected | NotElected:
    """One election on the leadership read from ZooKeeper, with liveness and assignment of the context.

    Args:
        context: whose controller elects.
        partition: which.
        leadership: content of the state znode.
        strategy: how.
        unclean_permitted: what the configs said, for a partition without live ISR member (OFFLINE only).
        target: the replicas to choose from (REASSIGN only); by default the assignment's target.

    Returns:
        The leadership to write, or why there is none. Never raises.
    """
    match strategy.strategy:
        case Strategy.OFFLINE:
            return _elect_offline(context, partition, leadership, unclean_permitted=unclean_permitted)
        case Strategy.REASSIGN:
            wanted = context.full_assignment(partition).target if target is None else target
            leader = reassign_leader(wanted, leadership.isr, context.online_replicas(wanted, partition))
            return _keep_isr(context, leadership, leader, wanted, NO_ELECTABLE_LEADER)
        case Strategy.PREFERRED:
            return _elect_preferred(context, partition, leadership)
        case Strategy.CONTROLLED_SHUTDOWN:
            return _elect_for_shutdown(context, partition, leadership)
        case Strategy.NO_OP:  # through Kafka 1.0
            return Elected(leadership, context.assignment(partition))
        case _:
            assert_never(strategy.strategy)


def _elect_offline(
    context: ControllerContext, partition: TopicPartition, leadership: LeaderAndIsr, *, unclean_permitted: bool
) -> Elected | NotElected:
    assignment = context.assignment(partition)
    live = context.online_replicas(assignment, partition)
    leader, unclean = offline_leader(assignment, leadership.isr, live, unclean=unclean_permitted)
    if leader is None:
        return NotElected(NO_ELECTABLE_LEADER)
    if unclean:
        recovering = context.dialect.leader_recovery_state
        recovery = LeaderRecoveryState.RECOVERING if recovering else leadership.recovery
        after = leadership.new_leader_and_isr(leader, (leader,), recovery, context.epoch)
        return Elected(after, live, unclean=True)
    isr = live if leadership.isr == assignment else context.online_replicas(leadership.isr, partition)
    return Elected(leadership.new_leader_and_isr(leader, isr, leadership.recovery, context.epoch), live)


def _elect_preferred(
    context: ControllerContext, partition: TopicPartition, leadership: LeaderAndIsr
) -> Elected | NotElected:
    assignment = context.assignment(partition)
    may_be_unneeded = context.dialect.preferred_election_may_be_unneeded
    if may_be_unneeded and assignment and leadership.leader == assignment[0]:
        return NotElected(NOT_NEEDED)
    leader = preferred_leader(assignment, leadership.isr, context.online_replicas(assignment[:1], partition))
    return _keep_isr(context, leadership, leader, assignment, PREFERRED_NOT_ELECTABLE)


def _elect_for_shutdown(
    context: ControllerContext, partition: TopicPartition, leadership: LeaderAndIsr
) -> Elected | NotElected:
    assignment = context.assignment(partition)
    registered = tuple(
        broker for broker in assignment if context.is_replica_online(broker, partition, include_shutting_down=True)
    )
    leader = controlled_shutdown_leader(assignment, leadership.isr, registered, context.shutting_down)
    if leader is None:
        return NotElected(NO_ELECTABLE_LEADER)
    isr = tuple(broker for broker in leadership.isr if broker not in context.shutting_down)
    return Elected(leadership.new_leader_and_isr(leader, isr, leadership.recovery, context.epoch), registered)


def _keep_isr(
    context: ControllerContext,
    leadership: LeaderAndIsr,
    leader: BrokerId | None,
    recipients: tuple[BrokerId, ...],
    otherwise: str,
) -> Elected | NotElected:
    if leader is None:
        return NotElected(otherwise)
    after = leadership.new_leader_and_isr(leader, leadership.isr, leadership.recovery, context.epoch)
    return Elected(after, recipients)
