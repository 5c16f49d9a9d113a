"""The plan that undoes what was carried out of a reassignment plan so far, of its record and the present state of the cluster.

Source: docs/operations.md, "Rollback".
"""

from collections.abc import Mapping
from typing import Final, Unpack

from msgspec import structs

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.plans.headroom import Headroom
from controller_core.plans.kinds import kind_record, reassignment_plan
from controller_core.plans.plan import Plan, PlanKind
from controller_core.plans.rules import Throttle
from controller_core.plans.verdicts import without
from controller_core.plans.way_back import way_back
from kafka_maintenance.operations.errors import BadInputError, RefusedError, listed
from kafka_maintenance.operations.plans.planner import with_prediction
from kafka_maintenance.operations.plans.seen import Source, see, store_made
from kafka_maintenance.operations.plans.store import StoredPlan, plan_named
from kafka_maintenance.operations.record.entry import kind_in
from kafka_maintenance.operations.record.receipts import (
    EventKind,
    asked_steps,
    partitions_left_out,
    trusted_events,
)

_ASKED_NOTHING: Final[Mapping[str, str]] = {
    "restore": "`kafka-maintenance restore` of a snapshot that was taken before it brings back what was there",
    "retain_snapshots": "a snapshot that was removed is gone, but where another store has a copy",
}
"""What helps where the record is of something that asks nothing of Kafka."""


def plan_rollback(
    store: ObjectStore,
    cluster: str,
    digest: str,
    *,
    throttle_bytes_per_s: Throttle | Headroom = None,
    **source: Unpack[Source],
) -> StoredPlan | None:
    """Back to the replica lists of before the plan `digest`, for all that was asked of Kafka, wherever its run ended.

    The steps go back in the opposite order. A partition that is under way, or that somebody moved elsewhere since, is left out
    with the reason. What the run itself left out was not asked for: it stays as it is, wherever somebody moved it.

    Args:
        store: where plan and record lie, and the new plan goes.
        cluster: its name in the store.
        digest: 64 hex digits of the plan that was begun.
        throttle_bytes_per_s: how fast each broker may send, and receive, what is copied back, a band, or what each can spare; None: as fast as it can.
        **source: what the plan is made from, see `see`.

    Returns:
        The stored plan, or None when every partition has its former list.

    Raises:
        BadInputError: no such plan, or nothing of it was begun.
        RefusedError: the plan is of a kind that cannot be undone, every partition that has not its former list is left out, the controller would not carry the way back out, or
            the audit chain does not hold the record; with the reasons.
    """
    events = trusted_events(store, cluster, digest)
    started = next((each for each in events if each.event is EventKind.STARTED), None)
    if started is None:
        raise BadInputError(
            f"nothing to roll back on {cluster!r}: the store {store.uri} has no record that plan {digest!r} was begun; `kafka-maintenance "
            "executions list` names those that were"
        )
    kind = kind_in(started.detail)
    if (why := _not_undone(kind)) is not None:
        raise RefusedError(f"no rollback of plan {digest[:12]} on {cluster!r}: {why}")
    undone = plan_named(store, cluster=cluster, kind=kind, digest=digest)
    asked = [without(step, partitions_left_out(events, number)) for number, step in enumerate(undone.steps)]
    requested = [number for number in asked_steps(events) if asked[number].effects]
    seen = see(store, cluster, **source)
    back = way_back(structs.replace(undone, steps=tuple(asked)), requested, seen.observed)
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
    if back.left_out and isinstance(made, Plan) and not made.steps:
        reasons = [f"{each.subject} {each.reason}" for each in back.left_out]
        raise RefusedError(f"no rollback of plan {digest[:12]} on {cluster!r}: {listed(reasons)}")
    return store_made(store, with_prediction(made, seen), seen)


def _not_undone(kind: str) -> str | None:
    """Why that of which the record is, in its words, is not rolled back; None where it is."""
    if kind in set(PlanKind):
        return kind_record(PlanKind(kind)).not_undone
    return _ASKED_NOTHING.get(kind, "only a reassignment can be rolled back, and its record is of something else")
