"""What counts as an approval of a plan, and what never does."""

from tests import airflow_home  # isort: skip  # before anything of Airflow

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

from controller_core.model.errors import ObjectMissingError
from kafka_maintenance.operations.errors import AirflowUnreachableError, BadInputError, RefusedError
from kafka_maintenance.operations.gate import approvals
from kafka_maintenance.operations.gate.permission import NotApprovedError, permission
from kafka_maintenance.operations.gate.policy import Policy
from kafka_maintenance.operations.record.audit import UntrustedRecordError
from kafka_maintenance.operations.record.receipts import EventKind, ReceiptLog, receipt_prefix
from kafka_maintenance.tasks.approval import requester_of

assert airflow_home

RUN = "elect_preferred_leaders.manual"
KIND = "elect_preferred_leaders"
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ANSWER = {"user": "olivia", "options": ["Approve"], "comment": "window", "at": "2026-11-21T11:00:00+00:00"}
NOBODY = Policy("default", {}, {})


@pytest.fixture
def store():
    from controller_core.adapters.object_store.open import MemoryStore

    return MemoryStore()


@pytest.fixture
def text(store):
    """What the gate shows of a stored plan of one election on `alpha`."""
    from kafka_maintenance.operations.gate.shown import shown
    from kafka_maintenance.operations.plans.make import plan_elections
    from tests.dags.world import World

    made = plan_elections(store, "alpha", zookeeper=World().zookeeper, now=datetime(2026, 11, 21, tzinfo=UTC))
    return shown(store, kind=KIND, cluster="alpha", digest=made.digest)


def _asked(store, text, ask_id="1", run=RUN, cluster="alpha", **changed):
    question = {
        "kind": KIND,
        "digest": text.plan.digest,
        "shown": text.digest,
        "requester": "otto",
        "policy": "default",
    }
    approvals.keep_question(store, cluster=cluster, run=run, ask_id=ask_id, question=question | changed)


def _answered(store, ask_id="1", run=RUN, cluster="alpha", **changed):
    approvals.keep_answer(store, cluster=cluster, run=run, ask_id=ask_id, answer=ANSWER | changed)


def _begun(store, text, *events):
    """Records that the plan was begun, or those events of its first step; the key of the first record."""
    digest = text.plan.digest
    log = ReceiptLog(store, cluster="alpha", digest=digest, run=RUN, approver="olivia", now=NOW)
    for event in events or (EventKind.INTENDED,):
        log.append(event, step=0)
    return f"{receipt_prefix('alpha', digest)}0001-intended.json"


def _permission(store, kind=KIND, policy=NOBODY, now=NOW):
    return permission(store, kind=kind, cluster="alpha", run=RUN, policy=policy, now=now)


def test_a_persons_yes_to_this_plan_is_an_approval(store, text):
    _asked(store, text)
    _answered(store)
    found = _permission(store)
    assert (found.shown, found.approver, found.comment) == (text, "olivia", "window")
    assert found.record["requester"] == "otto"
    assert found.record["shown"] == text.digest


@pytest.mark.parametrize(
    ("answer", "asked", "reason"),
    [
        pytest.param({"options": ["Reject"]}, {}, r"found \[\['Reject'\]\]", id="rejected, skip was cleared"),
        pytest.param({"options": []}, {}, r"found \[\[\]\]", id="nothing chosen"),
        pytest.param({"options": ["Approve", "Reject"]}, {}, "expected the answer Approve", id="both chosen"),
        pytest.param({"user": None}, {}, "nobody answered within the time", id="time ran out"),
        pytest.param({}, {"kind": "delete_topics"}, "showed a plan of kind 'delete_topics'", id="of another kind"),
        pytest.param(
            {},
            {"shown": "b" * 64},
            r"kafka-maintenance 0.2.0 showed \(bbbbbbbbbbbb\), version 0.2.0 renders",
            id="another text was shown",
        ),
        pytest.param({"at": "2026-11-20T23:59:59+00:00"}, {}, "which is more than 12:00:00 ago", id="expired"),
        pytest.param({"rule": {"name": "gone"}}, {}, "has no rule 'gone' any more", id="by a rule that is gone"),
    ],
)
def test_anything_else_is_none(store, text, answer, asked, reason):
    _asked(store, text, **asked)
    _answered(store, **answer)
    with pytest.raises(NotApprovedError, match=reason) as error:
        _permission(store)
    assert f"{KIND} on 'alpha' not applied" in str(error.value)


