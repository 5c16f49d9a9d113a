"""The plugin's pages as a FastAPI app.

Every route needs a signed-in user; those of a run also the right to read its DAG, those of clusters the right to read the
DAG that made what they show. A content security policy lets only the page's own scripts run, each named by a nonce.
"""

import secrets
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Final, Literal

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.resource_details import ConnectionDetails, DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep, get_user, requires_access_dag
from fastapi import Depends, FastAPI, HTTPException, Query, Request
from fastapi.responses import FileResponse, HTMLResponse, JSONResponse, Response
from starlette.exceptions import HTTPException as AnyHttpError

from controller_core.adapters.snapshot.manifest import require_name
from controller_core.model.errors import ControllerCoreError, ObjectMissingError
from kafka_maintenance import hooks
from kafka_maintenance.operations.analysis.overviews import report_of_date
from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.gate.airflow_record import GATED
from kafka_maintenance.web import airflow_records, render
from kafka_maintenance.web.blocks import Page, note_page
from kafka_maintenance.web.in_time import LateError, in_time
from kafka_maintenance.web.views.approvals import approvals_page
from kafka_maintenance.web.views.cluster import cluster_page
from kafka_maintenance.web.views.clusters import clusters_page
from kafka_maintenance.web.views.execution import Act, execution_page
from kafka_maintenance.web.views.executions import executions_page, newest_recorded
from kafka_maintenance.web.views.history import Asked, history_page
from kafka_maintenance.web.views.kraft import kraft_page
from kafka_maintenance.web.views.plan import Named, plan_page, plans_page
from kafka_maintenance.web.views.record import read_record
from kafka_maintenance.web.views.topic import topic_page
from kafka_maintenance.web.views.trend import Measure

COMMON_HEADERS: Final = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; form-action 'none'; base-uri 'none'; frame-ancestors 'none'; sandbox",
}
"""The policy is that of JSON and CSV, should a browser take them for a page; a page has its own."""
_LEAVING: Final = "allow-popups allow-popups-to-escape-sandbox allow-top-navigation-by-user-activation"
_NO_SCRIPT: Final = (  # a report is an object of the store, whoever wrote it: nothing in it runs, and no form leads out of it
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'self'; "
    f"sandbox {_LEAVING}"
)
_REFUSED: Final = {
    401: "Sign in to Airflow first.",
    403: "Your role may not see this: ask who gives the rights of Airflow's DAGs.",
    404: "There is no such page.",
}
_RIGHTS: Final[dict[Act, tuple[Literal["POST", "PUT"], DagAccessEntity]]] = {
    Act.START: ("POST", DagAccessEntity.RUN),
    Act.CLEAR: ("PUT", DagAccessEntity.TASK_INSTANCE),
}
"""What the routes of Airflow's API ask for that the page's buttons lead to."""
_DAG_OF_RUN = Depends(requires_access_dag("GET", DagAccessEntity.XCOM))
_SNAPSHOTS = Depends(requires_access_dag("GET", param_dag_id="snapshot_metadata"))
_ANALYSES = Depends(requires_access_dag("GET", param_dag_id="nightly_analysis"))
DagId = Annotated[str, Query(min_length=1, max_length=250)]
RunId = Annotated[str, Query(min_length=1, max_length=250)]
Name = Annotated[str, Query(min_length=1, max_length=250)]
Text = Annotated[str, Query(max_length=250)]

app = FastAPI(title="Kafka maintenance", dependencies=[Depends(get_user)], openapi_url=None)


@app.exception_handler(AnyHttpError)
def refused(request: Request, error: AnyHttpError) -> Response:
    """A refusal as a page, for whoever reads pages: not signed in, or without the right to see."""
    if "text/html" not in request.headers.get("accept", ""):
        return JSONResponse({"detail": error.detail}, error.status_code, headers=error.headers)
    title, said = "Not shown", _REFUSED.get(error.status_code, "This cannot be shown.")
    note = note_page(title, f"{said} Airflow says: {error.detail}.", tone="warning")
    return _made(request, title, lambda: note, status=error.status_code)


