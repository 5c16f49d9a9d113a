"""Every page in each of its states, looked at by a real Chromium inside Airflow's own API server.

No page says anything to the console, has a violation that axe knows, or is wider than its window, at 1280 and at 390 pixels, in
light and dark. The screenshots lie in `build/screenshots`.
"""

import hashlib
import json
import tempfile
from datetime import UTC, datetime, timedelta
from threading import Event
from urllib.parse import quote

import pytest

from controller_core.adapters.object_store.open import open_store
from kafka_maintenance.demo.sample_history import CLUSTER as RECORDED
from kafka_maintenance.demo.sample_history import DAYS, copy_into
from tests.dags.browsing import PICTURES_TAKEN, PREFIX, SCREENSHOTS, Looked, chromium, served, window
from tests.kafka_maintenance.web.fleet import Sick, publish, publish_date, today
from tests.kafka_maintenance.web.records import DONE, STUCK, UNDER_WAY, put_record

pytestmark = pytest.mark.browser
ALPHA = Sick("alpha", critical=3, warnings=7, queued=True)
CLUSTERS = (
    ALPHA,
    Sick("beta", warnings=2, migrating=True),
    Sick("gamma", growth=4),
    Sick("huge", brokers=200, racks=4, topics=40, partitions=25, warnings=40, growth=50),
)
PAGES = {
    "clusters": "clusters",
    "cluster": "cluster?name=alpha",
    "cluster-huge": "cluster?name=huge",
    "cluster-compared": "cluster?name=alpha&against=gamma",
    "topic": f"topic?cluster={RECORDED}&name=orders",
    "approvals": "approvals",
    "executions": "executions",
    "execution": f"execution?cluster=alpha&digest={'a' * 64}",
    "stored-plan-gone": f"stored-plan?cluster=alpha&kind=reassign_partitions&digest={'a' * 64}",
    "history": f"history?cluster={RECORDED}&subject=orders",
    "history-trend": f"history?cluster={RECORDED}&table=partitions&column=leader_epoch&how=mean",
    "history-without-snapshots": "history?cluster=new",
    "kraft": f"kraft?cluster={RECORDED}",
    "plan": "plan?dag_id=reassign_partitions&run_id=one",
    "no-plan": "plan?dag_id=reassign_partitions&run_id=none",
}
PICTURES = {
    "clusters": ("clusters", ("With critical findings", "alpha", "Plans that wait")),
    "cluster": ("cluster?name=alpha", ("Findings", "no replica in the ISR is live: broker 2 is not registered")),
    "approvals": ("approvals", ("Expires", "answer")),
    "plan": (
        "plan?dag_id=reassign_partitions&run_id=one",
        ("What to weigh first", "proven minimal", "Before and after"),
    ),
    "execution": (f"execution?cluster=alpha&digest={'a' * 64}", ("stuck", "To go", "broker 6 is not registered")),
    "history": (
        f"history?cluster={RECORDED}&subject=orders",
        ("What changed", "replicas moved", "The worst: broker 1 takes 2 partitions offline"),
    ),
}
"""The pictures of docs/tutorial.md, with words that it says are on them; `make docs-screenshots` puts them into docs/images."""
NOT_SHOWN = {
    "cluster-not-there": ("cluster?name=nobody", 404, "no published analysis"),
    "execution-not-there": ("execution?cluster=alpha&digest=0", 404, "expected a plan that was begun"),
    "page-not-there": ("nothing", 404, "There is no such page"),
    "topic-not-there": (f"topic?cluster={RECORDED}&name=nothing", 404, "has no topic of that name"),
}
EMPTY = {
    "clusters": (200, "run the DAG nightly_analysis"),
    "cluster": (404, "no published analysis"),
    "topic": (404, "has no snapshot in"),
    "approvals": (200, "Nothing waits for a person."),
    "executions": (200, "No plan was begun yet."),
    "execution": (404, "expected a plan that was begun"),
    "history": (200, "has no snapshot yet: run the DAG snapshot_metadata"),
    "kraft": (200, "has no snapshot yet: run the DAG snapshot_metadata"),
    "plan": (200, "It is gone, retention removes plans with their snapshot"),
}
"""What each page says of a store that holds nothing: status and words."""
DAMAGED = {
    "clusters": (200, "expected the counts of an analysis"),
    "approvals": (200, "Plans that wait for a person"),
    "execution": (200, "damaged"),
    "executions": (200, "`kafka-maintenance audit verify` names every entry that was changed"),
    "history": (200, "its manifest is damaged"),
    "kraft": (200, "its manifest is damaged"),
    "plan": (200, "It is gone, retention removes plans with their snapshot"),
}
"""Pages that can be made of a damaged store, or lose nothing by it: status and words."""


