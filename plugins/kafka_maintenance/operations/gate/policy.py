"""Who may approve what: one YAML file, checked against a schema, its hash kept in every record.

Source: docs/security.md, "The policy"; the schema below is the reference of its fields.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any, Final

import yaml
from jsonschema import Draft202012Validator

from controller_core.plans.kinds import kind_record
from controller_core.plans.plan import PlanKind
from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.gate.contents import Contents

POLICY_VARIABLE: Final = "KAFKA_MAINTENANCE_POLICY"
KINDS: Final[tuple[str, ...]] = (*PlanKind, "cancel_reassignment", "retain_snapshots", "restore")
"""Kinds of what a policy has rules for: the plans that ask Kafka, a cancel, and what writes a store or a whole tree."""
TWO_PERSONS: Final = frozenset(
    {*(kind for kind in PlanKind if kind_record(kind).destroys_data), "retain_snapshots", "restore"}
)
"""Kinds whose approver is not the requester unless the policy says otherwise."""
CAPS: Final = ("partitions_max", "topics_max", "brokers_max", "bytes_max")
CAPS_OF_KIND: Final[Mapping[str, tuple[str, ...]]] = {
    kind: tuple(f"{count}_max" for count in kind_record(kind).counted_by) for kind in PlanKind
}
"""What the plans of a kind can be counted by (`contents_of`); a kind that asks nothing of Kafka has no counts."""
_NAMES: Final = {"type": "array", "items": {"type": "string", "minLength": 1}, "uniqueItems": True}
_COUNT: Final = {"type": "integer", "minimum": 1}
_WINDOW: Final = {"type": "string", "pattern": r"^([01]\d|2[0-3]):[0-5]\d-([01]\d|2[0-3]):[0-5]\d$"}
_KIND_RULES: Final[Mapping[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "approvers": {
            "type": "object",
            "additionalProperties": False,
            "properties": {"users": _NAMES, "roles": _NAMES},
            "description": "who may approve; without it whoever Airflow lets answer",
        },
        "approvals": {**_COUNT, "description": "how many persons must approve"},
        "requester_may_approve": {"type": "boolean"},
        "ticket": {"type": "string", "format": "regex", "description": "what the comment must contain"},
        "windows": {"type": "array", "minItems": 1, "items": _WINDOW, "description": "UTC; applied only then"},
        "partitions_max": _COUNT,
        "topics_max": _COUNT,
        "brokers_max": _COUNT,
        "bytes_max": {**_COUNT, "description": "copied by a reassignment; one whose sizes are not known is refused"},
    },
}
_RULE: Final[Mapping[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["name", "kind", "partitions_max"],
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z0-9-]{1,60}$"},
        "kind": {"const": "elect_preferred_leaders", "description": "nothing else is approved without a person"},
        "partitions_max": _COUNT,
        "all_in_sync": {"const": True},
        "between": _WINDOW,
    },
}
_CLUSTER: Final[Mapping[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "properties": {
        "approval_valid_h": {"type": "number", "exclusiveMinimum": 0, "maximum": 720},
        "command_may_apply": {"enum": ["never", "with-signed-approval", "yes"]},
        "others_may_clear": {"type": "boolean"},
        "airflow_must_agree": {
            "type": "boolean",
            "description": "nothing is applied unless Airflow's record was read and agrees",
        },
        "signed_record": {"type": "boolean", "description": "nothing is asked or applied without audit keys"},
        "freezes": {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["from", "to", "why"],
                "properties": {"from": {"type": "string"}, "to": {"type": "string"}, "why": {"type": "string"}},
            },
        },
        "kinds": {
            "type": "object",
            "additionalProperties": False,
            "properties": dict.fromkeys(KINDS, _KIND_RULES),
        },
        "break_glass": {
            "type": "object",
            "additionalProperties": False,
            "required": ["users"],
            "properties": {"users": _NAMES},
            "description": "who may approve alone, outside windows and freezes, with `break glass:` in the comment",
        },
        "approve_by_rule": {"type": "array", "items": _RULE},
    },
}
SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "additionalProperties": False,
    "required": ["version"],
    "properties": {
        "version": {"const": 1},
        "roles": {"type": "object", "additionalProperties": _NAMES},
        "default": _CLUSTER,
        "clusters": {"type": "object", "additionalProperties": _CLUSTER},
    },
}
BREAK_GLASS: Final = "break glass:"


@dataclass(frozen=True, slots=True)
class Answered:
    """Who said yes to a plan, with the comment."""

    user: str
    comment: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the policy says of the answers to a plan: `missing` says what is not yet there; empty when it is approved."""

    missing: tuple[str, ...]
    broke_glass: bool = False


