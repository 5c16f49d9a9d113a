"""A real spark-submit whose submitter is killed: neither JVM nor program goes on, not even with the JVM frozen."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from kafka_maintenance.servers.process import wait_until
from kafka_maintenance.spark.submit import QUICK_JAVA, recorded_classes, spark_submit_path

JOB = """
import os, signal, sys
from pathlib import Path
from spark_jobs.io.submitter import end_with_submitter
end_with_submitter()
Path(sys.argv[1]).write_text(f"{os.getppid()} {os.getpid()}")
signal.pause()
"""
TASK = "import subprocess, sys; subprocess.run(sys.argv[1:])"


def is_there(process):
    """Whether it runs: one that waits to be collected does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except FileNotFoundError:
        return False


@pytest.mark.spark
@pytest.mark.parametrize("frozen", [False, True], ids=["JVM runs", "JVM frozen"])
def test_a_job_ends_with_the_task_that_submitted_it(tmp_path, frozen):
    (tmp_path / "job.py").write_text(JOB)
    told = tmp_path / "processes"
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(sys.path),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_SUBMIT_OPTS": f"{QUICK_JAVA} {recorded_classes()}",
    }
    command = [spark_submit_path(), "--master", "local[1]", str(tmp_path / "job.py"), str(told)]
    with subprocess.Popen([sys.executable, "-c", TASK, *command], env=environment, stderr=subprocess.DEVNULL) as task:
        wait_until(lambda: told.is_file() and " " in told.read_text(), what="the job runs", timeout_s=120)
        jvm, program = map(int, told.read_text().split())
        if frozen:
            os.kill(jvm, signal.SIGSTOP)
        task.kill()
    wait_until(lambda: not is_there(jvm) and not is_there(program), what="nothing of it runs", timeout_s=60)
