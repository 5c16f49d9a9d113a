# mypy: disable-error-code="arg-type,index"
# Wiring: a typed function is handed an XComArg or a template.
"""### Delete topics that can be deleted

Checks which of the named topics are eligible and unused, plans their deletion (the others are named with their reasons), waits
for a person, applies, waits until they are gone.
**Deleted data does not come back.** Nothing is written to ZooKeeper before the approval; a rejected or unanswered plan
is dropped.

**Never** deletes a topic that nobody named, one that is in use unless you say so, or one beside a reassignment.

**When it fails:** look at the task: a plan that went stale is made again by a new run; a topic that waits says for which broker; clear `apply_plan` to go on.
"""

from airflow.sdk import Param

from kafka_maintenance.tasks.apply import apply_plan, verify
from kafka_maintenance.tasks.approval import PlanApprovalOperator, after_rejection
from kafka_maintenance.tasks.cluster_dags import cluster_dag
from kafka_maintenance.tasks.common import DEFAULT_ARGS, GATE_DOC, GATED_RUNS_MAX, digest_param, given
from kafka_maintenance.tasks.links import PLAN, PLAN_AND_EXECUTION, linked
from kafka_maintenance.tasks.plans import plan_deletions, snapshot_to_plan

KIND = "delete_topics"


@cluster_dag(
    schedule=None,
    catchup=False,
    max_active_runs=GATED_RUNS_MAX,
    doc_md=__doc__,
    default_args=DEFAULT_ARGS,
    tags=["kafka", "changes-cluster", "manual"],
    render_template_as_native_obj=True,
    params={
        "after_rejection": after_rejection(),
        "cluster": Param(type="string", minLength=1, description="Connection id of the cluster"),
        "plan": digest_param("Digest of a stored plan; empty: plan from a fresh snapshot"),
        "topics": Param(
            [],
            type="array",
            items={"type": "string", "minLength": 1},
            description="Exact names of the topics to delete; not needed with a stored plan",
        ),
        "bootstrap_servers": Param(
            None,
            type=["string", "null"],
            description="host:port of brokers that are asked who uses the topics, among those of the connection; where it names none, they are "
            "asked without its client_settings; empty: those of the connection, or nobody is asked and the plan says so",
        ),
        "unused_days": Param(
            30, type="integer", minimum=1, description="A topic that was written to within so many days is in use"
        ),
        "even_if_used": Param(
            False, type="boolean", description="Also topics that are in use, or that a program made for itself"
        ),
    },
)
def delete_topics() -> None:
    """Snapshot → plan → gate → apply → verify."""
    snapshot = snapshot_to_plan(given("cluster"), given("plan"))
    plan = linked(
        plan_deletions(
            given("cluster"),
            snapshot,
            given("plan"),
            given("topics"),
            given("bootstrap_servers"),
            given("unused_days"),
            given("even_if_used"),
        ),
        PLAN,
    )
    gate = PlanApprovalOperator(task_id="approve", kind=KIND, plan=plan, doc_md=GATE_DOC)
    gate >> apply_plan(KIND) >> linked(verify(KIND), PLAN_AND_EXECUTION)


delete_topics()
