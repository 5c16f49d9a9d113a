"""One call of `apply_plan`: it goes on in another session when one is lost, and waits without the lock where a step has to wait.

Source: docs/operations.md, "Applying".
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from time import monotonic
from typing import Any, Final

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.errors import (
    ConnectionLostError,
    SessionExpiredError,
    ZooKeeperError,
    ZooKeeperUnreachableError,
)
from controller_core.plans.plan import Plan, PlanKind
from controller_core.plans.progress import StepProgress
from controller_core.ports.zookeeper import Check, ZooKeeper
from kafka_maintenance.operations.apply.checks import refuse_beside, refuse_ended, refuse_foreign, refuse_whole
from kafka_maintenance.operations.apply.cluster_lock import Holder, cluster_lock
from kafka_maintenance.operations.apply.execution import find_execution
from kafka_maintenance.operations.apply.parked import await_turn
from kafka_maintenance.operations.apply.ready import cluster_health
from kafka_maintenance.operations.apply.receipt import Receipt, receipt_of
from kafka_maintenance.operations.apply.run import Run, first_open_step
from kafka_maintenance.operations.apply.step import is_under_way, take_step
from kafka_maintenance.operations.apply.stop import Stop
from kafka_maintenance.operations.apply.throttle import end_step, end_throttle, left_over
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.cluster.observe import SESSION_TIMEOUT_S, observe, session
from kafka_maintenance.operations.errors import (
    ClusterBusyError,
    LockLostError,
    NotFinishedError,
    StillUnderWayError,
    StoppedError,
)
from kafka_maintenance.operations.record.receipts import EventKind, ReceiptLog, is_begun

RECONNECT_S: Final = 2.0
"""How long is waited before a session is opened again."""
TRY_AGAIN_S: Final = 300.0
"""When a run that waits without the lock takes it again whatever it saw: brokers alone say whether disks have room."""

log = logging.getLogger(__name__)

_AWAY: Final = (ConnectionLostError, SessionExpiredError, ZooKeeperUnreachableError, LockLostError)


@dataclass(slots=True, kw_only=True)
class Attempt:
    """What one call of `apply_plan` needs for each session in which it goes on.

    `begun` says that the lock was taken once, `stops` names what was asked before this start, `lost_s` since when it is lost (`monotonic`),
    `waits` which step waits to be asked for without the lock; `now` is the time at `called_s` (`monotonic`).
    """

    store: ObjectStore
    plan: Plan
    uri: str
    holder: Holder
    now: datetime
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
    called_s: float = field(init=False)

    def __post_init__(self) -> None:
        self.called_s = monotonic()

    def record(self, digest: str | None = None) -> ReceiptLog:
        """The record of the plan, or of the one with that digest, as it stands; its time goes on from the call."""
        named = {"digest": digest or self.holder.plan, "run": self.holder.run, "approver": self.holder.approver}
        return ReceiptLog(self.store, cluster=self.plan.cluster, now=self.now, now_at_s=self.called_s, **named)

    def end_left_over_throttles(self, zookeeper: ZooKeeper, fence: Check) -> None:
        """Takes back the throttles of runs that ended without it, unless Kafka still works at their step."""
        found = find_execution(zookeeper)
        execution = None if found is None else found.execution
        if found is not None and execution is None:
            return  # nobody can say at whose step Kafka works
        under_way = None if execution is None else execution.plan
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
                if not is_begun(record.events):
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


def carried_out(attempt: Attempt, zookeeper: ClusterAddress | ZooKeeper) -> Receipt:
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
