"""What each step waits for before it is asked for: the cluster, room, and partitions under min ISR beside the plan."""

from datetime import timedelta
from typing import Any

import pyarrow as pa
import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.adapters.snapshot.tables import TABLES
from controller_core.model.partitions import TopicPartition
from controller_core.plans.checks import Unmet
from controller_core.plans.request_znodes import Target
from controller_core.ports.zookeeper import ANY_VERSION
from controller_core.znodes import encode_reassign_partitions
from controller_core.znodes import paths as znode
from controller_core.znodes.configs import ConfigZnode, encode_config
from kafka_maintenance.operations.apply import attempt as attempt_module
from kafka_maintenance.operations.apply.cluster_lock import Holder, cluster_lock
from kafka_maintenance.operations.apply.execution import find_execution
from kafka_maintenance.operations.apply.executions import request_stop
from kafka_maintenance.operations.apply.parked import wants_its_run
from kafka_maintenance.operations.cluster.min_isr import min_insync_replicas, recorded_min_insync_replicas
from kafka_maintenance.operations.errors import (
    ClusterBusyError,
    PlanStaleError,
    StillUnderWayError,
    StoppedError,
    StoppedForGoodError,
)
from kafka_maintenance.operations.plans.drain import plan_drain
from kafka_maintenance.operations.plans.reassignment import plan_reassignment
from kafka_maintenance.operations.plans.store import StoredPlan, read_plan
from kafka_maintenance.operations.record import receipts as receipts_module
from kafka_maintenance.operations.record.receipts import read_events
from spark_jobs.planner.goals import Goals
from spark_jobs.planner.waves import Limits
from tests.broker_ids import ids
from tests.kafka_maintenance.operations.apply.applying import (
    CARRIED_OUT,
    NOW,
    ActsAfter,
    apply,
    cluster,
    elections,
    events,
    left_behind,
    moves,
    planned,
)
from tests.kafka_maintenance.operations.apply.waiting import CLOSED, AfterFirst, Clock, Waits, Window, waits_recorded
from tests.kafka_maintenance.operations.plans.made import six_on_two_brokers


def set_config(world: Any, entity: str, setting: bytes) -> None:
    for path in ("/config", f"/config/{entity.partition('/')[0]}"):
        if world.own.exists(path) is None:
            world.own.create(path, b"")
    world.own.create(f"/config/{entity}", setting)


def min_isr(count: int | str) -> bytes:
    return encode_config(ConfigZnode({"min.insync.replicas": str(count)}))


def waits_with_its_second_wave() -> tuple[Any, Any, Any]:
    store, world, plan = planned(moves)
    with pytest.raises(StillUnderWayError, match="the change window is closed"):
        apply(store, plan, world, window=Window(), patience_s=0.0)
    assert left_behind(world) == []
    return store, world, plan


def test_no_other_plan_begins_while_a_run_waits_and_the_waiting_one_goes_on():
    store, world, plan = waits_with_its_second_wave()
    other = elections(store, world)
    with pytest.raises(
        ClusterBusyError, match=rf"plan {plan.digest}, approved by 'ann', is begun, and its run .* waits with step 2"
    ):
        apply(store, other, world)
    assert len(world.wrote) == 1
    apply(store, plan, world, patience_s=0.0, resumed=True)
    assert (len(world.wrote), find_execution(world.own)) == (2, None)


def test_no_other_plan_begins_where_a_waiting_run_has_lost_its_lock():
    store, world, plan = planned(moves)
    other, refused = elections(store, world), []

    def loses_its_lock() -> None:
        for path in left_behind(world):
            world.own.delete(path, ANY_VERSION)
        with pytest.raises(ClusterBusyError, match="waits with step 2") as busy:
            apply(store, other, world)
        refused.append(busy.value)
        stop.ask("Ctrl-C")

    stop = Waits(loses_its_lock)
    with pytest.raises(StoppedError):
        apply(store, plan, world, window=Window(), stop=stop)
    assert len(refused) == 1


