"""Applies an approved plan: reads it again, checks everything again, takes it step by step, verifies, records.

The only writes to a cluster are a lock of our own, the request znodes (or the one conditional delete) that the plan names, the
execution znode beside them, and the throttle, each in a transaction with a check of the lock's fence, and what brokers are asked for
instead of a request znode (`ask_brokers`). A run can be killed at any point and started again: the
receipt in the store says how far it came.
Source: docs/operations.md, "Applying".
"""

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from secrets import token_hex
from time import monotonic
from typing import Any, Final, NamedTuple

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.errors import (
    ConnectionLostError,
    SessionExpiredError,
    ZooKeeperError,
    ZooKeeperUnreachableError,
)
from controller_core.plans.checks import unmet
from controller_core.plans.conditions import named_partitions
from controller_core.plans.kinds import kind_record
from controller_core.plans.plan import Plan, PlanKind, final_outcomes, plan_digest
from controller_core.plans.progress import StepProgress
from controller_core.ports.zookeeper import Check, ZooKeeper
from kafka_maintenance.operations.apply.checks import refuse_beside, refuse_ended, refuse_foreign, refuse_whole
from kafka_maintenance.operations.apply.cluster_lock import Holder, cluster_lock
from kafka_maintenance.operations.apply.execution import find_execution
from kafka_maintenance.operations.apply.executions import stop_requests
from kafka_maintenance.operations.apply.parked import await_turn
from kafka_maintenance.operations.apply.ready import cluster_health
from kafka_maintenance.operations.apply.run import Run, exceptions, first_open_step, look_at, partitions_left_out
from kafka_maintenance.operations.apply.step import is_under_way, take_step
from kafka_maintenance.operations.apply.stop import Stop
from kafka_maintenance.operations.apply.throttle import end_step, end_throttle, left_over
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.cluster.observe import SESSION_TIMEOUT_S, observe, session
from kafka_maintenance.operations.errors import (
    ClusterBusyError,
    LockLostError,
    NotFinishedError,
    PlanChangedError,
    RefusedError,
    StillUnderWayError,
    StoppedError,
    listed,
)
from kafka_maintenance.operations.plans.proof import verify_again
from kafka_maintenance.operations.plans.store import read_plan, read_proof
from kafka_maintenance.operations.record.departures import refuse_departed
from kafka_maintenance.operations.record.receipts import EventKind, ReceiptLog, read_events, receipt_prefix

