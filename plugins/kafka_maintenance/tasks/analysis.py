"""The daily analysis as tasks: the chosen snapshots staged for Spark, the report published, and the plans that follow from it."""

import logging
import shutil
from datetime import UTC, date, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, cast

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import Context, task
from airflow.sdk.exceptions import AirflowFailException

from controller_core.plans.plan import PlanKind
from kafka_maintenance import hooks
from kafka_maintenance.connections.spark import SPARK_CONNECTION
from kafka_maintenance.tasks.airflow_versions import CronPartitionTimetable
from kafka_maintenance.tasks.choice import Choice, ChosenSnapshot
from kafka_maintenance.tasks.common import (
    CLUSTER_LABEL,
    SNAPSHOTS,
    WHATEVER_SUCCEEDED,
    context_of_run,
    gated_run,
    label,
    run_name,
)
from kafka_maintenance.tasks.lineage import tell_lineage
from kafka_maintenance.tasks.links import REPORT_AND_CLUSTERS
from kafka_maintenance.tasks.settings import AFTER_SNAPSHOTS, SETTINGS
from kafka_maintenance.tasks.snapshots import manifest_key, named_snapshot

if TYPE_CHECKING:
    from controller_core.adapters.object_store.open import ObjectStore
    from kafka_maintenance.operations.analysis.run import Staged

_ABANDONED_AFTER = timedelta(days=2)
"""Staged snapshots of a run that failed are kept so long, for whoever looks into it or clears a task."""
_ALARMS_SHOWN = 50
STATS_PREFIX = "kafka_maintenance"
"""Of the gauges that Airflow sends."""

log = logging.getLogger(__name__)


class PublishedReport(TypedDict):
    """Addresses of the published report; `current` is the manifest of the one that counts for its date.

    `missing` are the notes of the choice, `not_analysed` what the job could not read, each with its cluster.
    """

    date: str
    manifest: str
    report: str
    report_html: str
    current: str
    missing: list[str]
    not_analysed: list[str]


def schedule(cron: str) -> Any:
    """When the analysis runs: by a cron, its run named by the UTC date; or when the snapshots of a date are announced."""
    if cron == AFTER_SNAPSHOTS:
        return [SNAPSHOTS]
    return CronPartitionTimetable(cron, timezone="UTC", key_format="%Y-%m-%d")


def _settings_of(name: str) -> dict[str, Any]:
    cluster = hooks.cluster(name)
    known = {
        "kafka_version": cluster.kafka_version,
        "inter_broker_protocol_version": cluster.inter_broker_protocol_version,
    }
    return {field: value for field, value in known.items() if value is not None} | dict(cluster.analysis)


class AnalyseOperator(SparkSubmitOperator):
    """Fetches the chosen snapshots into a scratch folder, runs the Spark job that reads them, and publishes what it delivers.

    All in one task, each try in a folder of its own: no task needs a file that another one left on the same machine.

    Every checksum is verified; the report names the clusters that have no snapshot of the date. Where the Spark connection
    names a cluster and the store is S3, its workers read the snapshots from there and nothing is fetched. The submission is
    built here, from the settings and the store: whoever can edit XComs chooses no program, no file and no option.

    Args:
        choice: what `choose_snapshots` returned; only its names are used: date, clusters, snapshot ids, notes.
    Returns (XCom):
        `try`: the number under which it published.
    """

    template_fields = ("choice",)
    operator_extra_links = REPORT_AND_CLUSTERS

    def __init__(self, *, choice: Any, **kwargs: Any) -> None:
        super().__init__(conn_id=SPARK_CONNECTION, driver_memory=SETTINGS.driver_memory, **kwargs)
        self.choice = choice

    def execute(self, context: Context) -> Any:
        """Stages, submits, waits for the end of the job, publishes; the manifest is written last."""
        from kafka_maintenance.operations.analysis import run as analyse
        from kafka_maintenance.operations.analysis.published import publish
        from kafka_maintenance.spark import submit as spark

        store, values = hooks.store(), cast("dict[str, Any]", context)
        tried = _first_unpublished(store, values, _day(self.choice))
        run = _run_of_try(values, tried)
        folder = analyse.folder_of_try(SETTINGS.scratch, run)
        long_ago = datetime.now(UTC) - max(_ABANDONED_AFTER, 4 * SETTINGS.analysis_timeout)
        for left in analyse.remove_abandoned(SETTINGS.scratch, long_ago):
            self.log.info("removed what a failed run left: %s", left)
        for lost in range(1, tried):
            analyse.remove_unpublished(store, _run_of_try(values, lost))
        staged = _staged(store, self.choice, folder, run)
        submit = spark.submit_arguments(
            analyse.JOB,
            staged.arguments,
            work_folder=folder / "spark",
            settings=hooks.spark_settings(),
            row_count=staged.row_count,
        )
        submission = submit.operator_kwargs()
        del submission["driver_memory"]  # a setting of the DAG, given to the constructor
        for name, value in submission.items():
            setattr(self, name, value)
        super().execute(context)
        published = publish(staged.output, store, day=_day(self.choice), run_id=run)
        self.log.info("published: %s", published.uri)
        shutil.rmtree(folder, ignore_errors=True)
        return {"try": tried}


