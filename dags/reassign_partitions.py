# mypy: disable-error-code="arg-type,index"
# Wiring: a typed function is handed an XComArg or a template.
"""### Move replicas to where they belong

Applies a stored plan, or takes a snapshot and plans: replicas spread over brokers and racks with the fewest moves, the
plan with its certificate. With `cancel_running` it plans to take back all that Kafka moves, whoever asked for it. Waits for a person, applies, waits for Kafka to finish, checks.
Nothing is written to ZooKeeper before the approval; a rejected or unanswered plan is dropped.

**Never** moves a partition that the plan does not name, and starts no wave before the former one is in sync.

**When it fails:** nothing is lost: Kafka goes on with what it was asked for. The task says what waits for what; clear `apply_plan` to go on, or start `reassign_partitions` with `rollback_of` to go back.
"""

from airflow.sdk import Param

from kafka_maintenance.tasks.apply import apply_plan, verify
from kafka_maintenance.tasks.approval import PlanApprovalOperator, after_rejection
from kafka_maintenance.tasks.cluster_dags import cluster_dag
from kafka_maintenance.tasks.common import DEFAULT_ARGS, GATE_DOC, GATED_RUNS_MAX, digest_param, given
from kafka_maintenance.tasks.links import PLAN, PLAN_AND_EXECUTION, linked
from kafka_maintenance.tasks.plans import plan_reassignment, snapshot_to_plan

KIND = "reassign_partitions"


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
        "move_count_max": Param(100, type="integer", minimum=1, description="Replica moves in one run"),
        "goals": Param(
            {},
            type="object",
            description='What the planner is to achieve, e.g. {"drain": [3], "bytes_tolerance": 0.1}; see docs/planning.md',
        ),
        "bootstrap_servers": Param(
            None,
            type=["string", "null"],
            description="host:port of brokers that are asked for the sizes of their replicas, among those of the connection; where it names none, "
            "they are asked without its client_settings; empty: those of the connection, or nobody is asked and sizes are not known",
        ),
        "throttle_bytes_per_s": Param(
            None,
            type=["integer", "string", "null"],
            minimum=1,
            pattern=r"^(none|[1-9]\d*|auto:[1-9]\d*-[1-9]\d*|auto:(\*|\d+)=\d+/\d+(,(\*|\d+)=\d+/\d+)*)$",
            description="How fast each broker may send, and receive, what is copied; auto:LEAST-MOST lets the run choose between two rates; "
            "auto:BROKER=NETWORK/DISK,… makes the band from what each broker (* for the others) can spare of network and disks; empty or none: as fast as it can",
        ),
        "rollback_of": digest_param(
            "Digest of a plan that was begun: plan the way back to the replica lists of before it"
        ),
        "cancel_running": Param(
            False,
            type="boolean",
            description="Plan to take back every reassignment that Kafka (2.4 or newer) works at, whoever asked for it",
        ),
    },
)
def reassign_partitions() -> None:
    """Snapshot → plan → gate → apply → verify."""
    snapshot = snapshot_to_plan(given("cluster"), given("plan"))
    plan = linked(
        plan_reassignment(
            given("cluster"),
            snapshot,
            given("plan"),
            given("move_count_max"),
            given("goals"),
            given("bootstrap_servers"),
            given("throttle_bytes_per_s"),
            given("rollback_of"),
            given("cancel_running"),
        ),
        PLAN,
    )
    gate = PlanApprovalOperator(task_id="approve", kind=KIND, plan=plan, doc_md=GATE_DOC)
    gate >> apply_plan(KIND) >> linked(verify(KIND), PLAN_AND_EXECUTION)


reassign_partitions()
