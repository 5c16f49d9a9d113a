"""How a run is told to end at its next safe point: by a signal, by the loss of its supervisor, by a person.

A safe point is before anything is asked, and any moment of waiting: nothing is begun half.
"""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from types import FrameType
from typing import Final

LOOK_S: Final = 5.0
"""How often is looked whether a person asked for the end."""
_SIGNALS: Final = {signal.SIGTERM: "SIGTERM", signal.SIGINT: "Ctrl-C"}


class Stop:
    """The wish that a run ends; `reason` is None as long as nobody has it, `for_good` says that a person had it.

    Args:
        with_parent: the run ends when the process that started it is gone, as the supervisor of a task may be.
    """

    def __init__(self, *, with_parent: bool = False) -> None:
        self._parent = os.getppid() if with_parent else None
        self._asked = threading.Event()
        self._reason: str | None = None
        self._requested: Callable[[], str | None] | None = None
        self._looked_s = 0.0
        self.for_good = False

    @property
    def reason(self) -> str | None:
        """Why the run shall end."""
        if self._reason is None and self._parent is not None and os.getppid() != self._parent:
            self.ask("the process that supervised it is gone")
        if self._reason is None and self._requested is not None and monotonic() - self._looked_s >= LOOK_S:
            self._looked_s = monotonic()
            if (requested := self._requested()) is not None:
                self.for_good = True
                self.ask(requested)
        return self._reason

    def also_when(self, requested: Callable[[], str | None]) -> None:
        """From now on the run ends, and is not tried again, when `requested` gives a reason; asked now and then."""
        self._requested = requested

    def ask(self, reason: str) -> None:
        """Asks for the end; the first reason stays."""
        self._reason = self._reason or reason
        self._asked.set()

    def wait(self, seconds: float) -> None:
        """Waits, or less where the end is asked for meanwhile."""
        self._asked.wait(seconds)


@contextmanager
def stopping_on_signals(stop: Stop) -> Iterator[Stop]:
    """SIGTERM and Ctrl-C ask `stop` for the end; a second one of them ends the process as ever. Only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    former = {number: signal.getsignal(number) for number in _SIGNALS}

    def ask(number: int, _: FrameType | None) -> None:
        stop.ask(_SIGNALS[signal.Signals(number)])
        for each, handler in former.items():
            signal.signal(each, handler)

    for number in _SIGNALS:
        signal.signal(number, ask)
    try:
        yield stop
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
