"""Why a plan is not carried out, or no longer: checked before its first step, whatever the steps check themselves."""

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.plans.checks import Unmet, unmet
from controller_core.plans.conditions import KafkaClusterIs, ZooKeeperControllerRules
from controller_core.plans.observation import Observation
from controller_core.plans.plan import Plan, open_conditions, plan_digest
from controller_core.plans.rules import BeforeStep, OnDifference
from controller_core.plans.verdicts import Fate, differing, request_partitions, verdicts, without
from controller_core.plans.way_back import is_undone
from controller_core.ports.zookeeper import Check, ZooKeeper
from kafka_maintenance.operations.apply.ask import refuse_stale
from kafka_maintenance.operations.apply.ask_brokers import binding
from kafka_maintenance.operations.apply.execution import EXECUTION_PATH, Execution, Road, end_execution, find_execution
from kafka_maintenance.operations.apply.executions import new_stop_requests
from kafka_maintenance.operations.apply.run import Run, look_at, standing
from kafka_maintenance.operations.errors import ClusterBusyError, PlanStaleError, RefusedError, listed
from kafka_maintenance.operations.plans.store import plan_named
from kafka_maintenance.operations.record.receipts import EventKind, ReceiptLog, partitions_left_out, trusted_events


def foreign(plan: Plan, observed: Observation) -> tuple[Unmet, ...]:
    """Why this is another cluster than that of the plan; empty where it is not."""
    return unmet([each for each in plan.expectations if isinstance(each, KafkaClusterIs)], observed)


def refuse_foreign(plan: Plan, observed: Observation) -> None:
    """Another cluster, or one that KRaft runs, is not even locked."""
    reasons = foreign(plan, observed)
    if observed.kraft_sign is not None:
        reasons += unmet([ZooKeeperControllerRules()], observed)
    if reasons:
        raise PlanStaleError(
            f"plan {plan_digest(plan)[:12]} not applied to {plan.cluster!r}: {listed(reasons)}", reasons
        )


def refuse_ended(log: ReceiptLog) -> None:
    """A plan that ended without all that it wanted is not begun again; that takes another plan and another approval."""
    ended = next((each for each in log.events if each.event is EventKind.OVER), None)
    cancelled = next((each for each in log.events if each.event is EventKind.CANCELLING), None)
    if ended is None and cancelled is not None:
        raise RefusedError(
            f"plan {log.digest[:12]} not applied: {cancelled.approver} began to cancel its step {(cancelled.step or 0) + 1} at "
            f"{cancelled.at}; finish that: `kafka-maintenance cancel {log.digest}`"
        )
    if ended is not None:
        raise RefusedError(
            f"plan {log.digest[:12]} not applied: it ended at {ended.at}, in step {(ended.step or 0) + 1}: "
            f"{listed(ended.detail.get('reasons', []))}; receipt {log.uri}; plan again, from a new snapshot"
        )