def test_who_asked_for_it_does_not_approve_it_alone_where_the_policy_says_so(store, text):
    two = Policy("d", rules={"kinds": {KIND: {"requester_may_approve": False}}}, roles={})
    _asked(store, text, requester="olivia")
    _answered(store)
    with pytest.raises(NotApprovedError, match="'olivia' asked for it and may not approve it alone"):
        _permission(store, policy=two)
    _answered(store, user="otto")
    assert _permission(store, policy=two).approver == "olivia, otto"


@pytest.mark.parametrize(
    ("run", "requester"),
    [
        ({"run_type": "manual", "triggering_user_name": "otto"}, "otto"),
        ({"run_type": "scheduled", "triggering_user_name": "otto"}, None),
        ({"run_type": "manual"}, None),
    ],
)
def test_who_started_a_run_is_known_where_airflow_vouches_for_a_person(run, requester):
    assert requester_of({"dag_run": SimpleNamespace(**run)}) == requester


@pytest.mark.parametrize(
    ("clears", "rules", "requester"),
    [(0, {}, "otto"), (1, {}, None), (1, {"others_may_clear": True}, "otto")],
    ids=["as it was started", "cleared since", "the policy lets others clear"],
)
def test_nobody_vouches_for_who_asked_where_a_run_was_cleared(clears, rules, requester):
    assert Policy("d", {}, rules).requester("otto", clears) == requester


def test_an_approved_digest_without_such_a_plan_is_refused(store, text):
    _asked(store, text, digest="b" * 64)
    _answered(store)
    with pytest.raises(BadInputError, match="has no elect_preferred_leaders plan of 'alpha' with digest bbbbbbbbbbbb"):
        _permission(store)


def _nobody_asked(store, text):
    pass


def _of_another_run(store, text):
    _asked(store, text, run="another")
    _answered(store, run="another")


def _of_another_cluster(store, text):
    _asked(store, text, cluster="beta")
    _answered(store, cluster="beta")


def _asked_again(store, text):
    _asked(store, text, "1")
    _answered(store, "1")
    _asked(store, text, "2")


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(_nobody_asked, id="the gate was skipped"),
        pytest.param(_of_another_run, id="the answer of another run"),
        pytest.param(_of_another_cluster, id="the answer for another cluster"),
        pytest.param(_asked_again, id="the gate has asked again since"),
    ],
)
def test_what_the_gate_did_not_keep_as_its_last_word_is_no_answer(store, text, before):
    before(store, text)
    with pytest.raises(NotApprovedError, match=r"the gate of run 'elect_preferred_leaders.manual' has no answer"):
        _permission(store)


def test_of_two_answers_the_later_counts(store, text):
    _asked_again(store, text)
    _answered(store, "2", options=["Reject"])
    with pytest.raises(NotApprovedError, match=r"found .*Reject"):
        _permission(store)


def test_nothing_is_answered_that_was_not_asked(store):
    with pytest.raises(ObjectMissingError):
        _answered(store)


def test_an_approval_can_be_withdrawn_until_the_plan_was_begun(store, text):
    _asked(store, text)
    _answered(store)
    what = {"cluster": "alpha", "run": RUN, "by": "otto", "comment": "wrong cluster", "now": NOW}
    begun = _begun(store, text)
    with pytest.raises(RefusedError, match="its plan was begun"):
        approvals.withdraw(store, **what)
    store.delete(begun)
    approvals.withdraw(store, **what)
    with pytest.raises(NotApprovedError, match="'otto' withdrew the approval"):
        _permission(store)
    with pytest.raises(BadInputError, match="the gate of run 'none' of 'alpha' asked nothing"):
        approvals.withdraw(store, **what | {"run": "none"})


def test_what_was_intended_and_refused_was_not_begun(store, text):
    """Nothing was requested: the approval expires, and may be withdrawn."""
    _asked(store, text)
    _answered(store, at="2026-11-01T00:00:00+00:00")
    _begun(store, text, EventKind.INTENDED, EventKind.REFUSED)
    with pytest.raises(NotApprovedError, match="which is more than 12:00:00 ago"):
        _permission(store)
    approvals.withdraw(store, cluster="alpha", run=RUN, by="otto", comment=None, now=NOW)
    with pytest.raises(NotApprovedError, match="'otto' withdrew the approval"):
        _permission(store)


def test_what_was_begun_is_finished_whatever_the_time(store, text):
    _asked(store, text)
    _answered(store, at="2026-11-01T00:00:00+00:00")
    _begun(store, text)
    assert _permission(store).approver == "olivia"


