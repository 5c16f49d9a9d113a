# mypy: disable-error-code="arg-type,index"
# Wiring: a typed function is handed an XComArg or a template.
"""### KRaft rehearsal: untested migrations cannot be relied on

The newest snapshot of every named cluster is restored into a throw-away ZooKeeper on the worker and migrated there by a
real KRaft controller, with imitated brokers, and on another copy with real ones where `with_brokers` says so. Each obstacle is explained with its znode; every difference between snapshot, records and tree has a class.
No cluster is contacted, but for brokers that the connection allows to ask (`bootstrap_servers`), which answer what a copy cannot show; what was found is kept in the store, for the run-book. A rehearsal that is not passed fails, with the report in its log (docs/kraft.md).

**Never** writes to a cluster or leaves anything on the worker.

**When it fails:** the log names each obstacle with its znode and rule; mend those (docs/kraft.md) and start it again.
"""

from airflow.sdk import Param, dag

from kafka_maintenance.tasks.common import DEFAULT_ARGS, given
from kafka_maintenance.tasks.kraft_rehearsal import clusters_to_rehearse, rehearse


@dag(
    schedule=None,
    catchup=False,
    max_active_runs=1,
    doc_md=__doc__,
    default_args=DEFAULT_ARGS,
    tags=["kafka", "reads-store", "manual"],
    render_template_as_native_obj=True,
    params={
        "clusters": Param(
            None,
            type=["array", "null"],
            items={"type": "string", "minLength": 1},
            description="Connection ids of the clusters; empty: all that are listed, are not archived and have not left ZooKeeper",
        ),
        "kafka_version": Param(
            "3.9", type="string", enum=["3.6", "3.7", "3.9"], description="Kafka version of the planned quorum"
        ),
        "release_version": Param(
            None,
            type=["string", "null"],
            description="With which --release-version the quorum will be formatted; empty: that of its version",
        ),
        "fix": Param(False, type="boolean", description="Also rehearse the repairs, on another copy"),
        "with_brokers": Param(
            0,
            type="integer",
            minimum=0,
            maximum=10,
            description="Also start this many real brokers on another copy, set as the asked brokers answer",
        ),
    },
)
def kraft_rehearsal() -> None:
    """One mapped rehearsal per cluster."""
    rehearse.partial(
        version=given("kafka_version"),
        release_version=given("release_version"),
        fix=given("fix"),
        with_brokers=given("with_brokers"),
    ).expand(cluster=clusters_to_rehearse(given("clusters")))


kraft_rehearsal()
