"""An overview that cannot be read takes its own date from the pages Clusters and Cluster, and no other."""

from datetime import UTC, datetime

import pytest

from controller_core.adapters.object_store.open import open_store
from controller_core.model.errors import ObjectDamagedError
from kafka_maintenance.operations.analysis.overviews import PREFIX, newest_overviews, readable_overviews
from kafka_maintenance.web.render import page_html
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
