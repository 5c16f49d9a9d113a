"""An approval once its plan was begun: what is finished, what cannot be taken back any more, and what is none."""

from tests import airflow_home  # isort: skip  # before anything of Airflow

from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from kafka_maintenance.operations.apply.executions import stop_requests
from kafka_maintenance.operations.errors import AirflowUnreachableError, BadInputError, RefusedError
from kafka_maintenance.operations.gate import approvals
from kafka_maintenance.operations.gate.permission import NotApprovedError, permission
from kafka_maintenance.operations.gate.policy import Policy
from kafka_maintenance.operations.record.audit import UntrustedRecordError
from kafka_maintenance.operations.record.receipts import EventKind, ReceiptLog
from tests.kafka_maintenance.tasks.approving import (
    KIND,
    NO,
    NOBODY,
    NOW,
    RUN,
    keep_answered,
    keep_asked,
    keep_begun,
    permitted,
)

assert airflow_home


def test_an_approval_can_be_withdrawn_until_the_plan_was_begun(store, text):
    keep_asked(store, text)
    keep_answered(store)
    what = {"cluster": "alpha", "run": RUN, "by": "otto", "comment": "wrong cluster", "now": NOW}
    begun = keep_begun(store, text)
    with pytest.raises(RefusedError, match="its plan was begun"):
        approvals.withdraw(store, **what)
    store.delete(begun)
    approvals.withdraw(store, **what)
    with pytest.raises(NotApprovedError, match="'otto' withdrew the approval"):
        permitted(store)
    with pytest.raises(BadInputError, match="the gate of run 'none' of 'alpha' asked nothing"):
        approvals.withdraw(store, **what | {"run": "none"})


def test_what_was_intended_and_refused_was_not_begun(store, text):
    """Nothing was requested: the approval expires, and may be withdrawn."""
    keep_asked(store, text)
    keep_answered(store, at="2026-11-01T00:00:00+00:00")
    keep_begun(store, text, EventKind.INTENDED, EventKind.REFUSED)
    with pytest.raises(NotApprovedError, match="which is more than 12:00:00 ago"):
        permitted(store)
    approvals.withdraw(store, cluster="alpha", run=RUN, by="otto", comment=None, now=NOW)
    with pytest.raises(NotApprovedError, match="'otto' withdrew the approval"):
        permitted(store)


@pytest.mark.parametrize(
    ("answers", "end"),
    [(None, ""), ([], ""), ([NO | {"user": None}], ""), ([{}], ""), ([NO], "Reject")],
    ids=["not asked again", "nobody has answered", "nobody in time", "one of two approved", "rejected"],
)
def test_what_was_begun_is_finished_at_any_time_and_while_its_gate_asks_again(store, text, answers, end):
    two = Policy("d", {}, {"kinds": {KIND: {"approvals": 2}}})
    keep_asked(store, text, "1")
    for user in ("olivia", "otto"):
        keep_answered(store, "1", user=user, at="2026-11-01T00:00:00+00:00")
    if answers is not None:
        keep_asked(store, text, "2")
    for answer in answers or ():
        keep_answered(store, "2", **answer)
    keep_begun(store, text)
    with pytest.raises(NotApprovedError, match=f"found .*{end}") if end else nullcontext():
        assert permitted(store, policy=two).approver == "olivia, otto"


def test_what_was_begun_is_finished_while_airflow_does_not_answer_and_nothing_is_begun_then(store, text):
    def silent(_):
        raise AirflowUnreachableError("no answer")

    keep_asked(store, text)
    keep_answered(store)
    what = {"kind": KIND, "cluster": "alpha", "run": RUN, "now": NOW, "policy": NOBODY, "airflow": silent}
    with pytest.raises(AirflowUnreachableError):
        permission(store, **what)
    keep_begun(store, text)
    assert permission(store, **what).record["airflow"] == "Airflow's own record was not read: no answer"


def test_a_beginning_that_the_chain_does_not_hold_is_none(store, text):
    """Else an object of that name would make an approval count that has expired, or hold up its withdrawal."""
    keep_asked(store, text)
    keep_answered(store, at="2026-11-01T00:00:00+00:00")
    store.put(f"v1/receipts/cluster=alpha/{text.plan.digest}/0002-intended.json", b"{}")
    with pytest.raises(UntrustedRecordError, match="the chain holds no such record"):
        permitted(store)
    approvals.withdraw(store, cluster="alpha", run=RUN, by="otto", comment=None, now=NOW)


