"""The note of a run that a person starts: what waits, and for whom."""

from tests import airflow_home  # isort: skip  # before anything of Airflow

import json
from types import SimpleNamespace

import pytest

from controller_core.plans.plan import PlanKind
from tests.airflow_home import ROOT

assert airflow_home

ANYBODY = "by anybody who may answer in Airflow"


@pytest.fixture(autouse=True)
def connection(monkeypatch):
    connection = {"conn_type": "kafka_zookeeper", "host": "zk:2181", "extra": {"approvers": "olivia, otto"}}
    monkeypatch.setenv("AIRFLOW_CONN_BLUE", json.dumps(connection))


class Run(SimpleNamespace):
    """A run with a note as Airflow keeps it: with who wrote it, None for a program."""

    dag_run_note: SimpleNamespace | None

    @property
    def note(self):
        return self.dag_run_note and self.dag_run_note.content

    @note.setter
    def note(self, text):
        self.dag_run_note = SimpleNamespace(content=text, user_id=self.dag_run_note and self.dag_run_note.user_id)


def _noted(dag_id, conf=None, *, user="ada", run_type="manual", note=None, by=None, clears=0):
    from kafka_maintenance.tasks.run_notes import on_dag_run_running

    written = note and SimpleNamespace(content=note, user_id=by)
    who = {"run_type": run_type, "triggering_user_name": user, "clear_number": clears}
    run = Run(dag_id=dag_id, run_id="r", conf=conf, dag_run_note=written, **who)
    on_dag_run_running(run)
    return run.note


@pytest.mark.parametrize(
    ("dag_id", "conf", "note"),
    [
        ("elect_preferred_leaders", {"cluster": "green"}, f"elect_preferred_leaders on green, started by ada: waits for 1 approval {ANYBODY}"),
        ("elect_preferred_leaders", {"cluster": "blue"}, "elect_preferred_leaders on blue, started by ada: waits for 1 approval by olivia, otto"),
        ("restore_metadata__blue", None, "restore_metadata on blue, started by ada: waits for 1 approval by olivia, otto"),
        ("drain_isr_notifications", {"cluster": "blue"}, None),
        ("drain_isr_notifications", {"cluster": "blue", "act": True}, "drain_isr_notifications on blue, started by ada: waits for 1 approval by olivia, otto"),
        ("retain_snapshots", None, None),
        ("nightly_analysis", {"cluster": "blue"}, None),
    ],
)  # fmt: skip
def test_a_gated_run_says_for_whose_approval_it_waits(dag_id, conf, note):
    assert _noted(dag_id, conf) == note


def test_where_nobody_vouches_for_who_started_it_a_deletion_waits_for_two():
    assert _noted("delete_topics", {"cluster": "green"}, user=None) == (
        f"delete_topics on green, started by nobody that Airflow names: waits for 2 approvals {ANYBODY}"
    )


def test_a_note_that_is_there_stays_and_a_scheduled_run_gets_none():
    conf = {"cluster": "blue"}
    assert _noted("move_leaders", conf, note="CHG-7") == "CHG-7"
    assert _noted("move_leaders", conf, run_type="scheduled") is None


ENDED = "{} on blue, {}: ended successfully: rejected by otto; nothing was changed"


@pytest.mark.parametrize(
    ("kind", "how", "approvals"),
    [
        ("move_leaders", "started by ada", "1 approval"),
        ("restore_metadata", "started by ada", "2 approvals"),
        ("retain_snapshots", "for retention abc of 2026-11-02", "2 approvals"),
    ],
)
def test_a_run_that_was_cleared_after_its_end_waits_again(kind, how, approvals):
    waits = f"{kind} on blue, {how}: waits for {approvals} by olivia, otto"
    assert _noted(kind, note=ENDED.format(kind, how), run_type="operator_triggered") == waits
    assert _noted(kind, note=ENDED.format(kind, how), by="7") == ENDED.format(kind, how)


@pytest.mark.parametrize(("clears", "approvals"), [(0, "1 approval"), (1, "2 approvals")])
def test_a_deletion_whose_run_was_cleared_waits_for_two(clears, approvals):
    waits = f"delete_topics on blue, started by ada: waits for {approvals} by olivia, otto"
    assert _noted("delete_topics", {"cluster": "blue"}, clears=clears) == waits
    assert _noted("delete_topics", note=ENDED.format("delete_topics", "started by ada"), clears=clears) == waits


def test_a_note_is_as_short_as_airflow_can_hold(monkeypatch, tmp_path):
    from kafka_maintenance.tasks.common import gated_run

    monkeypatch.setenv("KAFKA_MAINTENANCE_POLICY", str(tmp_path / ("gone" * 400)))
    assert len(_noted("move_leaders", {"cluster": "blue"})) == 1000
    opened = gated_run("move_leaders", "nightly", "2026-11-21", "blue", "a" * 12)
    assert (len(opened["note"]), opened["conf"]) == (1000, {"cluster": "blue"})


def test_a_policy_that_cannot_be_read_is_named_and_the_run_starts(monkeypatch, tmp_path):
    monkeypatch.setenv("KAFKA_MAINTENANCE_POLICY", str(tmp_path / "gone.yaml"))
    assert _noted("move_leaders", {"cluster": "blue"}).startswith(
        "move_leaders on blue, started by ada: waits for an approval, and whose is not known: "
    )


def test_what_airflow_cannot_read_leaves_no_note_and_does_no_harm(monkeypatch, caplog):
    from kafka_maintenance import hooks

    def broken(_):
        raise RuntimeError("no database")

    monkeypatch.setattr(hooks, "policy_for", broken)
    assert _noted("move_leaders", {"cluster": "blue"}) is None
    assert "run r of move_leaders has no note" in caplog.text


def test_each_kind_of_plan_has_the_dag_whose_gate_asks_about_it():
    from kafka_maintenance.operations.gate.airflow_record import GATED
    from kafka_maintenance.operations.restore.document import KIND as RESTORE
    from kafka_maintenance.operations.retention.plan import KIND as RETENTION

    gated = {path.stem for path in (ROOT / "dags").glob("*.py") if "PlanApprovalOperator(" in path.read_text()}
    assert set(GATED.values()) == gated
    assert set(GATED) == {*PlanKind, RESTORE, RETENTION}
