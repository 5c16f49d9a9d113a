"""Plans of preferred-leader elections, from a snapshot in the store or a fresh read of the cluster; nothing is written to a cluster.

Source: docs/operations.md, "The plan".
"""

from collections.abc import Sequence
from typing import Unpack

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.controller.leader_imbalance import NOT_IN_ISR, leader_imbalance
from controller_core.model.partitions import TopicPartition, is_topic_name
from controller_core.plans.kinds import elections_plan
from controller_core.plans.kinds.elections import ELECTIONS_PER_MINUTE
from controller_core.plans.observation import Observation
from controller_core.plans.plan import LeftOut
from kafka_maintenance.operations.plans.seen import Seen, Source, context_of, matches, require_topics, see, store_made
from kafka_maintenance.operations.plans.store import StoredPlan


def plan_elections(
    store: ObjectStore,
    cluster: str,
    *,
    election_count_max: int | None = None,
    elections_per_minute: int = ELECTIONS_PER_MINUTE,
    topics: Sequence[str] = (),
    **source: Unpack[Source],
) -> StoredPlan | None:
    """Elections that give partitions back to their preferred leaders, those of the most imbalanced brokers first.

    Args:
        store: where the snapshot lies and the plan goes.
        cluster: its name in the store.
        election_count_max: at most so many; None: all.
        elections_per_minute: so many in one step; where there are several, a minute passes between two.
        topics: only topics that match one of these shell patterns; empty: all.
        **source: what the plan is made from, see `see`.

    Returns:
        The stored plan, or None when there is nothing to elect.

    Raises:
        RefusedError: the cluster may not be asked, with the reasons.
        BadInputError: no snapshot, no Kafka tree, or a pattern that no topic matches.
    """
    seen = see(store, cluster, **source)
    electable, left_out = _electable(seen, topics)
    made = elections_plan(
        seen.observed,
        seen.origin,
        electable,
        left_out=left_out,
        election_count_max=election_count_max,
        elections_per_minute=elections_per_minute,
    )
    return store_made(store, made, seen)


def _electable(seen: Seen, topics: Sequence[str]) -> tuple[list[TopicPartition], list[LeftOut]]:
    """The partitions to elect, most imbalanced brokers first, and the imbalanced ones that cannot be elected."""
    require_topics(seen.origin.cluster, seen.observed, topics)
    electable: list[TopicPartition] = []
    left_out: list[LeftOut] = []
    imbalance = leader_imbalance(context_of(seen))
    for _, found in sorted(imbalance.items(), key=lambda item: (-item[1].ratio, item[0])):
        left_out += [LeftOut(str(each), reason) for each, reason in found.not_electable if matches(each.topic, topics)]
        for each in found.electable:
            if not matches(each.topic, topics):
                continue
            reason = _why_not(each, seen.observed)
            if reason is None:
                electable.append(each)
            else:
                left_out.append(LeftOut(str(each), reason))
    return electable, left_out


def _why_not(partition: TopicPartition, observed: Observation) -> str | None:
    """What the automatic run of old versions tries all the same; a request would be in vain, or meets a reassignment."""
    assignment, state = observed.assignments[partition], observed.states.get(partition)
    if not is_topic_name(partition.topic):
        return "its topic has a name that Kafka does not allow"
    if assignment.is_being_reassigned:
        return "is being reassigned"
    if state is not None and state.leader not in observed.brokers:
        return "has no live leader"
    return None if state is not None and assignment.replicas[0] in state.isr else NOT_IN_ISR
