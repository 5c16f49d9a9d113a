"""Plans of every kind for one small cluster, and how they are applied in tests."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from msgspec import structs

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.model.partitions import TopicPartition
from controller_core.plans.plan import plan_digest, plan_to_bytes
from controller_core.plans.request_znodes import Target
from controller_core.plans.rules import ExecutionRules
from kafka_maintenance.operations.apply.cluster_lock import LOCK_PATH
from kafka_maintenance.operations.apply.plan import apply_plan
from kafka_maintenance.operations.apply.receipt import Receipt
from kafka_maintenance.operations.apply.stop import Stop
from kafka_maintenance.operations.plans.deletions import plan_deletions
from kafka_maintenance.operations.plans.drain import plan_drain
from kafka_maintenance.operations.plans.elections import plan_elections
from kafka_maintenance.operations.plans.reassignment import plan_reassignment
from kafka_maintenance.operations.plans.store import StoredPlan, read_plan
from kafka_maintenance.operations.record.receipts import read_events
from tests.broker_ids import ids
from tests.kafka_maintenance.kafka_world import KafkaWorld, three_brokers

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
CARRIED_OUT = ["started", "intended", "requested", "verified", "done"]


class ActsAfter(MemoryStore):
    """A store that acts when an event is recorded: the end of its key → what happens then."""

    def __init__(self, store: MemoryStore, actions: Mapping[str, Callable[[], object]]) -> None:
        super().__init__()
        self._objects, self._actions = store._objects, actions

    def put_new(self, key: str, data: bytes) -> None:
        super().put_new(key, data)
        for end, act in self._actions.items():
            if key.endswith(end):
                act()


class StopsAfter(ActsAfter):
    """A store that asks the run to stop when an event whose key ends so is recorded."""

    def __init__(self, store: MemoryStore, end: str, stop: Stop) -> None:
        super().__init__(store, {end: lambda: stop.ask("SIGTERM")})


def cluster() -> KafkaWorld:
    """Two of three partitions of `orders` are not led by their preferred replica; `old` is nobody's friend."""
    world = three_brokers()
    world.topic("orders", ((1, 2, 3), 2, (1, 2, 3)), ((2, 3, 1), 3, (2, 3)), ((3, 1, 2), 3, (3, 1, 2)))
    world.topic("old", ((1, 2), 1, (1, 2)))
    return world


def elections(store: MemoryStore, world: KafkaWorld) -> StoredPlan | None:
    return plan_elections(store, "demo", zookeeper=world.zookeeper(), now=NOW)


def moves(store: MemoryStore, world: KafkaWorld) -> StoredPlan | None:
    waves = [[Target(*ORDERS_0, ids(3, 2, 1))], [Target(*ORDERS_1, ids(1, 3, 2))]]
    return plan_reassignment(store, "demo", waves=waves, zookeeper=world.zookeeper(), now=NOW)


def deletion(store: MemoryStore, world: KafkaWorld) -> StoredPlan | None:
    return plan_deletions(store, "demo", topics=["old"], zookeeper=world.zookeeper(), now=NOW)


def draining(store: MemoryStore, world: KafkaWorld) -> StoredPlan | None:
    world.notify(ORDERS_0)
    world.hangs = True
    return plan_drain(store, "demo", zookeeper=world.zookeeper(), now=NOW)


def planned(make: Callable[[MemoryStore, KafkaWorld], StoredPlan | None]) -> tuple[Any, Any, Any]:
    store, world = MemoryStore(), cluster()
    plan = make(store, world)
    assert plan is not None
    assert not world.wrote
    return store, world, plan


def under_rule(store: Any, plan: StoredPlan, rules: ExecutionRules) -> StoredPlan:
    """The same plan under other rules; it lies at the same address."""
    changed = structs.replace(read_plan(store, plan.uri), rules=rules)
    store.put(plan.uri.removeprefix(f"{store.uri}/"), plan_to_bytes(changed))
    return replace(plan, digest=plan_digest(changed))


def apply(store: Any, plan: StoredPlan, world: KafkaWorld, **changed: Any) -> Receipt:
    arguments = {
        "store": store, "plan_uri": plan.uri, "approved_digest": plan.digest, "approver": "ann",
        "zookeeper": world.zookeeper(), "now": NOW, "step_timeout_s": 0.0, "settle_timeout_s": 0.0,
        "away_timeout_s": 0.0,
    }  # fmt: skip
    return apply_plan(**{**arguments, **changed})


def events(store: MemoryStore, plan: StoredPlan) -> list[str]:
    return [str(event.event) for event in read_events(store, "demo", plan.digest)]


def left_behind(world: KafkaWorld) -> list[str]:
    """What of lock and fence stands."""
    return [path for path in world.server.snapshot() if path.startswith(LOCK_PATH)]


def isr_shrunk(world: KafkaWorld) -> None:
    world.set_state("orders", 0, leader=2, isr=(2, 3))
