# mypy: disable-error-code="arg-type"
# Wiring: a typed function is handed a template.
"""### Cancel what a reassignment has under way

Asks Kafka (2.4 or newer) to cancel the partitions that it moves for the step of a plan that is under way: they go back to the replicas
of before, whose data are all there. What they have copied so far is lost; what is done stays; the plan ends.

First start it without `approve`: the task's log says what would be cancelled, and prints a digest of cluster, plan and step. Start it
again with that digest in `approve`: that is the yes to exactly this. Whoever starts it must be known by name to Airflow, and allowed by
the policy (`cancel_reassignment`). When it fails, what is under way goes on: start it again. The connection of the cluster must name
`bootstrap_servers`. To take back what was done, start `reassign_partitions` with `rollback_of`.

**Never** cancels nothing that the digest does not name, and nothing of another tool.

**When it fails:** what is under way goes on: start it again. Nothing is left half done, for Kafka cancels partition by partition.
"""

from airflow.sdk import Param

from kafka_maintenance.tasks.cancel import cancel_moves
from kafka_maintenance.tasks.cluster_dags import cluster_dag
from kafka_maintenance.tasks.common import DEFAULT_ARGS, digest_param, given


@cluster_dag(
    schedule=None,
    catchup=False,
    max_active_runs=8,
    doc_md=__doc__,
    default_args=DEFAULT_ARGS,
    tags=["kafka", "changes-cluster", "manual"],
    render_template_as_native_obj=True,
    params={
        "cluster": Param(type="string", minLength=1, description="Connection id of the cluster"),
        "plan": digest_param("Digest of the plan, 64 hex digits; empty: the one that is under way"),
        "approve": digest_param(
            "The digest that the log of a run without it printed; empty: nothing is cancelled, only shown"
        ),
        "reason": Param(
            type="string", minLength=1, description="For the record; with the ticket, where the policy wants one"
        ),
    },
)
def cancel_execution() -> None:
    """One task of seconds."""
    cancel_moves(given("cluster"), given("plan"), given("approve"), given("reason"))


cancel_execution()
