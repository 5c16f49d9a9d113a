"""Applying an approved plan: what is done, what is refused, what a killed run leaves, and what a second run does."""

from collections.abc import Callable
from contextlib import ExitStack, nullcontext
from datetime import UTC, datetime
from typing import Any

import pytest

from controller_core.adapters.memory import MemoryZooKeeper
from controller_core.adapters.object_store import MemoryStore
from controller_core.errors import (
    ConnectionLostError,
    InvalidPlanError,
    StoreUnwritableError,
)
from controller_core.model import BrokerId, TopicPartition
from controller_core.plan import plan_to_bytes
from controller_core.ports import ANY_VERSION
from controller_core.requests import Target, request_data
from controller_core.znodes import ControllerZnode, encode_cluster_id, encode_controller
from controller_core.znodes import paths as znode
from kafka_maintenance.operations import apply_step, planning
from kafka_maintenance.operations.apply import Receipt, apply_plan, verify
from kafka_maintenance.operations.cluster_lock import LOCK_PATH, Holder, cluster_lock
from kafka_maintenance.operations.errors import (
    BadInputError,
    ClusterBusyError,
    NotFinishedError,
    PlanChangedError,
    PlanStaleError,
    RefusedError,
)
from kafka_maintenance.operations.receipts import EventKind, ReceiptLog, read_events
from kafka_maintenance.operations.stored_plans import read_plan
from tests.plugins.kafka_world import KafkaWorld, three_brokers

NOW = datetime(2026, 11, 21, 3, 0, tzinfo=UTC)
ORDERS_0, ORDERS_1 = TopicPartition("orders", 0), TopicPartition("orders", 1)
CARRIED_OUT = ["started", "intended", "requested", "verified", "done"]


def cluster() -> KafkaWorld:
    """Two of three partitions of `orders` are not led by their preferred replica; `old` is nobody's friend."""
    world = three_brokers()
    world.topic("orders", ((1, 2, 3), 2, (1, 2, 3)), ((2, 3, 1), 3, (2, 3)), ((3, 1, 2), 3, (3, 1, 2)))
    world.topic("old", ((1, 2), 1, (1, 2)))
    return world


def elections(store: MemoryStore, world: KafkaWorld) -> planning.StoredPlan | None:
    return planning.plan_elections(store, "demo", zookeeper=world.zookeeper(), now=NOW)


def moves(store: MemoryStore, world: KafkaWorld) -> planning.StoredPlan | None:
    waves = [[Target(ORDERS_0, _ids(3, 2, 1))], [Target(ORDERS_1, _ids(1, 3, 2))]]
    return planning.plan_reassignment(store, "demo", waves=waves, zookeeper=world.zookeeper(), now=NOW)


def deletion(store: MemoryStore, world: KafkaWorld) -> planning.StoredPlan | None:
    return planning.plan_deletions(store, "demo", topics=["old"], zookeeper=world.zookeeper(), now=NOW)


def draining(store: MemoryStore, world: KafkaWorld) -> planning.StoredPlan | None:
    world.notify(ORDERS_0)
    world.hangs = True
    return planning.plan_drain(store, "demo", zookeeper=world.zookeeper(), now=NOW)


def planned(make: Callable[[MemoryStore, KafkaWorld], planning.StoredPlan | None]) -> tuple[Any, Any, Any]:
    store, world = MemoryStore(), cluster()
    plan = make(store, world)
    assert plan is not None
    assert not world.wrote
    return store, world, plan


def apply(store: Any, plan: planning.StoredPlan, world: KafkaWorld, **changed: Any) -> Receipt:
    arguments = {
        "store": store, "plan_uri": plan.uri, "approved_digest": plan.digest, "approver": "ann",
        "zookeeper": world.zookeeper(), "now": NOW, "step_timeout_s": 0.0, "settle_timeout_s": 0.0,
    }  # fmt: skip
    return apply_plan(**{**arguments, **changed})


def events(store: MemoryStore, plan: planning.StoredPlan) -> list[str]:
    return [str(event.event) for event in read_events(store, "demo", plan.digest)]


# ------------------------------------------------------------------------------------------------- carried out


@pytest.mark.parametrize(
    ("make", "wrote", "steps"),
    [
        pytest.param(elections, ["/admin/preferred_replica_election"], 1, id="elections"),
        pytest.param(moves, ["/admin/reassign_partitions"] * 2, 2, id="moves in two waves"),
        pytest.param(deletion, ["/admin/delete_topics/old"], 1, id="a deletion"),
        pytest.param(draining, [], 1, id="a forced re-election"),
    ],
)
def test_an_approved_plan_is_carried_out_and_verified(make, wrote, steps):
    store, world, plan = planned(make)
    receipt = apply(store, plan, world)
    assert world.wrote == wrote
    assert (receipt.already_applied, receipt.step_count) == (False, steps)
    assert events(store, plan) == ["started", *CARRIED_OUT[1:4] * steps, "done"]
    assert verify(store=store, plan_uri=plan.uri, zookeeper=world.zookeeper()).done


