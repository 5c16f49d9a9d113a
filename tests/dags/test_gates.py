"""Gated runs with a person's answer through the API: approve, reject, no answer, a plan altered after the approval."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from controller_core.model.errors import NoAuthError
from kafka_maintenance.operations.errors import BadInputError
from tests.airflow_home import ROOT
from tests.dags.runs import (
    answered_by,
    answering,
    clear_task,
    end_again,
    gate_records,
    go_on,
    note_of,
    receipt_of,
    run_of,
    run_plan,
    states_of,
)
from tests.dags.world import CLUSTER
from tests.kafka_maintenance.snapshot_world import stored_day

CARRIED_OUT = ["started", "intended", "requested", "verified", "done"]


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
    with answering(clients, "elect_preferred_leaders", answered_by(clients["olivia"], "Approve")):
        _, states = run_plan(bag, plan)
    assert (states["apply_plan"], states["verify"]) == ("success", "success")
    assert [each["event"] for each in receipt_of(tmp_path, plan)] == CARRIED_OUT


def test_while_kafka_works_the_triggerer_waits_and_the_record_is_that_of_one_run(
    bag, clients, world, plan, tmp_path, monkeypatch
):
    from kafka_maintenance.tasks import apply, triggers

    monkeypatch.setattr(apply, "SETTINGS", replace(apply.SETTINGS, patience_s=0))
    monkeypatch.setitem(triggers.PlanTrigger.__init__.__kwdefaults__, "look_every_s", 0.1)
    looked, look = [], triggers.ExecutionTrigger._look

    def looking(trigger):
        looked.append(look(trigger))
        if len(looked) == 3:
            world.works.set()
        return looked[-1]

    monkeypatch.setattr(triggers.ExecutionTrigger, "_look", looking)
    world.works.clear()
    with answering(clients, "elect_preferred_leaders", answered_by(clients["olivia"], "Approve")):
        run, states = run_plan(bag, plan)
    assert (states["apply_plan"], states["verify"]) == ("success", "success")
    assert looked[:3] == [None, None, None]
    assert looked[-1] == "Kafka has finished the step"
    assert [event["event"] for event in receipt_of(tmp_path, plan)] == CARRIED_OUT
    assert len(world.requests) == 1
    (applied,) = [ti for ti in run.get_task_instances() if ti.task_id == "apply_plan"]
    assert applied.try_number == 1
    begun = receipt_of(tmp_path, plan)[0]["detail"]["start"]
    assert begun == f"elect_preferred_leaders.{run.run_id}:{run.start_date:%Y%m%dT%H%M%S%f}:{applied.max_tries}"


def test_the_brake_ends_a_run_that_is_deferred_and_says_who_pulled_it(bag, clients, world, plan, tmp_path, monkeypatch):
    from kafka_maintenance.tasks import apply, stop, triggers

    monkeypatch.setattr(apply, "SETTINGS", replace(apply.SETTINGS, patience_s=0))
    monkeypatch.setitem(triggers.PlanTrigger.__init__.__kwdefaults__, "look_every_s", 0.1)
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
    with answering(clients, "elect_preferred_leaders", answered_by(clients["olivia"], "Approve")):
        _, states = run_plan(bag, plan)
    world.works.set()
    assert (states["apply_plan"], looked) == ("failed", ["somebody asked for its end"])
    last = receipt_of(tmp_path, plan)[-1]
    assert last["event"] == "stopped"
    assert last["detail"]["reason"] == "ada in run stop_execution.manual asked for it: the disks are full"


@pytest.mark.parametrize(
    ("option", "breaks", "ended"),
    [
        ("Approve", False, "ended successfully: approved by olivia; apply_plan success, its receipt is on the page Plan of this run"),
        ("Approve", True, "failed at apply_plan: approved by olivia; apply_plan failed, its receipt, if it wrote one, is on the page Plan of this run"),
        ("Reject", False, "ended successfully: rejected by olivia; nothing was changed"),
    ],
    ids=["approved", "broken", "rejected"],
)  # fmt: skip
def test_the_note_of_a_run_that_ended_tells_how(bag, clients, world, plan, tmp_path, option, breaks, ended):
    from kafka_maintenance.tasks.run_notes import on_dag_run_running

    notes = []

    def act(gate):
        with run_of(gate) as run:
            on_dag_run_running(run)
            notes.append(run.note)
        if breaks:
            (document,) = (tmp_path / "v1").rglob(f"*{plan.digest[:12]}.json")
            document.write_bytes(b"{}")
        return answered_by(clients["olivia"], option)(gate)

    with answering(clients, "elect_preferred_leaders", act) as answer:
        run, _ = run_plan(bag, plan)
    assert answer.result().status_code == 200
    end_again(bag.dags[run.dag_id], run)
    who = f"elect_preferred_leaders on {CLUSTER}, started by dag_test: "
    assert notes == [f"{who}waits for 1 approval by anybody who may answer in Airflow"]
    assert note_of(clients["ada"], run) == f"{who}{ended}"


def test_a_note_that_a_person_changed_stays_after_the_end(bag, clients, world, plan):
    from kafka_maintenance.tasks.run_notes import on_dag_run_running

    said = f"elect_preferred_leaders on {CLUSTER}, started by ada: waits for the night"

    def act(gate):
        with run_of(gate) as run:
            on_dag_run_running(run)
        ti = gate["task_instance"]
        clients["ada"].patch(f"/api/v2/dags/{ti['dag_id']}/dagRuns/{ti['dag_run_id']}", json={"note": said})
        return answered_by(clients["olivia"], "Reject")(gate)

    with answering(clients, "elect_preferred_leaders", act):
        run, _ = run_plan(bag, plan)
    end_again(bag.dags[run.dag_id], run)
    assert note_of(clients["ada"], run) == said


def test_an_approved_plan_is_applied_and_verified_and_the_receipt_names_the_person(bag, clients, world, plan, tmp_path):
    with answering(clients, "elect_preferred_leaders", answered_by(clients["olivia"], "Approve")) as answer:
        run, states = run_plan(bag, plan)
    assert answer.result().status_code == 200
    assert states == dict.fromkeys(("snapshot_to_plan", "plan_elections", "approve", "apply_plan", "verify"), "success")
    assert str(run.state) == "success"
    assert len(world.requests) == 1
    assert world.leader(0) == 1
    events = receipt_of(tmp_path, plan)
    assert {event["approver"] for event in events} == {"olivia"}
    assert events[0]["detail"]["comment"] == "planned window"
    assert events[-1]["event"] == "done"
    asked, decided = gate_records(tmp_path)
    assert (asked["run"], asked["digest"]) == (f"elect_preferred_leaders.{run.run_id}", plan.digest)
    assert (asked["cluster"], asked["kind"]) == (CLUSTER, "elect_preferred_leaders")
    assert decided["user"] == "olivia"
    assert decided["shown"] == asked["shown"]


def test_the_approver_sees_the_plan_and_its_digest(bag, clients, world, plan):
    with answering(
        clients, "elect_preferred_leaders", lambda gate: (gate, answered_by(clients["ada"], "Reject")(gate))
    ) as seen:
        run_plan(bag, plan)
    gate, _ = seen.result()
    assert gate["subject"] == f"elect_preferred_leaders on alpha: {plan.summary}"
    assert plan.digest in gate["body"]
    assert "orders-0" in gate["body"]
    assert gate["defaults"] == ["Reject"]


def test_a_rejected_plan_is_dropped(bag, clients, world, plan, tmp_path):
    before = world.server.snapshot()
    with answering(clients, "elect_preferred_leaders", answered_by(clients["olivia"], "Reject")):
        run, states = run_plan(bag, plan)
    assert (states["approve"], states["apply_plan"], states["verify"]) == ("success", "skipped", "skipped")
    assert str(run.state) == "success"
    assert world.server.snapshot() == before
    assert receipt_of(tmp_path, plan) == []
    assert gate_records(tmp_path)[1]["options"] == ["Reject"]


def test_a_viewer_may_not_answer(bag, clients, world, plan):
    def try_both(gate):
        refused = answered_by(clients["victor"], "Approve")(gate)
        return refused, answered_by(clients["olivia"], "Reject")(gate)

    with answering(clients, "elect_preferred_leaders", try_both) as answers:
        run_plan(bag, plan)
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
        run, states = run_plan(bag, plan)
    assert (states["approve"], states["apply_plan"]) == ("success", "skipped")
    assert str(run.state) == "success"
    assert world.requests == []
    assert gate_records(tmp_path)[1]["user"] is None


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
        return answered_by(clients["olivia"], "Approve")(gate)

    world_before = world.server.snapshot()
    with answering(clients, "elect_preferred_leaders", alter_and_approve):
        run, states = run_plan(bag, plan)
    assert path.read_text() != before
    assert (states["approve"], states["apply_plan"], states["verify"]) == ("success", "failed", "upstream_failed")
    assert str(run.state) == "failed"
    assert world.server.snapshot() == world_before
    assert receipt_of(tmp_path, plan) == []


def test_a_plan_that_the_cluster_has_outgrown_is_refused_with_a_record(bag, clients, world, plan, tmp_path):
    def move_on_and_approve(gate):
        world.lead(0, 3)
        return answered_by(clients["olivia"], "Approve")(gate)

    with answering(clients, "elect_preferred_leaders", move_on_and_approve):
        _, states = run_plan(bag, plan)
    assert states["apply_plan"] == "failed"
    assert world.requests == []
    assert [event["event"] for event in receipt_of(tmp_path, plan)][-1] == "refused"


def test_a_second_run_of_the_same_plan_writes_nothing(bag, clients, world, plan, tmp_path):
    for _ in range(2):
        with answering(clients, "elect_preferred_leaders", answered_by(clients["olivia"], "Approve")):
            _, states = run_plan(bag, plan)
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
        return clear_task(clients["ada"], "retain_snapshots", gate["task_instance"]["dag_run_id"], "plan_retention")

    with answering(clients, "retain_snapshots", clear, answered_by(clients["olivia"], "Approve")) as cleared:
        run = retain_snapshots.test(run_conf=REMOVAL, logical_date=None)
    assert cleared.result().status_code == 200
    assert [states_of(run)[name] for name in GATED] == ["success", "failed", "upstream_failed"]


def test_a_gate_that_was_cleared_after_a_rejection_asks_nobody(retain_snapshots, clients, days, capfd):
    dag = retain_snapshots
    with answering(clients, "retain_snapshots", answered_by(clients["olivia"], "Reject")):
        run = dag.test(run_conf=REMOVAL, logical_date=None)
    assert clear_task(clients["ada"], dag.dag_id, run.run_id, "plan_retention").status_code == 200
    assert [go_on(dag, run)[name] for name in GATED] == ["success", "failed", "upstream_failed"]
    assert "'olivia' rejected it" in "".join(capfd.readouterr())
    days()
    assert clear_task(clients["ada"], dag.dag_id, run.run_id, "plan_retention").status_code == 200
    assert [go_on(dag, run)[name] for name in GATED] == ["success", "failed", "upstream_failed"]
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
        _, states = run_plan(bag, plan)
    assert [answer.is_success for answer in forged.result()] == [True, True]
    assert (states["approve"], states["apply_plan"]) == ("success", "failed")
    assert world.requests == []
