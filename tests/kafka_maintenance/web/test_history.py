"""The page History: the failure drill of the date that is picked."""

from datetime import date

import pytest

from controller_core.adapters.object_store.open import open_store
from kafka_maintenance.demo.sample_history import CLUSTER, copy_into
from kafka_maintenance.operations.analysis.overviews import PREFIX
from kafka_maintenance.web.blocks import Figure
from kafka_maintenance.web.views.cluster import cluster_page
from kafka_maintenance.web.views.history import NOT_SEEN, Asked, history_page
from tests.kafka_maintenance.web.fleet import Sick, publish_date, today

NEWEST, BEFORE, UNANALYSED = "2026-10-11", "2026-10-10", "2026-10-09"


@pytest.fixture
def store(tmp_path):
    """The recorded snapshots; of the newest two dates there is an analysis, in the newer of which broker 1 hurts."""
    store = open_store(str(tmp_path))
    copy_into(store)
    for day, critical in ((BEFORE, 0), (NEWEST, 3)):
        back = (today() - date.fromisoformat(day)).days
        publish_date(store, [Sick(CLUSTER, critical=critical)], back)
    return store


def blocks(store, anchor, *, sees_analyses=True, **asked):
    page = history_page(store, [CLUSTER], Asked(CLUSTER, **asked), sees_analyses=sees_analyses)
    (section,) = (each for each in page.sections if each.anchor == anchor)
    return section.blocks


@pytest.mark.parametrize(("day", "offline"), [(NEWEST, 3), (BEFORE, 0)])
def test_the_failure_drill_is_that_of_the_picked_date_and_that_of_the_page_cluster(store, day, offline):
    note, figure = blocks(store, "drill", after=day)
    assert day in note.text
    assert f"broker 1 takes {offline} partitions offline" in figure.says
    page = cluster_page(store, CLUSTER, date=day)
    assert [figure] == [each for section in page.sections for each in section.blocks if each == figure]
    assert isinstance(figure, Figure)


def test_a_date_without_an_analysis_says_what_to_run(store):
    (note,) = blocks(store, "drill", after=UNANALYSED)
    assert note.text == f"No published analysis has {CLUSTER} on {UNANALYSED}: run nightly_analysis for it."


def test_who_may_not_see_analyses_sees_no_drill(store):
    (note,) = blocks(store, "drill", sees_analyses=False)
    assert note.text == NOT_SEEN


def test_a_damaged_overview_is_told_and_the_rest_of_the_page_is_there(store):
    store.put(store.list(PREFIX)[-1], b"{")
    (note,) = blocks(store, "drill")
    assert (note.tone, "expected the counts of an analysis" in note.text) == ("warning", True)
    assert blocks(store, "diff")[-1].id == "changes"
