"""The certificates of a fleet: which cluster is how far from ready, what is missing most often, in which order to work.

Source: docs/kraft.md, "Fleet".
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.model.words import counted
from kafka_maintenance.operations.kraft.certificate import Certificate, certify, is_ready
from kafka_maintenance.operations.record.departures import readable_departures
from kafka_maintenance.operations.snapshots.catalog import (
    UNUSABLE,
    known_clusters,
    newest_snapshot,
    public_configs,
    read_raw,
)
from spark_jobs.kraft.fleet import Standing, by_distance, in_the_way
from spark_jobs.kraft.judged import Verdict
from spark_jobs.kraft.rules import RULES
from spark_jobs.kraft.tree import tree_of

FLEET_COLUMNS: Final = ("cluster", "phase", "not met", "decide first", "judged until")


@dataclass(frozen=True, slots=True)
class Fleet:
    """`certificates` by distance to ready, the nearest first; `unusable`: cluster → why it was not judged; `left`: cluster → since when it has left ZooKeeper."""

    certificates: tuple[Certificate, ...]
    unusable: Mapping[str, str]
    left: Mapping[str, str] = field(default_factory=dict)

    @property
    def standings(self) -> tuple[Standing, ...]:
        """What stands against each cluster, in the same order."""
        return tuple(map(_standing, self.certificates))

    @property
    def ready(self) -> bool:
        """Whether every cluster that lives in ZooKeeper was judged and has no obstacle in its snapshot."""
        return not self.unusable and all(is_ready(each) for each in self.certificates)


def certify_fleet(store: ObjectStore) -> Fleet:
    """Judges the newest snapshot of every cluster of the store that has not left ZooKeeper.

    One that cannot be read, or has none, or of which nobody knows whether it has left, is named, and hides no other.
    """
    judged: list[Certificate] = []
    known = readable_departures(store)
    unusable = dict(known.damaged)
    left = {cluster: departure.at for cluster, departure in known.departures.items()}
    for cluster in known_clusters(store):
        if cluster in left or cluster in unusable:
            continue
        try:
            manifest = newest_snapshot(store, cluster)
            if manifest is None:
                unusable[cluster] = "expected a published snapshot of it, found none; take one"
                continue
            tree = tree_of(read_raw(store, manifest), public_configs(store, manifest))
            judged.append(certify(tree, manifest))
        except UNUSABLE as error:
            unusable[cluster] = str(error)
    return fleet_of(judged, unusable, left)


def fleet_of(
    certificates: Sequence[Certificate], unusable: Mapping[str, str], left: Mapping[str, str] | None = None
) -> Fleet:
    """The fleet in the order of the distance to ready."""
    of = {each.cluster: each for each in certificates}
    return Fleet(tuple(of[one.cluster] for one in by_distance(map(_standing, certificates))), unusable, left or {})


def fleet_text(fleet: Fleet) -> str:
    """For people: clusters, then what is missing most often, then what was not judged."""
    return "\n".join([*map(" | ".join, [FLEET_COLUMNS, *fleet_rows(fleet)]), "", *fleet_remarks(fleet)])


def fleet_rows(fleet: Fleet) -> list[tuple[str, ...]]:
    """A row of `FLEET_COLUMNS` per cluster, the nearest to ready first."""
    return [
        (
            each.cluster,
            each.phase.id.value,
            ", ".join(each.obstacles) or "-",
            ", ".join(each.verdicts(Verdict.DECIDE)) or "-",
            f"{each.expires_at:%Y-%m-%d %H:%M} UTC",
        )
        for each in fleet.certificates
    ]


def fleet_remarks(fleet: Fleet) -> list[str]:
    """What is missing most often, then what was not judged, and what has left ZooKeeper."""
    return [
        *_missing(fleet),
        *(f"not judged: {cluster}: {why}" for cluster, why in fleet.unusable.items()),
        *(f"not judged: {cluster}: it has left ZooKeeper ({at})" for cluster, at in fleet.left.items()),
    ]


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
        "in_the_way": [{"rule": rule, "clusters": list(clusters)} for rule, clusters in in_the_way(fleet.standings)],
        "not_judged": dict(fleet.unusable),
        "left_zookeeper": dict(fleet.left),
    }


def _missing(fleet: Fleet) -> Iterator[str]:
    found = in_the_way(fleet.standings)
    if not found and fleet.certificates:
        yield "no rule is broken in any cluster that was judged"
    titles = {rule.id: rule for rule in RULES}
    for rule, clusters in found:
        yield f"{rule} {titles[rule].title}, in {counted(len(clusters), 'cluster')} ({', '.join(clusters)}): {titles[rule].mend}"


def _standing(certificate: Certificate) -> Standing:
    decisions = certificate.verdicts(Verdict.DECIDE)
    return Standing(certificate.cluster, certificate.phase.id.value, certificate.obstacles, decisions)
