"""Snapshots of a store that is read as it lies: one that cannot be read is told, and ends nothing."""

import pytest
from pyarrow import fs as arrow_fs

from spark_jobs.io.folders import Folder
from spark_jobs.io.snapshots import Problem, _open_snapshot


@pytest.mark.parametrize(
    "content", [b"{", b"[]", b"null", b"[" * 200_000, b'{"kind": []}', b'{"format_version": {}}', b"\xff"]
)
def test_a_manifest_that_nobody_can_read_is_a_problem_of_its_cluster(tmp_path, content):
    place = tmp_path / "cluster=alpha/date=2026-11-20/snap=one"
    place.mkdir(parents=True)
    (place / "manifest.json").write_bytes(content)
    found = _open_snapshot(Folder(arrow_fs.LocalFileSystem(), str(place), str(place)), frozenset(), ())
    assert isinstance(found, Problem)
    assert (found.cluster, found.snapshot_id, found.stage, found.date) == ("alpha", "one", "read", "2026-11-20")
