"""A whole restore of an old tree under real brokers whose logs are newer, with transactions open: nothing acknowledged is lost, no producer id comes twice."""

import pytest
from kafka import KafkaConsumer, KafkaProducer
from kafka import TopicPartition as ClientPartition

from controller_core import znodes
from controller_core.adapters.object_store.open import MemoryStore
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import connect
from kafka_maintenance.demo.traffic import create_topic, partition_states
from kafka_maintenance.operations.restore.apply import apply_restore
from kafka_maintenance.operations.restore.content import RestoreScope
from kafka_maintenance.operations.restore.plan import plan_restore
from kafka_maintenance.operations.snapshots.take import take_snapshot
from kafka_maintenance.servers import KafkaCluster
from kafka_maintenance.servers.process import wait_until
from tests.kafka_maintenance import snapshot_world as world
from tests.kafka_versions import kafka_versions

pytestmark = [pytest.mark.services, pytest.mark.kafka]

TOPIC = "orders"
PRODUCER_ID_BLOCK = "/latest_producer_id_block"


def begun(cluster, name, *, partition=0):
    """A producer whose transaction is open, with two acknowledged records in it."""
    producer = KafkaProducer(
        bootstrap_servers=cluster.bootstrap_servers,
        transactional_id=name,
        acks="all",
        transaction_timeout_ms=900_000,
    )
    producer.init_transactions()
    producer.begin_transaction()
    for number in range(2):
        producer.send(TOPIC, f"{name}-{number}".encode(), partition=partition).get(timeout=60)
    return producer


def producer_id_of(producer):
    return producer._transaction_manager.producer_id_and_epoch.producer_id


def in_a_transaction(cluster, name, *, partition=0):
    """Two records, committed; the producer id that the brokers gave."""
    producer = begun(cluster, name, partition=partition)
    try:
        producer.commit_transaction()
        return producer_id_of(producer)
    finally:
        producer.close()


def committed(cluster):
    """Every committed record of the topic, read from the leaders."""
    consumer = KafkaConsumer(
        bootstrap_servers=cluster.bootstrap_servers,
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        consumer_timeout_ms=10_000,
    )
    try:
        consumer.assign([ClientPartition(TOPIC, number) for number in (0, 1)])
        return sorted(record.value.decode() for record in consumer)
    finally:
        consumer.close()


def states(cluster, partitions):
    with cluster.session() as zookeeper:
        return partition_states(zookeeper, partitions)


def until_in_sync(cluster, partitions):
    def in_sync():
        found = states(cluster, partitions).values()
        return all(state is not None and state.leader > 0 and len(state.isr) == 2 for state in found)

    wait_until(in_sync, what="every partition has a leader and its whole ISR", timeout_s=120)


def all_gone(cluster):
    with cluster.session() as zookeeper:
        wait_until(lambda: not zookeeper.children("/brokers/ids"), what="no broker is registered", timeout_s=60)
        for name in zookeeper.children("/"):
            zookeeper.client.delete(f"/{name}", recursive=True)


@pytest.mark.parametrize("version", kafka_versions("2.4", "3.9"))
def test_an_old_tree_under_newer_logs(version):
    store = MemoryStore("newer-logs")
    with KafkaCluster(version, brokers=2, chroot="/k", mode="shared_jvm") as cluster:
        partitions = create_topic(cluster, TOPIC, {0: (1, 2), 1: (2, 1)})
        issued = [in_a_transaction(cluster, "before")]
        snapshot = take_snapshot(
            address=ClusterAddress(cluster.zookeeper_connect), cluster="blue", store=store, run_id="r", now=world.NOON
        ).manifest
        for broker in (1, 2, 1):  # leaders move, and each broker that starts takes another block of producer ids
            cluster[broker].terminate()
            cluster[broker].start()
            until_in_sync(cluster, partitions)
            issued.append(in_a_transaction(cluster, f"after-{len(issued)}", partition=len(issued) % 2))
        newest = {partition: state.leader_epoch for partition, state in states(cluster, partitions).items()}
        with cluster.session() as zookeeper:
            newest_controller = znodes.decode_controller_epoch(zookeeper.get(znodes.CONTROLLER_EPOCH)[0])
            newest_block = znodes.decode_producer_id_block(zookeeper.get(PRODUCER_ID_BLOCK)[0])
        acknowledged = committed(cluster)
        assert len(acknowledged) == 2 * len(issued)
        running = [begun(cluster, f"running-{number}", partition=number) for number in (0, 1)]
        issued += map(producer_id_of, running)
        cluster.terminate()
        all_gone(cluster)

        target = ClusterAddress(cluster.zookeeper_connect)
        scope = RestoreScope(whole=True, epoch_bump=100_000)
        plan = plan_restore(store=store, manifest=snapshot, target=target, scope=scope)
        assert "are raised over those of the snapshot: epochs by 100,000" in plan.text
        apply_restore(
            store=store, plan_uri=plan.uri, approved_digest=plan.digest, approver="ada", target=target, now=world.NOON
        )
        with connect(cluster.zookeeper_connect) as zookeeper:
            assert znodes.decode_controller_epoch(zookeeper.get(znodes.CONTROLLER_EPOCH)[0]) > newest_controller
            block = znodes.decode_producer_id_block(zookeeper.get(PRODUCER_ID_BLOCK)[0])
            assert block.block_start > newest_block.block_end
        for broker in (1, 2):
            cluster[broker].launch()
        for broker in (1, 2):
            cluster[broker].wait_registered()
        until_in_sync(cluster, partitions)
        assert committed(cluster) == acknowledged
        assert all(state.leader_epoch > newest[partition] for partition, state in states(cluster, partitions).items())
        later = [in_a_transaction(cluster, f"restored-{number}", partition=number) for number in (0, 1)]
        assert min(later) > max(issued), "no producer id is issued twice"
        running[0].commit_transaction()  # what was open over the accident can still be ended, either way
        running[1].abort_transaction()
        for producer in running:
            producer.close()
        cluster[1].terminate()  # a follower truncates by the leader epochs of its log when it comes back
        cluster[1].start()
        until_in_sync(cluster, partitions)
        found = committed(cluster)
    wanted = [f"{name}-{number}" for name in ("restored-0", "restored-1", "running-0") for number in (0, 1)]
    assert found == sorted([*acknowledged, *wanted])
