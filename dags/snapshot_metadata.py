# mypy: disable-error-code="arg-type,index"
# Wiring: a typed function is handed an XComArg or a template.
"""### Take a snapshot of the metadata of every cluster

Reads each cluster's whole ZooKeeper tree and stores it as one consistent snapshot, the manifest last; then announces
all of them as one event of the asset `kafka_metadata_snapshots`. Where a cluster's connection names brokers that may be asked
(`bootstrap_servers`), it also keeps what they say of their disks. Writes nothing to any cluster.

A cleared and rerun task makes no second snapshot of the same run. A past date never gets a new one.
Schedule: `KAFKA_MAINTENANCE_SNAPSHOT_CRON`, UTC.

**Never** writes to a cluster, and shows half a snapshot to anybody.

**When it fails:** the task says whether ZooKeeper or the store did not answer; clear it. Other clusters are not concerned.
"""

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import CronTriggerTimetable, Param, dag

from kafka_maintenance.tasks.common import DEFAULT_ARGS, given
from kafka_maintenance.tasks.deadlines import SNAPSHOTS_LATE
from kafka_maintenance.tasks.links import CLUSTERS, linked
from kafka_maintenance.tasks.settings import SETTINGS
from kafka_maintenance.tasks.snapshots import (
    announce_snapshots,
    clusters_to_ask,
    live_clusters,
    measure_disks,
    take_snapshot,
)


@dag(
    schedule=CronTriggerTimetable(SETTINGS.cron("snapshot"), timezone="UTC"),
    catchup=False,
    max_active_runs=2,
    doc_md=__doc__,
    deadline=SNAPSHOTS_LATE,
    default_args=DEFAULT_ARGS,
    tags=["kafka", "reads-cluster", "scheduled"],
    render_template_as_native_obj=True,
    params={
        "clusters": Param(
            None,
            type=["array", "null"],
            items={"type": "string", "minLength": 1},
            description="Connection ids of the clusters to take a snapshot of; empty: all that are listed and not archived",
        ),
        "new_cluster_id": Param(
            False,
            type="boolean",
            description="The clusters were made anew: their names may have snapshots of another Kafka cluster id",
        ),
    },
)
def snapshot_metadata() -> None:
    """One mapped snapshot per live cluster; the disks of those whose brokers may be asked."""
    names = live_clusters(given("clusters"))
    taken = take_snapshot.partial(new_cluster_id=given("new_cluster_id")).expand(cluster=names)
    linked(announce_snapshots(names, taken), CLUSTERS)
    taken >> EmptyOperator(
        task_id="all_snapshots_taken",
        doc_md="Not reached where a cluster has no snapshot: the run counts as failed then, and the snapshots of the others are announced all "
        "the same.",
    )
    measure_disks.expand(cluster=clusters_to_ask(names))


snapshot_metadata()
