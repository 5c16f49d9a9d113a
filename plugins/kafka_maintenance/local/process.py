"""Children of the local stack: started with a log file, awaited, stopped; also after a crash of their parent.

Everything that one stack starts is recorded in `<folder>/processes.json`: process id and start time, so that another
process never stops a stranger that got the same id later. Whatever a child starts itself belongs to the child's
session (`setsid`) or carries `KAFKA_MAINTENANCE_WORKSPACE` in its environment; both ways it is found again.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import random
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Self

import psutil

from kafka_maintenance.local.errors import (
    ChildDiedError,
    DiskFullError,
    LocalStackError,
    NotHealthyError,
    PortTakenError,
)

WORKSPACE_VARIABLE = "KAFKA_MAINTENANCE_WORKSPACE"
LOOPBACK = "127.0.0.1"
POLL_INTERVAL_S = 0.05
LOG_TAIL_LINES = 25
FREE_DISK_BYTES_MIN = 200 * 1024 * 1024
# Below Linux's range for outgoing connections (32768 and up), so that no client socket takes a port between the check
# and the server's bind.
PORTS = range(10_240, 32_000)

_PORTS_GIVEN: set[int] = set()
_PORTS_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class ProcessRecord:
    """One started process, as `processes.json` holds it.

    `start_ticks` is the kernel's start time of the process, in clock ticks since boot (elsewhere than on Linux: in
    1/100 s since 1970); `stop_signal` is what ends it in an orderly way, sent to `pid` alone.
    """

    name: str
    pid: int
    start_ticks: int
    log: str
    stop_signal: int
    stop_timeout_s: float


class Workspace:
    """A folder with the data, the logs and the process records of one stack.

    As a context manager it stops on exit what still runs; a temporary one is deleted as well. A workspace that is not
    `detached` belongs to the process that made it: when that one is dead, `stop_orphans` ends what it left behind.
    """

    def __init__(self, folder: Path, *, detached: bool = False, temporary: bool = False) -> None:
        self.folder = folder.absolute()
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
                self._owner.write_text(json.dumps({"pid": os.getpid(), "start_ticks": start_ticks(os.getpid())}))
        except OSError as error:
            raise _from_os_error(error, f"making the folder of a local stack at {self.folder}") from error

    @classmethod
    def create_temporary(cls) -> Workspace:
        """A new folder below the user's stack folder, deleted when the workspace is closed."""
        parent = temporary_root()
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
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


class Child:
    """One running process of a workspace.

    Made by `start_child`. Its output goes to `<folder>/logs/<name>.log`, appended over restarts.
    """

    def __init__(self, workspace: Workspace, record: ProcessRecord, popen: subprocess.Popen[bytes]) -> None:
        self.workspace = workspace
        self.record = record
        self._popen = popen

    @property
    def pid(self) -> int:
        """Its process id, and the id of its session."""
        return self.record.pid

    @property
    def log(self) -> Path:
        """The file that its output goes to."""
        return Path(self.record.log)

    @property
    def exit_status(self) -> int | None:
        """The exit status, negative for a signal; None while it runs."""
        return self._popen.poll()

    @property
    def is_alive(self) -> bool:
        """Whether it runs; a paused process does."""
        return self.exit_status is None

    def check_alive(self) -> None:
        """Raise what the child died of, with the tail of its log.

        Raises:
            ChildDiedError: it ended by itself; PortTakenError or DiskFullError when its log says that.
        """
        status = self.exit_status
        if status is not None:
            raise _cause_of_death(self.record.name, status, self.log)

    def send(self, signal_number: int) -> None:
        """Send a signal to this process alone, if it still runs."""
        if self.is_alive:
            self._popen.send_signal(signal_number)

    def pause(self) -> None:
        """SIGSTOP: the process keeps its connections and does nothing."""
        self.send(signal.SIGSTOP)

    def resume(self) -> None:
        """SIGCONT after `pause`."""
        self.send(signal.SIGCONT)

    def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        self.send(signal.SIGKILL)
        self._popen.wait()
        self.workspace.remove(self.record)

    def stop(self) -> None:
        """End the process in an orderly way, then by SIGKILL whatever is left of it and of what it started."""
        if self.is_alive:
            family = _family(self.record)
            self.send(signal.SIGCONT)
            self.send(self.record.stop_signal)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(self.record.stop_timeout_s)
            self.send(signal.SIGKILL)
            self._popen.wait()
            _kill_processes(family)
        _kill_processes(_session_members(self.record))
        self.workspace.remove(self.record)


