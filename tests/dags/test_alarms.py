"""A critical finding fails the daily run, and whoever is to know is told over HTTP."""

import asyncio
import re
import socketserver
import textwrap
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from email import message_from_bytes
from types import SimpleNamespace

import pytest

from controller_core.adapters.object_store.open import open_store
from tests.airflow_home import ROOT
from tests.dags.runs import answered_by, answering
from tests.dags.world import CLUSTER
from tests.kafka_maintenance.operations.analysis.analysed import TODAY, analysed, finding
from tests.listening import listening

ANALYSIS = ROOT / "docs" / "analysis.md"
DOWN = finding(CLUSTER, "broker_down", "critical", brokers=[3])


def no_alarms(monkeypatch, tmp_path, severity):
    from kafka_maintenance.tasks import analysis

    store = open_store(str(tmp_path))
    manifest = analysed(store, TODAY, DOWN)
    monkeypatch.setattr(analysis, "context_of_run", lambda: {"params": {"alarm_severity": severity}})
    report = {"manifest": store.uri_of(manifest), "date": str(TODAY), "report_html": "/report.html"}
    return analysis.no_alarms.function(report)


def test_a_critical_finding_fails_the_task_with_its_text(world, monkeypatch, tmp_path):
    from airflow.sdk.exceptions import AirflowFailException

    with pytest.raises(
        AirflowFailException,
        match=r"1 finding\(s\) call for a person, 1 of them new:\nnew: alpha: critical: broker_down",
    ):
        no_alarms(monkeypatch, tmp_path, "critical")
    assert no_alarms(monkeypatch, tmp_path, "none") == []


def test_an_acknowledged_finding_rings_no_more(world, monkeypatch, tmp_path):
    from kafka_maintenance.operations.analysis.alarms import acknowledge

    now = datetime.combine(TODAY, datetime.min.time(), UTC)
    acknowledge(
        open_store(str(tmp_path)), CLUSTER, "broker_down", topic=None, reason="r", by="ann", until=TODAY, now=now
    )
    (known,) = no_alarms(monkeypatch, tmp_path, "critical")
    assert known.endswith(f"(acknowledged: ann until {TODAY}: r)")


def test_every_dag_of_ours_tells_of_a_task_that_failed(bag, receiver, monkeypatch):
    from kafka_maintenance.tasks import notifiers
    from kafka_maintenance.tasks.common import DEFAULT_ARGS

    assert DEFAULT_ARGS["on_failure_callback"] is notifiers.ring
    dag = bag.dags["stop_execution"]
    (task,) = dag.tasks
    monkeypatch.setattr(task, "retries", 0)
    monkeypatch.setattr(notifiers, "NOTIFIERS", [notifiers.WebhookNotifier(receiver.url)])
    run = dag.test(run_conf={"cluster": "nowhere", "reason": "a test"}, logical_date=None)
    assert str(run.state) == "failed"
    (told,) = receiver.taken
    assert (told["dag"], told["task"], told["cluster"], told["run"]) == (
        "stop_execution",
        "ask_to_stop",
        "nowhere",
        run.run_id,
    )
    assert told["text"].startswith("stop_execution on nowhere: ask_to_stop failed: ")


def test_a_plan_that_waits_for_a_person_is_told(bag, clients, world, plan, receiver, monkeypatch):
    from kafka_maintenance.tasks.notifiers import WebhookNotifier

    dag = bag.dags["elect_preferred_leaders"]
    monkeypatch.setattr(dag.get_task("approve"), "notifiers", [WebhookNotifier(receiver.url)])
    with answering(clients, dag.dag_id, answered_by(clients["olivia"], "Reject")):
        dag.test(run_conf={"cluster": CLUSTER, "plan": plan.digest}, logical_date=None)
    assert [told["text"] for told in receiver.taken] == ["elect_preferred_leaders on alpha: approve waits for a person"]


