"""The throttle of a reassignment: there while Kafka works at a step, and at no other time, whatever ends the run."""

import json
from typing import Any

import pytest

from controller_core.admin.throttles import FOLLOWER_RATE, FOLLOWER_REPLICAS, LEADER_RATE, LEADER_REPLICAS
from controller_core.plans.request_znodes import Target
from controller_core.ports.zookeeper import ANY_VERSION
from controller_core.runtime.simulated.zookeeper import MemoryZooKeeper
from controller_core.znodes import paths as znode
from controller_core.znodes.configs import ConfigZnode, encode_config
from kafka_maintenance.operations.apply import throttle as throttle_module
from kafka_maintenance.operations.apply.execution import EXECUTION_PATH
from kafka_maintenance.operations.apply.stop import Stop
from kafka_maintenance.operations.apply.throttle import left_over
from kafka_maintenance.operations.errors import ClusterBusyError, NotFinishedError, RefusedError, StoppedError
from kafka_maintenance.operations.plans.reassignment import plan_reassignment
from kafka_maintenance.operations.record.receipts import read_events
from tests.broker_ids import ids
from tests.kafka_maintenance.operations.apply.applying import (
    ActsAfter,
    apply,
    draining,
    elections,
    events,
    planned,
)
from tests.kafka_maintenance.operations.apply.killed_run import Killed, killing
from tests.kafka_maintenance.operations.apply.one_wave import OLD_0
from tests.kafka_maintenance.operations.apply.throttled import (
    AFTER,
    BEFORE,
    RATE,
    LosesOneAnswer,
    configs,
    throttled,
    under_way,
)

OURS = {LEADER_RATE: str(RATE), FOLLOWER_RATE: str(RATE)}
LISTS = {LEADER_REPLICAS: "0:1,0:2", FOLLOWER_REPLICAS: "0:3"}
DURING = {"topics/old": {"retention.ms": "7", **LISTS}, "brokers/1": OURS, "brokers/2": OURS, "brokers/3": OURS}


def test_the_throttle_is_there_while_kafka_works_and_taken_back_afterwards():
    store, world, plan = under_way()
    assert configs(world) == DURING
    notices = [data for path, data in world.server.snapshot().items() if znode.CONFIG_CHANGE_PREFIX in path]
    assert {json.loads(data)["entity_path"] for data in notices} == set(DURING)
    world.finish(OLD_0)
    apply(store, plan, world)
    assert configs(world) == AFTER
    assert events(store, plan)[1:4] == ["intended", "throttled", "requested"]
    assert events(store, plan)[-3:] == ["verified", "unthrottled", "done"]


def test_a_plan_without_a_throttle_touches_no_config():
    store, world, plan = planned(throttled)
    free = plan_reassignment(store, "demo", waves=[[Target(*OLD_0, ids(3, 1))]], zookeeper=world.zookeeper())
    assert free is not None
    assert "Throttle: each broker sends and receives at most 10,000,000 bytes" in plan.markdown
    assert "without a throttle, as fast as the brokers can" in free.markdown
    apply(store, free, world)
    assert configs(world) == BEFORE


def test_a_cancelled_step_ends_with_its_throttle():
    store, world, plan = under_way()
    world.cancel(OLD_0)
    with pytest.raises(RefusedError):
        apply(store, plan, world)
    assert configs(world) == AFTER


def test_a_plan_that_is_over_leaves_nothing_where_the_connection_broke_meanwhile():
    store, world, plan = under_way()
    world.cancel(OLD_0)
    with pytest.raises(RefusedError, match="over, and not as planned"):
        apply(store, plan, world, zookeeper=LosesOneAnswer(world.server), away_timeout_s=60.0)
    assert events(store, plan)[-3:] == ["interrupted", "unthrottled", "over"]
    assert (configs(world), world.own.exists(EXECUTION_PATH)) == (AFTER, None)


def test_a_stopped_run_leaves_the_throttle_to_the_one_that_ends_the_step():
    store, world, plan = under_way()
    stop = Stop()
    stop.ask("Ctrl-C")
    with pytest.raises(StoppedError):
        apply(store, plan, world, stop=stop)
    assert configs(world) == DURING


