"""How a store is probed before anything is trusted to it."""

import secrets
from contextlib import suppress

from controller_core.model.errors import ObjectExistsError, ObjectStoreError, StoreUnwritableError
from controller_core.ports.object_store import ObjectStore, put_once


def probe_store(store: ObjectStore) -> None:
    """Proves at a scratch key, removed again, that a second create-only write is refused."""
    key = f"probe/{secrets.token_hex(8)}"
    try:
        put_once(store, key, b"first")
        try:
            store.put_new(key, b"second")
        except ObjectExistsError:
            return
        raise StoreUnwritableError(
            f"store {store.uri!r} refused: a second create-only write of {store.uri_of(key)!r} was accepted, so two runs could "
            "overwrite each other; use a store that honours If-None-Match (Amazon S3, versitygw, a local folder)"
        )
    finally:
        with suppress(ObjectStoreError):
            store.delete(key)
