"""Records as time lines, a person's wish that a run ends, and what a dead run left behind."""

import json
from datetime import timedelta

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.ports.zookeeper import ANY_VERSION
from controller_core.runtime.simulated.zookeeper import MemoryZooKeeper
from kafka_maintenance.operations.apply import stop as stop_module
from kafka_maintenance.operations.apply.cluster_lock import LOCK_PATH, Holder, cluster_lock
from kafka_maintenance.operations.apply.execution import EXECUTION_PATH, Execution
from kafka_maintenance.operations.apply.executions import (
    executions,
    left_behind,
    plan_under_way,
    record_of,
    request_stop,
    timeline,
    unlock,
)
from kafka_maintenance.operations.errors import (
    BadInputError,
    ClusterBusyError,
    RefusedError,
    StillUnderWayError,
    StoppedForGoodError,
)
from kafka_maintenance.operations.record.receipts import EventKind, ReceiptLog
from tests.kafka_maintenance.operations.apply.applying import (
    NOW,
    ActsAfter,
    apply,
    elections,
    events,
    isr_shrunk,
    moves,
    planned,
)
from tests.kafka_maintenance.operations.apply.killed_run import Killed
from tests.kafka_maintenance.operations.apply.throttled import AFTER, BEFORE, configs, throttled, under_way


def test_plans_that_were_begun_are_listed_with_their_last_event():
    store, world, plan = planned(elections)
    other = moves(store, world)
    assert other is not None
    apply(store, plan, world)
    apply(store, other, world, now=NOW + timedelta(hours=1))
    assert [(each.digest, each.kind, each.last) for each in executions(store)] == [
        (plan.digest, "elect_preferred_leaders", "done"),
        (other.digest, "reassign_partitions", "done"),
    ]
    assert executions(store, "demo") == executions(store)
    assert executions(store, "other") == ()


@pytest.mark.parametrize(
    ("detail", "kind"),
    [
        pytest.param({"kind": "delete_topics", "plan": "s3://b/plans/x-1a2b3c4d5e6f.json"}, "delete_topics", id="said"),
        pytest.param({"plan": "/b/snap=1/plans/restore-1a2b3c4d5e6f.json"}, "restore", id="in the name of the plan"),
        pytest.param({}, "?", id="nowhere"),
    ],
)
def test_what_kind_a_plan_that_was_begun_is_of(detail, kind):
    store = MemoryStore()
    log = ReceiptLog(store, cluster="demo", digest="1a" * 32, run="r", approver="anna", now=NOW)
    log.append(EventKind.STARTED, **detail)
    assert [each.kind for each in executions(store)] == [kind]


def test_a_record_is_a_time_line():
    store, world, plan = planned(elections)
    isr_shrunk(world)
    apply(store, plan, world)
    lines = timeline(record_of(store, "demo", plan.digest))
    assert [line.split()[1] for line in lines] == events(store, plan)
    assert "step 1  left out: orders-0; paths: /admin/preferred_replica_election" in lines[1]
    with pytest.raises(BadInputError, match="`executions` lists them"):
        record_of(store, "demo", "f" * 64)


def test_a_person_ends_a_run_and_it_is_not_tried_again(monkeypatch):
    monkeypatch.setattr(stop_module, "LOOK_S", 0.0)
    store, world, plan = planned(moves)
    request_stop(store, "demo", plan.digest, by="eve", reason="an earlier wish", now=NOW)
    world.hangs = True

    class Asks(MemoryStore):
        def put_new(self, key: str, data: bytes) -> None:
            super().put_new(key, data)
            if key.endswith("-requested.json"):
                request_stop(self, "demo", plan.digest, by="ann", reason="peak hours", now=NOW + timedelta(hours=1))

    asking = Asks()
    asking._objects = store._objects
    with pytest.raises(StoppedForGoodError, match=r"stopped \(ann asked for it: peak hours\)"):
        apply(asking, plan, world, step_timeout_s=600.0)
    assert events(store, plan)[-1] == "stopped"
    world.wake()
    assert not apply(store, plan, world).already_applied


@pytest.mark.parametrize(
    "data", [b"", b"[]", b'{"by":"ann"}', b"[" * 100_000], ids=["empty", "a list", "no reason", "too deep"]
)
def test_a_stop_that_cannot_be_read_ends_the_run_and_is_named(monkeypatch, data):
    monkeypatch.setattr(stop_module, "LOOK_S", 0.0)
    store, world, plan = planned(moves)
    world.hangs, key = True, f"v1/stops/cluster=demo/{plan.digest}/x.json"
    with pytest.raises(StoppedForGoodError, match=f"asked for it in .*{key}, which cannot be read"):
        apply(ActsAfter(store, {"-requested.json": lambda: store.put(key, data)}), plan, world, step_timeout_s=600.0)
    assert events(store, plan)[-1] == "stopped"


