"""What stands first in a report, and in which order findings are read."""

import re
from dataclasses import replace
from datetime import date

import pytest

from spark_jobs.io.snapshots import Snapshot
from spark_jobs.report import build, content, today
from tests.source_files import ROOT
from tests.spark_jobs.worlds import World, published


def found(kind, severity="warning", cause=None, count=1, cluster="alpha"):
    return {"cluster": cluster, "snapshot_id": published(World(cluster=cluster))[0].snapshot_id, "kind": kind, "count": count,
            "severity": severity, "cause": cause, "topic": None, "partition": None, "detail": f"{kind} it is"}  # fmt: skip


def page_of(*findings, clusters=("alpha",), **rows):
    snapshots = [Snapshot("", published(World(cluster=cluster))[0]) for cluster in clusters]
    return content.Page("r", date(2026, 11, 20), {"findings": list(findings), **rows}, snapshots)


def test_findings_are_read_by_what_they_endanger_and_beneath_their_cause():
    rows = [
        found("stale_throttle"),
        found("under_replicated", cause="broker_down [3]"),
        found("under_min_isr", "critical"),
        found("offline", "critical", "broker_down [3]"),
        found("offline", "critical"),
        found("unclean_election_allowed"),
        found("broker_down", "critical"),
        found("single_replica", cause="min_isr_unreachable"),
        found("min_isr_unreachable", "critical"),
    ]
    assert [(row["kind"], row["cause"]) for row in today.in_order(rows)] == [
        ("broker_down", None),
        ("offline", "broker_down [3]"),
        ("under_replicated", "broker_down [3]"),
        ("offline", None),
        ("min_isr_unreachable", None),
        ("single_replica", "min_isr_unreachable"),
        ("under_min_isr", None),
        ("unclean_election_allowed", None),
        ("stale_throttle", None),
    ]


RUNBOOK = (ROOT / "docs" / "runbooks" / "findings.md").read_text(encoding="utf-8")
GROUP_OF_HEADING = {
    "A broker or the controller is down": "broker or controller down",
    "Partitions without a leader": "offline",
    "Below min ISR": "below min ISR",
    "At risk": "at risk",
    "Hygiene": "hygiene",
}


def test_the_run_book_has_the_findings_in_the_groups_of_the_report():
    in_book, heading = {}, ""
    for level, words in re.findall(r"(?m)^(##+) (.+)$", RUNBOOK):
        if level == "##":
            heading = GROUP_OF_HEADING[words]
        else:
            in_book[words.strip("`")] = heading
    assert in_book == {kind: today.GROUPS[today.group_of(kind)] for kind in in_book}


def test_the_three_lines_of_a_healthy_cluster_say_so():
    assert today.first_lines(page_of(), ["alpha"]) == (
        "Needs a person today: nothing.",
        "Can be repaired by a yes: nothing.",
        "Changed since the day before: nothing that is counted here.",
    )
    assert today.first_lines(content.Page("r", date(2026, 11, 20), {}, ()), []) == ()


def test_what_no_result_counts_stands_in_the_third_line_and_in_a_table():
    told = content.Changed({"Kafka ACLs added": 2}, ("Kafka ACLs added: 2", "  Topic orders: User:eve"))
    page = replace(page_of(clusters=("alpha", "beta")), changed={"alpha": told})
    assert today.first_lines(page, page.order)[2] == "Changed since the day before: alpha: Kafka ACLs added: 2."
    pages = dict(build.cluster_pages(page))
    shown = {
        name: next(text for path, text in pages.items() if name in path and path.endswith(".md")) for name in page.order
    }
    assert (
        "**Changed besides topics and partitions**\n\n* Kafka ACLs added: 2\n*   Topic orders: User:eve\n"
        in shown["alpha"]
    )
    assert "Changed besides" not in shown["beta"]


def test_the_first_line_names_the_cluster_the_finding_and_how_many_more():
    page = page_of(found("offline", "critical", count=3, cluster="beta"), clusters=("alpha", "beta"))
    assert today.first_lines(page, page.order)[0] == "Needs a person today: beta: offline it is (and 2 more offline)."


def test_of_all_clusters_the_broker_that_is_down_stands_first():
    at_risk = [found(kind, "critical") for kind in ("stale_isr_change", "analysis_disagrees", "kraft_migration")]
    down = found("broker_down", "critical", cluster="beta")
    page = page_of(*at_risk, down, clusters=("alpha", "beta"))
    assert page.order == ["alpha", "beta"]
    assert today.first_lines(page, page.order)[0].startswith("Needs a person today: beta: broker_down it is; alpha: ")


def test_what_a_yes_repairs_names_the_plan():
    snapshot_id = found("x")["snapshot_id"]
    key = {"cluster": "alpha", "snapshot_id": snapshot_id}
    imbalance = {**key, "electable_count": 4, "ratio": 0.5, "triggers": True, "broker_id": 1, "imbalanced_count": 4}
    page = page_of(imbalance=[imbalance], proposals=[{**key, "status": "planned", "moves": 2}])
    assert today.first_lines(page, ["alpha"])[1] == (
        "Can be repaired by a yes: alpha: 4 preferred-leader elections; alpha: 2 replica moves (plans/alpha.plan.json)."
    )


@pytest.mark.parametrize(
    ("severity", "words"),
    [
        pytest.param("critical", "1 cluster with critical findings on pages of their own", id="sick"),
        pytest.param("info", "1 healthier cluster on pages of their own", id="healthier"),
    ],
)
def test_a_cluster_with_critical_findings_is_never_called_healthier(monkeypatch, severity, words):
    monkeypatch.setattr(build, "_CLUSTERS_SHOWN", 1)
    rows = [found("offline", "critical", count=5), found("offline", severity, cluster="beta")]
    page = page_of(*rows, clusters=("alpha", "beta"), refused_rows=[])
    assert words in build.markdown(page)
    assert ("healthier" in build.markdown(page)) == (severity != "critical")
