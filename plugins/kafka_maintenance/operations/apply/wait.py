"""Waiting for what was asked: until every outcome holds, until Kafka is done with the request without it, or until the time is up.

Nothing is written to the cluster here, so that looking again is safe.
Source: docs/operations.md, "Applying".
"""

import logging
import threading
from collections.abc import Sequence
from datetime import datetime
from time import monotonic
from typing import Any, Final, assert_never

from controller_core.model.errors import ConnectionLostError
from controller_core.plans.checks import Unmet, unmet
from controller_core.plans.conditions import TopicGone
from controller_core.plans.observation import Observation
from controller_core.plans.plan import PlanKind, PlanStep
from controller_core.plans.request_znodes import request_path
from controller_core.plans.rules import OnDifference
from controller_core.plans.verdicts import UNSETTLED, Fate, Verdict, verdicts
from controller_core.ports.zookeeper import Watcher, WatchEvent
from kafka_maintenance.operations.apply.progress import Teller
from kafka_maintenance.operations.apply.run import Run, look_at, refuse_without_lock, standing, stop_if_asked, waited_s
from kafka_maintenance.operations.apply.throttle import end_step
from kafka_maintenance.operations.cluster.observe import SESSION_TIMEOUT_S
from kafka_maintenance.operations.errors import NotFinishedError, RefusedError, StillUnderWayError, listed
from kafka_maintenance.operations.record.receipts import EventKind, last_asking
from kafka_maintenance.operations.record.state_changes import AFTER, states_of

RECHECK_S: Final = 0.5
"""The outcome is read again at least this often, and at once when a request znode changes."""
_OWN_ADVICE: Final = (
    "our own request stands there and the controller has not finished it: look at the controller's logs"
)

log = logging.getLogger(__name__)


def await_outcomes(run: Run, number: int, step: PlanStep) -> None:
    """Waits until everything that the step wants holds, or is over; woken by its znodes, and looking by itself now and then.

    What is over without the outcome counts after two looks and the settle time: a request may end between two reads of one
    look, and the state may lag behind its end.

    Raises:
        NotFinishedError: not seen in time, or an election in vain; recorded.
        RefusedError: it is over, and the plan ends here; recorded.
        StillUnderWayError: the caller's patience is over (`Run.patience_s`); not recorded.
        StoppedError: somebody asked for the end; recorded.
        ConnectionLostError: no server has answered for as long as a session lives.
        LockLostError: another run may wait for it by now.
    """
    began_s, teller = monotonic(), Teller(run, number, step)
    deadline_s = began_s + run.step_timeout_s - waited_s(run.log, number)
    over_s: float | None = None
    answered_s = began_s
    changed = threading.Event()

    def wake(_: WatchEvent) -> None:
        changed.set()

    while True:
        stop_if_asked(run, number)
        changed.clear()
        observed = _look(run, number, step, wake, min(deadline_s, answered_s + SESSION_TIMEOUT_S))
        if observed is not None:
            answered_s = monotonic()
            reasons = unmet(step.outcomes, observed)
            found = verdicts(step, observed)
            if not reasons:
                _verified(run, number, step, observed)
                return
            if not is_over(run.plan.kind, step, found, observed):
                over_s = None
                teller.see(observed)
                if monotonic() >= deadline_s:
                    raise _unfinished(run, number, step, reasons)
                if run.patience_s is not None and monotonic() - began_s >= run.patience_s:
                    raise StillUnderWayError(f"{run.name(number)}: Kafka works at it; receipt {run.log.uri}", number)
            elif over_s is None:
                over_s = monotonic()
            elif monotonic() - over_s >= run.settle_timeout_s:
                _conclude(run, number, step, found, reasons, observed)
                return
        changed.wait(RECHECK_S if over_s is None else min(RECHECK_S, run.settle_timeout_s))


def _look(run: Run, number: int, step: PlanStep, wake: Watcher, deadline_s: float) -> Observation | None:
    """What the step wants, as it is now, watched; None where the connection broke before `deadline_s`.

    A server that is restarted breaks it. Nothing is written here, so that looking again is safe; what is written next
    has its fence. A session that was replaced meanwhile has lost the lock, and what is recorded next is for its holder to record.

    Args:
        run: the run that carries the plan out.
        number: of the step, counted from 0.
        step: as it was asked for.
        wake: called when its request changes.
        deadline_s: until when a broken connection ends nothing (`monotonic`).

    Raises:
        LockLostError: another run may be at work.
    """
    try:
        for effect in step.effects:
            run.zookeeper.exists(request_path(effect), watch=wake)
        observed = look_at(run.zookeeper, step.conditions)
        refuse_without_lock(run, number)
    except ConnectionLostError as error:
        if monotonic() >= deadline_s:
            raise
        log.warning("still waiting for plan %s on %r: %s", run.digest[:12], run.plan.cluster, error)
        return None
    else:
        return observed