@pytest.fixture(scope="module")
def stored():
    """A store with a fleet, the recorded cluster, and a plan for it; (store, named plan)."""
    with tempfile.TemporaryDirectory(prefix="kafka-snapshots-") as folder:
        yield _filled(open_store(folder))


def _filled(store):
    from kafka_maintenance.operations.plans.reassignment import plan_reassignment
    from kafka_maintenance.operations.snapshots.catalog import newest_snapshot
    from kafka_maintenance.web.views.plan import Named

    publish(store, CLUSTERS)
    copy_into(store)
    publish_date(store, [Sick(RECORDED, critical=2)], (today() - DAYS[-1]).days)
    plan = plan_reassignment(store, RECORDED, manifest=newest_snapshot(store, RECORDED).uri)
    put_record(store, RECORDED, plan.digest, DONE)
    put_record(store, "alpha", "a" * 64, STUCK)
    return store, Named(kind=plan.kind, cluster=plan.cluster, digest=plan.digest)


@pytest.fixture(scope="module")
def settings(stored):
    """Airflow's variables and connections for the store, and a run with a plan and two gates that wait."""
    from kafka_maintenance.web import airflow_records
    from kafka_maintenance.web.views.approvals import Gate

    store, named = stored
    names = [*(cluster.name for cluster in CLUSTERS), "new", RECORDED]
    now = datetime.now(UTC)
    gate = {
        "dag_id": "reassign_partitions",
        "run_id": "one",
        "subject": "reassign: 12 partitions to move in 3 steps",
        "requester": "olivia",
    }
    gates = [
        Gate(
            cluster="alpha",
            asked=now - timedelta(hours=3),
            expires=now + timedelta(minutes=40),
            address="/dags/x",
            **gate,
        ),
        Gate(cluster="beta", asked=now - timedelta(minutes=9), expires=None, address="/dags/y", **gate),
    ]
    plans = airflow_records.plans_of_run
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_STORE", store.uri)
        patch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_CLUSTERS", json.dumps([*names, "ghost"]))
        for name in names:
            connection = {"conn_type": "generic", "host": "zk1,zk2", "extra": {"kafka_version": "3.9"}}
            patch.setenv(f"AIRFLOW_CONN_{name.upper()}", json.dumps(connection))
        patch.setattr(airflow_records, "open_gates", lambda _: gates)
        patch.setattr(airflow_records, "plans_of_run", lambda dag, run: [named] if run == "one" else plans(dag, run))
        yield patch


@pytest.fixture(scope="module")
def browser_window(clients, settings):
    """A window for all pages, and the address at which they are."""
    app = next(iter(clients.values())).app
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    with served(app) as address, chromium() as browser:
        yield window(browser, address), address


@pytest.fixture
def look(clients, browser_window):
    """Opens a page, as a viewer unless another user is named."""
    context, address = browser_window
    opened = []

    def open_page(path, user="victor"):
        looked = Looked(context, address, clients[user].headers["Authorization"].removeprefix("Bearer "))
        opened.append(looked)
        looked.answer = looked.open(f"{PREFIX}/{path}" if not path.startswith("/") else path)
        return looked

    yield open_page
    for looked in opened:
        looked.close()


def assert_well_made(looked, name):
    """In both widths and both themes; a page that is refused or cannot be made has its status in the console, by Chromium."""
    for width, scheme in ((1280, "light"), (390, "dark")):
        looked.resize(width)
        looked.page.emulate_media(color_scheme=scheme)
        looked.page.screenshot(path=SCREENSHOTS / f"{name}-{width}.png", full_page=True)
        assert looked.page.locator("html").get_attribute("data-theme") == scheme
        assert looked.violations() == []
        assert looked.overflow() <= 0
    assert [text for text in looked.said if "the server responded with a status of" not in text] == []


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_quiet_accessible_and_fits_its_window(look, name):
    looked = look(PAGES[name])
    assert looked.answer.status == 200
    assert_well_made(looked, name)


