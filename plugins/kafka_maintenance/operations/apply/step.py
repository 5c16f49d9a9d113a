"""One step of a plan: checked by fresh reads, asked for in one transaction, waited for, recorded.

Source: docs/operations.md, "Applying".
"""

import logging
import threading
from collections.abc import Iterable, Sequence
from time import monotonic
from typing import Final, NamedTuple, assert_never

from controller_core.model.errors import (
    BadVersionError,
    ConnectionLostError,
    NodeExistsError,
    NoNodeError,
    ZooKeeperError,
)
from controller_core.plans.conditions import (
    AssignedTo,
    Condition,
    LedBy,
    RequestAbsent,
    TopicGone,
    TopicIs,
    TopicNotQueued,
    Unmet,
    named_partitions,
    named_topics,
    subject,
    unmet,
)
from controller_core.plans.observation import Observation
from controller_core.plans.plan import Plan, PlanStep, plan_digest
from controller_core.plans.request_znodes import (
    CreateDeleteTopic,
    CreatePreferredReplicaElection,
    CreateReassignPartitions,
    DeleteController,
    Request,
    may_be_asked_twice,
    request_data,
    request_path,
)
from controller_core.ports.zookeeper import Check, Create, Delete, Operation, Watcher, WatchEvent, ZooKeeper
from controller_core.znodes.paths import CONTROLLER_EPOCH
from kafka_maintenance.operations.apply.cluster_lock import LOCK_PATH
from kafka_maintenance.operations.apply.receipts import EventKind, ReceiptLog
from kafka_maintenance.operations.cluster.observe import observe
from kafka_maintenance.operations.errors import ClusterBusyError, NotFinishedError, PlanStaleError, RefusedError, listed

RECHECK_S: Final = 0.5
"""The outcome is read again at least this often, and at once when a request znode changes."""
_ASKING: Final = frozenset({EventKind.INTENDED, EventKind.REQUESTED, EventKind.REFUSED})
_UNDONE_WHEN: Final = (AssignedTo, TopicIs, TopicNotQueued, RequestAbsent)
_OWN_ADVICE: Final = (
    "our own request stands there and the controller has not finished it: look at the controller's logs"
)

log = logging.getLogger(__name__)


class Run(NamedTuple):
    """One application of a plan, and what its steps need; times in seconds, as of `apply_plan`."""

    zookeeper: ZooKeeper
    fence: Check
    log: ReceiptLog
    plan: Plan
    step_timeout_s: float
    settle_timeout_s: float


def look_at(zookeeper: ZooKeeper, conditions: Iterable[Condition]) -> Observation:
    """The cluster as it is now, as far as `conditions` speak of it."""
    named = tuple(conditions)
    return observe(zookeeper, partitions=named_partitions(named), topics=named_topics(named))


def take_step(run: Run, number: int, step: PlanStep) -> None:
    """Takes the step `number`, counted from 0, or goes on with it where an earlier run stopped.

    Raises:
        PlanStaleError, ClusterBusyError, RefusedError, NotFinishedError: as of `apply_plan`; each is recorded.
    """
    observed = look_at(run.zookeeper, step.conditions)
    if run.log.has(EventKind.REQUESTED, number):
        _refuse_undone(run, number, step, observed)
    before = unmet((*run.plan.expectations, *step.checks), observed)
    if perhaps_asked(run, number):
        if not before and unmet(step.outcomes, observed) and not _standing(run.zookeeper, step):
            _request(run, number, step)  # an earlier run stopped before it asked, or its election was in vain
    else:
        refuse_stale(run, number, before)
        run.log.append(EventKind.INTENDED, step=number, paths=[request_path(effect) for effect in step.effects])
        _request(run, number, step)
    _await_outcomes(run, number, step)
    run.log.append(EventKind.VERIFIED, step=number, conditions=len(step.outcomes))


def perhaps_asked(run: Run, number: int) -> bool:
    """Whether Kafka may know of the step: it was intended or requested, and not refused since."""
    told = [each.event for each in run.log.events if each.step == number and each.event in _ASKING]
    return bool(told) and told[-1] is not EventKind.REFUSED


def _refuse_undone(run: Run, number: int, step: PlanStep, observed: Observation) -> None:
    """A request that was made and then withdrawn is not made again; that takes another plan and another approval."""
    if not _is_undone(step, observed):
        return
    if not _is_undone(step, look_at(run.zookeeper, step.conditions)):
        return  # it ended between the reads of the first look: what it changed was read before, its request afterwards
    message = (
        f"plan {plan_digest(run.plan)[:12]} on {run.plan.cluster!r}, step {number + 1} of {len(run.plan.steps)}: not asked "
        "again: expected the request or its outcome, found neither and everything as before it; it was asked and is undone, "
        "by somebody or by the controller; plan again, from a new snapshot"
    )
    run.log.append(EventKind.REFUSED, step=number, reasons=[message])
    raise RefusedError(f"{message}; receipt {run.log.uri}")


def _is_undone(step: PlanStep, observed: Observation) -> bool:
    """Whether no request stands and what it was to change is as it was before; never for what may be asked twice."""
    about = [each for each in step.expectations if isinstance(each, _UNDONE_WHEN)]
    return not all(map(may_be_asked_twice, step.effects)) and not unmet(about, observed)


def refuse_stale(run: Run, number: int, reasons: Sequence[Unmet]) -> None:
    """Records and raises why the step cannot be taken; nothing without reasons."""
    if not reasons:
        return
    run.log.append(EventKind.REFUSED, step=number, reasons=[str(reason) for reason in reasons[:100]])
    message = (
        f"plan {plan_digest(run.plan)[:12]} not applied to {run.plan.cluster!r}, step {number + 1} of "
        f"{len(run.plan.steps)}: {listed(reasons)}"
    )
    busy = {each.path for each in run.plan.steps[number].expectations if isinstance(each, RequestAbsent)}
    if any(reason.subject in busy for reason in reasons):
        raise ClusterBusyError(message)
    raise PlanStaleError(message, reasons)


