"""`stack up` and `stack down`: nothing of a stack is left behind, and nothing of somebody else is touched."""

import contextlib
import errno
import os
import shutil
import signal
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest

from kafka_maintenance.cli.main import main
from kafka_maintenance.demo import stack
from kafka_maintenance.servers.errors import ForeignFolderError, LocalStackError, StackRunningError
from kafka_maintenance.servers.process import start_child, wait_until
from kafka_maintenance.servers.workspace import WORKSPACE_VARIABLE
from tests.kafka_maintenance.servers.processes import SLEEPER, ended, ids_printed_by, marked, parent_of_two


class SlowStack:
    """Stands for a stack that takes a moment to start its part."""

    def __init__(self, settings, *, workspace, say):
        self.workspace = workspace

    def start(self):
        time.sleep(0.5)
        start_child(self.workspace, "zookeeper", SLEEPER)

    def addresses(self):
        return {}


class StartedStack:
    """Stands for a stack whose parts all started."""

    def __init__(self, settings, *, workspace, say):
        self.folder = workspace.folder

    def start(self):
        (self.folder / "stack.json").write_text("{}")

    def addresses(self):
        return {"folder": str(self.folder)}


def test_down_finds_everything_after_kill_9_of_the_parent(tmp_path):
    parent = parent_of_two(tmp_path / "stack")
    child, grandchild = ids_printed_by(parent)
    parent.kill()
    parent.wait()
    assert stack.status(tmp_path / "stack")["state"] == "incomplete"
    stack.down(tmp_path / "stack")
    assert (ended(child), ended(grandchild)) == (True, True)
    assert stack.status(tmp_path / "stack")["state"] == "down"


def test_a_grandchild_is_found_when_the_child_died_first(tmp_path):
    parent = parent_of_two(tmp_path / "stack")
    child, grandchild = ids_printed_by(parent)
    parent.kill()
    parent.wait()
    os.kill(child, signal.SIGKILL)
    stack.down(tmp_path / "stack")
    assert ended(grandchild)


def test_a_stack_is_not_started_twice(workspace):
    start_child(workspace, "zookeeper", SLEEPER)
    with pytest.raises(LocalStackError, match=r"found 1 running processes \(zookeeper\).*stack down"):
        stack.up(workspace.folder)


def test_of_two_that_start_it_at_once_one_does_and_the_other_finds_it(tmp_path, monkeypatch):
    monkeypatch.setattr(stack, "LocalStack", SlowStack)
    with ThreadPoolExecutor(2) as pool:
        raised = [each.exception() for each in [pool.submit(stack.up, tmp_path / "stack") for _ in range(2)]]
    assert sorted(map(type, raised), key=str) == [type(None), StackRunningError]
    assert stack.down(tmp_path / "stack") == ["zookeeper"]


def test_down_ends_a_stack_that_is_being_started(tmp_path, monkeypatch):
    monkeypatch.setattr(stack, "LocalStack", SlowStack)
    with ThreadPoolExecutor(1) as pool:
        started = pool.submit(stack.up, tmp_path / "stack")
        wait_until((tmp_path / "stack" / "logs").exists, what="it is being started", timeout_s=10)
        assert stack.down(tmp_path / "stack") == ["zookeeper"]
        assert started.exception() is None
    assert list(tmp_path.iterdir()) == []


def test_down_ends_what_runs_without_its_folder(workspace):
    child = start_child(workspace, "zookeeper", SLEEPER)
    wait_until(psutil.Process(child.pid).environ, what="its environment is there", timeout_s=10)
    shutil.rmtree(workspace.folder)
    assert (len(stack.down(workspace.folder)), child.exit_status) == (1, -signal.SIGKILL)


@pytest.mark.parametrize("command", [stack.up, stack.down])
def test_a_folder_that_is_not_emptied_stays_a_stacks(tmp_path, monkeypatch, command):
    """Else neither command would touch it again."""
    monkeypatch.setattr(stack, "LocalStack", StartedStack)
    folder = marked(tmp_path / "stack")
    (folder / "s3").mkdir()
    rmdir = os.rmdir

    def rmdir_of_all_but_one(path, **options):
        if Path(path).name == "s3":
            raise OSError(errno.EBUSY, "busy", path)
        rmdir(path, **options)

    monkeypatch.setattr(os, "rmdir", rmdir_of_all_but_one)
    monkeypatch.setattr(Path, "iterdir", lambda folder: iter(sorted(folder.glob("*"))))
    with contextlib.suppress(LocalStackError):
        command(folder)
    assert {path.name for path in folder.iterdir()} == {stack.MARK, "s3"}
    monkeypatch.setattr(os, "rmdir", rmdir)
    stack.down(folder)
    assert list(tmp_path.iterdir()) == []


