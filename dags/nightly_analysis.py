# mypy: disable-error-code="arg-type,index"
# Wiring: a typed function is handed an XComArg or a template.
"""### Analyse the snapshots of a date

Takes each cluster's newest whole snapshot of the run's date (its partition key, UTC), waits a bounded while for one of
today, and analyses all clusters in one Spark job: imbalance, deletion eligibility with reasons, a reassignment plan.
Report, tables and plans go to the store; the tab *Report* of the run shows them. Writes nothing to any cluster.

Backfill: `airflow backfill create --dag-id nightly_analysis --from-date … --to-date …` analyses past dates again from
their own stored snapshots. A date without one is skipped with a note that names the nearest. A run that lacks a cluster fails at its
end, when all else is done, unless its param `fail_if_incomplete` is false; so does one with findings of the severity `alarm_severity`.
The Variable `kafka_maintenance_open_gated_runs` lets this DAG open the gated runs by itself when it finds work.
Schedule: `KAFKA_MAINTENANCE_ANALYSIS_CRON`, UTC; `snapshots` there: after each run of `snapshot_metadata`, by its asset.

**Never** contacts a cluster, and applies no plan.

**When it fails:** `all_clusters_analysed` names what was left out, `no_alarms` the findings that call for a person; everything else is published. Clear `analyse` to try the job again.
"""

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import Param, dag

from kafka_maintenance.tasks.analysis import (
    AnalyseOperator,
    all_clusters_analysed,
    chosen_snapshots,
    gated_runs,
    keep_compact_history,
    no_alarms,
    plan_repairs,
    publish_report,
    remove_expired_analyses,
    schedule,
    send_metrics,
)
from kafka_maintenance.tasks.choice import choose_snapshots, listed_clusters
from kafka_maintenance.tasks.common import DEFAULT_ARGS, OPENING_RUNS
from kafka_maintenance.tasks.links import REPORT_AND_CLUSTERS, linked
from kafka_maintenance.tasks.pools import SPARK_POOL
from kafka_maintenance.tasks.settings import SETTINGS


@dag(
    schedule=schedule(SETTINGS.cron("analysis")),
    catchup=False,
    max_active_runs=2,
    doc_md=__doc__,
    default_args=DEFAULT_ARGS,
    tags=["kafka", "reads-store", "scheduled"],
    params={
        "fail_if_incomplete": Param(
            True,
            type="boolean",
            description="Fail at the end when a cluster was not analysed; false for past dates that some clusters do not have",
        ),
        "alarm_severity": Param(
            SETTINGS.alarm_severity,
            enum=["critical", "warning", "info", "none"],
            description="Fail at the end on findings of this severity or a worse one; a cluster's connection may say another",
        ),
    },
)
def nightly_analysis() -> None:
    """Snapshots of the date → one Spark job → report and plans."""
    choice = choose_snapshots(listed_clusters())
    analyse = AnalyseOperator(
        task_id="analyse",
        choice=choice,
        pool=SPARK_POOL,
        doc_md="One Spark job for all clusters of the date: fetches their snapshots, writes tables and report.",
        execution_timeout=SETTINGS.analysis_timeout,
    )
    report = linked(publish_report(analyse.output, choice), REPORT_AND_CLUSTERS)
    plans = plan_repairs.expand(chosen=chosen_snapshots(choice))
    TriggerDagRunOperator.partial(
        **OPENING_RUNS,
        doc_md="Opens a gated run per plan, where the Variable allows it; a person still has to approve each. "
        "Fails where the DAG of a plan is paused: unpause it, then clear this task.",
    ).expand_kwargs(gated_runs(plans, choice))
    all_clusters_planned = EmptyOperator(
        task_id="all_clusters_planned",
        doc_md="Not reached where the plans of a cluster could not be made: the run counts as failed then, and the gated runs of "
        "the others are opened all the same.",
    )
    linked(all_clusters_analysed(report), REPORT_AND_CLUSTERS)
    linked(no_alarms(report), REPORT_AND_CLUSTERS)
    send_metrics(report)
    report >> [remove_expired_analyses(), keep_compact_history(choice)]
    analyse >> report >> plans >> all_clusters_planned


nightly_analysis()
