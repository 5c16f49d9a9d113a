"""A step that is under way, and brokers that are asked to cancel it."""

from collections.abc import Sequence
from typing import Any

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.model.partitions import TopicPartition
from controller_core.plans.request_znodes import Target
from kafka_maintenance.operations.apply import cancel as cancelling
from kafka_maintenance.operations.apply.cancel import BrokersRefusedError
from kafka_maintenance.operations.apply.stop import Stop
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.errors import StoppedError
from kafka_maintenance.operations.plans.reassignment import plan_reassignment
from kafka_maintenance.operations.plans.store import StoredPlan
from tests.broker_ids import ids
from tests.kafka_maintenance.kafka_world import KafkaWorld
from tests.kafka_maintenance.operations.apply.applying import NOW, ORDERS_0, ORDERS_1, StopsAfter, apply, planned


def one_wave(store: MemoryStore, world: KafkaWorld) -> StoredPlan | None:
    waves = [
        [Target(*ORDERS_0, ids(2, 3)), Target(*ORDERS_1, ids(3, 1))],
        [Target("orders", 2, ids(1, 2))],
    ]
    return plan_reassignment(
        store, "demo", waves=waves, zookeeper=world.zookeeper(), now=NOW, may_change_replication_factor=True
    )


def under_way(make: Any = one_wave) -> tuple[MemoryStore, KafkaWorld, Any]:
    """A plan whose first step Kafka works at; its run was stopped."""
    store, world, plan = planned(make)
    world.slow = True
    stop = Stop()
    with pytest.raises(StoppedError):
        apply(StopsAfter(store, "0003-requested.json", stop), plan, world, stop=stop, step_timeout_s=600.0)
    return store, world, plan


def brokers_of(monkeypatch: pytest.MonkeyPatch, world: KafkaWorld, *, deaf: bool = False) -> list[TopicPartition]:
    """The brokers of `world` in place of real ones; what they were asked to cancel."""
    asked: list[TopicPartition] = []

    def ask(_: BrokersAsked, partitions: Sequence[TopicPartition], what: str) -> None:
        asked.extend(partitions)
        if deaf:
            raise BrokersRefusedError(what)
        for each in partitions:
            world.cancel(each)

    monkeypatch.setattr(cancelling, "ask_brokers", ask)
    return asked
