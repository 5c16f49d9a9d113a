"""The page Plan: leaders that move, waves, the trade-off and every change; a document that is not the one its name means is refused."""

import pytest

from controller_core.adapters.object_store.open import MemoryStore, open_store
from controller_core.model.partitions import TopicPartition
from controller_core.plans.rules import ThrottleBand
from kafka_maintenance.operations.plans.reassignment import plan_reassignment
from kafka_maintenance.operations.plans.store import store_plan
from kafka_maintenance.web.render import page_html
from kafka_maintenance.web.views import plan as view
from kafka_maintenance.web.views.plan import Named, plan_page
from kafka_maintenance.web.views.plan_curve import trade_off
from spark_jobs.planner.copies import Limits
from spark_jobs.planner.goals import Goals
from tests.controller_core.plans.kinds.ring import RING, observed, planned
from tests.kafka_maintenance.operations.plans.made import six_on_two_brokers


def test_a_plan_of_leaders_shows_each_leader_that_moves_between_which_brokers_and_what_stalls(tmp_path):
    plan, store = planned(observed(RING)), open_store(str(tmp_path))
    stored = store_plan(store, plan, "v1/cluster=alpha/")
    page = plan_page(store, Named(kind=plan.kind, cluster=plan.cluster, digest=stored.digest))
    tables = {section.anchor: section.blocks[0] for section in page.sections}
    assert [[cell.text for cell in row[:4]] for row in tables["changes"].rows] == [
        ["t-0", "1", "1", "2"],
        ["t-3", "1", "1", "3"],
    ]
    assert "2 leaders leave 1 broker for 2" in tables["leaders-section"].says
    assert "before-after" not in tables, "no replica moves"
    html = page_html(page, nonce="n")
    assert "Leaders that move" in html
    assert all(risk.split(":")[0] in html for risk in plan.risks)


def test_a_document_that_was_altered_after_it_was_shown_is_refused(tmp_path):
    plan, store = planned(observed(RING)), open_store(str(tmp_path))
    stored = store_plan(store, plan, "v1/cluster=alpha/")
    named = Named(kind=plan.kind, cluster=plan.cluster, digest=stored.digest)
    assert len(plan_page(store, named).sections) == len(plan_page(store, named).sections) > 1
    (path,) = (
        each for each in tmp_path.rglob("*.json") if each.name.startswith(f"{plan.kind}-{stored.digest[:12]}.json")
    )
    path.chmod(0o644)
    path.write_bytes(path.read_bytes().replace(b'"alpha"', b'"gamma"'))
    assert "It will be refused: plan" in page_html(plan_page(store, named), nonce="n")


def test_a_name_that_leads_to_another_plan_is_refused(tmp_path):
    plan, store = planned(observed(RING)), open_store(str(tmp_path))
    stored = store_plan(store, plan, "v1/cluster=alpha/")
    other = "0" * 64
    name = f"v1/plans/cluster=alpha/{plan.kind}-{stored.digest}"
    store.put(f"v1/plans/cluster=alpha/{plan.kind}-{other}", store.get(name))
    html = page_html(plan_page(store, Named(kind=plan.kind, cluster="alpha", digest=other)), nonce="n")
    assert f"expected digest &#39;{other}&#39;, found &#39;{stored.digest}&#39;" in html


@pytest.mark.parametrize(
    ("known", "throttle", "columns", "axis"),
    [
        pytest.param(False, 10, {}, "replicas copied so far", id="no sizes"),
        pytest.param(True, None, {"Bytes copied": "200 bytes"}, "bytes copied so far", id="no throttle"),
        pytest.param(
            True,
            10,
            {"Bytes copied": "200 bytes", "Takes at 10 bytes/s": "20 s"},
            "seconds at 10 bytes/s so far",
            id="a throttle",
        ),
        pytest.param(
            True,
            ThrottleBand(10, 40),
            {"Bytes copied": "200 bytes", "Takes at 10 bytes/s to 40 bytes/s": "5 s to 20 s"},
            "seconds at 10 bytes/s so far",
            id="a band",
        ),
    ],
)
def test_a_wave_tells_its_bytes_and_how_long_they_take_where_these_are_known(known, throttle, columns, axis):
    store, sizes = MemoryStore(), {TopicPartition("a", number): 100 for number in range(6)} if known else None
    stored = plan_reassignment(
        store,
        "demo",
        zookeeper=six_on_two_brokers().zookeeper(),
        sizes=sizes,
        limits=Limits(partitions_max=2),
        throttle_bytes_per_s=throttle,
    )
    page = plan_page(store, Named(kind=stored.kind, cluster="demo", digest=stored.digest))
    (figure,) = next(section for section in page.sections if section.anchor == "waves").blocks
    rows = [dict(zip([each.name for each in figure.table.columns], row, strict=True)) for row in figure.table.rows]
    assert len(rows) == 3  # the last one only orders replicas anew
    told = {"Bytes copied", *(name for name in rows[0] if name.startswith("Takes"))}
    assert {name: cell.text for name, cell in rows[0].items() if name in told} == columns
    assert figure.layout["xaxis"]["title"]["text"] == axis
    assert sum(figure.traces[0]["x"][:2]) == {"replicas": 4, "bytes": 400, "seconds": 40}[axis.split()[0]]


def page_of(**planned):
    """The page of a reassignment that was planned so."""
    store = MemoryStore()
    stored = plan_reassignment(store, "demo", zookeeper=six_on_two_brokers().zookeeper(), **planned)
    return plan_page(store, Named(kind=stored.kind, cluster="demo", digest=stored.digest))


def test_the_trade_off_curve_is_drawn_from_the_stored_proof_beside_what_the_plan_moves():
    page = page_of(goals=Goals(curve_tolerances=(0, 3)))
    (figure,) = next(section for section in page.sections if section.anchor == "trade-off").blocks
    moves = next(int(cell.text) for name, cell in page.head[1].facts if name == "Replicas copied")
    fewest, own = figure.traces
    assert (fewest["x"], own["y"]) == ([0, 3], [moves, moves])
    assert fewest["y"][0] > fewest["y"][1]
    assert [[cell.text for cell in row] for row in figure.table.rows] == [
        [str(at), str(least), "yes", str(least - moves)] for at, least in zip((0, 3), fewest["y"], strict=True)
    ]
    assert f"This plan copies {moves}, with 0 for replicas, 0 for leaders and 1 for a topic." in figure.says
    assert "trade-off-curve" in page_html(page, nonce="n")


def test_a_plan_without_a_curve_has_no_figure_of_one():
    assert "trade-off" not in {section.anchor for section in page_of(goals=Goals(curve_tolerances=())).sections}


def test_a_point_of_the_curve_that_is_not_proven_is_told_apart():
    points = [{"tolerance": 0, "moves": 9, "proven": True}, {"tolerance": 2, "moves": 4, "proven": False}]
    figure = trade_off(points, {"replicas": 1, "leaders": 0, "topic": 1}, 8)
    assert "At 2 it may take more" in figure.says
    assert [[cell.text for cell in row[2:]] for row in figure.table.rows] == [
        ["yes", "1"],
        ["no, it may take more", "-4"],
    ]


def test_changes_that_the_page_leaves_out_are_counted(monkeypatch):
    monkeypatch.setattr(view, "EFFECTS_READ_MAX", 2)
    page = page_of(limits=Limits(partitions_max=2))
    table = page.table("changes-table")
    assert (len(table.rows), table.more) == (2, 3)
    assert "3 more rows are not shown." in page_html(page, nonce="n")