def test_elections_give_the_leadership_back():
    store, world, plan = planned(elections)
    apply(store, plan, world)
    assert [world.state("orders", number).leader for number in range(3)] == [1, 2, 3]


def test_moves_end_at_their_targets():
    store, world, plan = planned(moves)
    apply(store, plan, world)
    assert [world.replicas("orders", number) for number in range(2)] == [(3, 2, 1), (1, 3, 2)]


def test_a_rollback_leads_back():
    store, world, plan = planned(moves)
    apply(store, plan, world)
    apply(store, planning.load_plan(store, plan.rollback_uri), world)
    assert [world.replicas("orders", number) for number in range(2)] == [(1, 2, 3), (2, 3, 1)]


def test_after_a_rollback_the_same_moves_are_another_plan():
    store, world, plan = planned(moves)
    apply(store, plan, world)
    apply(store, planning.load_plan(store, plan.rollback_uri), world)
    again = moves(store, world)
    assert again is not None
    assert again.digest != plan.digest
    assert not apply(store, again, world).already_applied


def test_a_forced_re_election_drains_under_a_new_controller():
    store, world, plan = planned(draining)
    apply(store, plan, world)
    with world.zookeeper() as session:
        assert session.children(znode.ISR_CHANGE_NOTIFICATION) == []
        assert session.get(znode.CONTROLLER_EPOCH)[0] == b"2"


def test_lock_and_fence_are_gone_afterwards():
    store, world, plan = planned(elections)
    apply(store, plan, world)
    assert left_behind(world) == []


@pytest.mark.parametrize("make", [elections, moves, deletion, draining])
def test_the_same_plan_twice_writes_once(make):
    store, world, plan = planned(make)
    apply(store, plan, world)
    before, recorded = world.server.snapshot(), events(store, plan)
    again = apply(store, plan, world, approver="bob")
    assert again.already_applied
    assert "approved by 'ann'" in again.text
    assert (world.server.snapshot(), events(store, plan)) == (before, recorded)


# ----------------------------------------------------------------------------------------------------- refused


def migrating(world: KafkaWorld) -> None:
    world.own.create(znode.MIGRATION, b'{"version":0,"kraft_controller_id":-1}')


def kraft_claimed(world: KafkaWorld) -> None:
    for broker in list(world.sessions):
        world.kill(broker)
    office = ControllerZnode(broker_id=BrokerId(3000), kraft_controller_epoch=1)
    world.own.create(znode.CONTROLLER, encode_controller(office))


def another_cluster(world: KafkaWorld) -> None:
    world.own.set(znode.CLUSTER_ID, encode_cluster_id("AnotherClusterAltogetr"), ANY_VERSION)


def nobody_in_office(world: KafkaWorld) -> None:
    for broker in (1, 2, 3):
        world.kill(broker)


def moved_meanwhile(world: KafkaWorld) -> None:
    world._reassign(ORDERS_0, _ids(2, 1, 3))


def isr_shrunk(world: KafkaWorld) -> None:
    world.set_state("orders", 0, leader=2, isr=(2, 3))


def created_again(world: KafkaWorld) -> None:
    world.own.create(znode.delete_topic_path("old"))
    world.topic("old", ((1, 2), 1, (1, 2)))


def drained_by_itself(world: KafkaWorld) -> None:
    for name in world.own.children(znode.ISR_CHANGE_NOTIFICATION):
        world.own.delete(f"{znode.ISR_CHANGE_NOTIFICATION}/{name}", ANY_VERSION)


def another_controller(world: KafkaWorld) -> None:
    world.own.delete(znode.CONTROLLER, ANY_VERSION)
    world.notify(ORDERS_0)


def broker_gone(world: KafkaWorld) -> None:
    world.kill(3)


