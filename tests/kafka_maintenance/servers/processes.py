"""A process with children and grandchildren."""

import subprocess
import sys
import textwrap
from pathlib import Path

import psutil

from kafka_maintenance.demo import stack

PYTHON = sys.executable
SLEEPER = [
    "sleep",
    "600",
]  # Python would end at its start where its folder is deleted and PYTHONPATH has a relative path


def parent_of_two(folder: Path) -> subprocess.Popen[str]:
    """A process that starts a child, which starts a grandchild, and prints both ids."""
    grandchild = f"import subprocess, sys; p = subprocess.Popen({SLEEPER!r}); print(p.pid, flush=True); p.wait()"
    script = f"""
        import sys
        from pathlib import Path
        from kafka_maintenance.servers.process import start_child, wait_until
        from kafka_maintenance.servers.workspace import Workspace
        workspace = Workspace(Path({str(folder)!r}))
        child = start_child(workspace, "child", [sys.executable, "-c", {grandchild!r}])
        wait_until(lambda: child.log.read_text().strip() != "", what="grandchild", timeout_s=30)
        print(child.pid, child.log.read_text().strip(), flush=True)
        import time; time.sleep(600)
    """
    return subprocess.Popen([PYTHON, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE, text=True)


def ids_printed_by(parent: subprocess.Popen[str]) -> list[int]:
    assert parent.stdout is not None
    return [int(word) for word in parent.stdout.readline().split()]


def ended(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def marked(folder: Path) -> Path:
    """The folder of a stack that `up` started."""
    folder.mkdir()
    (folder / stack.MARK).touch()
    return folder
