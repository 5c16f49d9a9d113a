"""The report on ISR-change notifications: how many, how old, of what, and whether anybody will take them."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.model.partitions import TopicPartition
from controller_core.ports.zookeeper import ANY_VERSION
from controller_core.runtime.simulated.zookeeper import MemoryZooKeeper
from controller_core.znodes import paths as znode
from kafka_maintenance.operations.cluster.isr_notifications import report
from kafka_maintenance.operations.cluster.observe import observe
from kafka_maintenance.operations.errors import BadInputError, RefusedError
from kafka_maintenance.operations.plans.drain import plan_drain
from tests.kafka_maintenance.kafka_world import KafkaWorld, three_brokers

ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


def cluster(**settings: object) -> KafkaWorld:
    world = three_brokers(**settings)
    world.topic("orders", ((1, 2, 3), 1, (1, 2)), ((2, 3, 1), 2, (2, 3, 1)))
    return world


def later(world: KafkaWorld, seconds: float) -> datetime:
    return datetime.fromtimestamp(world.server.clock_ms / 1000, UTC) + timedelta(seconds=seconds)


def test_a_quiet_cluster_has_nothing_to_report():
    world = cluster()
    found = report(zookeeper=world.zookeeper(), now=later(world, 0))
    assert (found.count, found.lingering, found.oldest_age_s, found.made_count) == (0, False, None, 0)
    assert found.text == "controller: broker 1\nnotifications: none wait"


def test_what_waits_is_counted_and_named():
    world = cluster()
    first = world.notify(ORDERS_1, ORDERS_0)
    world.server.advance(5000)
    world.notify(ORDERS_1)
    found = report(zookeeper=world.zookeeper(), now=later(world, 10))
    assert (found.count, found.oldest, found.oldest_age_s) == (2, first, 15.0)
    assert found.partitions == (ORDERS_0, ORDERS_1)
    assert not found.lingering
    assert "look again" in found.text


def test_notifications_that_were_taken_are_counted_too():
    world = cluster()
    world.own.delete(f"{znode.ISR_CHANGE_NOTIFICATION}/{world.notify(ORDERS_0)}", ANY_VERSION)
    world.notify(ORDERS_0)
    assert report(zookeeper=world.zookeeper(), now=later(world, 0)).made_count == 2


@pytest.mark.parametrize(
    ("age_s", "lingering"), [pytest.param(59.9, False, id="too young"), pytest.param(60.0, True, id="old enough")]
)
def test_old_notifications_linger(age_s, lingering):
    world = cluster()
    world.notify(ORDERS_0)
    found = report(zookeeper=world.zookeeper(), now=later(world, age_s))
    assert found.lingering is lingering
    assert ("it is stuck" in found.text) is lingering


def test_a_clock_that_is_behind_makes_no_negative_age():
    world = cluster()
    world.notify(ORDERS_0)
    assert report(zookeeper=world.zookeeper(), now=later(world, -30)).oldest_age_s == 0.0


def test_without_a_controller_the_next_one_takes_them():
    world = cluster()
    for broker in (1, 2, 3):
        world.kill(broker)
    world.notify(ORDERS_0)
    found = report(zookeeper=world.zookeeper(), now=later(world, 100))
    assert (found.controller_id, found.lingering) == (None, True)
    assert "the next controller deletes them" in found.text


def test_a_newer_protocol_writes_none():
    world = cluster(broker_version=5)
    found = report(zookeeper=world.zookeeper(), now=later(world, 0))
    assert found.never_written
    assert "an empty directory is normal" in found.text


@pytest.mark.parametrize("name", ["gone", "", "/", "orders/partitions", "a\0b", "..", "x" * 300])
def test_a_request_for_what_is_gone_is_said(name):
    world = cluster()
    world.hangs = True
    path, partitions = znode.REASSIGN_PARTITIONS, [{"topic": name, "partition": 0, "replicas": [1]}]
    world.own.create(path, json.dumps({"version": 1, "partitions": partitions}).encode())
    found = report(zookeeper=world.zookeeper())
    assert found.requests == (path,)
    assert f"{path} names only partitions that are gone ({name}-0; 1 in all)" in found.text
    assert observe(AsksForNoRelativePath(world.server), partitions=()).abandoned_requests == {
        path: (TopicPartition(name, 0),)
    }


class AsksForNoRelativePath(MemoryZooKeeper):
    """As kazoo, which refuses such a path where it reads znodes one by one, as before ZooKeeper 3.6."""

    def get_many(self, paths):
        for path in paths:
            if {".", ".."} & set(path.split("/")):
                raise ValueError("relative paths not allowed")
        return super().get_many(paths)


def test_a_request_that_is_not_begun_is_said_from_an_age_on():
    world = cluster()
    world.hangs = True
    path = znode.PREFERRED_REPLICA_ELECTION
    world.own.create(path, b'{"version":1,"partitions":[{"topic":"orders","partition":0}]}')
    assert report(zookeeper=world.zookeeper(), now=later(world, 59)).requests == ()
    found = report(zookeeper=world.zookeeper(), now=later(world, 60))
    assert found.requests == (path,)
    assert "is older than 60 s, and the active controller began nothing of it (orders-0; 1 in all)" in found.text


def test_kraft_is_said():
    world = cluster()
    world.own.create(znode.MIGRATION, b"{}")
    assert "KRaft: /migration exists" in report(zookeeper=world.zookeeper(), now=later(world, 0)).text


def test_an_unreadable_notification_is_said():
    world = cluster()
    world.own.create(f"{znode.ISR_CHANGE_NOTIFICATION}/isr_change_", b"{", sequential=True)
    assert "unreadable: isr_change_0000000000" in report(zookeeper=world.zookeeper(), now=later(world, 0)).text


def test_many_partitions_are_cut_and_counted():
    world = cluster()
    world.notify(*(TopicPartition("t", n) for n in range(25)))
    assert "t-19 and 5 more" in report(zookeeper=world.zookeeper(), now=later(world, 0)).text


def test_reporting_writes_nothing():
    world = cluster()
    world.notify(ORDERS_0)
    before = world.server.snapshot()
    report(zookeeper=world.zookeeper(), now=later(world, 100))
    assert world.server.snapshot() == before


def test_a_tree_without_kafka_is_bad_input():
    with pytest.raises(BadInputError, match="expected Kafka's tree"):
        report(zookeeper=MemoryZooKeeper())


def test_fresh_notifications_need_no_plan():
    world = cluster()
    world.notify(ORDERS_0)
    assert plan_drain(MemoryStore(), "demo", zookeeper=world.zookeeper(), now=later(world, 1)) is None


def test_up_to_kafka_1_0_a_re_election_is_refused():
    world = cluster()
    world.notify(ORDERS_0)
    with pytest.raises(RefusedError, match=r"expected Kafka 1\.1 or newer"):
        plan_drain(MemoryStore(), "demo", zookeeper=world.zookeeper(), now=later(world, 99), kafka_version="1.0")
