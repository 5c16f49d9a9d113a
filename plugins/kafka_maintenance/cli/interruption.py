"""How Ctrl-C ends the command. It imports next to nothing: it is needed before the other modules are loaded."""

import sys
from typing import Final

INTERRUPTED: Final = 130
"""Exit status, as of a shell: 128 and the number of the signal."""


def say_interrupted() -> None:
    """One line on standard error, and no traceback."""
    print("kafka-maintenance: interrupted", file=sys.stderr, flush=True)
