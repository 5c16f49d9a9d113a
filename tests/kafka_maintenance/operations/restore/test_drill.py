"""Drills: the newest snapshot is restored into a ZooKeeper of its own, and what is lost is found."""

import pyarrow as pa
import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.errors import ObjectMissingError
from kafka_maintenance.operations.restore.drill import drill_text, restore_drill
from kafka_maintenance.operations.snapshots.take import take_snapshot
from tests.kafka_maintenance import snapshot_world as world
from tests.kafka_maintenance.operations.snapshots.taken import take

pytestmark = pytest.mark.services


def test_a_restore_drill(kafka, chroot, store):
    kafka.create("/admin/delete_topics/orders", b"")
    manifest = take(chroot, store)
    keys = list(store.list(""))
    report = restore_drill(store=store, cluster="alpha", now=world.NOON)
    assert report.passed, drill_text(report)
    assert report.snapshot == manifest.uri
    assert report.restored > 20
    assert restore_drill(store=store, cluster="alpha", now=world.NOON, by_transactions=True).passed
    assert "passed" in drill_text(report)
    assert list(store.list("")) == keys, "a drill writes nothing to the store"


def test_a_drill_finds_what_is_lost():

    from controller_core.adapters.snapshot.tables import RAW, STAT_COLUMNS
    from kafka_maintenance.operations.restore.content import RestoreScope, restorable
    from kafka_maintenance.operations.restore.drill import compare_contents

    def content(**paths):
        rows = [
            {"path": f"/{name}", "data": data, **dict.fromkeys(STAT_COLUMNS, 0)} for name, data in sorted(paths.items())
        ]
        return restorable(pa.Table.from_pylist(rows, schema=RAW), RestoreScope(whole=True))

    found = compare_contents(content(a=b"1", b=b"2", c=b"3"), content(a=b"1", b=b"x", d=b"4"), acls=True)
    assert found == ["/c is missing", "/d was not in the snapshot", "/b has other data"]


def test_a_drill_without_snapshots(store):
    with pytest.raises(ObjectMissingError, match="no snapshot"):
        restore_drill(store=store, cluster="alpha", now=world.NOON)


@pytest.mark.kafka
def test_a_drill_with_real_brokers():
    """Real brokers make the tree, other real brokers come up on the restored one."""
    from controller_core.adapters.zookeeper.session import connect
    from kafka_maintenance.servers import KafkaCluster
    from kafka_maintenance.servers.process import wait_until

    store = MemoryStore("brokers")
    with KafkaCluster("3.9", brokers=2, chroot="/real", mode="shared_jvm") as cluster:
        with connect(cluster.zookeeper_connect) as session:
            session.create("/config/topics/orders", world.config(retention_ms="1000"))
            session.create("/brokers/topics/orders", b'{"version":1,"partitions":{"0":[1,2],"1":[2,1]}}')
            state = "/brokers/topics/orders/partitions/1/state"
            wait_until(lambda: session.exists(state) is not None, what="the topic has its states", timeout_s=60)
        take_snapshot(
            address=ClusterAddress(cluster.zookeeper_connect), cluster="alpha", store=store, run_id="r", now=world.NOON
        )
    report = restore_drill(store=store, cluster="alpha", now=world.NOON, kafka_version="3.9")
    assert report.passed, drill_text(report)
    assert report.brokers.startswith("2 brokers of Kafka 3.9 came up with 1 topic, every partition led")
