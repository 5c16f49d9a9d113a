"""The page Clusters: the age of the newest snapshot, where no analysis tells it."""

from datetime import UTC, datetime

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from kafka_maintenance.web.render import page_html
from kafka_maintenance.web.views.clusters import Listed, clusters_page
from tests.kafka_maintenance.snapshot_world import stored_day

NOON = datetime(2026, 6, 30, 12, tzinfo=UTC)


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