@pytest.mark.parametrize(
    ("start", "stopped"),
    [
        pytest.param("run:2", True, id="a try that nobody asked for, as a worker that was lost leads to"),
        pytest.param("run:4", False, id="a clear"),
        pytest.param(None, False, id="a command"),
    ],
)
def test_a_stop_holds_until_a_person_begins_the_plan_again(monkeypatch, start, stopped):
    monkeypatch.setattr(stop_module, "LOOK_S", 0.0)
    store, world, plan = planned(moves)
    world.hangs = True
    with pytest.raises(StillUnderWayError):
        apply(store, plan, world, start="run:2", patience_s=0.0, step_timeout_s=600.0)
    request_stop(store, "demo", plan.digest, by="ann", reason="peak hours", now=NOW)
    with pytest.raises(StoppedForGoodError if stopped else StillUnderWayError):
        apply(store, plan, world, start=start, patience_s=0.0, step_timeout_s=600.0)


def test_what_a_dead_run_left_is_removed_as_it_was_shown():
    store, world, plan = under_way()
    shown = left_behind(store, "demo", world.zookeeper())
    assert [path for path, _, _ in shown.znodes] == [EXECUTION_PATH]
    assert f"throttle of plan {plan.digest}" in shown.text
    what = {"store": store, "cluster": "demo", "zookeeper": world.zookeeper(), "approver": "ann", "now": NOW}
    with pytest.raises(RefusedError, match=f"approved '{'0' * 64}', found '{shown.digest}'"):
        unlock(**what, approved_digest="0" * 64)
    assert unlock(**what, approved_digest=shown.digest) == shown
    assert configs(world) == AFTER
    assert left_behind(store, "demo", world.zookeeper()).text == "nothing of ours is there"


def test_a_run_that_lives_loses_its_lock_and_a_later_one_goes_on():
    store, world, plan = planned(moves)
    holder = Holder("f" * 64, "run-7", "eve", "2026-11-21T02:59:00+00:00")
    with cluster_lock(world.zookeeper(), holder, wait_s=0) as fence:
        with pytest.raises(ClusterBusyError):
            apply(store, plan, world)
        shown = left_behind(store, "demo", world.zookeeper())
        assert [path for path, _, _ in shown.znodes] == [LOCK_PATH, fence.path]
        unlock(
            store=store,
            cluster="demo",
            zookeeper=world.zookeeper(),
            approved_digest=shown.digest,
            approver="ann",
            now=NOW,
        )
        assert world.own.exists(fence.path) is None
        apply(store, plan, world)


def test_what_changes_while_it_is_removed_is_left():
    store, world, _ = under_way()

    class Meanwhile(MemoryZooKeeper):
        def multi(self, operations):
            if world.own.exists(EXECUTION_PATH):
                world.own.delete(EXECUTION_PATH, ANY_VERSION)
            return super().multi(operations)

    shown = left_behind(store, "demo", world.zookeeper())
    with pytest.raises(RefusedError, match="it changed meanwhile"):
        unlock(
            store=store,
            cluster="demo",
            zookeeper=Meanwhile(world.server),
            approved_digest=shown.digest,
            approver="ann",
            now=NOW,
        )


def test_a_throttle_of_a_killed_run_is_found_without_any_znode():
    class DiesOnceItIsSet(MemoryStore):
        def put_new(self, key: str, data: bytes) -> None:
            super().put_new(key, data)
            if key.endswith("-throttled.json"):
                raise Killed

    store, world, plan = planned(throttled)
    session, dying = world.zookeeper(), DiesOnceItIsSet()
    dying._objects = store._objects
    with pytest.raises(Killed):
        apply(dying, plan, world, zookeeper=session)
    session.close()
    shown = left_behind(store, "demo", world.zookeeper())
    assert shown.throttled == (plan.digest,)
    unlock(
        store=store, cluster="demo", zookeeper=world.zookeeper(), approved_digest=shown.digest, approver="ann", now=NOW
    )
    assert configs(world) in (BEFORE, AFTER)


def test_the_plan_that_is_under_way_is_found_by_its_lock_or_by_its_execution():
    store, world, plan = planned(moves)
    with pytest.raises(BadInputError, match=r"no plan is under way on 'demo': .* `kafka-maintenance executions list`"):
        plan_under_way(world.zookeeper(), "demo")
    with cluster_lock(world.zookeeper(), Holder("a" * 64, "run", "ann", "now"), wait_s=0):
        assert plan_under_way(world.zookeeper(), "demo") == "a" * 64
    world.hangs = True
    with pytest.raises(StillUnderWayError):
        apply(store, plan, world, patience_s=0.0, step_timeout_s=600.0)
    assert plan_under_way(world.zookeeper(), "demo") == plan.digest


STANDING = {**Execution("f" * 64, 0, "run-7", "eve", "2026-11-21T02:59:00+00:00")._asdict(), "step_count": 1}


@pytest.mark.parametrize("path", [EXECUTION_PATH, LOCK_PATH])
@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"[]", id="no object"),
        pytest.param(b"[" * 100_000, id="too deep"),
        pytest.param(json.dumps({**STANDING, "plan": 5}).encode(), id="a number for the plan"),
        pytest.param(json.dumps({**STANDING, "step": "1"}).encode(), id="a text for the step"),
        pytest.param(json.dumps({**Holder(5, "r", "a", "s")._asdict()}).encode(), id="a holder with a number"),
    ],
)
def test_what_somebody_else_wrote_at_our_paths_is_refused_with_a_sentence(path, data):
    store, world, plan = planned(moves)
    world.own.create(path, data)
    with pytest.raises(ClusterBusyError, match=f"{path} cannot be read|applies plan [?], approved by '[?]'"):
        apply(store, plan, world)
    assert not world.wrote
