"""The folder of one local stack, and what was started in it: recorded, so that it can be stopped after a crash too.

Every process is recorded in `<folder>/processes.json` with its id and start time, so that another process never stops a
stranger that got the same id later. Whatever a child starts itself belongs to the child's session (`setsid`) or carries
`KAFKA_MAINTENANCE_WORKSPACE` in its environment; both ways it is found again.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import psutil

from kafka_maintenance.servers.cache import locked
from kafka_maintenance.servers.errors import LocalStackError, from_os_error
from kafka_maintenance.servers.own_folder import private_folder

WORKSPACE_VARIABLE = "KAFKA_MAINTENANCE_WORKSPACE"
POLL_INTERVAL_S = 0.05
# How long a process may take from its start to its environment, on a busy machine.
STARTING_S = 5.0
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")
# How old a workspace must be to count as left behind, where its owner cannot be asked for.
UNREADABLE_AGE_S = 60.0
ELSEWHERE_AGE_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """One started process, as `processes.json` holds it.

    `start_ticks` is the kernel's start time of the process, in clock ticks since boot (elsewhere than on Linux: in
    1/100 s since 1970); `stop_signal` is what ends it in an orderly way, sent to `pid` alone; `place` is where and how long
    both numbers are its own, empty in records of 0.1.
    """

    name: str
    pid: int
    start_ticks: int
    log: str
    stop_signal: int
    stop_timeout_s: float
    place: str = ""

    @property
    def is_of_here(self) -> bool:
        """Whether its numbers may be those of a process here: not after a boot, nor in another container."""
        return self.place in {"", here()}


class Workspace:
    """A folder with the data, the logs and the process records of one stack.

    As a context manager it stops on exit what still runs; a temporary one is deleted as well. A workspace that is not
    `detached` belongs to the process that made it: when that one is dead, `stop_orphans` ends what it left behind.
    """

    def __init__(self, folder: Path, *, detached: bool = False, temporary: bool = False) -> None:
        self.folder = folder.resolve()
        self.temporary = temporary
        self.logs = self.folder / "logs"
        self._records = self.folder / "processes.json"
        self._owner = self.folder / "owner.json"
        self._lock = threading.Lock()
        try:
            self.logs.mkdir(parents=True, exist_ok=True)
            if detached:
                self._owner.unlink(missing_ok=True)
            else:
                _write_json(self._owner, _this_process())
        except OSError as error:
            raise from_os_error(error, f"making the folder of a local stack at {self.folder}") from error

    @classmethod
    def create_temporary(cls) -> Workspace:
        """A new folder below the user's stack folder, deleted when the workspace is closed."""
        parent = private_folder(temporary_root())
        return cls(Path(tempfile.mkdtemp(prefix="w", dir=parent)), temporary=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Stop what still runs; a temporary folder is deleted. Closing twice does nothing."""
        if self.folder.exists():
            stop_workspace(self.folder)
            if self.temporary:
                shutil.rmtree(self.folder, ignore_errors=True)

    def subfolder(self, name: str) -> Path:
        """`<folder>/<name>`, made if absent."""
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def adopt_folder(self, folder: Path) -> None:
        """Have a folder outside of the workspace deleted with its processes."""
        with (self.folder / "adopted").open("a") as stream:
            stream.write(f"{folder}\n")

    def add(self, record: ProcessRecord) -> None:
        """Record a process that was just started."""
        with self._lock:
            write_records(self.folder, [*read_records(self.folder), record])

    def remove(self, record: ProcessRecord) -> None:
        """Forget a process that is known to have ended."""
        with self._lock:
            if self._records.exists():
                write_records(self.folder, [r for r in read_records(self.folder) if r != record])


def temporary_root() -> Path:
    """Where temporary workspaces of this user live; short, because a Unix socket's path has 107 bytes at most."""
    return Path(tempfile.gettempdir()).resolve() / f"kafka-maintenance-{os.getuid()}"


def read_records(folder: Path) -> list[ProcessRecord]:
    """The processes recorded in a workspace, in start order; empty when there is no record.

    Raises:
        LocalStackError: `processes.json` is not one of ours, or damaged.
    """
    path = folder / "processes.json"
    try:
        return [ProcessRecord(**row) for row in json.loads(path.read_text())]
    except (FileNotFoundError, NotADirectoryError):
        return []
    except (ValueError, TypeError, OSError) as error:
        raise LocalStackError(
            f"reading which processes a local stack has: expected records in {path}, found something else ({error});"
            " name the stack's own folder, or end its processes by hand and delete the file"
        ) from error


def write_records(folder: Path, records: Iterable[ProcessRecord]) -> None:
    """Replace the records of a workspace in one step."""
    try:
        _write_json(folder / "processes.json", [asdict(record) for record in records])
    except OSError as error:
        raise from_os_error(error, f"recording a started process in {folder}") from error


def running(record: ProcessRecord) -> bool:
    """Whether the recorded process itself (not a later one with its id) still runs."""
    return record.is_of_here and start_ticks(record.pid) == record.start_ticks and not _has_ended(record.pid)


def stop_workspace(folder: Path) -> list[str]:
    """Stop exactly what was started in a workspace, newest first, whoever started it.

    Returns:
        The names of the processes that were still running.
    """
    stopped: list[str] = []
    for record in reversed(read_records(folder)):
        if running(record):
            stopped.append(record.name)
            kin = family(record)
            _stop_process(record)
            kill_processes(kin)
        kill_processes(session_members(record))
    stop_marked(folder)
    _delete_adopted(folder)
    (folder / "processes.json").unlink(missing_ok=True)
    return stopped


def stop_marked(folder: Path) -> list[str]:
    """Kill what was started in a workspace and is recorded nowhere, or no longer; the names of the programs."""
    marked, names = _marked_processes(folder), []
    for process in marked:
        with contextlib.suppress(psutil.Error):
            names.append(process.name())
    kill_processes(marked)
    return names


def stop_orphans() -> list[Path]:
    """Stop and delete temporary workspaces whose owner is dead; the folders that were deleted.

    Several may be at it at the same time: one works, the others wait and find nothing left.
    """
    root = temporary_root()
    if not _is_own_folder(root):
        return []
    with locked(root / "orphans.lock"):
        orphans = [folder for folder in _workspaces(root) if not _owner_runs(folder)]
        for folder in orphans:
            try:
                stop_workspace(folder)
            except LocalStackError:  # its records cannot be read: what it started is marked
                stop_marked(folder)
            shutil.rmtree(folder, ignore_errors=True)
    return orphans


def start_ticks(pid: int) -> int:
    """Start time of a process in the kernel's ticks since boot; -1 when there is no such process.

    The wall clock may be set while a stack runs; ticks since boot do not move (elsewhere than on Linux: psutil's time).
    """
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except (FileNotFoundError, ProcessLookupError):
        if Path("/proc/self/stat").exists():
            return -1
    try:
        return int(psutil.Process(pid).create_time() * 100)
    except psutil.Error:
        return -1


def _ticks_now() -> float:
    """The time as `start_ticks` counts it."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return (time.time() if clock is None else time.clock_gettime(clock)) * _TICKS_PER_S


def here() -> str:
    """Where process ids and start times are valid now: on this machine until it boots again, in this container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        boot = ""
    return f"{boot} {_pid_namespace()}".strip()


def family(record: ProcessRecord) -> list[psutil.Process]:
    """What the recorded process has started, and what that has started."""
    with contextlib.suppress(psutil.Error):
        return psutil.Process(record.pid).children(recursive=True)
    return []


def session_members(record: ProcessRecord) -> list[psutil.Process]:
    """Processes of the session that the recorded process led; none when its id belongs to another process, or to another session, now."""
    if not record.is_of_here or start_ticks(record.pid) not in {-1, record.start_ticks}:
        return []
    members = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(process.pid) == record.pid and process.pid != os.getpid():
                members.append(process)
    return members


def kill_processes(processes: Sequence[psutil.Process]) -> None:
    """SIGKILL, and wait until they are gone."""
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
    _wait_ended((process.pid for process in processes), timeout_s=5)


def _delete_adopted(folder: Path) -> None:
    adopted = folder / "adopted"
    if adopted.exists():
        for line in adopted.read_text().splitlines():
            if Path(line).is_relative_to(temporary_root()):
                shutil.rmtree(line, ignore_errors=True)
        adopted.unlink()


def _stop_process(record: ProcessRecord) -> None:
    with contextlib.suppress(psutil.Error):
        process = psutil.Process(record.pid)
        process.resume()
        process.send_signal(record.stop_signal)
        _wait_ended([record.pid], timeout_s=record.stop_timeout_s)
        if running(record):
            kill_processes([process])


def _marked_processes(folder: Path) -> list[psutil.Process]:
    """Processes that carry the workspace in their environment: started, and not yet recorded when the parent died."""
    marked, mark = [], str(folder.resolve())
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if process.pid != os.getpid() and _environment(process).get(WORKSPACE_VARIABLE) == mark:
                marked.append(process)
    return marked


def _environment(process: psutil.Process) -> dict[str, str]:
    """The environment of a process; that of a young one is awaited, because Linux shows none while a program starts.

    Linux closes the files that `exec` closes before it writes the environment (`begin_new_exec`, then
    `create_elf_tables`), so even a parent that has waited for its child's start can find it without one.
    """
    while not (environment := process.environ()) and _may_be_starting(process.pid):
        time.sleep(POLL_INTERVAL_S)
    return environment


def _may_be_starting(pid: int) -> bool:
    """By `start_ticks`: the wall clock may be set meanwhile, and `process_iter` keeps the start of a former process of the same id."""
    return _ticks_now() - start_ticks(pid) < STARTING_S * _TICKS_PER_S and not _has_ended(pid)


def _wait_ended(pids: Iterable[int], *, timeout_s: float) -> None:
    """Wait until none runs; a zombie counts as ended, because its parent may never ask for it."""
    deadline = time.monotonic() + timeout_s
    for pid in pids:
        while not _has_ended(pid) and time.monotonic() < deadline:
            time.sleep(POLL_INTERVAL_S)


def _has_ended(pid: int) -> bool:
    """Whether the process has ended, asked for by its parent or not."""
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.Error:
        return True


def write_whole(path: Path, text: str) -> None:
    """Write a file in one step: who reads it meanwhile, or after a crash, finds a whole one."""
    scratch = path.with_name(f"{path.name}.{os.getpid()}.{threading.get_ident()}")
    scratch.write_text(text)
    scratch.replace(path)


def _write_json(path: Path, document: object) -> None:
    write_whole(path, json.dumps(document, indent=1))


def _is_own_folder(path: Path) -> bool:
    """Whether it is a folder of this user, and no other's link: below /tmp anybody can make one with our name."""
    return path.is_dir() and path.lstat().st_uid == os.getuid()


def _workspaces(root: Path) -> Iterator[Path]:
    yield from sorted(folder for folder in root.iterdir() if (folder / "owner.json").exists())


def _this_process() -> dict[str, int | str]:
    """What `owner.json` holds: enough to tell later whether this very process still runs."""
    return {"pid": os.getpid(), "start_ticks": start_ticks(os.getpid()), "pid_namespace": _pid_namespace()}


def _pid_namespace() -> str:
    """Where our process ids are valid: a container has ids of its own. Empty elsewhere than on Linux."""
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _owner_runs(folder: Path) -> bool:
    """Whether the process that made a workspace still runs; assumed of a young one that does not say who made it."""
    try:
        owner = json.loads((folder / "owner.json").read_text())
        pid, ticks, namespace = (
            int(owner["pid"]),
            int(owner["start_ticks"]),
            owner.get("pid_namespace", _pid_namespace()),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return _age_s(folder) < UNREADABLE_AGE_S
    if namespace != _pid_namespace():  # of another container with the same /tmp: its ids mean nothing here
        return _age_s(folder) < ELSEWHERE_AGE_S
    return start_ticks(pid) == ticks and not _has_ended(pid)


def _age_s(folder: Path) -> float:
    """Seconds since something was last made or deleted in a folder; 0 for one that is just gone."""
    try:
        return time.time() - folder.stat().st_mtime
    except OSError:
        return 0.0
