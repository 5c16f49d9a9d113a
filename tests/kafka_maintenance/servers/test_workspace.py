"""A workspace ends its processes, and those of workspaces whose owner is dead."""

import json
import os
import signal
import subprocess
import threading
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller_core.adapters.object_store.open import MemoryStore
from controller_core.model.errors import ObjectMissingError
from kafka_maintenance.demo import stack
from kafka_maintenance.operations.restore.drill import restore_drill
from kafka_maintenance.servers import workspace as workspaces
from kafka_maintenance.servers.errors import LocalStackError
from kafka_maintenance.servers.process import start_child, wait_until
from kafka_maintenance.servers.workspace import Workspace
from tests.kafka_maintenance.servers.processes import SLEEPER, ended, ids_printed_by, marked, parent_of_two


def test_closing_a_workspace_ends_children_and_grandchildren(tmp_path):
    marked(tmp_path / "stack")
    parent = parent_of_two(tmp_path / "stack")
    child, grandchild = ids_printed_by(parent)
    parent.send_signal(signal.SIGTERM)
    parent.wait()
    assert not ended(child)
    assert stack.down(tmp_path / "stack") == ["child"]
    assert (ended(child), ended(grandchild), (tmp_path / "stack").exists()) == (True, True, False)


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


@pytest.mark.parametrize("place", [None, "another boot"])
def test_a_session_is_ended_where_its_leader_was_recorded_and_nowhere_else(workspace, place):
    """A daemon leaves the session of a process that has ended; after a boot its number may be that of a recorded one."""
    leader = subprocess.Popen(
        ["/bin/sh", "-c", "sleep 600 </dev/null >/dev/null 2>&1 & echo $!"],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    daemon = int(leader.communicate()[0])
    workspace.add(workspaces.ProcessRecord("broker", leader.pid, 1, "x", signal.SIGTERM, 1, place or workspaces.here()))
    assert workspaces.stop_workspace(workspace.folder) == []
    assert ended(daemon) is (place is None)
    if not ended(daemon):
        os.kill(daemon, signal.SIGKILL)


def test_orphaned_temporary_workspaces_are_ended_and_deleted(tmp_path, monkeypatch):
    monkeypatch.setattr(workspaces, "temporary_root", lambda: tmp_path)
    parent = parent_of_two(tmp_path / "w1")
    child, _ = ids_printed_by(parent)
    assert workspaces.stop_orphans() == []
    parent.kill()
    parent.wait()
    assert workspaces.stop_orphans() == [tmp_path / "w1"]
    assert (ended(child), (tmp_path / "w1").exists()) == (True, False)


def test_an_orphan_whose_records_cannot_be_read_is_ended_by_its_mark(tmp_path, monkeypatch):
    monkeypatch.setattr(workspaces, "temporary_root", lambda: tmp_path)
    parent = parent_of_two(tmp_path / "w1")
    child, _ = ids_printed_by(parent)
    parent.kill()
    parent.wait()
    (tmp_path / "w1" / "processes.json").write_text("[{")
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
