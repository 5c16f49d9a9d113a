"""Plans applied to the simulated cluster: the controller of every Kafka version does what the plan predicted."""

from collections.abc import Callable

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.model.dialect import MINOR_VERSIONS, parse_version
from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.runtime.simulated.cluster import SimulatedCluster
from controller_core.znodes import encode_preferred_replica_election
from controller_core.znodes import paths as znode
from kafka_maintenance.operations.apply.plan import apply_plan, verify
from kafka_maintenance.operations.cluster.observe import observe
from kafka_maintenance.operations.errors import RefusedError
from kafka_maintenance.operations.plans.drain import plan_drain
from kafka_maintenance.operations.plans.store import StoredPlan
from tests.kafka_maintenance.operations.apply.on_simulated import (
    NOW,
    deletion,
    elections,
    moves,
    proposed,
    re_election,
    session,
    simulated,
)


@pytest.fixture(params=MINOR_VERSIONS)
def cluster(request: pytest.FixtureRequest) -> SimulatedCluster:
    return simulated(request.param)


@pytest.mark.parametrize("make", [elections, moves, proposed, deletion])
def test_kafka_does_what_was_predicted(
    cluster: SimulatedCluster, make: Callable[[MemoryStore, SimulatedCluster], StoredPlan | None]
):
    store = MemoryStore()
    plan = make(store, cluster)
    assert plan is not None
    receipt = apply_plan(
        store=store, plan_uri=plan.uri, approved_digest=plan.digest, approver="ann", zookeeper=session(cluster), now=NOW,
        settle_timeout_s=0.0,
    )  # fmt: skip
    assert not receipt.already_applied
    assert verify(store=store, plan_uri=plan.uri, zookeeper=session(cluster)).done
    active = cluster.active_controller()
    assert active is not None
    assert active.refusals == []


def test_a_request_that_outlived_its_topic_is_cleared(cluster: SimulatedCluster):
    store, zookeeper = MemoryStore(), session(cluster)
    plan = re_election(store, cluster)
    assert plan is not None
    apply_plan(
        store=store, plan_uri=plan.uri, approved_digest=plan.digest, approver="ann", zookeeper=zookeeper, now=NOW
    )
    assert zookeeper.exists(znode.REASSIGN_PARTITIONS) is None


def test_a_hanging_controller_is_replaced_and_what_it_was_asked_for_is_done(cluster: SimulatedCluster):
    cluster.start_broker(BrokerId(4))  # the newest broker is not the controller
    cluster.settle()
    hung = cluster.active_controller()
    assert hung is not None
    hung.is_blocked = True
    partition = TopicPartition("orders", 0)
    store, zookeeper = MemoryStore(), session(cluster)
    zookeeper.create(znode.PREFERRED_REPLICA_ELECTION, encode_preferred_replica_election([partition]))
    plan = plan_drain(store, "demo", zookeeper=zookeeper, kafka_version=cluster.dialect.version, now=NOW)
    assert plan is not None
    apply_plan(
        store=store, plan_uri=plan.uri, approved_digest=plan.digest, approver="ann", zookeeper=zookeeper, now=NOW
    )
    seen = observe(zookeeper, partitions=[partition])
    assert seen.election_requests == frozenset()
    assert seen.states[partition].leader == seen.assignments[partition].replicas[0]


def test_a_hanging_controller_is_replaced_and_its_notifications_are_drained(cluster: SimulatedCluster):
    cluster.start_broker(BrokerId(4))  # the newest broker is not the controller
    cluster.settle()
    hung = cluster.active_controller()
    assert hung is not None
    hung.is_blocked = True
    partition = TopicPartition("orders", 0)
    cluster.nodes[BrokerId(4)].kafka.propagate_isr_changes([partition])
    store, zookeeper = MemoryStore(), session(cluster)
    with_version = {"kafka_version": cluster.dialect.version, "zookeeper": zookeeper, "now": NOW}
    if parse_version(cluster.dialect.version) < (1, 1, 0):
        with pytest.raises(RefusedError, match=r"expected Kafka 1\.1 or newer"):
            plan_drain(store, "demo", **with_version)
        return
    plan = plan_drain(store, "demo", **with_version)
    assert plan is not None
    apply_plan(
        store=store, plan_uri=plan.uri, approved_digest=plan.digest, approver="ann", zookeeper=zookeeper, now=NOW
    )
    after = observe(zookeeper, partitions=[partition])
    assert after.notifications == ()
    assert after.active_controller is not None
    assert after.active_controller.controller_id != hung.id
