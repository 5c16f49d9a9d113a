"""What tests do with a run of `dag.test()`, and with the gate at which it waits."""

import json
import threading
from concurrent.futures import Future
from contextlib import contextmanager

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


def open_gate(client, dag_id):
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
                gate = open_gate(clients["ada"], dag_id)
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
def run_of(gate):
    """The run in Airflow's database, which is written at the end."""
    from airflow.models.dagrun import DagRun
    from airflow.utils.session import create_session
    from sqlalchemy import select

    ti = gate["task_instance"]
    with create_session() as session:
        yield session.scalars(
            select(DagRun).where(DagRun.dag_id == ti["dag_id"], DagRun.run_id == ti["dag_run_id"])
        ).one()


def answered_by(client, option, comment="planned window"):
    return lambda gate: client.patch(
        _url(gate), json={"chosen_options": [option], "params_input": {"comment": comment}}
    )


def run_plan(bag, plan, dag_id="elect_preferred_leaders"):
    conf = {"cluster": CLUSTER, "plan": plan.digest, "election_count_max": 10}
    run = bag.dags[dag_id].test(run_conf=conf, logical_date=None)
    return run, {ti.task_id: str(ti.state) for ti in run.get_task_instances()}


def gate_records(store, ending=""):
    """What the gates asked and were answered, as the folder of the store keeps it, in order; of all, or of those with such a name."""
    paths = sorted((store / "v1" / "approvals").rglob(f"*{ending}.json"))
    return [json.loads(path.read_text()) for path in paths if not path.name.endswith("-planned.json")]


def states_of(run):
    return {ti.task_id: str(ti.state) for ti in run.get_task_instances() if ti.map_index < 0}


def clear_task(client, dag_id, run_id, task_id, *, downstream=True, reset=True):
    """Clears a task of a run, and all that follow it, as the button of the UI does where nobody says otherwise."""
    what = {"dag_run_id": run_id, "task_ids": [task_id], "include_downstream": downstream}
    how = {"dry_run": False, "only_failed": False, "reset_dag_runs": reset}
    return client.post(f"/api/v2/dags/{dag_id}/clearTaskInstances", json=what | how)


def end_again(dag, run):
    """Lets the run end once more, as the scheduler does: in one session from its tasks to its note."""
    from airflow.models.dagrun import DagRun
    from airflow.serialization.serialized_objects import DagSerialization
    from airflow.utils.session import create_session

    with create_session() as session:
        ended = session.get(DagRun, run.id)
        ended.dag = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
        ended.state = "running"
        assert ended.update_state(session=session) == ([], None)


def go_on(dag, run):
    """Runs what was cleared of an ended run, or is tried again, as the scheduler would, up to its gate; its states."""
    from airflow.models.dagrun import DagRun
    from airflow.sdk.definitions.dag import _run_task
    from airflow.serialization.serialized_objects import DagSerialization
    from airflow.utils.session import create_session

    with create_session() as session:
        cleared = session.get(DagRun, run.id)
        cleared.dag = DagSerialization.deserialize_dag(DagSerialization.serialize_dag(dag))
        began, cleared.state = cleared.start_date, "running"
        cleared.start_date = began or cleared.start_date  # a retry comes before its run has ended, and leaves it
        while ready := cleared.update_state(session=session)[0]:
            for ti in ready:
                ti.try_number += 1
            session.commit()
            for ti in ready:
                _run_task(ti=ti, task=dag.get_task(ti.task_id))
            session.expire_all()
        return states_of(cleared)


def receipt_of(tmp_path, plan):
    folder = tmp_path / "v1" / "receipts" / f"cluster={CLUSTER}" / plan.digest
    return [json.loads(path.read_text()) for path in sorted(folder.glob("*.json"))]


def note_of(client, run):
    return client.get(f"/api/v2/dags/{run.dag_id}/dagRuns/{run.run_id}").json()["note"]


def all_states_of(run):
    """The state of each task, of each of its mapped instances, too."""
    return {
        f"{ti.task_id}[{ti.map_index}]" if ti.map_index >= 0 else ti.task_id: str(ti.state)
        for ti in run.get_task_instances()
    }


def xcom_of(run, task_id, map_index=-1):
    from airflow.models.xcom import XComModel
    from airflow.utils.session import create_session

    with create_session() as session:
        query = XComModel.get_many(
            run_id=run.run_id, dag_ids=run.dag_id, task_ids=task_id, key="return_value", map_indexes=map_index
        )
        row = session.scalars(query).first()
        return XComModel.deserialize_value(row) if row else None


def want_retry(run, task_id):
    from airflow.utils.session import create_session

    with create_session() as session:
        run.get_task_instance(task_id, session=session).state = None
