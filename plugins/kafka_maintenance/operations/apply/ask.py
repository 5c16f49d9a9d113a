"""Asking Kafka for one step: checked by fresh reads, recorded as intended, asked for in one transaction, recorded again.

Source: docs/operations.md, "Applying".
"""

import logging
from collections.abc import Mapping, Sequence
from typing import assert_never

from controller_core.model.errors import BadVersionError, NodeExistsError, NoNodeError, ZooKeeperError
from controller_core.model.partitions import TopicPartition
from controller_core.plans.checks import Unmet, unmet
from controller_core.plans.conditions import RequestAbsent, TopicCreatedAt, TopicIs
from controller_core.plans.observation import Observation
from controller_core.plans.plan import PlanStep
from controller_core.plans.request_znodes import (
    CreateDeleteTopic,
    CreatePreferredReplicaElection,
    CreateReassignPartitions,
    DeleteController,
    MoveLeaders,
    Request,
    request_data,
    request_path,
)
from controller_core.plans.rules import OnDifference, rates_of
from controller_core.plans.verdicts import differing, request_partitions, without
from controller_core.ports.zookeeper import Check, Create, Delete, Operation
from controller_core.znodes.paths import CONTROLLER_EPOCH, topic_path
from kafka_maintenance.operations.apply.ask_brokers import ask_brokers, binding, may_ask_brokers, topic_versions
from kafka_maintenance.operations.apply.cluster_lock import LOCK_PATH
from kafka_maintenance.operations.apply.copying import (
    NOTHING_MEASURED,
    Measured,
    estimate_details,
    no_room,
    too_slow,
)
from kafka_maintenance.operations.apply.execution import EXECUTION_PATH, Execution, Road, begin_execution
from kafka_maintenance.operations.apply.run import Run, is_asked_once, look_at, standing
from kafka_maintenance.operations.apply.throttle import end_throttle, rate_of, throttle
from kafka_maintenance.operations.cluster.admin_requests import BrokersCannotError
from kafka_maintenance.operations.errors import ClusterBusyError, LockLostError, PlanStaleError, RefusedError, listed
from kafka_maintenance.operations.record.receipts import EventKind
from kafka_maintenance.operations.record.state_changes import BEFORE, states_of

log = logging.getLogger(__name__)


def ask(
    run: Run, number: int, step: PlanStep, observed: Observation, measured: Measured = NOTHING_MEASURED
) -> PlanStep:
    """Asks for the step, or for what is left of it; returns what was asked for, which may have no effects.

    Args:
        run: the run that carries the plan out.
        number: of the step, counted from 0.
        step: as it was planned.
        observed: what the step was checked on.
        measured: of its bytes.

    Raises:
        PlanStaleError, ClusterBusyError: nothing was asked, recorded.
        LockLostError: nothing was asked, recorded.
        ConnectionLostError, SessionExpiredError: the answer was lost; the execution znode says what happened.
    """
    conditions = binding(run, step, (*run.plan.expectations, *step.checks), observed)
    left_out, common = differing(conditions, _partitions(step), observed)
    if run.plan.rules.on_difference is OnDifference.STOP:
        common, left_out = (*common, *dict.fromkeys(left_out.values())), {}
    narrowed = without(step, left_out.keys())
    rates = rates_of(run.plan.rules.throttle_bytes_per_s)
    slow = too_slow(measured.written, rates[-1]) if rates else ()
    refuse_stale(run, number, (*common, *no_room(narrowed, measured.log_dirs or ()), *slow))
    rate = rate_of(run, number, max(measured.written.values(), default=0.0))
    run.log.append(
        EventKind.INTENDED,
        step=number,
        paths=[request_path(effect) for effect in narrowed.effects],
        **({"topic_versions": topic_versions(narrowed, observed)} if may_ask_brokers(run, narrowed) else {}),
        **estimate_details(narrowed, observed, measured.log_dirs, rate),
        **left_out_rows(left_out),
        **({BEFORE: states_of(narrowed, observed)} if narrowed.effects else {}),
    )
    if narrowed.effects:
        throttle(run, number, narrowed, rate)
        try:
            return request(run, number, narrowed, observed)
        except RefusedError:
            end_throttle(run.zookeeper, run.fence, run.log)
            raise
    return narrowed


def left_out_rows(left_out: Mapping[TopicPartition, Unmet]) -> dict[str, object]:
    """The detail of an event that names what was left out and why; nothing where nothing was."""
    rows = [{**each._asdict(), "reason": str(reason)} for each, reason in sorted(left_out.items())]
    return {"left_out": rows} if rows else {}


