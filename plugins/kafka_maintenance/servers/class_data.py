"""Class data archives of Java: what a program loads at its start, recorded once, so that later starts take half the time.

An archive fits one Java and one class path, or a longer one that begins with it; the JVM passes over one that does not fit.
Source: Java's class data sharing, options `-XX:ArchiveClassesAtExit` and `-XX:SharedArchiveFile`.
"""

import contextlib
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

from controller_core.model.errors import ControllerCoreError
from kafka_maintenance.servers.cache import locked, sha256_of
from kafka_maintenance.servers.errors import LocalStackError
from kafka_maintenance.servers.java import Java


def recorded(archive: Path, record: Callable[[str], None]) -> Path | None:
    """The archive, made on first use.

    Args:
        archive: where it is kept; beside it a lock, and a note where it could not be made.
        record: runs the program once, with this option of Java, and ends it in an orderly way.

    Returns:
        None where it cannot be made, as in a read-only folder, which only costs time at each start.
    """
    failed = archive.with_suffix(".failed")
    with contextlib.suppress(OSError):
        if archive.exists():
            return archive
        with locked(archive.with_suffix(".jsa.lock")):
            if not archive.exists() and not failed.exists():
                with contextlib.suppress(LocalStackError, ControllerCoreError, OSError):
                    _make(archive, record)
                if not archive.exists():
                    failed.touch()
    return archive if archive.exists() else None


def options(archive: Path | None) -> list[str]:
    """Java's options to start with an archive."""
    return [f"-XX:SharedArchiveFile={archive}", "-Xshare:auto"] if archive else []


def java_id(java: Java) -> str:
    """What tells the archives of two Javas apart."""
    return sha256_of(Path(java.program).resolve())[:12]


def _make(archive: Path, record: Callable[[str], None]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        scratch = Path(folder) / "classes.jsa"
        record(f"-XX:ArchiveClassesAtExit={scratch}")
        if scratch.exists():
            shutil.move(scratch, archive.with_suffix(".part"))
            archive.with_suffix(".part").rename(archive)
