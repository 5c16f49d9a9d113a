"""Gated runs with a person's answer through the API: approve, reject, no answer, a plan altered after the approval."""

import json
import threading
from concurrent.futures import Future
from contextlib import contextmanager
from datetime import timedelta

import pytest

from tests.dags.world import CLUSTER

ANSWER_TIMEOUT_S = 60

WHEN_OPENED = pytest.mark.parametrize(
    ("allowed", "act", "opened"),
    [
        pytest.param("false", False, [], id="not allowed"),
        pytest.param("true", True, [], id="a gated run opens no other"),
        pytest.param("true", False, ["alpha"], id="where there is something to do"),
    ],
)
"""The Variable, the run's `act`, and the clusters that gated runs are opened for."""


def _open_gate(client, dag_id):
    gates = client.get(f"/api/v2/dags/{dag_id}/dagRuns/~/hitlDetails", params={"response_received": False}).json()
    waiting = [gate for gate in gates["hitl_details"] if gate["task_instance"]["state"] == "awaiting_input"]
    return waiting[0] if waiting else None


def _url(gate):
    ti = gate["task_instance"]
    return f"/api/v2/dags/{ti['dag_id']}/dagRuns/{ti['dag_run_id']}/taskInstances/{ti['task_id']}/-1/hitlDetails"


@contextmanager
def answering(clients, dag_id, act):
    """Calls `act(gate)` in a thread as soon as the gate of `dag_id` is open; yields its future."""
    outcome = Future()
    over = threading.Event()

    def wait_and_act():
        while not over.wait(0.2):
            gate = _open_gate(clients["ada"], dag_id)
            if gate:
                outcome.set_result(act(gate))
                return

    thread = threading.Thread(target=wait_and_act, daemon=True)
    thread.start()
    try:
        yield outcome
    finally:
        over.set()
        thread.join(ANSWER_TIMEOUT_S)


def _answer(client, option, comment="planned window"):
    return lambda gate: client.patch(
        _url(gate), json={"chosen_options": [option], "params_input": {"comment": comment}}
    )


def _run(bag, plan, dag_id="elect_preferred_leaders"):
    conf = {"cluster": CLUSTER, "plan": plan.uri, "election_count_max": 10}
    run = bag.dags[dag_id].test(run_conf=conf, logical_date=None)
    return run, {ti.task_id: str(ti.state) for ti in run.get_task_instances()}


def _receipt(tmp_path, plan):
    folder = tmp_path / "v1" / "receipts" / f"cluster={CLUSTER}" / plan.digest
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def test_an_approved_plan_is_applied_and_verified_and_the_receipt_names_the_person(bag, clients, world, plan, tmp_path):
    with answering(clients, "elect_preferred_leaders", _answer(clients["olivia"], "Approve")) as answer:
        run, states = _run(bag, plan)
    assert answer.result().status_code == 200
    assert states == dict.fromkeys(("snapshot_to_plan", "plan_elections", "approve", "apply_plan", "verify"), "success")
    assert str(run.state) == "success"
    assert len(world.requests) == 1
    assert world.leader(0) == 1
    events = _receipt(tmp_path, plan)
    assert {event["approver"] for event in events} == {"olivia"}
    assert events[0]["detail"]["comment"] == "planned window"
    assert events[-1]["event"] == "done"


def test_the_approver_sees_the_plan_and_its_digest(bag, clients, world, plan):
    with answering(
        clients, "elect_preferred_leaders", lambda gate: (gate, _answer(clients["ada"], "Reject")(gate))
    ) as seen:
        _run(bag, plan)
    gate, _ = seen.result()
    assert gate["subject"] == f"elect_preferred_leaders on alpha: {plan.summary}"
    assert plan.digest in gate["body"]
    assert "orders-0" in gate["body"]
    assert gate["defaults"] == ["Reject"]


