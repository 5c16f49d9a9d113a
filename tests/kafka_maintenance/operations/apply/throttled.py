"""A plan with a throttle, and the configs before and after it."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.admin.throttles import LEADER_RATE
from controller_core.model.errors import ConnectionLostError
from controller_core.plans.request_znodes import Target
from controller_core.ports.zookeeper import Operation
from controller_core.runtime.simulated.zookeeper import MemoryZooKeeper
from controller_core.znodes import paths as znode
from controller_core.znodes.configs import ConfigZnode, encode_config
from kafka_maintenance.operations.errors import NotFinishedError
from kafka_maintenance.operations.plans.reassignment import plan_reassignment
from kafka_maintenance.operations.plans.store import StoredPlan
from tests.broker_ids import ids
from tests.kafka_maintenance.kafka_world import KafkaWorld
from tests.kafka_maintenance.operations.apply.applying import NOW, apply, planned
from tests.kafka_maintenance.operations.apply.one_wave import OLD_0

RATE = 10_000_000
BEFORE = {"topics/old": {"retention.ms": "7"}, "brokers/1": {LEADER_RATE: "5"}}
AFTER = {**BEFORE, "brokers/2": {}, "brokers/3": {}}


def throttled(store: MemoryStore, world: KafkaWorld) -> StoredPlan | None:
    """`old-0` goes from [1, 2] to [3, 1]; broker 1 has a rate of its own."""
    for path in ("/config/topics", "/config/brokers", znode.CONFIG_CHANGES):
        world.own.create(path, make_parents=True)
    world.own.create("/config/topics/old", encode_config(ConfigZnode({"retention.ms": "7"})))
    world.own.create("/config/brokers/1", encode_config(ConfigZnode({LEADER_RATE: "5"})))
    waves = [[Target(*OLD_0, ids(3, 1))]]
    return plan_reassignment(
        store, "demo", waves=waves, zookeeper=world.zookeeper(), now=NOW, throttle_bytes_per_s=RATE
    )


def configs(world: KafkaWorld) -> dict[str, dict[str, str]]:
    tree = world.server.snapshot()
    return {
        path.removeprefix("/config/"): json.loads(data)["config"]
        for path, data in tree.items()
        if path.startswith(("/config/topics/", "/config/brokers/"))
    }


class LosesOneAnswer(MemoryZooKeeper):
    """Its connection breaks at the first change of a config."""

    broke = False

    def multi(self, operations: Sequence[Operation]) -> Any:
        if not self.broke and any(each.path.startswith("/config/") for each in operations):
            self.broke = True
            raise ConnectionLostError("the connection broke")
        return super().multi(operations)


def under_way() -> tuple[Any, KafkaWorld, Any]:
    store, world, plan = planned(throttled)
    world.slow = True
    with pytest.raises(NotFinishedError):
        apply(store, plan, world)
    return store, world, plan
