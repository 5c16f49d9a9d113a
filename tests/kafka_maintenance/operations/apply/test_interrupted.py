"""Applying an approved plan: two runs at once, what a killed run leaves, and what the next one does."""

from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from typing import Any

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.model.errors import ConnectionLostError
from controller_core.plans.request_znodes import request_data
from controller_core.ports.zookeeper import ANY_VERSION
from controller_core.runtime.simulated.zookeeper import MemoryZooKeeper
from controller_core.znodes import paths as znode
from kafka_maintenance.operations.apply import wait as apply_wait
from kafka_maintenance.operations.apply.cluster_lock import LOCK_PATH, Holder, cluster_lock
from kafka_maintenance.operations.apply.plan import verify
from kafka_maintenance.operations.errors import ClusterBusyError, NotFinishedError
from kafka_maintenance.operations.plans.store import read_plan
from kafka_maintenance.operations.record.receipts import EventKind, ReceiptLog
from tests.kafka_maintenance.kafka_world import KafkaWorld
from tests.kafka_maintenance.operations.apply.applying import (
    CARRIED_OUT,
    NOW,
    ORDERS_0,
    ORDERS_1,
    apply,
    cluster,
    deletion,
    draining,
    elections,
    events,
    isr_shrunk,
    left_behind,
    moves,
    planned,
)
from tests.kafka_maintenance.operations.apply.killed_run import Killed, killing


def test_a_second_run_for_the_cluster_is_refused_by_name():
    store, world, plan = planned(elections)
    other = Holder("f" * 64, "run-7", "eve", "2026-11-21T02:59:00+00:00")
    with cluster_lock(world.zookeeper(), other, wait_s=0), pytest.raises(ClusterBusyError) as refused:
        apply(store, plan, world)
    assert "run 'run-7' applies plan ffffffffffff, approved by 'eve'" in str(refused.value)
    assert not world.wrote
    assert events(store, plan) == []


class Reopening:
    """A session that is replaced in silence once it has expired, as kazoo's client replaces it."""

    def __init__(self, world: KafkaWorld) -> None:
        self._world, self._session = world, world.zookeeper()

    def expire(self) -> None:
        self._session.close()
        self._session = self._world.zookeeper()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._session, name)


def during(event: str, store: MemoryStore, act: Callable[[], None]) -> MemoryStore:
    """The same store; `act` happens while it writes this event."""

    class Slow(MemoryStore):
        def put_new(self, key: str, data: bytes) -> None:
            super().put_new(key, data)
            if key.endswith(f"-{event}.json"):
                act()

    slow = Slow()
    slow._objects = store._objects
    return slow


def lock_removed(world: KafkaWorld, session: Reopening) -> None:
    world.own.delete(LOCK_PATH, ANY_VERSION)


def session_replaced(world: KafkaWorld, session: Reopening) -> None:
    session.expire()


@pytest.mark.parametrize("lose", [lock_removed, session_replaced])
def test_a_run_that_lost_its_lock_asks_nothing_while_another_run_holds_it(lose):
    store, world, plan = planned(elections)
    session, successor = Reopening(world), ExitStack()
    holder = Holder("f" * 64, "run-7", "eve", "2026-11-21T02:59:00+00:00")

    def superseded() -> None:
        lose(world, session)
        successor.enter_context(cluster_lock(world.zookeeper(), holder, wait_s=0))

    with successor, pytest.raises(NotFinishedError, match="lock /admin/kafka_maintenance_lock was lost"):
        apply(during("intended", store, superseded), plan, world, zookeeper=session)
    assert not world.wrote
    assert left_behind(world) == []
    assert apply(store, plan, world).text.startswith("plan carried out")


@pytest.mark.parametrize("make", [elections, moves, deletion])
def test_a_run_that_lost_its_lock_while_it_waits_records_nothing_beside_the_next_one(make):
    store, world, plan = planned(make)
    session, world.hangs = Reopening(world), True

    def superseded() -> None:
        session.expire()
        with pytest.raises(NotFinishedError, match="not seen in time"):
            apply(store, plan, world)

    with pytest.raises(NotFinishedError, match="not waited for any longer: the session and with it the lock"):
        apply(during("requested", store, superseded), plan, world, zookeeper=session)
    assert events(store, plan)[3:] == ["started", "unfinished", "interrupted"]
    world.wake()
    assert apply(store, plan, world).text.startswith("plan carried out")


def test_a_run_that_lost_its_lock_leaves_that_of_its_successor():
    world = cluster()
    holder, session = Holder("f" * 64, "run-7", "eve", "2026-11-21T02:59:00+00:00"), Reopening(world)
    with ExitStack() as successor:
        with cluster_lock(session, holder, wait_s=0):
            session.expire()
            fence = successor.enter_context(cluster_lock(world.zookeeper(), holder, wait_s=0))
        assert left_behind(world) == [LOCK_PATH, fence.path]
    assert left_behind(world) == []