def test_a_request_that_is_refused_takes_its_throttle_back():
    store, world, plan = planned(throttled)

    class Foreign(MemoryZooKeeper):
        def multi(self, operations: Any) -> Any:
            if any(each.path == znode.REASSIGN_PARTITIONS for each in operations):
                world.hangs = True
                world.own.create(znode.REASSIGN_PARTITIONS, b'{"version":1,"partitions":[]}')
            return super().multi(operations)

    with pytest.raises(ClusterBusyError):
        apply(store, plan, world, zookeeper=Foreign(world.server))
    assert configs(world) == AFTER


@pytest.mark.parametrize("after", range(1, 49))
@pytest.mark.parametrize("by", ["the same plan", "another plan"])
def test_a_run_killed_at_any_event_leaves_no_throttle_to_stay(after, by):
    store, world, plan = planned(throttled)
    session = world.zookeeper()
    try:
        apply(killing(store, after), plan, world, zookeeper=session)
    except Killed:
        session.close()
    if by == "another plan" and world.own.exists(EXECUTION_PATH) is None:
        other = elections(store, world)
        assert other is not None
        apply(store, other, world)
    else:
        apply(store, plan, world)
    assert configs(world) in (BEFORE, AFTER)


def test_what_somebody_else_set_or_changed_stays(caplog):
    store, world, plan = planned(throttled)
    data = encode_config(ConfigZnode({FOLLOWER_REPLICAS: "*", LEADER_REPLICAS: "*"}))
    world.own.set("/config/topics/old", data, ANY_VERSION)
    world.slow = True
    with pytest.raises(NotFinishedError):
        apply(store, plan, world)
    world.own.set("/config/brokers/2", encode_config(ConfigZnode({LEADER_RATE: "99"})), ANY_VERSION)
    world.finish(OLD_0)
    apply(store, plan, world)
    assert configs(world)["topics/old"] == {FOLLOWER_REPLICAS: "*", LEADER_REPLICAS: "*"}
    assert configs(world)["brokers/2"] == {LEADER_RATE: "99"}
    assert "left as somebody else set it: brokers/2 (leader.replication.throttled.rate)" in caplog.text
    assert read_events(store, "demo", plan.digest)[-2].detail["left_alone"] == ["brokers/2"]


UNREADABLE = [
    pytest.param(b"{", id="no JSON"),
    pytest.param(b'{"version":1,"config":{"a":1}}', id="no text"),
]


@pytest.mark.parametrize("entity", ["topics/old", "brokers/1"])
@pytest.mark.parametrize("data", UNREADABLE)
def test_a_config_that_cannot_be_read_refuses_the_throttle_with_a_record(data, entity):
    store, world, plan = planned(throttled)
    world.own.set(f"/config/{entity}", data, ANY_VERSION)
    with pytest.raises(
        RefusedError, match=f"step 1 of 1: not asked: its throttle was not set: /config/{entity} cannot"
    ):
        apply(store, plan, world)
    assert (events(store, plan), world.wrote) == (["started", "intended", "refused"], [])


@pytest.mark.parametrize("entity", ["topics/old", "brokers/1"])
@pytest.mark.parametrize("data", UNREADABLE)
def test_a_config_that_cannot_be_read_any_more_holds_up_no_plan(data, entity, caplog):
    store, world, plan = under_way()
    world.own.set(f"/config/{entity}", data, ANY_VERSION)
    world.finish(OLD_0)
    apply(store, plan, world)
    last = read_events(store, "demo", plan.digest)[-2]
    assert (last.event, last.detail["left_alone"]) == ("unthrottled", [entity])
    assert f"not taken back, left as it is: /config/{entity} cannot be read" in caplog.text
    assert left_over(store, "demo") == ()
    world.own.set(f"/config/{entity}", encode_config(ConfigZnode(AFTER[entity])), ANY_VERSION)
    assert configs(world) == AFTER


