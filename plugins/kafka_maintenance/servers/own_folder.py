"""Folders of ours: emptied only where they bear our mark, for others may have named them by mistake; trusted only where nobody else writes."""

import contextlib
import os
import shutil
import stat
from pathlib import Path

from kafka_maintenance.servers.errors import LocalStackError


def holds_foreign_files(folder: Path, mark: str) -> bool:
    """Whether there are files in it, and not the one called `mark`: somebody else made them."""
    return folder.is_dir() and not (folder / mark).is_file() and any(folder.iterdir())


def make_anew(folder: Path, mark: str, text: str) -> None:
    """An empty folder with our mark, which holds `text` for people; for one that `holds_foreign_files` lets pass."""
    folder.mkdir(parents=True, exist_ok=True)
    _empty_but_for(mark, folder)  # the folder itself may be a mount
    (folder / mark).write_text(text, encoding="utf-8")


def remove_own(folder: Path, mark: str) -> None:
    """The folder and what is in it, as far as that can be deleted: the mark last, so that a folder which was not emptied stays ours."""
    with contextlib.suppress(OSError):
        _empty_but_for(mark, folder)
        (folder / mark).unlink()
        folder.rmdir()


def private_folder(folder: Path) -> Path:
    """The folder, made for its owner alone where it is missing.

    Raises:
        LocalStackError: somebody else owns it, or others may write to it: what lies there may be theirs.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    found = folder.stat()
    owners = {found.st_uid, folder.lstat().st_uid}  # a link in a folder for all leads where its owner wants
    if owners != {os.geteuid()} or found.st_mode & stat.S_IWOTH:
        raise LocalStackError(
            f"folder {folder} not used: expected one of user {os.geteuid()} to which no others may write, found owner {max(owners)} and mode "
            f"{stat.S_IMODE(found.st_mode):04o}; remove it, set owner and mode, or name another folder"
        )
    return folder


def _empty_but_for(mark: str, folder: Path) -> None:
    for child in folder.iterdir():
        if child.is_dir() and not child.is_symlink():
            shutil.rmtree(child)
        elif child.name != mark:
            child.unlink()
