"""How much room a store in a folder has left."""

import shutil

from controller_core.adapters.object_store.folder import FolderStore
from controller_core.adapters.object_store.open import ObjectStore

_GIB = 2**30


def nearly_full(store: ObjectStore, percent: int) -> str | None:
    """A sentence where less than so many percent of the file system of a store's folder are free.

    None where there is room, and of a store in S3, which tells no end.

    Args:
        store: of snapshots, plans and records.
        percent: of the size of the file system.
    """
    if not isinstance(store, FolderStore):
        return None
    size, _, free = shutil.disk_usage(store.uri)
    if free * 100 >= size * percent:
        return None
    return (
        f"the store is nearly full: {store.uri} has {free / _GIB:.1f} of {size / _GIB:.1f} GiB free, expected {percent} % or more; "
        "remove snapshots with retain_snapshots, or make the file system larger"
    )
