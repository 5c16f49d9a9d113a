"""What is corrected before a migration, as a plan for a real ZooKeeper: approved by digest, told to the brokers, recorded with what stood there."""

import json
import time
from datetime import UTC, datetime

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.adapters.zookeeper.address import ClusterAddress
from kafka_maintenance.demo.traffic import create_topic, message_counts, produce
from kafka_maintenance.operations.apply.plan import apply_plan
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.errors import NothingToRestoreError, RefusedError
from kafka_maintenance.operations.kraft.repairs import corrections, repairs_of
from kafka_maintenance.operations.plans.reassignment import plan_cancel
from kafka_maintenance.operations.restore.apply import apply_restore
from kafka_maintenance.operations.restore.content import RestoreScope, scope_of
from kafka_maintenance.operations.restore.plan import plan_restore
from kafka_maintenance.operations.snapshots.catalog import read_raw
from kafka_maintenance.operations.snapshots.take import take_snapshot
from kafka_maintenance.servers import KafkaCluster
from kafka_maintenance.servers.process import wait_until
from spark_jobs.kraft.judged import Judged, Verdict
from spark_jobs.kraft.topics import under_way
from spark_jobs.kraft.tree import tree_of
from tests.kafka_maintenance import snapshot_world as world
from tests.kafka_maintenance.operations.kraft.trees import TOPIC, config, encoded, topic, tree

GONE, REPORTS = "/config/topics/gone", "/config/clients/reports"
DAMAGE = {
    GONE: world.config(retention_ms="1000"),
    REPORTS: json.dumps(
        config(consumer_byte_rate="2048.5", no_such_rate="5", request_percentage="12.5"), separators=(",", ":")
    ).encode(),
}
CORRECTED = b'{"version":1,"config":{"consumer_byte_rate":"2048","request_percentage":"12.5"}}'


def test_only_what_brokers_accept_while_they_run_is_corrected():
    found = tree({
        GONE: config(), TOPIC: topic(1, 2, adding_replicas={"0": [2]}), "/admin/reassign_partitions": b"{}",
        "/admin/delete_topics/orders": None, "/isr_change_notification/isr_change_0000000001": b"{}",
        "/config/ips/10.0.0.1": config(connection_creation_rate="5.5"),
    })  # fmt: skip
    assert corrections(found) == (
        (GONE, None),
        ("/config/ips/10.0.0.1", '{"version":1,"config":{"connection_creation_rate":"5"}}'),
    )


@pytest.mark.parametrize(
    ("rate", "kept"),
    [
        ("5.5", "5"),
        ("1e6", "1000000"),
        ("0", "0"),
        ("-5", None),
        ("-0.5", "0"),
        ("99999999999999999999", None),
        ("9223372036854775807", "9223372036854775807"),
        ("1e30", None),
        ("1e400", None),
        ("NaN", None),
    ],
)
def test_a_corrected_rate_is_one_that_kafka_takes_and_one_out_of_range_goes(rate, kept):
    path = "/config/users/ada"
    damaged = tree({path: config(producer_byte_rate=rate)})
    found = {**dict.fromkeys([path], encoded(config(producer_byte_rate=rate)).decode()), **dict(corrections(damaged))}
    assert json.loads(found[path])["config"] == ({} if kept is None else {"producer_byte_rate": kept})


@pytest.fixture
def store():
    return MemoryStore("repairs")


@pytest.fixture
def damaged(kafka):
    for path in ("/config/clients/slow", "/config/users/bob"):
        kafka.delete(path, -1)  # the names of their quotas are none of Kafka's
    for path, data in DAMAGE.items():
        kafka.create(path, data, make_parents=True)
    return kafka


def planned(store, chroot, run="r", *, brokers_stopped=False):
    manifest = take_snapshot(
        address=ClusterAddress(chroot), cluster="alpha", store=store, run_id=run, now=datetime.now(UTC)
    ).manifest
    scope = RestoreScope(**repairs_of(store, manifest, brokers_stopped=brokers_stopped))
    return plan_restore(store=store, manifest=manifest, target=ClusterAddress(chroot), scope=scope)


def applied(store, chroot, plan):
    return apply_restore(
        store=store,
        plan_uri=plan.uri,
        approved_digest=plan.digest,
        approver="ada",
        target=ClusterAddress(chroot),
        now=datetime.now(UTC),
    )


