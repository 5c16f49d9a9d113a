"""A part of a page that cannot be made says why in its own place, and takes no other part."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pyarrow as pa

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.model.errors import ObjectDamagedError
from kafka_maintenance.operations.snapshots.catalog import UNUSABLE
from kafka_maintenance.web.blocks import Block, Note


def or_why(make: Callable[[], Sequence[Block]]) -> list[Block]:
    """What a part shows, or why it cannot: what is damaged takes its own part from the page, and no other date or cluster."""
    try:
        return list(make())
    except UNUSABLE as error:
        return [Note(str(error), "warning")]


@contextmanager
def as_published(store: ObjectStore, manifest: str) -> Iterator[None]:
    """Around what is made of the results of an analysis: a store may give them back with other columns or values than were published.

    Raises:
        ObjectDamagedError: a column or a value is not as an analysis writes it.
    """
    try:
        yield
    except (KeyError, ValueError, TypeError, AttributeError, pa.ArrowException) as error:
        raise ObjectDamagedError(
            f"results of the analysis {store.uri_of(manifest)!r} not shown: expected the columns and values that an analysis writes, found "
            f"{type(error).__name__}: {error}; restore its objects from a copy of the store, or analyse the date again"
        ) from error
