"""A plan that is asked about, answered, begun and permitted, for the tests of approvals."""

from datetime import UTC, datetime

from kafka_maintenance.operations.gate import approvals
from kafka_maintenance.operations.gate.permission import permission
from kafka_maintenance.operations.gate.policy import Policy
from kafka_maintenance.operations.record.receipts import EventKind, ReceiptLog, receipt_prefix

RUN = "elect_preferred_leaders.manual"
KIND = "elect_preferred_leaders"
NOW = datetime(2026, 11, 21, 12, tzinfo=UTC)
ANSWER = {"user": "olivia", "options": ["Approve"], "comment": "window", "at": "2026-11-21T11:00:00+00:00"}
NO = {"options": ["Reject"]}
NOBODY = Policy("default", {}, {})


def keep_asked(store, text, ask_id="1", run=RUN, cluster="alpha", **changed):
    question = {
        "kind": KIND,
        "digest": text.plan.digest,
        "shown": text.digest,
        "requester": "otto",
        "policy": "default",
    }
    approvals.keep_question(store, cluster=cluster, run=run, ask_id=ask_id, question=question | changed)


def keep_answered(store, ask_id="1", run=RUN, cluster="alpha", **changed):
    approvals.keep_answer(store, cluster=cluster, run=run, ask_id=ask_id, answer=ANSWER | changed)


def keep_begun(store, text, *events):
    """Records that the plan was begun, or those events of its first step; the key of the first record."""
    digest = text.plan.digest
    log = ReceiptLog(store, cluster="alpha", digest=digest, run=RUN, approver="olivia", now=NOW)
    for event in events or (EventKind.INTENDED,):
        log.append(event, step=0)
    return f"{receipt_prefix('alpha', digest)}0001-intended.json"


def permitted(store, kind=KIND, policy=NOBODY, now=NOW):
    return permission(store, kind=kind, cluster="alpha", run=RUN, policy=policy, now=now)
