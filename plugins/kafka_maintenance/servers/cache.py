"""The per-user cache of what is downloaded or built once: broker jars, the S3 server's program."""

import fcntl
import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

JARS_VARIABLE: Final = "KAFKA_MAINTENANCE_JARS"


def cache_folder(env: Mapping[str, str] | None = None) -> Path:
    """`${XDG_CACHE_HOME:-~/.cache}/kafka-maintenance`; not made here."""
    environment = os.environ if env is None else env
    base = environment.get("XDG_CACHE_HOME") or str(Path(environment.get("HOME", "~")).expanduser() / ".cache")
    return Path(base) / "kafka-maintenance"


def jars_folder(env: Mapping[str, str] | None = None) -> Path:
    """Where the jars of brokers and of S3 lie: the folder that `KAFKA_MAINTENANCE_JARS` names, which may be read-only, else the cache."""
    named = (os.environ if env is None else env).get(JARS_VARIABLE)
    return Path(named) if named else cache_folder(env)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on a file, while something is put into the cache or a stack is started; other processes wait."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as stream:
        fcntl.flock(stream, fcntl.LOCK_EX)
        yield


def sha256_of(path: Path) -> str:
    """SHA-256 of a file's bytes, in hex."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
