"""What a snapshot shows of a cluster is what a live read shows; what cannot be read is left out by name."""

from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from controller_core.adapters.object_store.open import open_store
from controller_core.adapters.snapshot.tables import TABLES
from controller_core.model.errors import MalformedZnodeError
from controller_core.model.partitions import TopicPartition
from controller_core.ports.zookeeper import ANY_VERSION
from controller_core.znodes import paths as znode
from controller_core.znodes.configs import ConfigZnode, encode_config
from kafka_maintenance.operations.cluster.observe import observe, observe_tables
from kafka_maintenance.operations.plans import seen as seen_module
from kafka_maintenance.operations.plans.elections import plan_elections
from kafka_maintenance.operations.plans.seen import dialect_of, see
from tests.kafka_maintenance.kafka_world import CLUSTER_ID, KafkaWorld
from tests.kafka_maintenance.operations.plans.made import NOW, ORDERS_0, cluster, plan_of
from tests.source_files import ROOT


def tables_of(world: KafkaWorld) -> dict[str, pa.Table]:
    """The decoded tables of the world as a snapshot would hold them, written by hand."""
    live = observe(world.zookeeper())
    common = {"cluster": "demo", "snapshot_id": "0-r", "taken_at": NOW}
    assert live.active_controller is not None
    rows: dict[str, list[dict[str, Any]]] = {
        "partitions": [
            {
                "topic": p.topic, "partition": p.partition, "replicas": a.replicas, "adding": a.adding,
                "removing": a.removing, "preferred_leader": a.replicas[0], "leader": s.leader,
                "leader_epoch": s.leader_epoch, "isr": s.isr, "controller_epoch": s.controller_epoch,
                "recovery": int(s.recovery), "state_version": s.partition_epoch, "state_mtime": NOW,
                "czxid": live.topics[p.topic].czxid,
            }
            for p, a in live.assignments.items() if (s := live.states[p])
        ],
        "topics": [
            {
                "topic": name, "topic_id": t.topic_id, "partition_count": t.partition_count, "json_version": 2,
                "znode_version": 0, "czxid": t.czxid, "mzxid": t.czxid, "ctime": NOW, "mtime": NOW,
                "deletion_requested": name in live.queued_topics,
            }
            for name, t in live.topics.items()
        ],
        "brokers": [
            {
                "broker_id": b.id, "host": "h", "port": 9092, "rack": b.rack, "endpoints": [], "json_version": 4,
                "broker_epoch": b.epoch, "registered_at": NOW,
            }
            for b in live.brokers.values()
        ],
        "requests": [
            {"kind": "delete_topics", "topic": "old", "partition": None, "replicas": None, "ctime": NOW},
            {"kind": "reassign_partitions", "topic": "a", "partition": 0, "replicas": [1, 2], "ctime": NOW},
            {"kind": "preferred_replica_election", "topic": "a", "partition": 1, "replicas": None, "ctime": NOW},
        ],
        "notifications": [
            {"kind": "isr_change", "name": "n1", "topic": "a", "partition": 0, "broker": None, "ctime": NOW},
            {"kind": "isr_change", "name": "n1", "topic": "b", "partition": 1, "broker": None, "ctime": NOW},
            {"kind": "log_dir_event", "name": "l1", "topic": None, "partition": None, "broker": 1, "ctime": NOW},
        ],
        "bad_rows": [{"path": "/brokers/topics/bad", "reason": "no JSON"}],
        "cluster": [
            {
                "kafka_cluster_id": live.kafka_cluster_id, "controller_id": live.active_controller.controller_id,
                "controller_epoch": live.controller_epoch, "controller_epoch_version": live.controller_epoch_version,
                "controller_json_version": 2, "kraft_controller_epoch": -1, "migration": None, "zxid": 1,
                "consistent": True, "isr_change_cversion": 0, "version_znodes": sorted(live.version_znodes),
            }
        ],
    }  # fmt: skip
    return {
        name: pa.Table.from_pylist([{**common, **row} for row in found], schema=TABLES[name])
        for name, found in rows.items()
    }


