"""Boundary: who may clear runs and edit XComs and task instances, as Airflow's role `op` may, against the rule of two persons.

Airflow says who started a run, and nobody else is the requester: nothing may be asked about in it that he did not ask for.
"""

import pytest
from msgspec import structs

from controller_core.adapters.object_store.open import FolderStore
from kafka_maintenance.operations.errors import RefusedError
from kafka_maintenance.operations.gate import approvals
from kafka_maintenance.operations.plans.store import read_plan, store_plan
from tests.dags.policies import policy
from tests.dags.runs import answered_by, clear_task, gate_records, go_on, open_gate, run_plan, states_of
from tests.dags.world import CLUSTER

__all__ = ["policy"]

DAG = "elect_preferred_leaders"
TWO = {DAG: {"requester_may_approve": False}}


def started_by(run, user):
    """Writes who started a run of `dag.test()` into Airflow's database."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session

    with create_session() as session:
        session.get(DagRun, run.id).triggering_user_name = user


def has_told(client, run, digest):
    """The API makes that the planning task has told this digest, and has succeeded."""
    task = f"/api/v2/dags/{DAG}/dagRuns/{run.run_id}/taskInstances/plan_elections"
    told = client.post(f"{task}/xcomEntries", json={"key": "return_value", "value": {"digest": digest}})
    return told.is_success and client.patch(task, json={"new_state": "success"}).is_success


@pytest.fixture
def failed(bag, world):
    """A run that ada started with a digest of no plan; its planning failed."""
    run = bag.dags[DAG].test(run_conf={"cluster": CLUSTER, "plan": "0" * 64}, logical_date=None)
    assert (states_of(run)["plan_elections"], states_of(run)["approve"]) == ("failed", "upstream_failed")
    started_by(run, "ada")
    return run


def test_a_plan_that_the_run_did_not_make_is_not_asked_about(
    bag, clients, world, plan, policy, tmp_path, airflow_is_asked, failed, capfd
):
    """Who approves would else put a plan of his own into a run of somebody else, who then counts as its requester."""
    policy(kinds=TWO, airflow_must_agree=True)
    store = FolderStore(tmp_path)
    own = structs.replace(read_plan(store, plan.uri), risks=("a plan that ada never saw",))
    own = store_plan(store, own, plan.uri.removeprefix(f"{tmp_path}/").partition("plans/")[0])
    assert has_told(clients["olivia"], failed, own.digest)
    assert clear_task(clients["olivia"], DAG, failed.run_id, "approve").status_code == 200
    assert go_on(bag.dags[DAG], failed)["approve"] == "failed"
    assert gate_records(tmp_path) == []
    assert (
        f"expected plan {own.digest[:12]}, which plan_elections returned, in the record of run '{DAG}.{failed.run_id}', found no plan; "
        in "".join(capfd.readouterr())
    )


@pytest.mark.parametrize(("rules", "requester"), [({}, None), ({"others_may_clear": True}, "ada")])
def test_nobody_vouches_for_who_asked_in_a_run_that_was_cleared_before_its_gate_asked(
    bag, clients, world, plan, policy, tmp_path, monkeypatch, rules, requester
):
    """A gate that could not ask is cleared at a time that somebody else chooses, and he approves."""

    def away(*_, **__):
        raise RefusedError("the store is away")

    with monkeypatch.context() as broken:
        broken.setattr(approvals, "refuse_rejected", away)
        run, states = run_plan(bag, plan)
    assert states["approve"] == "failed"
    started_by(run, "ada")
    policy(kinds=TWO, **rules)
    assert clear_task(clients["olivia"], DAG, run.run_id, "approve").status_code == 200
    assert go_on(bag.dags[DAG], run)["approve"] == "awaiting_input"
    (asked,) = gate_records(tmp_path, "asked")
    assert asked["requester"] == requester
    answered_by(clients["olivia"], "Reject")(open_gate(clients["ada"], DAG))  # other tests answer what they find open
