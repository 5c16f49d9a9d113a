"""Applies an approved plan: reads it again, checks everything again, takes it step by step, verifies, records.

The only writes to a cluster are a lock of our own and the request znodes (or the one conditional delete) that the plan
names, each in a transaction with a check of the lock's fence. A run can be killed at any point and started again: the
receipt in the store says how far it came.
Source: docs/operations.md, "Applying".
"""

from dataclasses import dataclass
from datetime import datetime
from secrets import token_hex
from typing import Final, NamedTuple

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.zookeeper.session import ZooKeeperAuth, ZooKeeperTls
from controller_core.plans.conditions import Condition, KafkaClusterIs, ZooKeeperControllerRules, unmet
from controller_core.plans.kinds import kind_record
from controller_core.plans.observation import Observation
from controller_core.plans.plan import Plan, check_expectations, final_outcomes, plan_digest
from controller_core.ports.zookeeper import ZooKeeper
from kafka_maintenance.operations.apply.cluster_lock import Holder, cluster_lock
from kafka_maintenance.operations.apply.receipts import EventKind, ReceiptLog, receipt_prefix
from kafka_maintenance.operations.apply.step import Run, look_at, perhaps_asked, refuse_stale, take_step
from kafka_maintenance.operations.cluster.observe import SESSION_TIMEOUT_S, observe, session
from kafka_maintenance.operations.errors import (
    PlanChangedError,
    PlanStaleError,
    RefusedError,
    listed,
)
from kafka_maintenance.operations.plans.proof import verify_again
from kafka_maintenance.operations.plans.store import opened, read_plan, read_proof

SETTLE_TIMEOUT_S: Final = 10.0
"""How long the state may lag behind the end of a request: that it vanishes may mean "attempted", or "dropped"."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What became of an approved plan.

    `uri` is the address of the last event of the record; `already_applied` says that an earlier run had done it all, and
    nothing was written this time.
    """

    uri: str
    digest: str
    kind: str
    cluster: str
    approver: str
    step_count: int
    already_applied: bool
    text: str


class Verified(NamedTuple):
    """Whether the live cluster is as the plan predicted, and in words what is not."""

    done: bool
    text: str


def apply_plan(
    *,
    store: ObjectStore | str,
    plan_uri: str,
    approved_digest: str,
    approver: str,
    zookeeper: str | ZooKeeper,
    auth: ZooKeeperAuth | None = None,
    tls: ZooKeeperTls | None = None,
    now: datetime,
    run_id: str | None = None,
    comment: str | None = None,
    step_timeout_s: float | None = None,
    settle_timeout_s: float = SETTLE_TIMEOUT_S,
) -> Receipt:
    """Carries out the plan that was approved, or says why not; may be called again after any failure.

    Args:
        store: where the plan lies and the receipt goes.
        plan_uri: address of the stored plan.
        approved_digest: the 64 hex digits that the approver saw.
        approver: who approved.
        zookeeper: `host:port,…/chroot` of the cluster, or a session on it.
        auth: credentials; None: anonymous.
        tls: certificates; None: plain text.
        now: the time, with zone, for the record.
        run_id: names this run in lock and receipt; None makes one up.
        comment: what the approver wrote, for the record.
        step_timeout_s: how long one step's outcome is waited for; None: as its kind says (`plans.kinds.KindRecord`).
        settle_timeout_s: how long a state may lag behind the end of its request.

    Returns:
        The receipt; also when an earlier run had carried out the plan already.

    Raises:
        PlanChangedError: another plan than the approved one, or nobody approved; nothing was written.
        RefusedError: the planner's verifier does not confirm the plan, or a request that an earlier run made is undone;
            nothing was written.
        PlanStaleError: the cluster is not as the plan assumes; nothing more was written.
        ClusterBusyError: another run or another tool's request is at work; nothing more was written.
        NotFinishedError: requested, but the outcome was not seen in time, or the lock was lost; call again to go on.
        InvalidPlanError, BadInputError, ZooKeeperError, ObjectStoreError: as their names say.
    """
    store = opened(store)
    plan = _approved(store, plan_uri, approved_digest, approver)
    proof = read_proof(store, plan_uri)
    if proof is not None:
        verify_again(plan, proof)
    run = run_id or token_hex(4)
    log = ReceiptLog(store, cluster=plan.cluster, digest=approved_digest, run=run, approver=approver, now=now)
    if log.has(EventKind.DONE):
        return _receipt(log, plan, approver, already=True)
    if not plan.steps:
        raise RefusedError(f"plan {plan_uri} not applied: it has no steps, there is nothing to do")
    holder = Holder(approved_digest, run, approver, now.isoformat(timespec="seconds"))
    with session(zookeeper, auth, tls) as opened_session:
        _refuse_foreign(plan, observe(opened_session, partitions=()))
        with cluster_lock(opened_session, holder, wait_s=2 * SESSION_TIMEOUT_S) as fence:
            log = ReceiptLog(store, cluster=plan.cluster, digest=approved_digest, run=run, approver=approver, now=now)
            if log.has(EventKind.DONE):
                return _receipt(log, plan, approver, already=True)
            log.append(EventKind.STARTED, plan=plan_uri, kind=plan.kind, steps=len(plan.steps), comment=comment)
            timeout_s = kind_record(plan.kind).step_timeout_s if step_timeout_s is None else step_timeout_s
            _carry_out(Run(opened_session, fence, log, plan, timeout_s, settle_timeout_s))
    return _receipt(log, plan, approver, already=False)


