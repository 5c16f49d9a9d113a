"""Snapshots that plans, rollbacks and restores still need are kept."""

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from kafka_maintenance.operations.gate import approvals
from kafka_maintenance.operations.record.receipts import EventKind
from kafka_maintenance.operations.retention.plan import plan_retention, retention_text
from kafka_maintenance.operations.retention.store import load_retention, store_retention
from tests.kafka_maintenance.operations.retention.days import (
    LAST_ONE,
    NOW,
    PLAN,
    ROLLBACK,
    add,
    days_kept,
    put_plan,
    receipt,
)


@pytest.mark.parametrize(
    ("events", "stays"),
    [
        pytest.param((), False, id="never approved"),
        pytest.param((EventKind.STARTED,), True, id="begun"),
        pytest.param((EventKind.STARTED, EventKind.INTENDED, EventKind.REQUESTED), True, id="its worker died"),
        pytest.param((EventKind.STARTED, EventKind.INTENDED, EventKind.UNFINISHED), True, id="waited for in vain"),
        pytest.param((EventKind.STARTED, EventKind.INTENDED, EventKind.REFUSED), True, id="refused half-way"),
        pytest.param((EventKind.STARTED, EventKind.REFUSED), False, id="refused before anything was asked"),
        pytest.param((EventKind.STARTED, EventKind.REFUSED, EventKind.STARTED), True, id="begun again"),
        pytest.param((EventKind.STARTED, EventKind.VERIFIED, EventKind.DONE), False, id="done"),
        pytest.param((EventKind.STARTED, EventKind.INTENDED, EventKind.OVER), False, id="over without its outcomes"),
    ],
)
def test_a_plan_that_is_not_finished_keeps_its_snapshot(store, events, stays):
    old, _ = add(store, 10), add(store, 5)
    put_plan(store, old)
    receipt(store, *events)
    plan = plan_retention(store, LAST_ONE, now=NOW)
    reasons = {kept.snapshot_id: kept.reasons for kept in plan.kept}
    assert reasons.get(old.snapshot_id) == (
        ("plan reassign_partitions-aaaaaaaaaaaa is not finished",) if stays else None
    )


def test_a_rollback_that_is_not_finished_keeps_the_snapshot_of_its_plan(store):
    """Its name bears the digest of the plan that it undoes; that one is done."""
    old, _ = add(store, 10), add(store, 5)
    key = put_plan(store, old)
    receipt(store, EventKind.STARTED, EventKind.DONE)
    receipt(store, EventKind.STARTED, digest=ROLLBACK, plan=store.uri_of(key.replace(".json", ".rollback.json")))
    (kept, _) = plan_retention(store, LAST_ONE, now=NOW).kept
    assert kept.reasons == ("plan reassign_partitions-aaaaaaaaaaaa.rollback is not finished",)
    receipt(store, EventKind.DONE, digest=ROLLBACK)
    assert days_kept(plan_retention(store, LAST_ONE, now=NOW)) == [5]


def test_a_restore_that_is_not_finished_keeps_its_snapshot(store):
    """Its receipt is of another make: two objects, the first of which names the plan."""
    old, _ = add(store, 10), add(store, 5)
    store.put(f"{old.prefix}/plans/restore-{PLAN[:12]}.json", b"{}")
    started = f"v1/receipts/cluster=alpha/{PLAN}/0000-started.json"
    store.put(started, b'{"plan": "gone"}')
    assert days_kept(plan_retention(store, LAST_ONE, now=NOW)) == [10, 5]
    done = started.replace("0000-started", "9999-done")
    store.put(done, b'{"at": "2026-06-29T00:00:00+00:00"}')
    plan = plan_retention(store, LAST_ONE, now=NOW)
    assert plan.kept[0].reasons == ("plan restore-aaaaaaaaaaaa may be rolled back",)
    store.put(done, b'{"at": "2026-06-01T00:00:00+00:00"}')
    assert days_kept(plan_retention(store, LAST_ONE, now=NOW)) == [5]