@pytest.mark.services
def test_corrections_are_shown_written_told_and_recorded(damaged, chroot, store):
    plan = planned(store, chroot)
    assert f"  delete {GONE}" in plan.text
    assert f"    + {CORRECTED.decode()}" in plan.text
    receipt = applied(store, chroot, plan)
    assert (receipt.written, damaged.exists(GONE), damaged.get(REPORTS)[0]) == (2, None, CORRECTED)
    notices = [damaged.get(f"/config/changes/{name}")[0] for name in damaged.children("/config/changes")]
    assert {json.loads(notice)["entity_path"] for notice in notices} == {"clients/reports", "topics/gone"}
    started = next(json.loads(store.get(key)) for key in store.list("v1/receipts/") if key.endswith("-started.json"))
    assert started["detail"]["before"] == {path: data.decode() for path, data in DAMAGE.items()}
    assert applied(store, chroot, plan).already_there == 2
    with pytest.raises(NothingToRestoreError, match="no config without its topic"):
        planned(store, chroot, run="after")


@pytest.mark.services
def test_what_was_compared_after_the_writing_is_nothing_any_more(damaged, chroot, store):
    plan = planned(store, chroot)
    applied(store, chroot, plan)
    with pytest.raises(NothingToRestoreError):
        plan_restore(
            store=store,
            manifest=plan.document["snapshot"]["manifest"],
            target=ClusterAddress(chroot),
            scope=scope_of(json.loads(json.dumps(plan.document["scope"]))),
        )


@pytest.mark.services
def test_a_quota_that_somebody_else_changed_is_left_to_him(damaged, chroot, store):
    plan = planned(store, chroot)
    damaged.set(REPORTS, b'{"version":1,"config":{"consumer_byte_rate":"7"}}', -1)
    with pytest.raises(RefusedError, match="changed since"):
        plan_restore(
            store=store,
            manifest=plan.document["snapshot"]["manifest"],
            target=ClusterAddress(chroot),
            scope=scope_of(plan.document["scope"]),
        )
    with pytest.raises(RefusedError, match="the cluster changed"):
        applied(store, chroot, plan)
    assert damaged.exists(GONE) is not None


@pytest.mark.parametrize("scope", [{"whole": True}, {"topics": ("orders",)}, {"configs": ("users/a",)}])
def test_corrections_stand_alone(scope):
    with pytest.raises(ValueError, match="restore refused"):
        RestoreScope(corrections=((GONE, None),), **scope)


UNDER_WAY = {
    "/admin/reassign_partitions": b'{"version":1,"partitions":[]}',
    "/admin/delete_topics/old": b"",
    "/brokers/topics/old": json.dumps(topic(9)).encode(),
    "/brokers/topics/old/partitions/0/state": b"{}",
    "/config/topics/old": json.dumps(config()).encode(),
    "/isr_change_notification/isr_change_0000000001": b"{}",
}


def test_where_no_broker_runs_what_is_under_way_is_ended_too():
    found = dict(corrections(tree(UNDER_WAY), brokers_stopped=True))
    parents = {"/brokers/topics/old/partitions", "/brokers/topics/old/partitions/0"}
    assert found == dict.fromkeys(UNDER_WAY.keys() | parents)


@pytest.mark.services
def test_what_is_under_way_is_ended_by_a_plan_only_while_no_broker_is_registered(kafka, chroot, store):
    for path, data in UNDER_WAY.items():
        kafka.create(path, data, make_parents=True)
    brokers = kafka.children("/brokers/ids")
    with pytest.raises(RefusedError, match="which hold them in memory"):
        planned(store, chroot, brokers_stopped=True)
    for broker in brokers:
        kafka.delete(f"/brokers/ids/{broker}", -1)
    plan = planned(store, chroot, run="stopped", brokers_stopped=True)
    assert "  delete /admin/reassign_partitions" in plan.text
    kafka.create("/brokers/ids/1", b"{}", ephemeral=True)
    with pytest.raises(RefusedError, match="expected no running brokers"):
        applied(store, chroot, plan)
    assert kafka.exists("/admin/reassign_partitions") is not None
    kafka.delete("/brokers/ids/1", -1)
    applied(store, chroot, plan)
    assert [path for path in UNDER_WAY if kafka.exists(path) is not None] == []
    started = [json.loads(store.get(key)) for key in store.list("v1/receipts/") if key.endswith("-started.json")]
    before = started[-1]["detail"]["before"]
    assert before["/brokers/topics/old"] == UNDER_WAY["/brokers/topics/old"].decode()


