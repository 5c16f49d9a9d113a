"""Children of the local stack: what is said when one cannot start or ends."""

import shutil
from types import SimpleNamespace

import pytest

from kafka_maintenance.servers.errors import (
    ChildDiedError,
    DiskFullError,
    LocalStackError,
    NotHealthyError,
    PortTakenError,
)
from kafka_maintenance.servers.process import start_child, wait_until
from tests.kafka_maintenance.servers.processes import PYTHON, SLEEPER


@pytest.mark.parametrize(
    ("script", "error", "told"),
    [
        pytest.param("print('boom'); raise SystemExit(3)", ChildDiedError, "boom", id="any death shows the log's tail"),
        pytest.param(
            "raise OSError('Address already in use')", PortTakenError, "port is taken", id="its port is taken"
        ),
        pytest.param("raise OSError('No space left on device')", DiskFullError, "disk is full", id="its disk is full"),
    ],
)
def test_a_dead_child_says_why(workspace, script, error, told):
    child = start_child(workspace, "broker", [PYTHON, "-c", script])
    with pytest.raises(error, match=told):
        wait_until(lambda: False, what="it answers", timeout_s=30, children=[child])


def test_a_child_that_never_becomes_healthy_is_named(workspace):
    child = start_child(workspace, "broker", SLEEPER)
    with pytest.raises(NotHealthyError, match=r"(?s)until broker 1 is registered.*broker\.log"):
        wait_until(lambda: False, what="broker 1 is registered", timeout_s=0, children=[child])
    child.kill()


def test_a_program_that_is_not_there_is_named(workspace):
    with pytest.raises(LocalStackError, match=r"starting broker .*/nowhere/java"):
        start_child(workspace, "broker", ["/nowhere/java"])


def test_a_full_disk_is_told_before_the_start(workspace, monkeypatch):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1 << 20))
    with pytest.raises(DiskFullError, match="expected 200 MB of free disk, found 1 MB"):
        start_child(workspace, "broker", SLEEPER)
