"""Applies an approved plan: reads it again, checks everything again, takes it step by step, verifies, records.

The only writes to a cluster are a lock of our own, the request znodes (or the one conditional delete) that the plan names, the
execution znode beside them, and the throttle, each in a transaction with a check of the lock's fence, and what brokers are asked for
instead of a request znode (`ask_brokers`). A run can be killed at any point and started again: the
receipt in the store says how far it came.
Source: docs/operations.md, "Applying".
"""

import json
from collections.abc import Callable, Mapping
from datetime import datetime
from secrets import token_hex
from typing import Any, Final, NamedTuple

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.plans.checks import unmet
from controller_core.plans.conditions import named_partitions
from controller_core.plans.kinds import kind_record
from controller_core.plans.plain import plain
from controller_core.plans.plan import Plan, PlanKind, final_outcomes, plan_digest
from controller_core.plans.progress import StepProgress
from controller_core.ports.zookeeper import ZooKeeper
from kafka_maintenance.operations.apply.attempt import Attempt, carried_out
from kafka_maintenance.operations.apply.checks import foreign, refuse_ended
from kafka_maintenance.operations.apply.cluster_lock import Holder
from kafka_maintenance.operations.apply.executions import stop_requests
from kafka_maintenance.operations.apply.receipt import Receipt, receipt_of
from kafka_maintenance.operations.apply.run import look_at
from kafka_maintenance.operations.apply.stop import Stop
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.cluster.observe import session
from kafka_maintenance.operations.errors import PlanChangedError, RefusedError, listed
from kafka_maintenance.operations.plans.proof import verify_again
from kafka_maintenance.operations.plans.store import read_plan, read_proof
from kafka_maintenance.operations.record.departures import refuse_departed
from kafka_maintenance.operations.record.receipts import EventKind, ReceiptLog, partitions_left_out, trusted_events

SETTLE_TIMEOUT_S: Final = 10.0
"""How long the state may lag behind the end of a request: that it vanishes may mean "attempted", or "dropped"."""
AWAY_TIMEOUT_S: Final = 600.0
"""How long ZooKeeper may stay away before a run that has begun ends."""


class Verified(NamedTuple):
    """Whether the live cluster is as the plan predicted, and in words what is not."""

    done: bool
    text: str


def apply_plan(
    *,
    store: ObjectStore,
    plan_uri: str,
    approved_digest: str,
    approver: str,
    zookeeper: ClusterAddress | ZooKeeper,
    now: datetime,
    run_id: str | None = None,
    start: str | None = None,
    comment: str | None = None,
    step_timeout_s: float | None = None,
    settle_timeout_s: float = SETTLE_TIMEOUT_S,
    away_timeout_s: float = AWAY_TIMEOUT_S,
    stop: Stop | None = None,
    patience_s: float | None = None,
    resumed: bool = False,
    approval: Mapping[str, Any] | None = None,
    permit: Callable[[], object] = lambda: None,
    window: Callable[[], str | None] = lambda: None,
    brokers: BrokersAsked | None = None,
    progress: Callable[[int, int, StepProgress], None] = lambda *_: None,
) -> Receipt:
    """Carries out the plan that was approved, or says why not; may be called again after any failure.

    Args:
        store: where the plan lies and the receipt goes.
        plan_uri: address of the stored plan.
        approved_digest: the 64 hex digits that the approver saw.
        approver: who approved.
        zookeeper: the cluster's address, or a session on it.
        now: the time, with zone, for the record.
        run_id: names this run in lock and receipt; None makes one up.
        start: names what a person or a schedule began: a stop holds for every later call of that start; None: this call is one of its own.
        comment: what the approver wrote, for the record.
        step_timeout_s: how long one step's outcome is waited for; None: as its kind says (`plans.kinds.KindRecord`).
        settle_timeout_s: how long a state may lag behind the end of its request.
        away_timeout_s: how long ZooKeeper may be away, or the lock be lost, before a run that has begun ends.
        stop: asked to, the run ends at its next safe point.
        patience_s: how long one call waits for Kafka before it leaves with `StillUnderWayError`; where a step waits to be asked for, it leaves at
            once. None: it stays until the plan is done, without the lock where a step waits to be asked for.
        resumed: the call goes on with a run that left so: it is no new beginning in the record.
        approval: who asked and answered, and what was shown, for the record.
        permit: raises where the approval does not count any more; called under the lock, before the first write.
        window: why no step may be asked for now, None where one may; called before each step.
        brokers: asked for reassignments and elections, where they can be (Kafka 2.4 or newer); None: by request znodes.
        progress: told the number of the step, how many there are, and how far it is, each time that the cluster was looked at.

    Returns:
        The receipt; also when an earlier run had carried out the plan already.

    Raises:
        PlanChangedError: another plan than the approved one, or nobody approved; nothing was written.
        RefusedError: the planner's verifier does not confirm the plan, or a request that an earlier run made is undone;
            nothing was written.
        PlanStaleError: the cluster is not as the plan assumes, or the change window is closed; nothing more was written.
        ClusterBusyError: another run or another tool's request is at work; nothing more was written.
        StillUnderWayError: Kafka works at a step for longer than `patience_s`, or a step waits to be asked for; call again, `resumed`.
        NotFinishedError: requested, but the outcome was not seen in time, ZooKeeper stayed away, or the run was stopped
            (`StoppedError`); call again to go on.
        InvalidPlanError, BadInputError, ZooKeeperError, ObjectStoreError: as their names say.
    """
    plan = read_approved(store, plan_uri, approved_digest, approver)
    _refuse_unfit(store, plan, plan_uri)
    run = run_id or token_hex(4)
    log = ReceiptLog(store, cluster=plan.cluster, digest=approved_digest, run=run, approver=approver, now=now)
    if log.has(EventKind.DONE):
        return receipt_of(log, plan, approver, already=True)
    refuse_ended(log)
    if not resumed:
        store.probe()
    if not plan.steps:
        raise RefusedError(f"plan {plan_uri} not applied: it has no steps, there is nothing to do")
    begun = resumed and log.has(EventKind.STARTED)
    attempt = Attempt(
        store=store,
        plan=plan,
        uri=plan_uri,
        holder=Holder(approved_digest, run, approver, now.isoformat(timespec="seconds")),
        now=now,
        comment=comment,
        who={"approval": approval, "principal": _principal(zookeeper), "start": start},
        permit=permit,
        window=window,
        progress=progress,
        step_timeout_s=kind_record(plan.kind).step_timeout_s if step_timeout_s is None else step_timeout_s,
        settle_timeout_s=settle_timeout_s,
        away_timeout_s=away_timeout_s,
        stop=stop or Stop(),
        patience_s=patience_s,
        begun=begun,
        stops=_earlier_stops(store, plan.cluster, log, start, resumed=begun),
        brokers=brokers,
    )
    attempt.stop.also_when(lambda: _requested(store, plan.cluster, approved_digest, attempt.stops))
    return carried_out(attempt, zookeeper)


