"""Approvals on Airflow with its own users and API: by a rule, expired, withdrawn, rejected, and with a broken record."""

import json

import pytest

from kafka_maintenance.cli.main import main
from kafka_maintenance.operations.gate.contents import Contents
from tests.dags.runs import (
    answered_by,
    answering,
    clear_task,
    end_again,
    gate_records,
    note_of,
    receipt_of,
    run_of,
    run_plan,
    states_of,
)
from tests.dags.world import CLUSTER

DAG = "elect_preferred_leaders"
NIGHT = {"name": "small-elections", "kind": DAG, "partitions_max": 1, "all_in_sync": True}


def test_a_rule_of_the_policy_approves_and_its_verdict_is_recorded_like_a_persons(bag, world, plan, policy, tmp_path):
    policy(approve_by_rule=[NIGHT])
    _, states = run_plan(bag, plan)
    assert states["verify"] == "success"
    assert len(world.requests) == 1
    (decided,) = gate_records(tmp_path, "decided-01")
    assert (decided["user"], decided["rule"]) == ("rule small-elections", NIGHT)
    (asked,) = gate_records(tmp_path, "asked")
    assert len(asked["policy"]) == 64
    assert main(["audit", "verify", "--store", str(tmp_path), "--cluster", CLUSTER]) == 0


def test_where_two_must_approve_one_person_counts_once_and_the_gate_asks_on(
    bag, clients, world, plan, policy, tmp_path, airflow_is_asked
):
    from kafka_maintenance.tasks.run_notes import on_dag_run_running

    policy(kinds={DAG: {"approvals": 2}}, airflow_must_agree=True)
    seen = []

    def olivia(gate):
        with run_of(gate) as run:
            on_dag_run_running(run)
        return answered_by(clients["olivia"], "Approve")(gate)

    def once_more(gate):
        seen.append(len(world.requests))
        return olivia(gate)

    def ada(gate):
        seen.append(len(world.requests))
        return answered_by(clients["ada"], "Approve")(gate)

    with answering(clients, DAG, olivia, once_more, ada):
        run, states = run_plan(bag, plan)
    assert seen == [0, 0], "nothing was written while an approval was missing"
    assert states["verify"] == "success"
    assert {event["approver"] for event in receipt_of(tmp_path, plan)} == {"olivia, ada"}
    assert [each["user"] for each in gate_records(tmp_path, "decided-0?")] == ["olivia", "olivia", "ada"]
    end_again(bag.dags[DAG], run)
    assert "ended successfully: approved by olivia, ada; apply_plan success" in note_of(clients["ada"], run)


def test_the_connection_of_a_cluster_says_who_approves_and_the_gate_asks_on(
    bag, clients, world, plan, policy, tmp_path, monkeypatch
):
    fields = {
        "conn_type": "kafka_zookeeper",
        "host": "zk1",
        "extra": {"approvers": "ada", "caps": {"partitions_max": 1}},
    }
    monkeypatch.setenv(f"AIRFLOW_CONN_{CLUSTER.upper()}", json.dumps(fields))
    seen = []

    def ada(gate):
        seen.append(len(world.requests))
        return answered_by(clients["ada"], "Approve")(gate)

    with answering(clients, DAG, answered_by(clients["olivia"], "Approve"), ada):
        _, states = run_plan(bag, plan)
    assert seen == [0], "nothing was written on the word of somebody else"
    assert states["verify"] == "success"
    (asked,) = gate_records(tmp_path, "asked")
    assert len(asked["policy"]) == 2 * 64 + 1, "the record names the policy and the limits"


