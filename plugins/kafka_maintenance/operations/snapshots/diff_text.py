"""What is different between two states of a cluster, for people and for machines."""

from dataclasses import asdict
from typing import Any, Final

from controller_core.model.words import counted, first_lines, first_names
from controller_core.plans.plain import plain
from kafka_maintenance.operations.snapshots.changes import KINDS, Change, Diff

_SHOWN_MAX: Final = 20
NO_LEADER: Final = -1


def diff_text(found: Diff) -> str:
    """For people: kinds with their counts, then each change, long lists cut and counted."""
    return "\n".join(diff_lines(found))


def diff_lines(found: Diff) -> list[str]:
    """The lines of `diff_text`."""
    lines = [
        f"from {found.before} (zxid {found.before_zxid:#x}){_torn_text(found.before_torn)}",
        f"to   {found.after} (zxid {found.after_zxid:#x}){_torn_text(found.after_torn)}",
    ]
    if found.not_compared:
        lines.append(
            f"not compared: {first_names(found.not_compared, _SHOWN_MAX)} and what lies below: one side could not read "
            "it, or it holds what cannot be parsed"
        )
    if found.acls_unknown:
        lines.append(
            f"ACLs not compared: those of {counted(found.acls_unknown, 'znode')}, which one side does not know"
        )
    if not found.changes:
        lines.append("nothing changed" if not found.noise_count else "nothing changed but what --noise shows")
    if found.noise_count:
        lines.append(f"{found.noise_count} znodes differ in epochs, timestamps or spelling alone; --noise lists them")
    for kind, heading in KINDS.items():
        group = [change for change in found.changes if change.kind == kind]
        if group:
            lines.append(f"{heading}: {len(group)}")
            lines += [f"  {each}" for each in first_lines(group, _SHOWN_MAX, text=lambda change: plain(_line(change)))]
    return lines


def diff_json(found: Diff) -> dict[str, Any]:
    """For machines: all changes, and how many of each kind."""
    counts: dict[str, int] = {}
    for change in found.changes:
        counts[change.kind] = counts.get(change.kind, 0) + 1
    return {
        "before": found.before,
        "after": found.after,
        "before_zxid": found.before_zxid,
        "after_zxid": found.after_zxid,
        "before_torn": found.before_torn,
        "after_torn": found.after_torn,
        "not_compared": list(found.not_compared),
        "noise_count": found.noise_count,
        "acls_unknown": found.acls_unknown,
        "counts": counts,
        "changes": [asdict(change) for change in found.changes],
    }


def _torn_text(reason: str | None) -> str:
    return f", NOT consistent: {reason}" if reason else ""


def _line(change: Change) -> str:
    match (change.before, change.after):
        case (None, None):
            return change.subject
        case (None, after):
            return f"{change.subject}: {shown_value(after)}"
        case (before, None):
            return f"{change.subject}: was {shown_value(before)}"
        case (before, after):
            return f"{change.subject}: {shown_value(before, change.kind)} → {shown_value(after, change.kind)}"


def shown_value(value: Any, kind: str = "") -> str:
    """A value of a change of that kind, for people."""
    if kind == "leader_changed" and value == NO_LEADER:
        return "no leader"
    if isinstance(value, list):
        return "[" + ",".join(map(str, value)) + "]"
    return str(value)