SETTLE_TIMEOUT_S: Final = 10.0
"""How long the state may lag behind the end of a request: that it vanishes may mean "attempted", or "dropped"."""
AWAY_TIMEOUT_S: Final = 600.0
"""How long ZooKeeper may stay away before a run that has begun ends."""
RECONNECT_S: Final = 2.0
"""How long is waited before a session is opened again."""
TRY_AGAIN_S: Final = 300.0
"""When a run that waits without the lock takes it again whatever it saw: brokers alone say whether disks have room."""

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What became of an approved plan.

    `uri` is the address of the last event of the record; `already_applied` says that an earlier run had done it all, and
    nothing was written this time. `exceptions` names the partitions that were left out or ended elsewhere, and why.
    """

    uri: str
    digest: str
    kind: str
    cluster: str
    approver: str
    step_count: int
    already_applied: bool
    exceptions: tuple[str, ...]
    text: str


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
    attempt = _Attempt(
        store=store,
        plan=plan,
        uri=plan_uri,
        holder=Holder(approved_digest, run, approver, now.isoformat(timespec="seconds")),
        now=now,
        called_s=monotonic(),
        comment=comment,
        who={"approval": approval, "principal": _principal(zookeeper)},
        permit=permit,
        window=window,
        progress=progress,
        step_timeout_s=kind_record(plan.kind).step_timeout_s if step_timeout_s is None else step_timeout_s,
        settle_timeout_s=settle_timeout_s,
        away_timeout_s=away_timeout_s,
        stop=stop or Stop(),
        patience_s=patience_s,
        begun=begun,
        stops=_stops(log) if begun else stop_requests(store, plan.cluster, approved_digest),
        brokers=brokers,
    )
    attempt.stop.also_when(lambda: _requested(store, plan.cluster, approved_digest, attempt.stops))
    return _carried_out(attempt, zookeeper)


def verify(
    *,
    store: ObjectStore,
    plan_uri: str,
    zookeeper: ClusterAddress | ZooKeeper,
) -> Verified:
    """Compares the live cluster with what the plan predicted, without waiting; reads only.

    Partitions that the record names as left out, or as ended elsewhere, are not looked for.
    """
    plan = read_plan(store, plan_uri)
    with session(zookeeper) as opened_session:
        observed = look_at(opened_session, plan.conditions)
    digest = plan_digest(plan)
    excepted = partitions_left_out(read_events(store, plan.cluster, digest))
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


def _stops(log: ReceiptLog) -> tuple[str, ...]:
    """What was asked of earlier runs when the one that goes on was begun."""
    return tuple(next(each for each in reversed(log.events) if each.event is EventKind.STARTED).detail.get("stops", ()))


def _requested(store: ObjectStore, cluster: str, digest: str, earlier: tuple[str, ...]) -> str | None:
    """Who asked for the end of this run, and why; None where nobody did since it began."""
    later = [key for key in stop_requests(store, cluster, digest) if key not in earlier]
    if not later:
        return None
    request = json.loads(store.get(later[0]))
    return f"{request['by']} asked for it: {request['reason']}"


_AWAY: Final = (ConnectionLostError, SessionExpiredError, ZooKeeperUnreachableError, LockLostError)


@dataclass(slots=True, kw_only=True)
class _Attempt:
    """What one call of `apply_plan` needs for each session in which it goes on.

    `begun` says that the lock was taken once, `stops` names what was asked of runs before this one, `lost_s` since when it is lost (`monotonic`),
    `waits` which step waits to be asked for without the lock; `now` is the time at `called_s` (`monotonic`).
    """

    store: ObjectStore
    plan: Plan
    uri: str
    holder: Holder
    now: datetime
    called_s: float
    comment: str | None
    who: Mapping[str, Any]
    permit: Callable[[], object]
    window: Callable[[], str | None]
    progress: Callable[[int, int, StepProgress], None]
    step_timeout_s: float
    settle_timeout_s: float
    away_timeout_s: float
    stop: Stop
    patience_s: float | None
    begun: bool
    stops: tuple[str, ...]
    brokers: BrokersAsked | None = None
    lost_s: float | None = None
    waits: int | None = None

    def record(self, digest: str | None = None) -> ReceiptLog:
        """The record of the plan, or of the one with that digest, as it stands; its time goes on from the call."""
        named = {"digest": digest or self.holder.plan, "run": self.holder.run, "approver": self.holder.approver}
        now = self.now + timedelta(seconds=monotonic() - self.called_s)
        return ReceiptLog(self.store, cluster=self.plan.cluster, now=now, **named)

    def end_left_over_throttles(self, zookeeper: ZooKeeper, fence: Check) -> None:
        """Takes back the throttles of runs that ended without it, unless Kafka still works at their step."""
        found = find_execution(zookeeper)
        under_way = None if found is None or found.execution is None else found.execution.plan
        for digest in left_over(self.store, self.plan.cluster):
            if digest not in {under_way, self.holder.plan}:
                end_throttle(zookeeper, fence, self.record(digest))

    def carry_out(self, zookeeper: ZooKeeper) -> Receipt:
        """Goes on from where the record ends, as the holder of the lock."""
        plan, holder = self.plan, self.holder
        refuse_foreign(plan, observe(zookeeper, partitions=()))
        with cluster_lock(zookeeper, holder, wait_s=2 * SESSION_TIMEOUT_S) as fence:
            self.lost_s = self.waits = None
            record = self.record()
            if record.has(EventKind.DONE):
                return receipt_of(record, plan, holder.approver, already=not self.begun)
            refuse_ended(record)
            if plan.kind is not PlanKind.DRAIN_ISR_NOTIFICATIONS:  # it may be what the other plan's step needs
                refuse_beside(zookeeper, fence, plan.cluster, holder.plan, self.store)
            self.end_left_over_throttles(zookeeper, fence)
            observed = observe(zookeeper)
            if not self.begun:
                if all(each.event is not EventKind.INTENDED for each in record.events):
                    self.permit()
                record.append(
                    EventKind.STARTED,
                    plan=self.uri,
                    kind=plan.kind,
                    steps=len(plan.steps),
                    comment=self.comment,
                    stops=self.stops,
                    **self.who,
                    **cluster_health(plan, observed, zookeeper)._asdict(),
                )
                self.begun = True
            log.info(
                "plan %s on %r: lock taken, %d step(s), approved by %r, controller epoch %s; receipt %s",
                *(
                    holder.plan[:12],
                    plan.cluster,
                    len(plan.steps),
                    holder.approver,
                    observed.controller_epoch,
                    record.uri,
                ),
            )
            run = Run(
                zookeeper,
                fence,
                record,
                plan,
                holder.plan,
                self.step_timeout_s,
                self.settle_timeout_s,
                self.stop,
                self.patience_s,
                self.brokers,
                self.progress,
                self.window,
            )
            _take_steps(run)
        return receipt_of(record, plan, holder.approver, already=False)

    def lost(self, error: ZooKeeperError | LockLostError) -> None:
        """Records that the session broke, once; raises where nothing was begun, where it lasts, or where the run shall end."""
        if not self.begun:
            raise error
        record = self.record()
        number = first_open_step(self.plan, record) or 0
        if self.lost_s is None:
            self.lost_s = monotonic()
            record.append(EventKind.INTERRUPTED, step=number, reasons=[str(error)])
        where = f"plan {self.holder.plan[:12]} on {self.plan.cluster!r}, step {number + 1} of {len(self.plan.steps)}"
        ended = f"{error}; what was asked goes on at Kafka; receipt {record.uri}; run again to go on"
        if self.stop.reason is not None:
            raise StoppedError(f"{where}: stopped ({self.stop.reason}) while ZooKeeper was away: {ended}") from error
        if monotonic() - self.lost_s >= self.away_timeout_s:
            raise NotFinishedError(
                f"{where}: no session with the lock for {self.away_timeout_s:.0f} s: {ended}"
            ) from error
        log.warning("%s: goes on when ZooKeeper answers: %s", where, error)


def _carried_out(attempt: _Attempt, zookeeper: ClusterAddress | ZooKeeper) -> Receipt:
    """Goes on in another session as often as one is lost, or a step had to wait."""
    while True:
        try:
            with session(zookeeper) as opened_session:
                return attempt.carry_out(opened_session)
        except _AWAY as error:
            attempt.lost(error)
            attempt.stop.wait(RECONNECT_S)
        except StillUnderWayError as left:
            if attempt.patience_s is not None:
                raise
            attempt.waits = left.step
            log.info("%s", left)
        except ClusterBusyError as error:
            if attempt.waits is None or attempt.stop.reason is not None:
                raise
            log.info("%s; goes on after it", error)  # it may be what the step waits for
        if attempt.waits is not None:
            await_turn(
                attempt.store,
                attempt.plan,
                attempt.waits,
                zookeeper,
                record=attempt.record(),
                window=attempt.window,
                stop=attempt.stop,
                limit_s=min(TRY_AGAIN_S, attempt.step_timeout_s),
            )


def _take_steps(run: Run) -> None:
    steps = run.plan.steps
    first = first_open_step(run.plan, run.log)
    if first is None or not is_under_way(run, first):
        end_step(run)  # of a step whose run ended before it could remove it
    if first is not None:
        if not is_under_way(run, first):
            refuse_whole(run, first)
        for number in range(first, len(steps)):
            take_step(run, number, steps[number])
            end_step(run)
    run.log.append(EventKind.DONE, steps=len(steps))


def receipt_of(log: ReceiptLog, plan: Plan, approver: str, *, already: bool) -> Receipt:
    """What became of the plan, as its record says.

    Args:
        log: the record.
        plan: which.
        approver: who approved.
        already: an earlier run had done it all.
    """
    first = next((each for each in log.events if each.event is EventKind.DONE), None)
    text = (
        f"plan was carried out already at {first.at}, approved by {first.approver!r}; nothing was written now"
        if already and first is not None
        else f"plan carried out and verified in {len(plan.steps)} step(s), approved by {approver!r}"
    )
    verified = [each.detail for each in log.events if each.event is EventKind.VERIFIED and "took_s" in each.detail]
    if verified:
        took, estimated = (sum(each[name] for each in verified) for name in ("took_s", "estimate_s"))
        text += f"; copied in {took} s, where {estimated} s were estimated from bytes and throttle"
    if excepted := exceptions(log.events):
        text += f"; {len(excepted)} partition(s) not as planned: {listed(excepted)}"
    return Receipt(
        uri=log.uri,
        digest=plan_digest(plan),
        kind=plan.kind.value,
        cluster=plan.cluster,
        approver=approver,
        step_count=len(plan.steps),
        already_applied=already,
        exceptions=excepted,
        text=text,
    )


__all__ = ["Receipt", "Verified", "apply_plan", "receipt_prefix", "verify"]
