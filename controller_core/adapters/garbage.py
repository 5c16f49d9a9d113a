"""Work on hundreds of thousands of small objects without Python looking for cycles among them."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Holds the cycle collector for the length of a `with` block: the znodes of a tree hold no cycles, and looking for some
    among them costs a third of the time of reading or decoding them. Reference counting goes on.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
