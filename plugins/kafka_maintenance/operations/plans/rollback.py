"""The plan that undoes what was carried out of a reassignment plan so far, of its record and the present state of the cluster.

Source: docs/operations.md, "Rollback".
"""

from datetime import datetime

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.plans.headroom import Headroom
from controller_core.plans.kinds import reassignment_plan
from controller_core.plans.plan import PlanKind
from controller_core.plans.rules import Throttle
from controller_core.plans.way_back import way_back
from controller_core.ports.zookeeper import ZooKeeper
from kafka_maintenance.operations.errors import BadInputError, RefusedError, listed
from kafka_maintenance.operations.plans.planner import with_prediction
from kafka_maintenance.operations.plans.seen import see, store_made
from kafka_maintenance.operations.plans.store import StoredPlan, find_plan, read_plan
from kafka_maintenance.operations.record.receipts import EventKind, asked_steps, trusted_events

_NOT_UNDONE = {
    PlanKind.ELECT_PREFERRED_LEADERS: "a preferred election makes the first replica the leader again, which needs no undoing",
    PlanKind.DELETE_TOPICS: "what Kafka has deleted is gone; the recreation kit (`snapshots kit`) brings names and configs back",
    PlanKind.MOVE_LEADERS: "plan a move of leaders, or an election, back to where they were",
    PlanKind.DRAIN_ISR_NOTIFICATIONS: "a re-election of the controller leaves nothing that could be undone",
}


def plan_rollback(
    store: ObjectStore,
    cluster: str,
    digest: str,
    *,
    manifest: str | None = None,
    zookeeper: ClusterAddress | ZooKeeper | None = None,
    throttle_bytes_per_s: Throttle | Headroom = None,
    kafka_version: str | None = None,
    now: datetime | None = None,
) -> StoredPlan | None:
    """Back to the replica lists of before the plan `digest`, for all that was asked of Kafka, wherever its run ended.

    The steps go back in the opposite order. A partition that is under way, or that somebody moved elsewhere since, is left out
    with the reason.

    Args:
        store: where plan and record lie, and the new plan goes.
        cluster: its name in the store.
        digest: 64 hex digits of the plan that was begun.
        manifest: address of a snapshot's manifest; None: the newest one, or a live read when `zookeeper` is given.
        zookeeper: the cluster's address or a session; it is read live.
        throttle_bytes_per_s: how fast each broker may send, and receive, what is copied back, a band, or what each can spare; None: as fast as it can.
        kafka_version: of the brokers; None: the oldest that explains what is seen.
        now: the time, for a live read's folder; None: the clock's.

    Returns:
        The stored plan, or None when every partition has its former list.

    Raises:
        BadInputError: no such plan, or nothing of it was begun.
        RefusedError: the plan is of a kind that cannot be undone, every partition is left out, the controller would not carry the way back out, or
            the audit chain does not hold the record; with the reasons.
    """
    events = trusted_events(store, cluster, digest)
    started = next((each for each in events if each.event is EventKind.STARTED), None)
    if started is None:
        raise BadInputError(
            f"nothing to roll back on {cluster!r}: the store {store.uri} has no record that plan {digest!r} was begun; `kafka-maintenance "
            "executions list` names those that were"
        )
    kind = PlanKind(started.detail["kind"])
    if kind in _NOT_UNDONE:
        raise RefusedError(f"no rollback of plan {digest[:12]} on {cluster!r}: {_NOT_UNDONE[kind]}")
    undone = read_plan(store, find_plan(store, cluster=cluster, kind=kind, digest=digest).uri)
    requested = asked_steps(events)
    seen = see(store, cluster, manifest, zookeeper, kafka_version, now)
    back = way_back(undone, requested, seen.observed)
    if back.left_out and not back.waves:
        reasons = [f"{each.subject} {each.reason}" for each in back.left_out]
        raise RefusedError(f"no rollback of plan {digest[:12]} on {cluster!r}: {listed(reasons)}")
    steps = ", ".join(str(number + 1) for number in requested) or "none"
    made = reassignment_plan(
        seen.observed,
        seen.origin,
        back.waves,
        may_change_replication_factor=True,
        left_out=back.left_out,
        remarks=[
            f"Undoes plan {digest} as far as it was carried out: step(s) {steps} of {len(undone.steps)} were asked of Kafka."
        ],
        throttle_bytes_per_s=throttle_bytes_per_s,
    )
    return store_made(store, with_prediction(made, seen), seen)
