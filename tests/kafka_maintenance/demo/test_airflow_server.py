"""Airflow on loopback, and the client that acts on it as a user does."""

import json
import os
import signal
import subprocess
import sys
import textwrap
from datetime import UTC, datetime, timedelta

import httpx
import psutil
import pytest

from kafka_maintenance.demo import AirflowApi, AirflowServer, airflow_api
from kafka_maintenance.demo import stack as stacks
from kafka_maintenance.servers import Workspace
from kafka_maintenance.servers.errors import AirflowRequestError, AlreadyAnsweredError, NotHealthyError
from kafka_maintenance.servers.ports import listens
from kafka_maintenance.servers.process import start_child, wait_until
from kafka_maintenance.servers.workspace import WORKSPACE_VARIABLE
from tests.processes import command_of
from tests.source_files import ROOT


class FakeAirflow:
    """Answers by path; remembers what it was asked."""

    def __init__(self, answers):
        self.answers = {"/auth/token": (201, {"access_token": "t"}), **answers}
        self.asked = []

    def __call__(self, request):
        body = json.loads(request.content) if request.content else None
        self.asked.append((request.method, request.url.path, body))
        status, content = self.answers.get(request.url.path, (404, {"detail": "not found"}))
        return httpx.Response(status, json=content)


def api_of(answers):
    fake = FakeAirflow(answers)
    return AirflowApi("http://airflow", "operator", "geheim", transport=httpx.MockTransport(fake)), fake


def gate_detail(*, state="awaiting_input", asked_at=None, try_number=1):
    instance = {
        "dag_id": "delete_topics",
        "dag_run_id": "r1",
        "task_id": "approve",
        "map_index": -1,
        "state": state,
        "start_date": (asked_at or datetime.now(UTC) - timedelta(minutes=1)).isoformat(),
        "try_number": try_number,
    }
    return {"task_instance": instance, "subject": "delete?", "body": "plan", "options": ["Approve", "Reject"]}


TITLED = "import setproctitle, time; setproctitle.setproctitle('airflow worker ' * 99); time.sleep(600)"


def test_a_process_of_airflow_keeps_its_environment_under_its_title(workspace):
    """By it alone `stack down` finds the process where the folder is gone."""
    server = AirflowServer(workspace, database_url="postgresql://", repository=ROOT)
    child = start_child(workspace, "worker", [sys.executable, "-c", TITLED], env=server.env)
    process = psutil.Process(child.pid)
    wait_until(lambda: command_of(process).startswith("airflow worker"), what="it has its title", timeout_s=30)
    assert process.environ()[WORKSPACE_VARIABLE] == str(workspace.folder)
    child.stop()


RUN = "/api/v2/dags/delete_topics/dagRuns/r1"


def test_a_question_that_is_asked_again_is_left_open_longer(monkeypatch):
    slept = []
    monkeypatch.setattr(airflow_api.time, "sleep", slept.append)
    now = datetime.now(UTC)
    for try_number in (1, 2, 3):
        detail = gate_detail(asked_at=now, try_number=try_number)
        answer = f"{RUN}/taskInstances/approve/-1/hitlDetails"
        api, _ = api_of({f"{RUN}/hitlDetails": (200, {"hitl_details": [detail]}), answer: (200, {})})
        api.answer_all("delete_topics", "r1", "Approve")
    assert [round(seconds) for seconds in slept] == [airflow_api.ANSWER_AFTER_S * number for number in (1, 2, 3)]


def test_a_refusal_names_request_user_and_answer():
    api, _ = api_of({"/api/v2/pools": (403, {"detail": "Forbidden"})})
    with pytest.raises(AirflowRequestError, match=r"GET http://airflow/api/v2/pools as operator: .*403.*Forbidden"):
        api.request("GET", "/pools")


def test_a_wrong_password_is_told():
    api, _ = api_of({"/auth/token": (401, {"detail": "Invalid"})})
    with pytest.raises(AirflowRequestError, match=r"signing in .* as operator.*401.*passwords\.json"):
        api.dag_ids()


def test_no_answer_is_told():
    def refuse(request):
        raise httpx.ConnectError("refused")

    api = AirflowApi("http://airflow", "operator", "x", transport=httpx.MockTransport(refuse))
    with pytest.raises(AirflowRequestError, match=r"no answer .*is Airflow still running"):
        api.dag_ids()


@pytest.mark.parametrize(
    ("existing", "method"),
    [pytest.param((200, {}), "PATCH", id="replaced"), pytest.param((404, {}), "POST", id="created")],
)
def test_a_connection_is_created_or_replaced(existing, method):
    api, fake = api_of({"/api/v2/connections/demo": existing, "/api/v2/connections": (201, {})})
    api.set_connection("demo", "generic", host="zk:2181", extra={"archived": True})
    wanted = {"connection_id": "demo", "conn_type": "generic", "host": "zk:2181", "extra": '{"archived": true}'}
    assert (fake.asked[-1][0], fake.asked[-1][2]) == (method, wanted)


def test_a_run_is_triggered_for_a_day():
    api, fake = api_of({"/api/v2/dags/nightly_analysis/dagRuns": (200, {"dag_run_id": "r1"})})
    assert api.trigger("nightly_analysis", partition_key="2026-11-21") == "r1"
    assert fake.asked[-1][2] == {"logical_date": None, "conf": {}, "partition_key": "2026-11-21"}


def test_only_gates_that_wait_are_listed():
    details = [gate_detail(), gate_detail(state="success")]
    api, _ = api_of({f"{RUN}/hitlDetails": (200, {"hitl_details": details})})
    (gate,) = api.gates("delete_topics", "r1")
    assert (gate.subject, gate.page) == ("delete?", "/dags/delete_topics/runs/r1/tasks/approve/required_actions")