def _staged(store: "ObjectStore", choice: Choice, folder: Path, run: str) -> "Staged":
    from kafka_maintenance.operations.analysis import run as analyse

    clusters = [chosen["cluster"] for chosen in choice["snapshots"]]
    return analyse.stage(
        store,
        [named_snapshot(store, **chosen) for chosen in choice["snapshots"]],
        folder,
        run_id=run,
        day=_day(choice),
        settings={"clusters": {cluster: _settings_of(cluster) for cluster in clusters}},
        missing={missing["cluster"]: missing["note"] for missing in choice["missing"] if missing["expected"]},
        in_place=analyse.works_in_place(store, hooks.spark_settings()),
    )


def _day(choice: Choice) -> date:
    """The UTC date of a choice; `ValueError` where it is none: it becomes a part of keys."""
    return date.fromisoformat(choice["date"])


def _run_of_try(context: dict[str, Any], tried: int) -> str:
    """Names a try of the analysis: a date that is analysed again is kept beside."""
    run = run_name(context)
    return run if tried == 1 else f"{run}.{int(tried)}"


def _first_unpublished(store: "ObjectStore", context: dict[str, Any], day: date) -> int:
    """The number of this try, or the first one after it under which nothing is published: a run that was deleted and made again under the
    same name counts its tries from 1 on, and what is published stays.
    """
    from kafka_maintenance.operations.analysis.published import of_run

    own: int = context["ti"].try_number
    return next(tried for tried in count(own) if of_run(store, day, _run_of_try(context, tried)) is None)


@task
def chosen_snapshots(choice: Choice) -> list[ChosenSnapshot]:
    """The chosen snapshots as a list, one mapped instance of the next task each."""
    return list(choice["snapshots"])


@task(multiple_outputs=False)
def publish_report(analysed: dict[str, int], choice: Choice) -> PublishedReport:
    """Says where the published report is, which one of its date is current, and what is missing; reads the store only."""
    from controller_core.model.errors import ObjectMissingError
    from kafka_maintenance.operations.analysis.published import latest_report, of_run

    run, store, day = _run_of_try(context_of_run(), analysed["try"]), hooks.store(), _day(choice)
    published = of_run(store, day, run)
    if published is None:
        raise ObjectMissingError(
            f"no report of run {run!r} in {store.uri!r}: clear the task analyse, it makes a new one"
        )
    current = latest_report(store, day)
    tell_lineage(read=[store.uri_of(manifest_key(**chosen)) for chosen in choice["snapshots"]], written=[published.uri])
    log.info("report: %s; current of %s: %s", published.report_markdown, day, current.report_markdown)
    return {
        "date": published.day,
        "manifest": published.uri,
        "report": published.report_markdown,
        "report_html": published.report_html,
        "current": current.uri,
        "missing": [missing["note"] for missing in choice["missing"]],
        "not_analysed": list(published.missed),
    }


@task(
    doc_md="Sends the gauges of all clusters to Airflow's metrics (StatsD or OpenTelemetry, where they are switched on), and writes "
    "the OpenMetrics file that `KAFKA_MAINTENANCE_METRICS_FILE` names. Of a past date nothing is sent.",
)
def send_metrics(report: PublishedReport) -> int:
    """How many samples were sent."""
    from airflow.sdk.observability.stats import Stats

    from kafka_maintenance.operations.analysis import metrics
    from kafka_maintenance.operations.analysis.overviews import require_overview

    store = hooks.store()
    if require_overview(store).date != report["date"]:
        return 0
    found = metrics.samples(store)
    for each in found:
        # As Airflow's own metrics: with tags for OpenTelemetry, and with the values in the name for a plain StatsD.
        Stats.gauge(f"{STATS_PREFIX}.{each.metric}", each.value, tags=each.labels)
        Stats.gauge(".".join((STATS_PREFIX, each.metric, *each.labels.values())), each.value)
    if SETTINGS.metrics_file is not None:
        metrics.write_openmetrics(found, SETTINGS.metrics_file)
    return len(found)


