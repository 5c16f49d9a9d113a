"""How far a step is, and whether the rest of the cluster is well enough for the next one: figures from what was observed.

Source: docs/operations.md, "Applying".
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.plans.checks import check
from controller_core.plans.conditions import AssignedTo, CaughtUp, LedBy, TopicGone
from controller_core.plans.observation import Observation
from controller_core.plans.plan import PlanStep


class Missing(NamedTuple):
    """A replica that is wanted in the ISR and is not there; `is_live` says whether its broker is registered."""

    partition: TopicPartition
    broker: BrokerId
    is_live: bool

    def __str__(self) -> str:
        return f"{self.partition} on broker {self.broker}{'' if self.is_live else ', which is not registered'}"


class Copy(NamedTuple):
    """A replica that a step copies to a broker that had none."""

    partition: TopicPartition
    broker: BrokerId


class StepProgress(NamedTuple):
    """Outcomes of a step that hold, of how many; replicas that are to be copied and are in the ISR, of how many; those missing."""

    outcomes_done: int
    outcomes: int
    replicas_in_sync: int
    replicas: int
    missing: tuple[Missing, ...]

    def __str__(self) -> str:
        done = f"{self.outcomes_done} of {self.outcomes} partitions or topics done"
        return f"{self.replicas_in_sync} of {self.replicas} new replicas in sync, {done}" if self.replicas else done


class Health(NamedTuple):
    """Partitions beside those of a plan that are led by no live broker, that lack a replica in the ISR, one that is being added
    apart, and that have fewer there than producers with acks=all need.

    Source: KIP-352 (Kafka 2.5), `Partition.isUnderReplicated` and `isUnderMinIsr`.
    """

    offline: int
    under_replicated: int
    under_min_isr: int


def copies(step: PlanStep) -> tuple[Copy, ...]:
    """What the step copies."""
    before = {each.partition: each.replicas for each in step.expectations if isinstance(each, AssignedTo)}
    found: list[Copy] = []
    for each in step.outcomes:
        if isinstance(each, CaughtUp):
            partition = each.partition
            had = before.get(partition, ())
            found += [Copy(partition, broker) for broker in each.replicas if broker not in had]
    return tuple(found)


def copy_seconds(
    step: PlanStep, leaders: Mapping[TopicPartition, BrokerId], sizes: Mapping[TopicPartition, int], bytes_per_s: int
) -> float:
    """How long the copies of the step take at that rate: as long as the broker that sends or receives most.

    Args:
        step: of a reassignment.
        leaders: who leads each partition, and sends it.
        sizes: bytes of a replica of each partition; what is not known counts as empty.
        bytes_per_s: what each broker may send, and receive.
    """
    sent: dict[BrokerId, int] = {}
    received: dict[BrokerId, int] = {}
    for partition, broker in copies(step):
        size = sizes.get(partition, 0)
        received[broker] = received.get(broker, 0) + size
        if partition in leaders:
            sent[leaders[partition]] = sent.get(leaders[partition], 0) + size
    return max((*sent.values(), *received.values()), default=0) / bytes_per_s


def step_progress(step: PlanStep, observed: Observation) -> StepProgress:
    """How far the step is."""
    wanted_copies, states = copies(step), observed.states
    missing = tuple(
        Missing(*each, each.broker in observed.brokers)
        for each in wanted_copies
        if each.partition not in states or each.broker not in states[each.partition].isr
    )
    wanted = [each for each in step.outcomes if isinstance(each, AssignedTo | LedBy | TopicGone)]
    return StepProgress(
        outcomes_done=sum(check(each, observed) is None for each in wanted),
        outcomes=len(wanted),
        replicas_in_sync=len(wanted_copies) - len(missing),
        replicas=len(wanted_copies),
        missing=missing,
    )


def lacking_replicas(observed: Observation, beside: Collection[TopicPartition]) -> tuple[TopicPartition, ...]:
    """The partitions that are not among `beside` and lack a replica in the ISR, be it one that is being added."""
    return tuple(
        partition
        for partition, state in observed.states.items()
        if partition not in beside and not set(observed.assignments[partition].replicas) <= set(state.isr)
    )


def health(observed: Observation, beside: Collection[TopicPartition], min_isr: Mapping[str, int]) -> Health:
    """The health of all partitions observed that are not among `beside`, those of the plan itself.

    Args:
        observed: the cluster.
        beside: partitions that the plan names.
        min_isr: min.insync.replicas of each topic of `lacking_replicas`; 1 where it is not named. More than a partition has
            replicas count as all of them, as since Kafka 3.7.
    """
    lacking = lacking_replicas(observed, beside)
    others = [(partition, state) for partition, state in observed.states.items() if partition not in beside]
    return Health(
        offline=sum(state.leader not in observed.brokers for _, state in others),
        under_replicated=sum(
            not set(observed.assignments[each].origin) <= set(observed.states[each].isr) for each in lacking
        ),
        under_min_isr=sum(
            len(observed.states[each].isr) < min(min_isr.get(each.topic, 1), len(observed.assignments[each].replicas))
            for each in lacking
        ),
    )
