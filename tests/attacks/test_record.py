"""Boundary: who may write the store, against the record of what was asked, answered and applied.

Copies of the record lie where they are looked up. Who adds one, or takes one away, has no key that signs, and does not change the audit chain.
"""

import json
from datetime import UTC, datetime

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from tests.dags.world import CLUSTER, World

NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
OVERRIDES = [["topics/orders", "min.insync.replicas", "2", "1"]]


@pytest.fixture
def store(signed):
    return MemoryStore()


@pytest.fixture
def world():
    return World()


@pytest.fixture
def plan(store, world):
    """A stored plan of one election."""
    from kafka_maintenance.operations.plans.make import plan_elections

    return plan_elections(store, CLUSTER, zookeeper=world.zookeeper, now=NOW)


def forged(store, digest, name, event=None, step=None, **detail):
    """Writes the first event of a receipt, as one of ours would look without the audit chain."""
    entry = {"event": event or name, "step": step, "at": NOW.isoformat(), "run": "r", "approver": "mallory"}
    key = f"v1/receipts/cluster={CLUSTER}/{digest}/0001-{name}.json"
    store.put(key, json.dumps({**entry, "code_version": None, "detail": detail}).encode())


def applied(store, world, plan, permit=lambda: None):
    from kafka_maintenance.operations.apply.plan import apply_plan

    return apply_plan(
        store=store,
        plan_uri=plan.uri,
        approved_digest=plan.digest,
        approver="olivia",
        zookeeper=world.zookeeper,
        now=NOW,
        permit=permit,
    )


@pytest.mark.parametrize(
    ("name", "what"),
    [
        pytest.param("done", {}, id="it was carried out already"),
        pytest.param("verified", {"step": 0}, id="its step was seen to end"),
        pytest.param("observed", {"event": "intended", "step": 0}, id="it was begun, under another name"),
        pytest.param("over", {"step": 0, "reasons": ["x"]}, id="it is over"),
    ],
)
def test_an_event_of_a_receipt_that_the_chain_does_not_hold_decides_nothing(store, world, plan, name, what):
    from kafka_maintenance.operations.apply.plan import verify
    from kafka_maintenance.operations.gate.approvals import was_begun
    from kafka_maintenance.operations.record.audit import UntrustedRecordError

    forged(store, plan.digest, name, **what)
    attempts = [
        lambda: applied(store, world, plan),
        lambda: verify(store=store, plan_uri=plan.uri, zookeeper=world.zookeeper),
        lambda: was_begun(store, CLUSTER, plan.digest),
    ]
    for attempt in attempts:
        with pytest.raises(UntrustedRecordError, match=rf"0001-{name}\.json not used.*move the record away"):
            attempt()
    assert (world.requests, store.list("v1/audit/")) == ([], [])
    store.delete(f"v1/receipts/cluster={CLUSTER}/{plan.digest}/0001-{name}.json")
    assert not applied(store, world, plan).already_applied
    assert len(world.requests) == 1


def test_a_throttle_that_no_run_set_is_not_taken_back(store, world, plan):
    """Else whoever writes the store would set the configs of a topic, or of a broker."""
    from kafka_maintenance.operations.record.audit import UntrustedRecordError

    config = json.dumps({"version": 1, "config": {"min.insync.replicas": "2"}}).encode()
    world.zookeeper.create("/config/topics/orders", config)
    forged(store, "d" * 64, "throttled", step=0, bytes_per_s=1, overrides=OVERRIDES)
    with pytest.raises(UntrustedRecordError, match=r"0001-throttled\.json not used"):
        applied(store, world, plan)
    assert world.zookeeper.get("/config/topics/orders")[0] == config


def test_a_receipt_from_whose_middle_an_event_was_removed_decides_nothing(store, world, plan):
    from kafka_maintenance.operations.record.audit import UntrustedRecordError

    applied(store, world, plan)
    store.delete(f"v1/receipts/cluster={CLUSTER}/{plan.digest}/0003-requested.json")
    with pytest.raises(UntrustedRecordError, match=r"expected .*0003-verified\.json as its event 3, found .*0004"):
        applied(store, world, plan)