@pytest.mark.parametrize("arrives", [True, False], ids=["the lock was taken", "the request was lost"])
def test_a_lock_whose_answer_was_lost_is_released(arrives):
    store, world, plan = planned(elections)
    with pytest.raises(ConnectionLostError):
        apply(store, plan, world, zookeeper=Flaky(world, loses=1, arrives=arrives))
    assert left_behind(world) == []
    assert events(store, plan) == []


def foreign_request(world: KafkaWorld) -> Callable[[], None]:
    def ask() -> None:
        world.hangs = True
        data = b'{"version":1,"partitions":[{"topic":"other","partition":0}]}'
        world.own.create(znode.PREFERRED_REPLICA_ELECTION, data)

    return ask


def test_what_another_tools_request_refused_is_asked_once_that_is_gone():
    store, world, plan = planned(elections)
    with pytest.raises(ClusterBusyError, match="changed in the last moment"):
        apply(during("intended", store, foreign_request(world)), plan, world)
    with pytest.raises(ClusterBusyError, match=r"expected no znode, found .*other"):
        apply(store, plan, world)
    world.own.delete(znode.PREFERRED_REPLICA_ELECTION, ANY_VERSION)
    world.hangs = False
    apply(store, plan, world)
    assert events(store, plan) == ["started", "intended", "refused", "started", "refused", *CARRIED_OUT]


def test_a_reassignment_that_begins_after_the_check_keeps_the_deletion_from_being_asked():
    store, world, plan = planned(deletion)
    begin = during("intended", store, lambda: world.reassigning("old", 0, adding=(2,)))
    with pytest.raises(ClusterBusyError, match="/brokers/topics/old: it changed in the last moment"):
        apply(begin, plan, world)
    assert world.wrote == []
    assert events(store, plan)[-1] == "refused"


def test_our_own_request_that_arrived_late_is_waited_for():
    store, world, plan = planned(elections)

    def arrive() -> None:
        world.hangs = True
        (request,) = read_plan(store, plan.uri).effects
        world.own.create(znode.PREFERRED_REPLICA_ELECTION, request_data(request))

    with pytest.raises(NotFinishedError, match="our own request stands there"):
        apply(during("intended", store, arrive), plan, world)
    assert events(store, plan) == ["started", "intended", "requested", "unfinished"]
    world.wake()
    assert not apply(store, plan, world).already_applied
    assert len(world.wrote) == 1


def test_what_was_only_intended_is_not_said_to_have_been_asked():
    store, world, plan = planned(elections)
    with pytest.raises(Killed):
        apply(killing(store, 8), plan, world)
    isr_shrunk(world)
    with pytest.raises(NotFinishedError, match="perhaps asked for by an earlier run, but"):
        apply(store, plan, world)
    assert not world.wrote


def test_what_ends_between_two_reads_is_not_taken_for_withdrawn():
    class EndsMeanwhile(MemoryZooKeeper):
        def get(self, path: str, **watched: Any) -> Any:
            # In the first look at the step the topics were read, the requests come next.
            if path == znode.CONTROLLER_EPOCH and world.hangs and left_behind(world):
                world.wake()
            return super().get(path, **watched)

    store, world, plan = planned(moves)
    world.hangs = True
    with pytest.raises(NotFinishedError):
        apply(store, plan, world)
    apply(store, plan, world, zookeeper=EndsMeanwhile(world.server))
    assert "refused" not in events(store, plan)


def test_an_election_in_vain_is_tried_again():
    store, world, plan = planned(elections)
    world.refuses = {ORDERS_0, ORDERS_1}
    with pytest.raises(NotFinishedError):
        apply(store, plan, world)
    world.refuses = set()
    apply(store, plan, world)
    assert world.wrote == ["/admin/preferred_replica_election"] * 2


@pytest.mark.parametrize("make", [elections, moves, deletion, draining])
@pytest.mark.parametrize("after", range(1, 49))
def test_a_run_killed_at_any_event_is_finished_by_the_next(make, after):
    store, world, plan = planned(make)
    session = world.zookeeper()
    try:
        apply(killing(store, after), plan, world, zookeeper=session)
    except Killed:
        session.close()
    apply(store, plan, world)
    assert events(store, plan)[-1] == "done"
    assert verify(store=store, plan_uri=plan.uri, zookeeper=world.zookeeper()).done
    assert len(world.wrote) == (2 if make is moves else 0 if make is draining else 1)


