"""Who may act as controller at all: the switch, the digest, the kind of plan; before anything is opened."""

from contextlib import nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest

from controller_core.adapters.brokers.access import BrokerAccess, BrokerLogin, BrokerTls, access_from
from controller_core.adapters.object_store.open import MemoryStore, open_store
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.errors import InvalidAccessError, SessionExpiredError
from controller_core.model.partitions import BrokerId, TopicPartition
from controller_core.plans.request_znodes import LeaderMove, MoveLeaders
from kafka_maintenance.cli.main import main
from kafka_maintenance.operations.act_as_controller import act
from kafka_maintenance.operations.act_as_controller.act import Permission, act_as_controller
from kafka_maintenance.operations.act_as_controller.controllership import NotActiveError
from kafka_maintenance.operations.apply.plan import apply_plan
from kafka_maintenance.operations.errors import (
    BadInputError,
    NotFinishedError,
    PlanChangedError,
    PlanStaleError,
    RefusedError,
)
from kafka_maintenance.operations.plans.elections import plan_elections
from kafka_maintenance.operations.plans.leaders import ByBytes, plan_leader_moves
from kafka_maintenance.operations.plans.store import read_plan
from kafka_maintenance.operations.record.receipts import EventKind, ReceiptLog, is_begun, read_events
from tests.kafka_maintenance.kafka_world import KafkaWorld

NOW = datetime(2026, 10, 5, 3, 0, tzinfo=UTC)
NOBODY = ClusterAddress("127.0.0.1:1")
PAGES = [TopicPartition("pages", number) for number in range(3)]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def world() -> KafkaWorld:
    found = KafkaWorld()
    for broker in (1, 2, 3):
        found.broker(broker)
    found.elect(1)
    found.topic("orders", ((1, 2, 3), 1, (1, 2, 3)), ((2, 3, 1), 3, (2, 3, 1)))
    return found


def acted(store: MemoryStore, plan: Any, **change: Any) -> Any:
    given: dict[str, Any] = {
        "store": store,
        "plan_uri": plan.uri,
        "approved_digest": plan.digest,
        "approver": "anna",
        "address": NOBODY,
        "permission": Permission(may_act=True),
        "now": NOW,
    }
    return act_as_controller(**{**given, **change})


def drained(store: MemoryStore, world: KafkaWorld) -> Any:
    return plan_leader_moves(store, "alpha", zookeeper=world.zookeeper(), brokers=[BrokerId(1)], now=NOW)


def run_of(store: MemoryStore, world: KafkaWorld, plan: Any) -> act._Run:
    record = ReceiptLog(store, cluster="alpha", digest=plan.digest, run="r", approver="anna", now=NOW)
    given = read_plan(store, plan.uri), world.zookeeper(), record, Permission(may_act=True)
    return act._Run(*given, lambda: None, 4.0, 1.0, lambda _: None)


def spread(store: MemoryStore, world: KafkaWorld, *sizes: int, tolerance: float = 0.0, **more: Any) -> Any:
    """Of the partitions of `orders`, then of `pages`."""
    partitions = [TopicPartition("orders", 0), TopicPartition("orders", 1), *PAGES]
    by_bytes = ByBytes(tolerance, dict(zip(partitions, sizes, strict=False)))
    return plan_leader_moves(store, "alpha", zookeeper=world.zookeeper(), by_bytes=by_bytes, now=NOW, **more)


def test_leaders_are_spread_by_bytes(store: MemoryStore, world: KafkaWorld) -> None:
    world.topic("pages", ((1, 3, 2), 1, (1, 3, 2)), ((1, 2, 3), 1, (1, 2, 3)), ((1, 2, 3), 1, (1,)))
    plan = read_plan(store, spread(store, world, 30, 30, 30, 30, 10, tolerance=0.0).uri)
    (effect,) = plan.effects
    assert isinstance(effect, MoveLeaders)
    assert {move.partition for move in effect.moves} < {TopicPartition("orders", 0), *PAGES[:2]}
    assert "nothing found brings every broker within 0% above the mean; 2 leaders move, proven fewest" in plan.predicted
    plan = read_plan(store, spread(store, world, 30, 30, 30, 30, 10, tolerance=0.4).uri)
    assert "no broker leads more than 40% above the mean; 2 leaders move, proven fewest" in plan.predicted
    assert "leads 100 → 40 bytes: broker 1" in plan.predicted
    assert spread(store, world, 30, 30, 30, 30, 10, tolerance=2.0) is None


