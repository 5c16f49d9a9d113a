"""What became of an approved plan, as its record says."""

from dataclasses import dataclass

from controller_core.plans.plan import Plan, plan_digest
from kafka_maintenance.operations.errors import listed
from kafka_maintenance.operations.record.receipts import EventKind, ReceiptLog, exceptions


@dataclass(frozen=True, slots=True, kw_only=True)
class Receipt:
    """What became of an approved plan.

    `uri` is the address of the last event of the record; `already_applied` says that an earlier run had done it all, and
    nothing was written this time. `exceptions` names the partitions that were left out or ended elsewhere, and why.
    """

    uri: str
    digest: str
    kind: str
    cluster: str
    approver: str
    step_count: int
    already_applied: bool
    exceptions: tuple[str, ...]
    text: str


def receipt_of(log: ReceiptLog, plan: Plan, approver: str, *, already: bool) -> Receipt:
    """What became of the plan, as its record says.

    Args:
        log: the record.
        plan: which.
        approver: who approved.
        already: an earlier run had done it all.
    """
    first = next((each for each in log.events if each.event is EventKind.DONE), None)
    text = (
        f"plan was carried out already at {first.at}, approved by {first.approver!r}; nothing was written now"
        if already and first is not None
        else f"plan carried out and verified in {len(plan.steps)} step(s), approved by {approver!r}"
    )
    verified = [each.detail for each in log.events if each.event is EventKind.VERIFIED and "took_s" in each.detail]
    if verified:
        took, estimated = (sum(each[name] for each in verified) for name in ("took_s", "estimate_s"))
        text += f"; copied in {took} s, where {estimated} s were estimated from bytes and throttle"
    if excepted := exceptions(log.events):
        text += f"; {len(excepted)} partition(s) not as planned: {listed(excepted)}"
    return Receipt(
        uri=log.uri,
        digest=plan_digest(plan),
        kind=plan.kind.value,
        cluster=plan.cluster,
        approver=approver,
        step_count=len(plan.steps),
        already_applied=already,
        exceptions=excepted,
        text=text,
    )