class Missed:
    """A deadline of a run that was queued just now and has missed it, through Airflow's own rows: deadline, callback and trigger.

    Attributes:
        run_id: of the run.
        after: how long after it was queued the deadline is.
    """

    def __init__(self, bag, monkeypatch, dag_id, alert, conf=None):
        from airflow.dag_processing.bundles.manager import DagBundlesManager
        from airflow.dag_processing.dagbag import sync_bag_to_db
        from airflow.models.deadline import Deadline
        from airflow.models.serialized_dag import SerializedDagModel
        from airflow.sdk import timezone
        from airflow.utils.session import create_session
        from airflow.utils.state import DagRunState
        from airflow.utils.types import DagRunTriggeredByType, DagRunType
        from sqlalchemy import select

        monkeypatch.setattr(bag.dags[dag_id], "deadline", [alert])
        now = timezone.utcnow()
        self.run_id = f"late__{now.isoformat()}"
        with create_session() as session:
            DagBundlesManager().sync_bundles_to_db(session=session)
            session.commit()
            sync_bag_to_db(bag, "dags-folder", None)
            run = SerializedDagModel.get_dag(dag_id, session=session).create_dagrun(
                run_id=self.run_id,
                run_after=now,
                conf=conf,
                run_type=DagRunType.MANUAL,
                triggered_by=DagRunTriggeredByType.TEST,
                state=DagRunState.QUEUED,
                session=session,
            )
            session.flush()
            (deadline,) = session.scalars(select(Deadline).where(Deadline.dagrun_id == run.id))
            self.after = deadline.deadline_time - run.queued_at
            deadline.handle_miss(session)
            self._callback = dict(deadline.callback.data)
            session.rollback()
        monkeypatch.setattr(bag.dags[dag_id], "deadline", None)
        sync_bag_to_db(bag, "dags-folder", None)  # as the other tests expect it

    def call_back(self):
        """As the triggerer does."""
        from airflow.triggers.callback import CallbackTrigger

        trigger = CallbackTrigger(
            self._callback["path"], dict(self._callback["kwargs"])
        )  # it takes the context out of them

        async def events():
            return [event.payload["state"] async for event in trigger.run()]

        assert asyncio.run(events()) == ["running", "success"]


def test_a_run_of_snapshots_that_is_late_is_told_by_a_deadline_of_airflow(bag, world, receiver, monkeypatch):
    from kafka_maintenance.tasks import deadlines, notifiers

    assert deadlines.SNAPSHOTS_LATE is None, "not by default"
    monkeypatch.setattr(notifiers, "NOTIFIERS", [notifiers.WebhookNotifier(receiver.url)])
    missed = Missed(bag, monkeypatch, "snapshot_metadata", deadlines.snapshots_late(7200))
    assert missed.after == timedelta(hours=2)
    missed.call_back()
    (told,) = receiver.taken
    assert told["text"].startswith("snapshot_metadata: deadline late: the run is queued, and was to be over by ")
    assert told["page"].startswith("http://localhost:8080/dags/snapshot_metadata/runs/late__")


def test_an_approval_that_expires_soon_is_told_while_nobody_has_answered(
    bag, world, plan, receiver, monkeypatch, tmp_path, policy
):
    from kafka_maintenance.operations.gate.approvals import keep_answer, keep_question
    from kafka_maintenance.tasks import deadlines, notifiers

    assert deadlines.APPROVAL_EXPIRES is None, "not by default"
    monkeypatch.setattr(
        deadlines, "SETTINGS", replace(deadlines.SETTINGS, approval_timeout_s=7200, approval_reminder_s=1800)
    )
    monkeypatch.setattr(notifiers, "NOTIFIERS", [notifiers.WebhookNotifier(receiver.url)])
    missed = Missed(bag, monkeypatch, plan.kind, deadlines.approval_expires(1800), {"cluster": CLUSTER})
    assert missed.after == timedelta(minutes=90)
    missed.call_back()
    assert receiver.taken == [], "nothing was asked"
    store = open_store(str(tmp_path))
    asked = {"cluster": CLUSTER, "run": f"{plan.kind}.{missed.run_id}", "ask_id": "a-0001"}
    question = {"kind": plan.kind, "digest": plan.digest, "shown": "0", "requester": "ada", "policy": None}
    keep_question(store, **asked, question=question)
    missed.call_back()
    (told,) = receiver.taken
    assert told["text"].startswith(
        f"{plan.kind} on alpha: approve expires soon: plan {plan.digest[:12]} is not approved ("
    )
    assert told["text"].endswith(" UTC on no answer counts as Reject")
    keep_answer(
        store,
        **asked,
        answer={"user": "olivia", "options": ["Approve"], "comment": None, "at": "2026-11-21T02:30:00+00:00"},
    )
    missed.call_back()
    assert len(receiver.taken) == 1, "it was answered"
    policy(kinds={plan.kind: {"approvals": 2}})
    by_rule = {"user": "rule small", "options": ["Approve"], "comment": None, "at": "2026-11-21T02:30:00+00:00"}
    keep_question(store, **(again := asked | {"ask_id": "a-0002"}), question=question)
    keep_answer(store, **again, answer=by_rule | {"rule": {"name": "small"}})
    missed.call_back()
    assert len(receiver.taken) == 1, "a rule approved it"