@pytest.mark.parametrize("name", PICTURES)
def test_the_tutorial_shows_pages_as_they_are(look, name):
    path, words = PICTURES[name]
    looked = look(path)
    looked.resize(1280, 860)
    PICTURES_TAKEN.mkdir(parents=True, exist_ok=True)
    looked.page.screenshot(path=PICTURES_TAKEN / f"{name}.png")
    shown = looked.page.locator("main").inner_text()
    assert [word for word in words if word not in shown] == []


@pytest.mark.parametrize("name", NOT_SHOWN)
def test_what_is_not_there_is_a_page_that_says_so(look, name):
    path, status, said = NOT_SHOWN[name]
    looked = look(path)
    assert looked.answer.status == status
    assert said in looked.page.get_by_test_id("note").inner_text()
    assert looked.violations() == []


@pytest.fixture(scope="module")
def damaged(tmp_path_factory):
    """A store in which every overview, manifest, plan and entry of a record is damaged."""
    folder = tmp_path_factory.mktemp("damaged")
    _filled(open_store(str(folder)))
    for path in folder.rglob("*.json"):
        path.chmod(0o644)
        path.write_bytes(b"{")
    return str(folder)


@pytest.mark.parametrize("name", EMPTY)
def test_a_damaged_store_is_told_on_every_page(look, settings, damaged, name):
    with settings.context() as patch:
        patch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_STORE", damaged)
        looked = look(PAGES[name])
    status, said = DAMAGED.get(name, (502, "This page cannot be made: "))
    assert looked.answer.status == status
    assert said in looked.page.locator("main").inner_text()
    assert_well_made(looked, f"damaged-{name}")


@pytest.mark.parametrize("name", EMPTY)
def test_without_the_right_to_see_a_page_says_whom_to_ask(look, settings, name):
    from airflow.api_fastapi.auth.managers.simple.simple_auth_manager import SimpleAuthManager

    with settings.context() as patch:
        patch.setattr(SimpleAuthManager, "is_authorized_dag", lambda *_, **__: False)
        looked = look(PAGES[name])
    if name in {"approvals", "executions"}:  # these show what the user may see of it, which is nothing here
        assert looked.answer.status == 200
        assert looked.page.locator("#executions tbody a").count() == 0
    else:
        assert looked.answer.status == 403
        assert "Your role may not see this" in looked.page.get_by_test_id("note").inner_text()
    assert_well_made(looked, f"refused-{name}")


@pytest.mark.parametrize("name", EMPTY)
def test_an_empty_store_says_so_on_every_page(look, settings, tmp_path, name):
    from kafka_maintenance.web import airflow_records

    with settings.context() as patch:
        patch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_STORE", str(tmp_path))
        patch.setattr(airflow_records, "open_gates", lambda _: [])
        looked = look(PAGES[name])
    status, said = EMPTY[name]
    assert looked.answer.status == status
    assert said in looked.page.locator("main").inner_text()
    assert_well_made(looked, f"empty-{name}")


def test_one_cluster_and_eighty_have_a_page(look, settings, tmp_path):
    for count in (1, 80):
        fleet = [Sick(f"cluster-{number:03}", warnings=number % 3) for number in range(count)]
        store = open_store(str(tmp_path / str(count)))
        publish(store, fleet, dates=2, snapshots=0)
        with settings.context() as patch:
            patch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_STORE", store.uri)
            patch.setenv("AIRFLOW_VAR_KAFKA_MAINTENANCE_CLUSTERS", json.dumps([one.name for one in fleet]))
            looked = look("clusters")
        assert looked.page.locator("#clusters tbody tr").count() == count
        assert_well_made(looked, f"clusters-{count}")


def test_a_page_that_is_read_again_can_be_told_not_to(look):
    page = look(PAGES["execution"]).page
    page.get_by_label("read again every 30 s").uncheck()
    page.reload()
    assert not page.get_by_label("read again every 30 s").is_checked()


def test_a_page_that_is_read_again_asks_once_and_waits_for_the_answer(look, monkeypatch):
    from kafka_maintenance.web import app

    looked, asked, answer, made = look("approvals"), [], Event(), app._execution

    def answer_the_first(*of):
        asked.append(of)
        if len(asked) > 1:
            answer.wait(60)
        return made(*of)

    monkeypatch.setattr(app, "_execution", answer_the_first)
    looked.page.clock.install()
    try:
        looked.open(f"{PREFIX}/{PAGES['execution']}")
        assert len(asked) == 1
        for _ in range(3):
            looked.page.clock.fast_forward(31_000)
            looked.page.wait_for_timeout(500)
        for _ in range(300):
            if len(asked) < 2:
                looked.page.wait_for_timeout(100)
        assert len(asked) == 2
    finally:
        looked.page.goto("about:blank")  # no page is closed that is being replaced
        answer.set()


