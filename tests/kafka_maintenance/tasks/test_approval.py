"""What counts as an approval of a plan, and what never does."""

from tests import airflow_home  # isort: skip  # before anything of Airflow

from types import SimpleNamespace

import pytest

assert airflow_home

PLAN = {
    "kind": "elect_preferred_leaders",
    "cluster": "alpha",
    "uri": "/store/v1/plans/x.json",
    "digest": "a" * 64,
    "summary": "1 election",
    "markdown": "| orders-0 |",
}
RUN = "elect_preferred_leaders.manual"
ANSWER = {
    "chosen_options": ["Approve"],
    "params_input": {"comment": "window"},
    "responded_by_user": {"id": "7", "name": "olivia"},
}


@pytest.fixture
def store():
    from controller_core.adapters.object_store.open import MemoryStore

    return MemoryStore()


def _asked(store, ask_id="1", digest=PLAN["digest"], run=RUN):
    from kafka_maintenance.operations.apply.approvals import keep_question

    keep_question(store, cluster="alpha", run=run, ask_id=ask_id, digest=digest)


def _answered(store, ask_id="1", run=RUN, **changed):
    """What the gate returns, after it was asked and answered."""
    from kafka_maintenance.operations.apply.approvals import keep_answer

    answer = ANSWER | changed
    return answer | {"kept": keep_answer(store, cluster="alpha", run=run, ask_id=ask_id, answer=answer)}


def test_a_persons_yes_to_this_plan_is_an_approval(store):
    from kafka_maintenance.tasks.approval import Approval, approved

    _asked(store)
    approval = approved(PLAN, _answered(store), store=store, run=RUN)
    assert approval == Approval(digest="a" * 64, approver="olivia", comment="window")


@pytest.mark.parametrize(
    ("answer", "digest", "reason"),
    [
        pytest.param({"chosen_options": ["Reject"]}, "a" * 64, r"found \['Reject'\]", id="rejected, skip was cleared"),
        pytest.param({"chosen_options": []}, "a" * 64, r"found \[\]", id="nothing chosen"),
        pytest.param(
            {"chosen_options": ["Approve", "Reject"]}, "a" * 64, "expected the answer Approve", id="both chosen"
        ),
        pytest.param({"responded_by_user": None}, "a" * 64, "nobody answered within the time", id="time ran out"),
        pytest.param({}, None, "approved digest None", id="no plan was shown"),
        pytest.param({}, "b" * 64, "approved digest 'bbbbbbbbbbbb'", id="planned again after the answer"),
    ],
)
def test_anything_else_is_none(store, answer, digest, reason):
    from kafka_maintenance.tasks.approval import NotApprovedError, approved

    _asked(store, digest=digest)
    with pytest.raises(NotApprovedError, match=reason) as error:
        approved(PLAN, _answered(store, **answer), store=store, run=RUN)
    assert "plan /store/v1/plans/x.json not applied" in str(error.value)


def _by_hand(store):
    return ANSWER | {"digest": PLAN["digest"]}


def _of_another_run(store):
    _asked(store, run="another")
    return _answered(store, run="another")


def _asked_again(store):
    _asked(store, "1")
    earlier = _answered(store, "1")
    _asked(store, "2")
    return earlier


def _rejected_then(store):
    earlier = _asked_again(store)
    _answered(store, "2", chosen_options=["Reject"])
    return earlier


def _question_for_an_answer(store):
    _asked(store)
    (key,) = store.list("v1/approvals/")
    return ANSWER | {"kept": store.uri_of(key)}


@pytest.mark.parametrize(
    "returned",
    [
        pytest.param(lambda _: None, id="the gate was skipped"),
        pytest.param(lambda _: {}, id="the gate returned nothing"),
        pytest.param(_by_hand, id="written into Airflow by hand"),
        pytest.param(_of_another_run, id="the answer of another run"),
        pytest.param(_asked_again, id="the gate has asked again since"),
        pytest.param(_rejected_then, id="asked again, and rejected"),
        pytest.param(_question_for_an_answer, id="a question passed off as its answer"),
    ],
)
def test_what_the_gate_did_not_keep_as_its_last_word_is_no_answer(store, returned):
    """Who may edit XComs and task instances could else approve in another person's name."""
    from kafka_maintenance.tasks.approval import NotApprovedError, approved

    with pytest.raises(NotApprovedError, match=r"the gate has no answer|expected the answer Approve, found None"):
        approved(PLAN, returned(store), store=store, run=RUN)


def test_an_answer_is_kept_once(store):
    from controller_core.model.errors import ObjectExistsError, ObjectMissingError

    with pytest.raises(ObjectMissingError):
        _answered(store)  # nothing was asked
    _asked(store)
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
    monkeypatch.setattr(tasks, "context_of_run", dict)
    monkeypatch.setattr(tasks, "run_name", lambda _: RUN)
    with pytest.raises(NotApprovedError, match="the gate has no answer"):
        getattr(tasks, function).function(PLAN, ANSWER | {"digest": PLAN["digest"]})


def test_the_body_is_the_plan_and_ends_with_its_place_and_digest():
    from kafka_maintenance.tasks.approval import body

    plan, empty, last = body(PLAN).splitlines()
    assert (plan, empty) == ("| orders-0 |", "")
    assert last.startswith(f"Stored as `/store/v1/plans/x.json` with digest `{'a' * 64}`")


def test_a_long_plan_is_cut_and_says_where_all_of_it_is():
    from kafka_maintenance.tasks.approval import BODY_LENGTH_MAX, body

    text = body(PLAN | {"markdown": "x" * (BODY_LENGTH_MAX + 5)})
    assert f"… cut after {BODY_LENGTH_MAX} of {BODY_LENGTH_MAX + 5} characters; the tab Plan shows all." in text
    assert "a" * 64 in text


def test_each_try_of_a_gate_is_a_question_of_its_own(store):
    from kafka_maintenance.operations.apply.approvals import keep_answer, keep_question, kept_answer
    from kafka_maintenance.tasks.approval import PlanApprovalOperator

    gate = PlanApprovalOperator(task_id="approve", plan=PLAN)
    run = SimpleNamespace(dag_id="elect_preferred_leaders", run_id="manual")
    first, second = (
        gate._asked({"ti": SimpleNamespace(id="01a2", try_number=number), "dag_run": run}) for number in (1, 2)
    )
    keep_question(store, digest="a" * 64, **first)
    lost = keep_answer(store, answer=ANSWER, **first)
    keep_question(store, digest="a" * 64, **second)
    assert kept_answer(store, cluster="alpha", run=RUN, uri=lost) is None
    kept = keep_answer(store, answer=ANSWER | {"chosen_options": ["Reject"]}, **second)
    found = kept_answer(store, cluster="alpha", run=RUN, uri=kept)
    assert found is not None
    assert found["chosen_options"] == ["Reject"]
