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
