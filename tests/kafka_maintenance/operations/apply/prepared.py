"""A world that is set up once and copied for each run that disturbs it: the controller's elections before it take longer than the run."""

import pickle
import threading
from collections.abc import Callable
from io import BytesIO
from typing import Any

from pyspark.cloudpickle import CloudPickler  # the watches of a controller are closures, which pickle refuses


class _Pickler(CloudPickler):
    """Whose copies have locks of their own, which nobody holds."""

    dispatch_table = CloudPickler.dispatch_table.new_child(
        {type(make()): lambda _, make=make: (make, ()) for make in (threading.Lock, threading.RLock)}
    )


def copies(*things: Any) -> Callable[[], Any]:
    """A function that returns equal `things`, which share nothing with these nor with those of another call."""
    written = BytesIO()
    _Pickler(written).dump(things)
    return lambda: pickle.loads(written.getvalue())
