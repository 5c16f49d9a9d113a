"""An approved plan of removal is carried out once, and removes what it names and no more."""

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.adapters.snapshot.manifest import run_key
from controller_core.model.errors import InvalidPlanError
from kafka_maintenance.operations.errors import BadInputError, PlanChangedError
from kafka_maintenance.operations.record.receipts import EventKind, read_events
from kafka_maintenance.operations.retention.plan import RetentionPolicy, apply_retention, plan_retention
from kafka_maintenance.operations.retention.store import find_retention, load_retention, still_there, store_retention
from kafka_maintenance.operations.snapshots.catalog import read_raw
from kafka_maintenance.operations.snapshots.copy import copy_snapshots
from kafka_maintenance.operations.snapshots.pins import pin
from tests.kafka_maintenance.operations.retention.days import (
    LAST_ONE,
    NOW,
    ONE_OF_EACH,
    add,
    applied,
    put_plan,
    receipt,
    stored,
)
from tests.visible_snapshots import visible_snapshots


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
    assert [int(found.snapshot_id.split("-")[2]) for found in visible_snapshots(store)] == [4]
    assert not store.list(old.prefix)
    assert (
        deleted.index(run_key("alpha", old.run_id))
        < deleted.index(old.key)
        < deleted.index(f"{old.prefix}/raw.parquet")
    )


@pytest.mark.parametrize("killed_after", range(1, 7))
def test_what_a_killed_removal_of_plans_left_goes_with_a_later_one(store, killed_after):
    """Three objects of a plan, the note of the run, the manifest, the raw layer."""
    old, last = add(store, 50), add(store, 5)
    put_plan(store, old)
    deleted = []

    def die(key):
        deleted.append(key)
        if len(deleted) == killed_after:
            raise KeyboardInterrupt

    digest = plan_retention(store, LAST_ONE, now=NOW).digest
    with pytest.raises(KeyboardInterrupt):
        apply_retention(store, LAST_ONE, digest, now=NOW, approver="ada", progress=die)
    apply_retention(store, LAST_ONE, plan_retention(store, LAST_ONE, now=NOW).digest, now=NOW, approver="ada")
    assert not store.list(f"{old.prefix}/")
    assert visible_snapshots(store) == [last]


def by_command(store, plan, progress):
    apply_retention(store, plan.policy, plan.digest, now=NOW, approver="ada", progress=progress)


def by_approval(store, plan, progress):
    applied(store, store_retention(store, plan, "alpha"), progress=progress)


@pytest.mark.parametrize("apply", [by_command, by_approval])
def test_what_a_killed_copy_left_stays_when_the_copy_has_gone_on_meanwhile(store, apply):
    source = MemoryStore(f"source of {store.uri}")
    copied = add(source, 40)
    raw = copied.object("raw").key
    store.put(raw, source.get(raw))
    add(store, 50), add(store, 5)
    plan = plan_retention(store, LAST_ONE, now=NOW, cluster="alpha")
    assert plan.abandoned == (raw,)
    apply(store, plan, lambda _: copy_snapshots(source, store))
    assert [found.snapshot_id.split("-")[2] for found in visible_snapshots(store)] == ["40", "5"]
    assert read_raw(store, copied).num_rows == 0
    objects = {each.event: each.detail.get("objects") for each in read_events(store, "alpha", plan.digest)}
    assert [raw in objects[event] for event in (EventKind.STARTED, EventKind.DONE)] == [True, False]


@pytest.mark.parametrize("apply", [by_command, by_approval])
def test_a_note_that_brings_nothing_back_goes_with_what_is_left(store, apply):
    """As a removal leaves it that was killed, and took the note last, or somebody's hand."""
    old, last = add(store, 50), add(store, 5)
    note, beside = run_key("alpha", old.run_id), f"{old.prefix}/topics.parquet"
    store.put(beside, b"x")
    for key in (old.key, old.object("raw").key):
        store.delete(key)
    plan = plan_retention(store, LAST_ONE, now=NOW, cluster="alpha")
    assert plan.abandoned == (note, beside)
    apply(store, plan, lambda _: None)
    assert store.list(f"{old.prefix}/") == []
    assert store.list("v1/runs/") == [run_key("alpha", last.run_id)]
    assert [event.event for event in read_events(store, "alpha", plan.digest)][-1] == EventKind.DONE


def test_a_plan_begun_after_the_approval_refuses_the_removal(store, five_days):
    made = stored(store)
    put_plan(store, five_days[0])
    receipt(store, EventKind.STARTED)
    with pytest.raises(PlanChangedError, match=r"is not finished.*nothing was removed"):
        applied(store, made)
    assert len(visible_snapshots(store)) == 5


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
    assert find_retention(store, cluster="alpha", digest=made.digest) == made


@pytest.mark.parametrize("digest", ["", "0" * 63, "../" * 21 + "x", "\0"])
def test_a_stored_plan_is_found_by_its_whole_digest_alone(store, digest):
    with pytest.raises(BadInputError, match="64 hex digits"):
        find_retention(store, cluster="alpha", digest=digest)


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
    assert [found.snapshot_id for found in visible_snapshots(store)] == [five_days[4].snapshot_id, newer.snapshot_id]
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
    assert [found.snapshot_id for found in visible_snapshots(store)] == [five_days[4].snapshot_id, rerun.snapshot_id]
    assert store.get(run_key("alpha", five_days[1].run_id)) == b"another snapshot's note"
    assert not [key for day in five_days[:4] for key in store.list(f"{day.prefix}/")]


def test_a_snapshot_pinned_after_the_approval_refuses_the_plan(store, five_days):
    made = stored(store)
    pin(store, five_days[0], reason="audit", by="ada", now=NOW)
    with pytest.raises(PlanChangedError, match=r"pinned: audit.*nothing was removed"):
        applied(store, made)
    assert len(visible_snapshots(store)) == 5


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
    assert len(visible_snapshots(store)) == 5


def test_a_plan_that_is_gone(store, five_days):
    made = stored(store)
    store.delete(made.uri[made.uri.index("v1/") :])
    with pytest.raises(BadInputError, match="no such object"):
        applied(store, made)
