"""Plans as tasks: of a stored plan or of a fresh snapshot, summed up for the person who is asked."""

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from airflow.sdk import task
from airflow.sdk.exceptions import AirflowSkipException

from kafka_maintenance import hooks
from kafka_maintenance.tasks.common import beginning_name, brokers_of, context_of_run, run_name, try_name
from kafka_maintenance.tasks.lineage import snapshot_of_plan, tell_lineage
from kafka_maintenance.tasks.snapshots import named_snapshot, snapshot_of_run

if TYPE_CHECKING:
    from controller_core.adapters.object_store.open import ObjectStore
    from kafka_maintenance.operations.plans.store import StoredPlan

log = logging.getLogger(__name__)


@task(multiple_outputs=False)
def snapshot_to_plan(cluster: str, plan: str | None) -> dict[str, str] | None:
    """Date and id of a snapshot made for this run; None where a stored plan is named, which has its own.

    A run that was cleared, or made again, gets a fresh one, as the cluster may have changed since; a retry finds that of the first try.
    """
    if plan:
        return None
    made = snapshot_of_run(cluster, beginning_name(context_of_run()))
    return {"date": made["date"], "snapshot": made["snapshot"]}


@task(multiple_outputs=False)
def plan_elections(
    cluster: str, snapshot: dict[str, str] | None, plan: str | None, election_count_max: int, elections_per_minute: int
) -> dict[str, Any]:
    """The elections that give partitions back to their preferred leaders, most imbalanced brokers first."""
    from kafka_maintenance.operations.plans import elections

    if plan:
        return stored("elect_preferred_leaders", cluster, plan)
    what = {"election_count_max": election_count_max, "elections_per_minute": elections_per_minute}
    return _made(elections.plan_elections, cluster, snapshot, **what)


@task(multiple_outputs=False)
def plan_reassignment(
    cluster: str,
    snapshot: dict[str, str] | None,
    plan: str | None,
    move_count_max: int,
    goals: dict[str, Any] | None = None,
    bootstrap_servers: str | None = None,
    throttle_bytes_per_s: int | str | None = None,
    rollback_of: str | None = None,
    cancel_running: bool = False,  # noqa: FBT001, FBT002 - a DAG param
) -> dict[str, Any]:
    """The moves that reach the goals, with their certificate; or a stored plan; or the way back from one that was begun, or from all that is under way.

    Sizes are what the brokers say, if they are asked.
    """
    from controller_core.plans.headroom import throttle_or_headroom
    from kafka_maintenance.operations.errors import BadInputError
    from kafka_maintenance.operations.plans import reassignment
    from kafka_maintenance.operations.plans.rollback import plan_rollback
    from kafka_maintenance.operations.plans.sizes import sizes_from_log_dirs
    from spark_jobs.planner.errors import ImpossibleGoalError
    from spark_jobs.planner.goals import Goals

    try:
        throttle = throttle_or_headroom(throttle_bytes_per_s)
    except ValueError as error:
        raise BadInputError(str(error)) from error  # which is not tried again
    if plan:
        asked = {"goals": goals, "bootstrap_servers": bootstrap_servers, "throttle_bytes_per_s": throttle_bytes_per_s}
        return stored(
            "reassign_partitions", cluster, plan, **asked, rollback_of=rollback_of, cancel_running=cancel_running
        )
    if cancel_running:
        if goals or bootstrap_servers or throttle_bytes_per_s or rollback_of:
            raise BadInputError(
                f"nothing planned for {cluster!r}: cancel_running takes back all that Kafka moves, and goals, bootstrap_servers, throttle_bytes_per_s "
                "or rollback_of given beside it would have no effect; leave them out"
            )
        return _made(reassignment.plan_cancel, cluster, snapshot)
    if rollback_of:
        if goals or bootstrap_servers:
            raise BadInputError(
                f"no rollback of plan {rollback_of!r}: it goes back to the former lists, and goals or bootstrap_servers given beside it "
                "would have no effect; leave them out"
            )
        return _made(plan_rollback, cluster, snapshot, digest=rollback_of, throttle_bytes_per_s=throttle)
    try:
        wanted = Goals.from_json(goals or {})
    except ImpossibleGoalError as error:
        raise BadInputError(str(error)) from error  # which is not tried again
    brokers = brokers_of(hooks.cluster(cluster), bootstrap_servers)
    sizes = None if brokers is None else sizes_from_log_dirs(brokers)
    what: dict[str, Any] = {"goals": wanted, "sizes": sizes, "move_count_max": move_count_max}
    what["throttle_bytes_per_s"] = throttle
    return _made(reassignment.plan_reassignment, cluster, snapshot, **what)


