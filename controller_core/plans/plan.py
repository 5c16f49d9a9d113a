"""A plan: what shall be asked of a cluster, step by step, under which conditions, and how to go back; named by its digest.

The document is canonical JSON, so that equal plans have equal bytes and a person approves exactly one of them.
Source: docs/operations.md, "The plan"; docs/adr/0007.
"""

import hashlib
import re
from enum import StrEnum
from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType, structs

from controller_core.model.errors import InvalidPlanError, PlanAlteredError
from controller_core.plans.conditions import (
    AssignedTo,
    BrokerInRack,
    BrokersRegistered,
    Condition,
    RequestAbsent,
    subject,
)
from controller_core.plans.document import decoded, encoded
from controller_core.plans.request_znodes import Request
from controller_core.plans.rules import STOP_ON_DIFFERENCE, ExecutionRules, StoredRules, rules_of, stored_rules
from controller_core.plans.safeguards import safeguards

SCHEMA_VERSION: Final = 1
_OUTSIDE_THE_DIGEST: Final = ("digest", "code_version")
_HEAD: Final = re.compile(
    rb'(\{"cluster":"(?:[^"\\]|\\.)*",)(?:"code_version":"(?:[^"\\]|\\.)*",)?"digest":"[0-9a-f]{64}",', re.DOTALL
)
"""How a document begins that is spelt as it was stored, with what stands outside of its digest."""


class PlanKind(StrEnum):
    """The maintenance operations that change a cluster."""

    ELECT_PREFERRED_LEADERS = "elect_preferred_leaders"
    REASSIGN_PARTITIONS = "reassign_partitions"
    DELETE_TOPICS = "delete_topics"
    DRAIN_ISR_NOTIFICATIONS = "drain_isr_notifications"
    MOVE_LEADERS = "move_leaders"


class SnapshotReference(Struct, frozen=True, forbid_unknown_fields=True):
    """The snapshot that a plan was made from: the address of its manifest, and the manifest's digest."""

    manifest: str
    digest: str


class LeftOut(Struct, frozen=True, forbid_unknown_fields=True):
    """What one might expect in the plan, and why it is not there."""

    subject: str
    reason: str


