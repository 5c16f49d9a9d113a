"""A job ends with whoever submitted it: a task that is killed leaves no JVM behind that goes on writing."""

import os
import signal
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread

_LOOKS_EVERY_S = 1.0
_BY_SUBMIT = "PYSPARK_GATEWAY_PORT"
"""Set by spark-submit for the Python program that it starts."""


def end_with_submitter() -> None:
    """Watches, in a thread of its own, the process that started spark-submit; ends JVM and program when it is gone.

    The JVM may be frozen: this program, its child, ends it. Without `/proc`, or started otherwise, nothing is watched.
    """
    jvm = os.getppid()
    if _BY_SUBMIT in os.environ and (submitter := _parent_of(jvm)) is not None:
        Thread(target=_watch, args=(jvm, submitter), daemon=True).start()


def _watch(jvm: int, submitter: int) -> None:
    while _parent_of(jvm) == submitter:
        time.sleep(_LOOKS_EVERY_S)
    with suppress(ProcessLookupError):
        os.kill(jvm, signal.SIGKILL)
    os._exit(1)


def _parent_of(process: int) -> int | None:
    """The parent's id; None where there is no such process, or nobody says."""
    try:
        stat = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return None
    return int(stat.rpartition(")")[2].split()[1])
