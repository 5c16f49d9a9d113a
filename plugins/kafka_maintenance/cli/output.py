"""Where the command prints to: an output that is closed, full, or in a poor encoding, and a reader that has enough of it."""

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from pathlib import Path


def open_what_is_printed_to() -> None:
    """An output that was closed drops what is printed; of a character that the encoding of standard output lacks its escape is printed."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, Path(os.devnull).open("w", encoding="utf-8"))  # noqa: SIM115 - open until the process ends
    for name, kind in (("stdout", StandardOutput), ("stderr", _StandardError)):
        if isinstance(found := getattr(sys, name), io.TextIOWrapper):
            given = {each: getattr(found, each) for each in ("encoding", "line_buffering", "write_through")}
            setattr(sys, name, kind(found.detach(), errors="backslashreplace", **given))


def reader_has_left() -> bool:
    """Whether nobody reads standard output any more; what was printed is written first."""
    sys.stdout.flush()
    return getattr(sys.stdout, "reader_has_left", False)


class StandardOutput(io.TextIOWrapper):
    """Says that it is standard output that takes no more: the system's error does not, and a large output is written before the command ends.

    Whoever reads it may have enough of it: the rest is dropped, and the command ends as if all had been read.
    """

    reader_has_left = False

    def write(self, text: str) -> int:
        """Writes it, or drops it where nobody reads."""
        with self._told():
            return super().write(text)
        return len(text)

    def flush(self) -> None:
        """Likewise what is not written yet."""
        with self._told():
            super().flush()

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except BrokenPipeError:
            self.reader_has_left = True
            os.dup2(os.open(os.devnull, os.O_WRONLY), self.fileno())
        except OSError as error:
            raise OSError(
                f"result not written to standard output: {error.strerror or error}; make room, or let it go elsewhere, and run again"
            ) from error


class _StandardError(io.TextIOWrapper):
    """Drops what standard error does not take, as on a full disk: what the command does is neither ended by that nor judged otherwise."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            return super().write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            super().flush()