RUN = "manual__2026-11-24"
"""The run of the records."""
CLICKED = {
    "under way": (UNDER_WAY, {"Stop, or pause", "Cancel the step", "Roll back"}),
    "stuck": (STUCK, {"Stop, or pause", "Cancel the step", "Roll back"}),
    "stopped": ((*UNDER_WAY, ("stopped", 1, 40, {})), {"Go on", "Cancel the step", "Roll back"}),
    "unfinished": ((*UNDER_WAY, ("unfinished", 1, 40, {})), {"Go on", "Cancel the step", "Roll back"}),
    "refused": ((*UNDER_WAY, ("refused", 1, 40, {})), {"Cancel the step", "Roll back"}),
    "over": ((*UNDER_WAY, ("over", 1, 40, {})), {"Roll back"}),
    "done": (DONE, {"Roll back"}),
}
"""State → its record, and what one click does in it."""


@pytest.fixture(scope="module")
def dags_on(bag):
    """The DAGs that the page's buttons start, in Airflow's database and not paused, and the run of the records."""
    from airflow.dag_processing.bundles.manager import DagBundlesManager
    from airflow.dag_processing.dagbag import sync_bag_to_db
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    DagBundlesManager().sync_bundles_to_db()
    sync_bag_to_db(bag, "dags-folder", None)
    names = ("stop_execution", "cancel_execution", "reassign_partitions")
    with create_session() as session:
        for name in names:
            session.get(DagModel, name).is_paused = False
    yield names
    with create_session() as session:
        for name in names:
            session.get(DagModel, name).is_paused = True


def _runs(client, dag_id):
    found = client.get(f"/api/v2/dags/{dag_id}/dagRuns", params={"limit": 100}).json()["dag_runs"]
    return {run["dag_run_id"]: run for run in found}


@pytest.mark.parametrize("state", CLICKED)
def test_in_each_state_what_is_possible_is_one_click_and_airflow_has_who_asked(look, stored, clients, dags_on, state):
    events, possible = CLICKED[state]
    digest = hashlib.sha256(state.encode()).hexdigest()
    put_record(stored[0], "alpha", digest, events)
    clients["ada"].post(
        "/api/v2/dags/reassign_partitions/dagRuns",
        json={"dag_run_id": RUN, "logical_date": None, "conf": {"cluster": "alpha"}},
    )
    looked = look(f"execution?cluster=alpha&digest={digest}", user="olivia")
    page = looked.page
    assert set(page.locator(".launches form").evaluate_all("all => all.map((one) => one.ariaLabel)")) == possible
    conf = {"cluster": "alpha", "plan": digest, "reason": "the disks are full"}
    for text in possible - {"Go on"}:
        dag_id = {"Stop, or pause": "stop_execution", "Cancel the step": "cancel_execution"}.get(
            text, "reassign_partitions"
        )
        before = _runs(clients["ada"], dag_id)
        form = page.get_by_role("form", name=text)
        if form.get_by_label("Reason").count():
            form.get_by_label("Reason").fill("the disks are full")
        form.get_by_role("button", name=text).click()
        form.get_by_role("link", name="started: see the run").wait_for()
        (run,) = (run for name, run in _runs(clients["ada"], dag_id).items() if name not in before)
        assert (
            form.get_by_role("link").get_attribute("href") == f"/dags/{dag_id}/runs/{quote(run['dag_run_id'], safe='')}"
        )
        assert (run["triggering_user_name"], run["run_type"], run["state"]) == ("olivia", "manual", "queued")
        assert (
            run["conf"].items()
            >= ({"cluster": "alpha", "rollback_of": digest} if text == "Roll back" else conf).items()
        )
        assert not run["conf"].get("approve")
        logged = clients["ada"].get("/api/v2/eventLogs", params={"dag_id": dag_id, "event": "trigger_dag_run"}).json()
        assert [each["owner"] for each in logged["event_logs"] if digest in each["extra"]] == ["olivia"]
    if "Go on" in possible:
        instance = f"/api/v2/dags/reassign_partitions/dagRuns/{RUN}/taskInstances/apply_plan"
        clients["ada"].patch(instance, json={"new_state": "failed"})
        page.get_by_role("form", name="Go on").get_by_role("button").press("Enter")
        page.get_by_role("link", name="cleared: see the task").wait_for()
        assert clients["ada"].get(instance).json()["state"] is None
    assert_well_made(looked, f"execution-{state.replace(' ', '-')}")


