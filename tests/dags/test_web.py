"""The pages: only for signed-in users, what they show of a run, and that nothing in them can become markup."""

import json
import re
import threading

import pytest

from kafka_maintenance.web import pages
from tests.dags.test_gates import _answer, _run, answering
from tests.dags.world import CLUSTER

PREFIX = "/kafka-maintenance"
HOSTILE = """</pre><script>alert("x")</script><img src=x onerror='alert(1)'>{{ 7 * 7 }}"""
ROUTES = (
    "/report?dag_id=nightly_analysis&run_id=manual__x",
    "/plan?dag_id=elect_preferred_leaders&run_id=manual__x",
    "/clusters",
)


@pytest.fixture(scope="session")
def anonymous(clients):
    from fastapi.testclient import TestClient

    return TestClient(next(iter(clients.values())).app)


@pytest.fixture
def rejected(bag, clients, plan):
    """A run whose plan was rejected."""
    with answering(clients, "elect_preferred_leaders", _answer(clients["olivia"], "Reject")):
        run, _ = _run(bag, plan)
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

    def test_is_there_for_a_viewer_and_lets_no_script_run(self, clients, world, route):
        answer = clients["victor"].get(PREFIX + route)
        assert answer.status_code == 200
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["cache-control"] == "no-store"
        assert "<script" not in answer.text


def test_no_route_is_open(anonymous):
    from kafka_maintenance.web.app import app

    paths = [route.path for route in app.routes]
    assert paths
    for path in paths:
        assert anonymous.get(PREFIX + path, params={"dag_id": "d", "run_id": "r"}).status_code == 401


def test_a_page_of_a_run_needs_the_names_of_dag_and_run(clients):
    assert clients["victor"].get(f"{PREFIX}/plan").status_code == 422


def test_the_plan_of_a_run_is_shown_with_its_digest_and_the_way_to_its_gate(clients, plan, rejected):
    text = _plan_page(clients["victor"], rejected).text
    assert plan.digest in text
    assert "CreatePreferredReplicaElection" in text
    assert "orders-0" in text
    assert re.search(r"<code>/dags/elect_preferred_leaders/runs/[^<]+/tasks/approve/required_actions</code>", text)
    assert 'data-testid="problem"' not in text


def test_the_receipt_is_shown_once_it_is_applied(bag, clients, plan):
    with answering(clients, "elect_preferred_leaders", _answer(clients["olivia"], "Approve")):
        run, _ = _run(bag, plan)
    text = _plan_page(clients["victor"], run).text
    assert 'data-testid="receipt"' in text
    assert "olivia" in text


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


def test_the_plans_of_a_fleet_are_read_at_once_and_one_that_is_gone_hides_no_other(monkeypatch, plan, tmp_path):
    from controller_core.adapters.object_store.open import FolderStore
    from kafka_maintenance.web import sources

    together = threading.Barrier(2, timeout=5)  # broken where one waits for the other

    class Slow(FolderStore):
        def list(self, prefix):
            together.wait()
            return super().list(prefix)

    named = {"kind": plan.kind, "cluster": CLUSTER, "digest": plan.digest}
    gone = named | {"digest": "0" * 64}
    monkeypatch.setattr(sources, "_store", lambda: Slow(tmp_path))
    monkeypatch.setattr(sources, "_returned", lambda *_: iter([[named, gone] * 2]))
    pages_of_fleet = sources.plans_of_run("nightly_analysis", "a date")
    assert [page.problem is None for page in pages_of_fleet] == [True, False] * 2
    assert "It is gone" in pages_of_fleet[1].problem


def test_a_run_without_plan_or_report_says_so(clients, world):
    client = clients["victor"]
    assert "has made no plan" in client.get(PREFIX + ROUTES[1]).text
    assert "has published no report" in client.get(PREFIX + ROUTES[0]).text


def test_the_overview_lists_clusters_and_what_is_wrong_with_them(clients, world, monkeypatch):
    connection = {
        "conn_type": "generic",
        "host": "zk1,zk2",
        "login": "kafka",
        "password": "never shown",
        "extra": {"kafka_version": "3.9", "auth": "sasl"},
    }
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_CLUSTERS", json.dumps([CLUSTER, "ghost"]))
    monkeypatch.setenv(f"AIRFLOW_CONN_{CLUSTER.upper()}", json.dumps(connection))
    text = clients["victor"].get(f"{PREFIX}/clusters").text
    assert "zk1:2181,zk2:2181" in text
    assert "no snapshot yet" in text
    assert "ghost" in text
    assert "never shown" not in text


