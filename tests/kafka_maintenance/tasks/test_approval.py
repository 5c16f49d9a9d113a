"""What counts as an approval of a plan, and what never does."""

from tests import airflow_home  # isort: skip  # before anything of Airflow

import re
from types import SimpleNamespace

import pytest

from controller_core.model.errors import ObjectMissingError
from kafka_maintenance.operations.errors import BadInputError, RefusedError
from kafka_maintenance.operations.gate import approvals
from kafka_maintenance.operations.gate.permission import NotApprovedError
from kafka_maintenance.operations.gate.policy import Policy
from kafka_maintenance.operations.record.audit import UntrustedRecordError
from kafka_maintenance.tasks.approval import requester_of
from tests.kafka_maintenance.tasks.approving import KIND, NOW, RUN, keep_answered, keep_asked, permitted

assert airflow_home


def test_a_persons_yes_to_this_plan_is_an_approval(store, text):
    keep_asked(store, text)
    keep_answered(store)
    found = permitted(store)
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
    keep_asked(store, text, **asked)
    keep_answered(store, **answer)
    with pytest.raises(NotApprovedError, match=reason) as error:
        permitted(store)
    assert f"{KIND} on 'alpha' not applied" in str(error.value)


def test_who_asked_for_it_does_not_approve_it_alone_where_the_policy_says_so(store, text):
    two = Policy("d", rules={"kinds": {KIND: {"requester_may_approve": False}}}, roles={})
    keep_asked(store, text, requester="olivia")
    keep_answered(store)
    with pytest.raises(NotApprovedError, match="'olivia' asked for it and may not approve it alone"):
        permitted(store, policy=two)
    keep_answered(store, user="otto")
    assert permitted(store, policy=two).approver == "olivia, otto"


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
    keep_asked(store, text, digest="b" * 64)
    keep_answered(store)
    with pytest.raises(BadInputError, match="has no elect_preferred_leaders plan of 'alpha' with digest bbbbbbbbbbbb"):
        permitted(store)


def _of_another_run(store, text):
    keep_asked(store, text, run="another")
    keep_answered(store, run="another")


def _of_another_cluster(store, text):
    keep_asked(store, text, cluster="beta")
    keep_answered(store, cluster="beta")


def _asked_again(store, text):
    keep_asked(store, text, "1")
    keep_answered(store, "1")
    keep_asked(store, text, "2")


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(lambda *_: None, id="the gate was skipped"),
        pytest.param(_of_another_run, id="the answer of another run"),
        pytest.param(_of_another_cluster, id="the answer for another cluster"),
        pytest.param(_asked_again, id="the gate has asked again since"),
    ],
)
def test_what_the_gate_did_not_keep_as_its_last_word_is_no_answer(store, text, before):
    before(store, text)
    with pytest.raises(NotApprovedError, match=r"the gate of run 'elect_preferred_leaders.manual' has no answer"):
        permitted(store)


def test_of_two_answers_the_later_counts(store, text):
    _asked_again(store, text)
    keep_answered(store, "2", options=["Reject"])
    with pytest.raises(NotApprovedError, match=r"found .*Reject"):
        permitted(store)


def test_nothing_is_answered_that_was_not_asked(store):
    with pytest.raises(ObjectMissingError):
        keep_answered(store)


def test_a_rejected_plan_is_not_offered_again_unless_the_rejection_is_named(store, text):
    digest = text.plan.digest
    approvals.refuse_rejected(store, "alpha", digest, None)
    keep_asked(store, text)
    keep_answered(store, options=["Reject"], comment="not today")
    for after in (None, "another"):
        with pytest.raises(
            RefusedError, match=r"'olivia' rejected it .* in run 'elect_preferred_leaders.manual' \(not today\)"
        ):
            approvals.refuse_rejected(store, "alpha", digest, after)
    for named in (f"another,{RUN}", f"another, {RUN} "):
        approvals.refuse_rejected(store, "alpha", digest, named)


@pytest.mark.parametrize("comment", [7, ["no"], {"why": "no"}])
def test_a_rejection_holds_whatever_its_comment_is(store, text, comment):
    """Airflow's API takes an answer whose comment is no text."""
    keep_asked(store, text)
    keep_answered(store, options=["Reject"], comment=comment)
    with pytest.raises(RefusedError, match=f"'olivia' rejected it .*{re.escape(str(comment))}"):
        approvals.refuse_rejected(store, "alpha", text.plan.digest, None)


def test_no_answer_in_time_is_no_rejection(store, text):
    keep_asked(store, text)
    keep_answered(store, user=None, options=["Reject"])
    approvals.refuse_rejected(store, "alpha", text.plan.digest, None)
    assert list(approvals.rejections(store, "alpha", text.plan.digest)) == []


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
        keep_asked(store, text, run=each["run"], ask_id=each["ask_id"])
        assert approvals.asked(store, cluster="alpha", run=RUN).answers == ()
        keep_answered(store, each["ask_id"], options=[option])
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
    keep_asked(store, text, ask_id=gate._asked(context)["ask_id"])
    keep_answered(store, gate._asked(context)["ask_id"], options=[option])
    returned = gate.execute(context | {"ti": SimpleNamespace(id="01a2", try_number=2)})
    assert returned["chosen_options"] == [option]
    assert returned["responded_by_user"]["name"] == "olivia"
    cleared = context | {"ti": SimpleNamespace(id="01b7", try_number=1)}
    assert gate._answered_before(cleared, store, text.plan.digest) is None
