"""Which snapshots a policy keeps, and the reasons that are told."""

import json
from contextlib import suppress
from datetime import timedelta

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.adapters.snapshot.manifest import run_key
from kafka_maintenance.operations.retention.plan import RetentionPolicy, apply_retention, plan_retention, retention_text
from kafka_maintenance.operations.snapshots.pins import pin, unpin
from tests.kafka_maintenance.operations.retention.days import LAST_ONE, NOW, add, days_kept


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


def test_no_pin_is_without_a_record_of_who_set_it(store, monkeypatch):
    old, real = add(store, 50), MemoryStore.put_new

    def killed_after(number):
        def put_new(self, key, data):
            if number == len(puts):
                raise KeyboardInterrupt
            puts.append(key)
            real(self, key, data)

        puts = []
        return put_new

    for number in range(3):
        with monkeypatch.context() as dying, suppress(KeyboardInterrupt):
            dying.setattr(MemoryStore, "put_new", killed_after(number))
            pin(store, old, reason="audit", by="ada", now=NOW + timedelta(seconds=number))
        assert len(store.list("v1/pin-events/")) >= len(store.list("v1/pins/")), number
    assert store.list("v1/pins/")
    events = store.list("v1/pin-events/")
    pin(store, old, reason="again", by="bob", now=NOW)
    assert store.list("v1/pin-events/") == events


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