class PlanStep(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Requests made together, what must hold right before them, and what must hold before the next step is taken."""

    effects: tuple[Request, ...]
    expectations: tuple[Condition, ...]
    outcomes: tuple[Condition, ...]

    @property
    def checks(self) -> tuple[Condition, ...]:
        """What must hold right before the requests: the expectations, and what follows from the requests themselves."""
        implied = (condition for effect in self.effects for condition in safeguards(effect))
        return tuple(dict.fromkeys((*self.expectations, *implied)))

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Checks and outcomes."""
        return (*self.checks, *self.outcomes)


class Rollback(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How to go back: in words, and as steps where requests can do it."""

    text: str
    steps: tuple[PlanStep, ...] = ()


class _Content(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a plan has in memory and in the store alike."""

    kind: PlanKind
    cluster: str
    kafka_cluster_id: str | None
    snapshot: SnapshotReference | None
    expectations: tuple[Condition, ...]
    steps: tuple[PlanStep, ...]
    predicted: tuple[str, ...]
    left_out: tuple[LeftOut, ...] = ()
    risks: tuple[str, ...] = ()
    rollback: Rollback


class Plan(_Content, frozen=True, kw_only=True):
    """What shall be done to one cluster.

    `expectations` must hold before every step, those of a step only before it. `predicted` has one line per thing that
    will change, `risks` what the approver should weigh. `snapshot` is None for a plan made from a live read. `rules` say how
    it is carried out where the cluster differs. `proof` is the
    SHA-256 of the planner's proof (64 hex digits), None where the targets were given.
    """

    rules: ExecutionRules = STOP_ON_DIFFERENCE
    proof: str | None = None

    @property
    def effects(self) -> tuple[Request, ...]:
        """The requests of all steps, in order."""
        return tuple(effect for step in self.steps for effect in step.effects)

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """All expectations, and the checks and outcomes of all steps."""
        return (*self.expectations, *(condition for step in self.steps for condition in step.conditions))


class _Document(_Content, frozen=True, kw_only=True):
    """A plan as it is stored; what an older version did not write stands in no plan that has it as by default, so that digests stay."""

    schema_version: int
    rules: StoredRules | UnsetType = UNSET
    proof: str | UnsetType = UNSET
    code_version: str | UnsetType = UNSET
    digest: str | UnsetType = UNSET


class _Stamp(Struct):
    """What is read of a document before its digest is known to be right."""

    schema_version: object = None
    digest: object = None


def plan_digest(plan: Plan) -> str:
    """64 hex digits: SHA-256 of the canonical document without its digest field."""
    return _sha256(encoded(_document_of(plan)))


def plan_to_bytes(plan: Plan, *, code_version: str | None = None) -> bytes:
    """The document as stored, digest included; `code_version` as in `plan_and_digest`."""
    return plan_and_digest(plan, code_version=code_version)[0]


def plan_and_digest(plan: Plan, *, code_version: str | None = None) -> tuple[bytes, str]:
    """The document as stored, and its digest.

    `code_version` is that of the program that made the plan. It stands beside the digest and not in what is digested: a
    person approves what is done to the cluster, and the same content has the same digest whichever version planned it.
    """
    document = _document_of(plan)
    digest = _sha256(encoded(document))
    made_by = UNSET if code_version is None else code_version
    return encoded(structs.replace(document, digest=digest, code_version=made_by)), digest


def plan_from_bytes(data: bytes, *, where: str) -> Plan:
    """The plan in a stored document; arguments and errors: see `plan_and_digest_from_bytes`."""
    return plan_and_digest_from_bytes(data, where=where)[0]


def plan_and_digest_from_bytes(data: bytes, *, where: str) -> tuple[Plan, str]:
    """The plan in a stored document, and its digest.

    Args:
        data: what `plan_to_bytes` wrote.
        where: the document's address, for messages.

    Raises:
        InvalidPlanError: no plan, or one of another schema version.
        PlanAlteredError: one that was altered after it was stored.
    """
    stamp = decoded(data, _Stamp, where)
    if stamp.schema_version != SCHEMA_VERSION:
        raise InvalidPlanError(
            f"plan not read: {where}.schema_version: expected {SCHEMA_VERSION}, found {stamp.schema_version!r}; make the plan again"
        )
    head = _HEAD.match(data)
    digested = head[1] + data[head.end() :] if head else data
    found = _sha256(digested)
    if found != stamp.digest:  # one that is spelt in another way has its digest, too
        values = decoded(data, dict[str, object], where)
        digested = encoded({name: value for name, value in values.items() if name not in _OUTSIDE_THE_DIGEST})
        found = _sha256(digested)
    if found != stamp.digest:
        raise PlanAlteredError(
            f"plan {where} was altered: it names digest {str(stamp.digest)[:12]}, its content has {found[:12]}; "
            "make the plan again and have it approved again"
        )
    plan = _plan_of(decoded(data, _Document, where), where)
    if encoded(_document_of(plan)) != digested:
        raise InvalidPlanError(
            f"plan not read: {where}: expected the fields of schema version {SCHEMA_VERSION} as they are written, none twice and "
            "none that is as by default; make the plan again"
        )
    return plan, found


def open_conditions(plan: Plan, *, first_step: int = 0) -> tuple[Condition, ...]:
    """What the plan assumes of the cluster as it is before the step `first_step`, for all steps from there on.

    A partition or topic that several steps concern is checked for the first of them only: that step changes it. Request
    znodes must be absent when the first step is taken; the later ones wait for the earlier ones.
    """
    conditions = list(plan.expectations)
    changed: set[str] = set()
    for number, step in enumerate(plan.steps[first_step:]):
        conditions += [
            condition
            for condition in step.checks
            if subject(condition) not in changed and not (number and isinstance(condition, RequestAbsent))
        ]
        changed |= {subject(condition) for condition in step.outcomes}
    return tuple(dict.fromkeys(conditions))


def final_outcomes(plan: Plan) -> tuple[Condition, ...]:
    """What must hold once the whole plan is done; of what several steps change, the last one counts.

    That a request is gone tells only when the next one may be made: somebody else's may be there later.
    """
    last: dict[tuple[type, str], Condition] = {}
    for condition in (condition for step in plan.steps for condition in step.outcomes):
        if not isinstance(condition, RequestAbsent):
            last[type(condition), subject(condition)] = condition
    return tuple(last.values())


def rollback_plan(plan: Plan, *, digest: str | None = None) -> Plan | None:
    """The plan that undoes `plan` after it was carried out; None where requests cannot undo it.

    `digest` is that of `plan`, where it is known already.
    """
    if not plan.rollback.steps:
        return None
    name = (digest or plan_digest(plan))[:12]
    steps = plan.rollback.steps
    brokers = {
        broker for step in steps for each in step.outcomes if isinstance(each, AssignedTo) for broker in each.replicas
    }
    return structs.replace(
        plan,
        expectations=(
            *(each for each in plan.expectations if not isinstance(each, BrokersRegistered | BrokerInRack)),
            BrokersRegistered(brokers=tuple(sorted(brokers))),
        ),
        steps=steps,
        predicted=tuple(_before_and_after(steps)),
        left_out=(),
        proof=None,
        risks=(f"Undoes plan {name}; it fits only after that plan was carried out.",),
        rollback=Rollback(text="Plan the repair again: an approval serves one application."),
    )


def _before_and_after(steps: tuple[PlanStep, ...]) -> list[str]:
    lines = []
    for step in steps:
        before = {each.partition: each for each in step.expectations if isinstance(each, AssignedTo)}
        for outcome in step.outcomes:
            if isinstance(outcome, AssignedTo) and outcome.partition in before:
                old, new = before[outcome.partition].replicas, outcome.replicas
                lines.append(f"{outcome.partition}  replicas {list(old)} → {list(new)}")
    return lines


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _document_of(plan: Plan) -> _Document:
    return _Document(
        **_content(plan),
        schema_version=SCHEMA_VERSION,
        rules=UNSET if plan.rules == STOP_ON_DIFFERENCE else stored_rules(plan.rules),
        proof=UNSET if plan.proof is None else plan.proof,
    )


def _plan_of(document: _Document, where: str) -> Plan:
    try:
        rules = STOP_ON_DIFFERENCE if document.rules is UNSET else rules_of(document.rules)
    except ValueError as error:
        raise InvalidPlanError(f"plan not read: {where}.rules: {error}; make the plan again") from error
    return Plan(**_content(document), rules=rules, proof=None if document.proof is UNSET else document.proof)


def _content(found: _Content) -> dict[str, Any]:
    return {name: getattr(found, name) for name in _Content.__struct_fields__}
