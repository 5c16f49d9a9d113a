# mypy: disable-error-code="arg-type,index"
# Wiring: a typed function is handed an XComArg or a template.
"""### Keep the snapshots that the policy keeps, remove the others

Reports, on a schedule and for every cluster, which snapshots the policy keeps, each with its reasons, and which it would
remove. A run with `cluster` and `act` stores the removal as a plan, waits for a person, removes exactly that, and lists
again. **Removed snapshots do not come back.** Pinned ones, the newest consistent one and those of the last two days
always stay. No cluster is contacted.
Schedule: `KAFKA_MAINTENANCE_RETENTION_CRON`, UTC.

**Never** removes a pinned snapshot, the newest consistent one, or one of the last two days.

**When it fails:** what was removed is gone, the rest is whole; the next plan removes what is left.
"""

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import CronTriggerTimetable, Param

from kafka_maintenance.tasks.approval import PlanApprovalOperator, after_rejection
from kafka_maintenance.tasks.cluster_dags import cluster_dag
from kafka_maintenance.tasks.common import (
    DEFAULT_ARGS,
    GATE_DOC,
    GATED_RUNS_MAX,
    OPENING_RUNS,
    clusters_to_look_at,
    digest_param,
    given,
)
from kafka_maintenance.tasks.links import PLAN, linked
from kafka_maintenance.tasks.retention import (
    KEEP,
    KIND,
    plan_retention,
    removal_runs,
    remove_snapshots,
    report_retention,
    verify_removal,
)
from kafka_maintenance.tasks.settings import SETTINGS


@cluster_dag(
    schedule=CronTriggerTimetable(SETTINGS.cron("retention"), timezone="UTC"),
    catchup=False,
    max_active_runs=GATED_RUNS_MAX,
    doc_md=__doc__,
    default_args=DEFAULT_ARGS,
    tags=["kafka", "changes-store", "scheduled"],
    render_template_as_native_obj=True,
    params={
        "after_rejection": after_rejection(),
        "cluster": Param(
            None, type=["string", "null"], description="Name of one cluster in the store; empty: report on all"
        ),
        "act": Param(False, type="boolean", description="Plan to remove the cluster's snapshots, behind the gate"),
        "plan": digest_param("Digest of a stored plan; empty: plan now"),
        "keep_last": Param(SETTINGS.keep_last, type="integer", minimum=1, description="The newest ones"),
        "keep_daily": Param(SETTINGS.keep_daily, type="integer", minimum=0, description="One of each of so many days"),
        "keep_weekly": Param(SETTINGS.keep_weekly, type="integer", minimum=0, description="… weeks"),
        "keep_monthly": Param(SETTINGS.keep_monthly, type="integer", minimum=0, description="… months"),
    },
)
def retain_snapshots() -> None:
    """Report on every cluster; plan → gate → remove → verify for one."""
    reports = report_retention.partial(keep=KEEP).expand(cluster=clusters_to_look_at(given("cluster")))
    TriggerDagRunOperator.partial(
        **OPENING_RUNS,
        doc_md="Opens a gated run per cluster with snapshots to remove, where the Variable allows it.",
    ).expand_kwargs(removal_runs(reports, given("act"), KEEP))
    plan = linked(plan_retention(given("cluster"), given("plan"), given("act"), KEEP), PLAN)
    reports >> plan
    gate = PlanApprovalOperator(task_id="approve", kind=KIND, plan=plan, doc_md=GATE_DOC)
    gate >> remove_snapshots() >> verify_removal()


retain_snapshots()
