"""Retention as tasks: reported for every cluster, carried out for one after approval."""

import logging
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from kafka_maintenance import hooks
from kafka_maintenance.tasks.approval import approved, approved_plan
from kafka_maintenance.tasks.common import (
    CLUSTER_LABEL,
    WHATEVER_SUCCEEDED,
    cluster_of_run,
    context_of_run,
    gated_run,
    given,
    label,
    run_name,
)
from kafka_maintenance.tasks.plans import kept_for_gate
from kafka_maintenance.tasks.pools import APPLY_POOL
from kafka_maintenance.tasks.settings import SETTINGS

if TYPE_CHECKING:
    from kafka_maintenance.operations.retention.plan import RetentionPolicy
    from kafka_maintenance.operations.retention.store import StoredRetention

KIND: Final = "retain_snapshots"
KEEP: Final = {name: given(f"keep_{name}") for name in ("last", "daily", "weekly", "monthly")}
"""The run's policy, as templates."""

log = logging.getLogger(__name__)


@task(
    execution_timeout=SETTINGS.cluster_timeout,
    multiple_outputs=False,
    map_index_template=CLUSTER_LABEL,
    doc_md="What the policy keeps of one cluster's snapshots and why, and what it would remove. Removes nothing.",
)
def report_retention(cluster: str, keep: dict[str, int]) -> dict[str, Any]:
    """The counts; the text, with each snapshot's reasons, is in the log."""
    from kafka_maintenance.operations.retention.plan import plan_retention as decided
    from kafka_maintenance.operations.retention.plan import retention_text

    label(cluster)
    plan = decided(hooks.store(), _policy(keep), now=datetime.now(UTC), cluster=cluster)
    log.info("%s", retention_text(plan))
    counts = {"kept": len(plan.kept), "removable": len(plan.dropped), "abandoned": len(plan.abandoned)}
    return {"cluster": cluster, "digest": plan.digest, **counts}


@task(multiple_outputs=False)
def plan_retention(cluster: str | None, plan: str | None, act: bool, keep: dict[str, int]) -> dict[str, Any]:  # noqa: FBT001 - a DAG param
    """The removal for one cluster, stored; skipped unless the run was told to act, or when nothing is to be removed."""
    from kafka_maintenance.operations.retention.plan import plan_retention as decided
    from kafka_maintenance.operations.retention.store import find_retention, store_retention

    if not act or not cluster:
        raise AirflowSkipException("report only: start a run with `cluster` and `act` to have a plan made")
    store = hooks.store()
    if plan:
        return _summed_up(find_retention(store, cluster=cluster, digest=plan))
    made = store_retention(store, decided(store, _policy(keep), now=datetime.now(UTC), cluster=cluster), cluster)
    if made is None:
        raise AirflowSkipException(f"cluster {cluster!r}: the policy keeps every snapshot, no plan was made")
    return _summed_up(made)


@task(multiple_outputs=False, pool=APPLY_POOL)
def remove_snapshots() -> dict[str, Any]:
    """Removes what the approved plan names, if it is still that plan and nothing has been pinned since.

    Takes the approved digest from the store's record of the run's gate, and the plan from the store by that digest. The receipt names the approver; a second try removes what is left.
    """
    from kafka_maintenance.operations.retention.store import apply_stored_retention

    context = context_of_run()
    store, run, cluster = hooks.store(), run_name(context), cluster_of_run(context)
    approval = approved(KIND, context, store=store)
    receipt = apply_stored_retention(
        store=store,
        plan_uri=approval.shown.plan.uri,
        cluster=cluster,
        approved_digest=approval.shown.plan.digest,
        approver=approval.approver,
        now=datetime.now(UTC),
        run_id=run,
        comment=approval.comment,
        approval=approval.record,
        permit=lambda: approved(KIND, context, store=store),
        progress=print,
    )
    return {
        "cluster": cluster,
        "plan": receipt.digest,
        "receipt": receipt.uri,
        "removed": len(receipt.removed),
        "approver": receipt.approver,
    }


@task(multiple_outputs=False)
def verify_removal() -> dict[str, Any]:
    """Lists the cluster's snapshots again: none of the removed ones may be there, and each of the kept ones must."""
    from kafka_maintenance.operations.retention.store import find_retention, still_there

    context = context_of_run()
    store, cluster = hooks.store(), cluster_of_run(context)
    plan = find_retention(store, cluster=cluster, digest=approved_plan(KIND, context, store=store).digest).plan
    left, missing = still_there(store, plan, cluster)
    if left or missing:
        raise AirflowFailException(
            f"cluster {cluster!r}: retention of {store.uri} not as planned: still listed {list(left)}, "
            f"kept but gone {list(missing)}; somebody else changes the store: look at `snapshots list`"
        )
    return {"verified": True, "kept": len(plan.kept), "removed": len(plan.dropped)}


@task(trigger_rule=WHATEVER_SUCCEEDED)
def removal_runs(reports: list[dict[str, Any]], act: bool, keep: dict[str, int]) -> list[dict[str, Any]]:  # noqa: FBT001 - a DAG param
    """The gated runs to open, one per cluster with something to remove; none unless the Variable says so."""
    if act or not hooks.open_gated_runs():
        return []
    policy = {f"keep_{name}": count for name, count in keep.items()}
    today = datetime.now(UTC).date()
    return [
        gated_run(KIND, "retention", today, report["cluster"], report["digest"][:12], act=True, **policy)
        for report in reports
        if report["removable"] or report["abandoned"]
    ]


def _policy(keep: dict[str, int]) -> "RetentionPolicy":
    from kafka_maintenance.operations.retention.plan import RetentionPolicy

    return RetentionPolicy(**{name: int(count) for name, count in keep.items()})


def _summed_up(plan: "StoredRetention") -> dict[str, Any]:
    return kept_for_gate({"kind": plan.kind, "cluster": plan.cluster, "digest": plan.digest})