def test_a_reminder_after_the_end_is_refused():
    from kafka_maintenance.tasks.deadlines import approval_expires
    from kafka_maintenance.tasks.settings import SettingsError

    with pytest.raises(
        SettingsError, match="expected less than the 60 s of KAFKA_MAINTENANCE_APPROVAL_TIMEOUT_S, found 60"
    ):
        approval_expires(60)


def test_an_execution_that_is_stuck_rings(bag, clients, world, plan, receiver, monkeypatch):
    from kafka_maintenance.operations.apply import progress
    from kafka_maintenance.tasks import apply, notifiers, triggers

    class Helping(notifiers.WebhookNotifier):
        """Somebody hears of it, and makes the controller work."""

        def notify(self, context):
            super().notify(context)
            world.works.set()

    monkeypatch.setattr(progress, "STUCK_S", 0.0)
    monkeypatch.setattr(apply, "SETTINGS", replace(apply.SETTINGS, patience_s=0))
    monkeypatch.setitem(triggers.PlanTrigger.__init__.__kwdefaults__, "look_every_s", 0.1)
    monkeypatch.setattr(notifiers, "NOTIFIERS", [Helping(receiver.url)])
    world.works.clear()
    with answering(clients, plan.kind, answered_by(clients["olivia"], "Approve")):
        run = bag.dags[plan.kind].test(run_conf={"cluster": CLUSTER, "plan": plan.digest}, logical_date=None)
    assert str(run.state) == "success"
    (told,) = receiver.taken
    assert told["text"].startswith(f"{plan.kind} on alpha: apply_plan step 1 stuck: nothing came nearer for ")


@pytest.mark.parametrize(("later_s", "rings"), [(0, 1), (1, 0)])
def test_a_step_that_an_earlier_look_called_stuck_rings_no_more(world, receiver, monkeypatch, later_s, rings):
    from kafka_maintenance.operations.record import receipts
    from kafka_maintenance.tasks import apply, notifiers

    called = datetime(2026, 11, 21, 3, tzinfo=UTC)
    event = receipts.Event(
        receipts.EventKind.STUCK, 0, called.isoformat(), "d.r", "olivia", {"reasons": ["stuck: broker 3 is away"]}
    )
    monkeypatch.setattr(receipts, "read_events", lambda *_: (event,))
    monkeypatch.setattr(notifiers, "NOTIFIERS", [notifiers.WebhookNotifier(receiver.url)])
    context = {"ti": SimpleNamespace(task_id="apply_plan"), "dag_run": SimpleNamespace(dag_id="d", run_id="r")}
    waiting = SimpleNamespace(cluster=CLUSTER, digest="0" * 64, step=0)
    apply._ring_if_stuck(context, waiting, since=called + timedelta(seconds=later_s))
    assert [told["text"] for told in receiver.taken] == ["d: apply_plan step 1 stuck: broker 3 is away"] * rings


def test_breaking_the_glass_rings(bag, clients, world, plan, receiver, monkeypatch, tmp_path):
    from kafka_maintenance.operations.gate.policy import POLICY_VARIABLE
    from kafka_maintenance.tasks.notifiers import WebhookNotifier

    policy = tmp_path / "policy.yaml"
    rules = "{break_glass: {users: [olivia]}, kinds: {elect_preferred_leaders: {approvals: 2}}}"
    policy.write_text(f"version: 1\ndefault: {rules}\n")
    monkeypatch.setenv(POLICY_VARIABLE, str(policy))
    dag = bag.dags["elect_preferred_leaders"]
    monkeypatch.setattr(dag.get_task("approve"), "notifiers", [WebhookNotifier(receiver.url)])
    with answering(clients, dag.dag_id, answered_by(clients["olivia"], "Approve", "break glass: the disks are full")):
        run = dag.test(run_conf={"cluster": CLUSTER, "plan": plan.digest}, logical_date=None)
    assert str(run.state) == "success"
    assert [told["text"].removeprefix("elect_preferred_leaders on alpha: approve ") for told in receiver.taken] == [
        "waits for a person",
        "BREAK GLASS: olivia approved alone: break glass: the disks are full",
    ]


class Mailbox(socketserver.StreamRequestHandler):
    """A mail server that takes everything."""

    def handle(self):
        self.wfile.write(b"220 here\r\n")
        while line := self.rfile.readline():
            word = line.split()[0].upper()
            if word == b"DATA":
                self.wfile.write(b"354 go on\r\n")
                lines = iter(self.rfile.readline, b".\r\n")
                self.server.taken.append(message_from_bytes(b"".join(lines)))
            self.wfile.write(b"221 bye\r\n" if word == b"QUIT" else b"250 yes\r\n")


