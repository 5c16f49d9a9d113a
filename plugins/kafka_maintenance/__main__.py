"""The program `kafka-maintenance`; `python -m kafka_maintenance` is the same."""

import os
from typing import NoReturn

from kafka_maintenance.cli.interruption import interrupted_by_signals, say_interrupted


def run() -> NoReturn:
    """Runs the command line; Ctrl-C ends it quietly also while its modules are loaded, which takes a moment."""
    interrupted_by_signals()
    try:
        from kafka_maintenance.cli.main import run as program  # noqa: PLC0415 - may be interrupted

        program()
    except KeyboardInterrupt as interrupt:
        os._exit(say_interrupted(interrupt))


if __name__ == "__main__":
    run()