@task(multiple_outputs=False)
def plan_deletions(
    cluster: str,
    snapshot: dict[str, str] | None,
    plan: str | None,
    topics: list[str],
    bootstrap_servers: str | None = None,
    unused_days: int = 30,
    even_if_used: bool = False,  # noqa: FBT001, FBT002 - a DAG param
) -> dict[str, Any]:
    """The deletions of the topics that were asked for, are eligible and unused; the others are named with their reasons."""
    from kafka_maintenance.operations.plans import deletions

    if plan:
        beside = {"topics": topics, "bootstrap_servers": bootstrap_servers, "even_if_used": even_if_used}
        return stored("delete_topics", cluster, plan, **beside)
    brokers = brokers_of(hooks.cluster(cluster), bootstrap_servers)
    what = {"topics": topics, "brokers": brokers, "unused_days": unused_days, "even_if_used": even_if_used}
    return _made(deletions.plan_deletions, cluster, snapshot, **what)


def _made(
    make: Callable[..., "StoredPlan | None"], cluster: str, snapshot: dict[str, str] | None, **what: Any
) -> dict[str, Any]:
    """A new plan from a snapshot, summed up; raises BadInputError where the snapshot's names are not what `snapshot_to_plan` returns."""
    from kafka_maintenance.operations.errors import BadInputError

    if snapshot is not None and set(snapshot) != {"date", "snapshot"}:
        raise BadInputError(
            f"nothing planned for {cluster!r}: expected date and id of a snapshot from snapshot_to_plan, found {snapshot!r}; it ran before an "
            "upgrade to 0.2: start a new run; or its output was edited: clear it"
        )
    version, store = hooks.cluster(cluster).kafka_version, hooks.store()
    manifest = None if snapshot is None else named_snapshot(store, cluster=cluster, **snapshot).uri
    return summed_up(make(store, cluster, manifest=manifest, kafka_version=version, **what), cluster)


def stored(kind: str, cluster: str, digest: str, **beside: Any) -> dict[str, Any]:
    """A plan that lies in the store, its digest verified; raises BadInputError where there is none of that kind and cluster.

    What was asked `beside` it would have no effect: BadInputError.
    """
    from kafka_maintenance.operations.errors import BadInputError
    from kafka_maintenance.operations.plans.store import find_plan

    asked = [name for name, value in beside.items() if value]
    if asked:
        raise BadInputError(
            f"plan {digest!r} not loaded: a stored plan is applied as it is, and {', '.join(asked)} given beside it would have "
            "no effect; leave one of them out"
        )
    return summed_up(find_plan(hooks.store(), cluster=cluster, kind=kind, digest=digest), cluster)


def summed_up(plan: "StoredPlan | None", cluster: str) -> dict[str, Any]:
    """The names of a stored plan, kept for the gate; its summary is in the log. Skips the run when there is nothing to do."""
    if plan is None:
        raise AirflowSkipException(f"cluster {cluster!r}: nothing to do, no plan was made")
    log.info("%s on %s: %s", plan.kind, cluster, plan.summary)
    return kept_for_gate(named(plan))


def kept_for_gate(plan: dict[str, str]) -> dict[str, str]:
    """The names of the plan that the running run is to ask about, recorded in the store: what a task returns can be edited in Airflow."""
    from kafka_maintenance.operations.gate.approvals import keep_plan

    context = context_of_run()
    keep_plan(hooks.store(), run=run_name(context), try_id=try_name(context), **plan)
    return plan


def named(plan: "StoredPlan") -> dict[str, str]:
    """Kind, cluster and digest of a stored plan: its name, by which whoever needs it finds it in the store."""
    tell_lineage(read=snapshot_of_plan(plan.uri), written=[plan.uri])
    return {"kind": plan.kind, "cluster": plan.cluster, "digest": plan.digest}


def repairs_of(store: "ObjectStore", cluster: str, manifest: str) -> list[dict[str, str]]:
    """The plans that a snapshot calls for, stored; a kind without work has none, and one that is refused says why."""
    from kafka_maintenance.operations.errors import RefusedError
    from kafka_maintenance.operations.plans import elections, reassignment

    version = hooks.cluster(cluster).kafka_version
    found = []
    for plan_of in (elections.plan_elections, reassignment.plan_reassignment):
        try:
            made = plan_of(store, cluster, manifest=manifest, kafka_version=version)
        except RefusedError as refused:
            log.warning("%s", refused)
            continue
        if made is not None:
            found.append(named(made))
    return found