@app.get("/assets/{name}")
def asset(name: str) -> Response:
    """A style sheet or a script of the pages; its address has a version, so that a browser keeps it."""
    if name not in render.ASSETS:
        raise HTTPException(404)
    path, media_type = render.ASSETS[name]
    headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "private, max-age=31536000, immutable"}
    return FileResponse(path, media_type=media_type, headers=headers)


@app.get("/report", dependencies=[_DAG_OF_RUN])
async def report(request: Request, dag_id: DagId, run_id: RunId) -> Response:
    """The report that a run of `nightly_analysis` published."""
    return await _report(request, lambda: airflow_records.report_of_run(dag_id, run_id))


@app.get("/date-report", dependencies=[_ANALYSES])
async def date_report(request: Request, date: Name, cluster: Text = "") -> Response:
    """The current report of a date, whoever analysed it; that which has the cluster, where one is named."""
    return await _report(request, lambda: report_of_date(hooks.store(), date, cluster))


async def _report(request: Request, read: Callable[[], str]) -> Response:
    def made() -> Response:
        try:
            text = read()
        except ObjectMissingError as error:
            gone = note_page("Report", str(error), tone="warning")
            return _made(request, "Report", lambda: gone, status=404)
        except airflow_records.NothingToShowError as nothing:
            note = note_page("Report", str(nothing))
            return _made(request, "Report", lambda: note)
        except ControllerCoreError as error:
            note = note_page("Report", f"The report cannot be read: {error}", tone="critical")
            return _made(request, "Report", lambda: note, status=502)
        return HTMLResponse(text, headers={**COMMON_HEADERS, "Content-Security-Policy": _NO_SCRIPT})

    return await _in_time(request, "Report", made)


@app.get("/plan", dependencies=[_DAG_OF_RUN])
async def plan(request: Request, dag_id: DagId, run_id: RunId, digest: Text = "") -> Response:
    """The plan that a run made, with its receipts; of several a list, and the one with `digest`."""

    def page() -> Page:
        named = airflow_records.plans_of_run(dag_id, run_id)
        chosen = [one for one in named if digest in {"", one.digest}]
        if len(chosen) > 1:
            return plans_page(dag_id, run_id, chosen)
        if not chosen:
            raise airflow_records.NothingToShowError(f"This run has made no plan with digest {digest}.")
        return plan_page(hooks.store(), chosen[0], gate=airflow_records.gate_of_run(dag_id, run_id))

    return await _answer(request, "Plan", page)


@app.get("/stored-plan")
async def stored_plan(request: Request, user: GetUserDep, cluster: Name, kind: Name, digest: Name) -> Response:
    """A plan by its digest, whoever made it, with its record: the rights of both kinds, should the address name another than its own."""

    def page() -> Page:
        store, dag_of = hooks.store(), airflow_records.dags_of(_named(cluster))
        _require_kind(user, dag_of, _named(kind, "kind"))
        with suppress(BadInputError):  # not begun
            _require_kind(user, dag_of, read_record(store, cluster, digest).kind)
        return plan_page(store, Named(kind=kind, cluster=cluster, digest=digest))

    return await _answer(request, "Plan", page)


@app.get("/executions")
async def executions(request: Request, user: GetUserDep, cluster: Text = "") -> Response:
    """Plans that were begun, of the DAGs that the user may read; of one cluster where it is named."""

    def page() -> Page:
        found, unread = newest_recorded(hooks.store(), _named(cluster))
        dags = airflow_records.dags_of_each({each.cluster for each in found})
        dag_ids = {(each.cluster, each.kind): _dags_of_kind(dags[each.cluster], each.kind) for each in found}
        readable = {dag_id for dag_id in {one for ids in dag_ids.values() for one in ids} if _reads_dag(user, dag_id)}
        seen = [each for each in found if dag_ids[each.cluster, each.kind] <= readable]
        withheld = len(found) - len(seen)
        return executions_page(seen, now=datetime.now(UTC), cluster=cluster, unread=unread, withheld=withheld)

    return await _answer(request, "Executions", page)


