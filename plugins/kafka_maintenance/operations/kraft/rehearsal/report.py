"""A rehearsal of a snapshot: the certificate's word, what happened on the copy, and what a copy cannot show; as text and as a document."""

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Final

from controller_core.model.words import counted, first_lines
from kafka_maintenance.operations.kraft.certificate import Certificate
from kafka_maintenance.operations.kraft.rehearsal.difference import Kind, counts_by_kind
from kafka_maintenance.operations.kraft.rehearsal.obstacle import Obstacle
from kafka_maintenance.operations.kraft.rehearsal.real_brokers import WithBrokers
from kafka_maintenance.operations.kraft.rehearsal.run import Outcome, Quorum
from kafka_maintenance.operations.kraft.repairs import Repair
from spark_jobs.kraft.judged import Verdict
from spark_jobs.kraft.rules import RULES

_SHOWN_MAX: Final = 20
_QUIET: Final = frozenset({Kind.SAME, Kind.NOTATION, Kind.REHEARSAL})


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal:
    """What a rehearsal found. `repaired` is how the copy with `repairs` went, where they were asked for.

    `left_out`: path → why this znode was not on the copy, or not whole. `real`: how it went with real brokers, if there were any.
    """

    certificate: Certificate
    quorum: Quorum
    outcome: Outcome
    left_out: Mapping[str, str]
    repairs: tuple[Repair, ...] = ()
    repaired: Outcome | None = None
    real: WithBrokers | None = None

    @property
    def passed(self) -> bool:
        """Of the copy as it is, or with the repairs where they were asked for; and with real brokers, if there were any."""
        return (self.repaired or self.outcome).passed and (self.real is None or self.real.passed)

    @property
    def surprises(self) -> tuple[str, ...]:
        """Obstacles that the certificate did not foresee, and ends that nothing explains."""
        unforeseen = [f"{each.path or each.line}" for each in self.outcome.obstacles if each.rule is None]
        real = [each.line for each in self.real.refusals if each.rule is None] if self.real else []
        return (*unforeseen, *self.outcome.unexplained, *real)


def rehearsal_text(rehearsal: Rehearsal) -> str:
    """For people: the verdict, obstacles, differences by class, what was not rehearsed."""
    found, quorum = rehearsal.certificate, rehearsal.quorum
    release = f", formatted with --release-version {quorum.release_version}" if quorum.release_version else ""
    asked = "none but the living brokers" if found.asked_at else "no cluster"
    lines = [
        f"rehearsal of {found.cluster}: {'passed' if rehearsal.passed else 'NOT PASSED'}",
        f"snapshot {found.snapshot} of {found.taken_at:%Y-%m-%d %H:%M} UTC, digest {found.digest}",
        f"one controller of Kafka {quorum.version}{release}; {'brokers imitated' if rehearsal.real is None else 'brokers imitated, then some real'}; {asked} was contacted",
        *_outcome_lines(rehearsal.outcome),
    ]
    if rehearsal.repaired is not None:
        lines += ["", f"WITH {len(rehearsal.repairs)} REPAIRS ON THE COPY"]
        lines += [
            f"  {each.rule} {each.path}: {'deleted' if each.data is None else 'written'}, {each.why}"
            for each in rehearsal.repairs
        ]
        lines += _outcome_lines(rehearsal.repaired)
    if rehearsal.real is not None:
        lines += _real_lines(rehearsal.real)
    questions = {
        rule.id: found.judged[rule.id].evidence for rule in RULES if found.judged[rule.id].verdict is Verdict.ASK
    }
    lines += [
        "",
        "NOT REHEARSED, ask before the day",
        *(f"  {rule} {text}" for rule, texts in questions.items() for text in texts),
    ]
    reasons = defaultdict(list)
    for path, reason in rehearsal.left_out.items():
        reasons[reason].append(path)
    lines += [
        f"  {counted(len(paths), 'znode')}, {paths[0]} for one: {reason}" for reason, paths in sorted(reasons.items())
    ]
    return "\n".join(lines)


