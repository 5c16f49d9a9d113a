"""The seconds as active controller, on a tree in memory and simulated brokers behind sockets."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from queue import Queue
from typing import Any

import pytest

from controller_core.adapters.brokers.access import PLAIN_ACCESS
from controller_core.adapters.brokers.channels import BrokerAnswered, ChannelSettings, TcpChannels
from controller_core.model.dialect import dialect_for
from controller_core.model.errors import ConnectionLostError
from controller_core.model.partitions import BrokerId, LeaderAndIsr, ReplicaAssignment, TopicPartition
from controller_core.plans.request_znodes import LeaderMove
from controller_core.ports.zookeeper import ANY_VERSION
from controller_core.runtime.kafka_zk.adapter import KafkaZk
from controller_core.runtime.kafka_zk.base import formats_of
from controller_core.runtime.simulated.zookeeper import MemoryServer
from controller_core.znodes import BrokerZnode
from kafka_maintenance.operations.act_as_controller.controllership import Controllership, NotActiveError, Point, is_ours
from kafka_maintenance.operations.act_as_controller.refusals import CONTROLLER_ID
from kafka_maintenance.operations.cluster.observe import observe
from tests.broker_server import BrokerServer

PARTITIONS = [TopicPartition("orders", number) for number in range(3)]
RING = [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
DEADLINE_S = 5.0


class World:
    """Three brokers, one topic; broker 1 is controller with epoch 1."""

    def __init__(self, stack: ExitStack) -> None:
        self.server = MemoryServer()
        self.tools = self.server.session()
        self.kafka = KafkaZk(self.tools, formats_of(dialect_for("3.9")))
        for path in ("/brokers/ids", "/brokers/topics", "/admin/delete_topics", "/isr_change_notification"):
            self.tools.create(path, make_parents=True)
        self.servers = {each: stack.enter_context(BrokerServer(each, 0)) for each in (1, 2, 3)}
        for each in self.servers.values():
            registered = BrokerZnode(broker=each.registered, host="127.0.0.1", port=each.port, version=5, timestamp="0")
            each.broker.epoch = KafkaZk(self.server.session(), formats_of(dialect_for("3.9"))).register_broker(
                registered
            )
        self.first = self.server.session()
        KafkaZk(self.first, formats_of(dialect_for("3.9"))).register_controller(BrokerId(1), 0)
        assignments = {n: ReplicaAssignment(tuple(map(BrokerId, ids))) for n, ids in enumerate(RING)}
        self.kafka.create_topic("orders", assignments)
        states = {
            p: LeaderAndIsr(
                assignments[p.partition].replicas[0], 0, assignments[p.partition].replicas, controller_epoch=1
            )
            for p in PARTITIONS
        }
        self.kafka.create_states(states, None)
        self.answers: Queue[BrokerAnswered] = Queue()
        settings = ChannelSettings(attempts_max=1, request_timeout_s=DEADLINE_S)
        self.channels = stack.enter_context(TcpChannels(self.answers.put, settings))
        self.points: list[Point] = []
        self.hooks: dict[Point, Callable[[], None]] = {}

    def controllership(self, *, deadline_s: float = DEADLINE_S, session: Any = None) -> Controllership:
        observed = observe(self.tools)
        self.channels.open(observed.brokers.values())
        self.session = session or self.server.session()
        return Controllership(
            self.session,
            self.channels,
            self.answers,
            observed,
            access=PLAIN_ACCESS,
            deadline_s=deadline_s,
            at=self.reach,
        )

    def reach(self, point: Point) -> None:
        self.points.append(point)
        self.hooks.get(point, lambda: None)()

    def leaders(self) -> list[int]:
        return [self.kafka.get_states(PARTITIONS)[0][each].leader for each in PARTITIONS]

    def epoch(self) -> int:
        found = self.kafka.get_controller_epoch()
        assert found is not None
        return found.epoch

    def holder(self) -> int | None:
        found = self.kafka.get_controller()
        return None if found is None else found.broker_id


@pytest.fixture
def world() -> Iterator[World]:
    with ExitStack() as stack:
        yield World(stack)


MOVES = [LeaderMove(*PARTITIONS[0], BrokerId(2)), LeaderMove(*PARTITIONS[2], BrokerId(2))]


def test_leaders_move_and_everybody_hears_of_it_in_order(world: World) -> None:
    outcome = world.controllership().run(MOVES, now_ms=1)
    assert (outcome.epoch, outcome.ended_early, outcome.skipped, outcome.silent) == (2, None, {}, {})
    assert world.leaders() == [2, 2, 2]
    assert (world.holder(), world.epoch()) == (None, 2)
    assert world.points == list(Point)
    for server in world.servers.values():
        assert [api for api, _ in server.seen] == ["UpdateMetadata", "LeaderAndIsr", "UpdateMetadata"]
        assert server.controller == CONTROLLER_ID
        assert [server.broker.cached[move.partition].leader for move in MOVES] == [2, 2]
    followed = world.servers[3].broker.replicas[PARTITIONS[0]].leadership
    state = world.kafka.get_states(PARTITIONS)[0][PARTITIONS[0]]
    assert (followed.leader, followed.leader_epoch, followed.partition_epoch) == (2, 1, state.partition_epoch)
    assert (state.controller_epoch, state.isr) == (2, (1, 2, 3))


def test_the_former_controller_is_refused_by_brokers_from_the_announcement_on(world: World) -> None:
    def as_the_former_controller() -> None:
        for server in world.servers.values():
            assert server.broker._controller_epoch == 2

    world.hooks[Point.ANNOUNCED] = as_the_former_controller
    assert world.controllership().run(MOVES, now_ms=1).ended_early is None


def test_the_time_is_limited_by_a_timer_of_its_own(world: World) -> None:
    """The run itself hangs; the timer resigns all the same, and what comes later is not written."""
    resigned = threading.Event()

    def hang() -> None:
        while world.holder() is not None:
            resigned.wait(0.01)

    world.hooks[Point.READ] = hang
    outcome = world.controllership(deadline_s=0.4).run(MOVES, now_ms=1)
    assert (outcome.ended_early, outcome.moved) == ("the time is up", {})
    assert world.leaders() == [1, 2, 3]
    assert world.holder() is None


def test_another_controller_ends_it_and_nothing_more_is_written(world: World) -> None:
    def somebody_else() -> None:
        world.tools.delete("/controller", ANY_VERSION)
        KafkaZk(world.server.session(), formats_of(dialect_for("3.9"))).register_controller(BrokerId(3), 0)

    world.hooks[Point.READ] = somebody_else
    outcome = world.controllership().run(MOVES, now_ms=1)
    assert "another controller is active" in (outcome.ended_early or "")
    assert (world.leaders(), world.holder(), world.epoch()) == ([1, 2, 3], 3, 3)


def test_a_stale_answer_ends_it(world: World) -> None:
    world.servers[2].broker._controller_epoch = 9
    outcome = world.controllership().run(MOVES, now_ms=1)
    assert outcome.ended_early == "broker 2 obeys a newer controller"
    assert (world.leaders(), world.holder()) == ([1, 2, 3], None)


def test_a_broker_that_goes_ends_it(world: World) -> None:
    world.hooks[Point.ANNOUNCED] = lambda: world.tools.delete("/brokers/ids/3", ANY_VERSION)
    outcome = world.controllership().run(MOVES, now_ms=1)
    assert "the brokers changed" in (outcome.ended_early or "")
    assert (world.leaders(), world.holder()) == ([1, 2, 3], None)


def test_a_session_that_is_suspended_ends_it(world: World) -> None:
    run = world.controllership()
    world.hooks[Point.ANNOUNCED] = lambda: run.stop("the ZooKeeper session is suspended")
    assert run.run(MOVES, now_ms=1).ended_early == "the ZooKeeper session is suspended"
    assert (world.leaders(), world.holder()) == ([1, 2, 3], None)


def test_a_lost_race_skips_that_partition_only(world: World) -> None:
    def the_leader_writes() -> None:
        state = world.kafka.get_states(PARTITIONS)[0][PARTITIONS[0]]
        world.kafka.leader_updates_isr(PARTITIONS[0], state._replace(isr=(BrokerId(1), BrokerId(2))))

    world.hooks[Point.READ] = the_leader_writes
    outcome = world.controllership().run(MOVES, now_ms=1)
    assert outcome.skipped == {PARTITIONS[0]: "its state changed at the last moment"}
    assert world.leaders() == [1, 2, 2]


@pytest.mark.parametrize(
    ("change", "why"),
    [
        pytest.param({"isr": (BrokerId(1),)}, "leader 1, ISR [1] by now", id="the new leader fell out of the ISR"),
        pytest.param({"leader": BrokerId(3)}, "leader 3, ISR [1, 2, 3] by now", id="another leader"),
    ],
)
def test_a_partition_that_is_no_more_as_planned_is_skipped(world: World, change: dict[str, Any], why: str) -> None:
    def change_it() -> None:
        state = world.kafka.get_states(PARTITIONS)[0][PARTITIONS[0]]
        world.kafka.leader_updates_isr(PARTITIONS[0], state._replace(**change))

    world.hooks[Point.ANNOUNCED] = change_it
    outcome = world.controllership().run(MOVES, now_ms=1)
    assert outcome.skipped == {PARTITIONS[0]: why}
    assert PARTITIONS[2] in outcome.moved


def test_a_broker_that_cannot_be_reached_is_left_to_the_next_controller(world: World) -> None:
    world.hooks[Point.TAKEN] = world.servers[3].stop
    outcome = world.controllership().run(MOVES, now_ms=1)
    assert (list(outcome.silent), world.leaders(), outcome.ended_early) == ([3], [2, 2, 2], None)


def test_another_election_since_it_was_prepared_is_noticed_before_anything_is_written(world: World) -> None:
    run = world.controllership()
    world.tools.delete("/controller", ANY_VERSION)
    KafkaZk(world.server.session(), formats_of(dialect_for("3.9"))).register_controller(BrokerId(2), 0)
    with pytest.raises(NotActiveError, match="nothing was written"):
        run.run(MOVES, now_ms=1)
    assert (world.holder(), world.epoch(), world.leaders()) == (2, 2, [1, 2, 3])


class LostAnswer:
    """A session whose first transaction takes effect, or does not, and whose answer is lost."""

    def __init__(self, inner: Any, *, takes_effect: bool, meanwhile: Callable[[], None] = lambda: None) -> None:
        self._inner, self._takes_effect, self._meanwhile, self._first = inner, takes_effect, meanwhile, True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def multi(self, operations: Any) -> Any:
        if not self._first:
            return self._inner.multi(operations)
        self._first = False
        if self._takes_effect:
            self._inner.multi(operations)
        self._meanwhile()
        raise ConnectionLostError("the connection broke before an answer came")


@pytest.mark.parametrize(("takes_effect", "holder"), [(True, None), (False, 1)])
def test_a_lost_answer_to_the_beginning_gives_back_what_is_ours_and_nothing_else(world, takes_effect, holder) -> None:
    session = LostAnswer(world.server.session(), takes_effect=takes_effect)
    with pytest.raises(NotActiveError, match="the answer to the beginning was lost"):
        world.controllership(session=session).run(MOVES, now_ms=1)
    assert (world.holder(), world.leaders()) == (holder, [1, 2, 3])


def test_an_election_with_the_epoch_that_we_wanted_is_not_undone(world: World) -> None:
    """Our beginning was lost on its way, and a broker was elected meanwhile: the epoch check alone would hold."""

    def elect() -> None:
        world.tools.delete("/controller", ANY_VERSION)
        KafkaZk(world.server.session(), formats_of(dialect_for("3.9"))).register_controller(BrokerId(3), 0)

    session = LostAnswer(world.server.session(), takes_effect=False, meanwhile=elect)
    with pytest.raises(NotActiveError):
        world.controllership(session=session).run(MOVES, now_ms=1)
    assert (world.holder(), world.epoch()) == (3, 2)


def test_no_group_begins_when_the_time_is_nearly_up(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafka_maintenance.operations.act_as_controller import controllership

    monkeypatch.setattr(controllership, "PARTITIONS_AT_ONCE", 1)
    monkeypatch.setattr(controllership, "GROUP_S", DEADLINE_S + 1)
    outcome = world.controllership().run(MOVES, now_ms=1)
    assert (outcome.ended_early, list(outcome.moved)) == ("the time is nearly up", [PARTITIONS[0]])
    assert outcome.skipped == {PARTITIONS[2]: "the time is nearly up"}


def test_is_ours(world: World) -> None:
    assert is_ours(world.first)
    assert not is_ours(world.tools)
