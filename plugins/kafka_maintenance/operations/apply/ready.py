"""Before each step: whether the cluster is ready for it, and waiting until it is, by the rule of the plan.

Source: docs/operations.md, "Applying".
"""

import logging
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from time import monotonic

from controller_core.plans.checks import Unmet
from controller_core.plans.conditions import Condition
from controller_core.plans.observation import Observation
from controller_core.plans.plan import Plan, PlanStep
from controller_core.plans.progress import Health, health, lacking_replicas
from controller_core.plans.rules import BeforeStep
from controller_core.plans.verdicts import differing, request_partitions
from controller_core.ports.zookeeper import ZooKeeper
from kafka_maintenance.operations.apply.ask import refuse_stale
from kafka_maintenance.operations.apply.ask_brokers import binding
from kafka_maintenance.operations.apply.copying import log_dirs_of_step, no_room
from kafka_maintenance.operations.apply.execution import Execution, Road, keep_place
from kafka_maintenance.operations.apply.progress import LINE_S
from kafka_maintenance.operations.apply.run import Run, look_at, stop_if_asked
from kafka_maintenance.operations.cluster.min_isr import min_insync_replicas
from kafka_maintenance.operations.cluster.observe import observe
from kafka_maintenance.operations.errors import StillUnderWayError, listed
from kafka_maintenance.operations.record.receipts import Event, EventKind

READY_RECHECK_S = 10.0
"""How often is looked whether the cluster is ready by now."""

log = logging.getLogger(__name__)


class Awaited(StrEnum):
    """What a step waits for before it is asked for."""

    WINDOW = "window"
    CLUSTER = "cluster"
    ROOM = "room"


def cluster_health(plan: Plan, observed: Observation, zookeeper: ZooKeeper) -> Health:
    """The health of what the plan does not name, as the first event of its record keeps it; `zookeeper` has the topics' configs."""
    named = {each for step in plan.steps for effect in step.effects for each in request_partitions(effect)}
    topics = {each.topic for each in lacking_replicas(observed, named)}
    return health(observed, named, min_insync_replicas(zookeeper, topics))


def await_ready(run: Run, number: int, step: PlanStep) -> Observation:
    """What the step's check is made of: at once for the first step of a plan, else when the cluster is ready, or the time is up.

    What is not ready then is refused by that check, or asked for all the same where only the rest of the cluster is unwell.

    Raises:
        PlanStaleError: the change window is closed, for the first step or by the rule to stop; recorded.
        StillUnderWayError: it is closed, the cluster is not ready, or the plan's pause lasts, for longer than the caller's patience.
        StoppedError: somebody asked for the end; recorded.
    """
    _pause(run, number)
    _await_window(run, number)
    conditions = (*run.plan.expectations, *step.conditions)
    began_s, line_s = monotonic(), -LINE_S
    deadline_s = began_s + run.step_timeout_s - _waited_s(run, number)
    while True:
        observed = look_at(run.zookeeper, conditions)
        if number == 0 or run.plan.rules.before_step is BeforeStep.STOP:
            return observed
        what, reasons = _not_ready(run, number, step, observed)
        if not reasons or monotonic() >= deadline_s:
            return observed
        stop_if_asked(run, number)
        if monotonic() - line_s >= LINE_S:
            line_s = monotonic()
            log.info("%s: not asked yet, the cluster is not ready: %s", run.name(number), listed(reasons))
        _record_waiting(run, number, what, reasons)
        if run.patience_s is not None and monotonic() - began_s >= run.patience_s:
            raise StillUnderWayError(
                f"{run.name(number)}: not asked yet, the cluster is not ready: {listed(reasons)}; receipt {run.log.uri}",
                number,
            )
        run.stop.wait(READY_RECHECK_S)


def _record_waiting(run: Run, number: int, what: Awaited, reasons: Sequence[Unmet]) -> None:
    """Once for each thing in turn that is waited for: a run that comes back now and then tells nothing new. No other plan begins meanwhile."""
    _keep_place(run, number)
    if waits_for(run.log.events, number) is not what:
        run.log.append(EventKind.WAITING, step=number, reasons=[str(each) for each in reasons], awaits=what.value)


def _keep_place(run: Run, number: int) -> None:
    waiting = Execution(run.digest, number, run.log.run, run.log.approver, run.log.now(), Road.NOT_ASKED)
    keep_place(run.zookeeper, run.fence, waiting)


def _waited_s(run: Run, number: int) -> float:
    """For how long the step has waited for the cluster, by the record; the time of a closed window does not count."""
    since = None
    for each in reversed([each for each in run.log.events if each.step == number]):
        if each.event is not EventKind.INTERRUPTED:
            if each.event is not EventKind.WAITING or each.detail.get("awaits") == Awaited.WINDOW:
                break
            since = each.at
    now = datetime.fromisoformat(run.log.now())
    return 0.0 if since is None else max(0.0, (now - datetime.fromisoformat(since)).total_seconds())


