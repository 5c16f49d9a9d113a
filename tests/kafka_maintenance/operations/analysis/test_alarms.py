"""Findings that call for a person: new or standing, acknowledged or not."""

from datetime import UTC, datetime, timedelta

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.model.errors import ObjectDamagedError
from kafka_maintenance.operations.analysis.alarms import (
    acknowledge,
    acknowledgements,
    alarms_of,
    alarms_of_date,
    covered,
)
from kafka_maintenance.operations.analysis.overviews import require_overview
from kafka_maintenance.operations.errors import BadInputError
from spark_jobs.schemas import FINDINGS
from tests.kafka_maintenance.operations.analysis.analysed import COLUMNS, TODAY, YESTERDAY, analysed, finding

NOON = datetime(2026, 11, 22, 12, tzinfo=UTC)
DOWN = finding("blue", "broker_down", "critical", brokers=[3])
OFFLINE = finding("blue", "offline_partition", "critical", "orders", 0, cause="broker_down")
LOST = finding("red", "offline_partition", "critical", "pay", 1)
SKEW = finding("red", "leader_imbalance", "warning", brokers=[1])


def test_the_columns_are_those_of_the_findings():
    names = {field.name for field in FINDINGS.fields}
    assert {"cluster", *COLUMNS} <= names


def test_new_ones_come_first_and_what_follows_from_another_is_none_of_its_own():
    store = MemoryStore("new")
    analysed(store, YESTERDAY, DOWN)
    manifest = analysed(store, TODAY, SKEW, DOWN, OFFLINE, LOST)
    found = alarms_of(store, manifest, TODAY, mildest="critical")
    assert [each.text for each in found] == [
        "new: red: critical: offline_partition pay-1: offline_partition it is",
        "blue: critical: broker_down of broker(s) 3: broker_down it is",
    ]


@pytest.mark.parametrize(
    ("between", "is_new"),
    [
        ([{}], False),
        ([{"clusters": ["red"]}], False),
        ([{"unjudged": ["blue"]}], False),
        ([{"clusters": ["red"]}] * 30, False),
        ([{"clusters": ["red"]}] * 31, True),
    ],
)
def test_what_stood_when_its_cluster_was_analysed_last_is_not_new(between, is_new):
    """Every other day is analysed."""
    store = MemoryStore(f"stood {between}")
    days = [TODAY - timedelta(days=2 * ago) for ago in range(len(between) + 2)]
    manifest = analysed(store, days[0], DOWN)
    for day, how in zip(days[1:], [*between, {}], strict=True):
        analysed(store, day, *([] if how else [DOWN]), **how)
    assert [each.is_new for each in alarms_of(store, manifest, TODAY, mildest="critical")] == [is_new]


@pytest.mark.parametrize(
    ("mildest", "of_cluster", "kinds"),
    [
        ("critical", {}, ["broker_down", "offline_partition"]),
        ("warning", {}, ["broker_down", "offline_partition", "leader_imbalance"]),
        ("none", {}, []),
        ("none", {"red": "warning"}, ["offline_partition", "leader_imbalance"]),
        ("warning", {"red": "none"}, ["broker_down"]),
    ],
)
def test_the_severity_is_that_of_the_run_or_of_the_cluster(mildest, of_cluster, kinds):
    store = MemoryStore(f"severity {mildest} {of_cluster}")
    manifest = analysed(store, TODAY, SKEW, DOWN, LOST)
    found = alarms_of(store, manifest, TODAY, mildest=mildest, of_cluster=of_cluster)
    assert [each.kind for each in found] == kinds


def test_a_word_that_is_no_severity_is_refused():
    store = MemoryStore()
    with pytest.raises(BadInputError, match="expected critical, warning, info or none, found 'loud'"):
        alarms_of(store, analysed(store, TODAY), TODAY, mildest="loud")


@pytest.mark.parametrize(
    ("topic", "until", "known"),
    [(None, TODAY, True), ("pay", TODAY, True), ("orders", TODAY, False), (None, YESTERDAY, False)],
)
def test_an_acknowledgement_covers_its_topic_until_its_date(topic, until, known):
    store = MemoryStore(f"known {topic} {until}")
    manifest = analysed(store, TODAY, LOST, DOWN)
    then = NOON.replace(day=until.day)
    made = acknowledge(
        store, "red", "offline_partition", topic=topic, reason="disk is ordered", by="ann", until=until, now=then
    )
    assert (covered(store, made, TODAY), covered(store, made._replace(kind="offline"), TODAY)) == (known, 0)
    found = {each.cluster: each.acknowledged for each in alarms_of(store, manifest, TODAY, mildest="critical")}
    assert found == {"blue": None, "red": f"ann until {until}: disk is ordered" if known else None}


@pytest.mark.parametrize(("reason", "until"), [(" ", TODAY), ("known", YESTERDAY)])
def test_an_acknowledgement_needs_a_reason_and_a_date_to_come(reason, until):
    store = MemoryStore()
    with pytest.raises(BadInputError, match="expected a reason and a date that is to come"):
        acknowledge(store, "red", "broker_down", topic=None, reason=reason, by="ann", until=until, now=NOON)
    assert acknowledgements(store, "red") == ()


def test_nothing_is_covered_where_nothing_is_analysed():
    store = MemoryStore()
    made = acknowledge(store, "red", "broker_down", topic=None, reason="r", by="ann", until=TODAY, now=NOON)
    assert covered(store, made, TODAY) is None


def test_an_acknowledgement_that_cannot_be_read_is_named():
    store = MemoryStore()
    store.put("v1/acknowledgements/cluster=red/1.json", b"{")
    with pytest.raises(ObjectDamagedError, match=r"cluster=red/1\.json' not read"):
        acknowledgements(store, "red")


def test_of_each_cluster_the_newest_run_of_its_date_counts():
    store = MemoryStore("runs")
    analysed(store, YESTERDAY, DOWN, LOST)
    analysed(store, YESTERDAY, SKEW, run="s", clusters=["red"])
    manifest = analysed(store, TODAY, DOWN, LOST)
    assert [(each.cluster, each.is_new) for each in alarms_of(store, manifest, TODAY, mildest="critical")] == [
        ("red", True),
        ("blue", False),
    ]
    analysed(store, TODAY, run="s", clusters=["red"])
    found = alarms_of_date(store, require_overview(store), mildest="critical")
    assert [each.cluster for each in found] == ["blue"]
    made = acknowledge(store, "blue", "broker_down", topic=None, reason="ordered", by="olivia", until=TODAY, now=NOON)
    assert covered(store, made, TODAY) == 1
