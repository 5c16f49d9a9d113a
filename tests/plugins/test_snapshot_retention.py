"""Retention: what is kept and why, pins, dry run, deletion."""

from datetime import UTC, datetime, timedelta

import pytest

from controller_core.adapters.object_store import MemoryStore
from kafka_maintenance.operations.errors import PlanChangedError
from kafka_maintenance.operations.snapshot_manifest import (
    StoredObject,
    manifest_bytes,
    new_manifest,
    run_key,
    snapshot_prefix,
)
from kafka_maintenance.operations.snapshot_retention import (
    RetentionPolicy,
    apply_retention,
    pin,
    plan_retention,
    retention_text,
    unpin,
)
from kafka_maintenance.operations.snapshots import list_snapshots

NOW = datetime(2026, 6, 30, 12, tzinfo=UTC)


@pytest.fixture
def store(request):
    return MemoryStore(request.node.name)


def add(store, days_ago, *, cluster="alpha", consistent=True, hour=1):
    """A snapshot of that night, with one object."""
    taken_at = (NOW - timedelta(days=days_ago)).replace(hour=hour)
    snapshot_id = f"{10_000 - days_ago:016x}-{cluster}-{days_ago}-{hour}"
    prefix = snapshot_prefix(cluster, taken_at, snapshot_id)
    store.put(f"{prefix}/raw.parquet", b"raw")
    manifest = new_manifest(
        uri=store.uri_of(f"{prefix}/manifest.json"),
        prefix=prefix,
        cluster=cluster,
        kafka_cluster_id="id",
        date=taken_at.date().isoformat(),
        snapshot_id=snapshot_id,
        run_id=snapshot_id,
        taken_at=taken_at,
        zxid=10_000 - days_ago,
        consistent=consistent,
        reason=None if consistent else "busy",
        unresolved=0,
        rounds=1,
        method="cut",
        zookeeper_version="3.9.5",
        chroot="",
        secured=False,
        objects=(StoredObject(f"{prefix}/raw.parquet", 3, "00", 1),),
        counts={},
        redacted=(),
        key_id=None,
        unreadable=(),
        code_version="0",
    )
    store.put(run_key(cluster, manifest.run_id), manifest_bytes(manifest))
    store.put(manifest.key, manifest_bytes(manifest))
    return manifest


def days_kept(plan):
    return [int(kept.snapshot_id.split("-")[2]) for kept in plan.kept]


@pytest.mark.parametrize(
    ("policy", "nights", "kept"),
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
def test_policy(store, policy, nights, kept):
    for days_ago in nights:
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
    pin(store, old, reason="before the upgrade", now=NOW)
    plan = plan_retention(store, policy, now=NOW)
    assert plan.kept[0].reasons == ("pinned: before the upgrade",)
    unpin(store, old)
    assert days_kept(plan_retention(store, policy, now=NOW)) == [5]


def test_planning_deletes_nothing_and_applying_only_what_was_approved(store):
    policy = RetentionPolicy(last=1, daily=0, weekly=0, monthly=0)
    old = add(store, 50)
    add(store, 5)
    store.put(f"{old.prefix}/plans/x.json", b"{}")
    before = list(store.list(""))
    plan = plan_retention(store, policy, now=NOW)
    assert list(store.list("")) == before
    with pytest.raises(PlanChangedError, match="approve that"):
        apply_retention(store, policy, "0" * 64, now=NOW)
    add(store, 4)
    with pytest.raises(PlanChangedError):
        apply_retention(store, policy, plan.digest, now=NOW)
    deleted = []
    apply_retention(store, policy, plan_retention(store, policy, now=NOW).digest, now=NOW, progress=deleted.append)
    assert [int(found.snapshot_id.split("-")[2]) for found in list_snapshots(store)] == [4]
    assert not store.list(old.prefix)
    assert (
        deleted.index(run_key("alpha", old.run_id))
        < deleted.index(old.key)
        < deleted.index(f"{old.prefix}/raw.parquet")
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