@pytest.mark.parametrize(
    ("make", "disturb", "said"),
    [
        pytest.param(elections, migrating, "KRaft", id="a migration to KRaft has begun"),
        pytest.param(elections, kraft_claimed, "kraftControllerEpoch 1", id="KRaft rules"),
        pytest.param(elections, another_cluster, "another cluster", id="the chroot holds another cluster"),
        pytest.param(elections, nobody_in_office, "/controller", id="nobody is in office"),
        pytest.param(elections, moved_meanwhile, "orders-0: expected replicas [1, 2, 3]", id="replicas moved"),
        pytest.param(elections, isr_shrunk, "found leader 2, ISR [2, 3]", id="the ISR shrank"),
        pytest.param(moves, moved_meanwhile, "found replicas [2, 1, 3]", id="moved by somebody else"),
        pytest.param(moves, broker_gone, "found no broker [3]", id="a target broker died"),
        pytest.param(deletion, created_again, "created at zxid", id="deleted and created again"),
        pytest.param(draining, drained_by_itself, "nothing to do", id="the controller woke up"),
        pytest.param(draining, another_controller, "another controller", id="another controller was elected"),
    ],
)
def test_a_stale_plan_is_refused_and_nothing_is_asked(make, disturb, said):
    store, world, plan = planned(make)
    disturb(world)
    wrote, epoch = list(world.wrote), world.own.get(znode.CONTROLLER_EPOCH)
    with pytest.raises(PlanStaleError) as refused:
        apply(store, plan, world)
    assert said in str(refused.value)
    assert world.wrote == wrote
    assert world.own.get(znode.CONTROLLER_EPOCH) == epoch
    assert world.own.exists(LOCK_PATH) is None
    assert "requested" not in events(store, plan)


def test_a_refusal_is_recorded_with_its_reasons():
    store, world, plan = planned(elections)
    isr_shrunk(world)
    with pytest.raises(PlanStaleError):
        apply(store, plan, world)
    last = read_events(store, "demo", plan.digest)[-1]
    assert (last.event, last.approver) == ("refused", "ann")
    assert "orders-0" in last.detail["reasons"][0]


@pytest.mark.parametrize(
    ("make", "path"),
    [
        pytest.param(elections, znode.PREFERRED_REPLICA_ELECTION, id="an election is pending"),
        pytest.param(moves, znode.REASSIGN_PARTITIONS, id="a reassignment is pending"),
    ],
)
def test_another_tools_request_is_left_alone(make, path):
    store, world, plan = planned(make)
    world.hangs = True
    world.own.create(path, b'{"version":1,"partitions":[{"topic":"other","partition":0}]}')
    with pytest.raises(ClusterBusyError, match='"topic":"other"'):
        apply(store, plan, world)
    assert b"other" in world.own.get(path)[0]


def test_an_altered_plan_is_refused():
    store, world, plan = planned(elections)
    key = plan.uri.removeprefix(f"{store.uri}/")
    store.put(key, store.get(key).replace(b"[1,2,3]", b"[1,3,2]"))
    with pytest.raises(InvalidPlanError, match="was altered"):
        apply(store, plan, world)
    assert not world.wrote


def test_a_plan_altered_with_a_new_digest_is_not_the_approved_one():
    store, world, plan = planned(elections)
    world.set_state("orders", 1, leader=2, isr=(2, 3))
    other = elections(store, world)
    assert other is not None
    store.put(plan.uri.removeprefix(f"{store.uri}/"), plan_to_bytes(read_plan(store, other.uri)))
    with pytest.raises(PlanChangedError, match=f"approved digest '{plan.digest[:12]}'"):
        apply(store, plan, world)
    assert not world.wrote


def test_a_plan_that_nobody_approved_is_refused():
    store, world, plan = planned(elections)
    with pytest.raises(PlanChangedError, match="nobody is named"):
        apply(store, plan, world, approver=" ")
    assert not world.wrote


def test_a_missing_plan_is_bad_input():
    store, world, plan = planned(elections)
    with pytest.raises(BadInputError, match="no such object"):
        apply(store, plan, world, plan_uri=f"{store.uri}/v1/cluster=demo/plans/none.json")


def test_a_tree_without_kafka_is_bad_input():
    store, world, plan = planned(elections)
    with pytest.raises(BadInputError, match="check host and chroot"):
        apply(store, plan, world, zookeeper=MemoryZooKeeper())


def test_an_unwritable_store_stops_everything_before_the_first_request():
    class ReadOnly(MemoryStore):
        def put_new(self, key: str, data: bytes) -> None:
            raise StoreUnwritableError(f"object {key!r} not written: the store is read-only")

    store, world, plan = planned(elections)
    full = ReadOnly()
    full._objects = store._objects
    with pytest.raises(StoreUnwritableError):
        apply(full, plan, world)
    assert not world.wrote
    assert world.own.exists(LOCK_PATH) is None


# ------------------------------------------------------------------------------------------------ two at once