@app.get("/run-execution", dependencies=[_DAG_OF_RUN])
async def run_execution(request: Request, user: GetUserDep, dag_id: DagId, run_id: RunId) -> Response:
    """How far the plan of a run is: where the links of its tasks lead."""

    def page() -> Page:
        named = airflow_records.plans_of_run(dag_id, run_id)[-1]
        try:
            return _execution(user, named.cluster, named.digest)
        except BadInputError as unknown:
            raise airflow_records.NothingToShowError(f"The plan of this run was not begun: {unknown}") from unknown

    return await _answer(request, "Execution", page)


@app.get("/execution")
async def execution(request: Request, user: GetUserDep, cluster: Name, digest: Name) -> Response:
    """How far one plan is."""
    return await _answer(request, "Execution", lambda: _execution(user, cluster, digest))


def _execution(user: GetUserDep, cluster: str, digest: str) -> Page:
    record, dag_of = read_record(hooks.store(), _named(cluster), digest), airflow_records.dags_of(cluster)
    _require_kind(user, dag_of, record.kind)

    def withheld(dag_id: str, act: Act) -> str:
        method, entity = _RIGHTS[act]
        details = DagDetails(id=dag_id)
        if not get_auth_manager().is_authorized_dag(method=method, access_entity=entity, details=details, user=user):
            return f"Your role may not {act.value} of {dag_id}: ask who gives the rights of Airflow's DAGs."
        return airflow_records.not_running(dag_id)

    return execution_page(record, dag_of=dag_of, withheld=withheld, now=datetime.now(UTC))


@app.get("/clusters", dependencies=[_SNAPSHOTS])
async def clusters(request: Request, user: GetUserDep) -> Response:
    """All clusters, the worst first; no cluster is contacted."""

    def page() -> Page:
        waiting = airflow_records.waiting_by_cluster(airflow_records.open_gates(_readable(user)))
        listed = [
            each if _sees_connection(user, each.name) else each.withheld for each in airflow_records.listed_clusters()
        ]
        return clusters_page(hooks.store(), listed, waiting, now=datetime.now(UTC))

    return await _answer(request, "Clusters", page)


@app.get("/cluster", dependencies=[_ANALYSES])
async def cluster(request: Request, name: Name, date: Text = "", against: Text = "", topic: Text = "") -> Response:
    """One cluster at one date."""
    return await _answer(
        request,
        name,
        lambda: cluster_page(hooks.store(), name, date=date or None, against=against, topic=topic),
    )


@app.get("/topic", dependencies=[_ANALYSES])
async def topic(request: Request, cluster: Name, name: Name) -> Response:
    """One topic in the newest snapshot of a cluster."""
    return await _answer(request, name, lambda: topic_page(hooks.store(), _named(cluster), name))


@app.get("/approvals")
def approvals(request: Request, user: GetUserDep, cluster: Text = "") -> Response:
    """What waits for a person, of the DAGs that the user may read; of one cluster where it is named. No store is asked: it is there while one hangs."""

    def page() -> Page:
        gates = [each for each in airflow_records.open_gates(_readable(user)) if cluster in {"", each.cluster}]
        return approvals_page(gates, now=datetime.now(UTC), cluster=cluster)

    return _made(request, "Approvals", page)


@app.get("/history", dependencies=[_SNAPSHOTS])
async def history(
    request: Request,
    user: GetUserDep,
    cluster: Text = "",
    before: Text = "",
    after: Text = "",
    subject: Text = "",
    table: Text = "",
    column: Text = "",
    how: Text = "",
) -> Response:
    """What differs between two snapshots, since when a topic is as it is, the failure drill of the newer date, and a trend."""

    def page() -> Page:
        names = [one.name for one in airflow_records.listed_clusters()]
        asked = Asked(_named(cluster), before, after, subject, Measure(table, column, how))
        sees = _reads_dag(user, "nightly_analysis")
        return history_page(hooks.store(), names, asked, sees_analyses=sees)

    return await _answer(request, "History", page)


