"""A run that is told to end, one whose session breaks, and one whose earlier process still holds the lock."""

import os
import signal
import threading
from collections.abc import Callable
from typing import Any

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.model.errors import SessionExpiredError, ZooKeeperUnreachableError
from controller_core.runtime.simulated.zookeeper import MemoryZooKeeper
from kafka_maintenance.operations.apply import attempt as attempt_module
from kafka_maintenance.operations.apply import stop as stop_module
from kafka_maintenance.operations.apply.cluster_lock import Holder, cluster_lock
from kafka_maintenance.operations.apply.execution import EXECUTION_PATH
from kafka_maintenance.operations.apply.plan import verify
from kafka_maintenance.operations.apply.stop import Stop, stopping_on_signals
from kafka_maintenance.operations.errors import ClusterBusyError, NotFinishedError, StoppedError
from kafka_maintenance.operations.record.receipts import read_events
from tests.kafka_maintenance.kafka_world import KafkaWorld
from tests.kafka_maintenance.operations.apply.applying import (
    apply,
    cluster,
    deletion,
    draining,
    elections,
    events,
    left_behind,
    moves,
    planned,
)

# ------------------------------------------------------------------------------------------------------ stopped


def test_a_run_that_is_stopped_before_it_asks_has_asked_nothing():
    store, world, plan = planned(moves)
    stop = Stop()
    stop.ask("Ctrl-C")
    with pytest.raises(
        StoppedError, match=r"step 1 of 2: stopped \(Ctrl-C\): nothing of it was asked; the lock is released"
    ):
        apply(store, plan, world, stop=stop)
    assert events(store, plan) == ["started", "stopped"]
    assert not world.wrote
    assert left_behind(world) == []


def test_a_run_that_is_stopped_while_it_waits_says_what_goes_on_and_the_next_one_ends_it():
    store, world, plan = planned(moves)
    world.hangs, stop = True, Stop()

    class Stops(MemoryStore):
        def put_new(self, key: str, data: bytes) -> None:
            super().put_new(key, data)
            if key.endswith("-requested.json"):
                stop.ask("SIGTERM")

    stopping = Stops()
    stopping._objects = store._objects
    with pytest.raises(StoppedError, match="what it asked for goes on at Kafka") as stopped:
        apply(stopping, plan, world, stop=stop, step_timeout_s=600.0)
    assert str(read_events(store, "demo", plan.digest)[-1].detail["under_way"]) == "True"
    assert "0004-stopped.json" in str(stopped.value)
    assert left_behind(world) == []
    assert world.own.exists(EXECUTION_PATH) is not None
    world.wake()
    apply(store, plan, world)
    assert len(world.wrote) == 2


@pytest.mark.parametrize(("number", "reason"), [(signal.SIGTERM, "SIGTERM"), (signal.SIGINT, "Ctrl-C")])
def test_a_signal_asks_for_the_end_and_a_second_one_does_what_it_always_did(number, reason):
    former = signal.getsignal(number)
    with stopping_on_signals(Stop()) as stop:
        assert stop.reason is None
        os.kill(os.getpid(), number)
        stop.wait(5)
        assert stop.reason == reason
        assert signal.getsignal(number) is former
    assert signal.getsignal(number) is former


def test_in_another_thread_no_signal_is_touched():
    former, seen = signal.getsignal(signal.SIGTERM), []

    def inside() -> None:
        with stopping_on_signals(Stop()):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [former]


def test_a_run_whose_supervisor_is_gone_ends(monkeypatch):
    stop, other = Stop(with_parent=True), Stop()
    assert stop.reason is None
    parent = os.getppid()
    monkeypatch.setattr(
        stop_module.os, "getppid", lambda: parent + 1
    )  # in a container the parent may be process 1 itself
    assert stop.reason == "the process that supervised it is gone"
    assert other.reason is None


# -------------------------------------------------------------------------------------------------- interrupted


class Expires:
    """A session that expires in its nth call, and is replaced by another one, as kazoo's client replaces it."""

    def __init__(self, world: KafkaWorld, *, in_call: int) -> None:
        self._world, self._session, self.left = world, world.zookeeper(), in_call

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._session, name)
        return self._counted(found) if callable(found) else found

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*arguments: Any, **named: Any) -> Any:
            self.left -= 1
            if self.left == 0:
                self._world.server.expire(self._session.session_id)
                self._session = self._world.zookeeper()
                raise SessionExpiredError("the session is over; open another one")
            return call(*arguments, **named)

        return counted


