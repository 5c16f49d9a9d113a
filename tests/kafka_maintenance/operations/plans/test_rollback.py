"""The way back from a reassignment plan that was carried out, or begun, from its record and the present state."""

from typing import Any

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.model.partitions import ReplicaAssignment, TopicPartition
from controller_core.plans.plan import PlanKind
from controller_core.plans.request_znodes import CreateReassignPartitions
from kafka_maintenance.operations.apply.cancel import cancellation
from kafka_maintenance.operations.apply.execution import EXECUTION_PATH
from kafka_maintenance.operations.apply.plan import verify
from kafka_maintenance.operations.apply.stop import Stop
from kafka_maintenance.operations.errors import BadInputError, RefusedError, StoppedError
from kafka_maintenance.operations.plans.rollback import plan_rollback
from kafka_maintenance.operations.plans.store import read_plan
from kafka_maintenance.operations.record.audit import UntrustedRecordError
from kafka_maintenance.operations.record.receipts import EventKind, ReceiptLog, receipt_prefix
from tests.broker_ids import ids
from tests.kafka_maintenance.operations.apply.applying import (
    NOW,
    ORDERS_0,
    ORDERS_1,
    StopsAfter,
    apply,
    cluster,
    deletion,
    elections,
    events,
    moves,
    planned,
)
from tests.kafka_maintenance.operations.apply.one_wave import OLD_0, one_wave

BEFORE = {ORDERS_0: (1, 2, 3), ORDERS_1: (2, 3, 1)}


def stopped(store: MemoryStore, plan: Any, world: Any, end: str) -> None:
    stop = Stop()
    with pytest.raises(StoppedError):
        apply(StopsAfter(store, end, stop), plan, world, stop=stop, step_timeout_s=600.0)


def back(store: MemoryStore, plan: Any, world: Any) -> Any:
    return plan_rollback(store, "demo", plan.digest, zookeeper=world.zookeeper(), now=NOW)


def lists(world: Any) -> dict[TopicPartition, tuple[int, ...]]:
    from kafka_maintenance.operations.cluster.observe import observe

    found = observe(world.zookeeper(), partitions=BEFORE).assignments
    return {partition: tuple(found[partition].replicas) for partition in BEFORE}


def waves(store: MemoryStore, plan: Any) -> list[list[TopicPartition]]:
    effects = read_plan(store, plan.uri).effects
    return [
        [target.partition for target in each.targets] for each in effects if isinstance(each, CreateReassignPartitions)
    ]


def test_a_plan_that_was_carried_out_goes_back_in_the_opposite_order():
    store, world, plan = planned(moves)
    apply(store, plan, world)
    made = back(store, plan, world)
    assert (made.kind, waves(store, made)) == (PlanKind.REASSIGN_PARTITIONS, [[ORDERS_1], [ORDERS_0]])
    assert f"Undoes plan {plan.digest} as far as it was carried out: step(s) 1, 2 of 2" in made.markdown
    apply(store, made, world)
    assert lists(world) == BEFORE
    assert verify(store=store, plan_uri=made.uri, zookeeper=world.zookeeper()).done
    assert back(store, plan, world) is None


def test_a_run_that_was_stopped_after_wave_1_of_2_goes_back_from_there():
    store, world, plan = planned(moves)
    stopped(store, plan, world, "-verified.json")
    assert lists(world) == BEFORE | {ORDERS_0: (3, 2, 1)}
    made = back(store, plan, world)
    assert waves(store, made) == [[ORDERS_0]]
    assert "step(s) 1 of 2 were asked" in made.markdown
    apply(store, made, world)
    assert lists(world) == BEFORE


def test_a_plan_whose_steps_were_taken_back_is_over():
    store, world, plan = planned(moves)
    stopped(store, plan, world, "-verified.json")
    apply(store, back(store, plan, world), world)
    for said in (
        "not asked, and the plan is over: step.* 1 to 1 were carried out and taken back",
        "it ended at .* taken back",
    ):
        with pytest.raises(RefusedError, match=said):
            apply(store, plan, world)
        assert (lists(world), events(store, plan)[-1]) == (BEFORE, "over")


def test_a_run_that_was_stopped_while_kafka_worked_goes_back_when_kafka_has_finished():
    store, world, plan = planned(moves)
    world.hangs = True
    stopped(store, plan, world, "-requested.json")
    with pytest.raises(RefusedError, match=r"orders-0 is under way, found .*; let it finish, or cancel it"):
        back(store, plan, world)
    world.wake()
    assert world.own.exists(EXECUTION_PATH) is not None
    made = back(store, plan, world)
    apply(store, made, world)
    assert lists(world) == BEFORE
    assert world.own.exists(EXECUTION_PATH) is None


def test_a_plan_that_somebody_cancelled_in_part_is_not_called_undone_while_the_rest_is_under_way():
    store, world, plan = planned(one_wave)
    world.slow = True
    stopped(store, plan, world, "-requested.json")
    world.cancel(ORDERS_0)
    world._assign(ORDERS_0, ReplicaAssignment(BEFORE[ORDERS_0]))
    with pytest.raises(RefusedError, match=r"no rollback of plan .*: old-0 is under way, found .*; let it finish"):
        back(store, plan, world)
    world.finish(OLD_0)
    assert waves(store, back(store, plan, world)) == [[OLD_0]]


