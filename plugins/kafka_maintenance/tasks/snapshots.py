"""Snapshots as tasks: one mapped instance per live cluster, one snapshot per run, never one of a past date."""

from datetime import UTC, datetime
from typing import Any

from airflow.sdk import task
from airflow.sdk.exceptions import AirflowSkipException

from kafka_maintenance import hooks
from kafka_maintenance.tasks.common import SNAPSHOTS, context_of_run, label, night_of


@task
def live_clusters(only: list[str] | None = None) -> list[str]:
    """Names of the clusters to photograph: all that the Variable lists and that are not archived, or those of `only`."""
    return [cluster.name for cluster in hooks.live_clusters(only)]


@task(
    outlets=[SNAPSHOTS],
    map_index_template="{{ cluster_name }}",
    doc_md="Stores the whole tree of one cluster; a cleared and rerun task finds the snapshot of its run and takes no "
    "second. Skipped when the run's night is over: a photograph of today is not one of a past date.",
)
def take_snapshot(cluster: str) -> dict[str, Any]:
    """The snapshot of this run, announced as an asset event."""
    label(cluster)
    context = context_of_run()
    night, today = night_of(context), datetime.now(UTC).date()
    if night != today and stored_snapshot(cluster, context) is None:
        raise AirflowSkipException(
            f"cluster {cluster!r}: no snapshot taken, the night {night} is over (today is {today} UTC); "
            f"analyse a stored one, or start a run without a date"
        )
    found = snapshot_of_run(cluster, context)
    context["outlet_events"][SNAPSHOTS].extra = {**found, "night": night.isoformat()}
    return found


def snapshot_of_run(cluster: str, context: dict[str, Any]) -> dict[str, Any]:
    """The snapshot of `cluster` that the run of `context` made; taken now, under today's date, where there is none."""
    from kafka_maintenance.operations.snapshot import take_snapshot as take

    stored = stored_snapshot(cluster, context)
    if stored is not None:
        return stored
    settings = hooks.cluster(cluster)
    result = take(
        zookeeper=settings.zookeeper,
        auth=settings.auth,
        cluster=cluster,
        store=hooks.store(),
        run_id=context["dag_run"].run_id,
        now=datetime.now(UTC),
    )
    return {
        "cluster": cluster,
        "manifest": result.manifest_uri,
        "digest": result.digest,
        "consistent": result.consistent,
        "zxid": result.zxid,
    }


def stored_snapshot(cluster: str, context: dict[str, Any]) -> dict[str, Any] | None:
    """What the run of `context` stored of `cluster` before its task was cleared, or None."""
    from kafka_maintenance.operations.snapshots import list_snapshots

    run_id = context["dag_run"].run_id
    for found in list_snapshots(hooks.store(), cluster, night_of(context)):
        if found.run_id == run_id:
            return {
                "cluster": cluster,
                "manifest": found.uri,
                "digest": found.digest,
                "consistent": found.consistent,
                "zxid": found.zxid,
            }
    return None
