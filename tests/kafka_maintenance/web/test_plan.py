"""The page Plan of a plan that moves leaders: who leads less, who leads more, and what stalls."""

from controller_core.adapters.object_store.open import open_store
from kafka_maintenance.operations.plans.store import store_plan
from kafka_maintenance.web.render import page_html
from kafka_maintenance.web.views.plan import Named, plan_page
from tests.controller_core.plans.test_leaders import RING, observed, planned


def test_a_plan_of_leaders_shows_each_leader_that_moves_between_which_brokers_and_what_stalls(tmp_path):
    plan, store = planned(observed(RING)), open_store(str(tmp_path))
    stored = store_plan(store, plan, "v1/cluster=alpha/")
    page = plan_page(store, Named(kind=plan.kind, cluster=plan.cluster, digest=stored.digest))
    tables = {section.anchor: section.blocks[0] for section in page.sections}
    assert [[cell.text for cell in row[:4]] for row in tables["changes"].rows] == [
        ["t-0", "1", "1", "2"],
        ["t-3", "1", "1", "3"],
    ]
    assert "2 leaders leave 1 brokers for 2" in tables["leaders-section"].says
    assert "before-after" not in tables, "no replica moves"
    html = page_html(page, nonce="n")
    assert "Leaders that move" in html
    assert all(risk.split(":")[0] in html for risk in plan.risks)