@pytest.mark.parametrize(
    ("path", "version"),
    [
        pytest.param(znode.LATEST_PRODUCER_ID_BLOCK, "0.11.0", id="producer ids"),
        pytest.param(znode.LOG_DIR_EVENT_NOTIFICATION, "1.0", id="failures of log directories"),
    ],
)
def test_empty_znodes_tell_the_version(path, version):
    world = cluster()
    world.own.create(path)
    as_up_to_2_0 = {"controller_epoch": 3, "controller_epoch_version": 2, "controller_json_version": 1}
    seen = replace(observe(world.zookeeper()), topic_json_versions=frozenset({1}), **as_up_to_2_0)
    assert dialect_of(seen, None).version == version


def test_a_snapshot_is_seen_as_the_live_cluster_is():
    world = cluster()
    world.own.create(znode.LATEST_PRODUCER_ID_BLOCK)
    live, stored = observe(world.zookeeper()), observe_tables(tables_of(world))
    for name in ("kafka_cluster_id", "controller_epoch", "version_znodes", "topics", "assignments", "states"):
        assert getattr(stored, name) == getattr(live, name), name
    assert stored.brokers.keys() == live.brokers.keys()
    assert stored.queued_topics == {"old"}
    assert stored.pending == {
        znode.REASSIGN_PARTITIONS: "a-0 → [1, 2]",
        znode.PREFERRED_REPLICA_ELECTION: "a-1",
    }
    assert stored.reassign_requests == {TopicPartition("a", 0): (1, 2)}
    assert stored.election_requests == {TopicPartition("a", 1)}
    (notification,) = stored.notifications
    assert notification.partitions == (TopicPartition("a", 0), TopicPartition("b", 1))
    assert stored.kraft_sign is None
    assert stored.unreadable == {"/brokers/topics/bad": "no JSON"}


def test_a_snapshot_tells_min_isr_as_a_live_read_does(monkeypatch):
    world = cluster()
    config = encode_config(ConfigZnode({"min.insync.replicas": "2"}))
    world.own.create("/config/topics/orders", config, make_parents=True)
    row = {"entity_type": "topics", "entity_name": "orders", "key": "min.insync.replicas", "value": "2"}
    tables = {**tables_of(world), "configs": pa.Table.from_pylist([row], schema=TABLES["configs"])}
    monkeypatch.setattr(seen_module, "read_table", lambda _, __, name: tables[name])
    written = open_store(str(ROOT / "tests" / "data" / "stores" / "0.1"))
    live, stored = (see(written, "alpha", zookeeper=each, now=NOW) for each in (world.zookeeper(), None))
    assert live.min_isr({"orders", "pay"}) == stored.min_isr({"orders", "pay"}) == {"orders": 2}


def test_malformed_znodes_are_left_out_by_name_and_the_rest_is_planned():
    world = cluster()
    world.own.set(znode.state_path(ORDERS_0), b'{"leader":"x"}', ANY_VERSION)
    world.own.set(znode.topic_path("old"), b"{]", ANY_VERSION)
    plan = plan_of(plan_elections, world)
    assert plan.count == 1
    assert "* `/brokers/topics/old: cannot be read: offset 1" in plan.markdown
    assert "* `/brokers/topics/orders/partitions/0/state: cannot be read: field 'leader'" in plan.markdown


def test_a_registration_that_kafka_does_not_read_is_no_broker():
    world = cluster()
    brokers = observe(world.zookeeper()).brokers
    registered = world.own.get(znode.broker_path(min(brokers)))[0]
    for name in (f"0{min(brokers)}", "077"):
        world.own.create(f"{znode.BROKER_IDS}/{name}", registered)
    assert observe(world.zookeeper()).brokers == brokers


def test_a_malformed_controller_stops_everything():
    world = cluster()
    world.own.set(znode.CONTROLLER, b"{}", ANY_VERSION)
    with pytest.raises(MalformedZnodeError, match="/controller cannot be read"):
        plan_of(plan_elections, world)


def test_an_unreadable_notification_is_reported_with_its_problem():
    world = cluster()
    world.own.create(f"{znode.ISR_CHANGE_NOTIFICATION}/isr_change_", b"{", sequential=True)
    (found,) = observe(world.zookeeper()).notifications
    assert found.partitions == ()
    assert "isr_change_0000000000 cannot be read" in str(found.problem)


def test_only_what_is_asked_for_is_read():
    seen = observe(cluster().zookeeper(), partitions=[ORDERS_0, TopicPartition("gone", 0)], topics=["pay"])
    assert set(seen.topics) == {"orders", "pay"}
    assert set(seen.states) == {ORDERS_0}
    assert seen.kafka_cluster_id == CLUSTER_ID
