"""The program `kafka-maintenance`; `python -m kafka_maintenance` is the same."""

import os
import sys
from typing import NoReturn

_INTERRUPTED = 130


def run() -> NoReturn:
    """Runs the command line; Ctrl-C ends it quietly also while its modules are loaded, which takes a moment."""
    try:
        from kafka_maintenance.cli.main import run as program  # noqa: PLC0415 - may be interrupted

        program()
    except KeyboardInterrupt:
        sys.stderr.write("kafka-maintenance: interrupted\n")
        sys.stderr.flush()
        os._exit(_INTERRUPTED)


if __name__ == "__main__":
    run()
