"""Children of the local stack: what is said when one cannot start, and that none is left behind."""

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import textwrap
import threading
import time
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.model.errors import ObjectMissingError
from kafka_maintenance.cli.main import main
from kafka_maintenance.demo import stack
from kafka_maintenance.operations.restore.drill import restore_drill
from kafka_maintenance.servers import ports
from kafka_maintenance.servers import workspace as workspaces
from kafka_maintenance.servers.errors import (
    ChildDiedError,
    DiskFullError,
    ForeignFolderError,
    JavaMissingError,
    LocalStackError,
    NotHealthyError,
    PortTakenError,
)
from kafka_maintenance.servers.java import find_java, major_version
from kafka_maintenance.servers.ports import bypass_proxy, check_port, free_ports
from kafka_maintenance.servers.process import start_child, wait_until
from kafka_maintenance.servers.workspace import WORKSPACE_VARIABLE, Workspace

PYTHON = sys.executable
SLEEPER = [PYTHON, "-c", "import time; time.sleep(600)"]


@pytest.fixture
def workspace(tmp_path):
    with Workspace(tmp_path / "stack") as found:
        yield found


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


def marked(folder: Path) -> Path:
    """The folder of a stack that `up` started."""
    folder.mkdir()
    (folder / stack.MARK).touch()
    return folder


class StartedStack:
    """Stands for a stack whose parts all started."""

    def __init__(self, settings, *, workspace, say):
        self.folder = workspace.folder

    def start(self):
        (self.folder / "stack.json").write_text("{}")

    def addresses(self):
        return {"folder": str(self.folder)}


