"""Plans of each kind on the simulated cluster."""

from datetime import UTC, datetime

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.model.dialect import dialect_for
from controller_core.model.partitions import BrokerId, ReplicaAssignment, TopicPartition
from controller_core.plans.request_znodes import Target
from controller_core.runtime.simulated.cluster import SimulatedCluster
from controller_core.runtime.simulated.zookeeper import MemoryServer, MemoryZooKeeper
from controller_core.znodes import encode_reassign_partitions
from controller_core.znodes import paths as znode
from kafka_maintenance.operations.plans.deletions import plan_deletions
from kafka_maintenance.operations.plans.drain import plan_drain
from kafka_maintenance.operations.plans.elections import plan_elections
from kafka_maintenance.operations.plans.reassignment import plan_reassignment
from kafka_maintenance.operations.plans.store import StoredPlan
from tests.broker_ids import ids

NOW = datetime(2026, 11, 21, tzinfo=UTC)
RING = {0: (1, 2, 3), 1: (2, 3, 1), 2: (3, 1, 2)}


class Settling(MemoryZooKeeper):
    """A session before whose every fresh read the cluster has done all that it was asked for."""

    cluster: SimulatedCluster

    def sync(self, path: str) -> None:
        self.cluster.settle()
        super().sync(path)


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


def session(cluster: SimulatedCluster) -> Settling:
    opened = Settling(cluster.server)
    opened.cluster = cluster
    return opened


def elections(store: MemoryStore, cluster: SimulatedCluster) -> StoredPlan | None:
    return plan_elections(store, "demo", zookeeper=session(cluster), now=NOW, kafka_version=cluster.dialect.version)


def moves(store: MemoryStore, cluster: SimulatedCluster) -> StoredPlan | None:
    first, second = TopicPartition("orders", 0), TopicPartition("orders", 1)
    cluster.start_broker(BrokerId(4))
    cluster.settle()
    waves = [[Target(*first, ids(4, 2, 3))], [Target(*second, ids(3, 1, 2)), Target(*first, ids(2, 3, 4))]]
    return plan_reassignment(store, "demo", zookeeper=session(cluster), now=NOW, waves=waves)


def proposed(store: MemoryStore, cluster: SimulatedCluster) -> StoredPlan | None:
    cluster.start_broker(BrokerId(4))
    cluster.settle()
    return plan_reassignment(store, "demo", zookeeper=session(cluster), now=NOW)


def deletion(store: MemoryStore, cluster: SimulatedCluster) -> StoredPlan | None:
    return plan_deletions(
        store, "demo", topics=["old"], zookeeper=session(cluster), now=NOW, kafka_version=cluster.dialect.version
    )


def re_election(store: MemoryStore, cluster: SimulatedCluster) -> StoredPlan | None:
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
    return plan_drain(store, "demo", zookeeper=zookeeper, kafka_version=cluster.dialect.version, now=NOW)
