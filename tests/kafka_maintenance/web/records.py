"""Records of executions as runs write them: one under way with what lags, and one that is over."""

import json
from datetime import UTC, datetime, timedelta

BEGAN = datetime(2026, 11, 24, 2, tzinfo=UTC)
GB = 1000**3


def put_record(store, cluster, digest, events):
    """Writes (event, step, minutes since the beginning, detail) as the record of a plan."""
    for number, (event, step, minutes, detail) in enumerate(events, start=1):
        entry = {
            "event": event,
            "step": step,
            "at": (BEGAN + timedelta(minutes=minutes)).isoformat(timespec="milliseconds"),
            "run": "reassign_partitions.manual__2026-11-24",
            "approver": "olivia",
            "detail": detail,
        }
        store.put(f"v1/receipts/cluster={cluster}/{digest}/{number:04}-{event}.json", json.dumps(entry).encode())


def copied(partition, broker, done, *, is_live=True, total=40 * GB):
    """A row of what lags; bytes where `done` is not None."""
    sizes = {} if done is None else {"bytes_copied": done, "bytes": total}
    return {"topic": "orders", "partition": partition, "broker": broker, "is_live": is_live, **sizes}


def started(**more):
    return {"kind": "reassign_partitions", "steps": 3, "comment": "before the fair", **more}


def observed(seconds, in_sync, lagging, **figures):
    counts = {"outcomes_done": 0, "outcomes": 4, "replicas_in_sync": in_sync, "replicas": 6}
    return {"seconds": seconds, **counts, "lagging": lagging, **figures}


def led(number, epoch, *replicas):
    """A partition as the record has it before or after a step."""
    row = {"topic": "orders", "partition": number, "leader": replicas[0], "leader_epoch": epoch}
    return {**row, "isr": sorted(replicas), "replicas": list(replicas)}


UNDER_WAY = (
    ("started", None, 0, started()),
    (
        "intended",
        0,
        0,
        {"bytes": 90 * GB, "estimate_s": 1800, "paths": ["/admin/reassign_partitions"], "before": [led(0, 1, 1, 2)]},
    ),
    ("throttled", 0, 0, {"bytes_per_s": 50_000_000, "overrides": [], "left_alone": []}),
    ("requested", 0, 0, {"road": "admin_api"}),
    ("observed", 0, 20, observed(1200, 5, [copied(0, 4, 30 * GB)], bytes_copied=80 * GB, bytes=90 * GB)),
    ("verified", 0, 31, {"conditions": 4, "estimate_s": 1800, "took_s": 1860, "after": [led(0, 4, 4, 2)]}),
    ("unthrottled", 0, 31, {"overrides": 12}),
    ("intended", 1, 31, {"bytes": 160 * GB, "estimate_s": 3200}),
    ("throttled", 1, 31, {"bytes_per_s": 50_000_000, "overrides": [], "left_alone": []}),
    ("requested", 1, 31, {"road": "admin_api"}),
    (
        "observed",
        1,
        33,
        observed(
            120,
            2,
            [copied(1, 4, 1 * GB), copied(2, 5, 8 * GB), copied(3, 6, 2 * GB, is_live=False), copied(5, 4, 40 * GB)],
            bytes_copied=51 * GB,
            bytes=160 * GB,
        ),
    ),
    (
        "observed",
        1,
        34,
        observed(
            180,
            2,
            [copied(1, 4, 4 * GB), copied(2, 5, 8 * GB), copied(3, 6, 2 * GB, is_live=False), copied(5, 4, 40 * GB)],
            bytes_copied=54 * GB,
            bytes=160 * GB,
            bytes_per_s=50_000_000,
            to_go_s=2120,
        ),
    ),
)
STUCK = (
    *UNDER_WAY,
    ("stuck", 1, 66, {"reasons": ["stuck: nothing came nearer for 00:30: start broker(s) [6], or cancel the step"]}),
)
DONE = (
    ("started", None, 0, started(steps=1)),
    ("intended", 0, 0, {}),
    ("requested", 0, 1, {"road": "request_znodes"}),
    ("verified", 0, 2, {"conditions": 1}),
    ("done", None, 2, {"steps": 1}),
)