def test_a_rejected_plan_is_dropped(bag, clients, world, plan, tmp_path):
    before = world.server.snapshot()
    with answering(clients, "elect_preferred_leaders", _answer(clients["olivia"], "Reject")):
        run, states = _run(bag, plan)
    assert (states["approve"], states["apply_plan"], states["verify"]) == ("success", "skipped", "skipped")
    assert str(run.state) == "success"
    assert world.server.snapshot() == before
    assert _receipt(tmp_path, plan) == []


def test_a_viewer_may_not_answer(bag, clients, world, plan):
    def try_both(gate):
        refused = _answer(clients["victor"], "Approve")(gate)
        return refused, _answer(clients["olivia"], "Reject")(gate)

    with answering(clients, "elect_preferred_leaders", try_both) as answers:
        _run(bag, plan)
    refused, answered = answers.result()
    assert (refused.status_code, answered.status_code) == (403, 200)
    assert world.requests == []


def test_no_answer_in_time_counts_as_reject(bag, clients, world, plan, monkeypatch):
    from airflow.jobs.job import Job
    from airflow.jobs.scheduler_job_runner import SchedulerJobRunner
    from airflow.utils.session import create_session

    dag = bag.dags["elect_preferred_leaders"]
    monkeypatch.setattr(dag.get_task("approve"), "response_timeout", timedelta(microseconds=1))

    def sweep(_gate):
        with create_session() as session:
            SchedulerJobRunner(job=Job()).check_awaiting_input_timeouts(session=session)

    with answering(clients, "elect_preferred_leaders", sweep):
        run, states = _run(bag, plan)
    assert (states["approve"], states["apply_plan"]) == ("success", "skipped")
    assert str(run.state) == "success"
    assert world.requests == []


@pytest.mark.parametrize(
    "alter",
    [
        pytest.param(lambda text: text.replace('"leader":1', '"leader":3', 1), id="its outcome was edited"),
        pytest.param(lambda text: text[:-10], id="it was cut"),
        pytest.param(lambda text: text[:0], id="it is empty"),
    ],
)
def test_a_plan_that_was_altered_after_the_approval_is_refused(bag, clients, world, plan, tmp_path, alter):
    path = tmp_path / plan.uri.removeprefix(f"{tmp_path}/").removeprefix(f"file://{tmp_path}/")
    before = path.read_text()

    def alter_and_approve(gate):
        path.chmod(0o644)
        path.write_text(alter(before))
        return _answer(clients["olivia"], "Approve")(gate)

    world_before = world.server.snapshot()
    with answering(clients, "elect_preferred_leaders", alter_and_approve):
        run, states = _run(bag, plan)
    assert path.read_text() != before
    assert (states["approve"], states["apply_plan"], states["verify"]) == ("success", "failed", "upstream_failed")
    assert str(run.state) == "failed"
    assert world.server.snapshot() == world_before
    assert _receipt(tmp_path, plan) == []


def test_a_plan_that_the_cluster_has_outgrown_is_refused_with_a_record(bag, clients, world, plan, tmp_path):
    def move_on_and_approve(gate):
        world.lead(0, 3)
        return _answer(clients["olivia"], "Approve")(gate)

    with answering(clients, "elect_preferred_leaders", move_on_and_approve):
        _, states = _run(bag, plan)
    assert states["apply_plan"] == "failed"
    assert world.requests == []
    assert [event["event"] for event in _receipt(tmp_path, plan)][-1] == "refused"


def test_a_second_run_of_the_same_plan_writes_nothing(bag, clients, world, plan, tmp_path):
    for _ in range(2):
        with answering(clients, "elect_preferred_leaders", _answer(clients["olivia"], "Approve")):
            _, states = _run(bag, plan)
        assert states["verify"] == "success"
    assert len(world.requests) == 1


def test_a_plan_of_another_kind_is_refused_before_anybody_is_asked(bag, clients, world, plan):
    conf = {"cluster": CLUSTER, "plan": plan.uri}
    run = bag.dags["delete_topics"].test(run_conf=conf, logical_date=None)
    states = {ti.task_id: str(ti.state) for ti in run.get_task_instances()}
    assert (states["plan_deletions"], states["approve"], states["apply_plan"]) == (
        "failed",
        "upstream_failed",
        "upstream_failed",
    )
