"""What a person sees and clicks in the Airflow UI: the report of a date, the plan of a run, the approval."""

from urllib.parse import quote

import pytest

from tests.dags.browsing import chromium
from tests.dags.live.stack import CLUSTER

pytestmark = [pytest.mark.browser, pytest.mark.e2e, pytest.mark.kafka]
WAIT_MS = 60_000


@pytest.fixture(scope="module")
def page(live):
    """A browser in which the approver has signed in."""
    server = live.stack.airflow
    with chromium() as browser:
        shown = browser.new_page(viewport={"width": 1400, "height": 1000}, base_url=server.url)
        shown.set_default_timeout(WAIT_MS)
        shown.goto("/auth/login?next=%2Fdags")
        shown.locator("input[name=username]").fill("approver")
        shown.locator("input[name=password]").fill(server.users["approver"].password)
        shown.keyboard.press("Enter")
        shown.wait_for_url("**/dags*")
        yield shown


def _open_run(page, dag_id, run_id):
    page.goto(f"/dags/{dag_id}/runs/{quote(run_id)}")


def test_the_report_of_a_day_is_a_tab_of_its_run(page, live, analysed):
    _open_run(page, "nightly_analysis", analysed)
    page.get_by_role("link", name="Report", exact=True).click()
    report = page.frame_locator("iframe")
    report.get_by_text("Kafka maintenance report").first.wait_for()
    assert CLUSTER in report.locator("body").inner_text()


def test_mapped_tasks_are_labelled_by_their_cluster(page, live, scheduled_snapshot):
    page.goto(f"/dags/snapshot_metadata/runs/{quote(scheduled_snapshot)}/tasks/take_snapshot/mapped/0")
    page.get_by_text(f"cluster {CLUSTER}", exact=True).first.wait_for()


def test_the_overview_shows_the_cluster(page, live, scheduled_snapshot):
    page.goto("/plugin/kafka-clusters")
    table = page.frame_locator("iframe").get_by_test_id("clusters")
    table.wait_for()
    shown = table.inner_text()
    assert CLUSTER in shown
    assert live.stack.zookeeper.hosts not in shown, "an address is for those who may read connections"


def test_a_plan_is_read_and_approved_by_clicking(page, live):
    run_id = live.start("delete_topics", {"cluster": CLUSTER, "topics": ["retired-by-click"]})
    gate = live.approver.wait_gate("delete_topics", run_id, timeout_s=120)
    _open_run(page, "delete_topics", run_id)
    page.get_by_role("link", name="Plan", exact=True).click()
    plan = page.frame_locator("iframe")
    digest = plan.get_by_test_id("fact-digest").inner_text()
    assert digest in gate.body
    assert "retired-by-click" in plan.locator("body").inner_text()
    page.goto(gate.page)
    page.get_by_text(digest).first.wait_for()
    assert "retired-by-click" in live.topics()
    page.get_by_role("button", name="Approve", exact=True).click()
    live.succeed("delete_topics", run_id, asked_again="Approve")
    assert "retired-by-click" not in live.topics()
    answer = live.operator.xcom("delete_topics", run_id, "approve")
    assert answer["responded_by_user"]["name"] == "approver"
