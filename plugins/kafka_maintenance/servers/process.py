"""Children of the local stack: started with a log file and a record in their workspace, awaited, stopped."""

import contextlib
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from kafka_maintenance.servers.errors import (
    ChildDiedError,
    DiskFullError,
    LocalStackError,
    NotHealthyError,
    PortTakenError,
    from_os_error,
)
from kafka_maintenance.servers.workspace import (
    POLL_INTERVAL_S,
    WORKSPACE_VARIABLE,
    ProcessRecord,
    Workspace,
    family,
    here,
    kill_processes,
    session_members,
    start_ticks,
)

LOG_TAIL_LINES = 25
FREE_DISK_BYTES_MIN = 200 * 1024 * 1024


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
        """SIGSTOP: the process keeps its connections and does nothing. Returns when all its threads stand.

        On a busy machine some of them run on for a while after the signal, as long as the one that it goes to waits for
        a processor.
        """
        self.send(signal.SIGSTOP)
        if hasattr(os, "waitid") and self.is_alive:  # not on macOS before Python 3.13
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

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
            kin = family(self.record)
            self.send(signal.SIGCONT)
            self.send(self.record.stop_signal)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._popen.wait(self.record.stop_timeout_s)
            self.send(signal.SIGKILL)
            self._popen.wait()
            kill_processes(kin)
        kill_processes(session_members(self.record))
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
        raise from_os_error(error, f"starting {name} ({command[0]})") from error
    record = ProcessRecord(
        name, popen.pid, start_ticks(popen.pid), str(log_path), int(stop_signal), stop_timeout_s, here()
    )
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


def log_tail(log: Path) -> str:
    """The last lines of a log; an empty string when there is none."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, os.SEEK_END) - 400 * LOG_TAIL_LINES))
            return "\n".join(stream.read().decode(errors="replace").splitlines()[-LOG_TAIL_LINES:])
    except OSError:
        return ""


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
