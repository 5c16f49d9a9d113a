"""A store in a local folder."""

import errno
import os
import secrets
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from controller_core.adapters.local_file import write_whole
from controller_core.adapters.object_store.probe import probe_store
from controller_core.model.errors import InvalidKeyError, ObjectStoreError, StoreUnreachableError, StoreUnwritableError
from controller_core.ports.object_store import (
    CHUNK_BYTES,
    INCOMING,
    checked_key,
    denied_error,
    exists_error,
    missing_error,
)

_WRITE_REFUSALS: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_ASIDE_MAX_S: Final = 86_400


class FolderStore:
    """A store in a local folder. Every object is written aside, synced, and then renamed or linked to its name.

    Objects and folders that it makes are for its owner alone (0600, 0700). A key whose path leads out of the folder, by a symbolic
    link, is neither read nor written.
    """

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()

    @property
    def uri(self) -> str:
        return str(self._root)

    def uri_of(self, key: str) -> str:
        return str(self._root / key)

    def put(self, key: str, data: bytes) -> None:
        self._publish(key, lambda aside: _write_synced(aside, data), lambda aside, target: aside.replace(target))

    def put_new(self, key: str, data: bytes) -> None:
        def link(aside: Path, target: Path) -> None:
            try:
                target.hardlink_to(aside)  # the only call that both refuses an existing name and shows a whole file
            except FileExistsError:
                raise exists_error(str(target)) from None

        self._publish(key, lambda aside: _write_synced(aside, data), link)

    def put_file(self, key: str, path: Path) -> None:
        self._publish(key, lambda aside: _copy_synced(path, aside), lambda aside, target: aside.replace(target))

    def get(self, key: str) -> bytes:
        path = self._path(key)
        with self._read(path):
            return path.read_bytes()

    def get_to_file(self, key: str, path: Path) -> None:
        write_whole(path, self.get(key))

    def list(self, prefix: str) -> Sequence[str]:
        return sorted(self._listed(prefix), key=os.fsencode)

    def list_newest_first(self, prefix: str) -> Sequence[str]:
        def written(key: str) -> int:
            with suppress(FileNotFoundError):  # a neighbour deleted it meanwhile
                return (self._root / key).stat().st_mtime_ns
            return 0

        listed = self._listed(prefix)
        with self._read(self._root):
            return sorted(listed, key=written, reverse=True)

    def delete(self, key: str) -> None:
        path = self._path(key)
        with _writing(path):
            path.unlink(missing_ok=True)
            for folder in path.parents:  # empty folders are not objects: leave none behind
                if folder == self._root or not folder.is_relative_to(self._root):
                    break
                try:
                    folder.rmdir()
                except OSError:
                    break

    def size(self, key: str) -> int:
        path = self._path(key)
        with self._read(path):
            if not path.is_file():
                raise missing_error(str(path))
            return path.stat().st_size

    def probe(self) -> None:
        probe_store(self)
        self._sweep()

    def _listed(self, prefix: str) -> Sequence[str]:
        *above, _ = prefix.split("/")
        if not {"", ".", ".."}.isdisjoint(above):  # no key has such a step, and the path may lead out of the store
            return []
        folder = self._root.joinpath(*above)
        with self._read(self._root):
            if not _is_dir(folder):
                return []
            found = [entry.relative_to(self._root).as_posix() for entry in _files_below(folder)]
        return [key for key in found if key.startswith(prefix)]

    def _publish(self, key: str, write: Callable[[Path], None], show: Callable[[Path, Path], object]) -> None:
        """Writes aside, then shows under the final name, then syncs the folders in between."""
        target = self._path(key)
        aside = self._root / INCOMING / f"{os.getpid()}-{secrets.token_hex(8)}"
        with _writing(target):
            try:
                made = _missing_folders(target.parent, self._root)
                _make(aside.parent)
                write(aside)
                for attempts_left in reversed(range(10)):
                    _make(target.parent)
                    try:
                        show(aside, target)
                        break
                    except FileNotFoundError:  # deleting a neighbour may take an empty folder away under our feet
                        if not attempts_left:
                            raise
                _sync_folders((target.parent, *(folder.parent for folder in made)))
            finally:
                aside.unlink(missing_ok=True)

    def _sweep(self) -> None:
        """Removes what killed writers left aside a day ago, by the disk's own clock: the probe was written there a moment ago.

        Who writes the store may put a link in the folder's place: what a link leads to is not ours.
        """
        with suppress(OSError):  # it belongs to somebody else, or is a link
            folder = os.open(self._root / INCOMING, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
            try:
                now = os.fstat(folder).st_mtime
                for entry in os.scandir(folder):
                    with suppress(OSError):  # a neighbour was quicker
                        if entry.stat(follow_symlinks=False).st_mtime < now - _ASIDE_MAX_S:
                            os.unlink(entry.name, dir_fd=folder)
            finally:
                os.close(folder)

    def _path(self, key: str) -> Path:
        path = self._root / checked_key(key)
        real = Path(os.path.realpath(path))
        if not real.is_relative_to(os.path.realpath(self._root)):
            raise InvalidKeyError(
                f"object {str(path)!r} not touched: a symbolic link on its path leads out of the store, to {str(real)!r}; remove the link"
            )
        return path

    @contextmanager
    def _read(self, path: Path) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            if not self._root.is_dir():
                raise StoreUnreachableError(
                    f"store {self.uri!r} not read: there is no such folder; check the address, or take a first snapshot"
                ) from None
            raise missing_error(str(path)) from None
        except PermissionError as error:
            raise denied_error("read", str(error.filename or path), error) from error
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise missing_error(str(path)) from None
            raise StoreUnreachableError(f"{str(path)!r} not read: {error.strerror}; check the disk") from error


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise ObjectStoreError(
            f"object {str(path)!r} not written: expected folders on the way to it and no folder of its name, found otherwise "
            f"({error.strerror}); name another folder as the store, or remove what stands there"
        ) from error
    except OSError as error:
        if error.errno in _WRITE_REFUSALS:
            raise StoreUnwritableError(
                f"object {str(path)!r} not written: expected a writable folder with room, found {error.strerror!r}; "
                "free space or correct the permissions, then run again: nothing half-written is visible"
            ) from error
        if error.errno == errno.ENAMETOOLONG:
            raise StoreUnwritableError(
                f"object {str(path)!r} not written: expected names that this disk can hold, mostly of up to 255 bytes, found a longer one; "
                "choose a shorter name, or a store in S3"
            ) from error
        raise StoreUnreachableError(f"object {str(path)!r} not written: {error.strerror}; check the disk") from error


def _is_dir(folder: Path) -> bool:
    """Whether there is such a folder: of a name that the disk cannot hold there is none."""
    try:
        return folder.is_dir()
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        return False


def _files_below(folder: Path) -> Iterator[Path]:
    for entry in os.scandir(folder):
        if entry.name == INCOMING:
            continue
        if entry.is_dir(follow_symlinks=False):
            with suppress(FileNotFoundError):  # a neighbour deleted it meanwhile
                yield from _files_below(Path(entry.path))
        else:
            yield Path(entry.path)


def _write_synced(path: Path, data: bytes) -> None:
    with open(path, "wb", opener=_for_the_owner) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _copy_synced(source: Path, path: Path) -> None:
    with source.open("rb") as reading, open(path, "wb", opener=_for_the_owner) as writing:
        while chunk := reading.read(CHUNK_BYTES):
            writing.write(chunk)
        writing.flush()
        os.fsync(writing.fileno())


def _for_the_owner(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def _make(folder: Path) -> None:
    """Makes a folder and what is missing above it, each for its owner alone."""
    for each in (*reversed(folder.parents), folder):
        if not each.is_dir():
            each.mkdir(mode=0o700, exist_ok=True)


def _missing_folders(folder: Path, root: Path) -> list[Path]:
    """The folders from `folder` up to `root` that are still to be made."""
    missing: list[Path] = []
    while not folder.is_dir() and folder.is_relative_to(root):
        missing.append(folder)
        folder = folder.parent
    return missing


def _sync_folders(folders: Iterable[Path]) -> None:
    """Puts the names of new files and folders on the disk."""
    for folder in folders:
        with suppress(FileNotFoundError):
            descriptor = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
