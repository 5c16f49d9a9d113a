"""The certificates of a fleet: which cluster is how far from ready, what is missing most often, in which order to work.

Source: docs/kraft.md, "Fleet".
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controller_core.adapters.object_store.open import ObjectStore
from kafka_maintenance.operations.kraft.certificate import RULES, Certificate, certify, is_ready
from kafka_maintenance.operations.kraft.judged import Verdict
from kafka_maintenance.operations.kraft.tree import tree_of
from kafka_maintenance.operations.snapshots.catalog import (
    UNUSABLE,
    manifest_keys,
    newest_snapshot,
    place_of,
    public_configs,
    read_raw,
)


@dataclass(frozen=True, slots=True)
class Fleet:
    """`certificates` by distance to ready, the nearest first; `unusable`: cluster → why it was not judged."""

    certificates: tuple[Certificate, ...]
    unusable: Mapping[str, str]

    @property
    def ready(self) -> bool:
        """Whether every cluster was judged and has no obstacle in its snapshot."""
        return not self.unusable and all(is_ready(each) for each in self.certificates)


def certify_fleet(store: ObjectStore) -> Fleet:
    """Judges the newest snapshot of every cluster of the store; one that cannot be read is named, and hides no other."""
    judged: list[Certificate] = []
    unusable: dict[str, str] = {}
    for cluster in sorted({place_of(key)[0] for key in manifest_keys(store)}):
        try:
            manifest = newest_snapshot(store, cluster)
            if manifest is not None:
                tree = tree_of(read_raw(store, manifest), public_configs(store, manifest))
                judged.append(certify(tree, manifest))
        except UNUSABLE as error:
            unusable[cluster] = str(error)
    return fleet_of(judged, unusable)


def fleet_of(certificates: Sequence[Certificate], unusable: Mapping[str, str]) -> Fleet:
    """The fleet in the order of the distance to ready."""
    return Fleet(tuple(sorted(certificates, key=_distance)), unusable)


def in_the_way(fleet: Fleet) -> Sequence[tuple[str, tuple[str, ...]]]:
    """Rule → clusters in which it is not met: the rule that the most clusters break first."""
    found = [
        (rule.id, tuple(each.cluster for each in fleet.certificates if rule.id in each.obstacles)) for rule in RULES
    ]
    return sorted((each for each in found if each[1]), key=lambda each: -len(each[1]))


def fleet_text(fleet: Fleet) -> str:
    """For people: clusters, then what is missing most often, then what was not judged."""
    lines = ["cluster | phase | not met | decide first | judged until"]
    for each in fleet.certificates:
        obstacles, decisions = ", ".join(each.obstacles) or "-", ", ".join(each.verdicts(Verdict.DECIDE)) or "-"
        lines.append(
            f"{each.cluster} | {each.phase.id.value} | {obstacles} | {decisions} | {each.expires_at:%Y-%m-%d %H:%M} UTC"
        )
    lines += ["", *_missing(fleet)]
    lines += [f"not judged: {cluster}: {reason}" for cluster, reason in fleet.unusable.items()]
    return "\n".join(lines)


def fleet_json(fleet: Fleet) -> dict[str, Any]:
    """The same as a document."""
    return {
        "ready": fleet.ready,
        "clusters": [
            {
                "cluster": each.cluster,
                "snapshot": each.snapshot,
                "phase": each.phase.id.value,
                "ready": is_ready(each),
                "not_met": list(each.obstacles),
                "decide_first": list(each.verdicts(Verdict.DECIDE)),
                "expires_at": each.expires_at.isoformat(),
            }
            for each in fleet.certificates
        ],
        "in_the_way": [{"rule": rule, "clusters": list(clusters)} for rule, clusters in in_the_way(fleet)],
        "not_judged": dict(fleet.unusable),
    }


def _missing(fleet: Fleet) -> Iterator[str]:
    found = in_the_way(fleet)
    if not found:
        yield "no rule is broken in any cluster"
    titles = {rule.id: rule for rule in RULES}
    for rule, clusters in found:
        yield f"{rule} {titles[rule].title}, in {len(clusters)} clusters ({', '.join(clusters)}): {titles[rule].mend}"


def _distance(certificate: Certificate) -> tuple[bool, int, int, str]:
    """How far from ready: a migration that has begun last, then by obstacles, then by decisions."""
    decisions = len(certificate.verdicts(Verdict.DECIDE))
    return not certificate.phase.may_write, len(certificate.obstacles), decisions, certificate.cluster
