"""Retention: what is kept and why, pins, dry run, deletion."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.adapters.snapshot.manifest import run_key
from controller_core.model.errors import InvalidPlanError
from kafka_maintenance.operations.errors import BadInputError, PlanChangedError
from kafka_maintenance.operations.gate import approvals
from kafka_maintenance.operations.record.receipts import EventKind, ReceiptLog, read_events
from kafka_maintenance.operations.retention.plan import (
    RetentionPolicy,
    apply_retention,
    plan_retention,
    retention_text,
)
from kafka_maintenance.operations.retention.store import (
    apply_stored_retention,
    load_retention,
    still_there,
    store_retention,
)
from kafka_maintenance.operations.snapshots.catalog import list_snapshots
from kafka_maintenance.operations.snapshots.pins import pin, unpin
from tests.kafka_maintenance import snapshot_world as world

NOW = datetime(2026, 6, 30, 12, tzinfo=UTC)
LAST_ONE = RetentionPolicy(last=1, daily=0, weekly=0, monthly=0)


@pytest.fixture
def store(request):
    return MemoryStore(request.node.name)


def add(store, days_ago, **kwargs):
    return world.stored_day(store, NOW, days_ago, **kwargs)


def days_kept(plan):
    return [int(kept.snapshot_id.split("-")[2]) for kept in plan.kept]


@pytest.mark.parametrize(
    ("policy", "days", "kept"),
    [
        pytest.param(
            RetentionPolicy(last=3, daily=0, weekly=0, monthly=0), range(3, 10), [5, 4, 3], id="the last three"
        ),
        pytest.param(RetentionPolicy(last=1, daily=2, weekly=0, monthly=0), range(3, 10), [4, 3], id="two days"),
        pytest.param(
            RetentionPolicy(last=1, daily=0, weekly=3, monthly=0),
            range(3, 30),
            [16, 9, 3],
            id="the newest of each week",
        ),
        pytest.param(
            RetentionPolicy(last=1, daily=0, weekly=0, monthly=3),
            range(3, 100),
            [61, 30, 3],
            id="the newest of each month",
        ),
        pytest.param(
            RetentionPolicy(last=1, daily=0, weekly=0, monthly=0), range(4), [1, 0], id="recent ones always stay"
        ),
    ],
)
def test_policy(store, policy, days, kept):
    for days_ago in days:
        add(store, days_ago)
    assert days_kept(plan_retention(store, policy, now=NOW)) == kept


def test_each_reason_is_told(store):
    for days_ago in (5, 6, 40):
        add(store, days_ago)
    plan = plan_retention(store, RetentionPolicy(last=1, daily=1, weekly=1, monthly=2), now=NOW)
    reasons = {kept.snapshot_id.split("-")[2]: kept.reasons for kept in plan.kept}
    assert reasons["5"] == (
        "last 1 of 1",
        "newest consistent one",
        "daily 2026-06-25",
        "weekly 2026-W26",
        "monthly 2026-06",
    )
    assert reasons["40"] == ("monthly 2026-05",)
    assert "6" not in reasons
    assert "keep 2" in retention_text(plan)


def test_of_a_period_the_newest_consistent_one_stays(store):
    add(store, 5, hour=1)
    add(store, 5, hour=3, consistent=False)
    add(store, 3, consistent=False)
    plan = plan_retention(store, RetentionPolicy(last=1, daily=2, weekly=0, monthly=0), now=NOW)
    assert [kept.snapshot_id.split("-", 1)[1] for kept in plan.kept] == ["alpha-5-1", "alpha-3-1"]


def test_clusters_are_judged_by_themselves(store):
    for days_ago in (5, 6):
        add(store, days_ago)
        add(store, days_ago + 100, cluster="beta")
    plan = plan_retention(store, RetentionPolicy(last=1, daily=0, weekly=0, monthly=0), now=NOW)
    assert days_kept(plan) == [5, 105]
    assert days_kept(
        plan_retention(store, RetentionPolicy(last=1, daily=0, weekly=0, monthly=0), now=NOW, cluster="beta")
    ) == [105]


def test_a_pinned_snapshot_stays_until_unpinned(store):
    policy = RetentionPolicy(last=1, daily=0, weekly=0, monthly=0)
    old = add(store, 50)
    add(store, 5)
    pin(store, old, reason="before the upgrade", by="ada", now=NOW)
    plan = plan_retention(store, policy, now=NOW)
    assert plan.kept[0].reasons == ("pinned: before the upgrade (ada)",)
    unpin(store, old, reason="upgraded", by="bob", now=NOW)
    assert days_kept(plan_retention(store, policy, now=NOW)) == [5]
    events = [json.loads(store.get(key)) for key in store.list("v1/pin-events/cluster=alpha/")]
    assert [(event["by"], event["reason"]) for event in events] == [("ada", "before the upgrade"), ("bob", "upgraded")]


def test_a_pinned_snapshot_stays_when_its_manifest_is_lost(store):
    old, _ = add(store, 50), add(store, 5)
    store.delete(old.key)
    store.delete(run_key("alpha", old.run_id))
    assert plan_retention(store, LAST_ONE, now=NOW).abandoned == (old.object("raw").key,)
    pin(store, old, reason="audit", by="ada", now=NOW)
    assert plan_retention(store, LAST_ONE, now=NOW).abandoned == ()


def test_a_snapshot_stays_whose_manifest_can_be_made_again(store):
    old, _ = add(store, 50), add(store, 5)
    store.delete(old.key)
    assert plan_retention(store, LAST_ONE, now=NOW).abandoned == (), "the note of its run is a copy of it"


def test_the_newest_consistent_one_is_one_whose_raw_can_be_read(store):
    add(store, 50), add(store, 20)
    lost, torn = add(store, 8), add(store, 7, consistent=False)
    store.put(lost.object("raw").key, b"damaged")
    plan = plan_retention(store, LAST_ONE, now=NOW)
    assert {kept.snapshot_id: kept.reasons for kept in plan.kept} == {
        torn.snapshot_id: ("last 1 of 1",),
        f"{10_000 - 20:016x}-alpha-20-1": ("newest consistent one",),
    }


def test_copies_and_dates_in_the_future_count_for_nothing(store):
    old, _ = add(store, 10), add(store, 5)
    future = add(store, -300)
    for key in store.list(f"{old.prefix}/"):
        store.put(key.replace("cluster=alpha", "cluster=beta"), store.get(key))
    plan = plan_retention(store, LAST_ONE, now=NOW)
    reasons = {kept.snapshot_id: kept.reasons for kept in plan.kept}
    assert reasons.pop(future.snapshot_id) == ("dated in the future, 2027-04-26: counts for nothing",)
    assert [reason for kept in reasons.values() for reason in kept] == ["last 1 of 1", "newest consistent one"]
    assert [(gone.cluster, gone.snapshot_id) for gone in plan.dropped] == [("alpha", old.snapshot_id)]
    assert plan.abandoned == ()
    (ignored,) = plan.ignored
    assert "found them in 'v1/cluster=beta/" in ignored
    assert f"ignored: {ignored}" in retention_text(plan)
    apply_retention(store, LAST_ONE, plan.digest, now=NOW, approver="ada")
    assert store.list("v1/cluster=beta/")


def test_the_note_of_a_run_that_names_a_later_snapshot_stays(store):
    old, new = add(store, 50), add(store, 5)
    store.put(run_key("alpha", old.run_id), store.get(new.key))
    (gone,) = plan_retention(store, LAST_ONE, now=NOW).dropped
    assert run_key("alpha", old.run_id) not in gone.keys


def test_the_command_records_every_object_before_and_after(store):
    old, _ = add(store, 10), add(store, 5)
    plan = plan_retention(store, LAST_ONE, now=NOW)
    apply_retention(store, LAST_ONE, plan.digest, now=NOW, approver="ada")
    started, done = read_events(store, "alpha", plan.digest)
    assert (started.event, done.event, done.approver) == (EventKind.STARTED, EventKind.DONE, "ada")
    named = [run_key("alpha", old.run_id), old.key, old.object("raw").key]
    assert started.detail["objects"] == done.detail["objects"] == named


def test_planning_deletes_nothing_and_applying_only_what_was_approved(store):
    policy = RetentionPolicy(last=1, daily=0, weekly=0, monthly=0)
    old = add(store, 50)
    add(store, 5)
    store.put(f"{old.prefix}/plans/x.json", b"{}")
    before = list(store.list(""))
    plan = plan_retention(store, policy, now=NOW)
    assert list(store.list("")) == before
    with pytest.raises(PlanChangedError, match="approve that"):
        apply_retention(store, policy, "0" * 64, now=NOW, approver="ada")
    add(store, 4)
    with pytest.raises(PlanChangedError):
        apply_retention(store, policy, plan.digest, now=NOW, approver="ada")
    deleted = []
    apply_retention(
        store, policy, plan_retention(store, policy, now=NOW).digest, now=NOW, approver="ada", progress=deleted.append
    )
    assert [int(found.snapshot_id.split("-")[2]) for found in list_snapshots(store)] == [4]
    assert not store.list(old.prefix)
    assert (
        deleted.index(run_key("alpha", old.run_id))
        < deleted.index(old.key)
        < deleted.index(f"{old.prefix}/raw.parquet")
    )


# ------------------------------------------------------------------------------------------------- plans

PLAN, ROLLBACK = "a" * 64, "b" * 64


def put_plan(store, manifest, digest=PLAN):
    """As `stored_plans` names it, with its rollback beside it; the key."""
    stem = f"{manifest.prefix}/plans/reassign_partitions-{digest[:12]}"
    for suffix in (".md", ".rollback.json", ".json"):
        store.put(f"{stem}{suffix}", b"{}")
    return f"{stem}.json"


def receipt(store, *events, digest=PLAN, plan="somewhere else", days_ago=20):
    now = NOW - timedelta(days=days_ago)
    log = ReceiptLog(store, cluster="alpha", digest=digest, run="run", approver="olivia", now=now)
    for event in events:
        log.append(event, plan=plan)


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


def test_a_plan_begun_after_the_approval_refuses_the_removal(store, five_days):
    made = stored(store)
    put_plan(store, five_days[0])
    receipt(store, EventKind.STARTED)
    with pytest.raises(PlanChangedError, match=r"is not finished.*nothing was removed"):
        applied(store, made)
    assert len(list_snapshots(store)) == 5


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


def test_what_killed_runs_left_is_swept_when_it_is_old(store):
    add(store, 5)
    store.put("v1/cluster=alpha/date=2026-06-01/snap=dead/raw.parquet", b"x")
    store.put("v1/cluster=alpha/date=2026-06-30/snap=maybe-alive/raw.parquet", b"x")
    plan = plan_retention(store, RetentionPolicy(), now=NOW)
    assert plan.abandoned == ("v1/cluster=alpha/date=2026-06-01/snap=dead/raw.parquet",)


@pytest.mark.parametrize("counts", [{"last": 0}, {"daily": -1}])
def test_counts_that_make_no_sense(counts):
    with pytest.raises(ValueError, match="retention refused"):
        RetentionPolicy(**counts)


# ------------------------------------------------------------------------------------------------- stored plans

ONE_OF_EACH = RetentionPolicy(last=1, daily=1, weekly=0, monthly=0)


def stored(store, cluster="alpha"):
    made = store_retention(store, plan_retention(store, ONE_OF_EACH, now=NOW, cluster=cluster), cluster)
    assert made is not None
    return made


def applied(store, made, **changed):
    arguments = {"plan_uri": made.uri, "cluster": "alpha", "approved_digest": made.digest, "approver": "olivia"}
    return apply_stored_retention(store=store, now=NOW, run_id="run", **(arguments | changed))


@pytest.fixture
def five_days(store):
    return [add(store, days_ago) for days_ago in range(8, 3, -1)]


def test_a_stored_plan_says_what_goes_and_why_the_rest_stays(store, five_days):
    made = stored(store)
    assert (made.kind, made.cluster, made.count) == ("retain_snapshots", "alpha", 4)
    assert made.summary == "remove 4 of 5 snapshots"
    assert "last 1 of 1" in made.markdown
    assert five_days[0].snapshot_id in made.markdown
    assert load_retention(store, made.uri, cluster="alpha") == made
    assert stored(store) == made


@pytest.mark.parametrize("cluster", ["kafka-v1", "v1"])
def test_a_cluster_whose_name_ends_like_the_root_of_our_keys(store, cluster):
    old, _ = add(store, 50, cluster=cluster), add(store, 5, cluster=cluster)
    assert applied(store, stored(store, cluster), cluster=cluster).removed == (old.snapshot_id,)


def test_nothing_to_remove_is_no_plan(store):
    add(store, 3)
    assert store_retention(store, plan_retention(store, ONE_OF_EACH, now=NOW, cluster="alpha"), "alpha") is None


def test_an_approved_plan_is_carried_out_once_and_nothing_else_goes(store, five_days):
    made = stored(store)
    newer = add(store, 0)
    receipt = applied(store, made)
    assert receipt.removed == tuple(day.snapshot_id for day in five_days[:4])
    assert [found.snapshot_id for found in list_snapshots(store)] == [five_days[4].snapshot_id, newer.snapshot_id]
    assert still_there(store, made.plan, "alpha") == ((), ())
    assert "olivia" in store.get(f"v1/receipts/cluster=alpha/{made.digest}/0003-done.json").decode()
    assert applied(store, made).already_applied


def test_a_removal_that_was_cut_off_is_finished_by_a_second_run(store, five_days):
    made = stored(store)
    deleted = []

    def stop_at_the_fifth(key):
        deleted.append(key)
        if len(deleted) == 5:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        applied(store, made, progress=stop_at_the_fifth)
    rerun = add(store, 0)  # a later run may bear the name of one whose note is gone
    store.put(run_key("alpha", five_days[1].run_id), b"another snapshot's note")
    assert not applied(store, made).already_applied
    assert [found.snapshot_id for found in list_snapshots(store)] == [five_days[4].snapshot_id, rerun.snapshot_id]
    assert store.get(run_key("alpha", five_days[1].run_id)) == b"another snapshot's note"
    assert not [key for day in five_days[:4] for key in store.list(f"{day.prefix}/")]


def test_a_snapshot_pinned_after_the_approval_refuses_the_plan(store, five_days):
    made = stored(store)
    pin(store, five_days[0], reason="audit", by="ada", now=NOW)
    with pytest.raises(PlanChangedError, match=r"pinned: audit.*nothing was removed"):
        applied(store, made)
    assert len(list_snapshots(store)) == 5


def altered(store, made, old, new):
    key = made.uri[made.uri.index("v1/") :]
    text = store.get(key).decode()
    assert old in text
    store.put(key, text.replace(old, new).encode())


@pytest.mark.parametrize(
    ("alter", "changed", "error", "message"),
    [
        pytest.param(
            None, {"approved_digest": "0" * 64}, PlanChangedError, "approved digest 0000", id="another digest"
        ),
        pytest.param(
            ("v1/cluster=alpha/date", "v1/cluster=beta/date"), {}, InvalidPlanError, "was altered", id="altered"
        ),
        pytest.param(('"format_version": 1', '"format_version": 9'), {}, InvalidPlanError, "found 9", id="newer"),
        pytest.param(('"policy"', '"politics"'), {}, InvalidPlanError, "damaged", id="damaged"),
        pytest.param(
            None, {"cluster": "beta"}, InvalidPlanError, "expected one of cluster 'beta'", id="another cluster"
        ),
        pytest.param(
            None, {"plan_uri": "memory://other/v1/x.json"}, BadInputError, "the store in use is", id="another store"
        ),
    ],
)
def test_what_is_not_the_approved_plan_removes_nothing(store, five_days, alter, changed, error, message):
    made = stored(store)
    if alter:
        altered(store, made, *alter)
    with pytest.raises(error, match=message):
        applied(store, made, **changed)
    assert len(list_snapshots(store)) == 5


def test_a_plan_that_is_gone(store, five_days):
    made = stored(store)
    store.delete(made.uri[made.uri.index("v1/") :])
    with pytest.raises(BadInputError, match="no such object"):
        applied(store, made)
