"""What counts as an approval of a plan, and what never does."""

from tests import airflow_home  # isort: skip  # before anything of Airflow

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
ANSWER = {
    "chosen_options": ["Approve"],
    "params_input": {"comment": "window"},
    "responded_by_user": {"id": "7", "name": "olivia"},
    "digest": "a" * 64,
}


def test_a_persons_yes_to_this_plan_is_an_approval():
    from kafka_maintenance.approval import Approval, approved

    assert approved(PLAN, ANSWER) == Approval(digest="a" * 64, approver="olivia", comment="window")


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        pytest.param(None, "the gate has no answer", id="the gate was skipped"),
        pytest.param({}, "the gate has no answer", id="the gate returned nothing"),
        pytest.param(
            ANSWER | {"chosen_options": ["Reject"]}, r"found \['Reject'\]", id="rejected, and the skip was cleared"
        ),
        pytest.param(ANSWER | {"chosen_options": []}, r"found \[\]", id="nothing chosen"),
        pytest.param(
            ANSWER | {"chosen_options": ["Approve", "Reject"]}, "expected the answer Approve", id="both chosen"
        ),
        pytest.param(ANSWER | {"responded_by_user": None}, "nobody answered within the time", id="time ran out"),
        pytest.param(ANSWER | {"digest": None}, "approved digest None", id="no plan was shown"),
        pytest.param(
            ANSWER | {"digest": "b" * 64}, "approved digest 'bbbbbbbbbbbb'", id="planned again after the answer"
        ),
    ],
)
def test_anything_else_is_none(answer, reason):
    from kafka_maintenance.approval import NotApprovedError, approved

    with pytest.raises(NotApprovedError, match=reason) as error:
        approved(PLAN, answer)
    assert "plan /store/v1/plans/x.json not applied" in str(error.value)


def test_the_writing_task_refuses_by_itself_whatever_started_it():
    """A person may clear a skipped task, or run it alone: the answer is checked where the write happens."""
    from kafka_maintenance.approval import NotApprovedError
    from kafka_maintenance.tasks.apply import apply_plan

    with pytest.raises(NotApprovedError, match="expected the answer Approve"):
        apply_plan.function(PLAN, ANSWER | {"chosen_options": ["Reject"]})


def test_the_body_is_the_plan_and_ends_with_its_place_and_digest():
    from kafka_maintenance.approval import body

    plan, empty, last = body(PLAN).splitlines()
    assert (plan, empty) == ("| orders-0 |", "")
    assert last.startswith(f"Stored as `/store/v1/plans/x.json` with digest `{'a' * 64}`")


def test_a_long_plan_is_cut_and_says_where_all_of_it_is():
    from kafka_maintenance.approval import BODY_LENGTH_MAX, body

    text = body(PLAN | {"markdown": "x" * (BODY_LENGTH_MAX + 5)})
    assert f"… cut after {BODY_LENGTH_MAX} of {BODY_LENGTH_MAX + 5} characters; the tab Plan shows all." in text
    assert "a" * 64 in text