@pytest.mark.parametrize("alive", [True, False])
def test_a_waiting_run_that_is_stopped_lets_others_begin_whether_it_hears_of_it_or_not(alive):
    store, world, plan = waits_with_its_second_wave()
    request_stop(store, "demo", plan.digest, by="ben", reason="lunch", now=NOW)
    if alive:
        with pytest.raises(StoppedForGoodError):
            apply(store, plan, world, window=Window(), patience_s=0.0, resumed=True)
        assert find_execution(world.own) is None
    apply(store, elections(store, world), world)
    assert find_execution(world.own) is None


def test_a_waiting_run_that_is_refused_lets_others_begin():
    store, world, plan = waits_with_its_second_wave()
    world.own.create("/admin/delete_topics/orders", b"")  # which the imitated controller obeys at once
    with pytest.raises(PlanStaleError):
        apply(store, plan, world, patience_s=0.0, resumed=True)
    assert find_execution(world.own) is None


def thin(world: Any) -> None:
    world.set_state("old", 0, leader=1, isr=(1,))


def test_a_run_that_waits_for_the_cluster_leaves_its_worker_too_and_its_time_goes_on():
    store, world, plan = planned(moves)
    left = {"patience_s": 0.0, "step_timeout_s": 600.0}

    def wanted() -> str | None:
        record = read_events(store, "demo", plan.digest)
        return wants_its_run(store, read_plan(store, plan.uri), plan.digest, 1, world.zookeeper(), record)

    with pytest.raises(
        StillUnderWayError, match=r"step 2 of 2: not asked yet, the cluster is not ready: the rest of the cluster"
    ):
        apply(store, plan, world, zookeeper=AfterFirst(world, thin), **left)
    assert wanted() is None
    with pytest.raises(StillUnderWayError):
        apply(store, plan, world, resumed=True, now=NOW + timedelta(seconds=500), **left)
    assert [each.detail["awaits"] for each in waits_recorded(store, plan)] == ["cluster"]
    world.set_state("old", 0, leader=1, isr=(1, 2))
    assert wanted() == "the cluster is ready for the step"
    thin(world)
    apply(store, plan, world, resumed=True, now=NOW + timedelta(seconds=700), **left)
    assert events(store, plan)[-1] == "done"
    assert len(world.wrote) == 2


def last_wave_of_one(store: Any, world: Any) -> StoredPlan | None:
    world.topic("lone", ((2,), 2, (2,)))
    waves = [[Target("lone", 0, ids(3))], [Target("old", 0, ids(3, 1))]]
    return plan_reassignment(store, "demo", waves=waves, zookeeper=world.zookeeper(), now=NOW)


def test_a_run_that_is_woken_while_the_broker_of_all_that_is_left_is_away_leaves_again():
    store, world, plan = planned(last_wave_of_one)

    def broker_dies() -> None:
        world.kill(1)
        world.set_state("old", 0, leader=-1, isr=(1,))

    once = [broker_dies]
    watched = ActsAfter(store, {"verified.json": lambda: once and once.pop()()})
    for minutes in (0, 15):
        with pytest.raises(StillUnderWayError, match=r"step 2 of 2: not asked yet, .* found no broker \[1\]"):
            apply(
                watched, plan, world, patience_s=0.0, step_timeout_s=7200.0, resumed=minutes > 0,
                now=NOW + timedelta(minutes=minutes),
            )  # fmt: skip
    assert events(store, plan)[-1] == "waiting"


@pytest.mark.parametrize(
    ("goals", "waits"),
    [
        pytest.param(Goals(), True, id="placed by rack"),
        pytest.param(Goals(ignore_racks=True), False, id="whatever the racks"),
    ],
)
def test_a_broker_that_comes_back_in_another_rack_gets_no_wave_that_was_planned_by_its_rack(goals, waits):
    store, world = MemoryStore(), six_on_two_brokers()
    move_to_rack(world, 3, "east")
    for broker in (1, 2):
        move_to_rack(world, broker, "west")
    now = {"zookeeper": world.zookeeper(), "now": NOW}
    plan = plan_reassignment(store, "demo", goals=goals, limits=Limits(partitions_max=1), **now)
    assert plan is not None
    left = {"zookeeper": AfterFirst(world, lambda world: move_to_rack(world, 3, "west")), "patience_s": 0.0}
    if not waits:
        apply(store, plan, world, **left)
        return
    with pytest.raises(
        StillUnderWayError, match=r"/brokers/ids/3: expected rack 'east', .*, found rack 'west'; set broker.rack back"
    ):
        apply(store, plan, world, step_timeout_s=600.0, **left)
    asked = len(world.wrote)
    move_to_rack(world, 3, "east")
    apply(store, plan, world, patience_s=0.0, resumed=True)
    assert len(world.wrote) > asked