@pytest.mark.parametrize("make", [elections, moves, deletion, draining])
def test_a_session_that_expires_at_any_point_ends_no_run_that_has_begun(monkeypatch, make):
    monkeypatch.setattr(attempt_module, "RECONNECT_S", 0.0)
    in_call = expired = 0
    while True:
        store, world, plan = planned(make)
        in_call += 1
        session = Expires(world, in_call=in_call)
        try:
            apply(store, plan, world, zookeeper=session, away_timeout_s=600.0)
        except SessionExpiredError:
            assert events(store, plan) == []  # before the run took the lock
            continue
        assert verify(store=store, plan_uri=plan.uri, zookeeper=world.zookeeper()).done
        assert len(world.wrote) == (2 if make is moves else 0 if make is draining else 1)
        assert left_behind(world) == []
        if session.left > 0:
            break  # it did not come to that call any more
        expired += "interrupted" in events(store, plan)
    assert expired > 10


def test_a_zookeeper_that_stays_away_ends_the_run_with_a_sentence_and_an_event(monkeypatch):
    class Gone(MemoryZooKeeper):
        away = False

        def sync(self, path: str) -> None:
            if self.away:
                raise SessionExpiredError("the session is over")
            super().sync(path)

    store, world, plan = planned(moves)
    world.hangs, session = True, Gone(world.server)

    class Breaks(MemoryStore):
        def put_new(self, key: str, data: bytes) -> None:
            super().put_new(key, data)
            session.away = session.away or key.endswith("-requested.json")

    breaking = Breaks()
    breaking._objects = store._objects
    with pytest.raises(NotFinishedError) as ended:
        apply(breaking, plan, world, zookeeper=session)
    said = str(ended.value)
    assert f"plan {plan.digest[:12]} on 'demo', step 1 of 2: no session with the lock for 0 s" in said
    assert "0004-interrupted.json; run again to go on" in said
    assert events(store, plan) == ["started", "intended", "requested", "interrupted"]


def test_a_run_that_is_stopped_while_zookeeper_is_away_ends():
    stop = Stop()

    class Stops(MemoryZooKeeper):
        def multi(self, operations: Any) -> Any:
            if any("reassign" in each.path for each in operations):
                stop.ask("SIGTERM")
                raise SessionExpiredError("the session is over")
            return super().multi(operations)

    store, world, plan = planned(moves)
    with pytest.raises(StoppedError, match=r"stopped \(SIGTERM\) while ZooKeeper was away"):
        apply(store, plan, world, zookeeper=Stops(world.server), stop=stop, away_timeout_s=600.0)


def test_an_address_where_nobody_answers_is_told_at_once(monkeypatch):
    store, world, plan = planned(moves)

    class Nobody(MemoryZooKeeper):
        def sync(self, path: str) -> None:
            raise ZooKeeperUnreachableError("nobody answered")

    with pytest.raises(ZooKeeperUnreachableError):
        apply(store, plan, world, zookeeper=Nobody(world.server), away_timeout_s=600.0)
    assert events(store, plan) == []


# ------------------------------------------------------------------------------------------------------- orphan


def test_an_earlier_process_of_the_same_run_is_waited_for_and_named():
    world = cluster()
    holder = Holder("f" * 64, "run-7", "eve", "2026-11-21T02:59:00+00:00")
    with cluster_lock(world.zookeeper(), holder, wait_s=0):
        with pytest.raises(NotFinishedError, match="an earlier process of this run, 'run-7'"):
            cluster_lock(world.zookeeper(), holder, wait_s=0.01).__enter__()
        with pytest.raises(ClusterBusyError, match="run 'run-7' applies plan"):
            cluster_lock(world.zookeeper(), holder._replace(run="run-8"), wait_s=0.01).__enter__()


def test_the_lock_of_an_earlier_process_is_taken_as_soon_as_it_ends():
    world = cluster()
    holder = Holder("f" * 64, "run-7", "eve", "2026-11-21T02:59:00+00:00")
    earlier = world.zookeeper()
    waiting = threading.Event()

    class Waits(MemoryZooKeeper):
        def get(self, path: str, **watched: Any) -> Any:
            found = super().get(path, **watched)
            waiting.set()
            return found

    with cluster_lock(earlier, holder, wait_s=0):
        ends = threading.Thread(target=lambda: waiting.wait(30) and world.server.expire(earlier.session_id))
        ends.start()
        with cluster_lock(Waits(world.server), holder, wait_s=30) as fence:
            assert world.own.exists(fence.path) is not None
        ends.join()
    assert waiting.is_set()
