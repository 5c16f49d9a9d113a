"""The page Cluster: of many findings the worst are shown, and the rest is counted."""

import json
from datetime import timedelta

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from controller_core.adapters.object_store.open import open_store
from controller_core.adapters.snapshot.parquet import table_to_parquet
from kafka_maintenance.operations.analysis.tables import CACHE
from kafka_maintenance.web.render import page_html
from kafka_maintenance.web.views import cluster
from tests.kafka_maintenance.web.fleet import Sick, leave_out, publish, publish_date, today

ALPHA, BETA = Sick("alpha"), Sick("beta")
SHOWN_MAX = 4


def found(count, kind, severity, *, cause=None):
    snapshot_id = ALPHA.world(0).snapshot_id
    row = {"cluster": ALPHA.name, "snapshot_id": snapshot_id, "kind": kind, "severity": severity, "cause": cause}
    return [row | {"topic": "t", "partition": number, "brokers": [2]} for number in range(count)]


def tables_of(tmp_path, today, yesterday=()):
    """The tables Findings and In progress of the page."""
    store = open_store(str(tmp_path))
    publish_date(store, [ALPHA], 1, more={"findings": yesterday})
    publish(store, [ALPHA], dates=0)
    publish_date(store, [ALPHA], 0, more={"findings": today})
    sections = {section.anchor: section.blocks for section in cluster.cluster_page(store, ALPHA.name).sections}
    return sections["findings"][0], sections["waits"][1]


@pytest.fixture(autouse=True)
def few(monkeypatch):
    monkeypatch.setattr(cluster, "FINDINGS_SHOWN_MAX", SHOWN_MAX)


@pytest.mark.parametrize(
    ("today", "kinds", "more"),
    [
        pytest.param(
            found(6, "non_preferred_leader", "info") + found(3, "offline", "critical"),
            ["offline", "offline", "offline", "non_preferred_leader"],
            5,
            id="the worst, whatever their names",
        ),
        pytest.param(
            found(5, "offline", "critical", cause="broker_down [2]") + found(1, "under_min_isr", "critical"),
            ["under_min_isr", "offline", "offline", "offline"],
            2,
            id="what follows from no other before what does; those that follow are counted, too",
        ),
        pytest.param(found(2, "offline", "critical"), ["offline", "offline"], 0, id="all, where they are few"),
        pytest.param([], [], 0, id="none"),
    ],
)
def test_the_worst_findings_are_shown_and_the_rest_is_counted(tmp_path, today, kinds, more):
    table, _ = tables_of(tmp_path, today)
    assert ([row[0].text for row in table.rows], table.more) == (kinds, more)


def test_a_finding_is_new_where_the_date_before_had_none_like_it(tmp_path):
    lagging = found(8, "under_replicated", "warning")
    table, _ = tables_of(tmp_path, lagging[2:] + found(1, "offline", "critical"), found(6, "a_kind", "info") + lagging)
    assert [row[2].text for row in table.rows] == ["new", "standing", "standing", "standing"]


def test_what_is_in_progress_is_shown_however_many_are_worse(tmp_path):
    moving = found(5, "being_reassigned", "info") + found(1, "stuck_reassignment", "warning")
    _, work = tables_of(tmp_path, found(9, "offline", "critical") + moving)
    assert [row[0].text for row in work.rows] == ["stuck_reassignment", *["being_reassigned"] * 3]
    assert work.more == 2


def test_of_many_topics_queued_for_deletion_the_first_that_wait_are_shown_and_the_rest_is_counted(tmp_path):
    store = open_store(str(tmp_path))
    row = {"cluster": ALPHA.name, "snapshot_id": "s", "partition_count": 1, "reasons": []}
    queued = [row | {"topic": f"t{number}", "eligible": number % 2 == 0} for number in range(9, 0, -1)]
    publish_date(store, [ALPHA], 0, more={"deletion_eligibility": queued})
    deletions = cluster.cluster_page(store, ALPHA.name).sections[2].blocks[0]
    assert [cells[0].text for cells in deletions.rows] == ["t1", "t3", "t5", "t7"]
    assert deletions.more == 5


def test_what_an_analysis_did_not_look_for_makes_no_finding_new(tmp_path):
    store, lagging = open_store(str(tmp_path)), found(1, "under_replicated", "warning")
    publish_date(store, [ALPHA], 2, more={"findings": lagging})
    without_findings(store, 1)
    publish_date(store, [ALPHA], 0, more={"findings": lagging})
    publish(store, [ALPHA], dates=0)
    table = cluster.cluster_page(store, ALPHA.name).sections[0].blocks[0]
    assert [row[2].text for row in table.rows] == ["standing"]
    (note,) = cluster.cluster_page(store, ALPHA.name, date=str(today() - timedelta(days=1))).sections[0].blocks
    assert note.text == "The analysis did not look for findings."


def without_findings(store, day):
    """The analysis of a date that was asked for other results only."""
    publish_date(store, [ALPHA], day)
    date = today() - timedelta(days=day)
    (key,) = store.list(f"v1/overviews/date={date}/")
    overview = json.loads(store.get(key))
    overview["clusters"][ALPHA.name] |= dict.fromkeys(("critical_count", "warning_count", "info_count"))
    store.put(key, json.dumps(overview).encode())
    leave_out(store, overview["manifest"], "findings")


