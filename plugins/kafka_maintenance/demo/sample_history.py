"""Seven recorded dates of a real cluster, carried with the project for the demo's backfill; and how they were recorded.

The dates lie in `sample_history/` in the store's own layout. `python -m kafka_maintenance.demo.sample_history FOLDER`
records them anew: real brokers come and go, the product itself takes each snapshot, only the clock is ours.
"""

import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path

from controller_core.adapters.object_store.open import ObjectStore, open_store
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import KazooZooKeeper
from controller_core.model.errors import NoNodeError
from controller_core.model.partitions import BrokerId, ReplicaAssignment, TopicPartition
from controller_core.znodes import (
    PREFERRED_REPLICA_ELECTION,
    REASSIGN_PARTITIONS,
    ConfigZnode,
    TopicZnode,
    broker_path,
    config_path,
    decode_state,
    delete_topic_path,
    encode_config,
    encode_delete_topic,
    encode_preferred_replica_election,
    encode_reassign_partitions,
    encode_topic,
    state_path,
    topic_path,
)
from kafka_maintenance.operations.snapshots.take import take_snapshot
from kafka_maintenance.servers.kafka import KafkaCluster
from kafka_maintenance.servers.process import wait_until

CLUSTER = "sample-history"
DAYS = tuple(date(2026, 10, 5) + timedelta(days=day) for day in range(7))
RECORDED = Path(__file__).parent / "sample_history"
_HOUR = 2
_SETTLE_TIMEOUT_S = 60.0


def copy_into(store: ObjectStore) -> int:
    """Put the recorded dates into a store, manifests last; what is there already stays. Returns the objects copied."""
    files = sorted(path for path in RECORDED.rglob("*") if path.is_file())
    copied = 0
    for path in sorted(files, key=lambda path: path.name == "manifest.json"):
        key = path.relative_to(RECORDED).as_posix()
        if key not in set(store.list(key)):
            store.put_new(key, path.read_bytes())
            copied += 1
    return copied


def record(folder: Path) -> None:
    """Run the week on real brokers and store a snapshot per date below `folder`, which must be empty or absent."""
    with KafkaCluster("3.9", brokers=3, racks=("rack-a", "rack-b", "rack-c"), name=CLUSTER) as kafka:
        for day, happens in zip(DAYS, _WEEK, strict=True):
            with kafka.session() as zookeeper:
                happens(_Cluster(kafka, zookeeper))
            moment = datetime(day.year, day.month, day.day, _HOUR, tzinfo=UTC)
            result = take_snapshot(
                address=ClusterAddress(kafka.zookeeper_connect),
                cluster=CLUSTER,
                store=open_store(str(folder)),
                run_id=f"sample-{day}",
                now=moment,
            )
            print(f"{day}  {result.manifest_uri}")


class _Cluster:
    """What may happen to the recorded cluster in a day, each action awaited."""

    def __init__(self, kafka: KafkaCluster, zookeeper: KazooZooKeeper) -> None:
        self.kafka = kafka
        self.zookeeper = zookeeper

    def create_topic(self, topic: str, assignments: Sequence[Sequence[int]], configs: Mapping[str, str]) -> None:
        partitions = {number: _assignment(replicas) for number, replicas in enumerate(assignments)}
        path = config_path("topics", topic)
        self.zookeeper.create(path, encode_config(ConfigZnode(config=dict(configs))))
        self.zookeeper.create(topic_path(topic), encode_topic(TopicZnode(version=1, assignments=partitions)))
        for number in partitions:
            self.until_leader(TopicPartition(topic, number), lambda leader: leader >= 0)

    def until_leader(self, partition: TopicPartition, wanted: Callable[[int], bool]) -> None:
        self.until(lambda: wanted(self.leader(partition)), f"{partition} has the leader it should have")

    def leader(self, partition: TopicPartition) -> int:
        path = state_path(partition)
        try:
            data, stat = self.zookeeper.get(path)
        except NoNodeError:
            return -1
        return int(decode_state(data, path=path, version=stat.version).leader)

    def broker_dies(self, broker: int) -> None:
        self.kafka[broker].kill(forget=True)
        self.until(lambda: self.zookeeper.exists(broker_path(broker)) is None, f"broker {broker} is gone")
        for topic in self.zookeeper.children("/brokers/topics"):
            for number in self.zookeeper.children(f"{topic_path(topic)}/partitions"):
                self.until_leader(TopicPartition(topic, int(number)), lambda leader: leader != broker)

    def broker_returns(self, broker: int) -> None:
        self.kafka[broker].start()

    def request(self, path: str, data: bytes) -> None:
        self.zookeeper.create(path, data)

    def answered(self, path: str) -> None:
        self.until(lambda: self.zookeeper.exists(path) is None, f"{path} is done")

    def until(self, condition: Callable[[], bool], what: str) -> None:
        wait_until(condition, what=what, timeout_s=_SETTLE_TIMEOUT_S)


def _assignment(replicas: Sequence[int]) -> ReplicaAssignment:
    return ReplicaAssignment(tuple(BrokerId(replica) for replica in replicas))


def _first_day(cluster: _Cluster) -> None:
    ring = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
    cluster.create_topic("orders", ring * 4, {"min.insync.replicas": "2"})
    cluster.create_topic("payments", ring * 2, {"min.insync.replicas": "2", "retention.ms": "604800000"})
    cluster.create_topic("clicks", [(1, 2), (2, 3), (3, 1), (1, 3)], {"cleanup.policy": "delete"})
    cluster.create_topic("audit", [(1,), (2,), (3,)], {})


def _broker_3_dies(cluster: _Cluster) -> None:
    cluster.broker_dies(3)


def _broker_3_is_back_and_leads_nothing(cluster: _Cluster) -> None:
    cluster.broker_returns(3)


def _clicks_cannot_be_deleted(cluster: _Cluster) -> None:
    cluster.broker_dies(2)
    cluster.request(delete_topic_path("clicks"), encode_delete_topic())


def _broker_2_is_back_and_a_fourth_joins(cluster: _Cluster) -> None:
    cluster.broker_returns(2)
    cluster.answered(delete_topic_path("clicks"))
    cluster.kafka.add_broker("rack-a")


def _leaders_go_home(cluster: _Cluster) -> None:
    wanted = [TopicPartition("orders", number) for number in range(12)]
    cluster.request(PREFERRED_REPLICA_ELECTION, encode_preferred_replica_election(wanted))
    cluster.answered(PREFERRED_REPLICA_ELECTION)
    cluster.create_topic("returns", [(1, 2, 3), (2, 3, 4)], {})


def _the_fourth_takes_its_share(cluster: _Cluster) -> None:
    targets = {TopicPartition("orders", number): _assignment((4, 2, 3)).replicas for number in (0, 3, 6)}
    cluster.request(REASSIGN_PARTITIONS, encode_reassign_partitions(targets))
    cluster.answered(REASSIGN_PARTITIONS)


_WEEK: Sequence[Callable[[_Cluster], None]] = (
    _first_day,
    _broker_3_dies,
    _broker_3_is_back_and_leads_nothing,
    _clicks_cannot_be_deleted,
    _broker_2_is_back_and_a_fourth_joins,
    _leaders_go_home,
    _the_fourth_takes_its_share,
)


if __name__ == "__main__":
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else RECORDED
    shutil.rmtree(target, ignore_errors=True)
    record(target)
