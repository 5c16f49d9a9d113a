"""The demo's move under a throttle tells what happened, and what did not; the move itself is held by `tests/dags/live/test_e2e.py`."""

from types import SimpleNamespace

import pytest

from kafka_maintenance.demo.brakes import show_brakes
from kafka_maintenance.demo.progress import Progress
from kafka_maintenance.demo.throttled_move import RejectedMoveError, ThrottledMove
from kafka_maintenance.servers.errors import LocalStackError

ASKED, STOPPED, SECOND, OVER, DONE = ("requested", 0), ("stopped", 0), ("requested", 1), ("over", 1), ("done", None)


class Recorded:
    """A move whose record grows by one part each time that it is waited for, stopped or cancelled."""

    def __init__(self, *parts, replicas, comment="yes", config=b"{}", lost=0):
        self.parts, self.record, self.comment = list(parts), [], comment
        self.replicas, self.broker_config, self.lost = lambda: replicas, lambda: config, lambda: lost
        self.stack = SimpleNamespace(airflow=SimpleNamespace(url="http://airflow"))
        self.approver, self.messages = SimpleNamespace(user="ann"), {0: 3, 1: 4}

    def ask(self):
        return SimpleNamespace(subject="move 2 replicas", page="/gate")

    def events(self):
        return self.record

    def wait(self, done, what):
        self.record += self.parts.pop(0)
        assert done(), what

    def stop(self, reason):
        self.record += self.parts.pop(0)

    cancel = stop

    def wait_end(self):
        return "success"


def shown(move, *, cancels=True):
    progress = Progress(cancels=cancels)
    show_brakes(move, progress, cancels=cancels)
    assert move.parts == []
    return progress


def test_a_whole_move_is_counted():
    cancelled = shown(Recorded([ASKED], [STOPPED], [SECOND], [OVER], replicas={0: {1, 3}, 1: {1, 2}}))
    assert "1 throttled move stopped in mid-wave, resumed, its second wave cancelled," in cancelled.closing_line()
    finished = shown(Recorded([ASKED], [STOPPED], [SECOND], [DONE], replicas={0: {1, 3}, 1: {2, 3}}), cancels=False)
    assert "1 throttled move stopped in mid-wave, resumed, finished," in finished.closing_line()
    assert [*cancelled.faults, *finished.faults] == []


def test_what_was_not_as_it_should_be_is_not_counted_or_named(capsys):
    move = Recorded(
        [ASKED], [], [ASKED, SECOND], [], replicas={0: {1, 3}, 1: {2, 3}}, comment=None, config=b"throttled", lost=2
    )
    progress = shown(move)
    assert [text for text in progress.missing() if "move" in text or "wave" in text] == [
        "moves_stopped: expected 1, found 0",
        "moves_resumed: expected 1, found 0",
        "waves_cancelled: expected 1, found 0",
    ]
    assert [fault.partition(" ")[0] for fault in progress.faults] == [
        "stop_execution:",
        "the",
        "cancel_execution:",
        "a",
    ]
    assert progress.faults[-1] == "a throttle was left on broker 3; lost: 2 messages"
    assert "approve it as ann: http://airflow/gate" in capsys.readouterr().out


class Answered:
    """Airflow's API for a run that is in a state, with an answer to its gate, and a log."""

    def __init__(self, *, state="running", answer="Approve"):
        self.state, self.answer, self.answered = state, answer, []

    def answer_all(self, dag_id, run_id, option, *, comment):
        self.answered.append((option, comment))

    def last_answer(self, dag_id, run_id):
        return {"chosen_options": [self.answer]}

    def run(self, dag_id, run_id):
        return {"state": self.state}

    def failures(self, dag_id, run_id):
        return "no controller"

    def task_log(self, dag_id, run_id, task_id):
        return f"t INFO starts\nt INFO plan {'a' * 12} on 'demo', step 1 of 2: 1 of 3 MB copied dag_id=d run_id=r"

    def wait_for(self, condition, *, what, timeout_s):
        assert condition() or condition(), what


def waited(api, done, *, comment="yes"):
    """What is told of a move's run while it is waited for."""
    move, told = ThrottledMove.__new__(ThrottledMove), []
    move.operator = move.approver = api
    move.digest, move.run_id, move.comment, move._tell, move._told = "a" * 64, "r", comment, told.append, set()
    move.wait(done, "it is so")
    return told


def test_each_line_of_a_run_is_told_once_and_gates_are_answered_where_nobody_sits():
    api, looks = Answered(), iter([False, True])
    assert waited(api, lambda: next(looks)) == [f"plan {'a' * 12} on 'demo', step 1 of 2: 1 of 3 MB copied"]
    assert api.answered == [("Approve", "yes")] * 2
    person = Answered()
    waited(person, lambda: True, comment=None)
    assert person.answered == []


def test_a_move_that_a_person_rejects_or_that_fails_is_told_apart():
    with pytest.raises(RejectedMoveError, match="the plan was rejected"):
        waited(Answered(answer="Reject"), lambda: False)
    with pytest.raises(LocalStackError, match="the run failed before\nno controller"):
        waited(Answered(state="failed"), lambda: False)
