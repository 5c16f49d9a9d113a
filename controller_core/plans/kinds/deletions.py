"""Deletion of topics.

Source: Kafka 3.9 `TopicDeletionManager`, `DeleteTopicsTopicZNode`.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from controller_core.model.partitions import BrokerId
from controller_core.model.words import counted
from controller_core.plans.checks import Unmet, unmet
from controller_core.plans.conditions import Condition, TopicGone, TopicIs, ZooKeeperControllerRules
from controller_core.plans.kinds.common import KindRecord, Origin, Refused, cluster_conditions
from controller_core.plans.observation import Observation
from controller_core.plans.plan import LeftOut, Plan, PlanKind, PlanStep, Rollback
from controller_core.plans.request_znodes import CreateDeleteTopic
from controller_core.plans.safeguards import safeguards
from controller_core.plans.topic_owners import INTERNAL_TOPICS, owner_of

DELETIONS_PER_STEP: Final = 20


def deletions_plan(
    observed: Observation,
    origin: Origin,
    topics: Sequence[str],
    *,
    left_out: Sequence[LeftOut] = (),
    evidence: Mapping[str, str] | None = None,
    even_if_used: bool = False,
    topic_count_max: int = DELETIONS_PER_STEP,
) -> Plan | Refused:
    """Deletion of topics.

    Args:
        observed: identities and assignments of at least these topics.
        origin: for which cluster.
        topics: the eligible ones (`topic_deletion.deletion_eligibility`); the caller asked for them by name.
        left_out: topics asked for that are not eligible, with every reason.
        evidence: topic → what is known of its use, for the approver.
        even_if_used: whether topics that a program made for itself may be deleted, too; never those of Kafka's brokers.
        topic_count_max: topics requested together in one step.

    Returns:
        A plan, or `Refused` when no controller is active, or a topic does not exist or is one of Kafka's own.
    """
    wanted = sorted(set(topics))
    missing = [
        Unmet(f"topic {topic}", "a topic of this cluster", "none", "correct the name")
        for topic in wanted
        if topic not in observed.topics
    ]
    internal = [
        Unmet(f"topic {topic}", "a topic of applications", "one of Kafka's own", "leave it out: the cluster needs it")
        for topic in wanted
        if topic in INTERNAL_TOPICS
    ]
    reasons = (*unmet((ZooKeeperControllerRules(),), observed), *missing, *internal)
    if reasons:
        return Refused(reasons)
    found = [_kept(topic, observed, even_if_used=even_if_used) for topic in wanted]
    kept = [each for each in found if each is not None]
    wanted = sorted(set(wanted) - {each.subject for each in kept})
    told = evidence or {}
    steps = tuple(
        _deletion_step(wanted[start : start + topic_count_max], observed)
        for start in range(0, len(wanted), topic_count_max)
    )
    return Plan(
        kind=PlanKind.DELETE_TOPICS,
        cluster=origin.cluster,
        kafka_cluster_id=observed.kafka_cluster_id,
        snapshot=origin.snapshot,
        expectations=cluster_conditions(observed, _replica_brokers(wanted, observed)),
        steps=steps,
        predicted=tuple(_predicted_deletion(topic, observed, told.get(topic)) for topic in wanted),
        left_out=(*left_out, *kept),
        risks=(
            "The data of these topics is gone for good; what still writes to them gets errors or creates them anew.",
            "With delete.topic.enable=false the controller drops the request and the topic stays.",
            *(f"{topic} is {owner}." for topic in wanted if (owner := owner_of(topic)) is not None),
        ),
        rollback=Rollback(
            text="None: data cannot be brought back. Name, partitions, replicas and configs can be made again from the "
            "snapshot."
        ),
    )


def _kept(topic: str, observed: Observation, *, even_if_used: bool) -> LeftOut | None:
    """Why the topic must not be deleted now; None where it may be."""
    owner = owner_of(topic)
    if owner is not None and not even_if_used:
        return LeftOut(topic, f"is {owner}; where that program is gone for good, plan with even_if_used")
    if topic in observed.queued_topics:
        return LeftOut(topic, "is queued for deletion already")
    reasons = unmet(safeguards(CreateDeleteTopic(topic=topic)), observed)
    return LeftOut(topic, "; ".join(f"{each.found}: {each.advice}" for each in reasons)) if reasons else None


def _deletion_step(topics: Sequence[str], observed: Observation) -> PlanStep:
    expectations: list[Condition] = []
    outcomes: list[Condition] = []
    for topic in topics:
        identity = observed.topics[topic]
        expectations.append(TopicIs(topic=topic, czxid=identity.czxid, partition_count=identity.partition_count))
        outcomes.append(TopicGone(topic=topic, czxid=identity.czxid))
    return PlanStep(
        effects=tuple(CreateDeleteTopic(topic=topic) for topic in topics),
        expectations=tuple(expectations),
        outcomes=tuple(outcomes),
    )


def _replica_brokers(topics: Iterable[str], observed: Observation) -> set[BrokerId]:
    wanted = frozenset(topics)
    return {
        broker
        for partition, assignment in observed.assignments.items()
        if partition.topic in wanted
        for broker in assignment.replicas
    }


def _predicted_deletion(topic: str, observed: Observation, evidence: str | None) -> str:
    replicas = [
        len(assignment.replicas) for partition, assignment in observed.assignments.items() if partition.topic == topic
    ]
    brokers = sorted(_replica_brokers([topic], observed))
    what = f"{topic}  {counted(len(replicas), 'partition')}, {counted(sum(replicas), 'replica')} on brokers {brokers} are deleted"
    return what if evidence is None else f"{what}; {evidence}"


def _changes(step: PlanStep) -> list[Sequence[str]]:
    return [
        (each.topic, str(each.partition_count), f"{each.czxid:#x}")
        for each in step.expectations
        if isinstance(each, TopicIs)
    ]


DELETIONS: Final = KindRecord(
    title="Delete topics",
    request=CreateDeleteTopic,
    requests_per_step=DELETIONS_PER_STEP,
    unit=("topic to delete", "topics to delete"),
    headings=("step", "topic", "partitions", "created at zxid"),
    changes=_changes,
    step_timeout_s=600.0,
    destroys_data=True,
    counted_by=("partitions", "topics"),
    not_undone="what Kafka has deleted is gone; the recreation kit (`kafka-maintenance kit`) brings names and configs back",
)
