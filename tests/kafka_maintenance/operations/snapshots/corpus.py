"""Stored snapshots of every format version that ever was."""

import shutil

import pytest

from controller_core.adapters.object_store.open import FolderStore
from tests.source_files import ROOT
from tests.visible_snapshots import visible_snapshots

CORPUS = ROOT / "tests" / "data" / "snapshots"
"""One folder per format version, written by the program of its time: add folders, never make one again."""
FORMAT_1 = CORPUS / "format-1" / "store"
VERSIONS = sorted(path.name for path in CORPUS.iterdir())


@pytest.fixture
def corpus(tmp_path):
    """A copy that tests may damage."""
    shutil.copytree(FORMAT_1, tmp_path / "store")
    return FolderStore(tmp_path / "store")


def stored(corpus):
    (manifest,) = visible_snapshots(corpus)
    return manifest
