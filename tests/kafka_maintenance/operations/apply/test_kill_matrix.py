"""A run that dies, loses an answer or its session, at each write of every operation, with the controller of every Kafka version.

The next run ends where an undisturbed one ends: the same tree, times and sessions apart, and the same requests.
`docs/reliability.md` has the counts: `python -m tests.kafka_maintenance.operations.apply.test_kill_matrix`.
"""

import logging
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
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
from kafka_maintenance.operations.apply import plan as apply_module
from kafka_maintenance.operations.apply.cluster_lock import LOCK_PATH
from kafka_maintenance.operations.apply.execution import EXECUTION_PATH
from kafka_maintenance.operations.apply.plan import apply_plan, verify
from kafka_maintenance.operations.cluster.admin_requests import UnansweredError
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.cluster.log_dirs import LogDirs, SizesUnknownError
from kafka_maintenance.operations.errors import NotFinishedError
from kafka_maintenance.operations.plans import make as planning
from tests.kafka_maintenance.operations.apply.test_interrupted import Killed
from tests.kafka_maintenance.operations.apply.test_simulated import (
    NOW,
    Settling,
    deletion,
    elections,
    moves,
    simulated,
)

Make = Callable[[MemoryStore, SimulatedCluster], planning.StoredPlan | None]


class Operation(NamedTuple):
    """How its plan is made, and the brokers that are asked for it; None: by request znodes."""

    make: Make
    brokers: BrokersAsked | None = None


OPERATIONS = {
    "elections": Operation(elections),
    "moves in two waves": Operation(moves),
    "a deletion": Operation(deletion),
}
OF_BROKERS = {
    f"{name}, asked of the brokers": OPERATIONS[name]._replace(brokers=BrokersAsked("b1:9092"))
    for name in ("elections", "moves in two waves")
}
FAULTS = ("killed before", "killed after", "the request is lost", "the answer is lost", "the session expires")
REQUESTS = (znode.REASSIGN_PARTITIONS, znode.PREFERRED_REPLICA_ELECTION, f"{znode.DELETE_TOPICS}/")


class Faults:
    """Counts the writes of one run, to the record and to the cluster, and disturbs the one whose turn it is."""

    def __init__(self, fault: str | None = None, *, at: int = 0) -> None:
        self.fault, self.at, self.count = fault, at, 0

    def around(self, write: Callable[[], Any], *, expire: Callable[[], None] | None = None) -> Any:
        self.count += 1
        if self.count != self.at or self.fault is None:
            return write()
        if self.fault == "killed before":
            raise Killed
        if self.fault == "killed after":
            write()
            raise Killed
        if expire is None:
            return write()  # a write to the store is repeated by the store's client
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


def outcome(version: str, operation: Operation, fault: str | None, at: int) -> tuple[dict[str, bytes], list[str], int]:
    """The tree in the end, the requests that were made, and how many writes the disturbed run made."""
    cluster = simulated(version)
    plain = MemoryStore()
    plan = operation.make(plain, cluster)
    assert plan is not None
    requests: list[str] = []

    def hear(applied: Applied) -> None:
        requests.extend(
            change.path
            for change in applied.changes
            if change.kind.name == "CREATED" and change.path.startswith(REQUESTS)
        )

    cluster.server.listen(hear)
    store, faults = Store(), Faults(fault, at=at)
    store._objects, store.faults = plain._objects, faults
    session = Session(cluster, faults)
    what = {
        "plan_uri": plan.uri, "approved_digest": plan.digest, "approver": "ann", "now": NOW, "settle_timeout_s": 0.0,
        "away_timeout_s": 60.0, "brokers": operation.brokers,
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
    return tree, requests, faults.count


def cases(version: str, operation: Operation) -> Iterator[tuple[str, int]]:
    """Each fault at each write of an undisturbed run."""
    count = outcome(version, operation, None, 0)[2]
    for at in range(1, count + 1):
        yield from ((fault, at) for fault in FAULTS)


def differs(version: str, operation: Operation) -> tuple[int, list[str]]:
    """How many runs were disturbed, and those that ended otherwise than the undisturbed one."""
    tree, requests, _ = outcome(version, operation, None, 0)
    found, count = [], 0
    for fault, at in cases(version, operation):
        count += 1
        ended = outcome(version, operation, fault, at)
        if ended[:2] != (tree, requests):
            found.append(f"{fault} write {at}: {ended[1]} asked, {requests} expected")
    return count, found


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply_module, "RECONNECT_S", 0.0)


@pytest.mark.parametrize(
    ("version", "name"),
    [(version, name) for version in ("0.10.2", "1.1", "2.4", "3.9") for name in operations_of(version)],
)
def test_a_disturbed_run_ends_where_an_undisturbed_one_ends(version, name):
    count, found = differs(version, operations_of(version)[name])
    assert found == []
    assert count >= 40


def main() -> int:
    """Every version; prints a row for each, and ends with 1 where a run ended otherwise."""
    logging.disable(logging.CRITICAL)
    apply_module.RECONNECT_S = 0.0  # type: ignore[misc]  # nobody else runs here
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
