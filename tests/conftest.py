"""Options of every suite.

`--rewrite` accepts what scenarios and examples print now: read that diff like code. `--cpu` prints which files use the CPU.
`--failures` keeps what failed, for suites that run beside each other and whose outputs are mixed.
"""

import atexit
import gc
import os
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # before numpy: a second thread waits by spinning
gc.set_threshold(20_000)  # few objects of tests are cycles; this is a twentieth less CPU


def pytest_addoption(parser):
    parser.addoption("--rewrite", action="store_true", help="write the files of scenarios and examples anew")
    parser.addoption("--cpu", action="store_true", help="print the CPU seconds of each file, its processes included")
    parser.addoption("--failures", type=Path, metavar="FOLDER", help="write each failure into a file there, too")


def pytest_configure(config):
    if config.getoption("--cpu"):
        config.pluginmanager.register(CpuSeconds())
    if folder := config.getoption("--failures"):
        config.pluginmanager.register(KeptFailures(folder))


def pytest_unconfigure():
    gc.freeze()  # pytest would look through all that is left, twice: 2 s where Airflow was loaded
    atexit.register(gc.unfreeze)  # for what Python itself takes apart at its end


class KeptFailures:
    """Each failure of this run, as it happens, at the end of one file."""

    def __init__(self, folder):
        self.file = folder / f"{os.getpid()}.txt"

    def pytest_runtest_logreport(self, report):
        if not report.failed:
            return
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a", encoding="utf-8") as file:
            file.write(f"FAILED {report.nodeid}\n{report.longreprtext}\n\n")

    pytest_collectreport = pytest_runtest_logreport


class CpuSeconds:
    """CPU seconds of each file of tests: suites that run beside each other are bound by these, not by each one's time."""

    def __init__(self):
        self.by_file = Counter()
        self.before = _cpu_seconds()

    def pytest_collection_finish(self):
        self._count("collecting the tests")

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item, nextitem):
        done = yield
        if nextitem is None or nextitem.path != item.path:
            self._count(item.nodeid.partition("::")[0])
        return done

    def _count(self, file):
        now = _cpu_seconds()
        self.by_file[file] += now - self.before
        self.before = now

    def pytest_terminal_summary(self, terminalreporter):
        terminalreporter.section(f"CPU seconds of the 25 dearest files, of {self.by_file.total():.0f}")
        for file, seconds in self.by_file.most_common(25):
            terminalreporter.write_line(f"{seconds:8.1f}  {file}")


def _cpu_seconds():
    """Of this process, of those that it started, and of the ended ones among them that somebody waited for."""
    own = psutil.Process()
    total = 0.0
    for process in (own, *own.children(recursive=True)):
        with suppress(psutil.NoSuchProcess):
            total += sum(process.cpu_times()[:4])
    return total
