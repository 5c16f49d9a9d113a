"""Cancelling what a reassignment plan has under way at Kafka: per partition, through the Admin API of Kafka 2.4 and newer.

Each partition goes back to the replicas of before the step, whose data are all there: Kafka removes none of them before the new ones
are in sync. The plan ends with it.
Source: Kafka 3.9 `KafkaController.cancelPartitionReassignment`, KIP-455; docs/operations.md, "Cancel".
"""

import hashlib
from collections.abc import Callable, Sequence
from datetime import datetime
from time import monotonic, sleep
from typing import Final, NamedTuple

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.partitions import TopicPartition
from controller_core.model.words import first_lines
from controller_core.plans.document import canonical
from controller_core.plans.plan import Plan, PlanKind
from controller_core.plans.verdicts import Fate, Verdict, verdicts, without
from controller_core.ports.zookeeper import ZooKeeper
from kafka_maintenance.operations.apply.cluster_lock import Holder, cluster_lock
from kafka_maintenance.operations.apply.execution import end_execution
from kafka_maintenance.operations.apply.executions import request_stop
from kafka_maintenance.operations.apply.run import look_at
from kafka_maintenance.operations.apply.throttle import end_throttle
from kafka_maintenance.operations.cluster.admin_requests import (
    BrokersCannotError,
    UnansweredError,
    alter_reassignments,
)
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.cluster.observe import session
from kafka_maintenance.operations.errors import BadInputError, NotFinishedError, RefusedError, listed
from kafka_maintenance.operations.plans.store import plan_named
from kafka_maintenance.operations.record.entry import kind_in
from kafka_maintenance.operations.record.receipts import EventKind, ReceiptLog, last_asking, partitions_left_out

CONTROLLER_TIMEOUT_S: Final = 60.0
"""How long the run of the plan may take to end, and the controller to write what it answered."""
_LOOK_S: Final = 0.5
_SHOWN_MAX: Final = 20
_ENDED: Final = "NoReassignmentInProgressError"
_NO_CANCEL: Final = (
    "Kafka up to 2.3 cannot cancel a reassignment: let it finish, and plan a rollback, which copies the data back; or read its "
    "request, still at the controller"
)


class BrokersRefusedError(NotFinishedError):
    """The brokers did not answer, or did not cancel; what is under way goes on, and the plan is not over."""


class Cancellation(NamedTuple):
    """A step of a plan, counted from 0, with the partitions that Kafka moves for it now; `digest` names cluster, plan and step."""

    plan: str
    step: int
    step_count: int
    partitions: tuple[Verdict, ...]
    digest: str

    @property
    def text(self) -> str:
        """For whoever decides."""
        of = f"step {self.step + 1} of {self.step_count} of plan {self.plan}"
        what = "go back to their former replicas, and the plan ends; what they have copied is lost, what is done stays"
        head = f"{of}: {len(self.partitions)} partition(s) are under way, {what}"
        return "\n".join([head, *(f"  {each}" for each in first_lines(self.partitions, _SHOWN_MAX))])


def cancellation(
    store: ObjectStore, cluster: str, digest: str, zookeeper: ClusterAddress | ZooKeeper, now: datetime
) -> Cancellation:
    """What would be cancelled of the plan, as Kafka works at it now; reads only.

    Args:
        store: of snapshots, plans and records.
        cluster: its name.
        digest: of the plan, SHA-256 in hex.
        zookeeper: the living cluster.
        now: the time, UTC.

    Raises:
        BadInputError: no such plan was begun.
        RefusedError: nothing of it can be cancelled, with the reason.
    """
    with session(zookeeper) as opened:
        record = _record(store, cluster, digest, "nobody", now)
        return _found(_plan_of(store, record, cluster), record, opened)


