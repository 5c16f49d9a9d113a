"""A plan: what shall be asked of a cluster, step by step, under which conditions, and how to go back; named by its digest.

The document is canonical JSON, so that equal plans have equal bytes and a person approves exactly one of them.
Source: docs/operations.md, "The plan"; docs/adr/0007.
"""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final, NamedTuple

from controller_core.model.errors import InvalidPlanError, PlanAlteredError
from controller_core.plans.checks import Unmet, unmet
from controller_core.plans.conditions import (
    AssignedTo,
    BrokersRegistered,
    Condition,
    RequestAbsent,
    condition_from_json,
    condition_to_json,
    subject,
)
from controller_core.plans.fields import PlanFields, canonical, parse
from controller_core.plans.observation import Observation
from controller_core.plans.request_znodes import Request, request_from_json, request_to_json
from controller_core.plans.rules import STOP_ON_DIFFERENCE, ExecutionRules, rules_from_json, rules_to_json
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


class SnapshotReference(NamedTuple):
    """The snapshot that a plan was made from: the address of its manifest, and the manifest's digest."""

    manifest: str
    digest: str


class LeftOut(NamedTuple):
    """What one might expect in the plan, and why it is not there."""

    subject: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanStep:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Rollback:
    """How to go back: in words, and as steps where requests can do it."""

    text: str
    steps: tuple[PlanStep, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What shall be done to one cluster.

    `expectations` must hold before every step, those of a step only before it. `predicted` has one line per thing that
    will change, `risks` what the approver should weigh. `snapshot` is None for a plan made from a live read. `rules` say how
    it is carried out where the cluster differs. `proof` is the
    SHA-256 of the planner's proof (64 hex digits), None where the targets were given.
    """

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


def plan_digest(plan: Plan) -> str:
    """64 hex digits: SHA-256 of the canonical document without its digest field."""
    return _digest(_plan_to_json(plan))


def plan_to_bytes(plan: Plan, *, code_version: str | None = None) -> bytes:
    """The document as stored, digest included; `code_version` as in `plan_and_digest`."""
    return plan_and_digest(plan, code_version=code_version)[0]


def plan_and_digest(plan: Plan, *, code_version: str | None = None) -> tuple[bytes, str]:
    """The document as stored, and its digest.

    `code_version` is that of the program that made the plan. It stands beside the digest and not in what is digested: a
    person approves what is done to the cluster, and the same content has the same digest whichever version planned it.
    """
    document = _plan_to_json(plan)
    digest = _digest(document)
    made_by = {} if code_version is None else {"code_version": code_version}
    return canonical({**document, **made_by, "digest": digest}), digest


def plan_from_bytes(data: bytes, *, where: str) -> Plan:
    """The plan in a stored document; arguments and errors as of `plan_and_digest_from_bytes`."""
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
    document = parse(data, where)
    version = document.values.get("schema_version")
    if version != SCHEMA_VERSION:
        raise document.refused("schema_version", str(SCHEMA_VERSION), version)
    stored = document.text("digest")
    head = _HEAD.match(data)
    digested = head[1] + data[head.end() :] if head else data
    found = hashlib.sha256(digested).hexdigest()
    if found != stored:  # one that is spelt in another way has its digest, too
        digested = canonical(
            {name: value for name, value in document.values.items() if name not in _OUTSIDE_THE_DIGEST}
        )
        found = hashlib.sha256(digested).hexdigest()
    if found != stored:
        raise PlanAlteredError(
            f"plan {where} was altered: it names digest {stored[:12]}, its content has {found[:12]}; "
            "make the plan again and have it approved again"
        )
    plan = _plan_from_json(document)
    if canonical(_plan_to_json(plan)) != digested:
        raise InvalidPlanError(
            f"plan not read: {where}: expected the fields of schema version {SCHEMA_VERSION} and no others; make the plan again"
        )
    return plan, stored


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


def check_expectations(plan: Plan, observed: Observation, *, first_step: int = 0) -> tuple[Unmet, ...]:
    """What of the plan's assumptions (`open_conditions`) does not hold in `observed`."""
    return unmet(open_conditions(plan, first_step=first_step), observed)


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
    return replace(
        plan,
        expectations=(
            *(each for each in plan.expectations if not isinstance(each, BrokersRegistered)),
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


def _digest(document: Mapping[str, object]) -> str:
    return hashlib.sha256(canonical(document)).hexdigest()


def _plan_to_json(plan: Plan) -> dict[str, object]:
    return {
        "schema_version": SCHEMA_VERSION,
        "kind": plan.kind.value,
        "cluster": plan.cluster,
        "kafka_cluster_id": plan.kafka_cluster_id,
        "snapshot": None if plan.snapshot is None else dict(plan.snapshot._asdict()),
        "expectations": [condition_to_json(condition) for condition in plan.expectations],
        "steps": [_step_to_json(step) for step in plan.steps],
        "predicted": list(plan.predicted),
        "left_out": [dict(each._asdict()) for each in plan.left_out],
        "risks": list(plan.risks),
        "rollback": {
            "text": plan.rollback.text,
            "steps": [_step_to_json(step) for step in plan.rollback.steps],
        },
        # a plan of an older version names no rules; its digest stays what it was
        **({} if plan.rules == STOP_ON_DIFFERENCE else {"rules": rules_to_json(plan.rules)}),
        **({} if plan.proof is None else {"proof": plan.proof}),
    }


def _step_to_json(step: PlanStep) -> dict[str, object]:
    return {
        "effects": [request_to_json(effect) for effect in step.effects],
        "expectations": [condition_to_json(condition) for condition in step.expectations],
        "outcomes": [condition_to_json(condition) for condition in step.outcomes],
    }


def _plan_from_json(document: PlanFields) -> Plan:
    kind = document.text("kind")
    if kind not in set(PlanKind):
        raise document.refused("kind", f"one of {', '.join(PlanKind)}", kind)
    snapshot = None if document.values.get("snapshot") is None else document.section("snapshot")
    rollback = document.section("rollback")
    return Plan(
        kind=PlanKind(kind),
        cluster=document.text("cluster"),
        kafka_cluster_id=document.text_or_none("kafka_cluster_id"),
        snapshot=None if snapshot is None else SnapshotReference(snapshot.text("manifest"), snapshot.text("digest")),
        expectations=_conditions(document, "expectations"),
        steps=tuple(_step_from_json(step) for step in document.objects("steps")),
        predicted=document.texts("predicted"),
        left_out=tuple(LeftOut(each.text("subject"), each.text("reason")) for each in document.objects("left_out")),
        risks=document.texts("risks"),
        rollback=Rollback(
            text=rollback.text("text"), steps=tuple(_step_from_json(step) for step in rollback.objects("steps"))
        ),
        rules=rules_from_json(document.section("rules")) if "rules" in document.values else STOP_ON_DIFFERENCE,
        proof=document.text_or_none("proof"),
    )


def _step_from_json(step: PlanFields) -> PlanStep:
    return PlanStep(
        effects=tuple(request_from_json(effect) for effect in step.objects("effects")),
        expectations=_conditions(step, "expectations"),
        outcomes=_conditions(step, "outcomes"),
    )


def _conditions(row: PlanFields, name: str) -> tuple[Condition, ...]:
    return tuple(condition_from_json(each) for each in row.objects(name))
