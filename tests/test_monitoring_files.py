"""Alert rules and dashboard: every expression can be parsed, and asks for metrics and labels that there are."""

import json

import promql_parser
import pytest
import yaml

from kafka_maintenance.operations.analysis.metrics import METRICS, PREFIX
from spark_jobs.severities import SEVERITIES
from tests.source_files import ROOT

FOLDER = ROOT / "docs" / "monitoring"
RULES = [
    rule
    for group in yaml.safe_load((FOLDER / "alert-rules.yaml").read_text(encoding="utf-8"))["groups"]
    for rule in group["rules"]
]
DASHBOARD = json.loads((FOLDER / "grafana-dashboard.json").read_text(encoding="utf-8"))
PANELS = {panel["title"]: panel for panel in DASHBOARD["panels"]}
EXPRESSIONS = [(rule["alert"], rule["expr"]) for rule in RULES] + [
    (title, target["expr"]) for title, panel in PANELS.items() for target in panel["targets"]
]
SOURCE = {"type": "prometheus", "uid": "${datasource}"}


def selectors(expression):
    """(metric, its matchers) of every selector of an expression."""
    found = []

    def visit(each):
        if isinstance(each, promql_parser.VectorSelector):
            found.append((each.name, [(one.name, one.value) for one in each.matchers.matchers]))

    promql_parser.walk(promql_parser.parse(expression), visit)
    return found


@pytest.mark.parametrize(("name", "expression"), EXPRESSIONS, ids=[name for name, _ in EXPRESSIONS])
def test_an_expression_asks_for_what_there_is(name, expression):
    asked = selectors(expression)
    assert asked
    for metric, matchers in asked:
        assert metric.removeprefix(PREFIX) in METRICS
        labels = dict(matchers)
        assert set(labels) <= ({"cluster", "severity"} if metric.startswith(f"{PREFIX}findings") else {"cluster"})
        assert labels.get("severity", "critical") in SEVERITIES


def test_a_metric_that_is_not_there_would_be_seen():
    assert selectors("sum(kafka_maintenance_NoSuchCount{cluster='a'}) > 0") == [
        ("kafka_maintenance_NoSuchCount", [("cluster", "a")])
    ]


@pytest.mark.parametrize("rule", RULES, ids=[rule["alert"] for rule in RULES])
def test_a_rule_says_what_it_is_and_what_to_do(rule):
    assert set(rule) <= {"alert", "expr", "for", "labels", "annotations"}
    assert rule["labels"]["severity"] in SEVERITIES
    assert set(rule["annotations"]) == {"summary", "description"}
    per_cluster = not rule["expr"].startswith("absent(")
    assert ("{{ $labels.cluster }}" in rule["annotations"]["summary"]) is per_cluster


def test_the_dashboard_names_no_data_source_of_its_own_and_its_panels_do_not_overlap():
    assert [panel["datasource"] for panel in PANELS.values()] == [SOURCE] * len(PANELS)
    assert [each["name"] for each in DASHBOARD["templating"]["list"]] == ["datasource", "cluster"]
    taken = [
        (x, y)
        for place in (panel["gridPos"] for panel in PANELS.values())
        for x in range(place["x"], place["x"] + place["w"])
        for y in range(place["y"], place["y"] + place["h"])
    ]
    assert len(taken) == len(set(taken))
    assert max(x for x, _ in taken) < 24
    assert len({panel["id"] for panel in PANELS.values()}) == len(DASHBOARD["panels"])