def cancel(
    *,
    store: ObjectStore,
    cluster: str,
    digest: str,
    zookeeper: ClusterAddress | ZooKeeper,
    brokers: BrokersAsked,
    approved_digest: str,
    by: str,
    reason: str,
    now: datetime,
    timeout_s: float = CONTROLLER_TIMEOUT_S,
) -> str:
    """Cancels what is under way of the plan, in a sentence; may be called again after any failure.

    The run of the plan is asked to end, the lock is taken after it, the cancel is recorded before the brokers are asked for it, throttle
    and execution are taken away, and the record ends with `over`: the plan is never begun again.

    Args:
        store: where plan and record lie.
        cluster: its name in the store.
        digest: 64 hex digits of the plan.
        zookeeper: the cluster's address or a session.
        brokers: whose controller is asked.
        approved_digest: `Cancellation.digest` that the person saw.
        by: who decided.
        reason: for the record.
        now: the time, with zone.
        timeout_s: how long the run may take to end, and the controller to write.

    Raises:
        BadInputError: no such plan was begun.
        RefusedError: nothing of it can be cancelled, or another step than the approved one is under way; nothing was written.
        BrokersRefusedError: the brokers did not answer, or did not cancel all; the plan is not over.
        ClusterBusyError, NotFinishedError: another run holds the lock.
    """
    record = _record(store, cluster, digest, by, now)
    plan, run = _plan_of(store, record, cluster), f"cancel of {digest[:12]}"
    store.probe()
    with session(zookeeper) as opened:
        _approved(_found(plan, record, opened), approved_digest)
        request_stop(store, cluster, digest, by=by, reason=f"cancel: {reason}", now=now)
        holder = Holder(digest, run, by, now.isoformat(timespec="seconds"))
        with cluster_lock(opened, holder, wait_s=timeout_s) as fence:
            record = _record(store, cluster, digest, by, now)
            found = _found(plan, record, opened)
            _approved(found, approved_digest)
            what = f"{run} on {cluster!r}"

            def ask(partitions: Sequence[TopicPartition]) -> None:
                record.append(EventKind.CANCELLING, step=found.step, reason=reason, partitions=len(partitions))
                ask_brokers(brokers, partitions, what)

            _cancel_all(found.partitions, lambda: _found(plan, record, opened).partitions, ask, timeout_s, what)
            fates = _fates(plan, record, found.step, opened)
            counts = ", ".join(f"{n} {fate}" for fate in Fate if (n := sum(each.fate is fate for each in fates)))
            told = [f"cancelled by {by}: {reason}", f"of step {found.step + 1}: {counts}"]
            missed = [str(each) for each in fates if each.fate is not Fate.DONE]
            end_throttle(opened, fence, record)  # before the record ends: after that nothing looks at the plan again
            end_execution(opened, fence, digest)
            record.append(EventKind.OVER, step=found.step, reasons=[*told, *missed[:100]])
    return (
        f"step {found.step + 1} of {found.step_count} of plan {digest} cancelled on {cluster!r}: {counts}; the plan is over; receipt "
        f"{record.uri}; `kafka-maintenance rollback` plans the way back of what was done"
    )


def _plan_of(store: ObjectStore, record: ReceiptLog, cluster: str) -> Plan:
    digest = record.digest
    started = next((each for each in record.events if each.event is EventKind.STARTED), None)
    if started is None:
        raise BadInputError(
            f"nothing to cancel on {cluster!r}: the store {store.uri} has no record that plan {digest!r} was begun; `kafka-maintenance "
            "executions list` names those that were"
        )
    kind = kind_in(started.detail)
    if kind != PlanKind.REASSIGN_PARTITIONS:
        why = f"a plan of kind {kind} is asked of Kafka in one request, and `kafka-maintenance stop` ends its run"
        if kind not in set(PlanKind):
            why = f"its record is of kind {kind!r}, which asks nothing of Kafka"
        raise RefusedError(f"plan {digest[:12]} on {cluster!r} not cancelled: only a reassignment can be; {why}")
    return plan_named(store, cluster=cluster, kind=kind, digest=digest)


def _record(store: ObjectStore, cluster: str, digest: str, by: str, now: datetime) -> ReceiptLog:
    return ReceiptLog(store, cluster=cluster, digest=digest, run="cancel", approver=by, now=now)


