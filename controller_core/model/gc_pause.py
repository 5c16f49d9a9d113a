"""A pause of Python's cycle collector while many long-lived records are made.

The core's records and the znodes of a tree hold no cycles, so nothing is missed. Without the pause the collector walks all
of a large context again and again, and takes two thirds of the time of a start-up (docs/adr/0002-persistent-maps.md has the
figures), a third of that of reading or decoding a tree, a sixth to a third of a failure drill's.
"""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def collector_paused() -> Iterator[None]:
    """The collector rests inside; afterwards it is as it was."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()