def test_what_somebody_moved_elsewhere_since_stays_and_is_named():
    store, world, plan = planned(moves)
    apply(store, plan, world)
    world._assign(ORDERS_0, ReplicaAssignment(ids(2, 1)))
    made = back(store, plan, world)
    assert waves(store, made) == [[ORDERS_1]]
    assert "was moved by somebody else since" in made.markdown


def test_what_the_run_left_out_stays_where_somebody_else_moved_it():
    store, world, plan = planned(moves)
    world._assign(ORDERS_1, ReplicaAssignment(ids(1, 3, 2)))  # where the plan wants it, too
    assert apply(store, plan, world).exceptions[0].startswith("orders-1: ")
    made = back(store, plan, world)
    assert waves(store, made) == [[ORDERS_0]]
    assert "step(s) 1 of 2 were asked" in made.markdown


def test_what_a_stopped_run_left_out_keeps_no_other_plan_away():
    store, world, plan = planned(one_wave)
    world.slow = True
    world.begin(OLD_0, ids(2, 3))  # by another tool, and it lasts
    stopped(store, plan, world, "-requested.json")
    world.finish(ORDERS_0)
    world.slow = False
    apply(store, back(store, plan, world), world)
    assert world.replicas("orders") == BEFORE[ORDERS_0]


def test_a_broker_of_the_former_list_that_is_gone_is_a_reason():
    store, world, plan = planned(moves)
    apply(store, plan, world)
    world.kill(1)
    with pytest.raises(RefusedError, match=r"orders-0 .*expected registered brokers, found \[1\]"):
        back(store, plan, world)


def test_a_step_that_was_refused_before_it_was_asked_for_is_none_to_undo():
    store, world, plan = planned(moves)
    stopped(store, plan, world, "-verified.json")
    record = ReceiptLog(store, cluster="demo", digest=plan.digest, run="r", approver="ann", now=NOW)
    record.append(EventKind.INTENDED, step=1)
    record.append(EventKind.REFUSED, step=1)
    world._assign(ORDERS_1, ReplicaAssignment(ids(1, 3, 2)))  # the same target, by another plan
    made = back(store, plan, world)
    assert waves(store, made) == [[ORDERS_0]]
    assert "step(s) 1 of 2 were asked" in made.markdown


def test_a_record_that_the_audit_chain_does_not_hold_undoes_nothing():
    store, world, plan = planned(moves)
    stopped(store, plan, world, "-verified.json")
    (requested,) = [key for key in store.list(receipt_prefix("demo", plan.digest)) if key.endswith("-requested.json")]
    store.put(requested.replace("-requested", "-verified"), store.get(requested).replace(b'"step":0', b'"step":1'))
    with pytest.raises(UntrustedRecordError, match="expected one that the audit chain of 'demo' holds"):
        back(store, plan, world)


def test_the_way_back_is_run_through_the_controllers_rules():
    store, world, plan = planned(moves)
    apply(store, plan, world)
    assert "Run through the controller's rules, wave by wave:" in back(store, plan, world).markdown


def test_a_plan_that_was_never_begun_is_named():
    store, world, plan = planned(moves)
    with pytest.raises(BadInputError, match=r"has no record that plan '[0-9a-f]{64}' was begun; .*executions list"):
        back(store, plan, world)


@pytest.mark.parametrize(
    ("make", "why"), [(elections, "needs no undoing"), (deletion, "what Kafka has deleted is gone")]
)
def test_a_plan_of_a_kind_that_cannot_be_undone_says_what_helps(make, why):
    store, world, plan = planned(make)
    apply(store, plan, world)
    with pytest.raises(RefusedError, match=why):
        back(store, plan, world)
    assert events(store, plan)[-1] == "done"


@pytest.mark.parametrize(
    ("started", "why"),
    [
        pytest.param(
            {"plan": f"/plans/restore-{'a' * 12}.json"},
            "restore` of a snapshot that was taken before it",
            id="a restore",
        ),
        pytest.param({"kind": "retain_snapshots"}, "a snapshot that was removed is gone", id="a removal of snapshots"),
        pytest.param({}, "only a reassignment can be rolled back", id="a removal of version 0.2 or older"),
    ],
)
def test_what_asked_nothing_of_kafka_is_neither_rolled_back_nor_cancelled(started, why):
    store, world = MemoryStore(), cluster()
    digest = "a" * 64
    log = ReceiptLog(store, cluster="demo", digest=digest, run="r", approver="ann", now=NOW)
    log.append(EventKind.STARTED, **started)
    with pytest.raises(RefusedError, match=why):
        plan_rollback(store, "demo", digest, zookeeper=world.zookeeper(), now=NOW)
    with pytest.raises(RefusedError, match="not cancelled: only a reassignment can be"):
        cancellation(store, "demo", digest, world.zookeeper(), NOW)
