"""Bytes of a step: how far it is, how long it may take, and room for it before it is asked for."""

import logging
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.plans.request_znodes import Target
from controller_core.plans.rules import ThrottleBand
from controller_core.znodes import paths as znode
from kafka_maintenance.operations.apply import copying as copying_module
from kafka_maintenance.operations.apply import parked
from kafka_maintenance.operations.apply import progress as progress_module
from kafka_maintenance.operations.apply.copying import Copied, copying, in_bytes, no_room
from kafka_maintenance.operations.apply.progress import Teller
from kafka_maintenance.operations.apply.run import look_at
from kafka_maintenance.operations.apply.stop import Stop
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.cluster.log_dirs import LogDirs, SizesUnknownError
from kafka_maintenance.operations.errors import PlanStaleError, StoppedError
from kafka_maintenance.operations.plans.reassignment import plan_reassignment
from kafka_maintenance.operations.plans.store import StoredPlan, read_plan
from kafka_maintenance.operations.record.receipts import EventKind, read_events
from tests.broker_ids import ids
from tests.kafka_maintenance.operations.apply.applying import NOW, apply, events, planned
from tests.kafka_maintenance.operations.apply.asked_brokers import BROKERS, Brokers
from tests.kafka_maintenance.operations.apply.killed_run import Killed
from tests.kafka_maintenance.operations.apply.waiting import Clock, Waits

OLD, NEW = TopicPartition("old", 0), TopicPartition("new", 0)


def two_copies(store: Any, world: Any) -> StoredPlan | None:
    """`old` goes from broker 1 to 3 and `new` likewise: two replicas are copied, one wave each."""
    for path in ("/config/topics", "/config/brokers", znode.CONFIG_CHANGES):
        world.own.create(path, make_parents=True)
    world.topic("new", ((1, 2), 1, (1, 2)))
    waves = [[Target(*OLD, ids(2, 3))], [Target(*NEW, ids(2, 3))]]
    return plan_reassignment(store, "demo", waves=waves, zookeeper=world.zookeeper(), now=NOW, throttle_bytes_per_s=100)


def log_dirs(broker: int, sizes: dict[TopicPartition, int], *room: int) -> LogDirs:
    return LogDirs(BrokerId(broker), sizes, room or None)


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying_module, "SAMPLE_S", 0.0)


@pytest.fixture
def step():
    store, _, plan = planned(two_copies)
    return read_plan(store, plan.uri).steps[0]


def test_what_is_there_is_counted_against_the_largest_replica(step):
    found = [log_dirs(1, {OLD: 1000, NEW: 5}), log_dirs(2, {OLD: 900}), log_dirs(3, {OLD: 400})]
    told = copying(step, found)
    assert (told.copied, told.total) == (400, 1000)
    assert told.farthest == Copied(OLD, BrokerId(3), 400, 1000)
    assert copying(step, [log_dirs(1, {OLD: 1000}), log_dirs(3, {OLD: 1000})]).farthest is None


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
    assert (brokers.asked, events(store, plan)[-1], asked) == ([], "refused", [{1, 3}] * 2)


@pytest.mark.parametrize("by", ["stop", "window"])
def test_a_stop_or_a_window_that_closes_while_brokers_are_asked_keeps_the_step_from_being_asked_for(monkeypatch, by):
    store, world, plan = planned(two_copies)
    brokers, stop, closed = Brokers(world, monkeypatch), Stop(), list[str]()

    def answers() -> list[LogDirs]:
        if by == "stop":
            stop.ask("Ctrl-C")
        else:
            closed.append("it is noon")
        return [log_dirs(1, {OLD: len(asked)}), log_dirs(3, {})]  # so fast that the throttle would be called too low

    asked = answering(monkeypatch, answers)
    with pytest.raises(StoppedError if by == "stop" else PlanStaleError, match=r"nothing of it was asked|it is noon"):
        apply(store, plan, world, brokers=BROKERS, stop=stop, window=lambda: closed[-1] if closed else None)
    assert (brokers.asked, events(store, plan)) == ([], ["started", "stopped" if by == "stop" else "refused"])


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

    clock = Clock()

    def freed() -> None:
        clock.now_s += parked.LOOK_S
        if room[-1] == 10:
            room.append(5000)

    monkeypatch.setattr(store, "put_new", full_after_the_first)
    monkeypatch.setattr(parked, "monotonic", clock)
    caplog.set_level(logging.INFO, "kafka_maintenance")
    apply(store, plan, world, brokers=BROKERS, stop=Waits(*[freed] * 10), step_timeout_s=60.0)
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
    run = SimpleNamespace(log=record, plan=found, brokers=BROKERS, name=lambda _: "step 1", tell=lambda *_: None)
    teller = Teller(run, 0, found.steps[0])
    for size in (0, 30_000):
        there.append(size)
        teller.see(look_at(world.zookeeper(), found.conditions))
        clock.now_s += 60
    assert (
        "30.0 kB of 90.0 kB copied, 500 bytes/s, about 00:02 to go, farthest behind: old-0 on broker 3, 60.0 kB"
        in (caplog.messages[-1])
    )
    assert recorded[-1]["lagging"][0] == {
        **OLD._asdict(),
        "broker": 3,
        "is_live": True,
        "bytes_copied": 30_000,
        "bytes": 90_000,
    }
    assert recorded[-1].items() >= {"bytes_copied": 30_000, "bytes": 90_000, "bytes_per_s": 500, "to_go_s": 120}.items()


