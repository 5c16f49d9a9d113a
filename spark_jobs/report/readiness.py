"""The report's part on migrations to KRaft: clusters by distance to ready, what is missing most often, and what a cluster lacks.

Source: docs/kraft.md, "Fleet".
"""

from collections.abc import Mapping
from typing import Any

from controller_core.model.words import counted, first_names
from spark_jobs.kraft.fleet import Standing, by_distance, in_the_way
from spark_jobs.kraft.judged import Verdict
from spark_jobs.kraft.phase import PhaseId
from spark_jobs.kraft.rules import RULES
from spark_jobs.report.content import Page, Rows
from spark_jobs.report.page import Section, Table

_CLUSTERS_SHOWN = 100
_NAMES_SHOWN = 10
_RULES = {rule.id: rule for rule in RULES}
_PLACES = {rule.id: place for place, rule in enumerate(RULES)}


def readiness_sections(page: Page) -> list[Section]:
    """Nothing where it was not looked for."""
    if "kraft_readiness" not in page.rows:
        return []
    standings = by_distance(
        found for cluster in page.by_cluster if (found := standing_of(cluster, page.by_cluster[cluster])) is not None
    )
    judged = {one.cluster for one in standings}
    without = [cluster for cluster in page.by_cluster if cluster not in judged]
    ready = sum(one.ready for one in standings)
    texts = [f"{ready} of {counted(len(standings), 'cluster')} are ready as far as a snapshot tells (docs/kraft.md)."]
    if without:
        texts.append(f"Not judged, their raw layer was not at hand: {first_names(without, _NAMES_SHOWN)}.")
    rows = tuple(
        (one.cluster, one.phase, ", ".join(one.not_met) or "-", ", ".join(one.decide_first) or "-")
        for one in standings[:_CLUSTERS_SHOWN]
    )
    more = len(standings) - _CLUSTERS_SHOWN
    work = tuple(
        (place, f"{rule} {_RULES[rule].title}", len(clusters), first_names(clusters, _NAMES_SHOWN), _RULES[rule].mend)
        for place, (rule, clusters) in enumerate(in_the_way(standings), 1)
    )
    parts = (
        Table(
            "Clusters by distance to ready",
            ("cluster", "phase", "not met", "decide first"),
            rows,
            f"{more} more in the table's file." if more > 0 else "",
        ),
        Table("What is missing most often, in the order of work", ("", "rule", "clusters", "which", "to mend"), work),
    )
    return [Section("Ready for KRaft", tuple(texts), tuple(part for part in parts if not part.empty))]


def standing_of(cluster: str, rows: Mapping[str, Rows]) -> Standing | None:
    """How a cluster stands; None where it was not judged."""
    judged = sorted(rows["kraft_readiness"], key=_place)
    if not judged:
        return None
    not_met, decide = (
        tuple(row["rule"] for row in judged if row["verdict"] == verdict.value)
        for verdict in (Verdict.NOT_MET, Verdict.DECIDE)
    )
    return Standing(cluster, judged[0]["phase"], not_met, decide)


def readiness_table(rows: Rows) -> Table:
    """What stands against a cluster's migration, with the first evidence of each rule."""
    against = [
        row for row in sorted(rows, key=_place) if row["verdict"] in {Verdict.NOT_MET.value, Verdict.DECIDE.value}
    ]
    lines = tuple(
        (
            f"{row['rule']} {_RULES[row['rule']].title}",
            row["verdict"],
            (row["evidence"] or [None])[0],
            len(row["evidence"]),
        )
        for row in against
    )
    return Table("Before a migration to KRaft", ("rule", "verdict", "the first evidence", "in all"), lines)


def phase_texts(rows: Rows) -> tuple[str, ...]:
    """The phase of a cluster whose migration has begun, and what that means."""
    begun = [row for row in rows[:1] if row["phase"] != PhaseId.ZOOKEEPER.value]
    return tuple(f"On its way to KRaft, phase {row['phase']}: {row['phase_text']}." for row in begun)


def _place(row: Mapping[str, Any]) -> int:
    return _PLACES[row["rule"]]
