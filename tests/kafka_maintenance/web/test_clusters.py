"""The page Clusters: the age of the newest snapshot, and what an analysis did not look for, which is unknown and not zero."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from controller_core.adapters.object_store.open import FolderStore, MemoryStore, open_store
from kafka_maintenance.operations.analysis.overviews import PREFIX, keep_overview
from kafka_maintenance.operations.kraft.departure import leave
from kafka_maintenance.web.render import page_html
from kafka_maintenance.web.views.clusters import Listed, clusters_page
from tests.kafka_maintenance.snapshot_world import stored_day
from tests.kafka_maintenance.web.fleet import Sick, publish_date, today

NOON = datetime(2026, 6, 30, 12, tzinfo=UTC)
ALPHA = Sick("alpha", critical=2, warnings=3)


@pytest.mark.parametrize(
    ("taken", "shown"),
    [
        pytest.param((), "no snapshot yet", id="none"),
        pytest.param(((3, 1), (0, 1)), "11 h", id="of today"),
        pytest.param(((3, 1),), "3 d", id="of an earlier date"),
        pytest.param(((-30, 1), (3, 1)), "3 d", id="one is dated in the future"),
        pytest.param(((0, 1), (0, 17)), "11 h", id="one is dated in the future, and of today"),
    ],
)
def test_the_age_of_the_newest_snapshot(request, taken, shown):
    store = MemoryStore(request.node.name)
    for days_ago, hour in taken:
        stored_day(store, NOON, days_ago, hour=hour)
    page = clusters_page(store, [Listed(name="alpha")], {}, now=NOON)
    assert shown in page_html(page, nonce="n")


def cells_of(store, now=None):
    (table,) = clusters_page(store, [Listed(name="alpha")], {}, now=now or datetime.now(UTC)).sections[0].blocks
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
    publish_date(store, [ALPHA], 2)
    publish_date(store, [ALPHA], 0)
    keep(store, str(today() - timedelta(days=1)))
    assert cells_of(store)["Trend"].text == "1 to 5 findings over 2 dates"


def test_a_cluster_that_the_newest_run_of_the_date_left_out_is_shown_as_the_run_before_found_it(tmp_path):
    store = open_store(str(tmp_path))
    publish_date(store, [ALPHA, Sick("beta")], 0)
    publish_date(store, [Sick("beta")], 0, run="z_of_beta_alone")
    cells = cells_of(store)
    assert (cells["Severity"].text, cells["Critical"].text, cells["Report"].text) == ("critical", "2", str(today()))


def test_an_analysis_dated_in_the_future_is_not_the_newest(tmp_path):
    store = open_store(str(tmp_path))
    publish_date(store, [ALPHA], 0)
    publish_date(store, [Sick("alpha")], -300)
    cells = cells_of(store)
    assert (cells["Severity"].text, cells["Report"].text) == ("critical", str(today()))


@pytest.mark.parametrize(
    ("taken", "age"),
    [
        pytest.param("2026-06-30T12:50:00+00:00", "0 s", id="a clock that is a little fast"),
        pytest.param("2026-06-30T17:00:00+00:00", "none", id="dated in the future, and the store has no other one"),
    ],
)
def test_the_age_of_the_analysed_snapshot(tmp_path, taken, age):
    store = open_store(str(tmp_path))
    keep(store, "2026-06-30", taken_at=taken)
    assert cells_of(store, NOON)["Snapshot"].text == age


def test_a_departure_that_cannot_be_read_is_told_and_hides_no_other_cluster(tmp_path):
    store = open_store(str(tmp_path))
    publish_date(store, [ALPHA, Sick("beta"), Sick("gamma")], 0)
    for name in ("alpha", "beta"):
        stored_day(store, NOON, 1, cluster=name)
        leave(store, name, by="ann", reason="finalised", now=NOON)
    (key,) = store.list("v1/kraft/cluster=alpha/")
    store.put(key, b"{}")
    page = clusters_page(store, [Listed(name=name) for name in ("alpha", "beta", "gamma")], {}, now=datetime.now(UTC))
    modes = {row[0].text: row[13].text for row in page.table("clusters").rows}
    assert modes == {"alpha": "not known", "beta": "KRaft since 2026-06-30", "gamma": "ZooKeeper (P0)"}
    (problem,) = page.head[1].lines
    assert problem.startswith(f"alpha: record {store.uri_of(key)} not read: ")


def test_a_fleet_that_has_left_is_read_once(tmp_path, monkeypatch):
    store = open_store(str(tmp_path))
    publish_date(store, [ALPHA], 0)
    stored_day(store, NOON, 1)
    leave(store, "alpha", by="ann", reason="finalised", now=NOON)
    read, get = [], FolderStore.get
    monkeypatch.setattr(FolderStore, "get", lambda self, key: read.append(key) or get(self, key))
    for _ in range(2):
        assert cells_of(store)["Mode"].text == "KRaft since 2026-06-30"
    assert len([key for key in read if key.startswith("v1/kraft/")]) == 1
