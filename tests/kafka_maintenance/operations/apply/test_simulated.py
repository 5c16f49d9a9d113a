"""Plans applied to the simulated cluster: the controller of every Kafka version does what the plan predicted."""

from collections.abc import Callable
from datetime import UTC, datetime

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.model.dialect import MINOR_VERSIONS, dialect_for, parse_version
from controller_core.model.partitions import BrokerId, ReplicaAssignment, TopicPartition
from controller_core.plans.request_znodes import Target
from controller_core.runtime.simulated.cluster import SimulatedCluster
from controller_core.runtime.simulated.zookeeper import MemoryServer, MemoryZooKeeper
from controller_core.znodes import encode_preferred_replica_election, encode_reassign_partitions
from controller_core.znodes import paths as znode
from kafka_maintenance.operations.apply.plan import apply_plan, verify
from kafka_maintenance.operations.cluster.observe import observe
from kafka_maintenance.operations.errors import RefusedError
from kafka_maintenance.operations.plans import make as planning

NOW = datetime(2026, 11, 21, tzinfo=UTC)
RING = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)}


class Settling(MemoryZooKeeper):
    """A session before whose every fresh read the cluster has done all that it was asked for."""

    cluster: SimulatedCluster

    def sync(self, path: str) -> None:
        self.cluster.settle()
        super().sync(path)


@pytest.fixture(params=MINOR_VERSIONS)
def cluster(request: pytest.FixtureRequest) -> SimulatedCluster:
    return simulated(request.param)


def simulated(version: str) -> SimulatedCluster:
    """Three brokers and two topics; broker 2 was away and leads nothing since."""
    simulated = SimulatedCluster(
        dialect_for(version), broker_config={"delete.topic.enable": "true"}, server=MemoryServer()
    )
    for broker in (1, 2, 3):
        simulated.start_broker(BrokerId(broker))
        simulated.settle()
    assignments = {number: ReplicaAssignment(ids(*replicas)) for number, replicas in RING.items()}
    simulated.create_topics({"orders": assignments, "old": assignments})
    simulated.settle()
    simulated.stop_broker(BrokerId(2))
    simulated.settle()
    simulated.start_broker(BrokerId(2))
    simulated.settle()
    return simulated


def ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))


def session(cluster: SimulatedCluster) -> Settling:
    opened = Settling(cluster.server)
    opened.cluster = cluster
    return opened


def elections(store: MemoryStore, cluster: SimulatedCluster) -> planning.StoredPlan | None:
    return planning.plan_elections(
        store, "demo", zookeeper=session(cluster), now=NOW, kafka_version=cluster.dialect.version
    )


def moves(store: MemoryStore, cluster: SimulatedCluster) -> planning.StoredPlan | None:
    first, second = TopicPartition("orders", 0), TopicPartition("orders", 1)
    cluster.start_broker(BrokerId(4))
    cluster.settle()
    waves = [[Target(*first, ids(4, 2, 3))], [Target(*second, ids(3, 1, 2)), Target(*first, ids(2, 3, 4))]]
    return planning.plan_reassignment(store, "demo", zookeeper=session(cluster), now=NOW, waves=waves)


def proposed(store: MemoryStore, cluster: SimulatedCluster) -> planning.StoredPlan | None:
    cluster.start_broker(BrokerId(4))
    cluster.settle()
    return planning.plan_reassignment(store, "demo", zookeeper=session(cluster), now=NOW)


def deletion(store: MemoryStore, cluster: SimulatedCluster) -> planning.StoredPlan | None:
    return planning.plan_deletions(
        store, "demo", topics=["old"], zookeeper=session(cluster), now=NOW, kafka_version=cluster.dialect.version
    )


def re_election(store: MemoryStore, cluster: SimulatedCluster) -> planning.StoredPlan | None:
    """For a request that outlived its topic."""
    zookeeper, moving = session(cluster), TopicPartition("old", 0)
    zookeeper.create(znode.REASSIGN_PARTITIONS, encode_reassign_partitions({moving: ids(1, 2, 4)}))  # 4 is not there
    cluster.settle()
    zookeeper.create(znode.delete_topic_path("old"))
    cluster.settle()
    cluster.start_broker(BrokerId(4))
    cluster.settle()
    assert zookeeper.exists(znode.topic_path("old")) is None
    assert zookeeper.exists(znode.REASSIGN_PARTITIONS) is not None
    return planning.plan_drain(store, "demo", zookeeper=zookeeper, kafka_version=cluster.dialect.version, now=NOW)


@pytest.mark.parametrize("make", [elections, moves, proposed, deletion])
def test_kafka_does_what_was_predicted(
    cluster: SimulatedCluster, make: Callable[[MemoryStore, SimulatedCluster], planning.StoredPlan | None]
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
    plan = planning.plan_drain(store, "demo", zookeeper=zookeeper, kafka_version=cluster.dialect.version, now=NOW)
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
            planning.plan_drain(store, "demo", **with_version)
        return
    plan = planning.plan_drain(store, "demo", **with_version)
    assert plan is not None
    apply_plan(
        store=store, plan_uri=plan.uri, approved_digest=plan.digest, approver="ann", zookeeper=zookeeper, now=NOW
    )
    after = observe(zookeeper, partitions=[partition])
    assert after.notifications == ()
    assert after.active_controller is not None
    assert after.active_controller.controller_id != hung.id
