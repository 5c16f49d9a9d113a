"""A step asked of the brokers: their answers, no answer, a run that dies in between, and what they do not take."""

from typing import Any

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.model.partitions import TopicPartition
from controller_core.plans.rules import STOP_ON_DIFFERENCE
from controller_core.ports.zookeeper import ANY_VERSION
from controller_core.znodes import encode_reassign_partitions
from controller_core.znodes import paths as znode
from kafka_maintenance.operations.apply import ask_brokers
from kafka_maintenance.operations.apply.execution import find_execution
from kafka_maintenance.operations.cluster.admin_requests import BrokersCannotError, UnansweredError
from kafka_maintenance.operations.errors import ClusterBusyError, LockLostError, NotFinishedError, RefusedError
from kafka_maintenance.operations.plans.reassignment import plan_cancel, plan_reassignment
from kafka_maintenance.operations.record.receipts import EventKind, read_events
from tests.broker_ids import ids
from tests.kafka_maintenance.kafka_world import KafkaWorld
from tests.kafka_maintenance.operations.apply.applying import (
    CARRIED_OUT,
    NOW,
    ORDERS_0,
    ORDERS_1,
    ActsAfter,
    apply,
    cluster,
    elections,
    events,
    left_behind,
    moves,
    planned,
    under_rule,
)
from tests.kafka_maintenance.operations.apply.asked_brokers import BROKERS, Brokers
from tests.kafka_maintenance.operations.apply.killed_run import Killed, killing
from tests.kafka_maintenance.operations.apply.throttled import AFTER, configs, throttled


def asking(make: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, KafkaWorld, Any, Brokers]:
    store, world, plan = planned(make)
    return store, world, plan, Brokers(world, monkeypatch)


def roads(store: Any, plan: Any) -> list[str]:
    return [
        each.detail["road"] for each in read_events(store, "demo", plan.digest) if each.event is EventKind.REQUESTED
    ]


@pytest.mark.parametrize("make", [moves, elections])
def test_no_request_znode_is_created_and_the_record_names_the_road(monkeypatch, make):
    store, world, plan, brokers = asking(make, monkeypatch)
    apply(store, plan, world, brokers=BROKERS)
    assert world.wrote == []
    assert set(roads(store, plan)) == {"admin_api"}
    assert len(brokers.asked) == len(roads(store, plan))
    assert (left_behind(world), find_execution(world.own)) == ([], None)


def test_what_the_brokers_refuse_is_left_out_and_named(monkeypatch):
    store, world, plan, brokers = asking(elections, monkeypatch)
    brokers.refuses = {ORDERS_0: "PreferredLeaderNotAvailableError"}
    receipt = apply(store, plan, world, brokers=BROKERS)
    assert receipt.exceptions == ("orders-0: refused by the brokers: PreferredLeaderNotAvailableError",)
    assert events(store, plan) == CARRIED_OUT
    assert world.state("orders", 1).leader == 2


def test_under_the_rule_to_stop_a_refusal_ends_the_plan(monkeypatch):
    store, world, plan, brokers = asking(elections, monkeypatch)
    plan = under_rule(store, plan, STOP_ON_DIFFERENCE)
    brokers.refuses = {ORDERS_0: "PreferredLeaderNotAvailableError"}
    with pytest.raises(NotFinishedError, match="orders-0"):
        apply(store, plan, world, brokers=BROKERS)
    assert events(store, plan)[-1] == "unfinished"


def test_brokers_that_refuse_everything_leave_no_throttle_and_no_execution(monkeypatch):
    store, world, plan, brokers = asking(throttled, monkeypatch)
    brokers.refuses = dict.fromkeys((ORDERS_0, ORDERS_1, TopicPartition("old", 0)), "InvalidReplicaAssignmentError")
    with pytest.raises(RefusedError, match=r"nothing of it was accepted: .*InvalidReplicaAssignmentError"):
        apply(store, plan, world, brokers=BROKERS)
    assert events(store, plan)[-2:] == ["refused", "unthrottled"]
    assert find_execution(world.own) is None
    assert configs(world) == AFTER


def test_brokers_that_cannot_be_asked_are_told_and_the_request_znode_is_created(monkeypatch, caplog):
    store, world, plan, brokers = asking(moves, monkeypatch)
    brokers.before = [BrokersCannotError("brokers of Kafka 2.4 or newer expected")] * 2
    apply(store, plan, world, brokers=BROKERS)
    assert len(world.wrote) == 2
    assert roads(store, plan) == ["request_znodes"] * 2
    assert "asked for by its request znode: brokers of Kafka 2.4 or newer expected" in caplog.text


