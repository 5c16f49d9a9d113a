"""The pages: only for signed-in users, what they show of a run, and that nothing in them can become markup."""

import json
import re
from urllib.parse import quote

import pytest

from controller_core.adapters.object_store.open import open_store
from kafka_maintenance.web import figures, render
from kafka_maintenance.web.blocks import Cell, Choice, Column, Facts, Form, Lines, Note, Page, Section, Table
from tests.dags.browsing import PREFIX
from tests.dags.runs import answered_by, answering, run_plan
from tests.dags.world import CLUSTER
from tests.kafka_maintenance.web.records import put_record

HOSTILE = """</pre><script>alert("x")</script><img src=x onerror='alert(1)'>{{ 7 * 7 }}"""
ROUTES = (
    "/report?dag_id=nightly_analysis&run_id=manual__x",
    "/plan?dag_id=elect_preferred_leaders&run_id=manual__x",
    "/clusters",
    "/cluster?name=alpha",
    "/topic?cluster=alpha&name=orders",
    "/approvals",
    "/executions",
    "/execution?cluster=alpha&digest=d1",
    "/run-execution?dag_id=elect_preferred_leaders&run_id=manual__x",
    "/stored-plan?cluster=alpha&kind=reassign_partitions&digest=d1",
    "/history",
    "/kraft",
    "/date-report?date=2026-11-24",
)
NOT_THERE = {
    "/date-report?date=2026-11-24",
    "/cluster?name=alpha",
    "/topic?cluster=alpha&name=orders",
    "/execution?cluster=alpha&digest=d1",
}
"""Of a store without snapshots."""


@pytest.fixture(scope="session")
def anonymous(clients):
    from fastapi.testclient import TestClient

    return TestClient(next(iter(clients.values())).app)


def _links(client, dag_id, run_id, task_id):
    """What the buttons of a task lead to, as the UI asks for them; a path without the run's id."""
    found = client.get(f"/api/v2/dags/{dag_id}/dagRuns/{run_id}/taskInstances/{task_id}/links").json()["extra_links"]
    base = "http://localhost:8080"
    return {
        name: address
        and address.removeprefix(base).replace(quote(run_id, safe=""), "RUN").replace(quote(run_id), "RUN")
        for name, address in found.items()
    }


@pytest.fixture
def rejected(bag, clients, plan):
    """A run whose plan was rejected."""
    with answering(clients, "elect_preferred_leaders", answered_by(clients["olivia"], "Reject")):
        run, _ = run_plan(bag, plan)
    return run


def _plan_page(client, run):
    query = {"dag_id": run.dag_id, "run_id": run.run_id}
    return client.get(f"{PREFIX}/plan", params=query)


def _store_path(tmp_path, uri):
    return tmp_path / "v1" / uri.partition("/v1/")[2]


@pytest.mark.parametrize("route", ROUTES)
class TestEveryPage:
    def test_needs_a_signed_in_user(self, anonymous, world, route):
        assert anonymous.get(PREFIX + route).status_code == 401

    def test_refuses_a_forged_token(self, anonymous, world, route):
        answer = anonymous.get(PREFIX + route, headers={"Authorization": "Bearer abc.def.ghi"})
        assert answer.status_code == 403

    def test_is_there_for_a_viewer_and_lets_only_its_own_scripts_run(self, clients, world, route):
        answer = clients["victor"].get(PREFIX + route)
        assert answer.status_code == (404 if route in NOT_THERE else 200)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "form-action 'self'; base-uri 'none'; frame-ancestors 'self'; sandbox allow-scripts" in policy
        assert answer.headers["cache-control"] == "no-store"
        nonce = re.search(r"script-src 'nonce-([^']+)';", policy)[1]
        scripts = re.findall(r"<script[^>]*>", answer.text)
        assert scripts
        assert all(f'nonce="{nonce}"' in script for script in scripts if "application/json" not in script)

    def test_its_values_run_nothing_should_a_browser_take_them_for_a_page(self, clients, world, route):
        answer = clients["victor"].get(f"{PREFIX}{route}{'&' if '?' in route else '?'}json=1")
        policy = answer.headers["content-security-policy"]
        assert policy.startswith("default-src 'none'")
        assert policy.endswith("sandbox")


