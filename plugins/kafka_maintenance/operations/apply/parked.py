"""A run that left while Kafka works at a step: whether there is something to do for it again. Reads only.

Source: docs/operations.md, "Applying".
"""

from collections.abc import Callable, Sequence
from datetime import UTC, datetime

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.plans.checks import unmet
from controller_core.plans.plan import Plan, plan_digest
from controller_core.plans.verdicts import verdicts, without
from controller_core.ports.zookeeper import ZooKeeper
from kafka_maintenance.operations.apply.execution import find_execution
from kafka_maintenance.operations.apply.executions import new_stop_requests
from kafka_maintenance.operations.apply.ready import Awaited, cluster_not_ready, pause_left_s, waits_for
from kafka_maintenance.operations.apply.run import is_asked_once, last_asking, look_at, partitions_left_out
from kafka_maintenance.operations.apply.wait import is_over
from kafka_maintenance.operations.cluster.observe import session
from kafka_maintenance.operations.record.receipts import Event


def wants_its_run(
    store: ObjectStore,
    plan: Plan,
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
        number: of the step, from 0 on.
        zookeeper: the cluster's address, or a session on it.
        events: the record as it was when the run left; nothing is added while it is away.
        window: why no step may be asked for now, None where one may.
        now: the time, with zone; None: that of this machine.

    Raises:
        ZooKeeperError, ObjectStoreError: as their names say; look again later.
    """
    digest = plan_digest(plan)
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