def test_what_somebody_sets_before_our_write_stays():
    """What is put back afterwards is what was recorded: ours may stand only where that was."""
    store, world, plan = planned(throttled)
    theirs = {
        "topics/old": {"retention.ms": "7", FOLLOWER_REPLICAS: "*", LEADER_REPLICAS: "*"},
        "brokers/1": {LEADER_RATE: "99"},
    }

    def act() -> None:
        for entity, overrides in theirs.items():
            world.own.set(f"/config/{entity}", encode_config(ConfigZnode(overrides)), ANY_VERSION)

    world.slow = True
    with pytest.raises(NotFinishedError):
        apply(ActsAfter(store, {"-throttled.json": act}), plan, world)
    assert configs(world) == {**DURING, **theirs, "brokers/1": {**OURS, LEADER_RATE: "99"}}
    world.finish(OLD_0)
    apply(store, plan, world)
    assert configs(world) == {**AFTER, **theirs}


def test_a_topic_that_is_deleted_before_our_write_gets_no_config():
    store, world, plan = planned(throttled)
    theirs = (
        "/config/topics/old",
        *(f"{znode.topic_path('old')}{each}" for each in ("/partitions/0/state", "/partitions/0", "/partitions", "")),
    )

    def act() -> None:
        for path in theirs:
            world.own.delete(path, ANY_VERSION)

    with pytest.raises(ClusterBusyError, match="no such topic"):
        apply(ActsAfter(store, {"-throttled.json": act}), plan, world)
    assert configs(world) == {entity: config for entity, config in AFTER.items() if entity != "topics/old"}
    assert (world.own.exists(EXECUTION_PATH), left_over(store, "demo")) == (None, ())


def test_a_config_that_changes_meanwhile_is_read_again():
    store, world, plan = planned(throttled)

    class Meanwhile(MemoryZooKeeper):
        done = 0

        def multi(self, operations: Any) -> Any:
            if not self.done and any(each.path == "/config/brokers/1" for each in operations):
                self.done = 1
                world.own.set(
                    "/config/brokers/1", encode_config(ConfigZnode({LEADER_RATE: "5", "x": "1"})), ANY_VERSION
                )
            return super().multi(operations)

    apply(store, plan, world, zookeeper=Meanwhile(world.server))
    assert configs(world)["brokers/1"] == {LEADER_RATE: "5", "x": "1"}


def test_a_config_that_never_stops_changing_is_left_to_the_next_run(monkeypatch):
    monkeypatch.setattr(throttle_module, "TRIES_MAX", 2)
    store, world, plan = planned(throttled)

    class Restless(MemoryZooKeeper):
        def multi(self, operations: Any) -> Any:
            if any(each.path == "/config/brokers/1" for each in operations):
                world.own.set("/config/brokers/1", b'{"version":1,"config":{}}', ANY_VERSION)
            return super().multi(operations)

    with pytest.raises(NotFinishedError, match="somebody else changed it 2 times"):
        apply(store, plan, world, zookeeper=Restless(world.server))
    assert not world.wrote


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(lambda found: json.dumps({**json.loads(found), "of_later": 1}).encode(), id="of a later version"),
        pytest.param(lambda _: b"{", id="damaged"),
    ],
)
def test_a_drain_beside_a_step_leaves_it_its_throttle_whatever_the_execution_says(data):
    store, world, _ = under_way()
    found, _ = world.own.get(EXECUTION_PATH)
    world.own.set(EXECUTION_PATH, data(found), ANY_VERSION)
    during = configs(world)
    apply(store, draining(store, world), world)
    assert configs(world) == during != AFTER


def test_a_run_that_lost_its_lock_changes_no_config():
    store, world, plan = planned(throttled)

    class Loses(MemoryZooKeeper):
        def multi(self, operations: Any) -> Any:
            if any(each.path == "/config/brokers/1" for each in operations):
                world.own.delete(operations[0].path, ANY_VERSION)
            return super().multi(operations)

    with pytest.raises(NotFinishedError, match="the lock was lost"):
        apply(store, plan, world, zookeeper=Loses(world.server))
    assert configs(world) == BEFORE


def test_folders_that_old_brokers_do_not_make_are_made():
    store, world, plan = planned(throttled)
    for path in ("/config/brokers/1", "/config/brokers", "/config/changes"):
        world.own.delete(path, ANY_VERSION)
    apply(store, plan, world)
    assert configs(world)["brokers/3"] == {}