def verify(
    *,
    store: ObjectStore | str,
    plan_uri: str,
    zookeeper: str | ZooKeeper,
    auth: ZooKeeperAuth | None = None,
    tls: ZooKeeperTls | None = None,
) -> Verified:
    """Compares the live cluster with what the plan predicted, without waiting; reads only."""
    plan = read_plan(opened(store), plan_uri)
    with session(zookeeper, auth, tls) as opened_session:
        observed = look_at(opened_session, plan.conditions)
    outcomes = final_outcomes(plan)
    reasons = unmet(outcomes, observed)
    if not reasons:
        return Verified(done=True, text=f"all {len(outcomes)} predictions of plan {plan_digest(plan)[:12]} hold")
    return Verified(done=False, text=f"{len(reasons)} of {len(outcomes)} predictions do not hold: {listed(reasons)}")


def _approved(store: ObjectStore, plan_uri: str, approved_digest: str, approver: str) -> Plan:
    plan = read_plan(store, plan_uri)
    found = plan_digest(plan)
    if found != approved_digest:
        raise PlanChangedError(
            f"plan {plan_uri} not applied: approved digest {approved_digest[:12]!r}, stored digest {found[:12]!r}; "
            "read the stored plan and approve its digest, or plan again"
        )
    if not approver.strip():
        raise PlanChangedError(f"plan {plan_uri} not applied: nobody is named as its approver; have it approved")
    return plan


def _refuse_foreign(plan: Plan, observed: Observation) -> None:
    """Another cluster, or one that KRaft runs, is not even locked."""
    conditions: list[Condition] = [each for each in plan.expectations if isinstance(each, KafkaClusterIs)]
    if observed.kraft_sign is not None:
        conditions.append(ZooKeeperControllerRules())
    if reasons := unmet(conditions, observed):
        raise PlanStaleError(
            f"plan {plan_digest(plan)[:12]} not applied to {plan.cluster!r}: {listed(reasons)}", reasons
        )


def _carry_out(run: Run) -> None:
    steps = run.plan.steps
    first = next((n for n in range(len(steps)) if not run.log.has(EventKind.VERIFIED, n)), len(steps))
    if first < len(steps) and not perhaps_asked(run, first):
        refuse_stale(
            run, first, check_expectations(run.plan, look_at(run.zookeeper, run.plan.conditions), first_step=first)
        )
    for number in range(first, len(steps)):
        take_step(run, number, steps[number])
    run.log.append(EventKind.DONE, steps=len(steps))


def _receipt(log: ReceiptLog, plan: Plan, approver: str, *, already: bool) -> Receipt:
    first = next((each for each in log.events if each.event is EventKind.DONE), None)
    text = (
        f"plan was carried out already at {first.at}, approved by {first.approver!r}; nothing was written now"
        if already and first is not None
        else f"plan carried out and verified in {len(plan.steps)} step(s), approved by {approver!r}"
    )
    return Receipt(
        uri=log.uri,
        digest=plan_digest(plan),
        kind=plan.kind.value,
        cluster=plan.cluster,
        approver=approver,
        step_count=len(plan.steps),
        already_applied=already,
        text=text,
    )


__all__ = ["Receipt", "Verified", "apply_plan", "receipt_prefix", "verify"]