@task(
    doc_md="Puts the chosen snapshots into the compact history of their month, one file per table and cluster, from which the next runs "
    "read earlier dates. Of a past date the month is made again from its snapshots.",
)
def keep_compact_history(choice: Choice) -> int:
    """How many snapshots their compact history holds; on the first of a month that of the month before is ended."""
    from kafka_maintenance.operations.snapshots.compact import keep_compact

    store, day = hooks.store(), _day(choice)
    months = sorted({f"{each:%Y-%m}" for each in (day - timedelta(days=1), day)})
    found = [keep_compact(store, chosen["cluster"], month) for chosen in choice["snapshots"] for month in months]
    return sum(len(one.snapshots) for one in found if one is not None)


@task(
    doc_md="Removes analyses and measured disks of dates that are over, and replaced runs: their snapshots are kept by their own rules."
)
def remove_expired_analyses() -> list[str]:
    """Keys of the manifests, and of the measured disks, that are gone."""
    from kafka_maintenance.operations.analysis.disks import remove_expired_disks
    from kafka_maintenance.operations.analysis.retention import expired_analyses, remove_analysis

    store = hooks.store()
    disks = remove_expired_disks(store, datetime.now(UTC).date() - timedelta(days=SETTINGS.keep_analyses_days))
    keys = expired_analyses(
        store,
        datetime.now(UTC).date(),
        keep_days=SETTINGS.keep_analyses_days,
        replaced_days=SETTINGS.keep_replaced_analyses_days,
    )
    for key in keys:
        remove_analysis(store, key)
    return [*keys, *disks]


@task(
    doc_md="Fails where a cluster was not analysed, unless the run's param `fail_if_incomplete` is false: the report and the plans "
    "of the others are there all the same."
)
def all_clusters_analysed(report: PublishedReport) -> None:
    """Names the clusters that the published report lacks, with the reasons."""
    from kafka_maintenance.operations.errors import listed

    missed = report["not_analysed"]
    if missed and context_of_run()["params"]["fail_if_incomplete"]:
        raise AirflowFailException(
            f"date {report['date']} not analysed for every cluster: {listed(missed)}; the others are in "
            f"{report['report_html']}; mend what is named and clear the run, or start it with fail_if_incomplete false"
        )


@task(
    doc_md="Fails when the report has a finding of the severity `alarm_severity` or a worse one that nobody has acknowledged "
    "(`kafka-maintenance alarms acknowledge`); its message lists them, new ones first. Report and plans are there all the same.",
)
def no_alarms(report: PublishedReport) -> list[str]:
    """The alarms that are acknowledged, a line each; fails with the others."""
    from kafka_maintenance.operations.analysis.alarms import alarms_of

    context, store = context_of_run(), hooks.store()
    known = [(name, hooks.usable_cluster(name)) for name in hooks.cluster_names()]
    found = alarms_of(
        store,
        report["manifest"].removeprefix(f"{store.uri}/"),
        date.fromisoformat(report["date"]),
        mildest=context["params"]["alarm_severity"],
        of_cluster={name: one.alarm_severity for name, one in known if one is not None and one.alarm_severity},
    )
    ringing = [each for each in found if each.acknowledged is None]
    if not ringing:
        log.info("date %s: no finding calls for a person; acknowledged are %d", report["date"], len(found))
        return [each.text for each in found]
    shown = "\n".join(each.text for each in ringing[:_ALARMS_SHOWN])
    raise AirflowFailException(
        f"{len(ringing)} finding(s) call for a person, {sum(each.is_new for each in ringing)} of them new:\n{shown}\n"
        f"report: {report['report_html']}"
    )


@task(
    map_index_template=CLUSTER_LABEL,
    execution_timeout=SETTINGS.cluster_timeout,
    doc_md="Stores the plans that a cluster's snapshot calls for beside it, each with its digest. None is applied.",
)
def plan_repairs(chosen: ChosenSnapshot) -> list[dict[str, str]]:
    """Kind, cluster and digest of each stored plan."""
    from kafka_maintenance.tasks.plans import repairs_of

    label(chosen["cluster"])
    found = repairs_of(hooks.store(), chosen["cluster"], named_snapshot(hooks.store(), **chosen).uri)
    made = ", ".join(f"{plan['kind']} {plan['digest'][:12]}" for plan in found)
    log.info("cluster %s: plans of its snapshot: %s", chosen["cluster"], made or "none, there is nothing to repair")
    return found


@task(trigger_rule=WHATEVER_SUCCEEDED)
def gated_runs(plans: list[list[dict[str, str]]], choice: Choice) -> list[dict[str, Any]]:
    """The gated runs to open, one per plan; none unless the Variable says so or the date is over."""
    if not hooks.open_gated_runs() or choice["date"] != datetime.now(UTC).date().isoformat():
        return []
    return [
        gated_run(
            PlanKind(plan["kind"]).value,
            "nightly",
            choice["date"],
            plan["cluster"],
            plan["digest"][:12],
            plan=plan["digest"],
        )
        for found in plans
        for plan in found
    ]
