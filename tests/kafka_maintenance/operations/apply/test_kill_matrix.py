"""A run that dies, loses an answer or its session, at each write of every operation, with the controller of every Kafka version.

The next run ends where an undisturbed one ends: the same tree, times and sessions apart, the same requests, and a record that ends each step alike.
`docs/reliability.md` has the counts: `python -m tests.kafka_maintenance.operations.apply.test_kill_matrix`.
"""

import logging
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple
from unittest.mock import patch

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.messages.events import AlterReassignments, ElectLeaders
from controller_core.model.dialect import MINOR_VERSIONS, dialect_for
from controller_core.model.errors import ConnectionLostError, SessionExpiredError
from controller_core.model.partitions import TopicPartition
from controller_core.runtime.simulated.cluster import SimulatedCluster
from controller_core.runtime.simulated.zookeeper import Applied
from controller_core.znodes import paths as znode
from kafka_maintenance.operations.apply import ask_brokers, copying
from kafka_maintenance.operations.apply import attempt as attempt_module
from kafka_maintenance.operations.apply.cluster_lock import LOCK_PATH
from kafka_maintenance.operations.apply.execution import EXECUTION_PATH
from kafka_maintenance.operations.apply.plan import apply_plan, verify
from kafka_maintenance.operations.cluster.admin_requests import UnansweredError
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.cluster.log_dirs import LogDirs, SizesUnknownError
from kafka_maintenance.operations.errors import NotFinishedError
from kafka_maintenance.operations.plans.store import StoredPlan
from kafka_maintenance.operations.record.receipts import EventKind, read_events
from tests.kafka_maintenance.operations.apply.killed_run import Killed
from tests.kafka_maintenance.operations.apply.on_simulated import (
    NOW,
    Settling,
    deletion,
    elections,
    moves,
    re_election,
    simulated,
)
from tests.kafka_maintenance.operations.apply.prepared import copies

Make = Callable[[MemoryStore, SimulatedCluster], StoredPlan | None]


class Operation(NamedTuple):
    """How its plan is made, and the brokers that are asked for it; None: by request znodes."""

    make: Make
    brokers: BrokersAsked | None = None


OPERATIONS = {
    "elections": Operation(elections),
    "moves in two waves": Operation(moves),
    "a deletion": Operation(deletion),
    "a re-election": Operation(re_election),
}
OF_BROKERS = {
    f"{name}, asked of the brokers": OPERATIONS[name]._replace(brokers=BrokersAsked("b1:9092"))
    for name in ("elections", "moves in two waves")
}
KILLED = ("killed before", "killed after")
FAULTS = (*KILLED, "the request is lost", "the answer is lost", "the session expires")
ENDS = (EventKind.VERIFIED, EventKind.OVER, EventKind.DONE)
REQUESTS = (znode.REASSIGN_PARTITIONS, znode.PREFERRED_REPLICA_ELECTION, f"{znode.DELETE_TOPICS}/")


class Faults:
    """Lists by which faults each write of one run, to the record and to the cluster, can be disturbed; disturbs the one whose turn it is."""

    def __init__(self, fault: str | None = None, *, at: int = 0) -> None:
        self.fault, self.at = fault, at
        self.writes: list[tuple[str, ...]] = []

    def around(self, write: Callable[[], Any], *, expire: Callable[[], None] | None = None) -> Any:
        self.writes.append(FAULTS if expire else KILLED)  # the store's client repeats what got no answer
        if len(self.writes) != self.at or self.fault is None:
            return write()
        if self.fault == "killed before":
            raise Killed
        if self.fault == "killed after":
            write()
            raise Killed
        assert expire is not None
        if self.fault == "the session expires":
            expire()
            raise SessionExpiredError("the session is over; open another one")
        if self.fault == "the answer is lost":
            write()
        raise ConnectionLostError("the connection broke before an answer came")


class Brokers:
    """The brokers of the cluster as a client asks them; each request may be disturbed. `asked` names the partitions of a reassignment."""

    def __init__(self, cluster: SimulatedCluster, faults: Faults, asked: list[str]) -> None:
        self._cluster, self._faults, self._asked = cluster, faults, asked

    def alter(self, _: BrokersAsked, targets: Mapping[TopicPartition, Any], what: str) -> dict[TopicPartition, str]:
        asked = [f"{each} to {targets[each]}" for each in targets]
        return self._hears(AlterReassignments(tuple(targets.items())), asked)

    def elect(self, _: BrokersAsked, partitions: Sequence[TopicPartition], what: str) -> dict[TopicPartition, str]:
        return self._hears(ElectLeaders(tuple(partitions)), [])

    def _hears(self, event: AlterReassignments | ElectLeaders, asked: Sequence[str]) -> dict[TopicPartition, str]:
        def hear() -> None:
            active = self._cluster.active_controller()
            assert active is not None
            active.queue.append(event)
            self._asked.extend(asked)
            self._cluster.settle()

        try:
            self._faults.around(hear, expire=lambda: None)
        except (ConnectionLostError, SessionExpiredError):
            raise UnansweredError("no answer") from None
        return {}


def silent(_: BrokersAsked, what: str, *, only: Collection[int]) -> tuple[LogDirs, ...]:
    raise SizesUnknownError(f"{what} of {sorted(only)}: not told here")


