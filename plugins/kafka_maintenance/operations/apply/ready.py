"""Before each step: whether the cluster is ready for it, or what it waits for, by the rule of the plan.

Source: docs/operations.md, "Applying".
"""

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from itertools import takewhile

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
from kafka_maintenance.operations.apply.run import Run, look_at
from kafka_maintenance.operations.cluster.min_isr import min_insync_replicas
from kafka_maintenance.operations.cluster.observe import observe
from kafka_maintenance.operations.errors import NotFinishedError, StillUnderWayError, listed
from kafka_maintenance.operations.record.receipts import Event, EventKind


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


def when_ready(run: Run, number: int, step: PlanStep) -> Observation:
    """What the step's check is made of, where nothing is to be waited for; who waits holds neither lock nor worker.

    The first step of a plan waits for nothing. What is not ready when the time of a later one is up is refused by its check, or asked for
    all the same where only the rest of the cluster is unwell.

    Raises:
        PlanStaleError: the change window is closed, for the first step or by the rule to stop; recorded.
        StillUnderWayError: it is closed, the cluster is not ready, or the plan's pause lasts; recorded once for each thing in turn. Look again later.
    """
    _leave_for_pause(run, number)
    leave_for_window(run, number)
    observed = look_at(run.zookeeper, (*run.plan.expectations, *step.conditions))
    if number == 0 or run.plan.rules.before_step is BeforeStep.STOP:
        return observed
    what, reasons = _not_ready(run, number, step, observed)
    if not reasons or _waited_s(run, number) >= run.step_timeout_s:
        return observed
    _record_waiting(run, number, what, reasons)
    raise _left(run, number, f"yet, the cluster is not ready: {listed(reasons)}")


def _left(run: Run, number: int, why: str) -> StillUnderWayError:
    return StillUnderWayError(f"{run.name(number)}: not asked {why}; receipt {run.log.uri}", number)


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
    told = [each for each in run.log.events if each.step == number and each.event is not EventKind.INTERRUPTED]
    waits = list(takewhile(lambda each: each.event is EventKind.WAITING, reversed(told)))
    waited_s, until = 0.0, datetime.fromisoformat(run.log.now())
    for each in waits:
        since = datetime.fromisoformat(each.at)
        if each.detail.get("awaits") != Awaited.WINDOW:
            waited_s += max(0.0, (until - since).total_seconds())
        until = since
    return waited_s


def _leave_for_pause(run: Run, number: int) -> None:
    """Leaves while the time of the plan's rule since the step before was over lasts, by the record."""
    left_s = pause_left_s(run.plan, run.log.events, number, datetime.fromisoformat(run.log.now()))
    if left_s > 0:
        _keep_place(run, number)
        raise _left(run, number, f"for another {left_s:.0f} s, by the rule of the plan")


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


def leave_for_window(run: Run, number: int, *, was_asked: bool = False) -> None:
    """Leaves while the policy lets nothing be asked for, however long: the step is none the later for it.

    Args:
        run: the run that carries the plan out.
        number: of the step, counted from 0.
        was_asked: perhaps asked for already, and to be asked for once more.

    Raises:
        PlanStaleError, NotFinishedError: the first step, or one under the rule to stop; recorded. The second where it was asked for.
        StillUnderWayError: a later one; recorded once. Look again later.
    """
    reason = closed_window(run.window)
    if reason is None:
        return
    if number == 0 or run.plan.rules.before_step is BeforeStep.STOP:
        if was_asked:
            run.log.append(EventKind.UNFINISHED, step=number, reasons=[str(reason)])
            raise NotFinishedError(f"{run.name(number)}: not asked again: {reason}; receipt {run.log.uri}")
        refuse_stale(run, number, (reason,))
    _record_waiting(run, number, Awaited.WINDOW, (reason,))
    raise _left(run, number, f"yet, the change window is closed ({reason.found})")


def closed_window(window: Callable[[], str | None]) -> Unmet | None:
    """Why the policy lets nothing be asked for now; None where it does."""
    closed = window()
    advice = "run again when it is open, or break glass as the policy says"
    return None if closed is None else Unmet("the change window", "that it is open before each step", closed, advice)


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
