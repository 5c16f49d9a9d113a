"""The page Topic: what it counts is what the findings count."""

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from kafka_maintenance.web.views.topic import topic_page
from tests.spark_jobs.worlds import World, publish


@pytest.mark.parametrize(
    ("partition", "count", "missing"),
    [
        pytest.param(((1, 2, 3), 1, (1, 2), (3,), ()), 0, "", id="one that is being added"),
        pytest.param(((1, 2), None, ()), 0, "", id="no state"),
        pytest.param(((1, 2), 9, (9,)), 1, "1, 2", id="another broker makes up the number"),
        pytest.param(((1, 2), -1, (1,)), 1, "2", id="no leader"),
        pytest.param(((1, 2), 1, (2, 1)), 0, "", id="all in sync"),
    ],
)
def test_a_partition_is_under_replicated_as_in_the_findings(partition, count, missing):
    store = MemoryStore("topic")
    publish(World(brokers={1: None, 2: None, 3: None}, partitions=(("t", 0, *partition),)), store)
    page = topic_page(store, "alpha", "t")
    facts = dict(page.head[0].facts)
    assert facts["Under-replicated"].value == count
    table = page.sections[0].blocks[0]
    names = [column.name for column in table.columns]
    assert [row[names.index("Not in sync")].text for row in table.rows] == [missing]