def rehearsal_json(rehearsal: Rehearsal) -> dict[str, Any]:
    """The same as a document."""
    return {
        "cluster": rehearsal.certificate.cluster,
        "snapshot": rehearsal.certificate.snapshot,
        "manifest": rehearsal.certificate.manifest_uri,
        "digest": rehearsal.certificate.digest,
        "kafka_version": rehearsal.quorum.version,
        "release_version": rehearsal.quorum.release_version,
        "passed": rehearsal.passed,
        "surprises": list(rehearsal.surprises),
        "as_it_is": _outcome_json(rehearsal.outcome),
        "repairs": [
            {"rule": each.rule, "path": each.path, "deleted": each.data is None, "why": each.why}
            for each in rehearsal.repairs
        ],
        "repaired": _outcome_json(rehearsal.repaired) if rehearsal.repaired else None,
        "left_out": dict(rehearsal.left_out),
        "real_brokers": _real_json(rehearsal.real) if rehearsal.real else None,
    }


def _outcome_lines(outcome: Outcome) -> list[str]:
    """What happened to one copy."""
    end = "dual write reached" if outcome.reached else "dual write NOT reached"
    lines = [
        "",
        f"{end} after {outcome.attempts} attempts, {len(outcome.obstacles)} obstacles, {outcome.total_s:.0f} s",
    ]
    lines += [f"  nothing explains: {line}" for line in outcome.unexplained]
    for number, obstacle in enumerate(outcome.obstacles, start=1):
        lines += _obstacle_lines(number, obstacle)
    if outcome.reached:
        records = ", ".join(f"{kind} {count}" for kind, count in sorted(outcome.record_counts.items()))
        lines.append(f"  records: {records}; migrated in {outcome.cost.migrated_s:.1f} s")
    for kind, count in counts_by_kind(outcome.differences).items():
        if count:
            lines.append(f"  {count} {kind.value}")
            shown = [each.what for each in outcome.differences if each.kind is kind] if kind not in _QUIET else []
            lines += [f"      {what}" for what in first_lines(shown, _SHOWN_MAX)]
    return lines


def _real_lines(real: WithBrokers) -> list[str]:
    """What real brokers did."""
    end = "all run in KRaft mode" if real.reached else "NOT all run in KRaft mode"
    lines = [
        "",
        f"WITH REAL BROKERS {list(real.brokers)}",
        f"  {end} after {len(real.refusals)} refusals, {real.total_s:.0f} s",
    ]
    if real.topics is not None:
        lines.append(f"  a client saw {real.topics[0]} of {real.topics[1]} topics")
    lines += [f"  {real.left_out} further topics were not on this copy"] if real.left_out else []
    for number, each in enumerate(real.refusals, start=1):
        rule = next((rule for rule in RULES if rule.id == each.rule), None)
        who = "all" if each.broker is None else f"broker {each.broker}"
        lines.append(f"  {number}. {f'{rule.id} {rule.title}' if rule else 'foreseen by NO RULE of the certificate'}")
        lines.append(f"      {who} in {each.mode.value}: {each.line}")
        lines += [f"      to mend: {rule.mend}"] if rule else []
        lines += [f"      then tried with: {each.then}"] if each.then else []
    return lines


def _real_json(real: WithBrokers) -> dict[str, Any]:
    return {
        **asdict(real),
        "passed": real.passed,
        "refusals": [{**asdict(each), "mode": each.mode.value} for each in real.refusals],
    }


def _obstacle_lines(number: int, obstacle: Obstacle) -> list[str]:
    rule = next((rule for rule in RULES if rule.id == obstacle.rule), None)
    title = f"{rule.id} {rule.title}" if rule else "foreseen by NO RULE of the certificate"
    state = f" in {obstacle.state}" if obstacle.state else ""
    lines = [
        f"  {number}. {title}: {obstacle.path or 'no znode'}",
        f"      {obstacle.end.value}{state}; the controller says: {obstacle.line}",
    ]
    lines += [f"      to mend: {rule.mend}"] if rule else []
    more = f"      the same rule names {len(obstacle.others)} more, taken away with it: {', '.join(obstacle.others[:_SHOWN_MAX])}"
    return lines + ([more] if obstacle.others else [])


def _outcome_json(outcome: Outcome) -> dict[str, Any]:
    return {
        "reached": outcome.reached,
        "passed": outcome.passed,
        "attempts": outcome.attempts,
        "seconds": round(outcome.total_s, 1),
        "cost": asdict(outcome.cost),
        "unexplained": list(outcome.unexplained),
        "obstacles": [{**asdict(each), "end": each.end.value} for each in outcome.obstacles],
        "records": dict(outcome.record_counts),
        "classes": {kind.value: count for kind, count in counts_by_kind(outcome.differences).items()},
        "differences": [
            {"class": each.kind.value, "what": each.what} for each in outcome.differences if each.kind not in _QUIET
        ],
    }
