"""Boundary: who may clear and edit runs, as Airflow's role `op` may, against what somebody else approved: Airflow's own record."""

import json

import pytest

from tests.dags.policies import policy
from tests.dags.runs import answered_by, answering, clear_task, go_on, receipt_of, run_plan
from tests.dags.world import CLUSTER

__all__ = ["policy"]

DAG = "elect_preferred_leaders"


@pytest.fixture
def failed(bag, clients, world, plan, monkeypatch):
    """A run that olivia approved and whose plan was not begun, as the cluster could not be reached; id and run of it."""
    from kafka_maintenance import hooks
    from kafka_maintenance.operations.errors import RefusedError

    def away(name):
        raise RefusedError(f"{name} is away")

    with monkeypatch.context() as broken, answering(clients, DAG, answered_by(clients["olivia"], "Approve")):
        broken.setattr(hooks, "cluster", away)
        run, states = run_plan(bag, plan)
    assert (states["approve"], states["apply_plan"]) == ("success", "failed")
    monkeypatch.setattr(bag.dags[DAG].get_task("verify"), "python_callable", lambda *_, **__: True)
    return run


def _record(tmp_path, plan):
    (started,) = [event for event in receipt_of(tmp_path, plan) if event["event"] == "started"]
    return started["detail"]["approval"]["airflow"]


def test_what_airflow_has_recorded_itself_is_read_before_anything_is_written(
    bag, clients, world, plan, policy, tmp_path, airflow_is_asked
):
    policy(airflow_must_agree=True)
    with answering(clients, DAG, answered_by(clients["olivia"], "Approve")):
        _, states = run_plan(bag, plan)
    assert states["verify"] == "success"
    assert _record(tmp_path, plan) == {"changes": []}


def test_approved_by_one_and_cleared_by_another_applies_nothing(
    bag, clients, world, policy, airflow_is_asked, failed, capfd
):
    assert clear_task(clients["ada"], DAG, failed.run_id, "apply_plan").status_code == 200
    assert go_on(bag.dags[DAG], failed)["apply_plan"] == "failed"
    assert world.requests == []
    told = "".join(capfd.readouterr())
    assert "olivia approved it, and 'ada' cleared or changed the run afterwards (post_clear_task_instances" in told


def _unseen(client, run_id, query="", **how):
    """Clears apply_plan and lets the ended run go on, in a way that Airflow neither counts nor has in its audit log under this run."""
    how = {"dry_run": False, "only_failed": False, "reset_dag_runs": False, "include_downstream": True, **how}
    cleared = {"dag_run_id": run_id, "task_ids": ["apply_plan"], **how}
    run = f"/api/v2/dags/{DAG}/dagRuns/{run_id}"
    assert client.post(f"/api/v2/dags/{DAG}/clearTaskInstances{query}", json=cleared).status_code == 200
    assert client.patch(f"{run}?run_id=nothing", json={"state": "queued"}).status_code == 200
    assert client.get(run).json()["state"] == "queued"


@pytest.mark.parametrize(
    "how",
    [pytest.param({"query": "?run_id=nothing"}, id="as another run"), pytest.param({"dry_run": "false"}, id="as dry")],
)
def test_a_clear_that_airflows_audit_log_does_not_show_applies_nothing(
    bag, clients, world, policy, airflow_is_asked, failed, capfd, how
):
    _unseen(clients["ada"], failed.run_id, **how)
    assert go_on(bag.dags[DAG], failed)["apply_plan"] == "failed"
    assert world.requests == []
    told = "".join(capfd.readouterr())
    assert "olivia approved it, and somebody cleared or changed the run afterwards (no request of another user" in told


def test_without_a_connection_a_run_that_had_ended_applies_nothing_however_it_was_cleared(
    bag, clients, world, policy, failed, capfd
):
    _unseen(clients["ada"], failed.run_id)
    assert go_on(bag.dags[DAG], failed)["apply_plan"] == "failed"
    assert world.requests == []
    assert "the run was cleared after its gate had asked, and nobody says by whom" in "".join(capfd.readouterr())


def test_a_task_that_was_cleared_while_its_run_went_on_applies_nothing(
    bag, clients, world, policy, airflow_is_asked, failed, monkeypatch, capfd
):
    from kafka_maintenance.tasks import approval

    monkeypatch.setattr(approval, "_beginning", lambda _: {"clears": 0})  # as of a run that had never ended
    _unseen(clients["ada"], failed.run_id, dry_run="false")
    assert go_on(bag.dags[DAG], failed)["apply_plan"] == "failed"
    assert world.requests == []
    assert "somebody cleared or changed the run afterwards" in "".join(capfd.readouterr())


