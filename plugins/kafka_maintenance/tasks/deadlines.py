"""Deadline alerts of Airflow: who is told when a run is not over, or its plan not answered, in time, though nothing has failed.

The triggerer calls back, with the run as Airflow's API shows it; no task instance stands behind the alert.
"""

import asyncio
from collections.abc import Mapping
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

from airflow.sdk import (  # type: ignore[attr-defined]  # its stub leaves them out
    AsyncCallback,
    DeadlineAlert,
    DeadlineReference,
)
from asgiref.sync import sync_to_async

from kafka_maintenance import hooks
from kafka_maintenance.tasks.links import address_of
from kafka_maintenance.tasks.notifiers import ring
from kafka_maintenance.tasks.settings import SETTINGS, SettingsError


async def tell_of_late_run(context: Mapping[str, Any]) -> None:
    """Tells every notifier that a run missed its deadline.

    Args:
        context: `dag_run` and `deadline` as Airflow gives them.
    """
    late = (
        f"late: the run is {context['dag_run']['state']}, and was to be over by {context['deadline']['deadline_time']}"
    )
    await asyncio.to_thread(ring, _as_of_a_task(context, "deadline"), late)


async def tell_of_open_question(context: Mapping[str, Any]) -> None:
    """Tells every notifier that the plan of a run still waits for a person; nothing where it does not.

    Args:
        context: `dag_run` and `deadline` as Airflow gives them.
    """
    found = await sync_to_async(_open_question)(context)
    if found is not None:
        await asyncio.to_thread(ring, _as_of_a_task(context, "approve"), found)


def _open_question(context: Mapping[str, Any]) -> str | None:
    """What waits, and until when; None where nothing was asked, or the answers are there that the policy wants."""
    from kafka_maintenance.operations.gate.approvals import asked

    run = context["dag_run"]
    cluster = (run.get("conf") or {}).get("cluster") or hooks.cluster_of_dag(run["dag_id"])
    if cluster is None:
        return None
    found = asked(hooks.store(), cluster=cluster, run=f"{run['dag_id']}.{run['dag_run_id']}")
    if found is None or found.withdrawn or found.rule is not None or (found.answers and not found.approvals):
        return None
    kind, requester = str(found.question["kind"]), found.question["requester"]
    verdict = hooks.policy_for(cluster).verdict(kind, requester, found.approvals)
    if not verdict.missing:
        return None
    moment = datetime.fromisoformat(str(context["deadline"]["deadline_time"]))
    until = moment + timedelta(seconds=SETTINGS.approval_reminder_s)
    wanted = "; ".join(verdict.missing)
    return (
        f"expires soon: plan {str(found.question['digest'])[:12]} is not approved ({wanted}); "
        f"from about {until:%Y-%m-%d %H:%M} UTC on no answer counts as Reject"
    )


def _as_of_a_task(context: Mapping[str, Any], task_id: str) -> dict[str, Any]:
    """What notifiers are given, in the form of a task's context: run, params, and the page of the run."""
    run = context["dag_run"]
    page = address_of(f"/dags/{quote(run['dag_id'])}/runs/{quote(run['dag_run_id'])}")
    return {
        "dag_run": SimpleNamespace(**run, run_id=run["dag_run_id"]),
        "ti": SimpleNamespace(task_id=task_id, log_url=page),
        "params": dict(run.get("conf") or {}),
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


def approval_expires(before_s: int) -> Any:
    """The alert on a gated run whose plan waits so many seconds before no answer counts as Reject; None for 0, as above.

    It is reckoned from when the run was queued: the gate asks when the plan is made, and so expires a little later than it says.

    Raises:
        SettingsError: that is before the run is queued.
    """
    if not before_s:
        return None
    if before_s >= SETTINGS.approval_timeout_s:
        raise SettingsError(
            f"KAFKA_MAINTENANCE_APPROVAL_REMINDER_S not used: expected less than the {SETTINGS.approval_timeout_s} s of "
            f"KAFKA_MAINTENANCE_APPROVAL_TIMEOUT_S, found {before_s}; correct it"
        )
    return DeadlineAlert(
        name="approval expires",
        reference=DeadlineReference.DAGRUN_QUEUED_AT,
        interval=timedelta(seconds=SETTINGS.approval_timeout_s - before_s),
        callback=AsyncCallback(tell_of_open_question),
    )


SNAPSHOTS_LATE = snapshots_late(SETTINGS.snapshot_late_s)
APPROVAL_EXPIRES = approval_expires(SETTINGS.approval_reminder_s)