@dataclass(frozen=True, slots=True)
class Policy:
    """What the file says of one cluster; `digest` is the SHA-256 of the file, "default" where there is none.

    `approvers` (None: everybody whom the rules let) and `caps` are limits from beside the file, which hold for every kind together with it.
    """

    digest: str
    roles: Mapping[str, frozenset[str]]
    rules: Mapping[str, Any]
    approvers: frozenset[str] | None = None
    caps: Mapping[str, int] = field(default_factory=dict)

    def narrowed(self, approvers: frozenset[str] | None, caps: Mapping[str, int]) -> "Policy":
        """The policy within further limits: they take away and never give. Its digest names them, too."""
        if approvers is None and not caps:
            return self
        limits = {"approvers": None if approvers is None else sorted(approvers), "caps": dict(caps)}
        hashed = hashlib.sha256(json.dumps(limits, sort_keys=True).encode()).hexdigest()
        return replace(self, digest=f"{self.digest}+{hashed}", approvers=approvers, caps=caps)

    @property
    def approval_valid(self) -> timedelta:
        """How long after its last answer an approval counts."""
        return timedelta(hours=float(self.rules.get("approval_valid_h", 12)))

    @property
    def command_may_apply(self) -> str:
        """`never`, `with-signed-approval` or `yes`."""
        return str(self.rules.get("command_may_apply", "yes"))

    @property
    def others_may_clear(self) -> bool:
        """Whether a run counts as it did before, where somebody else clears it: as asked for, and after its approval."""
        return bool(self.rules.get("others_may_clear", False))

    def requester(self, started_by: str | None, clears: int) -> str | None:
        """Who asked for the plan of a run that was cleared so often before its gate asked.

        None after a clear: whoever cleared it had it planned or shown at a time of his choice, and Airflow does not tell a task who that was.
        """
        return started_by if not clears or self.others_may_clear else None

    @property
    def airflow_must_agree(self) -> bool:
        """Whether nothing is applied unless Airflow's own record of the answer was read and agrees with ours."""
        return bool(self.rules.get("airflow_must_agree", False))

    @property
    def signed_record(self) -> bool:
        """Whether nothing is asked or applied unless the audit chain is signed, and signatures are checked."""
        return bool(self.rules.get("signed_record", False))

    def approvals_needed(self, kind: str, requester: str | None) -> int:
        """How many persons must approve. Two where the requester must not and nobody vouches for who that is."""
        asked = int(self._of(kind).get("approvals", 1))
        return max(asked, 2) if requester is None and not self.requester_may_approve(kind) else asked

    def who_approves(self, kind: str, requester: str | None = None) -> str:
        """Whom a plan of that kind waits for, in words for a person: `2 approvals by anna, ben`."""
        users = self._named(kind)
        if self.approvers is not None:
            users = self.approvers if users is None else users & self.approvers
        needed = self.approvals_needed(kind, requester)
        by = (
            "anybody who may answer in Airflow"
            if users is None
            else ", ".join(sorted(users)) or "nobody: the policy names none"
        )
        return f"{needed} approval{'s' if needed > 1 else ''} by {by}"

    def _named(self, kind: str) -> frozenset[str] | None:
        """Whom the file lets approve plans of that kind; None: everybody."""
        named = self._of(kind).get("approvers")
        if named is None:
            return None
        return frozenset(named.get("users", ())).union(
            *(self.roles.get(role, frozenset()) for role in named.get("roles", ()))
        )

    def requester_may_approve(self, kind: str) -> bool:
        """Whether one person may ask for a plan of that kind and approve it."""
        return bool(self._of(kind).get("requester_may_approve", kind not in TWO_PERSONS))

    def refusals(self, kind: str, contents: Contents) -> tuple[str, ...]:
        """Why a plan of that size must not even be asked about."""
        counts = (contents.partitions, contents.topics, contents.brokers)
        most = {name: min(said) for name in CAPS if (said := self._said(kind, name))}
        found = [
            f"expected at most {most[name]} {name.removesuffix('_max')} in one approval, found {count}"
            for name, count in zip(CAPS[:3], counts, strict=True)
            if name in most and count > most[name]
        ]
        bytes_max = most.get("bytes_max")
        if bytes_max is not None and contents.bytes is None:
            found.append(
                f"expected at most {bytes_max} bytes to copy in one approval, and the plan knows no sizes; give them (bootstrap_servers)"
            )
        elif bytes_max is not None and contents.bytes is not None and contents.bytes > bytes_max:
            found.append(f"expected at most {bytes_max} bytes to copy in one approval, found {contents.bytes}")
        return tuple(found)

    def verdict(self, kind: str, requester: str | None, answers: tuple[Answered, ...]) -> Verdict:
        """Whether these answers, each a yes, approve a plan of that kind; what is missing otherwise."""
        glass = self.rules.get("break_glass", {}).get("users", ())
        if any(each.user in glass and each.comment.lower().startswith(BREAK_GLASS) for each in answers):
            return Verdict((), broke_glass=True)
        missing: list[str] = []
        counting: dict[str, Answered] = {}
        for each in answers:
            problem = self._why_not(kind, requester, each)
            if problem:
                missing.append(problem)
            else:
                counting[each.user] = each
        needed = self.approvals_needed(kind, requester)
        if len(counting) >= needed:
            return Verdict(())
        missing.append(
            f"{len(counting)} of {needed} approvals are there" + (f": {', '.join(counting)}" if counting else "")
        )
        return Verdict(tuple(missing))

    def _why_not(self, kind: str, requester: str | None, answer: Answered) -> str | None:
        if self.approvers is not None and answer.user not in self.approvers:
            return f"{answer.user!r} is no approver of this cluster, as its connection says"
        of_kind, allowed = self._of(kind), self._named(kind)
        if allowed is not None and answer.user not in allowed:
            return f"{answer.user!r} is no approver of {kind}"
        if answer.user == requester and not self.requester_may_approve(kind):
            return f"{answer.user!r} asked for it and may not approve it alone"
        ticket = of_kind.get("ticket")
        if ticket is not None and not re.search(ticket, answer.comment):
            return f"the comment of {answer.user!r} names no ticket (expected {ticket})"
        return None

    def closed(self, kind: str, now: datetime, rule: Mapping[str, Any] | None = None) -> str | None:
        """Why nothing of that kind is applied at `now`, if that `rule` approves it; None when the window is open."""
        moment = now.astimezone(UTC)
        for freeze in self.rules.get("freezes", ()):
            if _moment(freeze["from"]) <= moment < _moment(freeze["to"]):
                return f"freeze until {freeze['to']}: {freeze['why']}"
        own = None if rule is None else rule.get("between")
        windows = self._of(kind).get("windows") if own is None else [own]
        if windows is not None and not any(_within(window, moment.time()) for window in windows):
            return f"expected a time in {', '.join(windows)} UTC, found {moment:%H:%M}"
        return None

    def rule_for(self, kind: str, contents: Contents, now: datetime) -> Mapping[str, Any] | None:
        """The rule that approves the plan without a person, if there is one at a time at which it may be applied."""
        for rule in self.rules.get("approve_by_rule", ()):
            if (
                rule["kind"] == kind
                and contents.partitions <= rule["partitions_max"]
                and (contents.all_in_sync or not rule.get("all_in_sync"))
                and self.closed(kind, now, rule) is None
            ):
                found: Mapping[str, Any] = rule
                return found
        return None

    def _said(self, kind: str, cap: str) -> list[int]:
        """What file and limits say of a cap."""
        return [int(where[cap]) for where in (self._of(kind), self.caps) if cap in where]

    def _of(self, kind: str) -> Mapping[str, Any]:
        found: Mapping[str, Any] = self.rules.get("kinds", {}).get(kind, {})
        return found


