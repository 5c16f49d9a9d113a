"""Boundary: who has an account on a worker's machine, against what lies in its folder for temporary files."""

import os

import pytest

from kafka_maintenance.operations.analysis.run import folder_of_try
from kafka_maintenance.servers.errors import LocalStackError


def test_a_scratch_folder_is_made_for_its_owner_alone(tmp_path):
    folder = folder_of_try(tmp_path / "scratch", "nightly.1")
    assert folder.parent == tmp_path / "scratch"
    assert folder.parent.stat().st_mode & 0o777 == 0o700


def test_what_an_earlier_try_left_there_is_not_used(tmp_path):
    folder = folder_of_try(tmp_path / "scratch", "nightly.1")
    (folder / "input").mkdir(parents=True)
    assert not folder_of_try(tmp_path / "scratch", "nightly.1").exists()


def test_one_to_which_others_may_write_is_refused(tmp_path):
    (tmp_path / "scratch").mkdir()
    (tmp_path / "scratch").chmod(0o777)
    with pytest.raises(LocalStackError, match=r"to which no others may write, found owner \d+ and mode 0777"):
        folder_of_try(tmp_path / "scratch", "nightly.1")


def test_one_that_somebody_else_made_first_is_refused(tmp_path, monkeypatch):
    (tmp_path / "scratch").mkdir(mode=0o700)
    (tmp_path / "link").symlink_to(tmp_path / "scratch")
    monkeypatch.setattr(os, "geteuid", lambda: tmp_path.stat().st_uid + 1)
    for name in ("scratch", "link"):
        with pytest.raises(LocalStackError, match=rf"{name} not used: expected one of user"):
            folder_of_try(tmp_path / name, "nightly.1")
