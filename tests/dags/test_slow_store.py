"""Pages of a store that hangs: they say so, and Airflow's API answers meanwhile."""

import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from kafka_maintenance import hooks
from kafka_maintenance.web import in_time
from tests.dags.browsing import PREFIX

AIRFLOWS_THREADS = 40
PAGES = ("report?dag_id=nightly_analysis&run_id=x", "executions", "clusters", "kraft?cluster=alpha")


@pytest.fixture
def hanging_store(world, monkeypatch):
    """A store that does not answer before the test is over."""
    gate = threading.Event()

    def store():
        gate.wait()
        raise AssertionError("the test is over")

    monkeypatch.setattr(hooks, "store", store)
    monkeypatch.setattr("kafka_maintenance.web.airflow_records._returned", lambda *_, **__: iter([{"report_html": ""}]))
    monkeypatch.setattr(in_time, "DEADLINE_S", 3)
    with ThreadPoolExecutor(in_time.AT_ONCE_MAX) as threads:
        monkeypatch.setattr(in_time, "_THREADS", threads)
        yield
        gate.set()


def test_a_store_that_hangs_leaves_airflow_its_threads_and_each_page_says_so(clients, api_address, hanging_store):
    sent = {"Authorization": clients["victor"].headers["Authorization"]}

    def get(path):
        return httpx.get(f"{api_address}{path}", headers=sent, timeout=30)

    with ThreadPoolExecutor(AIRFLOWS_THREADS) as readers:
        asked = [readers.submit(get, f"{PREFIX}/{PAGES[at % len(PAGES)]}") for at in range(AIRFLOWS_THREADS)]
        while sum(each.running() for each in asked) < AIRFLOWS_THREADS:
            threading.Event().wait(0.01)
        assert get("/api/v2/dags?limit=1").status_code == 200
        assert "Nothing waits for a person." in get(f"{PREFIX}/approvals").text
        answers = [each.result() for each in asked]
    assert {answer.status_code for answer in answers} == {504}
    said = [answer.text for answer in answers]
    assert all(
        "This page is not ready within 3 s" in text or "This page is not begun within 3 s" in text for text in said
    )
