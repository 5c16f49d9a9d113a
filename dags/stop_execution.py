# mypy: disable-error-code="arg-type"
# Wiring: a typed function is handed a template.
"""### Stop the execution of a plan

Asks the run that carries out a plan on a cluster to end at its next safe point: it asks Kafka for no further step, releases the lock
and writes `stopped` into the record, within some 15 seconds. It does not wait for that, and it changes nothing on the cluster: what Kafka was
asked for goes on, and the task's log says what that is. To go on later, clear the run's task `apply_plan`. To take back what was
done, start `reassign_partitions` with `rollback_of`. Nobody has to approve a stop.

**Never** undoes anything.

**When it fails:** the run of the plan goes on: start it again, or `kafka-maintenance stop`.
"""

from airflow.sdk import Param, dag

from kafka_maintenance.tasks.common import DEFAULT_ARGS, digest_param, given
from kafka_maintenance.tasks.stop import ask_to_stop


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
        "plan": digest_param("Digest of the plan, 64 hex digits; empty: the one that is under way"),
        "reason": Param(type="string", minLength=1, description="For the record"),
    },
)
def stop_execution() -> None:
    """One task of seconds."""
    ask_to_stop(given("cluster"), given("plan"), given("reason"))


stop_execution()