def move_to_rack(world: Any, broker: int, rack: str) -> None:
    world.kill(broker)
    world.broker(broker, rack)


def test_the_time_of_a_step_that_waits_is_the_sum_of_the_hours_in_which_its_window_is_open():
    store, world, plan = planned(moves)
    left: dict[str, Any] = {"patience_s": 0.0, "step_timeout_s": 6 * 3600.0}
    with pytest.raises(StillUnderWayError, match="the rest of the cluster"):
        apply(store, plan, world, zookeeper=AfterFirst(world, thin), **left)
    for hours, closed in ((3.9, None), (4.0, CLOSED), (24.0, None), (25.9, None)):
        at = NOW + timedelta(hours=hours)
        with pytest.raises(StillUnderWayError):
            apply(store, plan, world, resumed=True, now=at, window=lambda found=closed: found, **left)
    apply(store, plan, world, resumed=True, now=NOW + timedelta(hours=26.1), **left)
    assert [each.detail["awaits"] for each in waits_recorded(store, plan)] == ["cluster", "window", "cluster"]
    assert events(store, plan)[-1] == "done"


def linger(world: Any) -> None:
    """A request that names only a partition that does not exist stands, and this controller will not remove it."""
    world.hangs = True
    world.own.create(znode.REASSIGN_PARTITIONS, encode_reassign_partitions({TopicPartition("gone", 0): ids(1)}))


def waits_beside_a_request() -> tuple[Any, Any, Any]:
    store, world, plan = planned(moves)
    once = [linger]
    return ActsAfter(store, {"verified.json": lambda: once and once.pop()(world)}), world, plan


def test_a_run_that_is_woken_while_a_request_still_stands_there_leaves_again():
    store, world, plan = waits_beside_a_request()
    for minutes in (0, 15, 30):
        with pytest.raises(StillUnderWayError, match=r"step 2 of 2: not asked yet, .* partitions that do not exist"):
            apply(
                store, plan, world, patience_s=0.0, step_timeout_s=7200.0, resumed=minutes > 0,
                now=NOW + timedelta(minutes=minutes),
            )  # fmt: skip
    assert events(store, plan) == ["started", "intended", "requested", "verified", "waiting"]
    world.own.delete(znode.REASSIGN_PARTITIONS, ANY_VERSION)
    world.hangs = False
    apply(store, plan, world, patience_s=0.0, resumed=True)
    assert events(store, plan)[-1] == "done"


def test_a_run_that_stays_leaves_the_lock_to_the_plan_that_repairs_what_it_waits_for():
    store, world, plan = waits_beside_a_request()

    def repair() -> None:
        assert left_behind(world) == []
        drain = plan_drain(store, "demo", zookeeper=world.zookeeper(), now=NOW)
        apply(store, drain, world)

    stop = Waits(lambda: None, repair)
    apply(store, plan, world, stop=stop, step_timeout_s=600.0)
    assert stop.actions == []
    assert events(store, plan) == ["started", *CARRIED_OUT[1:4], "waiting", *CARRIED_OUT[1:]]


def test_a_run_that_stays_waits_for_the_lock_where_another_plan_has_it_by_then():
    store, world, plan = planned(moves)
    window, held = Window(), []

    def opened_while_another_plan_has_the_lock() -> None:
        window.open()
        held.append(cluster_lock(world.zookeeper(), Holder("f" * 64, "another", "ben", "now"), wait_s=0.0))
        held[0].__enter__()

    stop = Waits(opened_while_another_plan_has_the_lock, lambda: held.pop().__exit__(None, None, None))
    apply(store, plan, world, window=window, stop=stop)
    assert (held, stop.actions) == ([], [])
    assert events(store, plan)[-1] == "done"


