"""Gated runs with a person's answer through the API: approve, reject, no answer, a plan altered after the approval."""

import json
import threading
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from controller_core.model.errors import NoAuthError
from kafka_maintenance.operations.errors import BadInputError
from tests.airflow_home import ROOT
from tests.dags.world import CLUSTER
from tests.kafka_maintenance.snapshot_world import stored_day

ANSWER_TIMEOUT_S = 60
CARRIED_OUT = ["started", "intended", "requested", "verified", "done"]

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
def answering(clients, dag_id, act, *if_asked_again):
    """Calls `act(gate)` in a thread as soon as the gate of `dag_id` is open; yields its future.

    Each time that the gate opens once more, the next of `if_asked_again` is called. It waits until no task runs: `dag.test` writes a
    task's state once more when the task has ended, and an answer that came just before is lost.
    """
    from airflow.sdk.definitions import dag as sdk

    outcome = Future()
    over, running, run_task = threading.Event(), threading.Lock(), sdk._run_task

    def run_alone(**arguments):
        with running:
            return run_task(**arguments)

    def wait_and_act():
        later = iter(if_asked_again)
        while not over.wait(0.2):
            with running:
                gate = _open_gate(clients["ada"], dag_id)
                if gate and not outcome.done():
                    try:
                        outcome.set_result(act(gate))
                    except Exception as error:  # noqa: BLE001 - whoever asks for the result is to hear it
                        outcome.set_exception(error)
                elif gate:
                    next(later)(gate)

    thread = threading.Thread(target=wait_and_act, daemon=True)
    thread.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sdk, "_run_task", run_alone)
            yield outcome
    finally:
        over.set()
        thread.join(ANSWER_TIMEOUT_S)