@pytest.mark.parametrize(
    ("sizes", "more", "complaint"),
    [
        pytest.param((1,), {}, "found none of orders-1", id="a size is missing"),
        pytest.param((1, 1), {"tolerance": -0.1}, "found a tolerance of -0.1", id="below zero"),
        pytest.param((1, 1), {"tolerance": float("nan")}, "found a tolerance of nan", id="no number"),
        pytest.param((1, 1), {"tolerance": float("inf")}, "found a tolerance of inf", id="no end"),
        pytest.param((1, 1), {"brokers": [BrokerId(1)]}, "make two plans", id="a broker beside it"),
        pytest.param((1, 1), {"topics": ["orders", "noting*"]}, r"none of 1 found for noting\*", id="no such topic"),
    ],
)
def test_what_cannot_be_spread(
    store: MemoryStore, world: KafkaWorld, sizes: tuple[int, ...], more: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(BadInputError, match=complaint):
        spread(store, world, *sizes, **more)


@pytest.mark.parametrize(
    ("asked", "complaint"),
    [
        pytest.param(
            {"brokers": [BrokerId(1)], "topics": ["noting"]}, "none of 1 found for noting", id="no such topic"
        ),
        pytest.param(
            {"moves": [LeaderMove("orders", 0, BrokerId(2))], "topics": ["orders"]},
            "brokers, racks or topics beside single partitions",
            id="topics beside a partition",
        ),
    ],
)
def test_topics_that_would_have_no_effect_are_refused(
    store: MemoryStore, world: KafkaWorld, asked: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(BadInputError, match=complaint):
        plan_leader_moves(store, "alpha", zookeeper=world.zookeeper(), now=NOW, **asked)


def test_it_is_off_unless_switched_on(store: MemoryStore, world: KafkaWorld) -> None:
    with pytest.raises(RefusedError, match="switched off for this cluster"):
        acted(store, drained(store, world), permission=Permission())


def test_only_the_approved_plan_and_only_leader_moves(store: MemoryStore, world: KafkaWorld) -> None:
    plan = drained(store, world)
    with pytest.raises(PlanChangedError, match="approved digest"):
        acted(store, plan, approved_digest="0" * 64)
    elections = plan_elections(store, "alpha", zookeeper=world.zookeeper(), now=NOW)
    with pytest.raises(RefusedError, match="an active controller does nothing else for us"):
        acted(store, elections)


def test_the_usual_way_of_applying_refuses_it(store: MemoryStore, world: KafkaWorld) -> None:
    plan = drained(store, world)
    with pytest.raises(RefusedError, match="act-as-controller"):
        apply_plan(
            store=store,
            plan_uri=plan.uri,
            approved_digest=plan.digest,
            approver="anna",
            zookeeper=world.zookeeper(),
            now=NOW,
        )
    assert world.wrote == []


def test_nobody_becomes_controller_while_the_window_is_closed(
    store: MemoryStore, world: KafkaWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(act, "session", lambda _: nullcontext(world.zookeeper()))
    monkeypatch.setattr(act, "prepare", lambda *_, **__: None)
    monkeypatch.setattr(act, "refusals", lambda *_, **__: [])
    plan = drained(store, world)
    with pytest.raises(PlanStaleError, match=r"do not become active controller: the change window: .* found a freeze"):
        acted(store, plan, window=lambda: "a freeze")
    assert world.wrote == []
    assert [each.event for each in read_events(store, "alpha", plan.digest)] == [EventKind.STARTED, EventKind.REFUSED]


def test_the_command_minds_the_freezes_of_the_policy(
    world: KafkaWorld, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, policy, told = open_store(str(tmp_path / "store")), tmp_path / "policy.yml", list[str | None]()
    policy.write_text(
        "{version: 1, default: {freezes: [{from: 2020-01-01T00:00Z, to: 2999-01-01T00:00Z, why: holidays}]}}"
    )
    plan = drained(store, world)

    def stands_in(*, window: Any, **_: Any) -> Any:
        told.append(window())
        raise RefusedError("seen")

    monkeypatch.setattr(act, "act_as_controller", stands_in)
    arguments = ["--approve", plan.digest, "--approver", "anna", "--zookeeper", "127.0.0.1:1", "--policy", str(policy)]
    assert main(["act-as-controller", plan.uri, *arguments]) == 1
    assert told == ["freeze until 2999-01-01T00:00Z: holidays"]


def test_a_session_that_ends_before_the_end_is_verified_says_what_was_reached(
    store: MemoryStore, world: KafkaWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    def expired(*_: Any, **__: Any) -> Any:
        raise SessionExpiredError("sync /: the session is over")

    monkeypatch.setattr(act, "await_verified", expired)
    made = drained(store, world)
    run = run_of(store, world, made)
    with pytest.raises(
        NotFinishedError, match=r"1 leader\(s\) moved, .* ZooKeeper: sync /: the session is over.*run again"
    ):
        run._conclude(3, {TopicPartition("orders", 0): BrokerId(2)}, {})
    assert [each.event for each in read_events(store, "alpha", made.digest)] == [EventKind.UNFINISHED]


def test_a_time_as_controller_that_did_not_begin_is_recorded_as_refused(
    store: MemoryStore, world: KafkaWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its plan is not begun: the approval expires, and may be withdrawn."""

    def faster(*_: Any, **__: Any) -> Any:
        raise NotActiveError("not begun: found another controller")

    monkeypatch.setattr(act, "prepare", lambda *_, **__: None)
    monkeypatch.setattr(act, "refusals", lambda *_, **__: ())
    monkeypatch.setattr(act.Controllership, "run", faster)
    monkeypatch.setattr(ClusterAddress, "session", lambda *_, **__: nullcontext(Mock()))
    made = drained(store, world)
    run = run_of(store, world, made)
    with pytest.raises(NotActiveError, match="found another controller"):
        run.carry_out(NOBODY, NOW)
    told = read_events(store, "alpha", made.digest)
    assert [(each.event, each.step) for each in told] == [(EventKind.INTENDED, 0), (EventKind.REFUSED, 0)]
    assert told[-1].detail == {"reasons": ["not begun: found another controller"]}
    assert not is_begun(told)


@pytest.mark.parametrize(
    "what",
    [
        pytest.param({}, id="nothing was named"),
        pytest.param({"brokers": [BrokerId(9)]}, id="no such broker"),
        pytest.param({"racks": ["nowhere"]}, id="no such rack"),
    ],
)
def test_what_cannot_be_planned(store: MemoryStore, world: KafkaWorld, what: dict[str, Any]) -> None:
    with pytest.raises(BadInputError, match="name some of them"):
        plan_leader_moves(store, "alpha", zookeeper=world.zookeeper(), **what)


@pytest.mark.parametrize(
    ("document", "access"),
    [
        pytest.param({}, BrokerAccess(), id="plain"),
        pytest.param(
            {"listener": "INTERNAL", "tls": True}, BrokerAccess(listener="INTERNAL", tls=BrokerTls()), id="TLS"
        ),
        pytest.param(
            {"tls": {"ca": "ca.pem"}, "sasl": {"mechanism": "SCRAM-SHA-512", "username": "u", "password": "p"}},
            BrokerAccess(
                tls=BrokerTls(ca="ca.pem"), login=BrokerLogin(mechanism="SCRAM-SHA-512", username="u", password="p")
            ),
            id="TLS and SCRAM",
        ),
    ],
)
def test_how_brokers_are_reached_is_a_json_object(document: dict[str, Any], access: BrokerAccess) -> None:
    assert access_from(document) == access


@pytest.mark.parametrize(
    "document",
    [
        {"color": 1},
        {"tls": {"color": 1}},
        {"tls": "yes"},
        {"sasl": {"mechanism": "GSSAPI", "username": "u", "password": "p"}},
        {"sasl": {"mechanism": "PLAIN"}},
        {"listener": 7},
    ],
)
def test_what_is_not_understood_is_refused(document: dict[str, Any]) -> None:
    with pytest.raises(InvalidAccessError, match="not understood"):
        access_from(document)