@app.get("/kraft", dependencies=[_SNAPSHOTS])
async def kraft(request: Request, cluster: Text = "") -> Response:
    """What stands against a cluster's migration to KRaft; no cluster is contacted."""

    def page() -> Page:
        names = [one.name for one in airflow_records.listed_clusters()]
        return kraft_page(hooks.store(), names, _named(cluster), datetime.now(UTC))

    return await _answer(request, "KRaft", page)


def _named(name: str, what: str = "cluster") -> str:
    """The name of a cluster from an address, or none; raises BadInputError where nothing can be called that."""
    try:
        return require_name(name, what) if name else ""
    except ValueError as error:
        raise BadInputError(str(error)) from error


def _sees_connection(user: GetUserDep, name: str) -> bool:
    details = ConnectionDetails(conn_id=name)
    return get_auth_manager().is_authorized_connection(method="GET", user=user, details=details)


def _require_kind(user: GetUserDep, dag_of: Callable[[str], str], kind: str) -> None:
    """Raises: HTTPException: the user may not read the DAGs of that kind of plan."""
    for dag_id in _dags_of_kind(dag_of, kind):
        if not _reads_dag(user, dag_id):
            raise HTTPException(403, f"Only who may read the DAG {dag_id} sees what it did.")


def _dags_of_kind(dag_of: Callable[[str], str], kind: str) -> set[str]:
    """The DAGs that who sees a plan of that kind has to read: where its kind is not known, those of all kinds."""
    return {dag_of(each) for each in ((GATED[kind],) if kind in GATED else GATED.values())}


def _reads_dag(user: GetUserDep, dag_id: str) -> bool:
    return get_auth_manager().is_authorized_dag(method="GET", user=user, details=DagDetails(id=dag_id))


def _readable(user: GetUserDep) -> set[str]:
    return get_auth_manager().get_authorized_dag_ids(user=user, method="GET")


async def _answer(request: Request, title: str, make: Callable[[], Page]) -> Response:
    return await _in_time(request, title, lambda: _made(request, title, make))


async def _in_time(request: Request, title: str, make: Callable[[], Response]) -> Response:
    """The answer; that of a page that is late says so: status 504."""
    try:
        return await in_time(make)
    except LateError as error:
        late = note_page(title, f"This page is {error}", tone="critical")
        return _made(request, title, lambda: late, status=504)


def _made(request: Request, title: str, make: Callable[[], Page], *, status: int = 200) -> Response:
    """The page as the request wants it: HTML, its values as JSON (`?json=1`), or a table of it as CSV (`?csv=ID`).

    What cannot be shown is a page that says why: status 200 where there is nothing yet, 404 for a name that is not there, 502 where
    the store or a document in it cannot be read.
    """
    try:
        page = make()
    except airflow_records.NothingToShowError as nothing:
        page = note_page(title, str(nothing))
    except (ObjectMissingError, BadInputError) as error:
        status, page = 404, note_page(title, str(error), tone="warning")
    except ControllerCoreError as error:
        status, page = 502, note_page(title, f"This page cannot be made: {error}", tone="critical")
    wanted = request.query_params
    if "json" in wanted:
        return Response(render.page_json(page), status, headers=COMMON_HEADERS, media_type="application/json")
    if "csv" in wanted:
        table = page.table(wanted["csv"])
        if table is not None:
            text = render.table_csv(table)
            return Response(text, status, headers=COMMON_HEADERS, media_type="text/csv; charset=utf-8")
        status = 404 if status == 200 else status  # noqa: PLR2004 - the page says in place of the table why there is none
    nonce, asks = secrets.token_urlsafe(16), "connect-src 'self'; " if page.acts else ""
    policy = (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'self' 'unsafe-inline'; img-src data: blob:; "
        f"{asks}form-action 'self'; base-uri 'none'; frame-ancestors 'self'; "
        f"sandbox allow-scripts allow-same-origin allow-forms allow-downloads {_LEAVING}"
    )
    headers = {**COMMON_HEADERS, "Content-Security-Policy": policy}
    return HTMLResponse(render.page_html(page, nonce=nonce), status_code=status, headers=headers)
