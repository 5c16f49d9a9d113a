"""Text that a library wants as a file: a key out of a secret backend lies in memory as long as this process lives, and on no disk.

Source: Linux `memfd_create(2)`, `proc(5)`.
"""

import os
import sys
from functools import cache
from typing import Final

from controller_core.model.errors import TlsSettingsError

_OPEN_FILES: Final = "/proc/self/fd/"
_PEM: Final = "-----BEGIN "


def is_pem(text: str) -> bool:
    """Whether a setting holds PEM text itself, and not the path of a file with it."""
    return _PEM in text


@cache
def path_of(text: str) -> str:
    """Path of a file with that text, which only this process, and what it forks, can open; the same text has one file.

    Raises:
        TlsSettingsError: this system has no such files.
    """
    if not sys.platform.startswith("linux"):
        raise TlsSettingsError(
            f"text of a connection not used as a file: expected Linux, which keeps it in memory, found {sys.platform}; name a file"
        )
    file = os.memfd_create("kafka-maintenance")
    written = os.write(file, text.encode())
    if written != len(text.encode()):
        raise TlsSettingsError(f"text of a connection not used as a file: {written} bytes of it were kept; name a file")
    return f"{_OPEN_FILES}{file}"


def shown_path(path: str | None) -> str:
    """The path as a message shows it; of a file in memory: that it holds the text of a connection."""
    return "the text of the connection" if path and path.startswith(_OPEN_FILES) else repr(path)
