# mypy: disable-error-code="arg-type,index"
# Wiring: a typed function is handed an XComArg or a template.
"""### KRaft watch: go on, wait, or go back

On the day of a migration: takes a snapshot, looks at one cluster's ZooKeeper tree every half minute and ends when it is time for the next step of the
run-book (*go*), with a snapshot after it, or fails when the only way is back (docs/kraft.md). Nothing that the first snapshot holds may be lost. Between two looks it holds no worker: it is deferred, and the triggerer looks, for two weeks at most.
It never writes anything to the cluster, and never advises to finalise while a broker is registered as a ZooKeeper broker.

**Never** writes anything, or says finalise while it does not know.

**When it fails:** read its last lines: *go back* says what to do now. A lost connection is tried again by itself.
"""

from airflow.sdk import Param, dag

from kafka_maintenance.tasks.common import DEFAULT_ARGS, given
from kafka_maintenance.tasks.kraft_watch import WatchMigrationOperator, snapshot_of_phase


@dag(
    schedule=None,
    catchup=False,
    max_active_runs=8,
    doc_md=__doc__,
    default_args=DEFAULT_ARGS,
    tags=["kafka", "reads-cluster", "manual"],
    render_template_as_native_obj=True,
    params={
        "cluster": Param(type="string", minLength=1, description="Connection id of the cluster"),
        "metadata_log": Param(
            None,
            type=["string", "null"],
            description="Folder on the worker with a copy of a controller's __cluster_metadata-0; needed before the quorum is finalised",
        ),
    },
)
def kraft_watch() -> None:
    """A snapshot, one task that waits, and a snapshot after *go*."""
    before = snapshot_of_phase.override(task_id="snapshot_before")(given("cluster"), "before")
    watched = WatchMigrationOperator(
        task_id="watch_migration",
        cluster=given("cluster"),
        metadata_log=given("metadata_log"),
        before=before,
        doc_md=WatchMigrationOperator.__doc__,
    )
    watched >> snapshot_of_phase.override(task_id="snapshot_after")(given("cluster"), "after")


kraft_watch()