class Flaky(MemoryZooKeeper):
    """Loses the connection in its nth transaction: before it takes effect, or after."""

    def __init__(self, world: KafkaWorld, *, loses: int, arrives: bool) -> None:
        super().__init__(world.server)
        self.left, self.arrives = loses, arrives

    def multi(self, operations: Any) -> Any:
        self.left -= 1
        if self.left:
            return super().multi(operations)
        if self.arrives:
            super().multi(operations)
        raise ConnectionLostError("connection broke; whether the write happened is unknown")


@pytest.mark.parametrize("arrives", [True, False], ids=["the request arrived", "the request was lost"])
@pytest.mark.parametrize("make", [elections, moves, deletion, draining])
def test_a_lost_answer_is_looked_up_by_the_next_run(make, arrives):
    store, world, plan = planned(make)
    session = Flaky(world, loses=2, arrives=arrives)  # the first transaction takes the lock
    with pytest.raises(NotFinishedError, match=r"step 1 of \d: no session with the lock"):
        apply(store, plan, world, zookeeper=session)
    session.close()
    apply(store, plan, world)
    assert verify(store=store, plan_uri=plan.uri, zookeeper=world.zookeeper()).done
    assert len(world.wrote) == (2 if make is moves else 0 if make is draining else 1)


def test_a_hanging_controller_leaves_the_request_and_a_record():
    store, world, plan = planned(elections)
    world.hangs = True
    with pytest.raises(NotFinishedError, match="run again to go on waiting") as unfinished:
        apply(store, plan, world)
    assert "our own request stands there" in str(unfinished.value)
    assert "another tool" not in str(unfinished.value)
    assert events(store, plan) == ["started", "intended", "requested", "unfinished"]
    world.wake()
    assert not apply(store, plan, world).already_applied
    assert world.wrote == ["/admin/preferred_replica_election"]


class Unsteady(MemoryZooKeeper):
    """Its next `breaks` fresh reads meet a broken connection."""

    breaks = 0

    def sync(self, path: str) -> None:
        if self.breaks:
            self.breaks -= 1
            raise ConnectionLostError("connection broke; a server is restarted")
        super().sync(path)


@pytest.mark.parametrize("timeout_s", [pytest.param(60.0, id="in time"), pytest.param(0.0, id="too late")])
def test_a_broken_connection_ends_no_wait_before_its_time(monkeypatch, caplog, timeout_s):
    monkeypatch.setattr(apply_wait, "RECHECK_S", 0.001)
    store, world, plan = planned(elections)
    session = Unsteady(world.server)
    breaking = during("requested", store, lambda: setattr(session, "breaks", 3))
    with nullcontext() if timeout_s else pytest.raises(NotFinishedError):
        apply(breaking, plan, world, zookeeper=session, step_timeout_s=timeout_s)
    assert sum("still waiting" in message for message in caplog.messages) == (3 if timeout_s else 0)
    assert (events(store, plan)[-1] == "done") == bool(timeout_s)


def test_servers_that_do_not_come_back_end_the_wait_and_then_the_run(monkeypatch):
    """A dead ensemble ends no session: the client never hears of it."""
    monkeypatch.setattr(apply_wait, "RECHECK_S", 0.001)
    monkeypatch.setattr(apply_wait, "SESSION_TIMEOUT_S", 0.05)
    store, world, plan = planned(elections)
    session = Unsteady(world.server)
    breaking = during("requested", store, lambda: setattr(session, "breaks", 100_000))
    with pytest.raises(NotFinishedError, match="no session with the lock for 0 s"):
        apply(breaking, plan, world, zookeeper=session, step_timeout_s=10.0)
    assert events(store, plan)[-2:] == ["requested", "interrupted"]


def test_a_long_wait_sets_one_watch(monkeypatch):
    monkeypatch.setattr(apply_wait, "RECHECK_S", 0.001)
    store, world, plan = planned(elections)
    session, world.hangs = world.zookeeper(), True
    with pytest.raises(NotFinishedError):
        apply(store, plan, world, zookeeper=session, step_timeout_s=0.1)
    assert len(session._data_watches[znode.PREFERRED_REPLICA_ELECTION]) == 1


def test_a_put_that_was_repeated_finds_its_own_event():
    class Repeating(MemoryStore):
        def put_new(self, key: str, data: bytes) -> None:
            super().put_new(key, data)
            super().put_new(key, data)

    store, world, plan = planned(elections)
    repeating = Repeating()
    repeating._objects = store._objects
    apply(repeating, plan, world)
    assert events(store, plan) == CARRIED_OUT


def test_an_event_of_another_run_is_not_ours():
    store, _, plan = planned(elections)
    now = {"cluster": "demo", "digest": plan.digest, "approver": "ann", "now": NOW}
    first, second = (ReceiptLog(store, run=run, **now) for run in ("run-1", "run-2"))
    first.append(EventKind.STARTED)
    with pytest.raises(ClusterBusyError, match="another run of this plan wrote it"):
        second.append(EventKind.STARTED)
