"""A plan of one wave, and one of its partitions."""

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.model.partitions import TopicPartition
from controller_core.plans.request_znodes import Target
from kafka_maintenance.operations.plans.reassignment import plan_reassignment
from kafka_maintenance.operations.plans.store import StoredPlan
from tests.broker_ids import ids
from tests.kafka_maintenance.kafka_world import KafkaWorld
from tests.kafka_maintenance.operations.apply.applying import NOW, ORDERS_0

OLD_0 = TopicPartition("old", 0)


def one_wave(store: MemoryStore, world: KafkaWorld) -> StoredPlan | None:
    """Two partitions at once; `orders-0` copies nothing, `old-0` goes from [1, 2] to [3, 1]."""
    wave = [Target(*ORDERS_0, ids(3, 2, 1)), Target(*OLD_0, ids(3, 1))]
    return plan_reassignment(store, "demo", waves=[wave], zookeeper=world.zookeeper(), now=NOW)