def is_over(kind: PlanKind, step: PlanStep, found: Sequence[Verdict], observed: Observation) -> bool:
    """Whether Kafka is done with the request: nothing of it is under way any more, done or not.

    An election that was attempted and failed leaves the leader as it was; a reassignment may be cancelled, or sent elsewhere.
    A deletion that is not allowed (`delete.topic.enable=false`) is dropped, and the topic stays. A re-election is never over.

    Args:
        kind: of the plan.
        step: that was asked for.
        found: a verdict for each of its partitions or topics.
        observed: the cluster as it was read.
    """
    match kind:
        case PlanKind.ELECT_PREFERRED_LEADERS | PlanKind.REASSIGN_PARTITIONS:
            return not any(each.fate in UNSETTLED for each in found)
        case PlanKind.DELETE_TOPICS:
            topics = (each.topic for each in step.outcomes if isinstance(each, TopicGone))
            return not any(topic in observed.queued_topics for topic in topics)
        case PlanKind.DRAIN_ISR_NOTIFICATIONS | PlanKind.MOVE_LEADERS:
            return False
        case _:
            assert_never(kind)


def _conclude(
    run: Run, number: int, step: PlanStep, found: Sequence[Verdict], reasons: Sequence[Unmet], observed: Observation
) -> None:
    """Records a step that is over without all its outcomes: the run goes on by the plan's rule, or ends.

    A request of another tool that stands by now is no difference: the next step waits for it, or names it.

    Args:
        run: the run that carries the plan out.
        number: of the step, counted from 0.
        step: as it was asked for.
        found: a verdict for each of its partitions.
        reasons: the outcomes that do not hold.
        observed: the cluster as it was read.
    """
    missed = [each for each in found if each.fate is not Fate.DONE]
    if found and not missed:
        _verified(run, number, step, observed)
        return
    if len(missed) < len(found) and run.plan.rules.on_difference is OnDifference.GO_ON:
        rows = [
            {**each.partition._asdict(), "fate": each.fate.value, "reason": f"{each.fate}, found {each.found}"}
            for each in missed
        ]
        _verified(run, number, step, observed, differing=rows)
        return
    if run.plan.kind is PlanKind.ELECT_PREFERRED_LEADERS:
        raise _unfinished(run, number, step, reasons)
    told: Sequence[object] = missed or reasons
    counts = ", ".join(f"{n} {fate}" for fate in Fate if (n := sum(each.fate is fate for each in found)))
    end_step(run)  # before the record ends: a plan that is over is not begun again, and nothing of it may be left
    run.log.append(
        EventKind.OVER, step=number, reasons=[str(each) for each in told[:100]], **{AFTER: states_of(step, observed)}
    )
    raise RefusedError(
        f"{run.name(number)}: over, and not as planned{f' ({counts})' if counts else ''}: {listed(told)}; it was asked and is "
        f"undone or changed, by somebody or by the controller, and nothing more is asked; receipt {run.log.uri}; plan again, from a "
        "new snapshot"
    )


def _verified(run: Run, number: int, step: PlanStep, observed: Observation, **detail: Any) -> None:
    """Records the end of a step; where its time was estimated, with the time that it took."""
    told = [each for each in run.log.events if each.step == number]
    estimates = [each.detail["estimate_s"] for each in told if "estimate_s" in each.detail]
    if estimates:
        asked = next(each.at for each in told if each.event is EventKind.REQUESTED)
        took = datetime.fromisoformat(run.log.now()) - datetime.fromisoformat(asked)
        detail |= {"estimate_s": estimates[-1], "took_s": round(took.total_seconds())}
    detail[AFTER] = states_of(step, observed)
    run.log.append(EventKind.VERIFIED, step=number, conditions=len(step.outcomes), **detail)


def _unfinished(run: Run, number: int, step: PlanStep, reasons: Sequence[Unmet]) -> NotFinishedError:
    own = standing(run.zookeeper, step)
    told = [reason._replace(advice=_OWN_ADVICE) if reason.subject in own else reason for reason in reasons]
    run.log.append(EventKind.UNFINISHED, step=number, reasons=[str(reason) for reason in told[:100]])
    requested = last_asking(run.log.events, number) is EventKind.REQUESTED
    asked = "asked for" if requested else "perhaps asked for by an earlier run"
    return NotFinishedError(
        f"{run.name(number)}: {asked}, but {len(told)} outcome(s) not seen in time: {listed(told)}; "
        f"receipt {run.log.uri}; run again to go on waiting, or plan again"
    )