def verify(
    *,
    store: ObjectStore,
    plan_uri: str,
    zookeeper: ClusterAddress | ZooKeeper,
) -> Verified:
    """Compares the live cluster with what the plan predicted, without waiting; reads only.

    Partitions that the record names as left out, or as ended elsewhere, are not looked for. Another cluster is not looked at: a topic that
    is to be gone was never there.
    """
    plan = read_plan(store, plan_uri)
    with session(zookeeper) as opened_session:
        observed = look_at(opened_session, plan.conditions)
    digest = plan_digest(plan)
    if elsewhere := foreign(plan, observed):
        return Verified(done=False, text=f"plan {digest[:12]} not verified: {listed(elsewhere)}")
    excepted = partitions_left_out(trusted_events(store, plan.cluster, digest))
    outcomes = [each for each in final_outcomes(plan) if not named_partitions([each]) & excepted]
    reasons = unmet(outcomes, observed)
    beside = f"; {len(excepted)} partition(s) were left out or differed, as the receipt says" if excepted else ""
    if not reasons:
        return Verified(done=True, text=f"all {len(outcomes)} predictions of plan {digest[:12]} hold{beside}")
    text = f"{len(reasons)} of {len(outcomes)} predictions do not hold: {listed(reasons)}{beside}"
    return Verified(done=False, text=text)


def read_approved(store: ObjectStore, plan_uri: str, approved_digest: str, approver: str) -> Plan:
    """The stored plan, if it is the one that was approved.

    Args:
        store: where it lies.
        plan_uri: its address.
        approved_digest: what the approver saw.
        approver: who approved.

    Raises:
        PlanChangedError: it is another one, or nobody approved.
        RefusedError: the cluster has left ZooKeeper.
    """
    plan = read_plan(store, plan_uri)
    found = plan_digest(plan)
    if found != approved_digest:
        raise PlanChangedError(
            f"plan {plan_uri} not applied: approved digest {approved_digest!r}, stored digest {found!r}; "
            "read the stored plan and approve its digest, or plan again"
        )
    if not approver.strip():
        raise PlanChangedError(f"plan {plan_uri} not applied: nobody is named as its approver; have it approved")
    refuse_departed(store, plan.cluster)
    return plan


def _refuse_unfit(store: ObjectStore, plan: Plan, uri: str) -> None:
    """Refuses what no request can do, and what the planner's verifier does not confirm."""
    if plan.kind is PlanKind.MOVE_LEADERS:
        raise RefusedError(
            f"plan {uri} not applied: no request moves a leader to a chosen replica; a run as active controller does "
            "(kafka-maintenance act-as-controller, or the DAG move_leaders)"
        )
    proof = read_proof(store, uri, plan)
    if proof is not None:
        verify_again(plan, proof)


def _principal(zookeeper: ClusterAddress | ZooKeeper) -> str:
    return zookeeper.principal if isinstance(zookeeper, ClusterAddress) else "of the given session"


def _earlier_stops(
    store: ObjectStore, cluster: str, log: ReceiptLog, start: str | None, *, resumed: bool
) -> tuple[str, ...]:
    """What was asked before this start was begun; what was asked since then holds for each of its calls."""
    for each in reversed(log.events):
        if each.event is EventKind.STARTED and (resumed or (start is not None and each.detail.get("start") == start)):
            return tuple(each.detail.get("stops", ()))
    return stop_requests(store, cluster, log.digest)


def _requested(store: ObjectStore, cluster: str, digest: str, earlier: tuple[str, ...]) -> str | None:
    """Who asked for the end of this run, and why; None where nobody did since it began."""
    later = [key for key in stop_requests(store, cluster, digest) if key not in earlier]
    if not later:
        return None
    try:
        request = json.loads(store.get(later[0]))
        return plain(f"{request['by']} asked for it: {request['reason']}")
    except (ValueError, KeyError, TypeError, RecursionError):  # the wish counts, whoever wrote it
        return plain(f"somebody asked for it in {store.uri_of(later[0])}, which cannot be read")
