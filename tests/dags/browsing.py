"""Airflow's own API server on a port, with the pages in it, and a real Chromium that looks at them."""

import shutil
import threading
from contextlib import contextmanager

import pytest
import uvicorn

from kafka_maintenance.servers.ports import free_port
from kafka_maintenance.servers.process import wait_until
from tests.airflow_home import ROOT

PREFIX = "/kafka-maintenance"
SCREENSHOTS = ROOT / "build" / "screenshots"
PICTURES_TAKEN = SCREENSHOTS / "tutorial"
WINDOW = {"width": 1280, "height": 900}
PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
"""Of Chromium without windows, of Debian, of Ubuntu, of Google: the first that is there."""


@contextmanager
def served(app):
    """The address at which `app` answers."""
    port = free_port()
    server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=port, log_level="warning"))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    wait_until(lambda: server.started, what="the API server answers", timeout_s=60)
    yield f"http://127.0.0.1:{port}"
    server.should_exit = True
    thread.join(30)


@contextmanager
def chromium():
    """A browser; the test fails where none is installed."""
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, PROGRAMS)), None)
    if program is None:
        pytest.fail("no chromium on the PATH: sudo apt-get install -y --no-install-recommends chromium-headless-shell")
    with sync_playwright() as playwright:
        # Each page's scripts run once: to optimize them costs more than it brings. There is no graphics card, so drawing needs no process of its own.
        browser = playwright.chromium.launch(
            executable_path=program, args=["--no-sandbox", "--in-process-gpu", "--js-flags=--no-maglev --no-opt"]
        )
        yield browser
        browser.close()


def window(browser, address):
    """A window with nothing kept from before, as wide as a laptop's."""
    return browser.new_context(viewport=WINDOW, color_scheme="light", base_url=address)


BOTH_ALLOWED = (
    "An iframe which has both allow-scripts and allow-same-origin for its sandbox attribute can escape its sandboxing."
)
"""Chromium's remark on the sandbox of our policy: our scripts, which alone run (by nonce), read Airflow's theme from the page around."""


class Looked:
    """A page that was opened, with what its console said and what axe found.

    `context` is a window of the browser. Where pages share one, the browser compiles their scripts once.
    """

    def __init__(self, context, address, token):
        context.add_cookies([{"name": "_token", "value": token, "url": address}])
        self.page = context.new_page()
        self.page.set_default_timeout(30_000)
        self.answer = None
        self.said = []
        self.page.on("console", self._hear)
        self.page.on("pageerror", lambda error: self.said.append(str(error)))

    def resize(self, width, height=900):
        """Gives the window that size, and waits until its figures are no wider."""
        self.page.set_viewport_size({"width": width, "height": height})
        self.page.wait_for_function(
            "() => [...document.querySelectorAll('.main-svg')].every((p) => p.clientWidth <= innerWidth)"
        )

    def _hear(self, message):
        if message.type in {"error", "warning"} and message.text != BOTH_ALLOWED:
            self.said.append(message.text)

    def open(self, path):
        """Opens a page and waits until its figures are drawn."""
        answer = self.page.goto(path, wait_until="load")
        self.page.wait_for_function(
            "() => [...document.querySelectorAll('[data-plot]')].every((p) => p.querySelector('.main-svg'))"
        )
        return answer

    def violations(self):
        """What axe has against the page, a line each."""
        from axe_playwright_python.sync_playwright import Axe

        found = Axe().run(self.page).response["violations"]
        return [f"{each['id']}: {each['help']}: {node['html'][:200]}" for each in found for node in each["nodes"][:3]]

    def overflow(self):
        """By how many pixels the page is wider than the window."""
        return self.page.evaluate("document.documentElement.scrollWidth - window.innerWidth")

    def close(self):
        """Closes the page, and forgets what the browser kept for it."""
        if self.page.url.startswith("http"):  # a page that never came has no storage
            self.page.evaluate("localStorage.clear()")
        self.page.context.clear_cookies()
        self.page.close()
