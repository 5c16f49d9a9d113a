"""Whether the folder of a store has room."""

import shutil

import pytest

from controller_core.adapters.object_store.open import MemoryStore, open_store
from kafka_maintenance.operations.snapshots.room import nearly_full

GIB = 2**30


@pytest.mark.parametrize(("free", "told"), [(10, False), (9.9, True), (0, True)])
def test_a_folder_with_less_free_than_wanted_is_told(monkeypatch, tmp_path, free, told):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: (100 * GIB, 0, free * GIB))
    found = nearly_full(open_store(str(tmp_path)), 10)
    assert (found is not None) == told
    assert found is None or f"{tmp_path} has {free:.1f} of 100.0 GiB free, expected 10 % or more" in found


def test_a_store_without_an_end_is_never_full():
    assert nearly_full(MemoryStore(), 100) is None
