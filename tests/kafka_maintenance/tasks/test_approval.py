"""What counts as an approval of a plan, and what never does."""

from tests import airflow_home  # isort: skip  # before anything of Airflow

from datetime import UTC, datetime
from types import SimpleNamespace

import pytest

assert airflow_home

RUN = "elect_preferred_leaders.manual"
KIND = "elect_preferred_leaders"
ANSWER = {
    "chosen_options": ["Approve"],
    "params_input": {"comment": "window"},
    "responded_by_user": {"id": "7", "name": "olivia"},
}


@pytest.fixture
def store():
    from controller_core.adapters.object_store.open import MemoryStore

    return MemoryStore()


@pytest.fixture
def text(store):
    """What the gate shows of a stored plan of one election on `alpha`."""
    from kafka_maintenance.operations.apply.shown import shown
    from kafka_maintenance.operations.plans.make import plan_elections
    from tests.dags.world import World

    made = plan_elections(store, "alpha", zookeeper=World().zookeeper, now=datetime(2026, 11, 21, tzinfo=UTC))
    return shown(store, kind=KIND, cluster="alpha", digest=made.digest)


def _asked(store, text, ask_id="1", run=RUN, **changed):
    from kafka_maintenance.operations.apply.approvals import keep_question

    question = {"kind": KIND, "digest": text.plan.digest, "shown": text.digest, "cluster": "alpha"} | changed
    keep_question(store, run=run, ask_id=ask_id, **question)


def _answered(store, ask_id="1", run=RUN, cluster="alpha", **changed):
    from kafka_maintenance.operations.apply.approvals import keep_answer

    return keep_answer(store, cluster=cluster, run=run, ask_id=ask_id, answer=ANSWER | changed)


def test_a_persons_yes_to_this_plan_is_an_approval(store, text):
    from kafka_maintenance.tasks.approval import Approval, approved

    _asked(store, text)
    _answered(store)
    assert approved(KIND, "alpha", store=store, run=RUN) == Approval(shown=text, approver="olivia", comment="window")


@pytest.mark.parametrize(
    ("answer", "asked", "reason"),
    [
        pytest.param({"chosen_options": ["Reject"]}, {}, r"found \['Reject'\]", id="rejected, skip was cleared"),
        pytest.param({"chosen_options": []}, {}, r"found \[\]", id="nothing chosen"),
        pytest.param({"chosen_options": ["Approve", "Reject"]}, {}, "expected the answer Approve", id="both chosen"),
        pytest.param({"responded_by_user": None}, {}, "nobody answered within the time", id="time ran out"),
        pytest.param({}, {"kind": "delete_topics"}, "showed a plan of kind 'delete_topics'", id="of another kind"),
        pytest.param({}, {"shown": "b" * 64}, "was 'bbbbbbbbbbbb' when it was approved", id="another text was shown"),
    ],
)
def test_anything_else_is_none(store, text, answer, asked, reason):
    from kafka_maintenance.tasks.approval import NotApprovedError, approved

    _asked(store, text, **asked)
    _answered(store, **answer)
    with pytest.raises(NotApprovedError, match=reason) as error:
        approved(KIND, "alpha", store=store, run=RUN)
    assert f"{KIND} on 'alpha' not applied" in str(error.value)


def test_an_approved_digest_without_such_a_plan_is_refused(store, text):
    from kafka_maintenance.operations.errors import BadInputError
    from kafka_maintenance.tasks.approval import approved

    _asked(store, text, digest="b" * 64)
    _answered(store)
    with pytest.raises(BadInputError, match="has no elect_preferred_leaders plan of 'alpha' with digest bbbbbbbbbbbb"):
        approved(KIND, "alpha", store=store, run=RUN)


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
    from kafka_maintenance.tasks.approval import NotApprovedError, approved

    before(store, text)
    with pytest.raises(NotApprovedError, match=r"the gate of run 'elect_preferred_leaders.manual' has no answer"):
        approved(KIND, "alpha", store=store, run=RUN)


def test_of_two_answers_the_later_counts(store, text):
    from kafka_maintenance.tasks.approval import NotApprovedError, approved

    _asked_again(store, text)
    _answered(store, "2", chosen_options=["Reject"])
    with pytest.raises(NotApprovedError, match=r"found \['Reject'\]"):
        approved(KIND, "alpha", store=store, run=RUN)


def test_an_answer_is_kept_once(store, text):
    from controller_core.model.errors import ObjectExistsError, ObjectMissingError

    with pytest.raises(ObjectMissingError):
        _answered(store)  # nothing was asked
    _asked(store, text)
    assert _answered(store) == _answered(store)  # a repeated put
    with pytest.raises(ObjectExistsError):
        _answered(store, responded_by_user={"id": "8", "name": "ada"})


@pytest.mark.parametrize("kind", ["apply.apply_plan", "retention.remove_snapshots"])
def test_the_writing_tasks_refuse_by_themselves_whatever_started_them(monkeypatch, store, kind):
    """A person may clear a skipped task, or run it alone: the answer is checked where the write happens."""
    from importlib import import_module

    from kafka_maintenance import hooks
    from kafka_maintenance.tasks.approval import NotApprovedError

    name, function = kind.split(".")
    tasks = import_module(f"kafka_maintenance.tasks.{name}")
    monkeypatch.setattr(hooks, "store", lambda: store)
    monkeypatch.setattr(tasks, "context_of_run", lambda: {"params": {"cluster": "alpha"}})
    monkeypatch.setattr(tasks, "run_name", lambda _: RUN)
    with pytest.raises(NotApprovedError, match="has no answer"):
        getattr(tasks, function).function(*([KIND] if name == "apply" else []))


def test_the_text_is_the_plan_and_ends_with_its_place_and_digest(text):
    assert text.subject == f"{KIND} on alpha: 1 election in 1 step"
    assert "orders-0" in text.body
    assert text.body.splitlines()[-1].startswith(f"Stored as `{text.plan.uri}` with digest `{text.plan.digest}`")


def test_a_plan_that_nobody_would_read_is_not_shown(store, text, monkeypatch):
    from kafka_maintenance.operations.apply import shown
    from kafka_maintenance.operations.errors import RefusedError

    monkeypatch.setattr(shown, "BODY_LENGTH_MAX", 100)
    with pytest.raises(RefusedError, match=r"expected at most 100 characters to read, found [0-9]+; split the plan"):
        shown.shown(store, kind=KIND, cluster="alpha", digest=text.plan.digest)


def test_each_try_of_a_gate_is_a_question_of_its_own(store, text):
    from kafka_maintenance.operations.apply.approvals import last_answer
    from kafka_maintenance.tasks.approval import PlanApprovalOperator

    gate = PlanApprovalOperator(task_id="approve", kind=KIND, plan={"digest": text.plan.digest})
    run = SimpleNamespace(dag_id="elect_preferred_leaders", run_id="manual")
    first, second = (
        gate._asked(
            {"ti": SimpleNamespace(id="01a2", try_number=number), "dag_run": run, "params": {"cluster": "alpha"}}
        )
        for number in (1, 2)
    )
    for asked, option in ((first, "Approve"), (second, "Reject")):
        _asked(store, text, run=asked["run"], ask_id=asked["ask_id"])
        assert last_answer(store, cluster="alpha", run=RUN) is None
        _answered(store, asked["ask_id"], chosen_options=[option])
        found = last_answer(store, cluster="alpha", run=RUN)
        assert found is not None
        assert found["chosen_options"] == [option]