class Session:
    """A session whose transactions may be disturbed; one that expired is replaced, as kazoo's client replaces it."""

    def __init__(self, cluster: SimulatedCluster, faults: Faults) -> None:
        self._cluster, self._faults = cluster, faults
        self._open()

    def _open(self) -> None:
        self.inner = Settling(self._cluster.server)
        self.inner.cluster = self._cluster

    def _expire(self) -> None:
        self._cluster.server.expire(self.inner.session_id)
        self._open()

    def multi(self, operations: Any) -> Any:
        return self._faults.around(lambda: self.inner.multi(operations), expire=self._expire)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


class Store(MemoryStore):
    """A store whose creations may be disturbed."""

    faults: Faults

    def put_new(self, key: str, data: bytes) -> None:
        self.faults.around(lambda: MemoryStore.put_new(self, key, data))


def operations_of(version: str) -> dict[str, Operation]:
    """Those that its brokers know."""
    return OPERATIONS | (OF_BROKERS if dialect_for(version).adding_and_removing_replicas else {})


class World(NamedTuple):
    """A cluster, and a store that holds a plan for it."""

    cluster: SimulatedCluster
    store: MemoryStore
    plan: StoredPlan


class Ended(NamedTuple):
    """The tree in the end, the requests that were made, and how the record ends each step and the plan."""

    tree: dict[str, bytes]
    requests: list[str]
    record: list[tuple[str, int | None]]


def world(version: str, operation: Operation) -> World:
    cluster, store = simulated(version), MemoryStore()
    plan = operation.make(store, cluster)
    assert plan is not None
    return World(cluster, store, plan)


def outcome(world: World, brokers: BrokersAsked | None, faults: Faults) -> Ended:
    """How the disturbed run of the plan and the next one end."""
    cluster, plain, plan = world
    requests: list[str] = []

    def hear(applied: Applied) -> None:
        requests.extend(
            change.path
            for change in applied.changes
            if change.kind.name == "CREATED" and change.path.startswith(REQUESTS)
        )

    cluster.server.listen(hear)
    store = Store()
    store._objects, store.faults = plain._objects, faults
    session = Session(cluster, faults)
    what = {
        "plan_uri": plan.uri, "approved_digest": plan.digest, "approver": "ann", "now": NOW, "settle_timeout_s": 0.0,
        "away_timeout_s": 60.0, "brokers": brokers,
    }  # fmt: skip
    asked = Brokers(cluster, faults, requests)
    with (
        patch.object(copying, "log_dirs_of", silent),
        patch.multiple(ask_brokers, alter_reassignments=asked.alter, elect_preferred_leaders=asked.elect, AGAIN_S=0.0),
    ):
        try:
            apply_plan(store=store, zookeeper=session, **what)
        except (Killed, ConnectionLostError, SessionExpiredError, NotFinishedError):
            cluster.server.expire(session.inner.session_id)
            apply_plan(store=plain, zookeeper=Session(cluster, Faults()), **what)
    cluster.server.expire(session.inner.session_id)  # as it ends with its process
    cluster.settle()
    assert verify(store=plain, plan_uri=plan.uri, zookeeper=Session(cluster, Faults())).done
    tree = {path: data for path, data in cluster.server.snapshot().items() if path != znode.CONTROLLER}
    assert not [path for path in tree if path.startswith((LOCK_PATH, EXECUTION_PATH))]
    told = read_events(plain, "demo", plan.digest)
    return Ended(tree, requests, [(each.event, each.step) for each in told if each.event in ENDS])


def differs(version: str, operation: Operation) -> tuple[int, list[str]]:
    """How many runs were disturbed, each fault at each write, and those that ended otherwise than the undisturbed one."""
    prepared = world(version, operation)
    another = copies(*prepared)
    undisturbed = Faults()
    expected = outcome(prepared, operation.brokers, undisturbed)
    found, count = [], 0
    for at, faults in enumerate(undisturbed.writes, start=1):
        for fault in faults:
            count += 1
            ended = outcome(World(*another()), operation.brokers, Faults(fault, at=at))
            if ended != expected:
                found.append(
                    f"{fault} write {at}: {ended.requests} asked, {expected.requests} expected; {ended.record}"
                )
    return count, found


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempt_module, "RECONNECT_S", 0.0)


@pytest.mark.parametrize(
    ("version", "name"),
    [(version, name) for version in ("0.10.2", "1.1", "2.4", "3.9") for name in operations_of(version)],
)
def test_a_disturbed_run_ends_where_an_undisturbed_one_ends(version, name):
    count, found = differs(version, operations_of(version)[name])
    assert found == []
    assert count >= 35


def main() -> int:
    """Every version; prints a row for each, and ends with 1 where a run ended otherwise."""
    logging.disable(logging.CRITICAL)
    attempt_module.RECONNECT_S = 0.0  # type: ignore[misc]  # nobody else runs here
    bad = total = 0
    for version in MINOR_VERSIONS:
        for name, operation in operations_of(version).items():
            count, found = differs(version, operation)
            total, bad = total + count, bad + len(found)
            print(f"{version:7} {name:41} {count:4} disturbed runs, {len(found)} ended otherwise", flush=True)
            for line in found:
                print(f"        {line}")
    print(f"{total} disturbed runs, {bad} ended otherwise")
    return bool(bad)


if __name__ == "__main__":
    sys.exit(main())