def start_child(
    workspace: Workspace,
    name: str,
    command: Sequence[str],
    *,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    user: str | None = None,
    stop_signal: int = signal.SIGTERM,
    stop_timeout_s: float = 10.0,
) -> Child:
    """Start `command` in its own session, with its log in the workspace, and record it.

    Args:
        workspace: where log and record go.
        name: name of the log file and in messages; unique in the workspace.
        command: program and arguments.
        env: the whole environment; None for that of this process.
        cwd: folder to run in; None for the workspace's.
        user: the user to run as, when this process is root's; None for the same user.
        stop_signal: what ends the process in an orderly way.
        stop_timeout_s: after so many seconds SIGKILL follows.

    Raises:
        DiskFullError: less than 200 MB are free in the workspace.
        LocalStackError: the program cannot be started.
    """
    check_disk(workspace.folder)
    log_path = workspace.logs / f"{name}.log"
    environment = dict(os.environ if env is None else env) | {WORKSPACE_VARIABLE: str(workspace.folder)}
    try:
        with log_path.open("ab") as log:
            popen = subprocess.Popen(
                list(command),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=cwd or workspace.folder,
                user=user,
                start_new_session=True,
            )
    except OSError as error:
        raise _from_os_error(error, f"starting {name} ({command[0]})") from error
    record = ProcessRecord(name, popen.pid, start_ticks(popen.pid), str(log_path), int(stop_signal), stop_timeout_s)
    workspace.add(record)
    return Child(workspace, record, popen)


def wait_until(condition: Callable[[], bool], *, what: str, timeout_s: float, children: Iterable[Child] = ()) -> None:
    """Poll `condition` every 50 ms until it holds.

    Args:
        condition: returns quickly; must not raise.
        what: the awaited state, for the message: "broker 1 is registered".
        timeout_s: seconds to wait at most.
        children: processes that must stay alive meanwhile.

    Raises:
        ChildDiedError: one of the children ended (or PortTakenError, DiskFullError, from its log).
        NotHealthyError: the time is over; the message carries the tails of the logs.
    """
    watched = tuple(children)
    deadline = time.monotonic() + timeout_s
    while not condition():
        for child in watched:
            child.check_alive()
        if time.monotonic() > deadline:
            tails = "".join(f"\n--- end of {child.log}\n{log_tail(child.log)}" for child in watched)
            raise NotHealthyError(
                f"waited {timeout_s:g} s until {what}: it did not happen; the machine may be overloaded,"
                f" or the log says more{tails}"
            )
        time.sleep(POLL_INTERVAL_S)


def free_ports(count: int) -> list[int]:
    """`count` loopback ports that nobody listens on now; none is given out twice by this process.

    Raises:
        PortTakenError: none was found in 10240 to 31999.
    """
    found: list[int] = []
    with _PORTS_LOCK:
        for port in random.SystemRandom().sample(PORTS, len(PORTS)):
            if len(found) == count:
                break
            if port not in _PORTS_GIVEN and _can_bind(port):
                found.append(port)
                _PORTS_GIVEN.add(port)
    if len(found) < count:
        raise PortTakenError(
            f"looking for {count} free ports on {LOOPBACK} in {PORTS.start} to {PORTS.stop - 1}: found {len(found)};"
            " stop what listens there (`ss -ltnp` lists it) and start again"
        )
    return found


def free_port() -> int:
    """One port of `free_ports`."""
    return free_ports(1)[0]


def check_port(port: int, name: str) -> None:
    """Check that nobody listens on a port that the caller chose.

    Raises:
        PortTakenError: somebody does; the message names the process if it can be seen.
    """
    if not _can_bind(port):
        raise PortTakenError(
            f"starting {name} on {LOOPBACK}:{port}: expected a free port, found {_listener(port)} listening;"
            " stop it, or choose another port (without a port a free one is taken)"
        )


def listens(port: int) -> bool:
    """Whether a TCP connection to the loopback port is accepted."""
    with contextlib.suppress(OSError), socket.create_connection((LOOPBACK, port), timeout=1.0):
        return True
    return False


def check_disk(folder: Path) -> None:
    """Check that the file system of `folder` has 200 MB left.

    Raises:
        DiskFullError: it has not.
    """
    free = shutil.disk_usage(folder).free
    if free < FREE_DISK_BYTES_MIN:
        raise DiskFullError(
            f"starting a process in {folder}: expected {FREE_DISK_BYTES_MIN >> 20} MB of free disk,"
            f" found {free >> 20} MB; delete files, or choose a folder on another disk"
        )


def log_tail(log: Path, lines: int = LOG_TAIL_LINES) -> str:
    """The last lines of a log; an empty string when there is none."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - 400 * lines))
            return "\n".join(stream.read().decode(errors="replace").splitlines()[-lines:])
    except OSError:
        return ""


def temporary_root() -> Path:
    """Where temporary workspaces of this user live; short, because a Unix socket's path has 107 bytes at most."""
    return Path(tempfile.gettempdir()) / f"kafka-maintenance-{os.getuid()}"


def read_records(folder: Path) -> list[ProcessRecord]:
    """The processes recorded in a workspace, in start order; empty when there is no record."""
    try:
        rows = json.loads((folder / "processes.json").read_text())
    except FileNotFoundError:
        return []
    return [ProcessRecord(**row) for row in rows]