def ended(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


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


def test_a_taken_port_names_its_listener():
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        with pytest.raises(PortTakenError, match=f"starting ZooKeeper on 127.0.0.1:{port}.*pid {os.getpid()}"):
            check_port(port, "ZooKeeper")


def test_free_ports_are_given_out_once():
    assert len({port for _ in range(5) for port in free_ports(4)}) == 20


def test_another_process_is_not_given_a_port_that_waits_for_its_server():
    taken, other = free_ports(2)
    ask = "import sys; from kafka_maintenance.servers import ports; port = int(sys.argv[1]); ports.PORTS = range(port, port + 1); print(ports.free_port())"

    def asked(port):
        command = [sys.executable, "-c", ask, str(port)]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    assert "PortTakenError: looking for 1 free ports" in asked(taken).stderr
    ports._PORTS_GIVEN.pop(other).close()
    assert asked(other).stdout == f"{other}\n"


@pytest.mark.parametrize(
    ("given", "lower", "upper"),
    [
        pytest.param({}, "127.0.0.1,localhost", "127.0.0.1,localhost", id="nothing is excepted yet"),
        pytest.param(
            {"no_proxy": "a.example", "NO_PROXY": "b.example"},
            "a.example,127.0.0.1,localhost",
            "b.example,127.0.0.1,localhost",
            id="what is there stays",
        ),
        pytest.param(
            {"NO_PROXY": "b.example, localhost"},
            "b.example,localhost,127.0.0.1",
            "b.example,localhost,127.0.0.1",
            id="a new no_proxy does not hide the NO_PROXY that is there",
        ),
        pytest.param({"no_proxy": "*"}, "*", "*", id="everything is excepted"),
    ],
)
def test_no_proxy_stands_before_loopback(given, lower, upper):
    for _ in range(2):
        bypass_proxy(given)
        assert given == {"no_proxy": lower, "NO_PROXY": upper}


@pytest.mark.parametrize(
    ("text", "version"),
    [
        pytest.param('openjdk version "17.0.15" 2025-04-15', 17, id="today's form"),
        pytest.param('java version "1.8.0_402"', 8, id="the form before Java 9"),
        pytest.param('openjdk version "25" 2025-09-16', 25, id="no minor version"),
        pytest.param("segmentation fault", None, id="no version at all"),
    ],
)
def test_java_version(text, version):
    assert major_version(text) == version


def fake_java(folder: Path, script: str) -> str:
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(folder)


def test_no_java_says_what_to_install(tmp_path):
    with pytest.raises(JavaMissingError, match=r"apt-get install openjdk-17-jre-headless.*dnf install.*brew install"):
        find_java({"PATH": str(tmp_path)})


def test_an_old_java_is_refused(tmp_path):
    home = fake_java(tmp_path, "echo 'openjdk version \"11.0.2\"' >&2")
    with pytest.raises(JavaMissingError, match=r"JAVA_HOME=.*found Java 11 .*apt-get install"):
        find_java({"JAVA_HOME": home, "PATH": ""})


def test_a_broken_java_is_refused(tmp_path):
    home = fake_java(tmp_path, "echo 'cannot load libjvm' >&2; exit 1")
    with pytest.raises(JavaMissingError, match=r"expected a version, found status 1 .*cannot load libjvm"):
        find_java({"JAVA_HOME": home, "PATH": ""})


def test_closing_a_workspace_ends_children_and_grandchildren(tmp_path):
    marked(tmp_path / "stack")
    parent = parent_of_two(tmp_path / "stack")
    child, grandchild = ids_printed_by(parent)
    parent.send_signal(signal.SIGTERM)
    parent.wait()
    assert not ended(child)
    assert stack.down(tmp_path / "stack") == ["child"]
    assert (ended(child), ended(grandchild), (tmp_path / "stack").exists()) == (True, True, False)


def test_down_finds_everything_after_kill_9_of_the_parent(tmp_path):
    parent = parent_of_two(tmp_path / "stack")
    child, grandchild = ids_printed_by(parent)
    parent.kill()
    parent.wait()
    assert stack.status(tmp_path / "stack")["state"] == "up"
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


def test_a_stranger_with_the_same_process_id_is_left_alone(workspace):
    stranger = subprocess.Popen(SLEEPER)
    record = workspaces.ProcessRecord(
        name="broker",
        pid=stranger.pid,
        start_ticks=workspaces.start_ticks(stranger.pid) - 1,
        log="x",
        stop_signal=signal.SIGTERM,
        stop_timeout_s=1,
    )
    workspace.add(record)
    assert workspaces.stop_workspace(workspace.folder) == []
    assert stranger.poll() is None
    stranger.kill()
    stranger.wait()


def test_orphaned_temporary_workspaces_are_ended_and_deleted(tmp_path, monkeypatch):
    monkeypatch.setattr(workspaces, "temporary_root", lambda: tmp_path)
    parent = parent_of_two(tmp_path / "w1")
    child, _ = ids_printed_by(parent)
    assert workspaces.stop_orphans() == []
    parent.kill()
    parent.wait()
    assert workspaces.stop_orphans() == [tmp_path / "w1"]
    assert (ended(child), (tmp_path / "w1").exists()) == (True, False)


def old(folder: Path, age_s: float) -> None:
    os.utime(folder, (time.time() - age_s,) * 2)


def left_behind(folder: Path, owner: str) -> Path:
    """A workspace with this `owner.json`, as if made long ago."""
    Workspace(folder)
    (folder / "owner.json").write_text(owner)
    return folder


@pytest.mark.parametrize(
    ("owner", "age_s", "orphaned"),
    [
        pytest.param('{"pid": ', 5, False, id="half an owner, just written"),
        pytest.param('{"pid": ', 90, True, id="half an owner, and nobody writes the rest"),
        pytest.param("[]", 90, True, id="no owner"),
        pytest.param('{"pid": 1, "start_ticks": -2}', 5, True, id="a dead owner"),
        pytest.param('{"pid": 1, "start_ticks": -2, "pid_namespace": "x"}', 3600, False, id="of another container"),
        pytest.param('{"pid": 1, "start_ticks": -2, "pid_namespace": "x"}', 90_000, True, id="of one that is gone"),
    ],
)
def test_whose_owner_counts_as_dead(tmp_path, monkeypatch, owner, age_s, orphaned):
    monkeypatch.setattr(workspaces, "temporary_root", lambda: tmp_path)
    folder = left_behind(tmp_path / "w1", owner)
    old(folder, age_s)
    assert (workspaces.stop_orphans(), folder.exists()) == ([folder] if orphaned else [], not orphaned)


def test_an_owner_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    def half(self, text):
        with self.open("w") as stream:
            stream.write(text[:9])
        raise OSError("killed here")

    monkeypatch.setattr(Path, "write_text", half)
    with pytest.raises(LocalStackError, match="killed here"):
        Workspace(tmp_path / "w1")
    assert not (tmp_path / "w1" / "owner.json").exists()


def test_without_temporary_workspaces_nothing_is_made_or_ended(tmp_path, monkeypatch):
    monkeypatch.setattr(workspaces, "temporary_root", lambda: tmp_path / "none")
    assert workspaces.stop_orphans() == []
    assert list(tmp_path.iterdir()) == []


def test_the_temporary_workspaces_of_somebody_else_are_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(workspaces, "temporary_root", lambda: tmp_path)
    folder = left_behind(tmp_path / "w1", '{"pid": 1, "start_ticks": -2}')
    monkeypatch.setattr(os, "getuid", lambda: 12_345)
    assert (workspaces.stop_orphans(), folder.exists()) == ([], True)


def test_of_several_at_once_one_ends_the_orphans(tmp_path, monkeypatch):
    monkeypatch.setattr(workspaces, "temporary_root", lambda: tmp_path)
    left_behind(tmp_path / "w1", '{"pid": 1, "start_ticks": -2}')
    stopped, asked, locked = [], threading.Semaphore(0), workspaces.locked

    def locked_and_counted(path):
        asked.release()
        return locked(path)

    def stop_when_all_have_asked(folder):
        stopped.append(folder)
        assert [asked.acquire(timeout=30) for _ in drills] == [True] * len(drills)

    monkeypatch.setattr(workspaces, "locked", locked_and_counted)
    monkeypatch.setattr(workspaces, "stop_workspace", stop_when_all_have_asked)
    drills = [threading.Thread(target=workspaces.stop_orphans) for _ in range(4)]
    for drill in drills:
        drill.start()
    for drill in drills:
        drill.join()
    assert stopped == [tmp_path / "w1"]


def test_a_restore_drill_ends_what_a_killed_one_left(tmp_path, monkeypatch):
    monkeypatch.setattr(workspaces, "temporary_root", lambda: tmp_path)
    parent = parent_of_two(tmp_path / "w1")
    child, grandchild = ids_printed_by(parent)
    parent.kill()
    parent.wait()
    with pytest.raises(ObjectMissingError):
        restore_drill(store=MemoryStore("empty"), cluster="alpha", now=datetime(2026, 11, 20, tzinfo=UTC))
    assert (ended(child), ended(grandchild), (tmp_path / "w1").exists()) == (True, True, False)


def test_status_tells_a_dead_process(workspace):
    children = [start_child(workspace, name, SLEEPER) for name in ("zookeeper", "s3")]
    os.kill(children[0].pid, signal.SIGKILL)
    wait_until(lambda: not children[0].is_alive, what="it is dead", timeout_s=10)
    found = stack.status(workspace.folder)
    assert (found["state"], found["processes"]) == ("damaged", {"zookeeper": None, "s3": children[1].pid})


def test_a_stack_is_not_started_twice(workspace):
    start_child(workspace, "zookeeper", SLEEPER)
    with pytest.raises(LocalStackError, match=r"found 1 running processes \(zookeeper\).*stack down"):
        stack.up(workspace.folder)


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

    monkeypatch.setattr(workspaces, "STARTING_S", 10)
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


def test_a_workspace_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(LocalStackError, match="making the folder of a local stack"):
        Workspace(tmp_path / "file" / "stack")


def test_records_are_readable_by_a_person(workspace):
    child = start_child(workspace, "zookeeper", SLEEPER)
    (record,) = json.loads((workspace.folder / "processes.json").read_text())
    assert (record["name"], record["pid"], record["start_ticks"]) == (
        "zookeeper",
        child.pid,
        workspaces.start_ticks(child.pid),
    )
    child.stop()
    assert not child.is_alive
