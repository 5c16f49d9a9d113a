"""What Airflow's API says of a run, read and compared with our record."""

import json
from datetime import UTC, datetime

import pytest

from kafka_maintenance.operations.gate.airflow_record import cleared_by_others, disagreement, record_from
from kafka_maintenance.operations.gate.approvals import Asked

SINCE = datetime(2026, 11, 21, 12, tzinfo=UTC)
LATER, EARLIER = "2026-11-21T12:00:01Z", "2026-11-21T11:59:59Z"
DETAIL = {
    "responded_by_user": {"id": "7", "name": "olivia"},
    "chosen_options": ["Approve"],
    "params_input": {"comment": "window"},
    "responded_at": "2026-11-21T12:00:00Z",
}


def event(name="clear_dag_run", *, dag="d", run="r", when=LATER, owner="ada", **body):
    extra = json.dumps(body)
    return {"event": name, "dag_id": dag, "run_id": run, "task_id": None, "when": when, "owner": owner, "extra": extra}


def answered(owner, run="r"):
    return event("update_hitl_detail", owner=owner, run=run, when=EARLIER, chosen_options=["Approve"])


def one_try(number, *, max_tries=2, end=None):
    return {"try_number": number, "max_tries": max_tries, "end_date": end and f"2026-11-21T{end}Z"}


FIRST = (one_try(1),)


def said(*events, detail=DETAIL, tries=FIRST):
    return record_from(detail, events, tries, dag="d", run="r", since=SINCE)


def found(*users, **changed):
    answers = [
        {"user": user, "options": ["Approve"], "comment": "window", "responded_at": "2026-11-21T13:00:00+01:00"}
        for user in users
    ]
    return Asked("1", {}, (*answers[:-1], answers[-1] | changed), None)


@pytest.mark.parametrize(
    ("clear", "counts"),
    [
        pytest.param(event(), True, id="the run"),
        pytest.param(event(when=EARLIER), False, id="before the answer"),
        pytest.param(event(run="another"), False, id="another run"),
        pytest.param(event(dag="another"), False, id="a run of that name of another DAG"),
        pytest.param(event("get_dag"), False, id="nothing that changes a run"),
        pytest.param(
            event("clear_dag_runs", run=None, dag_runs=[{"dag_run_id": "r"}]), True, id="several, this one among them"
        ),
        pytest.param(
            event("clear_dag_runs", run=None, dag="~", dag_runs=[{"dag_id": "d", "dag_run_id": "r"}]),
            True,
            id="several of several DAGs",
        ),
        pytest.param(event("clear_dag_runs", run=None, dag_runs=[{"dag_run_id": "rr"}]), False, id="several others"),
        pytest.param(event("clear_dag_runs", run=None, dag_runs=[{"dag_run_id": "r"}], dry_run=True), False, id="dry"),
        pytest.param(
            event("post_clear_task_instances", run=None, start_date="2026-11-01"), True, id="by dates: it may be"
        ),
        pytest.param(event("clear_dag_runs", run=None, dag="another"), False, id="all of another DAG"),
    ],
)
def test_who_cleared_the_run_since_its_answer(clear, counts):
    assert [each.user for each in said(clear).changes] == (["ada"] if counts else [])


@pytest.mark.parametrize(
    ("tries", "ended"),
    [
        pytest.param(FIRST, None, id="the first"),
        pytest.param([one_try(1, end="12:30:00"), one_try(2)], None, id="a retry"),
        pytest.param([one_try(2, max_tries=3), one_try(1, end="12:30:00")], "12:30:00", id="a clear"),
        pytest.param(
            [one_try(1, end="12:30:00"), one_try(2, max_tries=3, end="12:40:00"), one_try(3, max_tries=3)],
            "12:30:00",
            id="a retry after a clear",
        ),
        pytest.param(
            [one_try(1, end="12:30:00"), one_try(2, max_tries=3, end="12:40:00"), one_try(3, max_tries=4)],
            "12:40:00",
            id="two clears",
        ),
        pytest.param([one_try(1, end="11:30:00"), one_try(2, max_tries=3)], None, id="a clear before the answer"),
    ],
)
def test_a_clear_gives_the_task_more_tries_and_a_retry_does_not(tries, ended):
    found = said(tries=tries).ended
    assert (found and f"{found:%H:%M:%S}") == ended


CLEARED_ONCE = (one_try(1, end="12:30:00"), one_try(2, max_tries=3))
BEFORE, AFTER = "2026-11-21T12:29:00Z", "2026-11-21T12:31:00Z"


@pytest.mark.parametrize(
    ("requests", "clears", "who"),
    [
        pytest.param([event(when=AFTER, owner="olivia")], 1, None, id="the approver"),
        pytest.param([event(when=AFTER, owner="otto")], 1, None, id="the other approver"),
        pytest.param([event(when=AFTER, owner="olivia")], 0, None, id="the approver, while the run went on"),
        pytest.param(
            [event(when=AFTER, owner="victor"), event(when=AFTER, owner="olivia")], 1, None, id="and refused to another"
        ),
        pytest.param([event(when=AFTER)], 1, "'ada'", id="another"),
        pytest.param([event(when=AFTER), event(when=AFTER, owner="bea")], 1, "'ada' or 'bea'", id="one of two others"),
        pytest.param([], 0, "somebody", id="unseen"),
        pytest.param([event(when=BEFORE, owner="olivia")], 1, "somebody", id="unseen, after a clear of the approver"),
        pytest.param([event(when=AFTER, owner="olivia")], 2, "somebody", id="once more than the approver did"),
        pytest.param(
            [event("patch_dag_run", when=AFTER, owner="olivia", state="failed")],
            1,
            "somebody",
            id="unseen, after the approver ended the run",
        ),
    ],
)
def test_a_run_that_was_cleared_is_to_have_been_cleared_by_an_approver(requests, clears, who):
    told = cleared_by_others(found("otto", "olivia"), said(*requests, tries=CLEARED_ONCE), clears)
    assert told is None if who is None else f"{who} cleared or changed the run afterwards" in told


@pytest.mark.parametrize(
    ("ours", "differs"),
    [
        pytest.param({}, None, id="the same"),
        pytest.param({"user": "ada"}, "another user:", id="user"),
        pytest.param({"options": ["Reject"]}, "another options:", id="option"),
        pytest.param({"comment": "other"}, "another comment:", id="comment"),
        pytest.param({"responded_at": "2026-11-21T12:00:01Z"}, "another time:", id="time"),
        pytest.param({"responded_at": None}, "another time:", id="no time"),
        pytest.param({"rule": {"name": "x"}}, None, id="a rule, and nobody was asked"),
    ],
)
def test_the_last_answer_is_airflows_in_each_part(ours, differs):
    problem = disagreement(found("olivia", **ours), said(answered("olivia"), answered("ada")))
    assert problem is None if differs is None else differs in problem


def test_each_earlier_approver_has_answered_in_airflow_too():
    assert disagreement(found("ada", "olivia"), said(answered("olivia"), answered("ada"))) is None
    one = said(answered("olivia"), answered("ada", run="another"))
    assert disagreement(found("ada", "olivia"), one) == "Airflow's audit log has no answer Approve of ada in this run"


def test_where_airflow_has_no_answer_there_is_none():
    assert "another user, options, comment, time" in disagreement(found("olivia"), said(detail=None))
