"""How Ctrl-C and the signals that end a process end the command. It imports next to nothing: it is needed before the other modules are loaded."""

import signal
import sys
from types import FrameType
from typing import Final, NoReturn

_SIGNALS: Final = (signal.SIGTERM, signal.SIGHUP)


class _Ended(KeyboardInterrupt):
    """One of `_SIGNALS` came."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number


def interrupted_by_signals() -> None:
    """SIGTERM, and SIGHUP of a terminal that closes, end the command as Ctrl-C does: servers that it started end, and what it staged goes."""
    for number in _SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:  # with `nohup` it shall outlive its terminal
            signal.signal(number, _end)


def say_interrupted(interrupt: KeyboardInterrupt) -> int:
    """One line on standard error, and no traceback; the exit status, a shell's: 128 and the number of the signal."""
    number, by = signal.SIGINT, ""
    if isinstance(interrupt, _Ended):
        number = signal.Signals(interrupt.number)
        by = f" by {number.name}"
    print(f"kafka-maintenance: interrupted{by}", file=sys.stderr, flush=True)
    return 128 + number


def _end(number: int, _: FrameType | None) -> NoReturn:
    for each in _SIGNALS:  # a terminal that closes sends SIGHUP twice: the second would interrupt what ends the servers
        signal.signal(each, signal.SIG_IGN)
    raise _Ended(number)
