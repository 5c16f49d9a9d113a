# mypy: disable-error-code="arg-type,index"
# Wiring: a typed function is handed an XComArg or a template.
"""### Bring a cluster's metadata back from a snapshot

Compares the snapshot with the living tree, stores every difference as a plan, waits for a person, writes exactly that, and
compares again. Configs and ACLs may be restored while brokers run; for everything else stop all brokers first, the plan is
refused otherwise. docs/accidents.md has the parameters for each of 18 accidents.
Nothing is written to ZooKeeper before the approval; a rejected or unanswered plan is dropped.

**Never** deletes what the plan does not name, writes a secret into a log, or gives everybody more rights than now.

**When it fails:** the receipt says how far it came; start it again with the same plan, it goes on. Keep the brokers down until it has ended, where it asked for that.
"""

from airflow.sdk import Param

from kafka_maintenance.tasks.approval import PlanApprovalOperator, after_rejection
from kafka_maintenance.tasks.cluster_dags import cluster_dag
from kafka_maintenance.tasks.common import DEFAULT_ARGS, GATE_DOC, GATED_RUNS_MAX, digest_param, given
from kafka_maintenance.tasks.links import PLAN, linked
from kafka_maintenance.tasks.restore import KIND, SCOPE, apply_restore, plan_restore, verify_restore

NAMES = {"type": ["array", "null"], "items": {"type": "string", "minLength": 1}}


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
        "snapshot": Param("newest", type="string", description="Snapshot id, its beginning, its address, or newest"),
        "whole": Param(False, type="boolean", description="The whole tree, brokers stopped"),
        "fill": Param(False, type="boolean", description="With whole: keep what is there, bring back what is missing"),
        "mirror": Param(
            False, type="boolean", description="With whole or paths: set what differs, remove what the snapshot lacks"
        ),
        "topics": Param(None, **NAMES, description="Patterns of topics whose configs come back"),
        "configs": Param(None, **NAMES, description="Patterns of configs, type/name"),
        "paths": Param(None, **NAMES, description="Subtrees, such as /brokers/topics"),
        "kraft_repairs": Param(
            False,
            type="boolean",
            description="Instead: correct what stands against a migration to KRaft and brokers accept while they run",
        ),
        "brokers_stopped": Param(
            False,
            type="boolean",
            description="With kraft_repairs: also end what is under way; refused while a broker is registered",
        ),
        "recreate": Param(False, type="boolean", description="With topics: make deleted ones anew, empty"),
        "requests": Param(False, type="boolean", description="Also pending requests, which run again"),
        "notifications": Param(False, type="boolean", description="Also notifications"),
        "acls": Param(True, type="boolean", description="With the ACLs of the snapshot"),
        "widen_acls": Param(False, type="boolean", description="Also ACLs that give everybody more rights than now"),
        "epoch_bump": Param(100_000, type="integer", minimum=0, description="Raises epochs over the snapshot's"),
        "cluster_id": Param(
            None, type=["string", "null"], description="Your word that this is the cluster, where its own id is gone"
        ),
    },
)
def restore_metadata() -> None:
    """Plan → gate → apply → compare again."""
    plan = linked(plan_restore(given("cluster"), given("plan"), given("snapshot"), SCOPE), PLAN)
    gate = PlanApprovalOperator(task_id="approve", kind=KIND, plan=plan, doc_md=GATE_DOC)
    gate >> apply_restore() >> verify_restore()


restore_metadata()