def _found(plan: Plan, record: ReceiptLog, zookeeper: ZooKeeper) -> Cancellation:
    """The step that was asked for and not seen to end, with what is under way of it; nothing is, where a cancel was cut off."""
    what = f"plan {record.digest[:12]} on {plan.cluster!r} not cancelled"
    ended = next((each for each in record.events if each.event in {EventKind.OVER, EventKind.DONE}), None)
    if ended is not None:
        raise RefusedError(f"{what}: it ended at {ended.at} ({ended.event}); nothing of it is under way")
    asked = [
        number
        for number in range(len(plan.steps))
        if last_asking(record.events, number) in {EventKind.INTENDED, EventKind.REQUESTED}
        and not record.has(EventKind.VERIFIED, number)
    ]
    if not asked:
        raise RefusedError(
            f"{what}: no step of it is under way; `kafka-maintenance stop` keeps its run from the next one"
        )
    step = asked[-1]
    fates = _fates(plan, record, step, zookeeper)
    observed = look_at(zookeeper, plan.steps[step].conditions)
    moving = tuple(
        each
        for each in fates
        if each.fate is Fate.UNDER_WAY and observed.assignments[each.partition].is_being_reassigned
    )
    if not moving and any(each.fate is Fate.UNDER_WAY for each in fates):
        raise RefusedError(f"{what}: its request stands, and no partition adds or removes replicas yet: {_NO_CANCEL}")
    if not moving and not record.has(EventKind.CANCELLING, step):
        raise RefusedError(f"{what}: Kafka moves nothing of step {step + 1} any more: {listed(fates)}")
    digest = hashlib.sha256(canonical(["cancel", plan.cluster, record.digest, step])).hexdigest()
    return Cancellation(record.digest, step, len(plan.steps), moving, digest)


def _fates(plan: Plan, record: ReceiptLog, step: int, zookeeper: ZooKeeper) -> tuple[Verdict, ...]:
    asked = without(plan.steps[step], partitions_left_out(record.events, step))
    return verdicts(asked, look_at(zookeeper, asked.conditions))


def _approved(found: Cancellation, approved_digest: str) -> None:
    if found.digest != approved_digest:
        raise RefusedError(
            f"plan {found.plan[:12]} not cancelled: approved {approved_digest!r}, found {found.digest!r}:\n{found.text}\nlook at it and "
            "approve that"
        )


def ask_brokers(brokers: BrokersAsked, partitions: Sequence[TopicPartition], what: str) -> None:
    """Asks for all of them; a partition whose reassignment has just ended is no error."""
    try:
        refused = alter_reassignments(brokers, dict.fromkeys(partitions), what)
    except (BrokersCannotError, UnansweredError) as error:
        raise BrokersRefusedError(f"not cancelled: {error}; what is under way goes on; cancel again") from error
    failed = [f"{each}: {why}" for each, why in refused.items() if why != _ENDED]
    if failed:
        raise BrokersRefusedError(f"{what}: {len(failed)} not cancelled: {listed(failed)}; cancel again")


def _cancel_all(
    moving: Sequence[Verdict],
    look: Callable[[], Sequence[Verdict]],
    ask: Callable[[Sequence[TopicPartition]], None],
    timeout_s: float,
    what: str,
) -> None:
    """Asks for each partition once, also for those that the controller begins after the first look, until none is `moving`."""
    asked, deadline_s = set[TopicPartition](), 0.0
    while moving:
        if begun := [each.partition for each in moving if each.partition not in asked]:
            ask(begun)
            asked.update(begun)
            deadline_s = monotonic() + timeout_s  # of the controller, from the brokers' answer on
        elif monotonic() >= deadline_s:
            raise BrokersRefusedError(
                f"{what}: cancelled by the brokers' answer, and still under way after {timeout_s:.0f} s: {listed(moving)}; cancel again"
            )
        else:
            sleep(_LOOK_S)
        moving = look()
