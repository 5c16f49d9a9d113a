"""Cancelling what a plan has under way: the whole step, a part of it, cut off in the middle, refused."""

from collections.abc import Sequence
from typing import Any

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.model.errors import ConnectionLostError
from controller_core.model.partitions import TopicPartition
from kafka_maintenance.operations.apply import cancel as cancelling
from kafka_maintenance.operations.apply.cancel import BrokersRefusedError, Cancellation, cancel, cancellation
from kafka_maintenance.operations.apply.execution import find_execution
from kafka_maintenance.operations.apply.stop import Stop
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.errors import BadInputError, RefusedError, StoppedError
from kafka_maintenance.operations.gate.cancels import refuse_cancel
from kafka_maintenance.operations.gate.policy import policy_from
from kafka_maintenance.operations.record.receipts import EventKind, read_events
from tests.broker_ids import ids
from tests.kafka_maintenance.kafka_world import KafkaWorld
from tests.kafka_maintenance.operations.apply import throttled
from tests.kafka_maintenance.operations.apply.applying import (
    NOW,
    ORDERS_0,
    ORDERS_1,
    StopsAfter,
    apply,
    elections,
    events,
    moves,
    planned,
)
from tests.kafka_maintenance.operations.apply.cancelled import brokers_of, one_wave, under_way


def found(store: MemoryStore, world: KafkaWorld, plan: Any) -> Cancellation:
    return cancellation(store, "demo", plan.digest, world.zookeeper(), NOW)


def cancelled(store: MemoryStore, world: KafkaWorld, plan: Any, digest: str, **changed: Any) -> str:
    return cancel(
        store=store, cluster="demo", digest=plan.digest, brokers=BrokersAsked("b:1"), approved_digest=digest, by="ann",
        reason="too slow", now=NOW, **{"zookeeper": world.zookeeper(), "timeout_s": 1.0, **changed},
    )  # fmt: skip


def test_a_step_that_is_under_way_goes_back_and_the_plan_is_over(monkeypatch):
    store, world, plan = under_way()
    asked, before = brokers_of(monkeypatch, world), found(store, world, plan)
    assert [each.partition for each in before.partitions] == [ORDERS_0, ORDERS_1]
    assert "2 partition(s) are under way" in before.text
    told = cancelled(store, world, plan, before.digest)
    assert asked == [ORDERS_0, ORDERS_1]
    assert f"step 1 of 2 of plan {plan.digest} cancelled on 'demo': 2 reverted" in told
    assert (set(world.replicas("orders")), set(world.replicas("orders", 1))) == ({1, 2, 3}, {1, 2, 3})
    assert events(store, plan)[-2:] == ["cancelling", "over"]
    assert find_execution(world.zookeeper()) is None
    with pytest.raises(RefusedError, match="cancelled by ann: too slow"):
        apply(store, plan, world)
    with pytest.raises(RefusedError, match=r"it ended at .* \(over\)"):
        found(store, world, plan)


def test_what_is_done_meanwhile_stays_and_the_rest_of_the_plan_is_not_asked_for(monkeypatch):
    store, world, plan = under_way()
    brokers_of(monkeypatch, world)
    digest = found(store, world, plan).digest
    world.finish(ORDERS_0)
    told = cancelled(store, world, plan, digest)
    assert "1 done, 1 reverted" in told
    assert world.replicas("orders") == (2, 3)
    with pytest.raises(RefusedError, match="plan again"):
        apply(store, plan, world)
    assert world.replicas("orders", 2) == (3, 1, 2)


def test_what_the_controller_begins_of_the_request_meanwhile_is_cancelled_too(monkeypatch):
    store, world, plan = under_way()
    world.hold(ORDERS_1)
    asked, before = brokers_of(monkeypatch, world), found(store, world, plan)
    assert [each.partition for each in before.partitions] == [ORDERS_0]
    cancel_at_brokers = cancelling.ask_brokers

    def begin_the_other(brokers: BrokersAsked, partitions: Sequence[TopicPartition], what: str) -> None:
        cancel_at_brokers(brokers, partitions, what)
        if ORDERS_1 not in partitions:
            world.begin(ORDERS_1, ids(3, 1))

    monkeypatch.setattr(cancelling, "ask_brokers", begin_the_other)
    told = cancelled(store, world, plan, before.digest)
    assert asked == [ORDERS_0, ORDERS_1]
    assert "2 reverted" in told
    assert events(store, plan)[-3:] == ["cancelling", "cancelling", "over"]


def test_only_exactly_what_was_shown_is_cancelled(monkeypatch):
    store, world, plan = under_way()
    asked = brokers_of(monkeypatch, world)
    with pytest.raises(RefusedError, match="look at it and approve that"):
        cancelled(store, world, plan, "0" * 64)
    assert asked == []
    assert events(store, plan)[-1] == "stopped"