@pytest.mark.parametrize(
    "event", [b"", b"null", b"[]", b"{}", b'{"detail": {"plan": "v1/cluster=alpha/plans/x.json"}}']
)
def test_a_receipt_that_names_no_plan_of_a_snapshot_keeps_nothing(store, event):
    add(store, 10), add(store, 5)
    store.put(f"v1/receipts/cluster=alpha/{PLAN}/0001-started.json", event)
    assert days_kept(plan_retention(store, LAST_ONE, now=NOW)) == [5]


def test_receipts_are_listed_and_not_read(store, monkeypatch):
    for days_ago in range(5, 12):
        day = add(store, days_ago)
        put_plan(store, day, f"{days_ago:064x}")
        receipt(store, EventKind.STARTED, EventKind.DONE, digest=f"{days_ago:064x}")
    read = []
    real = MemoryStore.get
    monkeypatch.setattr(MemoryStore, "get", lambda self, key: read.append(key) or real(self, key))
    plan_retention(store, LAST_ONE, now=NOW)
    assert len([key for key in read if "/receipts/" in key]) == 6, "the end of those that would go"


def test_the_approver_is_told_how_many_applied_plans_go(store):
    old, _ = add(store, 10), add(store, 5)
    put_plan(store, old)
    put_plan(store, old, "c" * 64)
    before = plan_retention(store, LAST_ONE, now=NOW, cluster="alpha")
    receipt(store, EventKind.STARTED, EventKind.DONE)
    plan = plan_retention(store, LAST_ONE, now=NOW, cluster="alpha")
    assert [gone.applied for gone in plan.dropped] == [1]
    assert ": 9 objects, 1 of them plans that were applied" in retention_text(plan)
    assert plan.digest == before.digest, "what goes is the same"
    made = store_retention(store, plan, "alpha")
    assert made.summary == "remove 1 of 2 snapshots, with 1 applied plan"
    assert load_retention(store, made.uri, cluster="alpha") == made


@pytest.mark.parametrize(
    ("chosen", "stays"),
    [
        pytest.param(None, True, id="nobody has answered"),
        pytest.param("Approve", True, id="approved, and not begun"),
        pytest.param("Reject", False, id="rejected"),
    ],
)
def test_a_plan_at_a_gate_keeps_its_snapshot(store, chosen, stays):
    old, _ = add(store, 10), add(store, 5)
    put_plan(store, old)
    asked = {"cluster": "alpha", "run": "r", "ask_id": "q-0001"}
    question = {"kind": "reassign_partitions", "digest": PLAN, "shown": "s"}
    approvals.keep_question(store, question=question, **asked)
    if chosen:
        answer = {"user": "olivia", "options": [chosen], "comment": None, "at": NOW.isoformat()}
        approvals.keep_answer(store, answer=answer, **asked)
    reasons = {kept.snapshot_id: kept.reasons for kept in plan_retention(store, LAST_ONE, now=NOW).kept}
    assert reasons.get(old.snapshot_id) == (
        ("plan reassign_partitions-aaaaaaaaaaaa waits at a gate",) if stays else None
    )


def test_of_the_years_of_questions_each_is_read_once_and_the_answers_of_a_plan_that_was_begun_are_not(
    store, monkeypatch
):
    old, _ = add(store, 10), add(store, 5)
    put_plan(store, old)
    asked = {"cluster": "alpha", "run": "r-decided-1", "ask_id": "q-0001"}
    approvals.keep_question(store, question={"kind": "reassign_partitions", "digest": PLAN, "shown": "s"}, **asked)
    answer = {"user": "olivia", "options": ["Approve"], "comment": None, "at": NOW.isoformat()}
    approvals.keep_answer(store, answer=answer, **asked)
    assert len(plan_retention(store, LAST_ONE, now=NOW).kept) == 2
    receipt(store, EventKind.STARTED, EventKind.DONE)
    read = []
    real = MemoryStore.get
    monkeypatch.setattr(MemoryStore, "get", lambda self, key: read.append(key) or real(self, key))
    assert days_kept(plan_retention(store, LAST_ONE, now=NOW)) == [5]
    assert [key.rpartition("/")[2] for key in read if "/approvals/" in key] == ["q-0001-asked.json"]
