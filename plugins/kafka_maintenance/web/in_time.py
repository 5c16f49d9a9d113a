"""Pages are made in threads of their own, and not for ever: a store that hangs leaves Airflow's API its threads.

Airflow's API server has 40 threads for all its routes, the heartbeats of tasks among them.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import Final, TypeVar

Made = TypeVar("Made")
AT_ONCE_MAX: Final = 8
DEADLINE_S: Final = 50.0
"""Less than the 60 s after which a proxy in front of Airflow commonly gives up: the page says itself why it is not there."""
_THREADS: Final = ThreadPoolExecutor(AT_ONCE_MAX, thread_name_prefix="kafka-maintenance-page")


class LateError(Exception):
    """A page was not made within the deadline."""


async def in_time(make: Callable[[], Made]) -> Made:
    """What `make` returns, made in one of the pages' threads.

    Raises:
        LateError: it took too long, or found no thread in that time. What was begun goes on, and what it reads is kept.
    """
    work = _THREADS.submit(copy_context().run, make)
    made = asyncio.wrap_future(work)
    done, _ = await asyncio.wait({made}, timeout=DEADLINE_S)
    if done:
        return made.result()
    is_begun = not work.cancel()
    made.cancel()  # nobody asks for it any more, nor for its error
    if is_begun:
        raise LateError(
            f"not ready within {DEADLINE_S:.0f} s: the store has not given all that the page shows; check that the store answers, and open "
            "the page again in a minute: it goes on being read, and what was read is kept"
        )
    raise LateError(
        f"not begun within {DEADLINE_S:.0f} s: expected one of {AT_ONCE_MAX} places for pages to become free, found {AT_ONCE_MAX} pages that "
        "still wait for the store; check that the store answers, and open the page again"
    )