@pytest.mark.kafka
def test_a_real_broker_that_starts_after_the_repair_finds_nothing_under_way(store):
    """Of a reassignment and a deletion that wait for a broker that never comes, nothing is left but the data."""
    with KafkaCluster(brokers=1, mode="shared_jvm") as cluster, cluster.session() as session:
        produced = waiting(cluster, session, absent=9)
        cluster[1].terminate()
        plan = planned(store, cluster.zookeeper_connect, brokers_stopped=True)
        applied(store, cluster.zookeeper_connect, plan)
        cluster[1].start()
        wait_until(lambda: message_counts(cluster, "orders") == {0: produced}, what="orders is whole", timeout_s=60)
        found = assigned(session)
        assert (found["partitions"], found["adding_replicas"], found["removing_replicas"]) == ({"0": [1]}, {}, {})
        assert "old" not in session.children("/brokers/topics")
        assert [session.exists(path) for path in ("/admin/delete_topics/old", "/admin/reassign_partitions")] == [
            None
        ] * 2


@pytest.mark.kafka
def test_beside_a_running_controller_what_is_under_way_is_ended_one_after_the_other(store):
    """A move that waits for a broker is taken back by an approved plan; a deletion that waits for it goes on when an empty one has its id."""
    with KafkaCluster(brokers=2, mode="shared_jvm") as cluster, cluster.session() as session:
        produced = waiting(cluster, session, absent=3)
        assert under_way(seen(store, cluster)) == Judged(
            Verdict.DECIDE,
            (
                "/admin/delete_topics/old",
                "/admin/reassign_partitions",
                "/brokers/topics/orders: partition 0 adding [9], removing []",
            ),
        )
        plan = plan_cancel(store, "alpha")
        apply_plan(
            store=store, plan_uri=plan.uri, approved_digest=plan.digest, approver="ada", now=datetime.now(UTC),
            zookeeper=ClusterAddress(cluster.zookeeper_connect), brokers=BrokersAsked(cluster.bootstrap_servers),
        )  # fmt: skip
        assert under_way(seen(store, cluster)).evidence == ("/admin/delete_topics/old",)
        cluster.add_broker()
        wait_until(lambda: "old" not in session.children("/brokers/topics"), what="old is deleted", timeout_s=60)
        assert under_way(seen(store, cluster)) == Judged(Verdict.MET)
        assert message_counts(cluster, "orders") == {0: produced}


def seen(store, cluster):
    """The tree of a snapshot taken now."""
    address, run = ClusterAddress(cluster.zookeeper_connect), f"r{time.monotonic_ns()}"
    taken = take_snapshot(address=address, cluster="alpha", store=store, run_id=run, now=datetime.now(UTC))
    return tree_of(read_raw(store, taken.manifest))


REASSIGNED = {"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 9]}]}


def waiting(cluster, session, *, absent):
    """A move of orders to broker 9, and the deletion of old, with a replica on the absent broker; how many messages orders has."""
    create_topic(cluster, "orders", {0: (1,)})
    produced = produce(cluster, "orders", 0, count=20)
    session.create("/brokers/topics/old", encoded(topic(1, absent, topic_id="b2xkLW9sZC1vbGQtb2xkLQ")))
    wait_until(lambda: state_of(session, "old")["leader"] == 1, what="old has a leader", timeout_s=60)
    session.create("/admin/delete_topics/old")
    session.create("/admin/reassign_partitions", encoded(REASSIGNED))
    wait_until(lambda: assigned(session).get("adding_replicas"), what="orders is being reassigned", timeout_s=60)
    return produced


def assigned(session):
    return json.loads(session.get("/brokers/topics/orders")[0])


def state_of(session, name):
    """Of partition 0; without a leader while there is none."""
    path = f"/brokers/topics/{name}/partitions/0/state"
    return json.loads(session.get(path)[0]) if session.exists(path) else {"leader": -1}