def test_what_was_begun_is_finished_while_airflow_does_not_answer_and_nothing_is_begun_then(store, text):
    def silent(_):
        raise AirflowUnreachableError("no answer")

    _asked(store, text)
    _answered(store)
    what = {"kind": KIND, "cluster": "alpha", "run": RUN, "now": NOW, "policy": NOBODY, "airflow": silent}
    with pytest.raises(AirflowUnreachableError):
        permission(store, **what)
    _begun(store, text)
    assert permission(store, **what).record["airflow"] == "Airflow's own record was not read: no answer"


def test_a_beginning_that_the_chain_does_not_hold_is_none(store, text):
    """Else an object of that name would make an approval count that has expired, or hold up its withdrawal."""
    _asked(store, text)
    _answered(store, at="2026-11-01T00:00:00+00:00")
    store.put(f"v1/receipts/cluster=alpha/{text.plan.digest}/0002-intended.json", b"{}")
    with pytest.raises(UntrustedRecordError, match="the chain holds no such record"):
        _permission(store)
    approvals.withdraw(store, cluster="alpha", run=RUN, by="otto", comment=None, now=NOW)


def test_a_run_that_was_cleared_after_the_approval_applies_nothing_unless_the_policy_lets_others_clear(store, text):
    beginning = {"clears": 0, "began": "2026-11-21T10:00:00+00:00"}
    _asked(store, text, **beginning)
    _answered(store)
    what = {"kind": KIND, "cluster": "alpha", "run": RUN, "now": NOW}
    assert not permission(store, **what, policy=NOBODY, beginning=beginning).record["cleared"]
    for changed in ({"clears": 1}, {"began": "2026-11-21T11:30:00+00:00"}):
        cleared = {**what, "beginning": beginning | changed}
        with pytest.raises(NotApprovedError, match="the run was cleared after its gate had asked"):
            permission(store, **cleared, policy=NOBODY)
        assert permission(store, **cleared, policy=Policy("d", {}, {"others_may_clear": True})).record["cleared"]


def test_a_rejected_plan_is_not_offered_again_unless_the_rejection_is_named(store, text):
    digest = text.plan.digest
    approvals.refuse_rejected(store, "alpha", digest, None)
    _asked(store, text)
    _answered(store, options=["Reject"], comment="not today")
    for after in (None, "another"):
        with pytest.raises(
            RefusedError, match=r"'olivia' rejected it .* in run 'elect_preferred_leaders.manual' \(not today\)"
        ):
            approvals.refuse_rejected(store, "alpha", digest, after)
    approvals.refuse_rejected(store, "alpha", digest, f"another,{RUN}")


def test_no_answer_in_time_is_no_rejection(store, text):
    _asked(store, text)
    _answered(store, user=None, options=["Reject"])
    approvals.refuse_rejected(store, "alpha", text.plan.digest, None)


@pytest.mark.parametrize("name", ["apply", "retention"])
def test_the_writing_tasks_refuse_by_themselves_whatever_started_them(monkeypatch, store, name):
    """A person may clear a skipped task, or run it alone: the answer is checked where the write happens."""
    from importlib import import_module

    from kafka_maintenance import hooks
    from kafka_maintenance.tasks import approval

    tasks = import_module(f"kafka_maintenance.tasks.{name}")
    monkeypatch.setattr(hooks, "store", lambda: store)
    context = {"params": {"cluster": "alpha"}, "dag_run": SimpleNamespace(dag_id=KIND, clear_number=0, start_date=NOW)}
    monkeypatch.setattr(tasks, "context_of_run", lambda: context)
    monkeypatch.setattr(tasks, "run_name", lambda _: RUN)
    monkeypatch.setattr(approval, "run_name", lambda _: RUN)
    with pytest.raises(NotApprovedError, match="has no answer"):
        tasks.apply_plan(KIND).execute(context) if name == "apply" else tasks.remove_snapshots.function()


def test_the_text_is_the_plan_and_ends_with_its_place_and_digest(text):
    assert text.subject == f"{KIND} on alpha: 1 election in 1 step"
    assert "orders-0" in text.body
    assert text.body.splitlines()[-1].startswith(f"Stored as `{text.plan.uri}` with digest `{text.plan.digest}`")


def test_a_plan_that_nobody_would_read_is_not_shown(store, text, monkeypatch):
    from kafka_maintenance.operations.gate import shown

    monkeypatch.setattr(shown, "BODY_LENGTH_MAX", 100)
    with pytest.raises(RefusedError, match=r"expected at most 100 characters to read, found [0-9]+; split the plan"):
        shown.shown(store, kind=KIND, cluster="alpha", digest=text.plan.digest)


