"""Bytes of a step: how far it is, how long it may take, and room for it before it is asked for."""

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.plans.request_znodes import Target
from controller_core.znodes import paths as znode
from kafka_maintenance.operations.apply import copying as copying_module
from kafka_maintenance.operations.apply import progress as progress_module
from kafka_maintenance.operations.apply.copying import Behind, Copying, copying, estimate_s, in_bytes, no_room
from kafka_maintenance.operations.apply.progress import Teller
from kafka_maintenance.operations.apply.run import look_at
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.cluster.log_dirs import LogDirs, SizesUnknownError
from kafka_maintenance.operations.errors import PlanStaleError
from kafka_maintenance.operations.plans import make as planning
from kafka_maintenance.operations.plans.store import read_plan
from kafka_maintenance.operations.record.receipts import EventKind, read_events
from tests.kafka_maintenance.operations.apply.applying import NOW, apply, events, ids, planned
from tests.kafka_maintenance.operations.apply.test_ask_brokers import BROKERS, Brokers
from tests.kafka_maintenance.operations.apply.test_progress import Clock, Waits

OLD, NEW = TopicPartition("old", 0), TopicPartition("new", 0)


def two_copies(store: Any, world: Any) -> planning.StoredPlan | None:
    """`old` goes from broker 1 to 3 and `new` likewise: two replicas are copied, one wave each."""
    for path in ("/config/topics", "/config/brokers", znode.CONFIG_CHANGES):
        world.own.create(path, make_parents=True)
    world.topic("new", ((1, 2), 1, (1, 2)))
    waves = [[Target(OLD, ids(2, 3))], [Target(NEW, ids(2, 3))]]
    return planning.plan_reassignment(
        store, "demo", waves=waves, zookeeper=world.zookeeper(), now=NOW, throttle_bytes_per_s=100
    )


def log_dirs(broker: int, sizes: dict[TopicPartition, int], *room: int) -> LogDirs:
    return LogDirs(BrokerId(broker), sizes, room or None)


@pytest.fixture
def step():
    store, _, plan = planned(two_copies)
    return read_plan(store, plan.uri).steps[0]


def test_what_is_there_is_counted_against_the_largest_replica(step):
    found = [log_dirs(1, {OLD: 1000, NEW: 5}), log_dirs(2, {OLD: 900}), log_dirs(3, {OLD: 400})]
    assert copying(step, found) == Copying(400, 1000, Behind(OLD, BrokerId(3), 600))
    assert copying(step, [log_dirs(1, {OLD: 1000}), log_dirs(3, {OLD: 1000})]).farthest is None


def test_the_slowest_broker_says_how_long_it_takes(step):
    store, world, plan = planned(two_copies)
    observed = look_at(world.zookeeper(), read_plan(store, plan.uri).conditions)
    assert estimate_s(step, observed, [log_dirs(1, {OLD: 1000})], 100) == 10.0


@pytest.mark.parametrize(
    ("room", "found"),
    [
        pytest.param((1100,), None, id="a tenth more"),
        pytest.param((1099,), "1.1 kB free", id="less than a tenth more"),
        pytest.param((600, 600), "1.2 kB free, 600 bytes in one directory", id="in no directory"),
        pytest.param((), None, id="a broker that does not tell"),
    ],
)
def test_room_is_needed_for_what_is_copied_and_a_tenth_more(step, room, found):
    reasons = no_room(step, [log_dirs(1, {OLD: 1000}, 0), log_dirs(3, {}, *room)])
    assert [each.found for each in reasons] == ([] if found is None else [found])


def test_what_is_there_already_needs_no_room(step):
    assert no_room(step, [log_dirs(1, {OLD: 1000}), log_dirs(3, {OLD: 900}, 200)]) == ()


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 bytes"), (999, "999 bytes"), (1500, "1.5 kB"), (2.5e15, "2500.0 TB")]
)
def test_bytes_are_told_as_people_read_them(count, text):
    assert in_bytes(count) == text


# --------------------------------------------------------------------------------------------------- in a run


def answering(monkeypatch: pytest.MonkeyPatch, answers: Callable[[], list[LogDirs]]) -> list[set[int]]:
    """Brokers that answer so; which of them were asked."""
    asked: list[set[int]] = []

    def log_dirs_of(_: BrokersAsked, what: str, *, only: set[int]) -> tuple[LogDirs, ...]:
        asked.append(set(only))
        return tuple(answers())

    monkeypatch.setattr(copying_module, "log_dirs_of", log_dirs_of)
    return asked


