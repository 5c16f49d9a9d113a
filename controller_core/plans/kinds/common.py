"""What every kind of plan has: its record, which cluster a plan is for, what must hold of it, and how it is refused."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from controller_core.model.partitions import BrokerId, LeaderAndIsr, TopicPartition
from controller_core.plans.checks import Unmet
from controller_core.plans.conditions import (
    BrokersRegistered,
    Condition,
    InSync,
    KafkaClusterIs,
    LedBy,
    TopicCreatedAt,
    ZooKeeperControllerRules,
)
from controller_core.plans.observation import Observation
from controller_core.plans.plan import PlanStep, SnapshotReference
from controller_core.plans.request_znodes import Request


class KindRecord(NamedTuple):
    """What is said and done about all plans of one kind.

    Attributes:
        title: what such a plan does, for its page.
        request: what each of its steps asks for.
        requests_per_step: how many of these at most.
        unit: what it counts, one and many.
        headings: of the table of changes; the first is the step.
        changes: what a step changes, a row each, in the columns after the first.
        step_timeout_s: how long the outcome of one step is waited for.
        destroys_data: whether what it takes away cannot be had back: all of it is shown, and nobody approves alone what he asked for.
        counted_by: what of such a plan can be counted, so that a policy can limit it.
        not_undone: why a plan is not rolled back, with what helps instead; None where the requests of its steps go back.
    """

    title: str
    request: type[Request]
    requests_per_step: int
    unit: tuple[str, str]
    headings: tuple[str, ...]
    changes: Callable[[PlanStep], list[Sequence[str]]]
    step_timeout_s: float
    destroys_data: bool
    counted_by: tuple[Literal["partitions", "topics", "brokers", "bytes"], ...]
    not_undone: str | None


class Origin(NamedTuple):
    """Which cluster a plan is for, and the snapshot it was made from; None for a live read."""

    cluster: str
    snapshot: SnapshotReference | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """No plan was made; one reason each."""

    reasons: tuple[Unmet, ...]


def cluster_conditions(observed: Observation, brokers: Iterable[BrokerId]) -> tuple[Condition, ...]:
    """What must hold of the cluster itself before a plan of these brokers is applied."""
    named = tuple(sorted(set(brokers)))
    identity: tuple[Condition, ...] = (
        () if observed.kafka_cluster_id is None else (KafkaClusterIs(cluster_id=observed.kafka_cluster_id),)
    )
    return (*identity, ZooKeeperControllerRules(), *((BrokersRegistered(brokers=named),) if named else ()))


def same_topics(observed: Observation, partitions: Iterable[TopicPartition]) -> tuple[TopicCreatedAt, ...]:
    """That the topics of `partitions` are still those that were seen: a namesake with the same lists is another topic."""
    names = sorted({partition.topic for partition in partitions})
    return tuple(TopicCreatedAt(topic=name, czxid=observed.topics[name].czxid) for name in names)


def broker_list(brokers: Iterable[int]) -> str:
    """Broker ids as a cell of a table."""
    return ", ".join(map(str, brokers)) or "none"


def predicted_leader(partition: TopicPartition, state: LeaderAndIsr, leader: BrokerId) -> str:
    """The line of a prediction that says what one moved leader does to the partition's state."""
    return (
        f"{partition}  leader {state.leader} → {leader}, leader epoch {state.leader_epoch} → {state.leader_epoch + 1}, "
        f"ISR {list(state.isr)} stays"
    )


def leader_changes(step: PlanStep) -> list[Sequence[str]]:
    """Of a step that moves leaders, a row each: partition, leader now, leader after, ISR."""
    states = {each.partition: each for each in step.expectations if isinstance(each, InSync)}
    return [
        (
            str(each.partition),
            str(states[each.partition].leader),
            str(each.leader),
            broker_list(states[each.partition].isr),
        )
        for each in step.outcomes
        if isinstance(each, LedBy)
    ]
