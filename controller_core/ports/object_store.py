"""The port of an object store, and what all stores share: which keys are allowed, and what errors say.

Two promises carry everything that is built on a store: an object is visible whole or not at all, and `put_new` lets exactly
one of several racing writers win.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

from controller_core.model.errors import (
    InvalidKeyError,
    ObjectExistsError,
    ObjectMissingError,
    StoreAccessDeniedError,
)

CHUNK_BYTES: Final = 1 << 20
INCOMING: Final = ".incoming"  # folder of half-written files; never listed, never a key


class ObjectStore(Protocol):
    """Keys to bytes. Keys are relative, use `/`, and no key is a folder of another one.

    Errors, of every method: `StoreUnreachableError` when the store does not answer or does not exist,
    `StoreAccessDeniedError` when it refuses the credentials, `InvalidKeyError` for a key that is not allowed.
    """

    @property
    def uri(self) -> str:
        """The store's own address, without a slash at the end: a folder's path, `s3://bucket/prefix`, `memory://name`."""
        ...

    def uri_of(self, key: str) -> str:
        """The address of one object, for people and for messages."""
        ...

    def put(self, key: str, data: bytes) -> None:
        """Writes the object, over an older one if there is one; `StoreUnwritableError` when full or read-only."""
        ...

    def put_new(self, key: str, data: bytes) -> None:
        """Writes the object only if the key is free; `ObjectExistsError` otherwise, and nothing is changed."""
        ...

    def put_file(self, key: str, path: Path) -> None:
        """Writes the content of a local file, like `put`."""
        ...

    def get(self, key: str) -> bytes:
        """The object's bytes; `ObjectMissingError`, or `ObjectDamagedError` when the store's own checksum disagrees."""
        ...

    def get_to_file(self, key: str, path: Path) -> None:
        """Writes the object's bytes to a local file, which appears whole or not at all; errors: see `get`."""
        ...

    def list(self, prefix: str) -> Sequence[str]:
        """All keys that begin with `prefix` (any text, not only a folder), sorted by their bytes."""
        ...

    def list_newest_first(self, prefix: str) -> Sequence[str]:
        """As `list`, those first that this store was given last, by its own clock; what was copied into it is as old as the copy."""
        ...

    def delete(self, key: str) -> None:
        """Removes the object; no error when there is none."""
        ...

    def size(self, key: str) -> int:
        """The object's length in bytes; `ObjectMissingError`."""
        ...

    def probe(self) -> None:
        """Proves that the store can be written and that `put_new` refuses a second writer; `StoreUnwritableError` if not."""
        ...


def checked_key(key: str) -> str:
    """`key`, if it may name an object; `InvalidKeyError` otherwise."""
    steps = key.split("/")
    if "\0" in key or "\\" in key or any(step in {"", ".", "..", INCOMING} for step in steps):
        raise InvalidKeyError(
            f"object key {key!r} refused: expected names joined by single '/', without '\\', none of them empty, '.', '..' or "
            f"{INCOMING!r}; where the store lists it, move away what lies there"
        )
    return key


def put_once(store: ObjectStore, key: str, data: bytes) -> None:
    """`put_new`, for which equal bytes that are there already are as good; `ObjectExistsError` for others.

    A client that repeats a put whose answer was lost meets its own object.
    """
    try:
        store.put_new(key, data)
    except ObjectExistsError:
        if store.get(key) != data:
            raise


def exists_error(uri: str) -> ObjectExistsError:
    """What `put_new` raises for a key that is taken."""
    return ObjectExistsError(f"object {uri!r} not written: it exists already; nothing was changed")


def missing_error(uri: str) -> ObjectMissingError:
    """What `get` and `size` raise for a key that is free."""
    return ObjectMissingError(f"object {uri!r} not found; check the address, or whether it was removed by retention")


def denied_error(action: str, uri: str, error: OSError) -> StoreAccessDeniedError:
    """What a refusal of the file system becomes."""
    return StoreAccessDeniedError(f"{uri!r} not {action}: {error.strerror}; correct the owner or the permissions")