def test_a_cancel_takes_the_digest_that_its_first_run_printed(look, clients, dags_on):
    form = look(PAGES["execution"], user="olivia").page.get_by_role("form", name="Cancel the step")
    before = _runs(clients["ada"], "cancel_execution")
    form.get_by_label("Reason").fill("enough")
    form.get_by_label("Digest that the log of the first run printed").fill(f" {'c' * 64} ")
    form.get_by_role("button").click()
    form.get_by_role("link").wait_for()
    (run,) = (run for name, run in _runs(clients["ada"], "cancel_execution").items() if name not in before)
    assert run["conf"]["approve"] == "c" * 64


def test_what_airflow_refuses_is_said_beside_the_button_and_nothing_is_started(look, clients, dags_on):
    looked = look(PAGES["execution"], user="olivia")
    form, before = looked.page.get_by_role("form", name="Cancel the step"), _runs(clients["ada"], "cancel_execution")
    form.get_by_role("button").click()
    assert form.get_by_role("status").inner_text() == "", "a reason is missing: the browser asks for it"
    form.get_by_label("Reason").fill("enough")
    form.get_by_label("Digest that the log of the first run printed").fill("c1d2")
    form.get_by_role("button").click()
    form.get_by_text("not done: ").wait_for()
    assert "approve" in form.get_by_role("status").inner_text()
    assert form.get_by_role("button").is_enabled()
    assert _runs(clients["ada"], "cancel_execution") == before


def test_who_may_not_start_a_dag_reads_so_and_airflow_refuses_his_request_too(look, clients, dags_on):
    page = look(PAGES["execution"]).page
    assert page.locator(".launches form").count() == 0
    assert page.get_by_test_id("withheld").all_inner_texts() == [
        f"Your role may not start a run of {name}: ask who gives the rights of Airflow's DAGs." for name in dags_on
    ]
    asked = {"logical_date": None, "conf": {"cluster": "alpha", "plan": "a" * 64, "reason": "x"}}
    assert clients["victor"].post("/api/v2/dags/stop_execution/dagRuns", json=asked).status_code == 403


def test_a_dag_that_is_paused_or_not_there_is_told_before_somebody_relies_on_it(look, dags_on):
    from airflow.models.dag import DagModel
    from airflow.utils.session import create_session

    with create_session() as session:
        session.get(DagModel, "stop_execution").is_paused = True
        session.get(DagModel, "cancel_execution").is_stale = True
    told = look(PAGES["execution"], user="olivia").page.get_by_test_id("withheld").all_inner_texts()
    with create_session() as session:
        session.get(DagModel, "stop_execution").is_paused = False
        session.get(DagModel, "cancel_execution").is_stale = False
    assert [text.partition(":")[0] for text in told] == [
        "The DAG stop_execution is paused, and a run of it would wait",
        "Airflow has no DAG cancel_execution",
    ]


def test_another_site_cannot_act_in_the_name_of_who_is_signed_in(look, clients, dags_on):
    """Airflow's cookie is SameSite=Lax, as its login sets it: what a form of another site sends comes without it."""
    page = look(PAGES["execution"], user="olivia").page
    address = page.url.partition(PREFIX)[0]
    (cookie,) = page.context.cookies()
    page.context.add_cookies([{**cookie, "sameSite": "Lax", "httpOnly": True}])
    asked = {"logical_date": None, "conf": {"cluster": "alpha", "plan": "a" * 64, "reason": "x"}}
    to, before = f"{address}/api/v2/dags/stop_execution/dagRuns", _runs(clients["ada"], "stop_execution")
    form = f'<form method=post enctype=text/plain action="{to}"><input name=x><button>win a prize</button></form>'
    page.route("http://another.example/", lambda route: route.fulfill(body=form, content_type="text/html"))
    page.goto("http://another.example/")
    with page.expect_response(to) as answer:
        page.get_by_role("button").click()
    assert answer.value.status == 401
    assert _runs(clients["ada"], "stop_execution") == before
    assert page.context.request.post(to, data=asked).status == 200, "with the cookie it would have been done"


