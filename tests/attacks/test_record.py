"""Boundary: who may write the store, against the record of what was asked, answered and applied.

Copies of the record lie where they are looked up. Who adds one, or takes one away, has no key that signs, and does not change the audit chain.
"""

import hashlib
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
    from kafka_maintenance.operations.plans.elections import plan_elections

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


RUN = {"cluster": CLUSTER, "run": "elect_preferred_leaders.manual"}
YES = {"user": "olivia", "options": ["Approve"], "comment": None, "at": NOW.isoformat()}
NO = {"user": "ada", "options": ["Reject"], "comment": None, "at": NOW.isoformat()}


def asked(store, plan, ask_id, *answers):
    """The gate of the run asks about the plan, and is answered."""
    from kafka_maintenance.operations.gate import approvals
    from kafka_maintenance.operations.gate.shown import shown

    text = shown(store, kind=plan.kind, cluster=CLUSTER, digest=plan.digest)
    question = {"kind": plan.kind, "digest": plan.digest, "shown": text.digest, "requester": "otto", "policy": "p"}
    approvals.keep_question(store, **RUN, ask_id=ask_id, question=question)
    for answer in answers:
        approvals.keep_answer(store, **RUN, ask_id=ask_id, answer=answer)


def _withdrawn(store, plan):
    from kafka_maintenance.operations.gate import approvals

    approvals.withdraw(store, **RUN, by="olivia", comment="wrong", now=NOW)


def _rejected_too(store, plan):
    from kafka_maintenance.operations.gate import approvals

    approvals.keep_answer(store, **RUN, ask_id="1", answer=NO)


def _asked_again_and_rejected(store, plan):
    asked(store, plan, "2", NO)


def appended_by_another_run(store):
    """What was appended before is not the end of the chain any more."""
    from kafka_maintenance.operations.record.audit import AuditChain

    AuditChain(store, CLUSTER).append("asked", f"v1/approvals/cluster={CLUSTER}/another.run/1-asked.json", {})


def permitted(store, plan):
    from kafka_maintenance.operations.gate.permission import permission
    from kafka_maintenance.operations.gate.policy import Policy

    return permission(store, **RUN, kind=plan.kind, policy=Policy("p", {}, {}), now=NOW)


@pytest.mark.parametrize(
    ("taken_back", "removed", "entry", "found"),
    [
        pytest.param(_withdrawn, "-withdrawn", None, "1-withdrawn", id="a withdrawal"),
        pytest.param(_withdrawn, "-withdrawn", 3, "gone or was changed", id="a withdrawal, and its entry of the chain"),
        pytest.param(_rejected_too, "-decided-02", None, "1-decided-02", id="the second answer to the same question"),
        pytest.param(_asked_again_and_rejected, "/2-", None, "2-asked", id="a second question, with its answer"),
        pytest.param(_asked_again_and_rejected, "/2-", 4, "gone or was changed", id="a second question, and of its chain"),
    ],
)  # fmt: skip
def test_what_took_an_approval_back_is_not_undone_by_removing_it(store, plan, taken_back, removed, entry, found):
    from kafka_maintenance.operations.gate.permission import NotApprovedError
    from kafka_maintenance.operations.record.audit import UntrustedRecordError

    asked(store, plan, "1", YES)
    assert permitted(store, plan).approver == "olivia"
    taken_back(store, plan)
    appended_by_another_run(store)
    with pytest.raises(NotApprovedError):
        permitted(store, plan)
    for key in [key for key in store.list("v1/approvals/") if removed in key]:
        store.delete(key)
    if entry is not None:
        store.delete(f"v1/audit/cluster={CLUSTER}/{entry:08d}.json")
    with pytest.raises(UntrustedRecordError, match=found):
        permitted(store, plan)


def test_a_withdrawal_that_is_written_out_of_the_chain_takes_the_key_that_signs(store, plan):
    """All hashes are right; the last entry, which vouches for them, has no signature that counts."""
    from kafka_maintenance.operations.record.audit import UntrustedRecordError, entry_key

    asked(store, plan, "1", YES)
    _withdrawn(store, plan)
    appended_by_another_run(store)
    (withdrawal,) = [key for key in store.list("v1/approvals/") if "-withdrawn" in key]
    store.delete(withdrawal)
    for number in (3, 4):
        entry = json.loads(store.get(entry_key(CLUSTER, number)))
        previous = hashlib.sha256(store.get(entry_key(CLUSTER, number - 1))).hexdigest()
        entry["audit"] |= {"previous": previous, "copy": "v1/elsewhere"}
        store.put(entry_key(CLUSTER, number), json.dumps(entry).encode())
    with pytest.raises(UntrustedRecordError, match=r"its signature by key .* is not valid"):
        permitted(store, plan)


def test_a_rejection_is_not_undone_by_removing_it_and_comes_back_out_of_the_chain(store, plan):
    from kafka_maintenance.operations.errors import RefusedError
    from kafka_maintenance.operations.gate.approvals import refuse_rejected
    from kafka_maintenance.operations.record.audit import UntrustedRecordError

    asked(store, plan, "1", NO)
    (rejection,) = store.list("v1/rejections/")
    store.delete(rejection)
    with pytest.raises(UntrustedRecordError, match=rf"{rejection}, which .*/00000003\.json .* copy that entry there"):
        refuse_rejected(store, CLUSTER, plan.digest, None)
    refuse_rejected(store, CLUSTER, "d" * 64, None)
    store.put(rejection, store.get(f"v1/audit/cluster={CLUSTER}/00000003.json"))
    with pytest.raises(RefusedError, match="'ada' rejected it"):
        refuse_rejected(store, CLUSTER, plan.digest, None)


def test_a_record_that_was_removed_is_named_with_its_entry_of_the_chain(store, plan):
    import os

    from kafka_maintenance.operations.record.audit import audit_findings, keys_from

    asked(store, plan, "1", NO)
    assert audit_findings(store, CLUSTER, keys=keys_from(os.environ))[2] == ()
    removed = store.list("v1/rejections/") + store.list("v1/approvals/")
    for key in removed:
        store.delete(key)
    found = audit_findings(store, CLUSTER, keys=keys_from(os.environ))[2]
    assert {each.key for each in found} == set(removed)
    assert all("missing, and v1/audit/" in str(each) for each in found)