@pytest.mark.parametrize("heard", [True, False])
def test_without_an_answer_only_what_was_not_heard_is_asked_again(monkeypatch, heard):
    store, world, plan, brokers = asking(moves, monkeypatch)
    lost: list[BaseException | None] = [UnansweredError("no answer")]
    brokers.before, brokers.after = ([], lost) if heard else (lost, [])
    apply(store, plan, world, brokers=BROKERS)
    assert brokers.asked == [[ORDERS_0], [ORDERS_1]]


def created_again(world: KafkaWorld) -> None:
    world.own.create(znode.delete_topic_path("old"))
    world.topic("old", ((1, 2), 1, (1, 2)))


def test_a_topic_that_is_created_again_before_the_brokers_hear_is_left_out_by_the_next_run(monkeypatch):
    store, world, plan, brokers = asking(both, monkeypatch)
    acting = ActsAfter(store, {"intended.json": lambda: created_again(world)})
    with pytest.raises(ClusterBusyError, match=r"topic old: .* it changed since the check right before"):
        apply(acting, plan, world, brokers=BROKERS)
    assert (brokers.asked, find_execution(world.own)) == ([], None)
    (left_out,) = apply(store, plan, world, brokers=BROKERS).exceptions
    assert left_out.startswith("old-0: topic old: expected the topic created at zxid")
    assert brokers.asked == [[ORDERS_0]]


def test_a_topic_that_is_created_again_while_nobody_answers_is_not_asked_for_again(monkeypatch):
    store, world, plan, brokers = asking(both, monkeypatch)
    answer = brokers.alter

    def unanswered(*_: Any) -> Any:
        created_again(world)
        monkeypatch.setattr(ask_brokers, "alter_reassignments", answer)
        raise UnansweredError("no answer")

    monkeypatch.setattr(ask_brokers, "alter_reassignments", unanswered)
    (gone,) = apply(store, plan, world, brokers=BROKERS).exceptions
    assert gone.startswith("old-0: gone, found one created at zxid")
    assert brokers.asked == [[ORDERS_0]]


def test_brokers_that_never_answer_end_the_run_and_the_next_one_finds_out(monkeypatch):
    store, world, plan, brokers = asking(moves, monkeypatch)
    monkeypatch.setattr(ask_brokers, "ASK_TIMEOUT_S", 0.0)
    brokers.before = [UnansweredError("no answer")]
    with pytest.raises(NotFinishedError, match="run again, which finds out whether they heard it"):
        apply(store, plan, world, brokers=BROKERS)
    assert world.wrote == []
    apply(store, plan, world, brokers=BROKERS)
    assert brokers.asked == [[ORDERS_0], [ORDERS_1]]


@pytest.mark.parametrize("by", [BROKERS, None])
@pytest.mark.parametrize("after", range(1, 21))
def test_a_run_killed_at_any_event_is_finished_by_the_next_on_either_road(monkeypatch, after, by):
    store, world, plan, brokers = asking(moves, monkeypatch)
    session = world.zookeeper()
    try:
        apply(killing(store, after), plan, world, zookeeper=session, brokers=BROKERS)
    except Killed:
        session.close()
    apply(store, plan, world, brokers=by)
    assert (world.replicas("orders"), world.replicas("orders", 1)) == ((3, 2, 1), (1, 3, 2))
    assert len(brokers.asked) + len(world.wrote) == 2


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_run_killed_around_the_call_asks_once(monkeypatch, when):
    store, world, plan, brokers = asking(moves, monkeypatch)
    setattr(brokers, when, [Killed()])
    session = world.zookeeper()
    with pytest.raises(Killed):
        apply(store, plan, world, zookeeper=session, brokers=BROKERS)
    session.close()
    assert find_execution(world.own) is not None
    apply(store, plan, world, brokers=BROKERS)
    assert brokers.asked == [[ORDERS_0], [ORDERS_1]]


def test_a_cancel_between_the_call_and_its_record_holds(monkeypatch):
    store, world, plan, brokers = asking(moves, monkeypatch)
    brokers.after = [Killed()]
    session = world.zookeeper()
    with pytest.raises(Killed):
        apply(store, plan, world, zookeeper=session, brokers=BROKERS)
    session.close()
    world._reassign(ORDERS_0, ids(1, 2, 3))  # somebody takes it back
    with pytest.raises(RefusedError, match="over, and not as planned"):
        apply(store, plan, world, brokers=BROKERS)
    assert brokers.asked == [[ORDERS_0]]