def refuse_beside(zookeeper: ZooKeeper, fence: Check, cluster: str, digest: str, store: ObjectStore) -> None:
    """While Kafka works at a step of another plan of ours, or that step waits, neither a plan nor a restore begins.

    Args:
        zookeeper: the living cluster.
        fence: holds the lock.
        cluster: its name.
        digest: of the plan that is to begin, SHA-256 in hex.
        store: of snapshots, plans and records.

    Raises:
        ClusterBusyError: there is such a plan; names it and what to do.
    """
    found = find_execution(zookeeper)
    if found is None:
        return
    other = found.execution
    if other is None:
        raise ClusterBusyError(
            f"plan {digest[:12]} not applied to {cluster!r}: {EXECUTION_PATH} cannot be read ({found.data[:80]!r}): look "
            "who wrote it, and remove it when nothing of ours is under way"
        )
    if other.plan == digest:
        return
    events = {(each.event, each.step) for each in trusted_events(store, cluster, other.plan)}
    if events & {(EventKind.VERIFIED, other.step), (EventKind.OVER, other.step), (EventKind.DONE, None)}:
        end_execution(zookeeper, fence, other.plan)  # its run ended between the record and the removal
        return
    if _is_stopped_and_settled(zookeeper, store, cluster, other):
        end_execution(zookeeper, fence, other.plan)
        return
    if other.road == Road.NOT_ASKED:
        raise ClusterBusyError(
            f"plan {digest[:12]} not applied to {cluster!r}: plan {other.plan}, approved by {other.approver!r}, is begun, and its "
            f"run {other.run!r} waits with step {other.step + 1} since {other.since} ({EXECUTION_PATH}), as `kafka-maintenance "
            f"executions show {other.plan}` says; apply this one again when that one is done, or end that one with `kafka-maintenance stop`"
        )
    raise ClusterBusyError(
        f"plan {digest[:12]} not applied to {cluster!r}: step {other.step + 1} of plan {other.plan}, approved by "
        f"{other.approver!r}, was asked for at {other.since} by run {other.run!r} and not seen to finish ({EXECUTION_PATH}); "
        "let that run finish, or, where it has ended, apply that plan again to finish it, or see `kafka-maintenance unlock`; then apply this one again"
    )


def _is_stopped_and_settled(zookeeper: ZooKeeper, store: ObjectStore, cluster: str, other: Execution) -> bool:
    """Whether a person stopped its run, and Kafka works at nothing of its step any more.

    A run that waits, or whose gate was rejected later, may not be there any more to record that it was asked to stop.
    """
    events = trusted_events(store, cluster, other.plan)
    if not events:
        return False
    if events[-1].event is not EventKind.STOPPED and not new_stop_requests(store, cluster, other.plan, events):
        return False
    if other.road == Road.NOT_ASKED:
        return True
    kind = next(str(each.detail["kind"]) for each in events if each.event is EventKind.STARTED)
    stopped = plan_named(store, cluster=cluster, kind=kind, digest=other.plan)
    step = without(stopped.steps[other.step], partitions_left_out(events, other.step))
    if standing(zookeeper, step):
        return False
    found = verdicts(step, look_at(zookeeper, step.conditions))
    return all(each.fate is not Fate.UNDER_WAY for each in found)


def refuse_whole(run: Run, first: int) -> None:
    """Refuses a plan that does not fit: by its rule as a whole, or where no partition of it is as it assumes.

    What the first step of all needs of the cluster itself is refused here, too; a later one waits for it (`ready`).
    """
    observed = look_at(run.zookeeper, run.plan.conditions)
    _refuse_undone(run, first, observed)
    conditions = binding(run, run.plan.steps[first], open_conditions(run.plan, first_step=first), observed)
    named = frozenset(
        partition
        for step in run.plan.steps[first:]
        for effect in step.effects
        for partition in request_partitions(effect)
    )
    own, reasons = differing(conditions, named, observed)
    if reasons and first > 0 and run.plan.rules.before_step is BeforeStep.WAIT:
        return  # a partition whose broker is away looks as if it did not fit, too
    if run.plan.rules.on_difference is OnDifference.STOP or own.keys() == named:
        reasons = (*reasons, *dict.fromkeys(own.values()))
    refuse_stale(run, first, reasons)


def _refuse_undone(run: Run, first: int, observed: Observation) -> None:
    """Ends a plan whose steps so far were all taken back: who did that wants no further step, and its receipt would tell of moves that are none."""
    excepted = partitions_left_out(run.log.events)
    if not is_undone((without(step, excepted) for step in run.plan.steps[:first]), observed):
        return
    reason = f"step(s) 1 to {first} were carried out and taken back since: their partitions have the replicas of before"
    run.log.append(EventKind.OVER, step=first, reasons=[reason])
    raise RefusedError(
        f"{run.name(first)}: not asked, and the plan is over: {reason}; receipt {run.log.uri}; plan again"
    )