def test_a_step_without_room_is_not_asked_for(monkeypatch):
    store, world, plan = planned(two_copies)
    brokers = Brokers(world, monkeypatch)
    asked = answering(monkeypatch, lambda: [log_dirs(1, {OLD: 1000}), log_dirs(3, {}, 10)])
    with pytest.raises(PlanStaleError, match=r"log directories of broker 3: expected room for 1.0 kB"):
        apply(store, plan, world, brokers=BROKERS)
    assert (brokers.asked, events(store, plan)[-1], asked) == ([], "refused", [{1, 3}])


def test_a_later_step_waits_for_room(monkeypatch, caplog):
    store, world, plan = planned(two_copies)
    Brokers(world, monkeypatch)
    room = [5000]
    answering(monkeypatch, lambda: [log_dirs(1, {OLD: 1000, NEW: 1000}), log_dirs(3, {}, room[-1])])
    put = store.put_new

    def full_after_the_first(key: str, data: bytes) -> None:
        put(key, data)
        if key.endswith("verified.json"):
            room.append(10 if len(room) == 1 else 5000)

    monkeypatch.setattr(store, "put_new", full_after_the_first)
    caplog.set_level(logging.INFO, "kafka_maintenance")
    apply(store, plan, world, brokers=BROKERS, stop=Waits(lambda: room.append(5000)), step_timeout_s=60.0)
    assert "waiting" in events(store, plan)
    assert "not asked yet, the cluster is not ready: log directories of broker 3" in caplog.text


def test_the_receipt_tells_estimate_and_time_taken(monkeypatch):
    store, world, plan = planned(two_copies)
    Brokers(world, monkeypatch)
    answering(monkeypatch, lambda: [log_dirs(1, {OLD: 1000, NEW: 3000}), log_dirs(3, {}, 90_000)])
    receipt = apply(store, plan, world, brokers=BROKERS)
    told = read_events(store, "demo", plan.digest)
    assert [each.detail["estimate_s"] for each in told if each.event is EventKind.INTENDED] == [10, 30]
    assert [each.detail["bytes"] for each in told if each.event is EventKind.INTENDED] == [1000, 3000]
    assert [each.detail["estimate_s"] for each in told if each.event is EventKind.VERIFIED] == [10, 30]
    assert "s, where 40 s were estimated from bytes and throttle" in receipt.text


def test_brokers_that_do_not_say_stop_nothing(monkeypatch, caplog):
    store, world, plan = planned(two_copies)
    Brokers(world, monkeypatch)

    def silent() -> list[LogDirs]:
        raise SizesUnknownError("the log directories of broker 3 expected")

    answering(monkeypatch, silent)
    apply(store, plan, world, brokers=BROKERS)
    assert events(store, plan)[-1] == "done"
    assert "bytes are not known: the log directories of broker 3 expected" in caplog.text


def test_a_line_tells_bytes_their_rate_and_what_is_farthest_behind(monkeypatch, caplog):
    clock = Clock()
    monkeypatch.setattr(progress_module, "monotonic", clock)
    caplog.set_level(logging.INFO, "kafka_maintenance")
    store, world, plan = planned(two_copies)
    found, recorded, there = read_plan(store, plan.uri), [], [0]
    answering(monkeypatch, lambda: [log_dirs(1, {OLD: 90_000}), log_dirs(3, {OLD: there[-1]})])
    record = SimpleNamespace(events=(), uri="memory:///r", append=lambda _, **detail: recorded.append(detail))
    teller = Teller(SimpleNamespace(log=record, brokers=BROKERS, name=lambda _: "step 1"), 0, found.steps[0])
    for size in (0, 30_000):
        there.append(size)
        teller.see(look_at(world.zookeeper(), found.conditions))
        clock.now_s += 60
    assert (
        "30.0 kB of 90.0 kB copied, 500 bytes/s, about 00:02 to go, farthest behind: old-0 on broker 3, 60.0 kB"
        in (caplog.messages[-1])
    )
    assert recorded[-1].items() >= {"bytes_copied": 30_000, "bytes": 90_000, "bytes_per_s": 500, "to_go_s": 120}.items()