# ------------------------------------------------------------------------------------------------- the throttle


def in_band(store: Any, world: Any) -> StoredPlan | None:
    """Four steps under a throttle between 100 and 350 bytes per second."""
    for path in ("/config/topics", "/config/brokers", znode.CONFIG_CHANGES):
        world.own.create(path, make_parents=True)
    waves = [[Target(*OLD, ids(*replicas))] for replicas in ((2, 3), (3, 1), (1, 2), (2, 3))]
    return plan_reassignment(
        store, "demo", waves=waves, zookeeper=world.zookeeper(), now=NOW, throttle_bytes_per_s=ThrottleBand(100, 350)
    )


def rates(store: Any, plan: Any) -> list[int]:
    told = read_events(store, "demo", plan.digest)
    return [each.detail["bytes_per_s"] for each in told if each.event is EventKind.THROTTLED]


def test_the_rate_of_a_band_doubles_from_step_to_step_up_to_its_limit():
    store, world, plan = planned(in_band)
    apply(store, plan, world)
    assert rates(store, plan) == [100, 200, 350, 350]
    assert "The rate begins at 100 bytes per second." in plan.markdown


def test_the_rate_halves_after_a_step_that_the_next_one_had_to_wait_for(monkeypatch):
    store, world, plan = planned(in_band)
    waited: list[int] = []

    def put_new(key: str, data: bytes, put: Any = store.put_new) -> None:
        put(key, data)
        if key.endswith("verified.json") and rates(store, plan) == [100, 200, 350]:
            world.topic("thin", ((1, 2), 1, (1,)))

    monkeypatch.setattr(store, "put_new", put_new)

    def mend() -> None:
        waited.append(1)
        world.set_state("thin", 0, leader=1, isr=(1, 2))

    apply(store, plan, world, stop=Waits(mend), step_timeout_s=60.0)
    assert (rates(store, plan), waited) == ([100, 200, 350, 175], [1])


def test_a_step_that_is_begun_anew_keeps_its_rate(monkeypatch):
    store, world, plan = planned(in_band)
    session = world.zookeeper()

    def dies(key: str, data: bytes, put: Any = store.put_new) -> None:
        put(key, data)
        if key.endswith("-throttled.json") and rates(store, plan) == [100, 200]:
            raise Killed

    with monkeypatch.context() as patched:
        patched.setattr(store, "put_new", dies)
        with pytest.raises(Killed):
            apply(store, plan, world, zookeeper=session)
    session.close()
    apply(store, plan, world)
    assert rates(store, plan) == [100, 200, 200, 350, 350]


def growing(monkeypatch: pytest.MonkeyPatch, each_s: int) -> None:
    """`old` grows by so many bytes a second."""
    clock = Clock()
    monkeypatch.setattr(copying_module, "monotonic", clock)
    monkeypatch.setattr(Waits, "wait", lambda _, seconds: setattr(clock, "now_s", clock.now_s + seconds))
    monkeypatch.setattr(copying_module, "SAMPLE_S", 5.0)
    answering(monkeypatch, lambda: [log_dirs(1, {OLD: int(clock.now_s * each_s)}), log_dirs(3, {})])


def test_a_band_is_never_left_below_twice_what_is_written(monkeypatch):
    store, world, plan = planned(in_band)
    Brokers(world, monkeypatch)
    growing(monkeypatch, 120)
    apply(store, plan, world, brokers=BROKERS, stop=Waits())
    assert rates(store, plan)[0] == 240


@pytest.mark.parametrize("make", [two_copies, in_band])
def test_a_throttle_below_what_is_written_is_refused_before_anything_is_set(monkeypatch, make):
    store, world, plan = planned(make)
    brokers = Brokers(world, monkeypatch)
    growing(monkeypatch, 360)
    with pytest.raises(
        PlanStaleError, match=r"throttle of broker 3: expected more than 360 bytes/s, .*plan with a higher"
    ):
        apply(store, plan, world, brokers=BROKERS, stop=Waits())
    assert (brokers.asked, rates(store, plan)) == ([], [])
