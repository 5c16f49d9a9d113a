"""A store in a folder: what a disk cannot hold."""

import pytest

from controller_core.adapters.object_store.folder import FolderStore
from controller_core.model.errors import ObjectMissingError, StoreUnwritableError


def test_a_name_that_a_disk_cannot_hold_is_not_there_and_is_not_written(tmp_path):
    store, key = FolderStore(tmp_path), f"cluster={'x' * 250}/a"
    assert store.list(key) == store.list(f"{key}/") == []
    for ask in (store.get, store.size):
        with pytest.raises(ObjectMissingError, match="not found"):
            ask(key)
    for put in (store.put, store.put_new):
        with pytest.raises(StoreUnwritableError, match="choose a shorter name"):
            put(key, b"x")
    assert store.list("") == []
