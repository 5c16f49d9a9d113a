"""What became of each partition that a step asked for; and a step without the partitions that are no more as planned.

A reassignment is over when no request names its partitions and none of them adds or removes replicas, whatever their lists
are by then: a cancelled one ends with its former replicas in another order, since Kafka puts the target first while it runs.
Up to Kafka 2.3 nothing is added or removed in a topic's znode: there former and new replicas together are a reassignment. From
2.4 on they are what somebody else asked for.
Source: Kafka 3.9 `ReplicaAssignment.reassignTo`, `KafkaController.cancelPartitionReassignment`.
"""

from collections.abc import Collection, Iterable, Mapping
from enum import StrEnum
from typing import NamedTuple, assert_never

from msgspec import structs

from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.plans.checks import Unmet, check
from controller_core.plans.conditions import (
    AssignedTo,
    CaughtUp,
    Condition,
    LedBy,
    TopicCreatedAt,
    named_partitions,
    named_topics,
)
from controller_core.plans.observation import Observation
from controller_core.plans.plan import PlanStep
from controller_core.plans.request_znodes import (
    CreateDeleteTopic,
    CreatePreferredReplicaElection,
    CreateReassignPartitions,
    DeleteController,
    MoveLeaders,
    Request,
)


class Fate(StrEnum):
    """What a partition is, compared with what was asked for it."""

    UNDER_WAY = "under way"
    DONE = "done"
    BEHIND = "done, with replicas outside the ISR"
    REVERTED = "reverted"
    ELSEWHERE = "elsewhere"
    NOT_ELECTED = "not elected"
    GONE = "gone"


UNSETTLED = frozenset({Fate.UNDER_WAY, Fate.BEHIND})
"""What is waited for."""


class Verdict(NamedTuple):
    """What became of one partition, and what was found."""

    partition: TopicPartition
    fate: Fate
    found: str

    def __str__(self) -> str:
        return f"{self.partition}: {self.fate}, found {self.found}"


def verdicts(step: PlanStep, observed: Observation) -> tuple[Verdict, ...]:
    """What became of each partition that the requests of `step` name, in their order; deletions and re-elections name none."""
    about = _About(step)
    return tuple(
        _verdict(effect, partition, about, observed)
        for effect in step.effects
        for partition in request_partitions(effect)
    )


def request_partitions(request: Request) -> tuple[TopicPartition, ...]:
    """The partitions that the request names."""
    match request:
        case CreateReassignPartitions(targets=targets):
            return tuple(target.partition for target in targets)
        case CreatePreferredReplicaElection(partitions=partitions):
            return partitions
        case MoveLeaders(moves=moves):
            return tuple(move.partition for move in moves)
        case CreateDeleteTopic() | DeleteController():
            return ()
        case _:
            assert_never(request)


def differing(
    conditions: Iterable[Condition], partitions: Collection[TopicPartition], observed: Observation
) -> tuple[dict[TopicPartition, Unmet], tuple[Unmet, ...]]:
    """What of `conditions` does not hold: by the partition that it concerns, and what concerns none of `partitions` alone.

    What does not hold of a topic concerns all its partitions.
    """
    by_topic: dict[str, list[TopicPartition]] = {}
    for partition in partitions:
        by_topic.setdefault(partition.topic, []).append(partition)
    own: dict[TopicPartition, Unmet] = {}
    common: list[Unmet] = []
    for condition in conditions:
        reason = check(condition, observed)
        if reason is None:
            continue
        about = [each for each in named_partitions([condition]) if each in partitions]
        about += [each for topic in named_topics([condition]) for each in by_topic.get(topic, ())]
        for partition in about:
            own.setdefault(partition, reason)
        if not about:
            common.append(reason)
    return own, tuple(common)


