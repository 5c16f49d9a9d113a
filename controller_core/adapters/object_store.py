"""Where snapshots, plans and reports are kept: one port, three stores (memory, folder, S3) that behave alike.

A store maps keys (`v1/cluster=c/…/manifest.json`) to bytes. Two promises carry everything that is built on it: an object
is visible whole or not at all, and `put_new` lets exactly one of several racing writers win.
Source: storage-and-services §1 (what real S3 servers do with conditional writes and checksums).
"""

import base64
import errno
import hashlib
import os
import secrets
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import unquote, urlsplit

import boto3
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    FlexibleChecksumError,
    NoCredentialsError,
    PartialCredentialsError,
)

from controller_core.errors import (
    ObjectDamagedError,
    ObjectExistsError,
    ObjectMissingError,
    ObjectStoreError,
    StoreAccessDeniedError,
    StoreUnreachableError,
    StoreUnwritableError,
)

CHUNK_BYTES: Final = 1 << 20
INCOMING: Final = ".incoming"  # folder of half-written files; never listed, never a key
_WRITE_REFUSALS: Final = frozenset({errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_DENIED_CODES: Final = frozenset(
    {
        "403",
        "401",
        "AccessDenied",
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "ExpiredToken",
        "InvalidToken",
        "Forbidden",
        "XAdminUserNotFound",
    }
)
_MISSING_CODES: Final = frozenset({"404", "NoSuchKey", "NotFound"})
_LOST_RACE_CODES: Final = frozenset({"412", "PreconditionFailed"})


class ObjectStore(Protocol):
    """Keys to bytes. Keys are relative, use `/`, and no key is a folder of another one.

    Errors, of every method: `StoreUnreachableError` when the store does not answer or does not exist,
    `StoreAccessDeniedError` when it refuses the credentials, `ObjectStoreError` for a key that is not allowed.
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
        """Writes the object's bytes to a local file, which appears whole or not at all; errors as of `get`."""
        ...

    def list(self, prefix: str) -> Sequence[str]:
        """All keys that begin with `prefix` (any text, not only a folder), sorted by their bytes."""
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


def open_store(
    uri: str,
    *,
    endpoint_url: str | None = None,
    access_key: str | None = None,
    secret_key: str | None = None,
    region: str | None = None,
) -> ObjectStore:
    """The store at `uri`: `s3://bucket[/prefix]`, `memory://name`, `file:///folder` or the path of a folder.

    Args:
        uri: where; a folder is created at the first write.
        endpoint_url: of an S3 server that is not Amazon's.
        access_key: for S3; None takes it from boto3's usual places.
        secret_key: likewise.
        region: likewise.

    Errors: `ObjectStoreError` for another scheme. Nothing is contacted here: see `ObjectStore.probe`.
    """
    parts = urlsplit(uri)
    match parts.scheme:
        case "s3":
            if not parts.netloc:
                raise ObjectStoreError(
                    f"store {uri!r} not opened: expected s3://bucket or s3://bucket/prefix; name the bucket"
                )
            return S3Store(
                parts.netloc,
                parts.path.strip("/"),
                endpoint_url=endpoint_url,
                access_key=access_key,
                secret_key=secret_key,
                region=region,
            )
        case "memory":
            return MemoryStore.named(parts.netloc)
        case "file":
            return FolderStore(Path(unquote(parts.path)))
        case "" if uri:
            return FolderStore(Path(uri))
        case _:
            raise ObjectStoreError(
                f"store {uri!r} not opened: expected a folder, file:///folder or s3://bucket/prefix; correct the address"
            )


def checked_key(key: str) -> str:
    """`key`, if it may name an object; `ObjectStoreError` otherwise."""
    steps = key.split("/")
    if "\0" in key or "\\" in key or any(step in {"", ".", "..", INCOMING} for step in steps):
        raise ObjectStoreError(
            f"object key {key!r} refused: expected names joined by single '/', none of them empty, '.', '..' or {INCOMING!r}"
        )
    return key


# ------------------------------------------------------------------------------------------------------- memory


class MemoryStore:
    """A store in this process, for tests; `MemoryStore.named` gives the same one for the same name."""

    _named: Final[dict[str, "MemoryStore"]] = {}

    def __init__(self, name: str = "") -> None:
        self._name = name
        self._objects: dict[str, bytes] = {}
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
            self._objects[key] = bytes(data)

    def put_new(self, key: str, data: bytes) -> None:
        with self._lock:
            self._refuse_folders(checked_key(key))
            if key in self._objects:
                raise _exists(self.uri_of(key))
            self._objects[key] = bytes(data)

    def put_file(self, key: str, path: Path) -> None:
        self.put(key, path.read_bytes())

    def get(self, key: str) -> bytes:
        found = self._objects.get(checked_key(key))
        if found is None:
            raise _missing(self.uri_of(key))
        return found

    def get_to_file(self, key: str, path: Path) -> None:
        _write_whole(path, self.get(key))

    def list(self, prefix: str) -> Sequence[str]:
        return sorted((key for key in tuple(self._objects) if key.startswith(prefix)), key=str.encode)

    def delete(self, key: str) -> None:
        with self._lock:
            self._objects.pop(checked_key(key), None)

    def size(self, key: str) -> int:
        return len(self.get(key))

    def probe(self) -> None:
        """Nothing can be wrong with a dict."""

    def _refuse_folders(self, key: str) -> None:
        """A key below an object, or above one, is refused as a folder refuses it."""
        above = [key[:at] for at, letter in enumerate(key) if letter == "/"]
        if any(step in self._objects for step in above) or any(other.startswith(f"{key}/") for other in self._objects):
            raise ObjectStoreError(f"object {self.uri_of(key)} not written: another key is its folder, or it is theirs")


# ------------------------------------------------------------------------------------------------------- folder


class FolderStore:
    """A store in a local folder. Every object is written aside, synced, and then renamed or linked to its name."""

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
                raise _exists(str(target)) from None

        self._publish(key, lambda aside: _write_synced(aside, data), link)

    def put_file(self, key: str, path: Path) -> None:
        self._publish(key, lambda aside: _copy_synced(path, aside), lambda aside, target: aside.replace(target))

    def get(self, key: str) -> bytes:
        path = self._root / checked_key(key)
        with self._read(path):
            return path.read_bytes()

    def get_to_file(self, key: str, path: Path) -> None:
        _write_whole(path, self.get(key))

    def list(self, prefix: str) -> Sequence[str]:
        folder = self._root / prefix.rpartition("/")[0] if "/" in prefix else self._root
        with self._read(self._root):
            if not folder.is_dir():
                return []
            found = [entry.relative_to(self._root).as_posix() for entry in _files_below(folder)]
        return sorted((key for key in found if key.startswith(prefix)), key=os.fsencode)

    def delete(self, key: str) -> None:
        path = self._root / checked_key(key)
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
        path = self._root / checked_key(key)
        with self._read(path):
            if not path.is_file():
                raise _missing(str(path))
            return path.stat().st_size

    def probe(self) -> None:
        key = f"probe/{secrets.token_hex(8)}"
        try:
            _probe(self, key)
        finally:
            with suppress(ObjectStoreError):
                self.delete(key)

    def _publish(self, key: str, write: Callable[[Path], None], show: Callable[[Path, Path], object]) -> None:
        """Writes aside, then shows under the final name, then syncs the folders in between."""
        target = self._root / checked_key(key)
        aside = self._root / INCOMING / f"{os.getpid()}-{secrets.token_hex(8)}"
        with _writing(target):
            try:
                made = _missing_folders(target.parent, self._root)
                aside.parent.mkdir(parents=True, exist_ok=True)
                write(aside)
                for attempts_left in reversed(range(10)):
                    target.parent.mkdir(parents=True, exist_ok=True)
                    try:
                        show(aside, target)
                        break
                    except FileNotFoundError:  # deleting a neighbour may take an empty folder away under our feet
                        if not attempts_left:
                            raise
                _sync_folders((target.parent, *(folder.parent for folder in made)))
            finally:
                aside.unlink(missing_ok=True)

    @contextmanager
    def _read(self, path: Path) -> Iterator[None]:
        try:
            yield
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            if not self._root.is_dir():
                raise StoreUnreachableError(
                    f"store {self.uri!r} not read: there is no such folder; check the address, or take a first snapshot"
                ) from None
            raise _missing(str(path)) from None
        except PermissionError as error:
            raise _denied("read", str(path), error) from error
        except OSError as error:
            raise StoreUnreachableError(f"{str(path)!r} not read: {error.strerror}; check the disk") from error


@contextmanager
def _writing(path: Path) -> Iterator[None]:
    try:
        yield
    except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
        raise ObjectStoreError(
            f"object {str(path)!r} not written: another key is its folder, or it is theirs ({error.strerror})"
        ) from error
    except OSError as error:
        if error.errno in _WRITE_REFUSALS:
            raise StoreUnwritableError(
                f"object {str(path)!r} not written: expected a writable folder with room, found {error.strerror!r}; "
                "free space or correct the permissions, then run again: nothing half-written is visible"
            ) from error
        raise StoreUnreachableError(f"object {str(path)!r} not written: {error.strerror}; check the disk") from error


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
    with path.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())


def _copy_synced(source: Path, path: Path) -> None:
    with source.open("rb") as reading, path.open("wb") as writing:
        while chunk := reading.read(CHUNK_BYTES):
            writing.write(chunk)
        writing.flush()
        os.fsync(writing.fileno())


def _write_whole(path: Path, data: bytes) -> None:
    """A local file that appears whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    aside = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    try:
        aside.write_bytes(data)
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


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


# ------------------------------------------------------------------------------------------------------- S3


class S3Store:
    """A store in an S3 bucket, below a prefix. Puts carry SHA-256 checksums, reads verify them.

    One object is one `PutObject`: a snapshot's largest object is some tens of MB, so multipart never pays.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        endpoint_url: str | None = None,
        access_key: str | None = None,
        secret_key: str | None = None,
        region: str | None = None,
    ) -> None:
        self._bucket = bucket
        self._prefix = f"{prefix}/" if prefix else ""
        self._endpoint = endpoint_url
        config = Config(
            signature_version="s3v4",  # v2, boto3's default for some regions, is refused by real servers
            s3={"addressing_style": "path"},
            connect_timeout=5,
            read_timeout=60,
            retries={"mode": "standard", "max_attempts": 4},
        )
        try:
            self._client: Any = boto3.session.Session().client(
                "s3",
                endpoint_url=endpoint_url,
                aws_access_key_id=access_key,
                aws_secret_access_key=secret_key,
                region_name=region or boto3.session.Session().region_name or "us-east-1",
                config=config,
            )
        except (BotoCoreError, ValueError) as error:
            raise ObjectStoreError(
                f"store {self.uri!r} not opened: {error}; correct the endpoint or the profile"
            ) from error

    @property
    def uri(self) -> str:
        return f"s3://{self._bucket}/{self._prefix}".rstrip("/")

    def uri_of(self, key: str) -> str:
        return f"{self.uri}/{key}"

    def put(self, key: str, data: bytes) -> None:
        self._put(key, data)

    def put_new(self, key: str, data: bytes) -> None:
        self._put(key, data, IfNoneMatch="*")

    def put_file(self, key: str, path: Path) -> None:
        self._put(key, path.read_bytes())

    def get(self, key: str) -> bytes:
        with self._calling("read", key):
            reply = self._client.get_object(Bucket=self._bucket, Key=self._full(key), ChecksumMode="ENABLED")
            data: bytes = reply["Body"].read()
            return data

    def get_to_file(self, key: str, path: Path) -> None:
        _write_whole(path, self.get(key))

    def list(self, prefix: str) -> Sequence[str]:
        found: list[str] = []
        with self._calling("listed", prefix):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix + prefix
            )
            for page in pages:
                found.extend(entry["Key"].removeprefix(self._prefix) for entry in page.get("Contents", ()))
        return sorted((key for key in found if not key.endswith("/")), key=str.encode)

    def delete(self, key: str) -> None:
        with self._calling("deleted", key):
            self._client.delete_object(Bucket=self._bucket, Key=self._full(key))

    def size(self, key: str) -> int:
        with self._calling("looked up", key):
            length: int = self._client.head_object(Bucket=self._bucket, Key=self._full(key))["ContentLength"]
            return length

    def probe(self) -> None:
        key = f"probe/{secrets.token_hex(8)}"
        try:
            _probe(self, key)
        finally:
            with suppress(ObjectStoreError):
                self.delete(key)

    def _full(self, key: str) -> str:
        return self._prefix + checked_key(key)

    def _put(self, key: str, data: bytes, **conditions: str) -> None:
        checksum = base64.b64encode(hashlib.sha256(data).digest()).decode()
        for may_repeat in (True, False):
            try:
                with self._calling("written", key):
                    self._client.put_object(
                        Bucket=self._bucket, Key=self._full(key), Body=data, ChecksumSHA256=checksum, **conditions
                    )
            except (
                _ConflictError
            ):  # Amazon's answer while two conditional writes overlap: ask once more, then it is decided
                if not may_repeat:
                    raise _exists(self.uri_of(key)) from None
            else:
                return

    @contextmanager
    def _calling(self, deed: str, key: str) -> Iterator[None]:
        """Translates boto3's errors; `deed` is what did not happen."""
        uri = self.uri_of(key)
        try:
            yield
        except ClientError as error:
            raise self._translated(error, deed, uri) from error
        except FlexibleChecksumError as error:
            raise ObjectDamagedError(
                f"object {uri!r} not read: its checksum does not match its bytes ({error}); take it from a copy, or drop it"
            ) from error
        except (NoCredentialsError, PartialCredentialsError) as error:
            raise StoreAccessDeniedError(
                f"object {uri!r} not {deed}: no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, "
                "or the login of the Airflow connection"
            ) from error
        except BotoCoreError as error:
            raise StoreUnreachableError(
                f"object {uri!r} not {deed}: {self._endpoint or 'Amazon S3'} does not answer ({error}); "
                "check the endpoint and the network"
            ) from error

    def _translated(self, error: ClientError, deed: str, uri: str) -> ObjectStoreError:
        response: Any = error.response
        code = str(response.get("Error", {}).get("Code", ""))
        status = str(response.get("ResponseMetadata", {}).get("HTTPStatusCode", ""))
        said = response.get("Error", {}).get("Message") or code
        if code == "NoSuchBucket":
            return StoreUnreachableError(
                f"object {uri!r} not {deed}: there is no bucket {self._bucket!r}; create it or correct the address"
            )
        if code in _MISSING_CODES:
            return _missing(uri)
        if code in _LOST_RACE_CODES:
            return _exists(uri)
        if code == "ConditionalRequestConflict" or (status == "409" and deed == "written"):
            return _ConflictError(uri)
        if code in _DENIED_CODES or status in {"401", "403"}:
            return StoreAccessDeniedError(
                f"object {uri!r} not {deed}: the store refuses these credentials ({code}: {said}); "
                "check the access key, its secret and what it may do in this bucket"
            )
        if code in {"BadDigest", "XAmzContentChecksumMismatch"}:
            return ObjectDamagedError(f"object {uri!r} not {deed}: its bytes changed on the way ({said}); run again")
        if deed in {"written", "deleted"}:
            return StoreUnwritableError(
                f"object {uri!r} not {deed}: expected a writable bucket with room, found {code}: {said}; "
                "correct that and run again: nothing half-written is visible"
            )
        return StoreUnreachableError(f"object {uri!r} not {deed}: {code}: {said}; check the store")


class _ConflictError(ObjectStoreError):
    """Two conditional writes of one key overlapped; neither is decided."""


# ------------------------------------------------------------------------------------------------------- shared


def _probe(store: ObjectStore, key: str) -> None:
    store.put_new(key, b"first")
    try:
        store.put_new(key, b"second")
    except ObjectExistsError:
        return
    raise StoreUnwritableError(
        f"store {store.uri!r} refused: a second create-only write of {store.uri_of(key)!r} was accepted, so two runs could "
        "overwrite each other; use a store that honours If-None-Match (Amazon S3, versitygw, a local folder)"
    )


def _exists(uri: str) -> ObjectExistsError:
    return ObjectExistsError(f"object {uri!r} not written: it exists already; nothing was changed")


def _missing(uri: str) -> ObjectMissingError:
    return ObjectMissingError(f"object {uri!r} not found; check the address, or whether it was removed by retention")


def _denied(deed: str, uri: str, error: OSError) -> StoreAccessDeniedError:
    return StoreAccessDeniedError(f"{uri!r} not {deed}: {error.strerror}; correct the owner or the permissions")
