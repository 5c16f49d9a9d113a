"""ISR-change notifications as tasks: reported for every cluster, drained for one after approval."""

import logging
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final

from airflow.sdk import task
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from controller_core.model.errors import ControllerCoreError
from kafka_maintenance import hooks
from kafka_maintenance.connections.fields import SettingsMissingError
from kafka_maintenance.tasks.airflow_versions import TRANSIENT_ERRORS
from kafka_maintenance.tasks.common import CLUSTER_LABEL, WHATEVER_SUCCEEDED, batches, gated_run, label
from kafka_maintenance.tasks.plans import stored, summed_up
from kafka_maintenance.tasks.settings import SETTINGS

if TYPE_CHECKING:
    from controller_core.adapters.zookeeper.address import ClusterAddress
    from kafka_maintenance.operations.cluster.isr_notifications import NotificationReport

_CLUSTERS_AT_A_TIME: Final = 8
_TRIES: Final = 2
"""Of each cluster, within its batch: a dead one costs two waits for a connection, and no other cluster waits for it."""

log = logging.getLogger(__name__)


@task
def clusters_to_report(cluster: str | None) -> list[list[str]]:
    """The live clusters in ZooKeeper, or the one of them that was named, in batches of `KAFKA_MAINTENANCE_CLUSTERS_PER_TASK`."""
    return batches(hooks.live_names([cluster] if cluster else None))


@task(
    multiple_outputs=False,
    map_index_template=CLUSTER_LABEL,
    execution_timeout=SETTINGS.cluster_timeout,
    doc_md="Count, age and partitions of the notifications that wait on a batch of clusters, and whether they linger beside a wedged controller. "
    "Each cluster has its own time and its own second try; one that does not answer is named by `all_clusters_reported`.",
)
def report_notifications(clusters: list[str]) -> dict[str, Any]:
    """What lingers, by cluster, and why a cluster could not be looked at; the texts are in the log."""
    label(clusters[0] if len(clusters) == 1 else f"{clusters[0]} to {clusters[-1]}")
    addresses: dict[str, ClusterAddress] = {}
    missing = {}
    for name in clusters:
        try:
            addresses[name] = hooks.cluster(name).address
        except SettingsMissingError as error:
            missing[name] = str(error)
    with ThreadPoolExecutor(max_workers=_CLUSTERS_AT_A_TIME) as pool:
        found = dict(zip(addresses, pool.map(_looked_at, addresses.values()), strict=True))
    lingering = {}
    for name, each in found.items():
        log.info("cluster %s: %s", name, each if isinstance(each, ControllerCoreError) else each.text)
        if isinstance(each, ControllerCoreError):
            missing[name] = str(each)
        elif each.lingering:
            lingering[name] = each.oldest
        elif each.requests:
            lingering[name] = each.requests[0].rpartition("/")[2]
    return {"lingering": lingering, "missing": missing}


def _looked_at(address: "ClusterAddress") -> "NotificationReport | ControllerCoreError":
    """What waits on one cluster, or why it could not be looked at."""
    from kafka_maintenance.operations.cluster import isr_notifications

    for again in range(_TRIES - 1, -1, -1):
        try:
            return isr_notifications.report(zookeeper=address, age_min_s=SETTINGS.drain_age_min_s)
        except ControllerCoreError as error:
            if not again or not isinstance(error, TRANSIENT_ERRORS):
                return error
    raise AssertionError("the last try returns")


@task(
    trigger_rule=WHATEVER_SUCCEEDED,
    doc_md="Fails with the clusters that could not be looked at, and why; the gated runs of the others are opened all the same.",
)
def all_clusters_reported(reports: list[dict[str, Any]]) -> None:
    """Names the clusters that are missing in the reports."""
    missing = {name: why for report in reports for name, why in report["missing"].items()}
    if missing:
        raise AirflowFailException(
            f"{len(missing)} cluster(s) not looked at: {'; '.join(f'{name}: {why}' for name, why in missing.items())}"
        )


@task(multiple_outputs=False)
def plan_drain(cluster: str | None, plan: str | None, act: bool) -> dict[str, Any]:  # noqa: FBT001 - a DAG param
    """The forced re-election of the controller of one cluster; skipped unless the run was told to act on it."""
    from kafka_maintenance.operations.plans import drain

    if not act or not cluster:
        raise AirflowSkipException("report only: start a run with `cluster` and `act` to have a plan made")
    if plan:
        return stored("drain_isr_notifications", cluster, plan)
    settings = hooks.cluster(cluster)
    made = drain.plan_drain(
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
        gated_run("drain_isr_notifications", "lingering", today, cluster, oldest, act=True)
        for report in reports
        for cluster, oldest in report["lingering"].items()
    ]