def _pause(run: Run, number: int) -> None:
    """Lets the time of the plan's rule pass since the step before was over, by the record."""
    began_s, told = monotonic(), False
    while (left_s := pause_left_s(run.plan, run.log.events, number, datetime.fromisoformat(run.log.now()))) > 0:
        stop_if_asked(run, number)
        _keep_place(run, number)
        text = f"{run.name(number)}: not asked for another {left_s:.0f} s, by the rule of the plan"
        if run.patience_s is not None and monotonic() - began_s >= run.patience_s:
            raise StillUnderWayError(f"{text}; receipt {run.log.uri}", number)
        if not told:
            told = True
            log.info("%s", text)
        run.stop.wait(min(left_s, READY_RECHECK_S))


def pause_left_s(plan: Plan, events: Iterable[Event], number: int, now: datetime) -> float:
    """Seconds that are left of the pause between two steps, by the rule of the plan; 0 where there is none.

    Args:
        plan: that was begun.
        events: the record.
        number: of the step that follows the pause, counted from 0.
        now: the time, with zone.
    """
    ended = [each.at for each in events if each.event is EventKind.VERIFIED and each.step == number - 1]
    if not ended or not plan.rules.step_pause_s:
        return 0.0
    until = datetime.fromisoformat(ended[-1]) + timedelta(seconds=plan.rules.step_pause_s)
    return max(0.0, (until - now).total_seconds())


def _await_window(run: Run, number: int) -> None:
    """Lets the time pass in which the policy lets nothing be asked for, however long: the step is none the later for it."""
    began_s, line_s = monotonic(), -LINE_S
    while (closed := run.window()) is not None:
        advice = "run again when it is open, or break glass as the policy says"
        reason = Unmet("the change window", "that it is open before each step", closed, advice)
        if number == 0 or run.plan.rules.before_step is BeforeStep.STOP:
            refuse_stale(run, number, (reason,))
        stop_if_asked(run, number)
        if monotonic() - line_s >= LINE_S:
            line_s = monotonic()
            log.info("%s: not asked yet, the change window is closed: %s", run.name(number), closed)
        _record_waiting(run, number, Awaited.WINDOW, (reason,))
        if run.patience_s is not None and monotonic() - began_s >= run.patience_s:
            raise StillUnderWayError(
                f"{run.name(number)}: not asked yet, the change window is closed ({closed}); receipt {run.log.uri}",
                number,
            )
        run.stop.wait(READY_RECHECK_S)


def waits_for(events: Iterable[Event], number: int) -> Awaited | None:
    """What the step waits for, if that is the last that the record says of it; a record of before says only that it waits."""
    told = [each for each in events if each.step == number and each.event is not EventKind.INTERRUPTED]
    if not told or told[-1].event is not EventKind.WAITING:
        return None
    return Awaited(told[-1].detail.get("awaits", Awaited.CLUSTER))


def cluster_not_ready(plan: Plan, number: int, events: Iterable[Event], zookeeper: ZooKeeper) -> tuple[Unmet, ...]:
    """What stands against the step, as far as ZooKeeper tells: not whether disks have room. For who only looks.

    Args:
        plan: that was begun.
        number: of the step, counted from 0.
        events: the record.
        zookeeper: a session on the cluster.
    """
    step = plan.steps[number]
    observed = look_at(zookeeper, (*plan.expectations, *step.conditions))
    return _of_cluster(step, (*plan.expectations, *step.checks), observed) or _unwell(plan, events, zookeeper)


def _not_ready(run: Run, number: int, step: PlanStep, observed: Observation) -> tuple[Awaited, tuple[Unmet, ...]]:
    """What of the cluster itself, and not of single partitions of the step, does not hold."""
    conditions = binding(run, step, (*run.plan.expectations, *step.checks), observed)
    if reasons := _of_cluster(step, conditions, observed):
        return Awaited.CLUSTER, reasons
    if reasons := no_room(step, log_dirs_of_step(run, number, step, observed) or ()):
        return Awaited.ROOM, reasons
    return Awaited.CLUSTER, _unwell(run.plan, run.log.events, run.zookeeper)


def _of_cluster(step: PlanStep, conditions: Iterable[Condition], observed: Observation) -> tuple[Unmet, ...]:
    partitions = frozenset(each for effect in step.effects for each in request_partitions(effect))
    return differing(conditions, partitions, observed)[1]


def _unwell(plan: Plan, events: Iterable[Event], zookeeper: ZooKeeper) -> tuple[Unmet, ...]:
    began = next((each.detail for each in events if each.event is EventKind.STARTED), {})
    now = cluster_health(plan, observe(zookeeper), zookeeper)
    return tuple(
        Unmet(
            "the rest of the cluster", f"at most {before} partitions {what}, as when the plan began", str(count), advice
        )
        for what, count, before, advice in (
            ("offline", now.offline, began.get("offline"), "bring their brokers back"),
            ("under-replicated", now.under_replicated, began.get("under_replicated"), "wait until they caught up"),
            ("under min ISR", now.under_min_isr, began.get("under_min_isr"), "wait until they caught up"),
        )
        if before is not None and count > before
    )
