"""Pages are made a few at a time, and one that is late is told, whether it was begun or not."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from kafka_maintenance.web import in_time
from kafka_maintenance.web.in_time import LateError


@pytest.fixture
def hanging(monkeypatch):
    """What hangs until the test is over, in the two threads that pages have here."""
    gate = threading.Event()
    with ThreadPoolExecutor(2) as threads:
        monkeypatch.setattr(in_time, "_THREADS", threads)
        monkeypatch.setattr(in_time, "DEADLINE_S", 0.2)
        yield gate.wait
        gate.set()


def _answers(*makes):
    async def all_of_them():
        return await asyncio.gather(*map(in_time.in_time, makes), return_exceptions=True)

    return asyncio.run(all_of_them())


def test_what_is_made_in_time_comes_back_with_its_errors(hanging):
    made, failed, late = _answers(lambda: "page", lambda: 1 // 0, hanging)
    assert made == "page"
    assert isinstance(failed, ZeroDivisionError)
    assert "not ready within" in str(late)


def test_what_found_no_thread_is_not_begun_later(hanging):
    begun = []
    *late, waited = _answers(hanging, hanging, lambda: begun.append("too late"))
    assert [isinstance(each, LateError) for each in (*late, waited)] == [True, True, True]
    assert "not begun within" in str(waited)
    assert begun == []
