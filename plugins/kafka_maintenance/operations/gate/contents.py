"""How much a plan asks for, for the caps and rules of a policy: counted from its requests."""

from collections.abc import Mapping
from typing import Any, NamedTuple, assert_never

from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.plans.conditions import AssignedTo, InSync, LedBy, TopicIs
from controller_core.plans.plan import Plan
from controller_core.plans.request_znodes import (
    CreateDeleteTopic,
    CreatePreferredReplicaElection,
    CreateReassignPartitions,
    DeleteController,
    MoveLeaders,
    request_brokers,
    request_targets,
)
from controller_core.plans.verdicts import request_partitions
from controller_core.ports.object_store import ObjectStore
from kafka_maintenance.operations.plans.store import StoredPlan, read_plan, read_proof
from spark_jobs.planner.model import ClusterState


class Contents(NamedTuple):
    """Counts of what a plan touches; `brokers` are those that get replicas or leaders.

    `all_in_sync` says that every partition has all of its replicas in the ISR; `bytes` is what brokers copy, as the sizes of the
    planner say, and None where it knew none.
    """

    partitions: int = 0
    topics: int = 0
    brokers: int = 0
    all_in_sync: bool = False
    bytes: int | None = 0


def contents_of_stored(store: ObjectStore, stored: object) -> Contents:
    """The counts of a stored plan; what asks nothing of Kafka, a restore or a removal of snapshots, has none.

    Raises:
        RefusedError: the proof of a reassignment, which has the sizes, is gone or another one.
    """
    if not isinstance(stored, StoredPlan):
        return Contents()
    plan = read_plan(store, stored.uri)
    proof = read_proof(store, stored.uri, plan)
    return contents_of(plan, None if proof is None else _sizes(proof))


def contents_of(plan: Plan, sizes: Mapping[TopicPartition, int] | None = None) -> Contents:
    """The counts of `plan`; of a deletion the partitions that its topics have, which it expects to find. `sizes` are the bytes of a replica, where
    known.
    """
    expected = [each for step in plan.steps for each in step.expectations]
    led = {each.partition: each.leader for step in plan.steps for each in step.outcomes if isinstance(each, LedBy)}
    counted = {each.topic: each.partition_count for each in expected if isinstance(each, TopicIs)}
    partitions: set[TopicPartition] = set()
    topics: set[str] = set()
    brokers: set[BrokerId] = set()
    deleted = 0
    for effect in plan.effects:
        match effect:
            case CreateReassignPartitions() | MoveLeaders():
                partitions.update(request_partitions(effect))
                brokers.update(request_brokers(effect))
            case CreatePreferredReplicaElection(partitions=elected):
                partitions.update(elected)
                brokers.update(led[each] for each in elected)
            case CreateDeleteTopic(topic=topic):
                topics.add(topic)
                deleted += counted[topic]
            case DeleteController():
                pass  # asks for no partition
            case _:
                assert_never(effect)
    replicas = {each.partition: set(each.replicas) for each in expected if isinstance(each, AssignedTo)}
    in_sync = {each.partition: set(each.isr) for each in expected if isinstance(each, InSync)}
    return Contents(
        partitions=len(partitions) + deleted,
        topics=len(topics | {each.topic for each in partitions}),
        brokers=len(brokers),
        all_in_sync=bool(partitions) and all(in_sync.get(each) == replicas.get(each) for each in partitions),
        bytes=_copied(plan, sizes),
    )


def _copied(plan: Plan, sizes: Mapping[TopicPartition, int] | None) -> int | None:
    """The bytes of all replicas that a broker gets which did not hold one; None where a size is not known."""
    copied = 0
    for step in plan.steps:
        held = {each.partition: set(each.replicas) for each in step.expectations if isinstance(each, AssignedTo)}
        for effect in step.effects:
            for target in request_targets(effect):
                new = len(set(target.replicas) - held.get(target.partition, set()))
                if new and (sizes is None or target.partition not in sizes):
                    return None
                copied += new * (sizes or {}).get(target.partition, 0)
    return copied


def _sizes(proof: Mapping[str, Any]) -> Mapping[TopicPartition, int] | None:
    state = ClusterState.from_json(proof["state"])
    if state.size is None:
        return None
    names = zip(state.topic.tolist(), state.number.tolist(), state.size.tolist(), strict=True)
    return {TopicPartition(state.topics[topic], number): size for topic, number, size in names}
