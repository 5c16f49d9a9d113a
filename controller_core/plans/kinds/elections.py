"""Elections that give partitions back to their preferred leaders.

Source: Kafka 2.3 `PreferredReplicaLeaderElectionCommand`; Kafka 3.9 `KafkaController.processReplicaLeaderElection`.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from controller_core.model.partitions import TopicPartition
from controller_core.model.words import counted
from controller_core.plans.checks import unmet
from controller_core.plans.conditions import (
    AssignedTo,
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
from controller_core.plans.request_znodes import CreatePreferredReplicaElection, election_batches
from controller_core.plans.rules import GO_ON
from controller_core.znodes.paths import PREFERRED_REPLICA_ELECTION

ELECTIONS_PER_STEP: Final = 1_000
ELECTIONS_PER_MINUTE: Final = 1_000
"""Clients look for new leaders after each step; a minute lets them find those of the step before."""
_PAUSE_S: Final = 60


def elections_plan(
    observed: Observation,
    origin: Origin,
    electable: Sequence[TopicPartition],
    *,
    left_out: Sequence[LeftOut] = (),
    election_count_max: int | None = None,
    elections_per_minute: int = ELECTIONS_PER_MINUTE,
    partition_count_max: int = ELECTIONS_PER_STEP,
) -> Plan | Refused:
    """Elections that give partitions back to their preferred leaders.

    Args:
        observed: assignments and states of at least the `electable` partitions.
        origin: for which cluster.
        electable: partitions whose preferred replica could lead but does not (`rebalance.leader_imbalance`), the most
            urgent first.
        left_out: imbalanced partitions that cannot be elected, with the reason.
        election_count_max: elections in this plan, the most urgent ones. None: all.
        elections_per_minute: elections in one step; where there are several steps, a minute passes between two.
        partition_count_max: elections in one request znode.

    Returns:
        A plan without steps when there is nothing to elect; `Refused` when no controller is active.
    """
    if reasons := unmet((ZooKeeperControllerRules(),), observed):
        return Refused(reasons)
    ordered = list(dict.fromkeys(electable))
    later = [] if election_count_max is None else ordered[election_count_max:]
    chosen = sorted(ordered[:election_count_max])
    size = min(partition_count_max, elections_per_minute)
    steps = [election_step(batch, observed) for batch in election_batches(chosen, partition_count_max=size)]
    limit = counted(len(chosen), "election")
    over = [LeftOut(str(each), f"over the limit of {limit} in one run") for each in later]
    return Plan(
        kind=PlanKind.ELECT_PREFERRED_LEADERS,
        cluster=origin.cluster,
        kafka_cluster_id=observed.kafka_cluster_id,
        snapshot=origin.snapshot,
        expectations=cluster_conditions(observed, {observed.assignments[each].replicas[0] for each in chosen}),
        steps=tuple(steps),
        predicted=tuple(_predicted_election(each, observed) for each in chosen),
        left_out=(*left_out, *over),
        risks=("Clients of these partitions reconnect to the new leader: a short pause, no data is moved.",),
        rollback=Rollback(
            text="An election to the former leader cannot be asked for: preferred leaders are the first replicas. "
            "Where one must lead again, reassign the partition with that broker first."
        ),
        rules=replace(GO_ON, step_pause_s=_PAUSE_S if len(steps) > 1 else 0),
    )


def election_step(batch: tuple[TopicPartition, ...], observed: Observation) -> PlanStep:
    """One election request of partitions that `observed` knows."""
    expectations: list[Condition] = [RequestAbsent(path=PREFERRED_REPLICA_ELECTION), *same_topics(observed, batch)]
    outcomes: list[Condition] = [RequestAbsent(path=PREFERRED_REPLICA_ELECTION)]
    for partition in batch:
        replicas, state = observed.assignments[partition].replicas, observed.states[partition]
        expectations.append(AssignedTo(*partition, replicas=replicas))
        expectations.append(InSync(*partition, leader=state.leader, isr=tuple(sorted(state.isr))))
        outcomes.append(LedBy(*partition, leader=replicas[0]))
    return PlanStep(
        effects=(CreatePreferredReplicaElection.of(batch),),
        expectations=tuple(expectations),
        outcomes=tuple(outcomes),
    )


def _predicted_election(partition: TopicPartition, observed: Observation) -> str:
    state = observed.states[partition]
    preferred = observed.assignments[partition].replicas[0]
    return predicted_leader(partition, state, preferred)


ELECTIONS: Final = KindRecord(
    title="Elect preferred leaders",
    request=CreatePreferredReplicaElection,
    requests_per_step=1,
    unit=("election", "elections"),
    headings=("step", "partition", "leader now", "leader after", "ISR"),
    changes=leader_changes,
    step_timeout_s=120.0,
    destroys_data=False,
    counted_by=("partitions", "topics", "brokers"),
    not_undone="a preferred election makes the first replica the leader again, which needs no undoing",
)
