"""A store in a folder: what a disk cannot hold or refuses, and what killed writers left."""

import os
import time
from pathlib import Path

import pytest

from controller_core.adapters.object_store.folder import INCOMING, FolderStore
from controller_core.model.errors import (
    ObjectMissingError,
    StoreAccessDeniedError,
    StoreUnreachableError,
    StoreUnwritableError,
)


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


def test_reading_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(StoreUnreachableError, match="no such folder"):
        FolderStore(tmp_path / "absent").get("k")


def test_a_full_disk(tmp_path, monkeypatch):
    store = FolderStore(tmp_path)
    store.put("old", b"1")

    def full(descriptor: int) -> None:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StoreUnwritableError, match=r"No space left.*free space"):
        store.put("new", b"2")
    monkeypatch.undo()
    assert list(store.list("")) == ["old"]
    assert not any((tmp_path / INCOMING).iterdir())


def test_a_folder_that_may_not_be_listed_is_named(tmp_path, monkeypatch):
    store, real = FolderStore(tmp_path), os.scandir
    store.put("v1/closed/k", b"1")

    def scan(folder: Path):
        if folder.name == "closed":
            raise PermissionError(13, os.strerror(13), str(folder))
        return real(folder)

    monkeypatch.setattr(os, "scandir", scan)
    with pytest.raises(StoreAccessDeniedError, match=r"v1/closed' not read: Permission denied"):
        store.list("v1/")


def test_a_read_only_folder(tmp_path, monkeypatch):
    def refuse(self: Path, *args: object, **kwargs: object) -> None:
        raise OSError(30, os.strerror(30), str(self))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(StoreUnwritableError, match="Read-only file system"):
        FolderStore(tmp_path).probe()


def test_a_writer_killed_half_way_leaves_nothing_visible(tmp_path):
    store = FolderStore(tmp_path)
    store.put("whole", b"1")
    (tmp_path / INCOMING / "4711-dead").write_bytes(b"half")
    assert list(store.list("")) == ["whole"]


@pytest.mark.parametrize("linked", [False, True], ids=["a folder", "a link that somebody put in its place"])
def test_the_probe_takes_away_what_killed_writers_left_a_day_ago(tmp_path, linked):
    store, aside = FolderStore(tmp_path / "store"), tmp_path / "store" / INCOMING
    store.put("whole", b"1")
    if linked:
        aside.rmdir()
        (tmp_path / "foreign").mkdir()
        aside.symlink_to(tmp_path / "foreign")
    for name, age_h in (("4711-dead", 25), ("4712-at-work", 23)):
        (aside / name).write_bytes(b"half")
        os.utime(aside / name, (time.time() - age_h * 3600,) * 2)
    store.probe()
    assert sorted(path.name for path in aside.iterdir()) == ["4711-dead", "4712-at-work"][not linked :]
    assert list(store.list("whole")) == ["whole"]