@pytest.mark.parametrize("name", ["a/b", "..", "a b", "a\x00b"])
@pytest.mark.parametrize(
    "route",
    [
        "/topic?name=orders&cluster=",
        "/execution?digest=d1&cluster=",
        "/executions?cluster=",
        "/history?cluster=",
        "/kraft?cluster=",
        "/stored-plan?kind=delete_topics&digest=d1&cluster=",
        "/stored-plan?cluster=alpha&digest=d1&kind=",
    ],
)
def test_a_name_that_nothing_can_have_is_told(clients, world, route, name):
    answer = clients["victor"].get(PREFIX + route + quote(name, safe=""))
    assert answer.status_code == 404
    assert "refused: expected letters, digits" in answer.text


@pytest.mark.parametrize(
    ("who", "status", "said"), [("victor", 404, "Nothing waits"), (None, 401, "Sign in to Airflow")]
)
def test_a_table_that_cannot_be_had_is_a_page_that_says_why(clients, anonymous, world, who, status, said):
    client = clients[who] if who else anonymous
    answer = client.get(f"{PREFIX}/approvals?csv=no_such_table", headers={"Accept": "text/html"})
    assert answer.status_code == status
    assert said in answer.text


@pytest.mark.parametrize(
    ("started", "kind", "dag"),
    [
        pytest.param({"kind": "delete_topics"}, "delete_topics", "delete_topics", id="of its kind"),
        pytest.param({"plan": "s3://b/plans/restore-1a2b3c4d5e6f.json"}, "restore", "restore_metadata", id="a restore"),
    ],
)
def test_who_may_read_the_dag_of_an_execution_sees_it(clients, world, tmp_path, monkeypatch, started, kind, dag):
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

    from kafka_maintenance.hooks import CLUSTER_DAG_MARK

    put_record(open_store(str(tmp_path)), CLUSTER, "1a" * 32, [("started", None, 0, started)])
    readable = set()

    def authorized(*_, details=None, **__):
        return (
            details.id.partition(CLUSTER_DAG_MARK)[0] in readable
        )  # other tests leave DAGs of the cluster alone behind

    monkeypatch.setattr(SimpleAuthManager, "is_authorized_dag", authorized)
    query = f"cluster={CLUSTER}&digest={'1a' * 32}"
    pages = f"execution?{query}", f"stored-plan?{query}&kind={kind}", f"stored-plan?{query}&kind=reassign_partitions"
    for rights, *statuses in (({"reassign_partitions"}, 403, 403, 403), ({dag}, 200, 200, 403)):
        readable = rights
        listed = clients["victor"].get(f"{PREFIX}/executions").text
        for said in ("None of the plans that this page reads is of a DAG that you may read.", "are left out."):
            assert (said in listed) == (dag not in rights)
        assert ("1a1a" in listed) == (dag in rights)
        assert [clients["victor"].get(f"{PREFIX}/{page}").status_code for page in pages] == statuses


def test_the_page_of_all_executions_asks_airflow_once_for_the_dags_of_all_clusters(
    clients, world, tmp_path, monkeypatch
):
    from airflow.models.dag import DagModel
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session

    from kafka_maintenance.web import airflow_records

    asked = []
    monkeypatch.setattr(airflow_records, "create_session", lambda: asked.append(1) or create_session())
    for cluster in ("one", "two", "two_b"):
        put_record(open_store(str(tmp_path)), cluster, "1a" * 32, [("started", None, 0, {"kind": "delete_topics"})])
    rows = clients["victor"].get(f"{PREFIX}/executions?json=1").json()["sections"][0]["blocks"][0]["rows"]
    assert len(rows) == 3
    assert asked == [1]
    with create_session() as session:
        session.merge(DagBundleModel(name="dags-folder"))
        session.flush()
        session.merge(DagModel(dag_id="delete_topics__two", bundle_name="dags-folder", fileloc="x"))
    try:
        found = airflow_records.dags_of_each({"one", "two", "two_b"})
        assert {cluster: of("delete_topics") for cluster, of in found.items()} == {
            "one": "delete_topics",
            "two": "delete_topics__two",
            "two_b": "delete_topics",
        }
        assert airflow_records.dags_of("two")("delete_topics") == "delete_topics__two"
    finally:
        with create_session() as session:
            session.delete(session.get(DagModel, "delete_topics__two"))


