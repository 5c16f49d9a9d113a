"""The Spark job of the first try of a run of `nightly_analysis`, as its processes: to be frozen, and to go on."""

import os
import sys
from contextlib import suppress
from pathlib import Path

import psutil

from kafka_maintenance.spark.submit import spark_submit_path
from spark_jobs.io.delivery import DELIVERED

DETACHED = """\
#!{python}
import os, sys
os.setsid()
os.execv({submit!r}, [{submit!r}, *sys.argv[1:]])
"""


def detached_submit(folder):
    """A PATH whose spark-submit begins a session of its own, as on a machine that stands still as a whole.

    In the session of its task a frozen JVM does not outlive that: the kernel sends SIGHUP to a stopped process group that it orphans.
    """
    script = folder / "spark-submit"
    script.write_text(DETACHED.format(python=sys.executable, submit=spark_submit_path()))
    script.chmod(0o700)
    return os.pathsep.join([str(folder), str(Path(sys.executable).parent), os.environ["PATH"]])


class SparkJob:
    """Its JVM, its program and what they started; none before `has_results`."""

    def __init__(self, run_id):
        self.run_id, self.jvm, self.processes, self._output = run_id, None, [], None

    def has_results(self):
        """Whether a table lies in its output: it is in the midst of its work."""
        for process in psutil.process_iter(["name", "cmdline"]):
            words = process.info["cmdline"] or []
            if process.info["name"] == "java" and f"nightly_analysis.{self.run_id}" in words:
                self.jvm, self._output = process, Path(words[words.index("--output") + 1])
        return self._output is not None and any(self._output.glob("*/*.parquet"))

    def freeze(self):
        """SIGSTOP for all of it."""
        self.jvm.suspend()
        self.processes = [self.jvm, *self.jvm.children(recursive=True)]
        for process in self.processes:
            process.suspend()

    def thaw(self):
        """SIGCONT for what is left of it."""
        for process in self.runs():
            with suppress(psutil.NoSuchProcess):
                process.resume()

    def kill(self):
        """SIGKILL for what is left of it."""
        for process in self.runs():
            with suppress(psutil.NoSuchProcess):
                process.kill()

    def runs(self):
        """Which of its processes are there; one that waits to be collected is not."""
        return [each for each in self.processes if each.is_running() and each.status() != psutil.STATUS_ZOMBIE]

    def has_delivered(self):
        """Whether it has ended its work."""
        return (self._output / DELIVERED).exists()