def write_records(folder: Path, records: Iterable[ProcessRecord]) -> None:
    """Replace the records of a workspace in one step."""
    scratch = folder / f"processes.json.{os.getpid()}"
    try:
        scratch.write_text(json.dumps([asdict(record) for record in records], indent=1))
        scratch.replace(folder / "processes.json")
    except OSError as error:
        raise _from_os_error(error, f"recording a started process in {folder}") from error


def running(record: ProcessRecord) -> bool:
    """Whether the recorded process itself (not a later one with its id) still runs."""
    return start_ticks(record.pid) == record.start_ticks and not _has_ended(record.pid)


def stop_workspace(folder: Path) -> list[str]:
    """Stop exactly what was started in a workspace, newest first, whoever started it.

    Returns:
        The names of the processes that were still running.
    """
    stopped: list[str] = []
    for record in reversed(read_records(folder)):
        if running(record):
            stopped.append(record.name)
            family = _family(record)
            _stop_process(record)
            _kill_processes(family)
        _kill_processes(_session_members(record))
    _kill_processes(_marked_processes(folder))
    _delete_adopted(folder)
    if folder.exists():
        write_records(folder, [])
    return stopped


def stop_orphans() -> list[Path]:
    """Stop and delete temporary workspaces whose owner is dead; the folders that were deleted."""
    orphans = [folder for folder in _workspaces(temporary_root()) if not _owner_runs(folder)]
    for folder in orphans:
        stop_workspace(folder)
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


def _delete_adopted(folder: Path) -> None:
    adopted = folder / "adopted"
    if adopted.exists():
        for line in adopted.read_text().splitlines():
            if Path(line).is_relative_to(temporary_root()):
                shutil.rmtree(line, ignore_errors=True)
        adopted.unlink()


def _stop_process(record: ProcessRecord) -> None:
    process = psutil.Process(record.pid)
    with contextlib.suppress(psutil.Error):
        process.resume()
        process.send_signal(record.stop_signal)
        _wait_ended([record.pid], timeout_s=record.stop_timeout_s)
    if running(record):
        _kill_processes([process])


def _family(record: ProcessRecord) -> list[psutil.Process]:
    with contextlib.suppress(psutil.Error):
        return psutil.Process(record.pid).children(recursive=True)
    return []


def _session_members(record: ProcessRecord) -> list[psutil.Process]:
    """Processes of the session that the recorded process led; none when its id belongs to another process now."""
    if start_ticks(record.pid) not in {-1, record.start_ticks}:
        return []
    members = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if os.getsid(process.pid) == record.pid and process.pid != os.getpid():
                members.append(process)
    return members


def _marked_processes(folder: Path) -> list[psutil.Process]:
    """Processes that carry the workspace in their environment: started, and not yet recorded when the parent died."""
    marked = []
    for process in psutil.process_iter():
        with contextlib.suppress(OSError, psutil.Error):
            if process.pid != os.getpid() and process.environ().get(WORKSPACE_VARIABLE) == str(folder):
                marked.append(process)
    return marked


def _kill_processes(processes: Sequence[psutil.Process]) -> None:
    for process in processes:
        with contextlib.suppress(psutil.Error):
            process.kill()
    _wait_ended((process.pid for process in processes), timeout_s=5)


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


def _workspaces(root: Path) -> Iterator[Path]:
    if root.exists():
        yield from sorted(folder for folder in root.iterdir() if (folder / "owner.json").exists())


def _owner_runs(folder: Path) -> bool:
    owner = json.loads((folder / "owner.json").read_text())
    return start_ticks(int(owner["pid"])) == int(owner["start_ticks"])


def _can_bind(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
            probe.listen(1)
        except OSError:
            return False
    return True


def _listener(port: int) -> str:
    with contextlib.suppress(psutil.Error):
        for connection in psutil.net_connections("tcp"):
            if connection.laddr and connection.laddr.port == port and connection.status == psutil.CONN_LISTEN:
                name = psutil.Process(connection.pid).name() if connection.pid else "a process of another user"
                return f"{name} (pid {connection.pid})"
    return "another process"


def _cause_of_death(name: str, status: int, log: Path) -> LocalStackError:
    tail = log_tail(log)
    text = f"{name} ended by itself with status {status}"
    if "Address already in use" in tail or "BindException" in tail:
        return PortTakenError(
            f"{text}: its port is taken; stop what listens there and start again\n{_quoted(log, tail)}"
        )
    if "No space left on device" in tail:
        return DiskFullError(f"{text}: the disk is full; free some space and start again\n{_quoted(log, tail)}")
    return ChildDiedError(f"{text}; expected it to keep running; the end of its log may say why\n{_quoted(log, tail)}")


def _quoted(log: Path, tail: str) -> str:
    return f"--- end of {log}\n{tail or '(empty)'}"


def _from_os_error(error: OSError, attempted: str) -> LocalStackError:
    if error.errno == errno.ENOSPC:
        return DiskFullError(f"{attempted}: the disk is full; free some space and start again")
    return LocalStackError(f"{attempted} failed: {error}; check that the path exists and that you may use it")