def test_no_route_is_open(anonymous):
    from kafka_maintenance.web.app import app

    paths = [route.path for route in app.routes]
    assert paths
    for path in paths:
        address = PREFIX + path.replace("{name}", "pages.css")
        assert anonymous.get(address, params={"dag_id": "d", "run_id": "r", "name": "n"}).status_code == 401


def test_a_page_of_a_run_needs_the_names_of_dag_and_run(clients):
    assert clients["victor"].get(f"{PREFIX}/plan").status_code == 422


def test_the_plan_of_a_run_is_shown_with_its_digest_and_the_way_to_its_gate(clients, plan, rejected):
    text = _plan_page(clients["victor"], rejected).text
    assert plan.digest in text
    assert "/admin/preferred_replica_election  if absent" in text
    assert "orders-0" in text
    assert re.search(
        r'href="/dags/elect_preferred_leaders/runs/[^"]+/tasks/approve/required_actions" data-leaves', text
    )
    assert "It will be refused" not in text


def test_the_receipt_is_shown_once_it_is_applied(bag, clients, plan):
    with answering(clients, "elect_preferred_leaders", answered_by(clients["olivia"], "Approve")):
        run, _ = run_plan(bag, plan)
    text = _plan_page(clients["victor"], run).text
    assert 'data-testid="receipt"' in text
    assert "olivia" in text


def test_the_log_of_a_gated_run_tells_its_story_in_ten_lines(bag, clients, plan, told_in_ten_lines):
    with answering(clients, "elect_preferred_leaders", answered_by(clients["olivia"], "Approve")):
        run_plan(bag, plan)
    told = told_in_ten_lines()
    for words in (
        f"elect_preferred_leaders on {CLUSTER}: ",
        f"plan {plan.digest} shown, waits for 1 approval by anybody who may answer in Airflow",
        "answered Approve by olivia: planned window",
        "approved by 'olivia'",
        "predictions of plan",
    ):
        assert words in told


def test_a_gate_that_waits_leads_to_its_plan_and_an_applied_plan_to_its_execution(bag, clients, plan):
    dag_id, seen = "elect_preferred_leaders", {}

    def look_and_approve(gate):
        seen.update(_links(clients["victor"], dag_id, gate["task_instance"]["dag_run_id"], "approve"))
        return answered_by(clients["olivia"], "Approve")(gate)

    with answering(clients, dag_id, look_and_approve):
        run, _ = run_plan(bag, plan)
    assert seen == {"Plan": f"/dags/{dag_id}/runs/RUN/plugin/plan"}
    links = _links(clients["victor"], dag_id, run.run_id, "apply_plan")
    assert links == seen | {"Execution": f"{PREFIX}/run-execution?dag_id={dag_id}&run_id=RUN"}
    assert _links(clients["victor"], dag_id, run.run_id, "verify") == links
    address = f"{PREFIX}/run-execution"
    shown = clients["victor"].get(address, params={"dag_id": dag_id, "run_id": run.run_id})
    assert shown.status_code == 200
    assert f"Plan {plan.digest}" in shown.text


def test_an_execution_that_was_not_begun_says_so(clients, rejected):
    query = {"dag_id": rejected.dag_id, "run_id": rejected.run_id}
    answer = clients["victor"].get(f"{PREFIX}/run-execution", params=query)
    assert answer.status_code == 200
    assert "The plan of this run was not begun" in answer.text


def test_a_plan_that_was_altered_in_the_store_says_that_it_will_be_refused(clients, plan, rejected, tmp_path):
    path = _store_path(tmp_path, plan.uri)
    path.chmod(0o644)
    path.write_text(path.read_text().replace("orders", "orderz"))
    text = _plan_page(clients["victor"], rejected).text
    assert "It will be refused" in text
    assert "was altered" in text


def test_a_plan_that_is_gone_says_so_in_its_place(clients, plan, rejected, tmp_path):
    _store_path(tmp_path, plan.uri).unlink()
    answer = _plan_page(clients["victor"], rejected)
    assert answer.status_code == 200
    assert "It is gone, retention removes plans with their snapshot" in answer.text
    assert plan.uri in answer.text


