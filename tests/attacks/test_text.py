"""Boundary: who may name topics, write configs or store a plan, against what an approver reads; and who writes comments and
reasons, against who reads records, logs and messages later.
"""

import json
from datetime import UTC, datetime

import pytest
from msgspec import structs

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.plans.kinds import deletions_plan
from controller_core.plans.observation import TopicIdentity
from controller_core.plans.plan import LeftOut
from controller_core.plans.text import plan_markdown
from kafka_maintenance.operations.apply.executions import LeftBehind, request_stop, timeline
from kafka_maintenance.operations.apply.plan import _requested
from kafka_maintenance.operations.errors import RefusedError
from kafka_maintenance.operations.gate import approvals
from kafka_maintenance.operations.record.departures import Departure, record_departure, refuse_departed
from kafka_maintenance.operations.record.receipts import Event, EventKind
from kafka_maintenance.operations.snapshots.pins import pins
from tests.controller_core.plans.observed import ORIGIN, planned, seen
from tests.dags.policies import policy
from tests.dags.runs import answered_by, answering, run_plan

__all__ = ["policy"]

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)

HOSTILE = [
    pytest.param("<!-- the rest is hidden", id="an HTML comment"),
    pytest.param("x` approved", id="backticks"),
    pytest.param("x\n## Nothing is deleted\n", id="a heading of its own"),
    pytest.param("x\n```\n\n| 1 | `harmless` |", id="the end of a block"),
    pytest.param("\x1b[2J\x1b[1;1Hnothing to do", id="ESC sequences"),
    pytest.param("\u202egniteled ton", id="right to left"),
    pytest.param("y" * 10_000, id="10,000 characters"),
]


@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_stranger_hides_or_forges_a_line(text):
    honest = planned(deletions_plan(seen(), ORIGIN, ["b"]))
    lines = plan_markdown(honest).count("\n")
    hostile = structs.replace(honest, predicted=(text,), risks=(text, text), left_out=(LeftOut(text, text),))
    shown = plan_markdown(hostile)
    assert shown.count("\n") <= lines + 4
    assert all(letter.isprintable() or letter == "\n" for letter in shown)
    for line in shown.split("\n"):
        assert line.count("`") % 2 == 0 or line == "```"
        outside = "".join(line.split("`")[::2])
        assert "<" not in outside
        assert "approved" not in outside
        assert len(line) < 5_000


def test_of_a_thousand_deletions_not_one_is_hidden():
    topics = {f"t{number}": TopicIdentity(number, 1) for number in range(1_000)}
    shown = plan_markdown(planned(deletions_plan(seen(topics=topics), ORIGIN, sorted(topics))))
    assert all(f"`{name}`" in shown for name in topics)
    assert "1000 **topics DELETED with their data**" in shown.split("## What will change")[0]


def _comment_of_an_approver(store, text):
    return timeline([Event(EventKind.STARTED, None, "2026-11-21", "r", "ann", {"comment": text, "kind": "x"})])


def _reason_to_stop(store, text):
    row = {"topic": "orders", "partition": 0}
    detail = {"reason": text, "reasons": [text, text], "left_out": [{**row, "topic": text}]}
    return timeline([Event(EventKind.STOPPED, 0, "2026-11-21", "r", "ann", detail)])


def _rejection(store, text):
    asked = {"cluster": "alpha", "run": "r", "ask_id": "1"}
    question = {"kind": "x", "digest": "a" * 64, "shown": "b" * 64}
    approvals.keep_question(store, **asked, question=question)
    answer = {"user": "ann", "options": ["Reject"], "comment": text, "at": "2026-11-21"}
    approvals.keep_answer(store, **asked, answer=answer)
    with pytest.raises(RefusedError) as refused:
        approvals.refuse_rejected(store, "alpha", "a" * 64, None)
    return [str(refused.value)]


def _wish_to_stop(store, text):
    request_stop(store, "alpha", "a" * 64, by=text, reason=text, now=NOW)
    return [_requested(store, "alpha", "a" * 64, ())]


def _departure(store, text):
    record_departure(store, Departure("alpha", "ann", text, NOW.isoformat(), "s"))
    with pytest.raises(RefusedError) as refused:
        refuse_departed(store, "alpha")
    return [str(refused.value)]


def _pin(store, text):
    store.put("v1/pins/cluster=alpha/s.json", json.dumps({"reason": text, "by": text}).encode())
    return pins(store, "alpha").values()


def _data_of_a_lock(store, text):
    return [LeftBehind((("/admin/lock", 0, text),), (), "d").text]


@pytest.mark.parametrize("text", HOSTILE)
@pytest.mark.parametrize(
    "told",
    [_comment_of_an_approver, _reason_to_stop, _rejection, _wish_to_stop, _departure, _pin, _data_of_a_lock],
)
def test_no_comment_of_a_person_hides_or_forges_a_line_of_a_terminal(told, text):
    for line in told(MemoryStore(), text):
        assert line.isprintable()
        assert len(line) < 10_000


def test_no_comment_of_an_approver_hides_or_forges_a_line_of_a_log(bag, clients, world, plan, policy, caplog):
    policy(break_glass={"users": ["olivia"]})
    hostile = "break glass: the disk is full\n2026-11-21 refused by ada \x1b[8m"
    caplog.set_level("INFO")
    with answering(clients, "elect_preferred_leaders", answered_by(clients["olivia"], "Approve", hostile)):
        run_plan(bag, plan)
    told = [record.getMessage() for record in caplog.records if "the disk is full" in record.getMessage()]
    assert [each.split(":")[0] for each in told] == ["answered Approve by olivia", "BREAK GLASS"]
    assert all(each.isprintable() for each in told)
