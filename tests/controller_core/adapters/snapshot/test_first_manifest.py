"""Threads that read manifests at the same moment, in a process that has read none before."""

import subprocess
import sys

import pytest

from tests.source_files import ROOT

STORE = ROOT / "tests" / "data" / "snapshots" / "format-1" / "store"


@pytest.mark.parametrize("attempt", range(8))  # without care it ends with SIGSEGV in two of five
def test_threads_may_be_the_first_to_read_a_manifest(attempt):
    (manifest,) = STORE.rglob("manifest.json")
    command = [sys.executable, "-m", "tests.controller_core.adapters.snapshot.first_manifest", str(manifest)]
    done = subprocess.run([*command, manifest.relative_to(STORE).as_posix()], cwd=ROOT, check=False, timeout=60)
    assert done.returncode == 0, attempt
