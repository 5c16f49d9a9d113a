"""The page Clusters: the age of the newest snapshot, and what an analysis did not look for, which is unknown and not zero."""

import json
from datetime import UTC, datetime

import pytest

from controller_core.adapters.object_store.open import MemoryStore, open_store
from kafka_maintenance.operations.analysis.overviews import PREFIX, keep_overview
from kafka_maintenance.web.render import page_html
from kafka_maintenance.web.views.clusters import Listed, clusters_page
from tests.kafka_maintenance.snapshot_world import stored_day
from tests.kafka_maintenance.web.fleet import Sick, publish_date

NOON = datetime(2026, 6, 30, 12, tzinfo=UTC)
ALPHA = Sick("alpha", critical=2, warnings=3)


@pytest.mark.parametrize(
    ("days_ago", "shown"),
    [
        pytest.param((), "no snapshot yet", id="none"),
        pytest.param((3, 0), "11 h", id="of today"),
        pytest.param((3,), "3 d", id="of an earlier date"),
        pytest.param((-30, 3), "3 d", id="one is dated in the future"),
    ],
)
def test_the_age_of_the_newest_snapshot(request, days_ago, shown):
    store = MemoryStore(request.node.name)
    for days in days_ago:
        stored_day(store, NOON, days)
    page = clusters_page(store, [Listed(name="alpha")], {}, now=NOON)
    assert shown in page_html(page, nonce="n")


def cells_of(store):
    (table,) = clusters_page(store, [Listed(name="alpha")], {}, now=datetime.now(UTC)).sections[0].blocks
    return dict(zip([column.name for column in table.columns], table.rows[0], strict=True))


def keep(store, date, **numbers):
    """The overview of an analysis that made no findings."""
    names = {"format_version": 1, "date": date, "run_id": "r", "created_at": f"{date}T03:00:00+00:00"}
    key = f"v1/analysis/date={date}/run=r/manifest.json"
    keep_overview(store, key, names | {"summary": {"clusters": {"alpha": numbers}}})


@pytest.mark.parametrize(
    ("phase", "mode", "tone"),
    [
        pytest.param("P3", "migrating to KRaft (P3)", "warning", id="on its way, says the phase"),
        pytest.param("P0", "ZooKeeper (P0)", None, id="not on its way, says the phase"),
        pytest.param(None, "-", None, id="nothing says it"),
    ],
)
def test_the_mode_without_findings_is_that_of_the_phase(tmp_path, phase, mode, tone):
    store = open_store(str(tmp_path))
    keep(store, "2026-11-20", kraft_phase=phase)
    (key,) = store.list(PREFIX)
    assert json.loads(store.get(key))["clusters"]["alpha"]["kraft_migration_count"] is None
    cell = cells_of(store)["Mode"]
    assert (cell.text, cell.tone) == (mode, tone)


def test_a_date_without_findings_is_passed_over_in_the_trend(tmp_path):
    store = open_store(str(tmp_path))
    publish_date(store, [ALPHA], 1)
    publish_date(store, [ALPHA], 0)
    keep(store, "9999-12-31")
    assert cells_of(store)["Trend"].text == "1 to 5 findings over 2 dates"