def refuse_stale(run: Run, number: int, reasons: Sequence[Unmet]) -> None:
    """Records and raises why the step cannot be taken; nothing without reasons."""
    if not reasons:
        return
    run.log.append(EventKind.REFUSED, step=number, reasons=[str(reason) for reason in reasons[:100]])
    message = f"{run.name(number)}: not asked: {listed(reasons)}; receipt {run.log.uri}"
    busy = {each.path for each in run.plan.steps[number].expectations if isinstance(each, RequestAbsent)}
    if any(reason.subject in busy for reason in reasons):
        raise ClusterBusyError(message)
    raise PlanStaleError(message, reasons)


def request(run: Run, number: int, step: PlanStep, observed: Observation) -> PlanStep:
    """Asks the brokers where they may be asked, else by the request znodes; returns what was asked for.

    Finding all that is asked for there already is as good, since an earlier run's request may arrive late.

    Args:
        run: the run that carries the plan out.
        number: of the step, counted from 0.
        step: what is left of it.
        observed: what the step was checked on.

    Raises:
        LockLostError, ClusterBusyError: the lock was lost, or something changed in the last moment; nothing was asked, recorded.
        RefusedError, NotFinishedError: see `ask_brokers`.
    """
    _refuse_namesakes(run, number, step)
    if may_ask_brokers(run, step):
        try:
            return ask_brokers(run, number, step)
        except BrokersCannotError as error:
            log.warning("%s: asked for by its request znode: %s", run.name(number), error)
    operations = [run.fence, *(operation for effect in step.effects for operation in _operations(effect, observed))]
    if is_asked_once(step):
        operations.append(begin_execution(Execution(run.digest, number, run.log.run, run.log.approver, run.log.now())))
    try:
        run.zookeeper.multi(operations)
    except (NodeExistsError, NoNodeError, BadVersionError) as error:
        failed = operations[error.failed_operation or 0]
        if failed == run.fence or len(standing(run.zookeeper, step)) < len(step.effects):
            raise _not_asked(run, number, failed, error) from None
    run.log.append(EventKind.REQUESTED, step=number, road=Road.REQUEST_ZNODES.value)
    log.info(
        "%s: asked for, %d partition(s) or topic(s)", run.name(number), len(_partitions(step)) or len(step.effects)
    )
    return step


def _refuse_namesakes(run: Run, number: int, step: PlanStep) -> None:
    """Looks at the identity of the topics once more: record and throttle took a while since the check, a transaction cannot
    check a czxid, and a topic that was created again has the versions of the former one.
    """
    same = [each for each in step.expectations if isinstance(each, TopicIs | TopicCreatedAt)]
    advice = "it changed since the check right before: run again, which goes by what it finds"
    reasons = [each._replace(advice=advice) for each in unmet(same, look_at(run.zookeeper, same))] if same else []
    if reasons:
        run.log.append(EventKind.REFUSED, step=number, reasons=[str(each) for each in reasons[:100]])
        raise ClusterBusyError(f"{run.name(number)}: not asked: {listed(reasons)}; receipt {run.log.uri}")


def _partitions(step: PlanStep) -> frozenset[TopicPartition]:
    return frozenset(partition for effect in step.effects for partition in request_partitions(effect))


def _not_asked(run: Run, number: int, failed: Operation, error: ZooKeeperError) -> LockLostError | ClusterBusyError:
    run.log.append(EventKind.REFUSED, step=number, reasons=[str(error)])
    if failed == run.fence:
        return LockLostError(
            f"{run.name(number)}: nothing was asked, since the session and with it the lock {LOCK_PATH} was lost; "
            f"receipt {run.log.uri}; run again"
        )
    what = "another plan began a step there" if failed.path == EXECUTION_PATH else "it changed in the last moment"
    return ClusterBusyError(
        f"{run.name(number)}: not asked: {failed.path}: {what} ({error}); nothing was written; receipt {run.log.uri}; run again"
    )


def _operations(effect: Request, observed: Observation) -> tuple[Operation, ...]:
    match effect:
        case CreateDeleteTopic(topic=topic):  # a reassignment that began since the check wrote the topic's znode
            unchanged = Check(path=topic_path(topic), version=observed.topics[topic].version)
            return (unchanged, Create(path=request_path(effect), data=request_data(effect)))
        case DeleteController():
            return (
                Check(path=CONTROLLER_EPOCH, version=effect.epoch_version),
                Delete(path=request_path(effect), version=effect.version),
            )
        case MoveLeaders():
            raise AssertionError("apply_plan refuses what needs an active controller")
        case CreateReassignPartitions() | CreatePreferredReplicaElection():
            return (Create(path=request_path(effect), data=request_data(effect)),)
        case _:
            assert_never(effect)