def test_brokers_that_refuse_leave_a_plan_that_can_only_be_cancelled(monkeypatch):
    store, world, plan = under_way()
    brokers_of(monkeypatch, world, deaf=True)
    digest = found(store, world, plan).digest
    with pytest.raises(BrokersRefusedError):
        cancelled(store, world, plan, digest)
    assert events(store, plan)[-1] == "cancelling"
    with pytest.raises(RefusedError, match="ann began to cancel its step 1"):
        apply(store, plan, world)
    brokers_of(monkeypatch, world)
    assert "2 reverted" in cancelled(store, world, plan, digest)


def test_a_cancel_that_was_cut_off_after_the_brokers_obeyed_is_finished_without_them(monkeypatch):
    store, world, plan = under_way()
    digest = found(store, world, plan).digest
    brokers_of(monkeypatch, world, deaf=True)
    with pytest.raises(BrokersRefusedError):
        cancelled(store, world, plan, digest)
    for each in (ORDERS_0, ORDERS_1):
        world.cancel(each)
    asked = brokers_of(monkeypatch, world)
    assert "2 reverted" in cancelled(store, world, plan, digest)
    assert asked == []
    assert read_events(store, "demo", plan.digest)[-1].event is EventKind.OVER


def test_a_cancel_whose_connection_broke_at_the_throttle_is_finished_by_the_next(monkeypatch):
    store, world, plan = throttled.under_way()
    digest = found(store, world, plan).digest
    brokers_of(monkeypatch, world)
    with pytest.raises(ConnectionLostError):
        cancelled(store, world, plan, digest, zookeeper=throttled.LosesOneAnswer(world.server))
    assert "1 reverted" in cancelled(store, world, plan, digest)
    assert (throttled.configs(world), find_execution(world.own)) == (throttled.AFTER, None)
    assert events(store, plan)[-3:] == ["cancelling", "unthrottled", "over"]


def test_brokers_that_say_yes_and_do_nothing_are_named(monkeypatch):
    store, world, plan = under_way()
    monkeypatch.setattr(cancelling, "ask_brokers", lambda *_: None)
    with pytest.raises(BrokersRefusedError, match=r"still under way after 1 s: orders-0: under way"):
        cancelled(store, world, plan, found(store, world, plan).digest)


def test_the_controller_has_its_time_from_the_brokers_answer_on(monkeypatch):
    store, world, plan = under_way()
    clock = [0.0]

    def answer_late(*_: Any) -> None:
        clock[0] += 100.0

    def write(_: float) -> None:
        for each in (ORDERS_0, ORDERS_1):
            world.cancel(each)

    monkeypatch.setattr(cancelling, "ask_brokers", answer_late)
    monkeypatch.setattr(cancelling, "monotonic", lambda: clock[0])
    monkeypatch.setattr(cancelling, "sleep", write)
    assert "2 reverted" in cancelled(store, world, plan, found(store, world, plan).digest)


def test_nothing_is_cancelled_where_nothing_is_under_way():
    store, world, plan = planned(moves)
    with pytest.raises(BadInputError, match="has no record that plan"):
        found(store, world, plan)
    stop = Stop()
    with pytest.raises(StoppedError):
        apply(StopsAfter(store, "0001-started.json", stop), plan, world, stop=stop)
    with pytest.raises(RefusedError, match="no step of it is under way"):
        found(store, world, plan)
    store, world, plan = under_way()
    for each in (ORDERS_0, ORDERS_1):
        world.finish(each)
    with pytest.raises(RefusedError, match="Kafka moves nothing of step 1 any more: orders-0: done"):
        found(store, world, plan)


def test_an_election_and_a_kafka_without_cancel_are_refused_with_what_can_be_done():
    store, world, plan = planned(elections)
    apply(store, plan, world)
    with pytest.raises(RefusedError, match="only a reassignment can be"):
        found(store, world, plan)
    store, world, plan = planned(one_wave)
    world.hangs, stop = True, Stop()
    with pytest.raises(StoppedError):
        apply(StopsAfter(store, "0003-requested.json", stop), plan, world, stop=stop, step_timeout_s=600.0)
    with pytest.raises(RefusedError, match=r"Kafka up to 2\.3 cannot cancel"):
        found(store, world, plan)


@pytest.mark.parametrize(
    ("by", "reason", "problem"),
    [
        (None, "OPS-1", "nobody vouches for a person"),
        ("bob", "OPS-1", "'bob' is no approver of cancel_reassignment"),
        ("ann", "slow", "names no ticket"),
        ("ann", "OPS-1 slow", None),
    ],
)
def test_the_policy_says_who_may_cancel(by, reason, problem):
    rules = {"cancel_reassignment": {"approvers": {"users": ["ann"]}, "ticket": "OPS-[0-9]+"}}
    policy = policy_from({"version": 1, "default": {"kinds": rules}}, "demo", "0", "here")
    if problem is None:
        refuse_cancel(policy, "demo", by, reason)
        return
    with pytest.raises(RefusedError, match=problem):
        refuse_cancel(policy, "demo", by, reason)
