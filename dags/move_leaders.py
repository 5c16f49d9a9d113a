# mypy: disable-error-code="arg-type,index"
# Wiring: a typed function is handed an XComArg or a template.
"""### Move leaders to chosen in-sync replicas

Reads the cluster, plans the fewest moves after which the named brokers or racks lead nothing, or leaders are spread by bytes, waits for a person, takes the place of the
active controller for at most 4 s, and checks. Off unless the cluster's connection says `may_act_as_controller`; the gate says what
stalls meanwhile. Nothing is written before the approval; a rejected or unanswered plan is dropped.

**Never** makes a replica leader that is not in sync, and acts for longer than 4 s.

**When it fails:** the task says what was reached. Brokers elect a controller by themselves, which heals what is half done; start it again to verify.
"""

from airflow.sdk import Param

from kafka_maintenance.tasks.apply import verify
from kafka_maintenance.tasks.approval import PlanApprovalOperator, after_rejection
from kafka_maintenance.tasks.cluster_dags import cluster_dag
from kafka_maintenance.tasks.common import DEFAULT_ARGS, GATE_DOC, GATED_RUNS_MAX, digest_param, given
from kafka_maintenance.tasks.leaders import act_as_controller, plan_leader_moves
from kafka_maintenance.tasks.links import PLAN, PLAN_AND_EXECUTION, linked

KIND = "move_leaders"


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
        "plan": digest_param("Digest of a stored plan; empty: plan now"),
        "drain_brokers": Param(
            [], type="array", items={"type": "integer", "minimum": 0}, description="Brokers that shall lead nothing"
        ),
        "drain_racks": Param([], type="array", items={"type": "string"}, description="Racks that shall lead nothing"),
        "spread_bytes": Param(
            None,
            type=["number", "null"],
            minimum=0,
            description="Each broker shall lead at most this much more than the mean, in bytes: 0.1 is a tenth; brokers tell the sizes",
        ),
        "confirm_unfenced_controller": Param(
            False, type="boolean", description="Second confirmation, for brokers of Kafka 2.0 or older"
        ),
    },
)
def move_leaders() -> None:
    """Plan → gate → act as controller → verify."""
    plan = linked(
        plan_leader_moves(
            given("cluster"), given("plan"), given("drain_brokers"), given("drain_racks"), given("spread_bytes")
        ),
        PLAN,
    )
    gate = PlanApprovalOperator(task_id="approve", kind=KIND, plan=plan, doc_md=GATE_DOC)
    acted = linked(act_as_controller(given("confirm_unfenced_controller")), PLAN_AND_EXECUTION)
    gate >> acted >> linked(verify(KIND), PLAN_AND_EXECUTION)


move_leaders()