def test_each_try_of_a_gate_is_a_question_of_its_own(store, text):
    from kafka_maintenance.tasks.approval import PlanApprovalOperator

    gate = PlanApprovalOperator(task_id="approve", kind=KIND, plan={"digest": text.plan.digest})
    run = SimpleNamespace(dag_id="elect_preferred_leaders", run_id="manual")
    first, second = (
        gate._asked(
            {"ti": SimpleNamespace(id="01a2", try_number=number), "dag_run": run, "params": {"cluster": "alpha"}}
        )
        for number in (1, 2)
    )
    for each, option in ((first, "Approve"), (second, "Reject")):
        _asked(store, text, run=each["run"], ask_id=each["ask_id"])
        assert approvals.asked(store, cluster="alpha", run=RUN).answers == ()
        _answered(store, each["ask_id"], options=[option])
        assert approvals.asked(store, cluster="alpha", run=RUN).answers[0]["options"] == [option]


@pytest.mark.parametrize(
    ("kept", "found"),
    [
        pytest.param((), "found no plan", id="planned before an upgrade, or by hand"),
        pytest.param([("01a2-0001", KIND, "b" * 64)], f"found {KIND} bbbbbbbbbbbb", id="another plan"),
        pytest.param([("01a2-0001", "delete_topics", None)], "found delete_topics ", id="of another kind"),
        pytest.param([("01a2-0001", KIND, None), ("01a2-0002", KIND, "b" * 64)], "found", id="not the last one"),
        pytest.param([("01a2-0002", KIND, "b" * 64), ("01b7-0001", KIND, None)], None, id="the last one, after a clear"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("told", ["as it is", "nothing"])
def test_a_gate_asks_about_the_last_plan_that_its_run_recorded(store, text, kept, found, told):
    from kafka_maintenance.tasks.approval import PlanApprovalOperator

    digest = text.plan.digest
    gate = PlanApprovalOperator(task_id="approve", kind=KIND, plan={"digest": digest} if told == "as it is" else None)
    gate.upstream_task_ids.add("plan_elections")
    for try_id, kind, other in kept:
        approvals.keep_plan(store, cluster="alpha", run=RUN, try_id=try_id, kind=kind, digest=other or digest)
    asked = {"cluster": "alpha", "run": RUN}
    if found is None and told == "as it is":
        assert gate._planned(store, asked) == digest
    else:
        with pytest.raises(
            RefusedError, match=rf"{found or 'expected plan None'}.*clear plan_elections, which plans again"
        ):
            gate._planned(store, asked)


def test_a_plan_in_the_record_of_a_run_that_the_chain_does_not_hold_is_not_asked_about(store, text):
    approvals.keep_plan(store, cluster="alpha", run=RUN, try_id="01a2-0001", kind=KIND, digest=text.plan.digest)
    (key,) = store.list("v1/approvals/")
    store.put(key.replace("0001-planned", "0002-planned"), store.get(key))
    with pytest.raises(UntrustedRecordError, match="the chain holds no such record"):
        approvals.planned(store, cluster="alpha", run=RUN)


@pytest.mark.parametrize("option", ["Approve", "Reject"])
def test_a_gate_that_is_tried_again_after_its_answer_ends_with_that_answer(store, text, monkeypatch, option):
    """The scheduler of Airflow 3.3 may take a gate for lost that was answered."""
    from kafka_maintenance import hooks
    from kafka_maintenance.tasks.approval import PlanApprovalOperator

    monkeypatch.setattr(hooks, "store", lambda: store)
    gate = PlanApprovalOperator(task_id="approve", kind=KIND, plan={"digest": text.plan.digest})
    run = SimpleNamespace(dag_id=KIND, run_id="manual", clear_number=0, start_date=NOW, run_type="manual", conf={})
    context = {"dag_run": run, "params": {"cluster": "alpha"}, "ti": SimpleNamespace(id="01a2", try_number=1)}
    approvals.keep_plan(store, cluster="alpha", run=RUN, try_id="01a1-0001", kind=KIND, digest=text.plan.digest)
    _asked(store, text, ask_id=gate._asked(context)["ask_id"])
    _answered(store, gate._asked(context)["ask_id"], options=[option])
    returned = gate.execute(context | {"ti": SimpleNamespace(id="01a2", try_number=2)})
    assert returned["chosen_options"] == [option]
    assert returned["responded_by_user"]["name"] == "olivia"
    cleared = context | {"ti": SimpleNamespace(id="01b7", try_number=1)}
    assert gate._answered_before(cleared, store, text.plan.digest) is None
