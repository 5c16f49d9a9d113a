# mypy: disable-error-code="arg-type,index"
# Wiring: a typed function is handed an XComArg or a template.
"""### Give partitions back to their preferred leaders

Reads the cluster, plans the elections, waits for a person, applies, checks.
Nothing is written to ZooKeeper before the approval; a rejected or unanswered plan is dropped.

**Never** moves data, and makes no replica leader that is not in sync.

**When it fails:** a stale plan is made again by a new run. What was elected stays and does no harm; clear `apply_plan` to go on.
"""

from airflow.sdk import Param

from kafka_maintenance.tasks.apply import apply_plan, verify
from kafka_maintenance.tasks.approval import PlanApprovalOperator, after_rejection
from kafka_maintenance.tasks.cluster_dags import cluster_dag
from kafka_maintenance.tasks.common import DEFAULT_ARGS, GATE_DOC, GATED_RUNS_MAX, digest_param, given
from kafka_maintenance.tasks.links import PLAN, PLAN_AND_EXECUTION, linked
from kafka_maintenance.tasks.plans import plan_elections, snapshot_to_plan

KIND = "elect_preferred_leaders"


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
        "election_count_max": Param(100, type="integer", minimum=1, description="Elections in one run"),
        "elections_per_minute": Param(
            1000, type="integer", minimum=1, description="Elections in one step; a minute passes between two steps"
        ),
    },
)
def elect_preferred_leaders() -> None:
    """Snapshot → plan → gate → apply → verify."""
    snapshot = snapshot_to_plan(given("cluster"), given("plan"))
    plan = linked(
        plan_elections(
            given("cluster"), snapshot, given("plan"), given("election_count_max"), given("elections_per_minute")
        ),
        PLAN,
    )
    gate = PlanApprovalOperator(task_id="approve", kind=KIND, plan=plan, doc_md=GATE_DOC)
    gate >> apply_plan(KIND) >> linked(verify(KIND), PLAN_AND_EXECUTION)


elect_preferred_leaders()
