"""One step of a plan: asked for, or found to have been asked for; waited for; recorded.

Source: docs/operations.md, "Applying".
"""

from controller_core.plans.checks import unmet
from controller_core.plans.observation import Observation
from controller_core.plans.plan import PlanStep
from controller_core.plans.verdicts import without
from kafka_maintenance.operations.apply.ask import ask, request
from kafka_maintenance.operations.apply.ask_brokers import was_heard
from kafka_maintenance.operations.apply.copying import measure
from kafka_maintenance.operations.apply.execution import Road, end_execution, find_execution
from kafka_maintenance.operations.apply.ready import leave_for_window, when_ready
from kafka_maintenance.operations.apply.run import (
    Run,
    is_asked_once,
    look_at,
    standing,
    stop_if_asked,
)
from kafka_maintenance.operations.apply.wait import await_outcomes
from kafka_maintenance.operations.errors import RefusedError, StoppedError
from kafka_maintenance.operations.record.receipts import EventKind, last_asking, partitions_left_out


def take_step(run: Run, number: int, step: PlanStep) -> None:
    """Takes the step `number`, counted from 0, or goes on with it where an earlier run stopped.

    Raises:
        PlanStaleError, ClusterBusyError, RefusedError, NotFinishedError: see `apply_plan`; each is recorded.
    """
    if is_under_way(run, number):
        stop_if_asked(run, number)
        step = without(step, partitions_left_out(run.log.events, number))
        if step.effects and not is_asked_once(step):
            _ask_again(run, number, step)
    else:
        observed = _when_ready(run, number, step)
        measured = measure(run, number, step, observed)
        if run.brokers is not None:  # whose answers take a while: what is asked for is checked by the last reads
            stop_if_asked(run, number)
            leave_for_window(run, number)
            observed = look_at(run.zookeeper, (*run.plan.expectations, *step.conditions))
        step = ask(run, number, step, observed, measured)
    if step.effects:
        await_outcomes(run, number, step)
    else:
        run.log.append(EventKind.VERIFIED, step=number, conditions=0)


def _when_ready(run: Run, number: int, step: PlanStep) -> Observation:
    """What the step is checked on, when it is ready; a run that waits no longer lets other plans begin."""
    try:
        stop_if_asked(run, number)
        observed = when_ready(run, number, step)
    except (RefusedError, StoppedError):
        end_execution(run.zookeeper, run.fence, run.digest)
        raise
    end_execution(run.zookeeper, run.fence, run.digest)
    return observed


def is_under_way(run: Run, number: int) -> bool:
    """Whether Kafka was asked for the step, as far as anybody can know.

    The record says so, or, where the record could not be written any more, the execution znode or the request itself. What may
    be asked twice counts as asked once it was intended. Where brokers were asked, the execution says only that they may have heard.
    """
    asking, step = last_asking(run.log.events, number), run.plan.steps[number]
    if asking is EventKind.REQUESTED or (asking is EventKind.INTENDED and not is_asked_once(step)):
        return True
    found = find_execution(run.zookeeper)
    execution = None if found is None else found.execution
    asked = (
        execution is not None
        and (execution.plan, execution.step) == (run.digest, number)
        and execution.road != Road.NOT_ASKED
    )
    step = without(step, partitions_left_out(run.log.events, number))
    if asked and execution is not None and execution.road == Road.ADMIN_API:
        return was_heard(run, number, step)
    if asked or (asking is EventKind.INTENDED and len(standing(run.zookeeper, step)) == len(step.effects) > 0):
        run.log.append(EventKind.REQUESTED, step=number, road=Road.REQUEST_ZNODES.value)
        return True
    return False


def _ask_again(run: Run, number: int, step: PlanStep) -> None:
    """Asks once more where that does no harm: for an election that was in vain, or the same controller that stayed."""
    observed = look_at(run.zookeeper, (*run.plan.expectations, *step.conditions))
    before = unmet((*run.plan.expectations, *step.checks), observed)
    if not before and unmet(step.outcomes, observed) and not standing(run.zookeeper, step):
        leave_for_window(run, number, was_asked=True)
        request(run, number, step, observed)