def _request(run: Run, number: int, step: PlanStep) -> None:
    """Asks; finding all that is asked for there already is as good, since an earlier run's request may arrive late."""
    operations = [run.fence, *(operation for effect in step.effects for operation in _operations(effect))]
    try:
        run.zookeeper.multi(operations)
    except (NodeExistsError, NoNodeError, BadVersionError) as error:
        failed = operations[error.failed_operation or 0]
        if failed == run.fence or len(_standing(run.zookeeper, step)) < len(step.effects):
            raise _not_asked(run, number, failed, error) from None
    run.log.append(EventKind.REQUESTED, step=number)


def _not_asked(run: Run, number: int, failed: Operation, error: ZooKeeperError) -> NotFinishedError | ClusterBusyError:
    run.log.append(EventKind.REFUSED, step=number, reasons=[str(error)])
    if failed == run.fence:
        return NotFinishedError(
            f"plan {plan_digest(run.plan)[:12]}, step {number + 1}: nothing was asked, since the session and with it the "
            f"lock {LOCK_PATH} was lost; run again"
        )
    return ClusterBusyError(
        f"plan {plan_digest(run.plan)[:12]} not applied, step {number + 1}: {failed.path} changed in the last moment "
        f"({error}); nothing was written, run again"
    )


def _operations(effect: Request) -> tuple[Operation, ...]:
    match effect:
        case DeleteController():
            return (
                Check(path=CONTROLLER_EPOCH, version=effect.epoch_version),
                Delete(path=request_path(effect), version=effect.version),
            )
        case CreateReassignPartitions() | CreatePreferredReplicaElection() | CreateDeleteTopic():
            return (Create(path=request_path(effect), data=request_data(effect)),)
        case _:
            assert_never(effect)


def _await_outcomes(run: Run, number: int, step: PlanStep) -> None:
    """Waits until everything that the step wants holds; woken by its znodes, and looking by itself now and then."""
    deadline_s = monotonic() + run.step_timeout_s
    attempted_s: float | None = None
    changed = threading.Event()

    def wake(_: WatchEvent) -> None:
        changed.set()

    while True:
        changed.clear()
        observed = _look(run, step, wake, deadline_s)
        if observed is not None:
            reasons = unmet(step.outcomes, observed)
            if not reasons:
                return
            if attempted_s is None and _in_vain(step, reasons, observed):
                attempted_s = monotonic()
            if monotonic() >= deadline_s or (
                attempted_s is not None and monotonic() - attempted_s >= run.settle_timeout_s
            ):
                raise _unfinished(run, number, step, reasons)
        changed.wait(RECHECK_S)


def _look(run: Run, step: PlanStep, wake: Watcher, deadline_s: float) -> Observation | None:
    """What the step wants, as it is now, watched; None where the connection broke before `deadline_s`.

    A server that is restarted breaks it. Nothing is written here, so that looking again is safe; what is written next
    has its fence.
    """
    try:
        for effect in step.effects:
            run.zookeeper.exists(request_path(effect), watch=wake)
        return look_at(run.zookeeper, step.outcomes)
    except ConnectionLostError as error:
        if monotonic() >= deadline_s:
            raise
        log.warning("still waiting for plan %s on %r: %s", plan_digest(run.plan)[:12], run.plan.cluster, error)
        return None


def _unfinished(run: Run, number: int, step: PlanStep, reasons: Sequence[Unmet]) -> NotFinishedError:
    own = _standing(run.zookeeper, step)
    told = [reason._replace(advice=_OWN_ADVICE) if reason.subject in own else reason for reason in reasons]
    run.log.append(EventKind.UNFINISHED, step=number, reasons=[str(reason) for reason in told[:100]])
    asked = "asked for" if run.log.has(EventKind.REQUESTED, number) else "perhaps asked for by an earlier run"
    return NotFinishedError(
        f"plan {plan_digest(run.plan)[:12]} on {run.plan.cluster!r}, step {number + 1} of {len(run.plan.steps)}: "
        f"{asked}, but {len(told)} outcome(s) not seen in time: {listed(told)}; "
        f"receipt {run.log.uri}; run again to go on waiting, or plan again"
    )


def _in_vain(step: PlanStep, reasons: Sequence[Unmet], observed: Observation) -> bool:
    """Whether Kafka is done with the request without having done what it wants.

    An election that was attempted and failed leaves the leader as it was. A deletion that is not allowed
    (`delete.topic.enable=false`) is dropped, and the topic stays. A reassignment may be cancelled.
    """
    if _is_undone(step, observed):
        return True
    given_up = {subject(each) for each in step.outcomes if isinstance(each, LedBy)}
    given_up |= {
        subject(each)
        for each in step.outcomes
        if isinstance(each, TopicGone) and each.topic not in observed.queued_topics
    }
    return all(reason.subject in given_up for reason in reasons)


def _standing(zookeeper: ZooKeeper, step: PlanStep) -> frozenset[str]:
    """The paths at which a request of the step stands in ZooKeeper with exactly our data."""
    requests = {
        request_path(each): request_data(each) for each in step.effects if not isinstance(each, DeleteController)
    }
    found = zookeeper.get_many(list(requests))
    return frozenset(
        path for (path, data), entry in zip(requests.items(), found, strict=True) if entry and entry[0] == data
    )
