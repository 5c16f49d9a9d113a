"""The report's part on migrations to KRaft: order of the clusters, order of the work, who was not judged."""

from datetime import date

from spark_jobs.io.snapshots import Snapshot
from spark_jobs.kraft.rules import RULES
from spark_jobs.report import build, content, numbers
from spark_jobs.report.readiness import readiness_sections, standing_of
from tests.spark_jobs.worlds import World, published

MANIFESTS = {name: published(World(cluster=name))[0] for name in ("far", "near", "begun", "blind")}
NOT_MET = {"far": ("R4", "R12"), "near": ("R12",), "begun": (), "blind": None}


def rows_of(cluster, not_met):
    return [
        {
            "cluster": cluster,
            "snapshot_id": MANIFESTS[cluster].snapshot_id,
            "phase": "P4" if cluster == "begun" else "P0",
            "phase_text": "brokers [1] are not in /brokers/ids: that is no outage",
            "rule": rule.id,
            "verdict": "not met" if rule.id in not_met else "decide first" if rule.id == "R24" else "met",
            "evidence": [f"/{cluster}: {rule.id}"] if rule.id in not_met else [],
        }
        for rule in reversed(RULES)
    ]


def page():
    rows = [row for cluster, not_met in NOT_MET.items() if not_met is not None for row in rows_of(cluster, not_met)]
    snapshots = [Snapshot("", manifest) for manifest in MANIFESTS.values()]
    return content.Page("r", date(2026, 11, 20), {"kraft_readiness": rows}, snapshots)


def test_clusters_stand_by_distance_and_work_by_how_many_need_it():
    (section,) = readiness_sections(page())
    assert section.texts == (
        "0 of 3 clusters are ready as far as a snapshot tells (docs/kraft.md).",
        "Not judged, their raw layer was not at hand: blind.",
    )
    by_distance, work = section.parts
    assert by_distance.rows == (
        ("near", "P0", "R12", "R24"),
        ("far", "P0", "R4, R12", "R24"),
        ("begun", "P4", "-", "R24"),
    )
    assert [(line[0], line[1][:3], line[2], line[3]) for line in work.rows] == [
        (1, "R12", 2, "near, far"),
        (2, "R4 ", 1, "far"),
    ]


def test_a_cluster_has_its_phase_and_the_evidence_on_its_own_page():
    pages = dict(build.cluster_pages(page()))
    assert (
        "On its way to KRaft, phase P4: brokers [1] are not in /brokers/ids: that is no outage."
        in pages["clusters/begun.md"]
    )
    assert "| R12 quotas and credentials | not met | /far: R12 | 1 |" in pages["clusters/far.md"]
    assert "KRaft" not in pages["clusters/blind.md"]
    found = numbers.summary(page())["clusters"]
    assert {name: (each["kraft_phase"], each["kraft_not_met"]) for name, each in found.items()} == {
        "far": ("P0", ["R4", "R12"]),
        "near": ("P0", ["R12"]),
        "begun": ("P4", []),
        "blind": (None, None),
    }


def test_nothing_is_said_where_it_was_not_looked_for():
    without = content.Page("r", date(2026, 11, 20), {}, ())
    assert readiness_sections(without) == []
    assert standing_of("x", {"kraft_readiness": []}) is None