def test_the_times_of_a_record_go_on_while_a_run_waits(monkeypatch):
    clock, window = Clock(), Window()
    for module in (attempt_module, receipts_module):
        monkeypatch.setattr(module, "monotonic", clock)

    def hours_later() -> None:
        clock.now_s += 7200.0
        window.open()

    store, world, plan = planned(moves)
    apply(store, plan, world, window=window, stop=Waits(hours_later))
    assert [each.at for each in read_events(store, "demo", plan.digest)][4:] == [
        *["2026-11-21T03:00:00.000+00:00"],
        *["2026-11-21T05:00:00.000+00:00"] * 4,
    ]


def test_a_run_that_waits_for_room_on_a_disk_is_woken_by_time_alone(monkeypatch):
    from kafka_maintenance.operations.apply import ready

    store, world, plan = planned(moves)
    lacking = Unmet("log directories of broker 1", "room", "none", "free space")
    monkeypatch.setattr(ready, "no_room", lambda *_: (lacking,))
    with pytest.raises(StillUnderWayError, match="log directories of broker 1: expected room, found none"):
        apply(store, plan, world, patience_s=0.0, step_timeout_s=600.0)
    record = read_events(store, "demo", plan.digest)
    assert record[-1].detail["awaits"] == "room"
    assert wants_its_run(store, read_plan(store, plan.uri), plan.digest, 1, world.zookeeper(), record) is None
    monkeypatch.undo()
    apply(store, plan, world, patience_s=0.0, step_timeout_s=600.0, resumed=True)
    assert events(store, plan)[-1] == "done"


def test_a_step_waits_for_what_fell_under_min_isr_where_as_many_were_under_replicated_before():
    store, world, plan = planned(moves)
    world.topic("audit", ((1, 2, 3), 1, (1, 2)))
    set_config(world, "topics/old", min_isr(2))

    def another(changed: Any) -> None:
        changed.set_state("audit", 0, leader=1, isr=(1, 2, 3))
        thin(changed)

    stop = Waits(lambda: world.set_state("old", 0, leader=1, isr=(1, 2)))
    apply(store, plan, world, zookeeper=AfterFirst(world, another), stop=stop, step_timeout_s=600.0)
    assert stop.actions == []
    began = next(each for each in read_events(store, "demo", plan.digest) if each.event == "started")
    assert (began.detail["under_replicated"], began.detail["under_min_isr"]) == (1, 0)
    (told,) = waits_recorded(store, plan)
    assert len(told.detail["reasons"]) == 1
    assert "expected at most 0 partitions under min ISR, as when the plan began, found 1" in told.detail["reasons"][0]


def test_min_insync_replicas_are_the_topics_own_or_those_of_all_brokers():
    world = cluster()
    assert min_insync_replicas(world.own, {"old", "orders"}) == {}
    set_config(world, "brokers/<default>", min_isr(2))
    set_config(world, "topics/old", min_isr(3))
    set_config(world, "topics/bad", b"{")
    set_config(world, "topics/spaced", min_isr(" 4"))
    set_config(world, "topics/refused", min_isr("0"))
    found = min_insync_replicas(world.own, {"old", "orders", "bad", "spaced", "refused"})
    assert found == {"old": 3, "orders": 2, "bad": 2, "spaced": 4, "refused": 2}
    assert min_insync_replicas(world.own, ()) == {}
    recorded = [
        ("brokers", "<default>", "2"),
        ("topics", "old", "3"),
        ("topics", "spaced", " 4"),
        ("topics", "refused", "0"),
    ]
    rows = [
        {"entity_type": kind, "entity_name": name, "key": "min.insync.replicas", "value": value}
        for kind, name, value in recorded
    ]
    rows.append({"entity_type": "topics", "entity_name": "bad", "key": "retention.ms", "value": "7"})
    configs = pa.Table.from_pylist(rows, schema=TABLES["configs"])
    assert recorded_min_insync_replicas(configs, set(found)) == found
    assert recorded_min_insync_replicas(configs.slice(1), {"old", "orders"}) == {"old": 3}
