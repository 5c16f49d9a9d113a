"""How much a plan asks for, for the caps and rules of a policy: counted from its requests."""

from typing import NamedTuple

from controller_core.plans.conditions import AssignedTo, InSync
from controller_core.plans.plan import Plan
from controller_core.plans.request_znodes import (
    CreateDeleteTopic,
    CreatePreferredReplicaElection,
    CreateReassignPartitions,
)
from controller_core.ports.object_store import ObjectStore
from kafka_maintenance.operations.plans.store import StoredPlan, read_plan


class Contents(NamedTuple):
    """Counts of what a plan touches; `all_in_sync` says that every partition has all of its replicas in the ISR."""

    partitions: int = 0
    topics: int = 0
    brokers: int = 0
    all_in_sync: bool = False


def contents_of_stored(store: ObjectStore, stored: object) -> Contents:
    """The counts of a stored plan; what asks nothing of Kafka, a restore or a removal of snapshots, has none."""
    return contents_of(read_plan(store, stored.uri)) if isinstance(stored, StoredPlan) else Contents()


def contents_of(plan: Plan) -> Contents:
    """The counts of `plan`; of a deletion the partitions that its topics have."""
    partitions, topics, brokers = set(), set(), set()
    for effect in plan.effects:
        if isinstance(effect, CreateReassignPartitions):
            partitions |= {target.partition for target in effect.targets}
            brokers |= {broker for target in effect.targets for broker in target.replicas}
        elif isinstance(effect, CreatePreferredReplicaElection):
            partitions |= set(effect.partitions)
        elif isinstance(effect, CreateDeleteTopic):
            topics.add(effect.topic)
    expected = [each for step in plan.steps for each in step.expectations]
    replicas = {each.partition: set(each.replicas) for each in expected if isinstance(each, AssignedTo)}
    in_sync = {each.partition: set(each.isr) for each in expected if isinstance(each, InSync)}
    return Contents(
        partitions=len(partitions),
        topics=len(topics | {each.topic for each in partitions}),
        brokers=len(brokers),
        all_in_sync=bool(partitions) and all(in_sync.get(each) == replicas.get(each) for each in partitions),
    )
