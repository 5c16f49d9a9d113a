"""A run that left while Kafka works at a step, or a step waits to be asked for: whether there is something to do for it again. Reads only.

Source: docs/operations.md, "Applying".
"""

import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from time import monotonic
from typing import Final

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.errors import ControllerCoreError
from controller_core.plans.checks import unmet
from controller_core.plans.conditions import RequestAbsent
from controller_core.plans.plan import Plan
from controller_core.plans.verdicts import verdicts, without
from controller_core.ports.zookeeper import ZooKeeper
from kafka_maintenance.operations.apply.cluster_lock import LOCK_PATH
from kafka_maintenance.operations.apply.execution import EXECUTION_PATH, find_execution
from kafka_maintenance.operations.apply.executions import new_stop_requests
from kafka_maintenance.operations.apply.ready import Awaited, cluster_not_ready, pause_left_s, waits_for
from kafka_maintenance.operations.apply.run import is_asked_once, look_at
from kafka_maintenance.operations.apply.stop import Stop
from kafka_maintenance.operations.apply.wait import is_over
from kafka_maintenance.operations.cluster.observe import session
from kafka_maintenance.operations.record.receipts import Event, ReceiptLog, last_asking, partitions_left_out

LOOK_S: Final = 10.0
"""How often a run that stays looks whether the step that waits can be asked for."""

log = logging.getLogger(__name__)


def wants_its_run(
    store: ObjectStore,
    plan: Plan,
    digest: str,
    number: int,
    zookeeper: ClusterAddress | ZooKeeper,
    events: Sequence[Event],
    window: Callable[[], str | None] = lambda: None,
    now: datetime | None = None,
) -> str | None:
    """Why the run of the plan should go on now; None while Kafka works at its step, its change window is closed, the cluster is not ready, or its pause lasts.

    Args:
        store: where people ask for the end of a run.
        plan: that was begun.
        digest: of the plan, 64 hex digits.
        number: of the step, from 0 on.
        zookeeper: the cluster's address, or a session on it.
        events: the record as it was when the run left; nothing is added while it is away.
        window: why no step may be asked for now, None where one may.
        now: the time, with zone; None: that of this machine.

    Raises:
        ZooKeeperError, ObjectStoreError: as their names say; look again later.
    """
    if new_stop_requests(store, plan.cluster, digest, events):
        return "somebody asked for its end"
    awaited = waits_for(events, number)
    if awaited is Awaited.WINDOW:
        return None if window() else "its change window is open"
    if awaited is Awaited.ROOM:
        return None  # only brokers say that, and the run asks them when it is woken
    if awaited is Awaited.CLUSTER:
        with session(zookeeper) as opened:
            return None if cluster_not_ready(plan, number, events, opened) else "the cluster is ready for the step"
    if awaited is None and last_asking(events, number) is None:
        lasts = pause_left_s(plan, events, number, now or datetime.now(UTC)) > 0
        return None if lasts else "the pause between two steps is over"
    step = without(plan.steps[number], partitions_left_out(events, number))
    with session(zookeeper) as opened:
        found = find_execution(opened)
        own = found is not None and found.execution is not None and found.execution[:2] == (digest, number)
        if is_asked_once(step) and not own:  # what may be asked twice has none
            return "its execution does not stand any more"
        observed = look_at(opened, step.conditions)
    if not unmet(step.outcomes, observed) or is_over(plan.kind, step, verdicts(step, observed), observed):
        return "Kafka has finished the step"
    return None


def in_the_way(plan: Plan, digest: str, zookeeper: ClusterAddress | ZooKeeper) -> frozenset[tuple[str, bytes]]:
    """What may keep a plan from its turn, the lock and an execution of another plan, with their data, and requests where its own would stand.

    Args:
        plan: that met a busy cluster.
        digest: of it, 64 hex digits.
        zookeeper: the cluster's address, or a session on it.

    Raises:
        ZooKeeperError: as its name says; look again later.
    """
    requests = {
        each.path
        for step in plan.steps
        for each in (*plan.expectations, *step.expectations)
        if isinstance(each, RequestAbsent)
    }
    with session(zookeeper) as opened:
        other = find_execution(opened)
        if other is not None and (other.execution is None or other.execution.plan != digest):
            requests.add(EXECUTION_PATH)
        paths = [LOCK_PATH, *sorted(requests)]
        found = opened.get_many(paths)
    ours = {LOCK_PATH, EXECUTION_PATH}  # Kafka rewrites a request while its partitions finish: it stands all the same
    return frozenset(
        (path, entry[0] if path in ours else b"") for path, entry in zip(paths, found, strict=True) if entry is not None
    )


def await_turn(
    store: ObjectStore,
    plan: Plan,
    number: int,
    zookeeper: ClusterAddress | ZooKeeper,
    *,
    record: ReceiptLog,
    window: Callable[[], str | None],
    stop: Stop,
    limit_s: float,
) -> None:
    """Waits, without the lock, until a step that waits to be asked for should be looked at again.

    Another run may repair meanwhile what it waits for.

    Args:
        store: where people ask for the end of a run.
        plan: that was begun.
        number: of the step, from 0 on.
        zookeeper: the cluster's address, or a session on it.
        record: as it was when the run left; nothing is added meanwhile.
        window: why no step may be asked for now, None where one may.
        stop: ends the waiting.
        limit_s: so does this time, in seconds.
    """
    until_s, why = monotonic() + limit_s, None
    while why is None:
        left_s = pause_left_s(plan, record.events, number, datetime.fromisoformat(record.now()))
        stop.wait(min(LOOK_S, left_s or LOOK_S))
        if stop.reason is not None or monotonic() >= until_s:
            return
        now = datetime.fromisoformat(record.now())
        try:
            why = wants_its_run(store, plan, record.digest, number, zookeeper, record.events, window, now)
        except ControllerCoreError as error:
            log.warning("step %s of plan %s on %r not looked at: %s", number + 1, record.digest, plan.cluster, error)
    log.info("plan %s on %r goes on: %s", record.digest[:12], plan.cluster, why)