def test_a_run_that_was_cleared_after_the_approval_applies_nothing_unless_the_policy_lets_others_clear(store, text):
    beginning = {"clears": 0, "began": "2026-11-21T10:00:00+00:00"}
    keep_asked(store, text, **beginning)
    keep_answered(store)
    what = {"kind": KIND, "cluster": "alpha", "run": RUN, "now": NOW}
    assert not permission(store, **what, policy=NOBODY, beginning=beginning).record["cleared"]
    for changed in ({"clears": 1}, {"began": "2026-11-21T11:30:00+00:00"}):
        cleared = {**what, "beginning": beginning | changed}
        with pytest.raises(NotApprovedError, match="the run was cleared after its gate had asked"):
            permission(store, **cleared, policy=NOBODY)
        assert permission(store, **cleared, policy=Policy("d", {}, {"others_may_clear": True})).record["cleared"]


def test_a_cap_that_was_lowered_after_the_approval_holds_until_the_plan_is_begun(store, text):
    keep_asked(store, text)
    keep_answered(store)
    lower = NOBODY.narrowed(None, {"partitions_max": 0})
    with pytest.raises(
        NotApprovedError, match="at most 0 partitions in one approval, found 1; start a new run that plans less"
    ):
        permitted(store, policy=lower)
    keep_begun(store, text)
    assert permitted(store, policy=lower).approver == "olivia"


@pytest.mark.parametrize(
    ("user", "run", "events", "becomes"),
    [
        pytest.param("otto", RUN, (EventKind.REQUESTED,), "ended", id="rejected"),
        pytest.param(None, RUN, (EventKind.REQUESTED,), "goes on", id="nobody answered in time"),
        pytest.param("otto", RUN, (EventKind.REQUESTED, EventKind.DONE), "skipped", id="it is done"),
        pytest.param("otto", RUN, (EventKind.REFUSED,), "skipped", id="it was not begun"),
        pytest.param("otto", "another.run", (EventKind.REQUESTED,), "skipped", id="another run began it"),
    ],
)
def test_a_gate_that_was_cleared_alone_skips_nothing_of_what_its_run_began(
    store, text, monkeypatch, user, run, events, becomes
):
    from airflow.providers.standard.operators.hitl import ApprovalOperator
    from airflow.sdk.exceptions import AirflowFailException

    from kafka_maintenance import hooks
    from kafka_maintenance.tasks.approval import PlanApprovalOperator

    digest = text.plan.digest
    monkeypatch.setattr(hooks, "store", lambda: store)
    monkeypatch.setattr(ApprovalOperator, "execute_complete", lambda *_: {"skipped": True})
    log = ReceiptLog(store, cluster="alpha", digest=digest, run=run, approver="olivia", now=NOW)
    log.append(EventKind.STARTED, kind=KIND)
    for event in (EventKind.INTENDED, *events):
        log.append(event, step=0)
    gate = PlanApprovalOperator(task_id="approve", kind=KIND, plan={"digest": digest})
    of_run = SimpleNamespace(dag_id=KIND, run_id="manual")
    context = {"dag_run": of_run, "params": {"cluster": "alpha"}, "ti": SimpleNamespace(id="01b7", try_number=1)}
    keep_asked(store, text, gate._asked(context)["ask_id"])
    event = {"chosen_options": ["Reject"], "responded_by_user": user and {"id": user, "name": user}}
    if becomes == "ended":
        way = f"start a run of {KIND} with plan={digest} and after_rejection={RUN}; .* cancel_execution, or .* rollback_of={digest}"
        with pytest.raises(AirflowFailException, match=f"rejected by 'otto' after this run had begun it: .*{way}"):
            gate.execute_complete(context, event)
    else:
        returned = gate.execute_complete(context, event)
        assert returned.get("skipped", False) == (becomes == "skipped")
    assert len(stop_requests(store, "alpha", digest)) == (becomes == "ended")
