"""A store with a snapshot of each day, and plans and receipts that need some of them."""

from datetime import UTC, datetime, timedelta

from kafka_maintenance.operations.record.receipts import ReceiptLog
from kafka_maintenance.operations.retention.plan import RetentionPolicy, plan_retention
from kafka_maintenance.operations.retention.store import apply_stored_retention, store_retention
from tests.kafka_maintenance import snapshot_world as world

NOW = datetime(2026, 6, 30, 12, tzinfo=UTC)
LAST_ONE = RetentionPolicy(last=1, daily=0, weekly=0, monthly=0)
ONE_OF_EACH = RetentionPolicy(last=1, daily=1, weekly=0, monthly=0)
PLAN, ROLLBACK = "a" * 64, "b" * 64


def add(store, days_ago, **kwargs):
    return world.stored_day(store, NOW, days_ago, **kwargs)


def days_kept(plan):
    return [int(kept.snapshot_id.split("-")[2]) for kept in plan.kept]


def put_plan(store, manifest, digest=PLAN):
    """As `store_plan` names it, with its rollback beside it; the key."""
    stem = f"{manifest.prefix}/plans/reassign_partitions-{digest[:12]}"
    for suffix in (".md", ".rollback.json", ".json"):
        store.put(f"{stem}{suffix}", b"{}")
    return f"{stem}.json"


def receipt(store, *events, digest=PLAN, plan="somewhere else", days_ago=20):
    now = NOW - timedelta(days=days_ago)
    log = ReceiptLog(store, cluster="alpha", digest=digest, run="run", approver="olivia", now=now)
    for event in events:
        log.append(event, plan=plan)


def stored(store, cluster="alpha"):
    made = store_retention(store, plan_retention(store, ONE_OF_EACH, now=NOW, cluster=cluster), cluster)
    assert made is not None
    return made


def applied(store, made, **changed):
    arguments = {"plan_uri": made.uri, "cluster": "alpha", "approved_digest": made.digest, "approver": "olivia"}
    return apply_stored_retention(store=store, now=NOW, run_id="run", **(arguments | changed))