def test_rows_are_searched_filtered_and_sorted_by_keyboard(look):
    page = look("clusters").page
    assert "migrating to KRaft (P3)" in page.locator("#clusters tbody").inner_text()
    rows = page.locator("#clusters tbody tr:visible")
    assert rows.count() == 7
    assert rows.nth(0).locator("th").inner_text() == "alpha"
    page.locator("[data-column=Severity]").select_option("warning")
    assert rows.count() == 2
    page.locator("[data-column=Severity]").select_option("")
    page.get_by_label("Search").fill("gam")
    assert rows.all_inner_texts()[0].startswith("gamma")
    assert page.get_by_role("status").inner_text() == "1 of 7 rows"
    page.get_by_label("Search").fill("")
    page.get_by_role("button", name="Partitions").focus()
    page.keyboard.press("Enter")
    assert rows.nth(0).locator("th").inner_text() == "huge"
    assert page.locator("th[aria-sort=descending]").inner_text().startswith("Partitions")


def test_a_trend_is_chosen_by_keyboard_and_what_was_chosen_stays(look):
    page = look(PAGES["history"]).page
    page.locator("select[name=table]").select_option("failure_drill")
    page.get_by_role("button", name="Choose").press("Enter")
    page.locator("select[name=column]").select_option("offline_count")
    page.locator("select[name=how]").select_option("largest")
    page.get_by_role("button", name="Draw").press("Enter")
    page.get_by_text("Largest of offline_count in failure_drill").first.wait_for()
    with page.expect_download() as table:
        page.locator("[data-plot=trend]").wait_for()
        page.get_by_text("Table of Largest of offline_count").press("Enter")
        page.get_by_role("link", name="Download CSV of Largest of offline_count").click()
    assert table.value.path().read_text() == f"date,largest of offline_count in failure_drill\n{DAYS[-1]},2\n"
    page.get_by_role("button", name="Show").click()
    page.get_by_text("Largest of offline_count in failure_drill").first.wait_for()
    assert page.get_by_label("Topic or partition").input_value() == "orders"


def test_the_steps_of_a_run_book_stay_ticked(look):
    page = look(PAGES["kraft"]).page
    page.get_by_role("checkbox").first.check()
    page.reload()
    assert [box.is_checked() for box in page.get_by_role("checkbox").all()[:2]] == [True, False]
    page.get_by_role("checkbox").first.uncheck()
    page.reload()
    assert not page.get_by_role("checkbox").first.is_checked()


def test_a_table_and_a_figure_are_downloaded(look):
    page = look("cluster?name=alpha").page
    with page.expect_download() as table:
        page.get_by_role("link", name="Download CSV of Partitions, brokers").click()
    assert table.value.path().read_text().startswith("Kind,Severity,Since,Subject")
    with page.expect_download() as figure:
        page.get_by_role("button", name="Download SVG of Brokers by measure").click()
    assert figure.value.path().read_text().startswith("<svg")


def test_a_name_that_is_that_of_a_colour_stays_and_a_colour_becomes_one(look):
    page = look("cluster?name=alpha").page
    traces = '[{ y: ["--critical", "--rack"], marker: { color: ["--critical"] }, colorscale: [[0, "--hot"]] }]'
    (shown,) = page.evaluate(f"coloured({traces})")
    assert shown["y"] == ["--critical", "--rack"]
    assert not {shown["marker"]["color"][0][:2], shown["colorscale"][0][1][:2]} & {"", "--"}


def test_inside_airflow_a_page_follows_its_theme_and_its_links_leave_the_frame(look):
    looked = look("/plugin/kafka-approvals")
    frame = looked.page.frame_locator("iframe")
    frame.get_by_role("heading", name="Approvals").wait_for()
    frame.get_by_role("link", name="plan", exact=True).first.click()
    looked.page.screenshot(path=SCREENSHOTS / "inside-airflow.png")
    frame.get_by_role("heading", name="Reassign partitions").wait_for()
    frame.get_by_role("link", name="Required Actions").click()
    looked.page.wait_for_url("**/dags/reassign_partitions/runs/one/tasks/approve/required_actions")