def test_a_cluster_that_the_newest_run_of_the_date_left_out_is_shown_as_the_run_before_found_it(tmp_path):
    store = open_store(str(tmp_path))
    publish(store, [ALPHA], dates=0)
    publish_date(store, [ALPHA, BETA], 0, more={"findings": found(1, "offline", "critical")})
    publish_date(store, [BETA], 0, run="z_of_beta_alone")
    page = cluster.cluster_page(store, ALPHA.name, against=BETA.name)
    sections = {section.anchor: section.blocks for section in page.sections}
    assert [row[0].text for row in sections["findings"][0].rows] == ["offline"]
    assert sections["brokers"][0].id == "broker-heat"
    assert sections["compare"][1].id == "comparison"


@pytest.mark.parametrize("name", ["manifest.json", "topics.parquet"])
def test_a_damaged_snapshot_takes_its_topics_from_the_page_and_nothing_else(tmp_path, name):
    store = open_store(str(tmp_path))
    publish(store, [ALPHA], dates=1)
    newest = [key for key in store.list(f"v1/cluster={ALPHA.name}/date={today()}/") if key.endswith(f"/{name}")]
    store.put(newest[-1], b"{")
    *sections, topics = cluster.cluster_page(store, ALPHA.name).sections
    assert sections[0].blocks[0].id == "findings"
    assert newest[-1] in topics.blocks[0].text


def test_topics_are_looked_for_at_the_date_that_is_shown(tmp_path):
    store, yesterday = open_store(str(tmp_path)), str(today() - timedelta(days=1))
    publish(store, [ALPHA], dates=2)
    form = cluster.cluster_page(store, ALPHA.name, date=yesterday).sections[-1].blocks[0]
    assert form.hidden == {"name": ALPHA.name, "date": yesterday}


def test_an_analysis_that_made_no_summary_names_no_snapshot(tmp_path):
    store = open_store(str(tmp_path))
    publish(store, [ALPHA], dates=1)
    (manifest,) = (each for each in store.list("v1/analysis/") if each.endswith("/manifest.json"))
    leave_out(store, manifest, "cluster_summary")
    (note,) = cluster.cluster_page(store, ALPHA.name).sections[-1].blocks
    assert note.text == "The analysis did not make the summary that names its snapshot."


SECTIONS = ("findings", "brokers", "waits", "drill", "history", "compare", "topics")
SUMMARY = ("taken_at", "snapshot_id", "kafka_version", "version_reason")
PARTS = {
    "findings": ("severity", ("findings", "waits")),
    "broker_load": ("live", ("brokers",)),
    "imbalance": ("broker_id", ("brokers",)),
    "deletion_eligibility": ("eligible", ("waits",)),
    "proposals": ("moves", ("waits",)),
    "failure_drill": ("rank", ("drill",)),
    "growth": ("date", ("history",)),
    "leader_churn": ("isr_changes", ("history",)),
    "controller_churn": ("elections", ("history",)),
}
"""Result → a column that its part of the page needs, and the sections that have less without it."""


def without_column(content, column):
    return table_to_parquet(pq.read_table(pa.BufferReader(content)).drop_columns([column]))


def torn(content, _):
    return content[:-9]


@pytest.fixture(scope="module")
def ill(tmp_path_factory):
    """A store with two dates of a cluster that has something in every section."""
    store = open_store(str(tmp_path_factory.mktemp("ill")))
    publish(store, [Sick("alpha", critical=1, warnings=2, queued=True)], dates=2)
    return store


@pytest.mark.parametrize(
    ("table", "column", "damage", "sections"),
    [
        *(("cluster_summary", column, without_column, ("topics",)) for column in SUMMARY),
        *((name, column, without_column, sections) for name, (column, sections) in PARTS.items()),
        ("failure_drill", "", torn, ("drill",)),
    ],
)
def test_a_result_that_is_not_as_it_was_published_takes_its_part_of_the_page_and_no_other(
    ill, table, column, damage, sections
):
    whole = cluster.cluster_page(ill, "alpha")
    (key,) = [each for each in ill.list(f"v1/analysis/date={today()}/") if each.endswith(f"/{table}.parquet")]
    content = ill.get(key)
    ill.put(key, damage(content, column))
    CACHE.clear()
    page = cluster.cluster_page(ill, "alpha")
    ill.put(key, content)
    assert [section.anchor for section in page.sections] == list(SECTIONS)
    less = [one.anchor for one, other in zip(page.sections, whole.sections, strict=True) if one != other]
    assert tuple(less) == sections
    assert key.rpartition("/")[0] in page_html(page, nonce="n")


def test_what_is_new_is_not_known_where_the_date_before_cannot_be_read(tmp_path):
    store = open_store(str(tmp_path))
    publish(store, [Sick("alpha", warnings=2)], dates=2)
    before = f"v1/analysis/date={today() - timedelta(days=1)}/"
    (key,) = [each for each in store.list(before) if each.endswith("/findings.parquet")]
    store.put(key, b"torn")
    note, table = cluster.cluster_page(store, "alpha").sections[0].blocks
    assert note.text.startswith("What is new is not known: ")
    assert store.uri_of(key) in note.text
    assert {row[2].text for row in table.rows} == {"-"}