def test_a_second_run_for_the_cluster_is_refused_by_name():
    store, world, plan = planned(elections)
    other = Holder("f" * 64, "run-7", "eve", "2026-11-21T02:59:00+00:00")
    with cluster_lock(world.zookeeper(), other, wait_s=0), pytest.raises(ClusterBusyError) as refused:
        apply(store, plan, world)
    assert "run 'run-7' applies plan ffffffffffff, approved by 'eve'" in str(refused.value)
    assert not world.wrote
    assert events(store, plan) == []


def left_behind(world: KafkaWorld) -> list[str]:
    """What of lock and fence stands."""
    return [path for path in world.server.snapshot() if path.startswith(LOCK_PATH)]


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


# ------------------------------------------------------------------------------------------- killed and resumed


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
    with pytest.raises(ClusterBusyError, match="another tool's request is pending"):
        apply(store, plan, world)
    world.own.delete(znode.PREFERRED_REPLICA_ELECTION, ANY_VERSION)
    world.hangs = False
    apply(store, plan, world)
    assert events(store, plan) == ["started", "intended", "refused", "started", "refused", *CARRIED_OUT]


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
        apply(killing(store, 4), plan, world)
    isr_shrunk(world)
    with pytest.raises(NotFinishedError, match="perhaps asked for by an earlier run, but"):
        apply(store, plan, world)
    assert not world.wrote


@pytest.mark.parametrize("make", [moves, deletion])
def test_what_somebody_has_withdrawn_is_not_asked_again(make):
    store, world, plan = planned(make)
    world.hangs = True
    with pytest.raises(NotFinishedError):
        apply(store, plan, world)
    (asked,) = world.wrote
    world.own.delete(asked, ANY_VERSION)
    world.hangs = False
    for _ in range(2):
        with pytest.raises(RefusedError, match="it was asked and is undone"):
            apply(store, plan, world)
    assert world.wrote == [asked]
    assert events(store, plan)[3:] == ["unfinished", "started", "refused", "started", "refused"]


def test_a_reassignment_that_is_cancelled_meanwhile_is_told_at_once():
    store, world, plan = planned(moves)
    world.hangs = True
    cancelling = during("requested", store, lambda: world.own.delete(znode.REASSIGN_PARTITIONS, ANY_VERSION))
    with pytest.raises(NotFinishedError, match=r"orders-0: expected replicas \[3, 2, 1\]"):
        apply(cancelling, plan, world, step_timeout_s=600.0)


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


class Killed(BaseException):
    """The process is gone: no handler of ours may stop it."""


def killing(store: MemoryStore, after: int) -> MemoryStore:
    """The same store; the process dies right after, or right before, its nth event is written."""

    class Dies(MemoryStore):
        count = 0

        def put_new(self, key: str, data: bytes) -> None:
            self.count += 1
            if self.count * 2 - 1 == after:
                raise Killed
            super().put_new(key, data)
            if self.count * 2 == after:
                raise Killed

    dying = Dies()
    dying._objects = store._objects
    return dying


@pytest.mark.parametrize("make", [elections, moves, deletion, draining])
@pytest.mark.parametrize("after", range(1, 17))
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
    with pytest.raises(ConnectionLostError):
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


def test_an_election_in_vain_is_named():
    store, world, plan = planned(elections)
    world.refuses = {ORDERS_1}
    with pytest.raises(NotFinishedError, match="orders-1: expected leader 2, found leader 3") as unfinished:
        apply(store, plan, world)
    assert "orders-0" not in str(unfinished.value)
    assert not verify(store=store, plan_uri=plan.uri, zookeeper=world.zookeeper()).done


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
    monkeypatch.setattr(apply_step, "RECHECK_S", 0.001)
    store, world, plan = planned(elections)
    session = Unsteady(world.server)
    breaking = during("requested", store, lambda: setattr(session, "breaks", 3))
    with nullcontext() if timeout_s else pytest.raises(ConnectionLostError):
        apply(breaking, plan, world, zookeeper=session, step_timeout_s=timeout_s)
    assert len(caplog.messages) == (3 if timeout_s else 0)
    assert (events(store, plan)[-1] == "done") == bool(timeout_s)


def test_a_long_wait_sets_one_watch(monkeypatch):
    monkeypatch.setattr(apply_step, "RECHECK_S", 0.001)
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


def test_a_deletion_that_kafka_drops_is_told_at_once():
    store, world, plan = planned(deletion)
    world.deletes = False
    with pytest.raises(NotFinishedError, match=r"look at delete\.topic\.enable"):
        apply(store, plan, world, step_timeout_s=600.0)
    assert events(store, plan)[-1] == "unfinished"


def _ids(*brokers: int) -> tuple[BrokerId, ...]:
    return tuple(map(BrokerId, brokers))
