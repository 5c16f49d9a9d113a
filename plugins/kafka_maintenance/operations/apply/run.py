"""One application of a plan, and the fresh reads that its steps need."""

from collections.abc import Callable, Iterable
from datetime import datetime
from typing import NamedTuple

from controller_core.plans.conditions import Condition, named_partitions, named_topics
from controller_core.plans.observation import Observation
from controller_core.plans.plan import Plan, PlanStep
from controller_core.plans.progress import StepProgress
from controller_core.plans.request_znodes import DeleteController, may_be_asked_twice, request_data, request_path
from controller_core.ports.zookeeper import Check, ZooKeeper
from kafka_maintenance.operations.apply.cluster_lock import LOCK_PATH
from kafka_maintenance.operations.apply.stop import Stop
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.cluster.observe import observe
from kafka_maintenance.operations.errors import LockLostError, StoppedError, StoppedForGoodError
from kafka_maintenance.operations.record.receipts import EventKind, ReceiptLog, last_asking


class Run(NamedTuple):
    """One application of a plan, and what its steps need; times in seconds, see `apply_plan`."""

    zookeeper: ZooKeeper
    fence: Check
    log: ReceiptLog
    plan: Plan
    digest: str
    step_timeout_s: float
    settle_timeout_s: float
    stop: Stop
    patience_s: float | None = None
    brokers: BrokersAsked | None = None
    tell: Callable[[int, int, StepProgress], None] = lambda *_: None
    window: Callable[[], str | None] = lambda: None

    def name(self, number: int) -> str:
        """Plan, cluster and step, as every message names them."""
        return f"plan {self.digest[:12]} on {self.plan.cluster!r}, step {number + 1} of {len(self.plan.steps)}"


def first_open_step(plan: Plan, log: ReceiptLog) -> int | None:
    """The first step that the record does not call verified; None when all are."""
    return next((number for number in range(len(plan.steps)) if not log.has(EventKind.VERIFIED, number)), None)


def waited_s(log: ReceiptLog, number: int) -> float:
    """For how long the step is waited for, by the record: since it was asked for, or since a run was begun later."""
    marks = [
        each.at
        for each in log.events
        if each.event is EventKind.STARTED or (each.event is EventKind.REQUESTED and each.step == number)
    ]
    since = datetime.fromisoformat(marks[-1]) if marks else None
    return 0.0 if since is None else max(0.0, (datetime.fromisoformat(log.now()) - since).total_seconds())


def stop_if_asked(run: Run, number: int) -> None:
    """A safe point.

    Raises:
        StoppedError, StoppedForGoodError: the end was asked for; recorded.
    """
    reason = run.stop.reason
    if reason is None:
        return
    asked = last_asking(run.log.events, number) is EventKind.REQUESTED
    run.log.append(EventKind.STOPPED, step=number, reason=reason, under_way=asked)
    if asked:
        state = "what it asked for goes on at Kafka, which this does not stop; `kafka-maintenance cancel` does"
    else:
        state = "nothing of it was asked"
    stopped = StoppedForGoodError if run.stop.for_good else StoppedError
    raise stopped(
        f"{run.name(number)}: stopped ({reason}): {state}; the lock is released; receipt {run.log.uri}; run again to go on"
    )


def refuse_without_lock(run: Run, number: int) -> None:
    """Raises where the session, and with it the lock, was lost: the client may have replaced it in silence.

    Raises:
        LockLostError: another run may be at work.
    """
    if run.zookeeper.exists(run.fence.path) is None:
        raise LockLostError(
            f"{run.name(number)}: not waited for any longer: the session and with it the lock {LOCK_PATH} was lost; receipt {run.log.uri}"
        )


def look_at(zookeeper: ZooKeeper, conditions: Iterable[Condition]) -> Observation:
    """The cluster as it is now, as far as `conditions` speak of it."""
    named = tuple(conditions)
    return observe(zookeeper, partitions=named_partitions(named), topics=named_topics(named))


def is_asked_once(step: PlanStep) -> bool:
    """Whether somebody may have withdrawn the request of the step, so that it is not made again."""
    return not all(map(may_be_asked_twice, step.effects))


def standing(zookeeper: ZooKeeper, step: PlanStep) -> frozenset[str]:
    """The paths at which a request of the step stands in ZooKeeper with exactly our data."""
    requests = {
        request_path(each): request_data(each) for each in step.effects if not isinstance(each, DeleteController)
    }
    found = zookeeper.get_many(list(requests))
    return frozenset(
        path for (path, data), entry in zip(requests.items(), found, strict=True) if entry and entry[0] == data
    )
