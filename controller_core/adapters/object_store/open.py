"""Where snapshots, plans and reports are kept: one port, three stores (memory, folder, S3) that behave alike.

A store maps keys (`v1/cluster=c/…/manifest.json`) to bytes. Two promises carry everything that is built on it: an object
is visible whole or not at all, and `put_new` lets exactly one of several racing writers win.
Source: Amazon S3 User Guide, "Conditional writes" and "Checking object integrity"; tests/contracts/test_object_store.py.
"""

import threading
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote, urlsplit

from controller_core.adapters.local_file import write_whole
from controller_core.adapters.object_store.folder import FolderStore
from controller_core.model.errors import ObjectStoreError, StoreAddressError
from controller_core.ports.object_store import INCOMING, ObjectStore, checked_key, exists_error, missing_error

if TYPE_CHECKING:
    from controller_core.adapters.object_store.s3 import S3Store

__all__ = ["INCOMING", "FolderStore", "MemoryStore", "ObjectStore", "open_store"]


def open_store(
    uri: str,
    *,
    endpoint_url: str | None = None,
    access_key: str | None = None,
    secret_key: str | None = None,
    region: str | None = None,
) -> ObjectStore:
    """The store at `uri`: `s3://bucket[/prefix]`, `memory://name`, `file:///folder` or the path of a folder.

    Part of an address is never left out: that would be another place, with its own snapshots or none.

    Args:
        uri: where; a folder is created at the first write.
        endpoint_url: of an S3 server that is not Amazon's.
        access_key: for S3; None takes it from boto3's usual places.
        secret_key: likewise.
        region: likewise.

    Nothing is contacted here: see `ObjectStore.probe`.

    Raises:
        StoreAddressError: another scheme, a host of files, or an address that goes on after its path.
    """
    parts = urlsplit(uri)
    if parts.scheme and (parts.query or parts.fragment):
        raise StoreAddressError(
            f"store {uri!r} not opened: expected an address without '?' and '#', found one that goes on after {parts.path!r}; choose a "
            "prefix without them, or give a folder by its path alone"
        )
    match parts.scheme:
        case "s3":
            if not parts.netloc:
                raise StoreAddressError(
                    f"store {uri!r} not opened: expected s3://bucket or s3://bucket/prefix; name the bucket"
                )
            return _s3_store()(
                parts.netloc,
                parts.path.strip("/"),
                endpoint_url=endpoint_url,
                access_key=access_key,
                secret_key=secret_key,
                region=region,
            )
        case "memory":
            return MemoryStore.named(parts.netloc)
        case "file" if parts.netloc in {"", "localhost"} and parts.path.startswith("/"):
            return FolderStore(Path(unquote(parts.path)))
        case "" if uri:
            return FolderStore(Path(uri))
        case _:
            raise StoreAddressError(
                f"store {uri!r} not opened: expected a folder, file:///folder or s3://bucket/prefix; correct the address"
            )


def _s3_store() -> "type[S3Store]":
    """`S3Store`, whose library only an S3 store needs."""
    try:
        from controller_core.adapters.object_store.s3 import S3Store  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise ObjectStoreError(
            f"store not opened: S3 needs the library {error.name}, which is not installed; pip install boto3, or the wheel with the extra s3"
        ) from error
    return S3Store


class MemoryStore:
    """A store in this process, for tests; `MemoryStore.named` gives the same one for the same name."""

    _named: Final[dict[str, "MemoryStore"]] = {}

    def __init__(self, name: str = "") -> None:
        self._name = name
        self._objects: dict[str, bytes] = {}
        self._writes, self._written = count(1), dict[str, int]()
        self._lock = threading.Lock()

    @classmethod
    def named(cls, name: str) -> "MemoryStore":
        """The store of that name; it lives as long as the process."""
        return cls._named.setdefault(name, cls(name))

    @property
    def uri(self) -> str:
        return f"memory://{self._name}"

    def uri_of(self, key: str) -> str:
        return f"{self.uri}/{key}"

    def put(self, key: str, data: bytes) -> None:
        with self._lock:
            self._refuse_folders(checked_key(key))
            self._keep(key, data)

    def put_new(self, key: str, data: bytes) -> None:
        with self._lock:
            self._refuse_folders(checked_key(key))
            if key in self._objects:
                raise exists_error(self.uri_of(key))
            self._keep(key, data)

    def put_file(self, key: str, path: Path) -> None:
        self.put(key, path.read_bytes())

    def get(self, key: str) -> bytes:
        found = self._objects.get(checked_key(key))
        if found is None:
            raise missing_error(self.uri_of(key))
        return found

    def get_to_file(self, key: str, path: Path) -> None:
        write_whole(path, self.get(key))

    def list(self, prefix: str) -> Sequence[str]:
        return sorted((key for key in tuple(self._objects) if key.startswith(prefix)), key=str.encode)

    def list_newest_first(self, prefix: str) -> Sequence[str]:
        return sorted(self.list(prefix), key=lambda key: self._written.get(key, 0), reverse=True)

    def delete(self, key: str) -> None:
        with self._lock:
            self._objects.pop(checked_key(key), None)
            self._written.pop(key, None)

    def size(self, key: str) -> int:
        return len(self.get(key))

    def probe(self) -> None:
        """Nothing can be wrong with a dict."""

    def _keep(self, key: str, data: bytes) -> None:
        self._objects[key] = bytes(data)
        self._written[key] = next(self._writes)

    def _refuse_folders(self, key: str) -> None:
        """A key below an object, or above one, is refused as a folder refuses it."""
        above = [key[:at] for at, letter in enumerate(key) if letter == "/"]
        if any(step in self._objects for step in above) or any(other.startswith(f"{key}/") for other in self._objects):
            raise ObjectStoreError(f"object {self.uri_of(key)} not written: another key is its folder, or it is theirs")