def both(store: Any, world: KafkaWorld) -> Any:
    from controller_core.plans.request_znodes import Target

    old = TopicPartition("old", 0)
    waves = [[Target(*ORDERS_0, ids(3, 2, 1)), Target(*old, ids(2, 1))]]
    return plan_reassignment(store, "demo", waves=waves, zookeeper=world.zookeeper())


@pytest.mark.parametrize("by", [BROKERS, None])
def test_a_part_that_was_not_heard_is_asked_for_or_named(monkeypatch, by):
    store, world, plan, brokers = asking(both, monkeypatch)
    old = TopicPartition("old", 0)
    brokers.refuses = {old: "a controller that dies in between"}
    brokers.after = [Killed()]
    session = world.zookeeper()
    with pytest.raises(Killed):
        apply(store, plan, world, zookeeper=session, brokers=BROKERS)
    session.close()
    brokers.refuses = {}
    receipt = apply(store, plan, world, brokers=by)
    if by is None:
        assert receipt.exceptions == ("old-0: the brokers had not heard of it when its run ended",)
        assert len(brokers.asked) == 1
    else:
        assert brokers.asked[-1] == [old]
        assert world.replicas("old") == (2, 1)


def test_without_its_fence_nothing_is_asked(monkeypatch):
    store, world, plan, brokers = asking(elections, monkeypatch)
    session, multi = world.zookeeper(), None
    multi = session.multi

    def losing(operations: Any) -> Any:
        if len(operations) == 1:
            world.own.delete(operations[0].path, -1)
        return multi(operations)

    monkeypatch.setattr(session, "multi", losing)
    with pytest.raises((LockLostError, NotFinishedError)):
        apply(store, plan, world, zookeeper=session, brokers=BROKERS)
    assert brokers.asked == []


def test_a_request_whose_topic_is_gone_blocks_only_request_znodes(monkeypatch):
    store, world, plan, brokers = asking(moves, monkeypatch)
    world.hangs = True
    world.own.create(znode.REASSIGN_PARTITIONS, encode_reassign_partitions({TopicPartition("gone", 0): ids(1)}))
    with pytest.raises(ClusterBusyError):
        apply(store, plan, world)
    apply(store, plan, world, brokers=BROKERS)
    assert brokers.asked == [[ORDERS_0], [ORDERS_1]]


def test_a_request_of_another_tool_is_waited_for_on_either_road(monkeypatch):
    store, world, plan, brokers = asking(moves, monkeypatch)
    world.hangs = True
    world.own.create(znode.REASSIGN_PARTITIONS, encode_reassign_partitions({TopicPartition("old", 0): ids(3)}))
    with pytest.raises(ClusterBusyError):
        apply(store, plan, world, brokers=BROKERS)
    assert brokers.asked == []


def taking_back(store: Any, world: KafkaWorld) -> Any:
    """Another tool has asked for two moves: of one the request still stands, as of one asked for in ZooKeeper."""
    world.own.create(znode.REASSIGN_PARTITIONS, encode_reassign_partitions({ORDERS_0: ids(1, 2)}))
    world.wrote.clear()
    world.reassigning("orders", 1, adding=(1,))
    return plan_cancel(store, "demo", zookeeper=world.zookeeper(), now=NOW)


def slow(make: Any, monkeypatch: pytest.MonkeyPatch) -> tuple[Any, KafkaWorld, Any, Brokers]:
    """As `asking`, on a cluster that begins moves and does not end them."""
    store, world = MemoryStore(), cluster()
    world.slow = True
    return store, world, make(store, world), Brokers(world, monkeypatch)


def test_what_others_asked_for_is_taken_back_by_the_brokers_though_a_request_stands(monkeypatch):
    store, world, plan, brokers = slow(taking_back, monkeypatch)
    with pytest.raises(ClusterBusyError, match="another tool's request is pending"):
        apply(store, plan, world)
    assert brokers.asked == []
    apply(store, plan, world, brokers=BROKERS)
    assert (world.replicas("orders"), world.replicas("orders", 1)) == ((1, 2, 3), (2, 3))
    assert world.own.exists(znode.REASSIGN_PARTITIONS) is None


def test_a_request_for_more_than_the_plan_takes_back_stands_in_its_way(monkeypatch):
    store, world, plan, _ = slow(taking_back, monkeypatch)
    more = encode_reassign_partitions({ORDERS_0: ids(1, 2), TopicPartition("old", 0): ids(1, 3)})
    world.own.set(znode.REASSIGN_PARTITIONS, more, ANY_VERSION)
    with pytest.raises(ClusterBusyError, match="another tool's request is pending"):
        apply(store, plan, world, brokers=BROKERS)