def test_a_gate_is_answered_with_its_params():
    answer = f"{RUN}/taskInstances/approve/-1/hitlDetails"
    api, fake = api_of({f"{RUN}/hitlDetails": (200, {"hitl_details": [gate_detail()]}), answer: (200, {})})
    (gate,) = api.gates("delete_topics", "r1")
    api.answer(gate, "Approve", comment="yes")
    assert fake.asked[-1] == ("PATCH", answer, {"chosen_options": ["Approve"], "params_input": {"comment": "yes"}})


def test_a_question_that_somebody_else_answers_meanwhile_is_theirs():
    answer = f"{RUN}/taskInstances/approve/-1/hitlDetails"
    said = {"detail": "has already been updated and is not allowed to write again"}
    api, fake = api_of({f"{RUN}/hitlDetails": (200, {"hitl_details": [gate_detail()]}), answer: (409, said)})
    with pytest.raises(AlreadyAnsweredError, match="409"):
        api.answer(api.gates("delete_topics", "r1")[0], "Approve")
    api.answer_all("delete_topics", "r1", "Approve")
    assert [method for method, path, _ in fake.asked if path == answer] == ["PATCH", "PATCH"]


def test_a_run_that_ends_without_its_question_is_told_with_its_tasks():
    task = {"task_id": "plan", "map_index": -1, "state": "skipped", "try_number": 1}
    api, _ = api_of(
        {
            RUN: (200, {"state": "success"}),
            f"{RUN}/hitlDetails": (200, {"hitl_details": []}),
            f"{RUN}/taskInstances": (200, {"task_instances": [task]}),
        }
    )
    with pytest.raises(AirflowRequestError, match=r"ended as success without a question.*'plan': 'skipped'"):
        api.wait_gate("delete_topics", "r1", timeout_s=5)


def test_a_run_that_never_ends_is_told():
    api, _ = api_of({RUN: (200, {"state": "running"})})
    with pytest.raises(NotHealthyError, match="until run r1 of delete_topics has ended"):
        api.wait_run("delete_topics", "r1", timeout_s=0)


def test_an_import_error_ends_the_wait_for_dags():
    errors = [{"filename": "dags/x.py", "stack_trace": "SyntaxError"}]
    api, _ = api_of({"/api/v2/dags": (200, {"dags": []}), "/api/v2/importErrors": (200, {"import_errors": errors})})
    with pytest.raises(AirflowRequestError, match=r"waiting for the DAGs \['x'\].*SyntaxError"):
        api.wait_dags({"x"})


GATED_DAG = """
from datetime import timedelta

from airflow.providers.standard.operators.hitl import ApprovalOperator
from airflow.sdk import dag, task

@dag(schedule=None)
def gated():
    @task
    def apply(answer):
        return answer["responded_by_user"]["name"]
    apply(ApprovalOperator(task_id="approve", subject="Go on?", retries=3, retry_delay=timedelta(seconds=1)).output)

gated()
"""


@pytest.fixture
def gated_dags(tmp_path):
    folder = tmp_path / "dags"
    folder.mkdir()
    (folder / "gated.py").write_text(GATED_DAG)
    return folder


def test_a_proxy_does_not_stand_before_airflow(tmp_path, monkeypatch):
    monkeypatch.setenv("https_proxy", "http://proxy.example:3128")
    monkeypatch.setenv("no_proxy", "intranet.example")
    server = AirflowServer(Workspace(tmp_path), database_url="postgresql://", repository=ROOT)
    assert server.env["no_proxy"] == "intranet.example,127.0.0.1,localhost"


@pytest.fixture
def parent(tmp_path, gated_dags):
    """A process that has started an Airflow with its database in the folder `stack`, and prints the port; what is left of them in the end is stopped."""
    script = f"""
        from pathlib import Path
        from kafka_maintenance.demo import AirflowServer
        from kafka_maintenance.servers import PostgresServer, Workspace
        workspace = Workspace(Path({str(tmp_path / "stack")!r}))
        postgres = PostgresServer(workspace).start()
        server = AirflowServer(
            workspace, database_url=postgres.url, repository=Path({str(ROOT)!r}), dags_folder=Path({str(gated_dags)!r})
        ).start()
        print(server.port, flush=True)
        import time; time.sleep(600)
    """
    started = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True)
    yield started
    started.kill()
    started.wait()
    stacks.down(tmp_path / "stack")


@pytest.mark.e2e
def test_airflow_runs_a_gated_dag_with_real_users_and_down_stops_it_after_kill_9_of_its_parent(parent, tmp_path):
    folder, port = tmp_path / "stack", int(parent.stdout.readline())
    passwords = json.loads((folder / "airflow" / "passwords.json").read_text())
    operator, viewer, approver = (
        AirflowApi(f"http://127.0.0.1:{port}", user, passwords[user]) for user in ("operator", "viewer", "approver")
    )
    operator.wait_dags({"gated"})
    operator.pause("gated", paused=False)
    run_id = operator.trigger("gated")
    gate = operator.wait_gate("gated", run_id, timeout_s=120)
    with pytest.raises(AirflowRequestError, match="403"):
        viewer.answer(gate, "Approve")
    assert approver.wait_run_answering("gated", run_id, "Approve", timeout_s=120) == "success"
    assert operator.xcom("gated", run_id, "apply") == "approver"
    assert "approve" in operator.task_states("gated", run_id)

    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    assert listens(port)
    assert len(stacks.down(folder)) == 5
    left = [process for process in psutil.process_iter() if str(folder) in command_of(process)]
    assert (listens(port), left) == (False, [])
