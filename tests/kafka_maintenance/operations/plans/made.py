"""A cluster that needs plans, and plans made of it."""

from datetime import UTC, datetime
from typing import Any

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.model.partitions import TopicPartition
from kafka_maintenance.operations.plans.store import StoredPlan
from tests.kafka_maintenance.kafka_world import KafkaWorld, three_brokers

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
ORDERS_0 = TopicPartition("orders", 0)


def cluster() -> KafkaWorld:
    """`orders-0` and `pay-0` miss their leaders, `orders-1` cannot get it; `old` has a replica on broker 9, dead."""
    world = three_brokers()
    world.topic("orders", ((1, 2, 3), 2, (1, 2, 3)), ((2, 3, 1), 3, (3, 1)))
    world.topic("pay", ((3, 1), 1, (1, 3)))
    world.topic("old", ((1, 9), 1, (1,)))
    return world


def six_on_two_brokers() -> KafkaWorld:
    """Six partitions of topic `a` on the brokers 1 and 2, all led by 1; broker 3 holds none."""
    world = three_brokers()
    world.topic("a", *[((1, 2), 1, (1, 2))] * 6)
    return world


def plan_of(make: Any, world: KafkaWorld, store: MemoryStore | None = None, **what: Any) -> StoredPlan:
    plan = make(store or MemoryStore(), "demo", zookeeper=world.zookeeper(), now=NOW, **what)
    assert plan is not None
    return plan