def without(step: PlanStep, partitions: Collection[TopicPartition]) -> PlanStep:
    """The step without these partitions; one whose requests name no other has no effects left."""
    if not partitions:
        return step
    effects = tuple(_narrowed(effect, partitions) for effect in step.effects)
    kept = {partition.topic for effect in effects for partition in request_partitions(effect)}
    lost, named = {partition.topic for partition in partitions} - kept, frozenset(partitions)

    def stays(condition: Condition) -> bool:
        return named.isdisjoint(named_partitions([condition])) and lost.isdisjoint(named_topics([condition]))

    return structs.replace(
        step,
        effects=tuple(each for each in effects if request_partitions(each)),
        expectations=tuple(filter(stays, step.expectations)),
        outcomes=tuple(filter(stays, step.outcomes)),
    )


def _narrowed(request: Request, partitions: Collection[TopicPartition]) -> Request:
    match request:
        case CreateReassignPartitions(targets=targets):
            return CreateReassignPartitions(targets=tuple(each for each in targets if each.partition not in partitions))
        case CreatePreferredReplicaElection(partitions=named):
            return CreatePreferredReplicaElection.of(tuple(each for each in named if each not in partitions))
        case MoveLeaders(moves=moves):
            return MoveLeaders(moves=tuple(each for each in moves if each.partition not in partitions))
        case CreateDeleteTopic() | DeleteController():
            return request
        case _:
            assert_never(request)


class _About:
    """What a step says of its partitions, by partition or topic."""

    def __init__(self, step: PlanStep) -> None:
        self.before: Mapping[TopicPartition, tuple[BrokerId, ...]] = {
            each.partition: each.replicas for each in step.expectations if isinstance(each, AssignedTo)
        }
        self.created = {each.topic: each for each in step.expectations if isinstance(each, TopicCreatedAt)}
        self.in_sync = {each.partition: each for each in step.outcomes if isinstance(each, CaughtUp)}
        self.led = {each.partition: each for each in step.outcomes if isinstance(each, LedBy)}
        self.after = {each.partition: each for each in step.outcomes if isinstance(each, AssignedTo)}


def _verdict(request: Request, partition: TopicPartition, about: _About, observed: Observation) -> Verdict:
    assignment = observed.assignments.get(partition)
    created = about.created.get(partition.topic)
    namesake = None if created is None else check(created, observed)
    if assignment is None or namesake is not None:
        found = "no such partition" if namesake is None else namesake.found
        if assignment is not None and partition in observed.reassign_requests:
            found += ", which the next controller moves: the request for the former one stands"
        return Verdict(partition, Fate.GONE, found)
    if isinstance(request, CreatePreferredReplicaElection | MoveLeaders):
        return _election_verdict(partition, about, observed)
    lists = f"replicas {list(assignment.replicas)}"
    if assignment.is_being_reassigned or partition in observed.reassign_requests:
        moving = f"{lists}, adding {list(assignment.adding)}, removing {list(assignment.removing)}"
        return Verdict(partition, Fate.UNDER_WAY, moving)
    if check(about.after[partition], observed) is None:
        behind = check(about.in_sync[partition], observed)
        return Verdict(partition, Fate.DONE, lists) if behind is None else Verdict(partition, Fate.BEHIND, behind.found)
    before, after = frozenset(about.before.get(partition, ())), frozenset(about.after[partition].replicas)
    union = before | after
    if frozenset(assignment.replicas) == union and union not in {before, after} and not observed.shows_moves:
        both = f"{lists}, the former and the new ones: the controller works at it, or has forgotten it"
        return Verdict(partition, Fate.UNDER_WAY, both)
    reverted = frozenset(assignment.replicas) == before
    return Verdict(partition, Fate.REVERTED if reverted else Fate.ELSEWHERE, lists)


def _election_verdict(partition: TopicPartition, about: _About, observed: Observation) -> Verdict:
    missed = check(about.led[partition], observed)
    if missed is None:
        return Verdict(partition, Fate.DONE, f"leader {about.led[partition].leader}")
    return Verdict(
        partition, Fate.UNDER_WAY if partition in observed.election_requests else Fate.NOT_ELECTED, missed.found
    )
