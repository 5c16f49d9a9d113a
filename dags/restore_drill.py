# mypy: disable-error-code="arg-type,index"
# Wiring: a typed function is handed an XComArg or a template.
"""### Restore drill: untested backups cannot be relied on

Once a week a throw-away ZooKeeper on the worker starts from the newest snapshot of every listed cluster, as a file of ZooKeeper's
own or, with `by_transactions`, the way of `restore --whole`; it is read again and compared znode by znode; for one cluster real brokers are started on the restored tree and must come up with
the same topics. A cluster without a snapshot fails. No cluster is contacted; the store is only read.
Schedule: `KAFKA_MAINTENANCE_DRILL_CRON`, UTC.

**Never** contacts a cluster.

**When it fails:** the log lists what differs, znode by znode: that snapshot must not be relied on. Try the one before, and check the store (DAG `check_snapshots`).
"""

from airflow.sdk import CronTriggerTimetable, Param, dag

from kafka_maintenance.tasks.common import DEFAULT_ARGS, given
from kafka_maintenance.tasks.restore_drill import clusters_to_drill, drill
from kafka_maintenance.tasks.settings import SETTINGS


@dag(
    schedule=CronTriggerTimetable(SETTINGS.cron("drill"), timezone="UTC"),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    default_args=DEFAULT_ARGS,
    tags=["kafka", "reads-store", "scheduled"],
    render_template_as_native_obj=True,
    params={
        "clusters": Param(
            None,
            type=["array", "null"],
            items={"type": "string", "minLength": 1},
            description="Connection ids of the clusters; empty: all that are listed",
        ),
        "brokers": Param(
            None,
            type=["string", "null"],
            description="The cluster on whose restored tree brokers are started; empty: the first one that names a version of which some can be started",
        ),
        "by_transactions": Param(
            False,
            type="boolean",
            description="Restored as `restore --whole` does it; otherwise started from a file, with zxids, versions and times compared",
        ),
    },
)
def restore_drill() -> None:
    """One mapped drill per cluster."""
    drill.partial(by_transactions=given("by_transactions")).expand(
        chosen=clusters_to_drill(given("clusters"), given("brokers"))
    )


restore_drill()
