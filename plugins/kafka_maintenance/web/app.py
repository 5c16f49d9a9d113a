"""The plugin's pages as a FastAPI app: a run's report, a run's plans, the overview of the clusters.

Every route needs a signed-in user; those of a run also the right to read its DAG. Answers carry no script and a
content security policy that would stop one.
"""

from typing import Annotated

from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity
from airflow.api_fastapi.core_api.security import get_user, requires_access_dag
from fastapi import Depends, FastAPI, Query
from fastapi.responses import HTMLResponse

from controller_core.model.errors import ControllerCoreError
from kafka_maintenance.web import pages, sources

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; img-src data:; frame-ancestors 'self'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
}
_DAG_OF_RUN = Depends(requires_access_dag("GET", DagAccessEntity.XCOM))
DagId = Annotated[str, Query(min_length=1, max_length=250)]
RunId = Annotated[str, Query(min_length=1, max_length=250)]

app = FastAPI(title="Kafka maintenance", dependencies=[Depends(get_user)], openapi_url=None)


@app.get("/report", dependencies=[_DAG_OF_RUN])
def report(dag_id: DagId, run_id: RunId) -> HTMLResponse:
    """The report that a run of `nightly_analysis` published."""
    try:
        return _html(sources.report_of_run(dag_id, run_id))
    except sources.NothingToShowError as nothing:
        return _html(pages.note_page("Report", str(nothing)))
    except ControllerCoreError as error:
        return _html(pages.note_page("Report", f"The report cannot be read: {error}"), status=502)


@app.get("/plan", dependencies=[_DAG_OF_RUN])
def plan(dag_id: DagId, run_id: RunId) -> HTMLResponse:
    """The plans that a run made, with their receipts."""
    try:
        return _html(pages.plan_page(sources.plans_of_run(dag_id, run_id)))
    except sources.NothingToShowError as nothing:
        return _html(pages.note_page("Plan", str(nothing)))
    except ControllerCoreError as error:
        return _html(pages.note_page("Plan", f"The plan cannot be read: {error}"), status=502)


@app.get("/clusters", dependencies=[Depends(requires_access_dag("GET", param_dag_id="snapshot_metadata"))])
def clusters() -> HTMLResponse:
    """All clusters with their newest snapshot; no cluster is contacted."""
    try:
        store, rows = sources.clusters()
    except ControllerCoreError as error:
        return _html(pages.note_page("Clusters", str(error)), status=502)
    return _html(pages.clusters_page(store, rows))


def _html(text: str, *, status: int = 200) -> HTMLResponse:
    return HTMLResponse(text, status_code=status, headers=HEADERS)