def test_a_request_to_clear_that_airflow_refuses_holds_nothing_up_and_is_no_change(
    bag, clients, world, plan, policy, tmp_path, airflow_is_asked
):
    policy(airflow_must_agree=True)
    refused = []

    def act(gate):
        answered = answered_by(clients["olivia"], "Approve")(gate)
        refused.append(clear_task(clients["victor"], DAG, gate["task_instance"]["dag_run_id"], "apply_plan"))
        return answered

    with answering(clients, DAG, act):
        _, states = run_plan(bag, plan)
    assert ([each.status_code for each in refused], states["verify"]) == ([403], "success")
    assert _record(tmp_path, plan) == {"changes": []}


@pytest.mark.parametrize(("who", "rules"), [("olivia", {}), ("ada", {"others_may_clear": True})])
def test_who_approved_may_clear_and_whom_the_policy_lets_and_it_stands_in_the_record(
    bag, clients, world, plan, policy, tmp_path, airflow_is_asked, failed, who, rules
):
    policy(**rules)
    assert clear_task(clients[who], DAG, failed.run_id, "apply_plan").status_code == 200
    assert go_on(bag.dags[DAG], failed)["apply_plan"] == "success"
    (change,) = _record(tmp_path, plan)["changes"]
    assert (change["user"], change["event"]) == (who, "post_clear_task_instances")


def test_an_answer_in_our_record_that_airflow_does_not_know_is_none(
    bag, clients, world, plan, policy, tmp_path, airflow_is_asked, capfd, monkeypatch
):
    """Without audit keys, who writes the store and edits the state of a task could approve in another's name."""
    from datetime import UTC, datetime

    from controller_core.adapters.object_store.open import FolderStore
    from kafka_maintenance.operations.gate import approvals

    def forge(gate):
        store, run_id = FolderStore(tmp_path), gate["task_instance"]["dag_run_id"]
        run, now = f"{DAG}.{run_id}", datetime.now(UTC).isoformat()
        asked = approvals.asked(store, cluster=CLUSTER, run=run)
        yes = {"user": "ada", "options": ["Approve"], "comment": "mine", "at": now, "responded_at": now}
        approvals.keep_answer(store, cluster=CLUSTER, run=run, ask_id=asked.ask_id, answer=yes)
        task = f"/api/v2/dags/{DAG}/dagRuns/{run_id}/taskInstances/approve"
        return clients["olivia"].patch(task, json={"new_state": "success"})

    with answering(clients, DAG, forge) as forged:
        _, states = run_plan(bag, plan)
    assert forged.result().status_code == 200
    assert (states["approve"], states["apply_plan"]) == ("success", "failed")
    assert world.requests == []
    assert "Airflow's own record of the answer has another user, options, comment, time" in "".join(capfd.readouterr())


def test_where_nobody_can_be_asked_the_record_says_so_and_the_policy_may_refuse(
    bag, clients, world, plan, policy, tmp_path, capfd
):
    policy(airflow_must_agree=True)
    with answering(clients, DAG, answered_by(clients["olivia"], "Approve")):
        _, states = run_plan(bag, plan)
    assert (states["apply_plan"], world.requests) == ("failed", [])
    assert "the policy wants Airflow's own record to agree" in "".join(capfd.readouterr())
    policy()
    with answering(clients, DAG, answered_by(clients["olivia"], "Approve")):
        _, states = run_plan(bag, plan)
    assert states["verify"] == "success"
    assert _record(tmp_path, plan) == "Airflow's own record was not read: no connection names its API"


def test_an_airflow_that_does_not_let_us_read_is_told_and_nothing_is_applied(
    bag, clients, world, plan, monkeypatch, airflow_is_asked, capfd
):
    wrong = {"conn_type": "http", "host": airflow_is_asked, "login": "victor", "password": "another"}
    monkeypatch.setenv("AIRFLOW_CONN_KAFKA_MAINTENANCE_AIRFLOW", json.dumps(wrong))
    monkeypatch.setattr(bag.dags[DAG].get_task("apply_plan"), "retries", 0)
    with answering(clients, DAG, answered_by(clients["olivia"], "Approve")):
        _, states = run_plan(bag, plan)
    assert (states["apply_plan"], world.requests) == ("failed", [])
    told = "".join(capfd.readouterr())
    assert "as victor" in told
    assert "401" in told
    assert "another" not in told.replace("another user", "")
