"""ISR-change notifications as tasks: reported for every cluster, drained for one after approval."""

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import task
from airflow.sdk.exceptions import AirflowSkipException

from kafka_maintenance import hooks
from kafka_maintenance.tasks.common import CLUSTER_LABEL, WHATEVER_SUCCEEDED, gated_run, label
from kafka_maintenance.tasks.plans import stored, summed_up
from kafka_maintenance.tasks.settings import SETTINGS


@task
def clusters_to_report(cluster: str | None) -> list[str]:
    """The live clusters, or the one that was named."""
    return list(hooks.live_names([cluster] if cluster else None))


@task(
    map_index_template=CLUSTER_LABEL,
    doc_md="Count, age and partitions of the notifications that wait, and whether they linger beside a wedged controller.",
)
def report_notifications(cluster: str) -> dict[str, Any]:
    """What waits on one cluster; the text is in the log."""
    from kafka_maintenance.operations.cluster import isr_notifications

    label(cluster)
    settings = hooks.cluster(cluster)
    found = isr_notifications.report(zookeeper=settings.address, age_min_s=SETTINGS.drain_age_min_s)
    print(found.text)  # noqa: T201 - the task's log is where the report is read
    return {
        "cluster": cluster,
        "count": found.count,
        "lingering": found.lingering or bool(found.abandoned),
        "oldest": found.oldest
        if found.lingering
        else next((path.rpartition("/")[2] for path in found.abandoned), None),
        "text": found.text,
    }


@task
def plan_drain(cluster: str | None, plan: str | None, act: bool) -> dict[str, Any]:  # noqa: FBT001 - a DAG param
    """The forced re-election of the controller of one cluster; skipped unless the run was told to act on it."""
    from kafka_maintenance.operations.plans import make as planning

    if not act or not cluster:
        raise AirflowSkipException("report only: start a run with `cluster` and `act` to have a plan made")
    if plan:
        return stored("drain_isr_notifications", cluster, plan)
    settings = hooks.cluster(cluster)
    made = planning.plan_drain(
        hooks.store(),
        cluster,
        zookeeper=settings.address,
        age_min_s=SETTINGS.drain_age_min_s,
        kafka_version=settings.kafka_version,
    )
    return summed_up(made, cluster)


@task(trigger_rule=WHATEVER_SUCCEEDED)
def lingering_runs(reports: list[dict[str, Any]], act: bool) -> list[dict[str, Any]]:  # noqa: FBT001 - a DAG param
    """The gated runs to open, one per cluster where something lingers; none unless the Variable says so.

    The same notifications, or the same request, open one run a day, however often they are reported.
    """
    if act or not hooks.open_gated_runs():
        return []
    today = datetime.now(UTC).date()
    return [
        gated_run("lingering", today, report["cluster"], report["oldest"], act=True)
        for report in reports
        if report["lingering"]
    ]
