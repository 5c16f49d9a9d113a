"""An overview that cannot be read takes its own date from the pages Clusters and Cluster, and no other."""

import json
from datetime import UTC, datetime

import pytest

from controller_core.adapters.object_store.open import open_store
from controller_core.model.errors import ObjectDamagedError, ObjectMissingError
from kafka_maintenance.operations.analysis.overviews import PREFIX, newest_overviews, readable_overviews, report_of_date
from kafka_maintenance.web.render import page_html, page_json
from kafka_maintenance.web.views.cluster import cluster_page
from kafka_maintenance.web.views.clusters import Listed, clusters_page
from tests.kafka_maintenance.web.fleet import Sick, publish


@pytest.fixture
def store(tmp_path):
    """Three dates of two clusters, the newest with a damaged overview."""
    store = open_store(str(tmp_path))
    publish(store, [Sick("alpha", critical=2), Sick("beta")], dates=3)
    store.put(store.list(PREFIX)[-1], b"{")
    return store


def test_the_newest_that_can_be_read_counts_and_the_damaged_one_is_named(store):
    overviews, damaged = readable_overviews(store, 30)
    assert len(overviews) == 2
    assert "expected the counts of an analysis" in damaged[0]
    assert len(damaged) == 1
    with pytest.raises(ObjectDamagedError):  # who judges is not to judge by less than there is
        newest_overviews(store, 30)


def test_one_that_is_removed_after_it_was_listed_takes_its_own_date_alone(store, monkeypatch):
    get, gone = type(store).get, store.list(PREFIX)[0]

    def removed_meanwhile(store, key):
        if key == gone:
            raise ObjectMissingError(f"object {key!r} not found")
        return get(store, key)

    monkeypatch.setattr(type(store), "get", removed_meanwhile)
    overviews, damaged = readable_overviews(store, 30)
    assert [str(one.date) for one in overviews] == [store.list(PREFIX)[1].split("/")[2].removeprefix("date=")]
    assert f"object {gone!r} not found" in damaged


def test_the_pages_show_the_other_dates_and_say_what_they_lack(store):
    listed = [Listed(name="alpha"), Listed(name="beta")]
    for page in (clusters_page(store, listed, {}, now=datetime.now(UTC)), cluster_page(store, "alpha")):
        html = page_html(page, nonce="n")
        assert "expected the counts of an analysis" in html
        assert "No analysis is published yet" not in html
        assert "alpha" in html


def test_a_cluster_of_which_no_overview_can_be_read_is_damaged_and_not_missing(store):
    for key in store.list(PREFIX):
        store.put(key, b"{")
    with pytest.raises(ObjectDamagedError, match="expected the counts of an analysis"):
        cluster_page(store, "alpha")


@pytest.mark.parametrize(
    "changed",
    [
        {"critical_count": "3"},
        {"critical_count": []},
        {"warning_count": float("inf")},
        {"brokers_above_ratio_count": {}},
        {"ratio_max": "much"},
        {"taken_at": "2026-11-24T02:00:00"},
        {"taken_at": "yesterday"},
        {"kraft_phase": ["P0"]},
    ],
    ids=str,
)
def test_a_count_that_is_none_damages_its_overview_and_no_page(store, changed):
    key = store.list(PREFIX)[0]
    overview = json.loads(store.get(key))
    overview["clusters"]["alpha"] |= changed
    store.put(key, json.dumps(overview).encode())
    overviews, damaged = readable_overviews(store, 30)
    assert (len(overviews), len(damaged)) == (1, 2)
    for page in (clusters_page(store, [Listed(name="alpha")], {}, now=datetime.now(UTC)), cluster_page(store, "alpha")):
        assert damaged[0].partition(":")[0].encode() in page_json(page)


def test_a_report_with_bytes_that_are_no_text_is_shown_with_what_is(store):
    (key, *_) = [key for key in store.list("v1/analysis/") if key.endswith("/report.html")]
    store.put(key, b"<p>alpha \xff</p>")
    date = key.partition("date=")[2].partition("/")[0]
    assert report_of_date(store, date, "alpha") == "<p>alpha \ufffd</p>"


@pytest.mark.parametrize("date", ["2020-01-01", "2099-01-01", "", 5])
def test_an_overview_of_another_date_than_its_place_is_damaged(store, date):
    key = store.list(PREFIX)[0]
    store.put(key, json.dumps(json.loads(store.get(key)) | {"date": date}).encode())
    overviews, damaged = readable_overviews(store, 30)
    assert (len(overviews), len(damaged)) == (1, 2)
    assert "which is not that of its key" in damaged[0]


def test_an_overview_without_some_counts_does_not_know_them(store):
    key = store.list(PREFIX)[1]
    overview = json.loads(store.get(key))
    overview["clusters"]["alpha"] = {"topic_count": 4}
    store.put(key, json.dumps(overview).encode())
    assert newest_counts(store)["critical_count"] is None
    clusters_page(store, [Listed(name="alpha")], {}, now=datetime.now(UTC))
    cluster_page(store, "alpha")


def newest_counts(store):
    return readable_overviews(store, 30)[0][-1].clusters["alpha"]
