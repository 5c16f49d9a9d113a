"""A store that is read as it is, and written nowhere: what would be written is listed, and kept for the reads that follow."""

import os
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from controller_core.adapters.local_file import write_whole
from controller_core.adapters.object_store.open import FolderStore, MemoryStore
from controller_core.model.errors import ObjectMissingError
from controller_core.ports.object_store import ObjectStore, checked_key, exists_error, missing_error


class DryRunStore:
    """Another store, over which writes and removals are kept in memory alone; implements `ports.ObjectStore`."""

    def __init__(self, base: ObjectStore, tell: Callable[[str], None]) -> None:
        """`base` is only read; `tell` is called with one line for each write and each removal."""
        self._base, self._tell = base, tell
        self._written = MemoryStore("dry-run")
        self._removed: set[str] = set()
        self._touched = False
        self._lock = threading.Lock()

    @property
    def uri(self) -> str:
        return self._base.uri

    def uri_of(self, key: str) -> str:
        return self._base.uri_of(key)

    def put(self, key: str, data: bytes) -> None:
        with self._lock:
            self._write(key, data)

    def put_new(self, key: str, data: bytes) -> None:
        with self._lock:
            if self._holds(checked_key(key)):
                raise exists_error(self.uri_of(key))
            self._write(key, data)

    def put_file(self, key: str, path: Path) -> None:
        self.put(key, path.read_bytes())

    def get(self, key: str) -> bytes:
        try:
            return self._written.get(key)
        except ObjectMissingError:
            if key in self._removed or self._is_made():
                raise missing_error(self.uri_of(key)) from None
            return self._base.get(key)

    def get_to_file(self, key: str, path: Path) -> None:
        write_whole(path, self.get(key))

    def list(self, prefix: str) -> Sequence[str]:
        there = set() if self._is_made() else {key for key in self._base.list(prefix) if key not in self._removed}
        return sorted(there.union(self._written.list(prefix)), key=os.fsencode)

    def list_newest_first(self, prefix: str) -> Sequence[str]:
        written = self._written.list_newest_first(prefix)
        there = set(self.list(prefix)).difference(written)
        return [*written, *(key for key in (self._base.list_newest_first(prefix) if there else ()) if key in there)]

    def delete(self, key: str) -> None:
        with self._lock:
            if self._holds(checked_key(key)):
                self._written.delete(key)
                self._removed.add(key)
                self._tell(f"would remove {self.uri_of(key)}")

    def size(self, key: str) -> int:
        return len(self.get(key))

    def probe(self) -> None:
        """What is not written needs no proof that it can be; a folder that is not there would be made by it."""
        self._touched = True

    def _is_new(self) -> bool:
        """Whether the store is a folder that the first write would make."""
        return isinstance(self._base, FolderStore) and not Path(self.uri).exists()

    def _is_made(self) -> bool:
        """Whether it is one that would have been made by now, and is empty."""
        return self._touched and self._is_new()

    def _holds(self, key: str) -> bool:
        if self._is_new() and not self._touched:
            return False
        try:
            self.get(key)
        except ObjectMissingError:
            return False
        return True

    def _write(self, key: str, data: bytes) -> None:
        self._touched = True
        self._written.put(key, data)
        self._removed.discard(key)
        self._tell(f"would write {self.uri_of(key)} ({len(data):,} bytes)")