def policy_of(cluster: str, path: Path | None = None) -> Policy:
    """The policy of a cluster: that of the file at `path` or, without one, of the file that the environment names.

    Raises:
        BadInputError: it cannot be read, or holds something that the schema does not know; names the field.
    """
    named = os.environ.get(POLICY_VARIABLE)
    if path is None and not named:
        return Policy("default", {}, {})
    source = path or Path(str(named))
    try:
        content = source.read_bytes()
        document = yaml.safe_load(content)
    except (OSError, yaml.YAMLError) as error:
        found = " ".join(str(error).split())  # a YAML error has several lines
        raise BadInputError(f"policy {source} not read: expected YAML, found: {found}; correct the file") from None
    return policy_from(document, cluster, hashlib.sha256(content).hexdigest(), str(source))


def policy_from(document: Any, cluster: str, digest: str, where: str) -> Policy:
    """The policy of a cluster in a parsed document; its own section replaces the default one, field by field.

    Args:
        document: parsed YAML.
        cluster: its name.
        digest: of the document, SHA-256 in hex.
        where: named in errors.

    Raises:
        BadInputError: a field that is unknown, missing or of another kind; names it.
    """
    problems = sorted(Draft202012Validator(SCHEMA).iter_errors(document), key=lambda error: list(map(str, error.path)))
    if problems:
        first = problems[0]
        field = ".".join(map(str, first.path)) or "the document"
        raise BadInputError(f"policy {where} not used: {field}: {first.message[:300]}; see docs/security.md")
    rules = {**document.get("default", {}), **document.get("clusters", {}).get(cluster, {})}
    for freeze in rules.get("freezes", ()):
        for name in ("from", "to"):
            try:
                _moment(freeze[name])
            except ValueError:
                raise BadInputError(
                    f"policy {where} not used: freezes: expected a time as 2026-12-20T00:00Z in {name!r}, found {freeze[name]!r}"
                ) from None
        if _moment(freeze["from"]) >= _moment(freeze["to"]):
            raise BadInputError(
                f"policy {where} not used: freezes: expected 'from' before 'to', found {freeze['from']!r} and {freeze['to']!r}, which would hold "
                "nothing back; a date alone is its 00:00 UTC: correct it"
            )
    for kind, of_kind in rules.get("kinds", {}).items():
        try:
            re.compile(of_kind.get("ticket", ""))
        except re.error as error:
            raise BadInputError(f"policy {where} not used: kinds.{kind}.ticket: {error}") from None
        idle = [cap for cap in CAPS if cap in of_kind and cap not in CAPS_OF_KIND.get(kind, ())]
        if idle:
            raise BadInputError(
                f"policy {where} not used: kinds.{kind}: expected of {', '.join(CAPS)} only what such plans are counted by, "
                f"{', '.join(CAPS_OF_KIND.get(kind, ())) or 'which is none'}, found {', '.join(idle)}, which would hold nothing back; take it out"
            )
    roles = {name: frozenset(users) for name, users in document.get("roles", {}).items()}
    return Policy(digest, roles, rules)


def _moment(text: str) -> datetime:
    found = datetime.fromisoformat(text)
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _within(window: str, moment: time) -> bool:
    """Whether `moment` lies in `HH:MM-HH:MM`, which may pass midnight; equal ends are the whole day."""
    start, end = (time.fromisoformat(part) for part in window.split("-"))
    return start <= moment < end if start < end else moment >= start or moment < end
