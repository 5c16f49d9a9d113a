"""A critical finding at 3 a.m. as a person sees it: what the webhook brings, and the red run in Airflow's UI; the pictures of the tutorial."""

import html
import json
from datetime import datetime
from urllib.parse import quote, urlsplit

import pytest

from tests.dags.archive import OLD_DAYS, take_old
from tests.dags.browsing import PICTURES_TAKEN, Looked, chromium, served, window
from tests.kafka_maintenance.operations.analysis.analysed import finding

pytestmark = [pytest.mark.browser, pytest.mark.services]
DOWN = finding("old", "broker_down", "critical", brokers=[3])
WAIT_MS = 300_000  # Airflow's own pages, on a busy machine
WINDOW = {"width": 1280, "height": 720}


@pytest.fixture
def red(bag, request, ringing, monkeypatch):
    """A run of `nightly_analysis` over a snapshot with a critical finding; (its id, what the receiver of the webhook got)."""
    zookeeper, store = (request.getfixturevalue(name) for name in ("zookeeper", "store"))
    told = ringing("nightly_analysis", "no_alarms")
    take_old(zookeeper, store, OLD_DAYS[0])
    day = datetime.fromisoformat(f"{OLD_DAYS[0]}T03:00Z")
    dag = bag.dags["nightly_analysis"]
    monkeypatch.setitem(dag.params, "fail_if_incomplete", False)  # `run_conf` would stay for the runs of other tests
    run = dag.test(logical_date=day, run_after=day)
    assert str(run.state) == "failed"
    return run.run_id, told


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("spark", [[DOWN]], indirect=True)
def test_the_phone_rings_and_leads_to_a_red_run(red, clients):
    run_id, (told,) = red
    assert told["text"].startswith("nightly_analysis: no_alarms failed: 1 finding(s) call for a person, 1 of them new:")
    page = urlsplit(told["page"]).path
    assert page == f"/dags/nightly_analysis/runs/{quote(run_id)}/tasks/no_alarms"
    token = clients["victor"].headers["Authorization"].removeprefix("Bearer ")
    PICTURES_TAKEN.mkdir(parents=True, exist_ok=True)
    with served(clients["victor"].app) as address, chromium() as browser:
        looked = Looked(window(browser, address), address, token)
        looked.page.set_viewport_size(WINDOW)
        looked.page.set_default_timeout(WAIT_MS)
        looked.page.goto(page.partition("/tasks/")[0])
        looked.page.get_by_text("no_alarms").first.wait_for()
        looked.page.get_by_text("Failed").first.wait_for()
        looked.page.get_by_role("link", name="Report", exact=True).wait_for()
        looked.page.screenshot(path=PICTURES_TAKEN / "red_run.png")
        looked.page.goto(page)
        looked.page.get_by_text("no_alarms").first.wait_for()
        looked.page.set_content(
            f"<pre style='font: 16px/1.5 monospace; white-space: pre-wrap; margin: 24px'>{html.escape(json.dumps(told, indent=2))}"
        )
        looked.page.set_viewport_size({"width": 1280, "height": 400})
        looked.page.screenshot(path=PICTURES_TAKEN / "alert.png")
        looked.close()
