"""Folders that are emptied before they are used again: only those that bear our mark, for others may have named them by mistake."""

import shutil
from pathlib import Path


def holds_foreign_files(folder: Path, mark: str) -> bool:
    """Whether there are files in it, and not the one called `mark`: somebody else made them."""
    return folder.is_dir() and not (folder / mark).is_file() and any(folder.iterdir())


def make_anew(folder: Path, mark: str, text: str) -> None:
    """An empty folder with our mark, which holds `text` for people; for one that `holds_foreign_files` lets pass."""
    folder.mkdir(parents=True, exist_ok=True)
    for child in folder.iterdir():  # the folder itself may be a mount
        if child.is_dir() and not child.is_symlink():
            shutil.rmtree(child)
        else:
            child.unlink()
    (folder / mark).write_text(text, encoding="utf-8")