@contextmanager
def _run_of(gate):
    """The run in Airflow's database, which is written at the end."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    ti = gate["task_instance"]
    with create_session() as session:
        yield session.scalars(
            select(DagRun).where(DagRun.dag_id == ti["dag_id"], DagRun.run_id == ti["dag_run_id"])
        ).one()


def _answer(client, option, comment="planned window"):
    return lambda gate: client.patch(
        _url(gate), json={"chosen_options": [option], "params_input": {"comment": comment}}
    )


def _run(bag, plan, dag_id="elect_preferred_leaders"):
    conf = {"cluster": CLUSTER, "plan": plan.digest, "election_count_max": 10}
    run = bag.dags[dag_id].test(run_conf=conf, logical_date=None)
    return run, {ti.task_id: str(ti.state) for ti in run.get_task_instances()}


def _states(run):
    return {ti.task_id: str(ti.state) for ti in run.get_task_instances() if ti.map_index < 0}


def _clear(client, dag_id, run_id, task_id):
    """Clears a task of a run and all that follow it, as the button of the UI does."""
    what = {"dag_run_id": run_id, "task_ids": [task_id], "include_downstream": True}
    how = {"dry_run": False, "only_failed": False, "reset_dag_runs": True}
    return client.post(f"/api/v2/dags/{dag_id}/clearTaskInstances", json=what | how)


def _end(dag, run):
    """Lets the run end once more, as the scheduler does: in one session from its tasks to its note."""
    from airflow.models.dagrun import DagRun
    from airflow.serialization.serialized_objects import DagSerialization
    from airflow.utils.session import create_session

    with create_session() as session:
        ended = session.get(DagRun, run.id)
        ended.dag = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
        ended.state = "running"
        assert ended.update_state(session=session) == ([], None)


def _go_on(dag, run):
    """Runs what was cleared of an ended run, as the scheduler would, up to its gate; its states."""
    from airflow.models.dagrun import DagRun
    from airflow.sdk.definitions.dag import _run_task
    from airflow.serialization.serialized_objects import DagSerialization
    from airflow.utils.session import create_session

    with create_session() as session:
        cleared = session.get(DagRun, run.id)
        cleared.dag = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
        cleared.state = "running"
        while ready := cleared.update_state(session=session)[0]:
            for ti in ready:
                ti.try_number += 1
            session.commit()
            for ti in ready:
                _run_task(ti=ti, task=dag.get_task(ti.task_id))
            session.expire_all()
        return _states(cleared)


def _receipt(tmp_path, plan):
    folder = tmp_path / "v1" / "receipts" / f"cluster={CLUSTER}" / plan.digest
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def _kept(tmp_path):
    """What the gates asked and were answered, in order."""
    folder = tmp_path / "v1" / "approvals" / f"cluster={CLUSTER}"
    return [json.loads(path.read_text()) for path in sorted(folder.rglob("*.json"))]


class Reader:
    """A session of a principal that may read and no more."""

    def __init__(self, session):
        self._session = session

    def __getattr__(self, name):
        if name in {"create", "set", "delete", "multi", "multi_all"}:
            raise NoAuthError(f"{name}: the session has no permission")
        return getattr(self._session, name)


def test_only_the_writing_task_logs_in_as_the_principal_that_writes(bag, clients, world, plan, tmp_path, monkeypatch):
    from kafka_maintenance import hooks
    from kafka_maintenance.connections.clusters import Cluster

    reading = Cluster(name=CLUSTER, address=Reader(world.zookeeper), write_connection="alpha-writer")
    monkeypatch.setattr(hooks, "cluster", lambda _: reading)
    monkeypatch.setattr(hooks, "cluster_to_write", lambda _: replace(reading, address=world.zookeeper))
    with answering(clients, "elect_preferred_leaders", _answer(clients["olivia"], "Approve")):
        _, states = _run(bag, plan)
    assert (states["apply_plan"], states["verify"]) == ("success", "success")
    assert [each["event"] for each in _receipt(tmp_path, plan)] == CARRIED_OUT


def test_while_kafka_works_the_triggerer_waits_and_the_record_is_that_of_one_run(
    bag, clients, world, plan, tmp_path, monkeypatch
):
    from kafka_maintenance.tasks import apply, triggers

    monkeypatch.setattr(apply, "SETTINGS", replace(apply.SETTINGS, patience_s=0))
    monkeypatch.setitem(triggers.ExecutionTrigger.__init__.__kwdefaults__, "look_every_s", 0.1)
    looked, look = [], triggers.ExecutionTrigger._look

    def looking(trigger):
        looked.append(look(trigger))
        if len(looked) == 3:
            world.works.set()
        return looked[-1]

    monkeypatch.setattr(triggers.ExecutionTrigger, "_look", looking)
    world.works.clear()
    with answering(clients, "elect_preferred_leaders", _answer(clients["olivia"], "Approve")):
        run, states = _run(bag, plan)
    assert (states["apply_plan"], states["verify"]) == ("success", "success")
    assert looked[:3] == [None, None, None]
    assert looked[-1] == "Kafka has finished the step"
    assert [event["event"] for event in _receipt(tmp_path, plan)] == CARRIED_OUT
    assert len(world.requests) == 1
    (applied,) = [ti for ti in run.get_task_instances() if ti.task_id == "apply_plan"]
    assert applied.try_number == 1


def test_the_brake_ends_a_run_that_is_deferred_and_says_who_pulled_it(bag, clients, world, plan, tmp_path, monkeypatch):
    from kafka_maintenance.tasks import apply, stop, triggers

    monkeypatch.setattr(apply, "SETTINGS", replace(apply.SETTINGS, patience_s=0))
    monkeypatch.setitem(triggers.ExecutionTrigger.__init__.__kwdefaults__, "look_every_s", 0.1)
    looked, look = [], triggers.ExecutionTrigger._look

    def looking(trigger):
        if not looked:
            conf = {"cluster": CLUSTER, "plan": plan.digest, "reason": "the disks are full"}
            stopping = bag.dags["stop_execution"].get_task("ask_to_stop").python_callable
            monkeypatch.setattr(stop, "context_of_run", lambda: {"dag_run": by_hand})
            stopping(*conf.values())
        looked.append(look(trigger))
        return looked[-1]

    by_hand = SimpleNamespace(dag_id="stop_execution", run_id="manual", run_type="manual", triggering_user_name="ada")
    monkeypatch.setattr(triggers.ExecutionTrigger, "_look", looking)
    world.works.clear()
    with answering(clients, "elect_preferred_leaders", _answer(clients["olivia"], "Approve")):
        _, states = _run(bag, plan)
    world.works.set()
    assert (states["apply_plan"], looked) == ("failed", ["somebody asked for its end"])
    last = _receipt(tmp_path, plan)[-1]
    assert last["event"] == "stopped"
    assert last["detail"]["reason"] == "ada in run stop_execution.manual asked for it: the disks are full"


def _note(client, run):
    return client.get(f"/api/v2/dags/{run.dag_id}/dagRuns/{run.run_id}").json()["note"]


@pytest.mark.parametrize(
    ("option", "breaks", "ended"),
    [
        ("Approve", False, "ended successfully: approved by olivia; apply_plan success, its receipt is on the page Plan of this run"),
        ("Approve", True, "failed at apply_plan: approved by olivia; apply_plan failed, its receipt is on the page Plan of this run"),
        ("Reject", False, "ended successfully: rejected by olivia; nothing was changed"),
    ],
    ids=["approved", "broken", "rejected"],
)  # fmt: skip
def test_the_note_of_a_run_that_ended_tells_how(bag, clients, world, plan, tmp_path, option, breaks, ended):
    from kafka_maintenance.tasks.run_notes import on_dag_run_running

    notes = []

    def act(gate):
        with _run_of(gate) as run:
            on_dag_run_running(run)
            notes.append(run.note)
        if breaks:
            (document,) = (tmp_path / "v1").rglob(f"*{plan.digest[:12]}.json")
            document.write_bytes(b"{}")
        return _answer(clients["olivia"], option)(gate)

    with answering(clients, "elect_preferred_leaders", act) as answer:
        run, _ = _run(bag, plan)
    assert answer.result().status_code == 200
    _end(bag.dags[run.dag_id], run)
    who = f"elect_preferred_leaders on {CLUSTER}, started by dag_test: "
    assert notes == [f"{who}waits for 1 approval by anybody who may answer in Airflow"]
    assert _note(clients["ada"], run) == f"{who}{ended}"


def test_a_note_that_a_person_changed_stays_after_the_end(bag, clients, world, plan):
    from kafka_maintenance.tasks.run_notes import on_dag_run_running

    said = f"elect_preferred_leaders on {CLUSTER}, started by ada: waits for the night"

    def act(gate):
        with _run_of(gate) as run:
            on_dag_run_running(run)
        ti = gate["task_instance"]
        clients["ada"].patch(f"/api/v2/dags/{ti['dag_id']}/dagRuns/{ti['dag_run_id']}", json={"note": said})
        return _answer(clients["olivia"], "Reject")(gate)

    with answering(clients, "elect_preferred_leaders", act):
        run, _ = _run(bag, plan)
    _end(bag.dags[run.dag_id], run)
    assert _note(clients["ada"], run) == said


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
    asked, decided = _kept(tmp_path)
    assert (asked["run"], asked["digest"]) == (f"elect_preferred_leaders.{run.run_id}", plan.digest)
    assert (asked["cluster"], asked["kind"]) == (CLUSTER, "elect_preferred_leaders")
    assert decided["user"] == "olivia"
    assert decided["shown"] == asked["shown"]


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
    assert _kept(tmp_path)[1]["options"] == ["Reject"]


def test_a_viewer_may_not_answer(bag, clients, world, plan):
    def try_both(gate):
        refused = _answer(clients["victor"], "Approve")(gate)
        return refused, _answer(clients["olivia"], "Reject")(gate)

    with answering(clients, "elect_preferred_leaders", try_both) as answers:
        _run(bag, plan)
    refused, answered = answers.result()
    assert (refused.status_code, answered.status_code) == (403, 200)
    assert world.requests == []


def test_no_answer_in_time_counts_as_reject(bag, clients, world, plan, tmp_path, monkeypatch):
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
    assert _kept(tmp_path)[1]["user"] is None


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
    conf = {"cluster": CLUSTER, "plan": plan.digest}
    run = bag.dags["delete_topics"].test(run_conf=conf, logical_date=None)
    states = {ti.task_id: str(ti.state) for ti in run.get_task_instances()}
    assert (states["plan_deletions"], states["approve"], states["apply_plan"]) == (
        "failed",
        "upstream_failed",
        "upstream_failed",
    )


@pytest.mark.parametrize(
    ("dag_id", "task_id", "arguments", "beside"),
    [
        ("reassign_partitions", "plan_reassignment", (100, {"drain": [3]}, None), "goals"),
        ("reassign_partitions", "plan_reassignment", (100, {}, "broker:9092"), "bootstrap_servers"),
        ("reassign_partitions", "plan_reassignment", (100, {}, None, None, "b" * 64), "rollback_of"),
        ("reassign_partitions", "plan_reassignment", (100, {}, None, None, None, True), "cancel_running"),
        ("delete_topics", "plan_deletions", (["orders"],), "topics"),
    ],
)
def test_what_is_asked_beside_a_stored_plan_is_refused(bag, dag_id, task_id, arguments, beside):
    planning = bag.dags[dag_id].get_task(task_id).python_callable
    with pytest.raises(BadInputError, match=f"stored plan is applied as it is, and {beside}"):
        planning(CLUSTER, None, "a" * 64, *arguments)


def test_nothing_is_asked_beside_a_cancel_of_all_that_is_under_way(bag):
    planning = bag.dags["reassign_partitions"].get_task("plan_reassignment").python_callable
    with pytest.raises(BadInputError, match="cancel_running takes back all that Kafka moves"):
        planning(CLUSTER, None, None, 100, {"drain": [3]}, None, None, None, True)


@pytest.fixture
def days(world, tmp_path):
    """Three snapshots of `alpha`, and one more each time it is called: removals are planned anew."""
    from controller_core.adapters.object_store.open import FolderStore

    ages = iter(range(9, 4, -1))

    def another():
        stored_day(FolderStore(tmp_path), datetime.now(UTC), next(ages))

    for _ in range(3):
        another()
    return another


@pytest.fixture
def retain_snapshots(database):
    """The DAG, for runs that act: `dag.test()` keeps a run's params as the defaults of the next one."""
    from airflow.dag_processing.dagbag import DagBag

    return DagBag(dag_folder=str(ROOT / "dags" / "retain_snapshots.py")).dags["retain_snapshots"]