def test_a_run_of_several_plans_lists_them_and_each_has_its_page(clients, plan, rejected, monkeypatch):
    from kafka_maintenance.web import airflow_records

    named = {"kind": plan.kind, "cluster": CLUSTER, "digest": plan.digest}
    other = named | {"cluster": "beta", "digest": "0" * 64}
    monkeypatch.setattr(airflow_records, "_returned", lambda *_: iter([[named, other]]))
    address = f"{PREFIX}/plan?dag_id=nightly_analysis&run_id=x"
    rows = clients["victor"].get(f"{address}&json=1").json()["head"][0]["rows"]
    assert [row[0]["text"] for row in rows] == [CLUSTER, "beta"]
    assert "orders-0" in clients["victor"].get(f"{PREFIX}/{rows[0][0]['href']}").text
    assert "It is gone" in clients["victor"].get(f"{PREFIX}/{rows[1][0]['href']}").text
    assert "no plan with digest 1" in clients["victor"].get(f"{address}&digest=1").text


def test_what_waits_for_a_person_is_listed_until_it_is_answered(bag, clients, plan):
    seen = {}

    def look_and_reject(gate):
        seen["page"] = clients["victor"].get(f"{PREFIX}/approvals?json=1").json()
        return answered_by(clients["olivia"], "Reject")(gate)

    with answering(clients, "elect_preferred_leaders", look_and_reject):
        run, _ = run_plan(bag, plan)
    (row,) = seen["page"]["sections"][0]["blocks"][0]["rows"]
    cluster, dag, subject, _, expires, _, _, _, run_id = (cell["text"] for cell in row)
    assert (cluster, dag, run_id) == (CLUSTER, "elect_preferred_leaders", run.run_id)
    assert subject == "elect_preferred_leaders on alpha: 1 election in 1 step"
    assert expires.startswith("in ")
    assert row[7]["href"].endswith("/tasks/approve/required_actions")
    assert "Nothing waits for a person." in clients["victor"].get(f"{PREFIX}/approvals").text


def test_a_run_without_plan_or_report_says_so(clients, world):
    client = clients["victor"]
    assert "has made no plan" in client.get(PREFIX + ROUTES[1]).text
    assert "has published no report" in client.get(PREFIX + ROUTES[0]).text


def test_nothing_that_is_shown_becomes_markup():
    cell = Cell(HOSTILE, href=HOSTILE)
    table = Table(
        id="t", caption=HOSTILE, columns=(Column(HOSTILE),), rows=[(cell,), (cell,)], note=HOSTILE, searchable=True
    )
    figure = figures.bars("f", HOSTILE, HOSTILE, head=HOSTILE, names=[HOSTILE], series={HOSTILE: [1]})
    form = Form(
        action="x", button=HOSTILE, fields=[Choice(name="n", label=HOSTILE, value=HOSTILE)], hidden={"h": HOSTILE}
    )
    blocks = [Facts(((HOSTILE, cell),)), Note(HOSTILE), Lines(HOSTILE, [HOSTILE]), form, table, figure]
    page = Page(
        title=HOSTILE,
        subtitle=HOSTILE,
        trail=((HOSTILE, HOSTILE),),
        head=blocks,
        sections=[Section(title=HOSTILE, anchor="a", blocks=blocks)],
    )
    text = render.page_html(page, nonce="n")
    assert 'alert("x")' not in text
    assert text.count("<script") == 3  # the figures' values, Plotly and the page's own
    assert "<img" not in text
    assert "49" not in text
    assert json.loads(re.search(r'id="figures">(.*?)</script>', text)[1])["f"]["title"] == HOSTILE


def test_a_download_has_all_rows_and_no_formula():
    rows = [(Cell("=1+1"), Cell("1,000", value=1000)), (Cell("-"), Cell("-"))]
    table = Table(id="t", caption="c", columns=(Column("a"), Column("b", numeric=True)), rows=rows, rows_shown_max=1)
    assert render.table_csv(table).splitlines() == ["a,b", "'=1+1,1000", ","]
    assert table.hidden == 1
