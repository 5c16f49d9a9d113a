"""The certificate of a cluster: each precondition of a migration to KRaft, judged from one snapshot.

It names the snapshot that it judged, and expires with its age. Nothing is shown as a fact that a snapshot cannot tell.
Source: docs/kraft.md, which says of each rule how it was measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from controller_core.adapters.snapshot.manifest import Manifest
from kafka_maintenance import __version__
from kafka_maintenance.operations.errors import BadInputError
from spark_jobs.kraft.judged import Judged, Verdict
from spark_jobs.kraft.phase import Phase, PhaseId, phase_of
from spark_jobs.kraft.rules import RULES, judge_all
from spark_jobs.kraft.tree import Tree

VALID_FOR: Final = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Certificate:
    """What was judged, of which snapshot, until when it counts; `asked_at`: when brokers were asked, None: they were not."""

    cluster: str
    snapshot: str
    manifest_uri: str
    digest: str
    taken_at: datetime
    phase: Phase
    judged: Mapping[str, Judged]
    asked_at: datetime | None = None

    @property
    def expires_at(self) -> datetime:
        """From then on a newer snapshot is to be judged."""
        return self.taken_at + VALID_FOR

    def verdicts(self, verdict: Verdict) -> tuple[str, ...]:
        """Ids of the rules with this verdict, in order."""
        return tuple(rule.id for rule in RULES if self.judged[rule.id].verdict is verdict)

    @property
    def obstacles(self) -> tuple[str, ...]:
        """Rules that are not met: with one of them no migration is to be started."""
        return self.verdicts(Verdict.NOT_MET)


def certify(tree: Tree, manifest: Manifest) -> Certificate:
    """Judges every rule. Never raises for what the tree holds."""
    return Certificate(
        cluster=manifest.cluster,
        snapshot=manifest.snapshot_id,
        manifest_uri=manifest.uri,
        digest=manifest.digest,
        taken_at=manifest.taken_at,
        phase=phase_of(tree),
        judged=judge_all(tree),
    )


def certificate_text(certificate: Certificate, now: datetime) -> str:
    """The certificate for a person: verdict first, then what is not met, what to decide, what to ask."""
    found = certificate
    state = f"{len(found.obstacles)} obstacles" if found.obstacles else "no obstacle in the snapshot"
    if now > found.expires_at:
        state += "; EXPIRED, judge a newer snapshot"
    lines = [
        f"{found.cluster}: {state}. Phase {found.phase.id.value}: {found.phase.text}.",
        f"snapshot {found.snapshot} of {found.taken_at:%Y-%m-%d %H:%M} UTC, digest {found.digest}",
        f"judged by kafka-maintenance {__version__}, counts until {found.expires_at:%Y-%m-%d %H:%M} UTC or the first change of the cluster",
    ]
    lines += [f"brokers asked at {found.asked_at:%Y-%m-%d %H:%M} UTC"] if found.asked_at else []
    heads = {Verdict.NOT_MET: "NOT MET", Verdict.DECIDE: "DECIDE FIRST", Verdict.ASK: "ASK, a snapshot cannot tell"}
    for verdict, head in heads.items():
        rules = [rule for rule in RULES if found.judged[rule.id].verdict is verdict]
        if rules:
            lines += ["", head]
        for rule in rules:
            lines += [f"  {rule.id} {rule.title}", *(f"      {each}" for each in found.judged[rule.id].evidence)]
            lines += [] if verdict is Verdict.ASK else [f"      if ignored: {rule.ignored}; to mend: {rule.mend}"]
    met = ", ".join(found.verdicts(Verdict.MET))
    return "\n".join([*lines, "", f"MET: {met or 'none'}"])


def certificate_json(certificate: Certificate) -> dict[str, Any]:
    """The certificate as a document."""
    return {
        "cluster": certificate.cluster,
        "snapshot": certificate.snapshot,
        "manifest": certificate.manifest_uri,
        "digest": certificate.digest,
        "taken_at": certificate.taken_at.isoformat(),
        "expires_at": certificate.expires_at.isoformat(),
        "asked_at": certificate.asked_at.isoformat() if certificate.asked_at else None,
        "code_version": __version__,
        "phase": {"id": certificate.phase.id.value, "text": certificate.phase.text, "advice": certificate.phase.advice},
        "obstacles": list(certificate.obstacles),
        "rules": [
            {
                "id": rule.id,
                "title": rule.title,
                "verdict": certificate.judged[rule.id].verdict.value,
                "evidence": list(certificate.judged[rule.id].evidence),
                "ignored": rule.ignored,
                "mend": rule.mend,
            }
            for rule in RULES
        ],
    }


def changes_since(before: Mapping[str, Any], certificate: Certificate) -> tuple[str, ...]:
    """What was judged in another way in an earlier certificate: `rule: verdict before, verdict now`. With a change the earlier one counts no more.

    Args:
        before: the earlier certificate, see `certificate_json`.
        certificate: the newer one.

    Raises:
        BadInputError: `before` is no certificate, or one of another cluster.
    """
    if "rules" not in before or before.get("cluster") != certificate.cluster:
        raise BadInputError(
            f"certificates not compared: expected an earlier one of {certificate.cluster!r} (`kraft readiness --json`), "
            f"found {'one of ' + repr(before['cluster']) if 'cluster' in before else 'another document'}; name that file"
        )
    try:
        phase = before["phase"]["id"]
        earlier = {rule["id"]: (rule["verdict"], rule["evidence"]) for rule in before["rules"]}
    except (LookupError, TypeError) as error:
        raise BadInputError(
            f"certificates not compared: expected what `kraft readiness --json` printed, found it changed ({error!r}); name an unchanged file"
        ) from error
    changed = []
    if phase != certificate.phase.id.value:
        changed.append(f"phase: {phase} before, {certificate.phase.id.value} now")
    for rule in RULES:
        judged, (verdict, evidence) = certificate.judged[rule.id], earlier.get(rule.id, ("not judged", []))
        if (verdict, evidence) != (judged.verdict.value, list(judged.evidence)):
            more = "" if verdict != judged.verdict.value else ", with other evidence"
            changed.append(f"{rule.id} {rule.title}: {verdict} before, {judged.verdict.value} now{more}")
    return tuple(changed)


def is_ready(certificate: Certificate) -> bool:
    """Whether nothing in the snapshot stands against starting: no rule is broken and no migration has begun."""
    return not certificate.obstacles and certificate.phase.id is PhaseId.ZOOKEEPER
