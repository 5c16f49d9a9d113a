"""Leaders moved to chosen in-sync replicas: what no request znode can ask for, and an active controller can do.

Source: docs/operations.md, "A few seconds as active controller"; docs/adr/0013.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.plans.checks import unmet
from controller_core.plans.conditions import (
    AssignedTo,
    BrokersRegistered,
    CaughtUp,
    Condition,
    InSync,
    LedBy,
    RequestAbsent,
    ZooKeeperControllerRules,
)
from controller_core.plans.kinds.common import (
    KindRecord,
    Origin,
    Refused,
    cluster_conditions,
    leader_changes,
    predicted_leader,
    same_topics,
)
from controller_core.plans.observation import Observation
from controller_core.plans.plan import LeftOut, Plan, PlanKind, PlanStep, Rollback
from controller_core.plans.request_znodes import LeaderMove, MoveLeaders
from controller_core.plans.rules import ExecutionRules, OnDifference
from controller_core.znodes.paths import PREFERRED_REPLICA_ELECTION, REASSIGN_PARTITIONS

LEADERS_PER_RUN: Final = 100
"""Leaders that one run moves at most: some 100 are moved in a second, and brokers may be slow (docs/fidelity.md)."""
ACTIVE_S: Final = 4.0
"""For how long at most we are active: a broker that shuts down tries three times, 5 s apart, and must not lose them all."""
_ISR_THROUGH_CONTROLLER: Final = 5
"""Registrations of this version mean an inter.broker.protocol.version of 2.7: ISR changes need a controller."""


class Chosen(NamedTuple):
    """Which leaders move, and which partitions could not be helped."""

    moves: tuple[LeaderMove, ...]
    left_out: tuple[LeftOut, ...]


def choose_leader_moves(observed: Observation, avoided: Collection[BrokerId]) -> Chosen:
    """The fewest moves after which none of the `avoided` brokers leads what another in-sync replica can lead.

    Only partitions that an avoided broker leads move, each once. Of the replicas that may lead, the one on the broker with the
    fewest leaders is taken, those with the fewest choices first; the order of the replicas decides between equals.
    """
    led = Counter(state.leader for state in observed.states.values())
    left_out: list[LeftOut] = []
    choices: dict[TopicPartition, tuple[BrokerId, ...]] = {}
    for partition, state in sorted(observed.states.items()):
        assignment = observed.assignments.get(partition)
        if state.leader not in avoided or assignment is None:
            continue
        others = may_lead(observed, partition, avoided)
        if assignment.is_being_reassigned:
            left_out.append(LeftOut(str(partition), "is being reassigned"))
        elif not others:
            left_out.append(LeftOut(str(partition), f"no other replica is in sync and live: ISR {list(state.isr)}"))
        else:
            choices[partition] = others
    moves = []
    for partition in sorted(choices, key=lambda each: (len(choices[each]), each)):
        leader = min(choices[partition], key=lambda each: led[each])
        led[leader] += 1
        moves.append(LeaderMove(*partition, leader))
    return Chosen(tuple(sorted(moves, key=attrgetter("partition"))), tuple(left_out))


def may_lead(observed: Observation, partition: TopicPartition, avoided: Collection[BrokerId]) -> tuple[BrokerId, ...]:
    """The live in-sync replicas of a partition that is there, without the avoided ones, in the order of its replicas."""
    isr, replicas = observed.states[partition].isr, observed.assignments[partition].replicas
    return tuple(each for each in replicas if each in isr and each in observed.brokers and each not in avoided)


def brokers_of_racks(observed: Observation, racks: Collection[str]) -> frozenset[BrokerId]:
    """The registered brokers of these racks."""
    return frozenset(broker.id for broker in observed.brokers.values() if broker.rack in racks)


def leader_moves_plan(
    observed: Observation,
    origin: Origin,
    moves: Sequence[LeaderMove],
    *,
    left_out: Sequence[LeftOut] = (),
    remarks: Sequence[str] = (),
) -> Plan | Refused:
    """Leaders moved to in-sync replicas by a few seconds as active controller.

    Args:
        observed: assignments and states of the whole cluster: what stalls meanwhile is said of all of it.
        origin: for which cluster.
        moves: partitions with their new leaders; those over `LEADERS_PER_RUN` wait for another run.
        left_out: partitions that cannot be helped, with the reason.
        remarks: what comes of it beside, for the approver.

    Returns:
        A plan without steps when there is nothing to move; `Refused` when a new leader is not in sync, or no controller is
        active.
    """
    reasons = unmet((ZooKeeperControllerRules(), *_in_sync(moves)), observed)
    if reasons:
        return Refused(reasons)
    needed = sorted(
        (each for each in set(moves) if observed.states[each.partition].leader != each.leader),
        key=attrgetter("partition"),
    )
    chosen, later = needed[:LEADERS_PER_RUN], needed[LEADERS_PER_RUN:]
    over = [LeftOut(str(move.partition), f"over the {LEADERS_PER_RUN} leaders of one run") for move in later]
    replicas = {broker for move in chosen for broker in observed.assignments[move.partition].replicas}
    return Plan(
        kind=PlanKind.MOVE_LEADERS,
        cluster=origin.cluster,
        kafka_cluster_id=observed.kafka_cluster_id,
        snapshot=origin.snapshot,
        expectations=cluster_conditions(observed, replicas),
        steps=(_step(chosen, observed),) if chosen else (),
        predicted=(*remarks, *_predicted(chosen, observed)),
        left_out=(*left_out, *over),
        risks=what_stalls(observed),
        rollback=Rollback(
            text="Preferred leaders come back by an election of preferred leaders; any other leader by another plan of this kind."
        ),
        rules=ExecutionRules(on_difference=OnDifference.GO_ON),
    )


def what_stalls(observed: Observation) -> tuple[str, ...]:
    """What clients and brokers miss while we are active, and for how long; measured on real brokers (docs/reliability.md)."""
    lines = [
        (
            f"For up to {ACTIVE_S:g} s this program is the active controller instead of a broker. In that time nobody elects leaders for a "
            "broker that dies (its partitions have no leader until a broker is controller again), and requests to create, change or "
            "delete topics wait or fail."
        ),
        "A broker that is shut down in these seconds loses one of its three attempts to hand over its leaders in an orderly way.",
        "Afterwards a broker becomes active controller by a full failover: seconds on a small cluster, minutes on a very large one.",
        "Clients of the partitions that move reconnect to the new leader: a short pause, no data is moved.",
    ]
    if isr_needs_controller(observed):
        lines.insert(
            1,
            "No ISR can shrink meanwhile (inter.broker.protocol.version 2.7 or newer): where a follower fails in these seconds, producers "
            f"with acks=all wait until we resigned, up to {ACTIVE_S:g} s longer than usual. New idempotent producers may wait, too.",
        )
    if not proves_fencing(observed):
        lines.append(
            "Where the brokers run Kafka 2.0 or older the former controller is not fenced: what it writes late succeeds. Applying then needs "
            "a second confirmation."
        )
    return tuple(lines)


def isr_needs_controller(observed: Observation) -> bool:
    """Whether some broker changes ISRs through the controller (inter.broker.protocol.version 2.7 or newer)."""
    return max(observed.broker_json_versions.values(), default=0) >= _ISR_THROUGH_CONTROLLER


def proves_fencing(observed: Observation) -> bool:
    """Whether what is seen proves brokers of Kafka 2.1 or newer, whose controllers are fenced by the controller epoch."""
    return isr_needs_controller(observed) or (observed.controller_json_version or 0) > 1 or observed.shows_moves


def _in_sync(moves: Iterable[LeaderMove]) -> Iterable[Condition]:
    for move in moves:
        yield CaughtUp(*move.partition, replicas=(move.leader,))
        yield BrokersRegistered(brokers=(move.leader,))


def _step(chosen: Sequence[LeaderMove], observed: Observation) -> PlanStep:
    requests = tuple(RequestAbsent(path=path) for path in (REASSIGN_PARTITIONS, PREFERRED_REPLICA_ELECTION))
    expectations: list[Condition] = [*requests, *same_topics(observed, [move.partition for move in chosen])]
    for partition in (move.partition for move in chosen):
        state = observed.states[partition]
        expectations.append(AssignedTo(*partition, replicas=observed.assignments[partition].replicas))
        expectations.append(InSync(*partition, leader=state.leader, isr=tuple(sorted(state.isr))))
    return PlanStep(
        effects=(MoveLeaders(moves=tuple(chosen)),),
        expectations=tuple(expectations),
        outcomes=tuple(LedBy(*move.partition, leader=move.leader) for move in chosen),
    )


def _predicted(chosen: Iterable[LeaderMove], observed: Observation) -> Iterable[str]:
    led: Mapping[BrokerId, int] = Counter(state.leader for state in observed.states.values())
    after = Counter(led)
    for move in chosen:
        state = observed.states[move.partition]
        after[state.leader] -= 1
        after[move.leader] += 1
        yield predicted_leader(move.partition, state, move.leader)
    for broker in sorted(set(led) | set(after)):
        if led[broker] != after[broker]:
            yield f"broker {broker} leads {led[broker]} → {after[broker]} partitions"


LEADERS: Final = KindRecord(
    title="Move leaders to chosen in-sync replicas, by a few seconds as active controller",
    request=MoveLeaders,
    requests_per_step=1,
    unit=("leader", "leaders"),
    headings=("step", "partition", "leader now", "leader after", "ISR"),
    changes=leader_changes,
    step_timeout_s=60.0,
    destroys_data=False,
    counted_by=("partitions", "topics", "brokers"),
    not_undone="plan a move of leaders, or an election, back to where they were",
)