@pytest.fixture
def half_read(database):
    """A connection in the database whose extra is no JSON, as an older Airflow took it."""
    from airflow.models.connection import Connection
    from airflow.models.crypto import get_fernet
    from airflow.utils.session import create_session

    made = Connection(conn_id="half_read", conn_type="generic", host="zk1")
    made._extra, made.is_extra_encrypted = get_fernet().encrypt(b'{"tls": true,}').decode(), get_fernet().is_encrypted
    with create_session() as session:
        session.add(made)
    yield made.conn_id
    with create_session() as session:
        session.delete(session.get(Connection, made.id))


def test_a_connection_that_cannot_be_read_is_one_row_of_the_overview(clients, world, half_read, monkeypatch):
    monkeypatch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_CLUSTERS", json.dumps([half_read, "comma", CLUSTER]))
    monkeypatch.setenv("AIRFLOW_CONN_COMMA", '{"conn_type": "generic", "host": "zk1", "extra": "{,}"}')
    monkeypatch.setenv(f"AIRFLOW_CONN_{CLUSTER.upper()}", "generic://zk1:2181")
    answer = clients["victor"].get(f"{PREFIX}/clusters")
    assert answer.status_code == 200
    for name in (half_read, "comma"):
        assert (
            f"connection &#39;{name}&#39; not used: there is none of that id, or none that Airflow can read"
            in answer.text
        )
    assert "zk1:2181" in answer.text


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(pages.note_page("t", HOSTILE), id="a note"),
        pytest.param(pages.text_page("t", HOSTILE), id="a text"),
        pytest.param(
            pages.clusters_page(HOSTILE, [pages.ClusterRow(name=HOSTILE, zookeeper=HOSTILE, problem=HOSTILE)]),
            id="the overview",
        ),
        pytest.param(
            pages.plan_page(
                [
                    pages.PlanPage(
                        kind=HOSTILE,
                        cluster=HOSTILE,
                        digest=HOSTILE,
                        uri=HOSTILE,
                        sections=[(HOSTILE, [HOSTILE])],
                        steps=[[(HOSTILE, HOSTILE, HOSTILE)]],
                        receipts=[(HOSTILE, HOSTILE)],
                        problem=HOSTILE,
                        gate=HOSTILE,
                    )
                ]
            ),
            id="a plan",
        ),
    ],
)
def test_nothing_that_is_shown_becomes_markup(page):
    assert "<script" not in page
    assert "<img" not in page
    assert "onerror='" not in page
    assert "49" not in page
    assert page.count("</pre>") == page.count("<pre")


def test_a_long_plan_is_cut_and_says_so():
    rows = [("do", "CreateDeleteTopic", "{}")] * (pages.ROWS_SHOWN_MAX + 7)
    text = pages.plan_page([pages.PlanPage(kind="k", cluster="c", digest="d", uri="u", steps=[rows])])
    assert text.count("CreateDeleteTopic") == pages.ROWS_SHOWN_MAX
    assert "and 7 more" in text


def test_many_plans_are_folded_and_share_the_rows():
    rows = [("do", "CreateDeleteTopic", "{}")] * pages.ROWS_SHOWN_MAX
    one = pages.PlanPage(kind="k", cluster="c", digest="d", uri="u", steps=[rows], problem="It is gone")
    text = pages.plan_page([one] * 400)
    assert text.count("CreateDeleteTopic") == 400 * pages.ROWS_SHOWN_MIN
    assert text.count("<details>") == 400
    assert text.count('<span class="bad">!</span></summary>') == 400
    assert pages.plan_page([one]).count("<details open>") == 1


def test_the_steps_of_a_long_plan_are_cut():
    steps = [[("do", "CreateDeleteTopic", "{}")]] * (pages.ROWS_SHOWN_MAX + 7)
    assert "and 7 more steps" in pages.plan_page(
        [pages.PlanPage(kind="k", cluster="c", digest="d", uri="u", steps=steps)]
    )