def test_a_plan_beyond_the_caps_of_the_connection_is_not_shown(bag, world, plan, policy, monkeypatch, capfd):
    fields = {"conn_type": "kafka_zookeeper", "host": "zk1", "extra": {"approvers": "ada", "caps": {"topics_max": 1}}}
    monkeypatch.setenv(f"AIRFLOW_CONN_{CLUSTER.upper()}", json.dumps(fields))
    monkeypatch.setattr("kafka_maintenance.tasks.approval.contents_of_stored", lambda *_: Contents(topics=2))
    _, states = run_plan(bag, plan)
    assert states["approve"] == "failed"
    assert world.requests == []
    assert "expected at most 1 topics in one approval, found 2" in "".join(capfd.readouterr())


def test_an_approval_that_has_expired_applies_nothing(bag, clients, world, plan, policy, capfd):
    policy(approval_valid_h=1e-9)
    with answering(clients, DAG, answered_by(clients["olivia"], "Approve")):
        _, states = run_plan(bag, plan)
    assert (states["approve"], states["apply_plan"]) == ("success", "failed")
    assert world.requests == []
    assert "ago; ask again" in "".join(capfd.readouterr())


def test_an_approval_that_was_withdrawn_applies_nothing(bag, clients, world, plan, tmp_path, capfd):
    def approve_and_withdraw(gate):
        run = f"{DAG}.{gate['task_instance']['dag_run_id']}"
        where = ("--store", str(tmp_path), "--cluster", CLUSTER, "--approver", "ada")
        assert main(["withdraw", run, *where]) == 0
        return answered_by(clients["olivia"], "Approve")(gate)

    with answering(clients, DAG, approve_and_withdraw):
        _, states = run_plan(bag, plan)
    assert (states["approve"], states["apply_plan"]) == ("success", "failed")
    assert world.requests == []
    assert "'ada' withdrew the approval" in "".join(capfd.readouterr())


@pytest.mark.parametrize(("reset", "counted"), [(True, 1), (False, 0)])
def test_airflow_counts_a_clear_of_a_running_run_unless_the_request_leaves_the_run(
    bag, clients, world, plan, reset, counted
):
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    with answering(clients, DAG, answered_by(clients["olivia"], "Reject")):
        run, _ = run_plan(bag, plan)
    with create_session() as session:
        session.get(DagRun, run.id).state = "running"
    assert clear_task(clients["ada"], DAG, run.run_id, "apply_plan", reset=reset).status_code == 200
    with create_session() as session:
        ended = session.get(DagRun, run.id)
        assert ended.clear_number == counted
        ended.state = "failed"


def test_a_rejected_plan_is_not_offered_again_unless_the_rejection_is_named(bag, clients, world, plan, capfd):
    with answering(clients, DAG, answered_by(clients["olivia"], "Reject")):
        rejected, _ = run_plan(bag, plan)
    _, states = run_plan(bag, plan)
    assert (states["approve"], states["apply_plan"]) == ("failed", "upstream_failed")
    assert "'olivia' rejected it" in "".join(capfd.readouterr())
    conf = {"cluster": CLUSTER, "plan": plan.digest, "after_rejection": f"{DAG}.{rejected.run_id}"}
    with answering(clients, DAG, answered_by(clients["ada"], "Approve")):
        run = bag.dags[DAG].test(run_conf=conf, logical_date=None)
    assert states_of(run)["verify"] == "success"
    bag.dags[DAG].test(run_conf=conf | {"after_rejection": None}, logical_date=None, mark_success_pattern=".*")


def test_an_answer_to_a_question_that_was_edited_in_the_store_applies_nothing(bag, clients, world, plan, tmp_path):
    def edit_and_approve(gate):
        path = tmp_path / "v1" / "audit" / f"cluster={CLUSTER}" / "00000002.json"
        path.chmod(0o644)
        path.write_text(path.read_text().replace(plan.digest, "0" * 64))
        return answered_by(clients["olivia"], "Approve")(gate)

    with answering(clients, DAG, edit_and_approve):
        _, states = run_plan(bag, plan)
    assert (states["approve"], states["apply_plan"]) == ("failed", "upstream_failed")
    assert world.requests == []
    assert main(["audit", "verify", "--store", str(tmp_path), "--cluster", CLUSTER]) == 4