def test_up_and_down_come_and_go_with_their_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(stack, "LocalStack", StartedStack)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "stack").mkdir()
    assert stack.up(Path("stack")) == {"folder": str(tmp_path / "stack")}
    (tmp_path / "stack" / "data of an earlier one").touch()
    stack.up(Path("stack"))
    assert not (tmp_path / "stack" / "data of an earlier one").exists()
    stack.down(Path("stack"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("below", [(), ("sub",), ("sub", "sub")])
def test_a_file_is_named_that_is_where_the_folder_of_a_stack_should_be(tmp_path, below):
    file = tmp_path / "a-file"
    file.touch()
    with pytest.raises(
        ForeignFolderError, match=rf"expected a folder, found that {file} is a file; name another folder"
    ):
        stack.up(file.joinpath(*below), stack.StackSettings(airflow=False))
    assert file.read_text() == ""


@pytest.mark.parametrize("logs", [pytest.param("logs", id="also one with logs"), pytest.param("photos", id="any")])
def test_a_folder_of_somebody_else_keeps_its_files(tmp_path, monkeypatch, logs):
    monkeypatch.setattr(stack, "LocalStack", StartedStack)
    files = [tmp_path / logs, tmp_path / logs / "theirs", tmp_path / "adopted"]
    files[0].mkdir()
    for file in files[1:]:
        file.touch()
    with pytest.raises(ForeignFolderError, match=r"expected an empty folder .*\.kafka-maintenance-stack.* found files"):
        stack.up(tmp_path)
    assert stack.down(tmp_path) == []
    assert sorted(tmp_path.rglob("*")) == sorted(files)


def test_a_name_that_airflow_reads_otherwise_is_bad_input(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(stack, "LocalStack", StartedStack)
    folder = tmp_path / "of $USER"
    assert main(["stack", "up", "--folder", str(folder)]) == 2
    assert "expected a path without the character $" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
    assert main(["stack", "up", "--no-airflow", "--folder", str(folder)]) == 0


def test_a_folder_of_somebody_else_is_bad_input(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(stack, "LocalStack", StartedStack)
    (tmp_path / "theirs").touch()
    assert main(["stack", "up", "--folder", str(tmp_path)]) == 2
    assert "name another folder" in capsys.readouterr().err


def test_records_of_somebody_else_are_told(tmp_path):
    (tmp_path / "processes.json").write_text('[{"name": "theirs"}]')
    with pytest.raises(LocalStackError, match=r"expected records in .*processes\.json, found something else"):
        stack.down(tmp_path)
    assert (tmp_path / "processes.json").exists()


def test_down_by_a_relative_path_finds_what_was_not_yet_recorded(tmp_path, monkeypatch):
    folder = marked(tmp_path / "stack")
    child = subprocess.Popen(SLEEPER, env={**os.environ, WORKSPACE_VARIABLE: str(folder)})
    monkeypatch.chdir(tmp_path)
    stack.down(Path("stack"))
    assert child.wait(timeout=10) == -signal.SIGKILL


def test_down_finds_a_process_whose_environment_is_not_yet_there(tmp_path, monkeypatch):
    folder = marked(tmp_path / "stack")
    child = subprocess.Popen(SLEEPER, env={**os.environ, WORKSPACE_VARIABLE: str(folder)})
    environ, looks = psutil.Process.environ, []

    def environ_at_the_second_look(process):
        looks.append(process.pid)
        return {} if looks.count(child.pid) == 1 and process.pid == child.pid else environ(process)

    an_hour_later = time.time() + 3600  # the wall clock may be set
    monkeypatch.setattr(time, "time", lambda: an_hour_later)
    monkeypatch.setattr(psutil.Process, "environ", environ_at_the_second_look)
    stack.down(folder)
    assert child.wait(timeout=10) == -signal.SIGKILL


def test_without_the_dags_no_airflow_is_started(tmp_path, monkeypatch):
    monkeypatch.setattr(stack, "LocalStack", StartedStack)
    monkeypatch.setattr(stack, "REPOSITORY", tmp_path / "lib")
    with pytest.raises(LocalStackError, match=r"expected a checkout .*/lib, found no folder dags .*installed package"):
        stack.up(tmp_path / "stack")
    assert list(tmp_path.iterdir()) == []
    stack.up(tmp_path / "stack", stack.StackSettings(airflow=False))