def test_the_mail_of_the_docs_says_what_happened_each_time(monkeypatch):
    """The example of docs/analysis.md, as it stands there, in one process as the triggerer's."""
    from kafka_maintenance.tasks import notifiers

    (example,) = re.findall(
        r"(?m)^    from airflow\.providers\.smtp.*\n(?:    .*\n)+", ANALYSIS.read_text(encoding="utf-8")
    )
    found = {}
    exec(textwrap.dedent(example), found)
    context = {"dag_run": SimpleNamespace(dag_id="d", run_id="r"), "ti": SimpleNamespace(task_id="t"), "params": {}}
    with listening(socketserver.ThreadingTCPServer(("127.0.0.1", 0), Mailbox)) as server:
        server.taken = []
        address = f"smtp://127.0.0.1:{server.server_address[1]}?disable_ssl=true&disable_tls=true"
        monkeypatch.setenv("AIRFLOW_CONN_SMTP_DEFAULT", address)
        notifiers.ring(context, "is late", [found["mail"]])
        notifiers.ring({**context, "exception": ValueError("broken")}, None, [found["mail"]])
    assert [mail["Subject"] for mail in server.taken] == ["d: t is late", "d: t failed: broken"]


def refuses(_):
    raise ConnectionRefusedError("the mail server is down")


@pytest.mark.parametrize(
    ("does", "said"),
    [
        pytest.param(refuses, "not told by Ill: d: t is late", id="raises"),
        pytest.param(threading.Event.wait, "not told by Ill within 1 s, and not waited for: d: t is late", id="hangs"),
    ],
)
def test_who_cannot_tell_it_keeps_nobody_else_from_being_told(caplog, monkeypatch, does, said):
    from airflow.sdk import BaseNotifier

    from kafka_maintenance.tasks import notifiers

    over, told = threading.Event(), []

    class Ill(BaseNotifier):
        def notify(self, context):
            does(over)

    class Well(BaseNotifier):
        def notify(self, context):
            told.append(context["message"])

    monkeypatch.setattr(notifiers, "WAIT_S", 1.0)
    context = {"ti": SimpleNamespace(task_id="t"), "dag_run": SimpleNamespace(dag_id="d", run_id="r"), "params": {}}
    notifiers.ring(context, "is late", [Ill(), Well()])
    over.set()
    assert told == ["d: t is late"]
    assert said in caplog.text


def test_who_does_not_answer_changes_nothing(caplog):
    from kafka_maintenance.tasks.notifiers import WebhookNotifier

    context = {"ti": SimpleNamespace(task_id="t"), "dag_run": SimpleNamespace(dag_id="d", run_id="r"), "params": {}}
    WebhookNotifier("http://127.0.0.1:1/hook").notify(context)
    assert "not told 127.0.0.1" in caplog.text


@pytest.mark.parametrize(
    ("environment", "message"),
    [
        ({"KAFKA_MAINTENANCE_ALERT_WEBHOOK": "slack"}, "expected https://… or http://…, found 'slack'"),
        ({"KAFKA_MAINTENANCE_NOTIFIERS": "nothing"}, "expected module:name of a notifier, found 'nothing'"),
        (
            {"KAFKA_MAINTENANCE_NOTIFIERS": "json:dumps"},
            r"expected an instance of airflow\.sdk\.BaseNotifier in 'json:dumps'",
        ),
    ],
)
def test_settings_that_name_no_notifier_are_refused(environment, message):
    from kafka_maintenance.tasks.notifiers import notifiers_from
    from kafka_maintenance.tasks.settings import SettingsError

    with pytest.raises(SettingsError, match=message):
        notifiers_from(environment)


def test_notifiers_of_the_company_stand_beside_the_webhook(monkeypatch):
    import sys

    from kafka_maintenance.tasks.notifiers import WebhookNotifier, notifiers_from

    theirs = WebhookNotifier("https://pager.example/hook")
    monkeypatch.setitem(sys.modules, "company_alerts", SimpleNamespace(pager=theirs))
    found = notifiers_from(
        {
            "KAFKA_MAINTENANCE_ALERT_WEBHOOK": "https://chat.example/x",
            "KAFKA_MAINTENANCE_NOTIFIERS": "company_alerts:pager",
        }
    )
    assert [vars(each)["url"] for each in found] == ["https://chat.example/x", "https://pager.example/hook"]
