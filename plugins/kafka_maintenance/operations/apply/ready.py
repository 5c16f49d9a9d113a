"""Before each step: whether the cluster is ready for it, and waiting until it is, by the rule of the plan.

Source: docs/operations.md, "Applying".
"""

import logging
from datetime import datetime, timedelta
from time import monotonic

from controller_core.plans.checks import Unmet
from controller_core.plans.observation import Observation
from controller_core.plans.plan import Plan, PlanStep
from controller_core.plans.progress import Health, health
from controller_core.plans.rules import BeforeStep
from controller_core.plans.verdicts import differing, request_partitions
from kafka_maintenance.operations.apply.ask_brokers import binding
from kafka_maintenance.operations.apply.copying import log_dirs_of_step, no_room
from kafka_maintenance.operations.apply.progress import LINE_S
from kafka_maintenance.operations.apply.run import Run, look_at, stop_if_asked
from kafka_maintenance.operations.cluster.observe import observe
from kafka_maintenance.operations.errors import listed
from kafka_maintenance.operations.record.receipts import EventKind

READY_RECHECK_S = 10.0
"""How often is looked whether the cluster is ready by now."""

log = logging.getLogger(__name__)


def cluster_health(plan: Plan, observed: Observation) -> Health:
    """The health of what the plan does not name, as the first event of its record keeps it."""
    named = {each for step in plan.steps for effect in step.effects for each in request_partitions(effect)}
    return health(observed, named)


def await_ready(run: Run, number: int, step: PlanStep) -> Observation:
    """What the step's check is made of: at once for the first step of a plan, else when the cluster is ready, or the time is up.

    What is not ready then is refused by that check, or asked for all the same where only the rest of the cluster is unwell.

    Raises:
        StoppedError: somebody asked for the end; recorded.
    """
    _pause(run, number)
    conditions = (*run.plan.expectations, *step.conditions)
    deadline_s, line_s, told = monotonic() + run.step_timeout_s, -LINE_S, False
    while True:
        observed = look_at(run.zookeeper, conditions)
        if number == 0 or run.plan.rules.before_step is BeforeStep.STOP:
            return observed
        reasons = _not_ready(run, number, step, observed)
        if not reasons or monotonic() >= deadline_s:
            return observed
        stop_if_asked(run, number)
        if monotonic() - line_s >= LINE_S:
            line_s = monotonic()
            log.info("%s: not asked yet, the cluster is not ready: %s", run.name(number), listed(reasons))
        if not told:
            told = True
            run.log.append(EventKind.WAITING, step=number, reasons=[str(each) for each in reasons])
        run.stop.wait(READY_RECHECK_S)


def _pause(run: Run, number: int) -> None:
    """Lets the time of the plan's rule pass since the step before was over, by the record."""
    ended = [each.at for each in run.log.events if each.event is EventKind.VERIFIED and each.step == number - 1]
    if not ended or not run.plan.rules.step_pause_s:
        return
    until = datetime.fromisoformat(ended[-1]) + timedelta(seconds=run.plan.rules.step_pause_s)
    log.info("%s: not asked before %s, by the rule of the plan", run.name(number), until.isoformat(timespec="seconds"))
    while (left_s := (until - datetime.fromisoformat(run.log.now())).total_seconds()) > 0:
        stop_if_asked(run, number)
        run.stop.wait(min(left_s, READY_RECHECK_S))


def _not_ready(run: Run, number: int, step: PlanStep, observed: Observation) -> tuple[Unmet, ...]:
    """What of the cluster itself, and not of single partitions of the step, does not hold."""
    partitions = frozenset(each for effect in step.effects for each in request_partitions(effect))
    conditions = binding(run, step, (*run.plan.expectations, *step.checks), observed)
    _, common = differing(conditions, partitions, observed)
    if common:
        return common
    if reasons := no_room(step, log_dirs_of_step(run, number, step, observed) or ()):
        return reasons
    began = next((each.detail for each in run.log.events if each.event is EventKind.STARTED), {})
    now = cluster_health(run.plan, observe(run.zookeeper))
    return tuple(
        Unmet(
            "the rest of the cluster", f"at most {before} partitions {what}, as when the plan began", str(count), advice
        )
        for what, count, before, advice in (
            ("offline", now.offline, began.get("offline"), "bring their brokers back"),
            ("under-replicated", now.under_replicated, began.get("under_replicated"), "wait until they caught up"),
        )
        if before is not None and count > before
    )
