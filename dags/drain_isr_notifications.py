# mypy: disable-error-code="arg-type,index"
# Wiring: a typed function is handed an XComArg or a template.
"""### Look after lingering ISR-change notifications

Reports, on a schedule and for every cluster, how many ISR-change notifications wait, how old they are and which
partitions they name; and which requests name only what is gone, or are not begun by the controller. A run with `cluster` and `act` plans to force a new controller election where they linger beside a
wedged controller (a conditional delete of `/controller`), waits for a person, applies, and checks that the metadata is
right and the notifications are gone. Nothing is written to ZooKeeper before the approval.
Schedule: `KAFKA_MAINTENANCE_DRAIN_CRON`, UTC.

**Never** deletes a notification itself, and forces no election without a yes.

**When it fails:** `all_clusters_reported` names the clusters that did not answer; the reports of the others are in the log. A new controller that does not drain has a fault of its own: look at its controller.log.
"""

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import CronTriggerTimetable, Param

from kafka_maintenance.tasks.apply import apply_plan, verify
from kafka_maintenance.tasks.approval import PlanApprovalOperator, after_rejection
from kafka_maintenance.tasks.cluster_dags import cluster_dag
from kafka_maintenance.tasks.common import DEFAULT_ARGS, GATE_DOC, GATED_RUNS_MAX, OPENING_RUNS, digest_param, given
from kafka_maintenance.tasks.drain import (
    all_clusters_reported,
    clusters_to_report,
    lingering_runs,
    plan_drain,
    report_notifications,
)
from kafka_maintenance.tasks.links import PLAN, PLAN_AND_EXECUTION, linked
from kafka_maintenance.tasks.settings import SETTINGS

KIND = "drain_isr_notifications"


@cluster_dag(
    schedule=CronTriggerTimetable(SETTINGS.cron("drain"), timezone="UTC"),
    catchup=False,
    max_active_runs=GATED_RUNS_MAX,
    doc_md=__doc__,
    default_args=DEFAULT_ARGS,
    tags=["kafka", "changes-cluster", "scheduled"],
    render_template_as_native_obj=True,
    params={
        "after_rejection": after_rejection(),
        "cluster": Param(
            None, type=["string", "null"], description="Connection id of one cluster; empty: report on all"
        ),
        "act": Param(False, type="boolean", description="Plan to drain the cluster's notifications, behind the gate"),
        "plan": digest_param("Digest of a stored plan; empty: plan now"),
    },
)
def drain_isr_notifications() -> None:
    """Report on every cluster; plan → gate → apply → verify on one."""
    reports = report_notifications.expand(clusters=clusters_to_report(given("cluster")))
    all_clusters_reported(reports)
    TriggerDagRunOperator.partial(
        **OPENING_RUNS,
        doc_md="Opens a gated run per cluster with lingering notifications, where the Variable allows it.",
    ).expand_kwargs(lingering_runs(reports, given("act")))
    plan = linked(plan_drain(given("cluster"), given("plan"), given("act")), PLAN)
    reports >> plan
    gate = PlanApprovalOperator(task_id="approve", kind=KIND, plan=plan, doc_md=GATE_DOC)
    gate >> apply_plan(KIND) >> linked(verify(KIND), PLAN_AND_EXECUTION)


drain_isr_notifications()
