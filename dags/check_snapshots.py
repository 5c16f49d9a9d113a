# mypy: disable-error-code="arg-type,index"
# Wiring: a typed function is handed an XComArg or a template.
"""### Check the snapshots of every cluster in the store

Once a week: places, manifests, sizes of all objects, notes of runs and pins of each listed cluster; the content of a sample is
read and decoded again. A cluster with a finding, or without a snapshot, fails. Gauges `kafka_maintenance.snapshots.age_s`,
`.consistent`, `.verified` and `.findings` carry the tag `cluster`. No cluster is contacted; the store is only read.
Schedule: `KAFKA_MAINTENANCE_CHECK_CRON`, UTC.

**Never** mends anything: `kafka-maintenance snapshots repair` prints what can be mended.

**When it fails:** the task of the cluster lists what is wrong. A damaged snapshot hides no other one; take a new one, and repair.
"""

from airflow.sdk import CronTriggerTimetable, Param, dag

from kafka_maintenance.tasks.checks import check_snapshots as check
from kafka_maintenance.tasks.common import DEFAULT_ARGS, clusters_to_look_at, given
from kafka_maintenance.tasks.settings import SETTINGS


@dag(
    schedule=CronTriggerTimetable(SETTINGS.cron("check"), timezone="UTC"),
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    default_args=DEFAULT_ARGS,
    tags=["kafka", "reads-store", "scheduled"],
    render_template_as_native_obj=True,
    params={
        "cluster": Param(
            None, type=["string", "null"], description="Name of one cluster in the store; empty: all listed"
        ),
        "sample": Param(10, type="integer", minimum=1, description="Snapshots of each cluster whose content is read"),
    },
)
def check_snapshots() -> None:
    """One mapped check per cluster."""
    check.partial(sample=given("sample")).expand(cluster=clusters_to_look_at(given("cluster")))


check_snapshots()
