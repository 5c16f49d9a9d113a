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
from kafka_maintenance.operations.kraft import cluster, entities, topics
from kafka_maintenance.operations.kraft.judged import Judged, Rule, Verdict
from kafka_maintenance.operations.kraft.phase import Phase, PhaseId, phase_of
from kafka_maintenance.operations.kraft.tree import Tree

VALID_FOR: Final = timedelta(days=1)


def _rule(rule_id: str, title: str, judge: Any, ignored: str, mend: str) -> Rule:
    return Rule(id=rule_id, title=title, judge=judge, ignored=ignored, mend=mend)


RULES: Final = (
    _rule("R1", "software of brokers and quorum", cluster.software, "known bugs lose metadata", "upgrade first, in a step of its own"),
    _rule("R2", "one inter.broker.protocol.version", cluster.protocol_version, "brokers cannot register with the quorum", "raise it, or format the quorum with --release-version"),
    _rule("R3", "ids of topics", topics.ids, "one such topic holds up the whole migration", "a controller with inter.broker.protocol.version 2.8 adds ids when it is elected"),
    _rule("R4", "brokers of all replicas", topics.brokers, "the migration waits for them for ever", "start them, or reassign or delete what they hold"),
    _rule("R5", "no trace of a migration", cluster.no_migration, "a fresh quorum may delete every topic", "finish the way back: delete /migration and /controller while no quorum runs"),
    _rule("R6", "states of partitions", topics.states, "a state is invented, or the controller ends after its claim", "a controller election writes missing ones"),
    _rule("R7", "replicas and producer ids", topics.producer_ids_and_replicas, "the controller ends after its claim", "delete the topic, or the znode while no broker needs it"),
    _rule("R8", "in-sync replicas", topics.in_sync, "copied as it is; KRaft does not repair it", "elect or reassign"),
    _rule("R9", "nothing under way", topics.under_way, "requests are left lying, queued topics deleted", "wait, or plan what ends it: `plan drain` requests and notices, `cancel` a reassignment, `plan deletions` queued topics"),
    _rule("R10", "configs are strings", entities.config_values, "the controller ends after its claim", "delete or correct the config"),
    _rule("R11", "configs of topics", topics.configs, "configs without a topic are deleted, others copied unusable", "`restore newest --kraft-repairs` removes configs without a topic; correct the others"),
    _rule("R12", "quotas and credentials", entities.quotas, "the cluster is left without metadata", "correct them before any broker is rolled: `restore newest --kraft-repairs` does for quotas"),
    _rule("R13", "passwords in brokers' configs", entities.passwords, "the encrypted text becomes the password", "give the quorum the brokers' password.encoder.*, or remove the configs"),
    _rule("R14", "Kafka's ACLs", entities.acls, "rules vanish, or the controller ends", "correct them"),
    _rule("R15", "authorizer", entities.authorizer, "no ACL is enforced in KRaft", "plan StandardAuthorizer with super users"),
    _rule("R16", "delegation tokens", entities.tokens, "tokens cannot be used", "give the quorum delegation.token.secret.key, or let them expire"),
    _rule("R17", "id of the cluster", cluster.cluster_id, "registrations are refused", "format the quorum anew"),
    _rule("R18", "ids of controllers", cluster.controller_ids, "a broker with such an id does not start in KRaft mode", "choose another node.id"),
    _rule("R19", "ids of brokers", cluster.broker_ids, "the broker does not start in migration mode", "set broker.id"),
    _rule("R20", "log directories", cluster.log_dirs, "the broker does not start in migration mode", "raise inter.broker.protocol.version to 3.7 or newer"),
    _rule("R21", "listener between brokers", cluster.listeners, "registrations are refused", "name a listener that all brokers have"),
    _rule("R22", "listeners in dynamic configs", cluster.dynamic_listeners, "the KRaft broker refuses them", "remove them"),
    _rule("R23", "login of controllers", cluster.identity, "the migration hangs or the controller ends", "use the brokers' login"),
    _rule("R24", "what is not copied", cluster.lost, "it stays in ZooKeeper and is gone with it", "know it"),
    _rule("R25", "what was not read", cluster.unread, "it is not judged", "give the snapshots the right to read it"),
)  # fmt: skip
"""Every rule, in the order of docs/kraft.md."""


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
        judged={rule.id: rule.judge(tree) for rule in RULES},
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
        before: the earlier certificate, as of `certificate_json`.
        certificate: the newer one.

    Raises:
        BadInputError: `before` is no certificate, or one of another cluster.
    """
    if "rules" not in before or before.get("cluster") != certificate.cluster:
        raise BadInputError(
            f"certificates not compared: expected an earlier one of {certificate.cluster!r} (`kraft readiness --json`), "
            f"found {'one of ' + repr(before['cluster']) if 'cluster' in before else 'another document'}; name that file"
        )
    earlier = {rule["id"]: rule for rule in before["rules"]}
    changed = []
    if before["phase"]["id"] != certificate.phase.id.value:
        changed.append(f"phase: {before['phase']['id']} before, {certificate.phase.id.value} now")
    for rule in RULES:
        judged, was = certificate.judged[rule.id], earlier.get(rule.id, {"verdict": "not judged", "evidence": []})
        if (was["verdict"], was["evidence"]) != (judged.verdict.value, list(judged.evidence)):
            more = "" if was["verdict"] != judged.verdict.value else ", with other evidence"
            changed.append(f"{rule.id} {rule.title}: {was['verdict']} before, {judged.verdict.value} now{more}")
    return tuple(changed)


def is_ready(certificate: Certificate) -> bool:
    """Whether nothing in the snapshot stands against starting: no rule is broken and no migration has begun."""
    return not certificate.obstacles and certificate.phase.id is PhaseId.ZOOKEEPER
