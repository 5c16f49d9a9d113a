"""Reads Airflow's own record of the running run from its REST API, as the user of the connection `kafka_maintenance_airflow`.

A task may ask Airflow for its own data alone; the answer to the gate and the audit log are others'.
"""

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import httpx

from kafka_maintenance import hooks
from kafka_maintenance.connections.airflow_api import AIRFLOW_CONNECTION, AirflowApiSettings
from kafka_maintenance.operations.errors import AirflowUnreachableError
from kafka_maintenance.operations.gate.airflow_record import ANSWERED, CHANGING, GATE_TASK, AirflowRecord, record_from

if TYPE_CHECKING:
    from kafka_maintenance.operations.gate.approvals import Asked

TIMEOUT_S: Final = 30.0
_PAGE: Final = 100
_FOREVER: Final = datetime.max.replace(tzinfo=UTC)


def reader_of(context: dict[str, Any]) -> "Callable[[Asked], AirflowRecord] | None":
    """What reads the record of the running run; None where no connection says how."""
    settings = hooks.airflow_api()
    if settings is None:
        return None
    ti = context["ti"]
    return lambda found: read_record(settings, ti.dag_id, ti.run_id, ti.task_id, found.answered_at or _FOREVER)


def read_record(settings: AirflowApiSettings, dag: str, run: str, task: str, since: datetime) -> AirflowRecord:
    """What Airflow says of a run.

    Args:
        settings: where its API is.
        dag: id of the DAG.
        run: id of the run.
        task: id of the applying task.
        since: what was done before is no change; the time of the last answer.

    Raises:
        AirflowUnreachableError: it did not answer, or does not let that user read.
    """
    try:
        with httpx.Client(base_url=settings.url, timeout=TIMEOUT_S) as client:
            client.headers["Authorization"] = f"Bearer {_token(client, settings)}"
            path = f"/api/v2/dags/{quote(dag, safe='')}/dagRuns/{quote(run, safe='')}/taskInstances"
            gate = client.get(f"{path}/{GATE_TASK}/-1/hitlDetails")
            detail = None if gate.status_code == httpx.codes.NOT_FOUND else gate.raise_for_status().json()
            tries = client.get(f"{path}/{task}/tries").raise_for_status().json()["task_instances"]
            events = [
                *_events(client, dag_id=dag, run_id=run, included_events=[ANSWERED, *CHANGING]),
                *_events(client, after=since.isoformat(), included_events=list(CHANGING)),
            ]
    except (httpx.HTTPError, ValueError, KeyError) as error:
        raise AirflowUnreachableError(
            f"Airflow's record of run {run!r} of {dag} not read from {settings.url} as {settings.user or 'the owner of the token'}: "
            f"{error}; correct the connection {AIRFLOW_CONNECTION}, or give its user the right to read runs and the audit log"
        ) from error
    once = {event["event_log_id"]: event for event in events}
    return record_from(detail, once.values(), tries, dag=dag, run=run, since=since)


def _token(client: httpx.Client, settings: AirflowApiSettings) -> str:
    if settings.user is None:
        return settings.secret
    answer = client.post("/auth/token", json={"username": settings.user, "password": settings.secret})
    return str(answer.raise_for_status().json()["access_token"])


def _events(client: httpx.Client, **query: Any) -> Iterator[dict[str, Any]]:
    offset = 0
    while True:
        page = client.get("/api/v2/eventLogs", params={**query, "limit": _PAGE, "offset": offset, "order_by": "id"})
        found = page.raise_for_status().json()["event_logs"]
        yield from found
        offset += len(found)
        if len(found) < _PAGE:
            return
