"""Deadline alerts of Airflow: who is told when a run is not over in time, though nothing of it has failed.

The triggerer calls back, with the run as Airflow's API shows it; no task instance stands behind the alert.
"""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

from airflow.sdk import (  # type: ignore[attr-defined]  # its stub leaves them out
    AsyncCallback,
    DeadlineAlert,
    DeadlineReference,
)

from kafka_maintenance.tasks.links import address_of
from kafka_maintenance.tasks.notifiers import NOTIFIERS
from kafka_maintenance.tasks.settings import SETTINGS


async def tell_of_late_run(context: Mapping[str, Any]) -> None:
    """Tells every notifier that a run missed its deadline.

    Args:
        context: `dag_run` and `deadline` as Airflow gives them.
    """
    found = late_context(context)
    for notifier in NOTIFIERS:
        await asyncio.to_thread(notifier, dict(found))


def late_context(context: Mapping[str, Any]) -> dict[str, Any]:
    """What notifiers are given, in the form of a task's context: run, params, and the alarm in words."""
    run = context["dag_run"]
    page = address_of(f"/dags/{quote(run['dag_id'])}/runs/{quote(run['dag_run_id'])}")
    late = f"late: the run is {run['state']}, and was to be over by {context['deadline']['deadline_time']}"
    return {
        "dag_run": SimpleNamespace(**run, run_id=run["dag_run_id"]),
        "ti": SimpleNamespace(task_id="deadline", log_url=page),
        "params": dict(run.get("conf") or {}),
        "alarm": late,
    }


def snapshots_late(after_s: int) -> Any:
    """The alert on a run of `snapshot_metadata` that is not over so many seconds after it was queued; None for 0.

    One that waits for a cluster, a worker or a pool is not red, and its snapshots are missing all the same. Not by default: in Airflow 3.3
    `dag.test()` and `airflow dags test` of a DAG with a deadline fail at the end of a run that succeeded.
    """
    if not after_s:
        return None
    return DeadlineAlert(
        name="snapshots late",
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(seconds=after_s),
        callback=AsyncCallback(tell_of_late_run),
    )


SNAPSHOTS_LATE = snapshots_late(SETTINGS.snapshot_late_s)