REMOVAL = {"cluster": CLUSTER, "act": True} | dict.fromkeys(("keep_last", "keep_daily"), 1)
GATED = ("plan_retention", "approve", "remove_snapshots")


def test_a_gate_that_was_cleared_while_it_was_open_does_not_ask_about_another_plan(retain_snapshots, clients, days):
    """Airflow keeps the text that a gate showed first: whoever said yes would say it to the earlier plan."""

    def clear(gate):
        days()
        return _clear(clients["ada"], "retain_snapshots", gate["task_instance"]["dag_run_id"], "plan_retention")

    with answering(clients, "retain_snapshots", clear, _answer(clients["olivia"], "Approve")) as cleared:
        run = retain_snapshots.test(run_conf=REMOVAL, logical_date=None)
    assert cleared.result().status_code == 200
    assert [_states(run)[name] for name in GATED] == ["success", "failed", "upstream_failed"]


def test_a_gate_that_was_cleared_after_a_rejection_asks_nobody(retain_snapshots, clients, days, capfd):
    dag = retain_snapshots
    with answering(clients, "retain_snapshots", _answer(clients["olivia"], "Reject")):
        run = dag.test(run_conf=REMOVAL, logical_date=None)
    assert _clear(clients["ada"], dag.dag_id, run.run_id, "plan_retention").status_code == 200
    assert [_go_on(dag, run)[name] for name in GATED] == ["success", "failed", "upstream_failed"]
    assert "'olivia' rejected it" in "".join(capfd.readouterr())
    days()
    assert _clear(clients["ada"], dag.dag_id, run.run_id, "plan_retention").status_code == 200
    assert [_go_on(dag, run)[name] for name in GATED] == ["success", "failed", "upstream_failed"]
    assert 'start a new run of retain_snapshots with {"cluster": "alpha"' in "".join(capfd.readouterr())


def test_an_approval_that_was_written_into_airflow_by_hand_is_none(bag, clients, world, plan):
    """A role that may edit XComs and task instances could else approve in another person's name."""
    dag = bag.dags["elect_preferred_leaders"]

    def forge(gate):
        run_id = gate["task_instance"]["dag_run_id"]
        yes = {"chosen_options": ["Approve"], "responded_by_user": {"id": "ada", "name": "ada"}, "digest": plan.digest}
        task = f"/api/v2/dags/{dag.dag_id}/dagRuns/{run_id}/taskInstances/approve"
        forged = clients["olivia"].post(f"{task}/xcomEntries", json={"key": "return_value", "value": yes})
        return forged, clients["olivia"].patch(task, json={"new_state": "success"})

    with answering(clients, dag.dag_id, forge) as forged:
        _, states = _run(bag, plan)
    assert [answer.is_success for answer in forged.result()] == [True, True]
    assert (states["approve"], states["apply_plan"]) == ("success", "failed")
    assert world.requests == []
