"""How far a long command is: bars on a terminal, seldom lines elsewhere; both on standard error.

A bar or a line appears after two seconds, so that a quick command shows none.
"""

import itertools
import logging
import sys
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Final, Self, TextIO

from controller_core.model.words import counted
from kafka_maintenance.cli.arguments import tell

LINE_S: Final = 1.0
"""One line in this time at most, where there is no terminal."""
DELAY_S: Final = 2.0


class StderrHandler(logging.StreamHandler[TextIO]):
    """Writes to what `sys.stderr` is at that moment, so that lines of the log stand above the bars."""

    @property
    def stream(self) -> TextIO:
        """Standard error of now."""
        return sys.stderr

    @stream.setter
    def stream(self, _: TextIO) -> None:
        """What the parent class sets is ignored."""


class Bars:
    """Bars by name while the `with` block runs; `show` draws one, or moves it."""

    def __init__(self, what: str = "", *, lines: bool = True) -> None:
        """`what` names the work of which nothing is known but that it runs; `lines`: tell in lines where there is no terminal."""
        self._what, self._lines = what, lines
        self._told_s = 0.0
        self._drawn: Any = None
        self._tasks: dict[str, Any] = {}
        self._lock = threading.Lock()
        self._timer = threading.Timer(DELAY_S, self._appear)
        self._timer.daemon = True

    def __enter__(self) -> Self:
        if sys.stderr.isatty():
            from rich.console import Console
            from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

            self._drawn = Progress(
                SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(), TextColumn("{task.fields[note]}", markup=False),
                TimeElapsedColumn(), console=Console(stderr=True), transient=True, redirect_stdout=False,
            )  # fmt: skip
            if self._what:
                self._tasks[self._what] = self._drawn.add_task(self._what, total=None, note="")
            self._timer.start()
        self._told_s = time.monotonic() + DELAY_S - LINE_S
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        with self._lock:
            if self._drawn is not None:
                self._drawn.stop()
                self._drawn = None

    def _appear(self) -> None:
        with self._lock:
            if self._drawn is not None:
                self._drawn.start()

    def show(self, name: str, done: float, total: float | None = None, note: str = "") -> None:
        """Moves the bar of that name.

        Args:
            name: of the bar; drawn at its first call.
            done: how much is done.
            total: of how much; None: nobody knows.
            note: the same in words, which is the line where there is no terminal.
        """
        if self._drawn is not None:
            if name not in self._tasks:
                self._tasks[name] = self._drawn.add_task(name, total=total, note=note)
            self._drawn.update(self._tasks[name], completed=done, total=total, note=note)
        elif self._lines and time.monotonic() - self._told_s >= LINE_S:
            self._told_s = time.monotonic()
            tell(f"{name}: {note}")


def show_read(bars: Bars) -> Any:
    """The progress while a tree is read, as a bar per phase."""

    def show(progress: Any) -> None:
        eta = "" if progress.eta_s is None else f", about {progress.eta_s:.0f} s to go"
        total = None if progress.eta_s is None else progress.read + progress.eta_s * progress.rate
        note = f"{counted(progress.read, 'znode')}, {progress.rate:,.0f} per second{eta}"
        bars.show(progress.phase, progress.read, total, note)

    return show


def show_lines(bars: Bars, name: str) -> Callable[[str], None]:
    """The progress of one thing after another, as the note of a bar."""
    count = itertools.count(1)
    return lambda line: bars.show(name, next(count), note=line)


def show_steps(bars: Bars) -> Any:
    """The progress while Kafka works at the steps of a plan, as a bar per step."""

    def show(number: int, steps: int, progress: Any) -> None:
        total = progress.outcomes + progress.replicas
        bars.show(
            f"step {number + 1} of {steps}", progress.outcomes_done + progress.replicas_in_sync, total, str(progress)
        )

    return show


def log_to_stderr() -> None:
    """What the operations log goes to standard error, with the time of day."""
    logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S", handlers=[StderrHandler()])
    logging.getLogger("kafka_maintenance").setLevel(logging.INFO)
    logging.getLogger("kazoo").setLevel(logging.CRITICAL)  # what it would say is in our own messages
