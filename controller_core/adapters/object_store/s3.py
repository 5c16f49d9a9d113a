"""A store in an S3 bucket, Amazon's or any other that honours conditional writes.

Source: Amazon S3 User Guide, "Conditional writes" and "Checking object integrity"; tests/contracts/test_object_store.py.
"""

import base64
import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import datetime
from functools import cache
from operator import itemgetter
from pathlib import Path
from typing import Any, Final

import boto3
import botocore.session
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    FlexibleChecksumError,
    IncompleteReadError,
    NoCredentialsError,
    PartialCredentialsError,
    ReadTimeoutError,
    ResponseStreamingError,
)
from botocore.loaders import Loader

from controller_core.adapters.local_file import write_whole
from controller_core.adapters.object_store.probe import probe_store
from controller_core.model.errors import (
    ObjectDamagedError,
    ObjectStoreError,
    StoreAccessDeniedError,
    StoreUnreachableError,
    StoreUnwritableError,
)
from controller_core.ports.object_store import checked_key, exists_error, missing_error

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
_TRANSIENT_CODES: Final = frozenset({"InternalError", "RequestTimeout", "ServiceUnavailable", "SlowDown"})
_TRANSIENT_STATUSES: Final = frozenset({"429", "500", "502", "503", "504"})
"""What passes by itself. 501 (no such feature) and 507 (full) do not."""
_ATTEMPTS: Final = 4
_BROKEN_OFF: Final = (IncompleteReadError, ReadTimeoutError, ResponseStreamingError)
"""An answer that ends in its middle: boto3 repeats the request only until the answer has begun."""
_LOST_RACE_CODES: Final = frozenset({"412", "PreconditionFailed"})


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
            retries={"mode": "standard", "max_attempts": _ATTEMPTS},
        )
        try:
            session = _session()
            self._client: Any = session.client(
                "s3",
                endpoint_url=endpoint_url,
                aws_access_key_id=access_key,
                aws_secret_access_key=secret_key,
                region_name=region or session.region_name or "us-east-1",
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
            for _ in range(_ATTEMPTS - 1):
                body = self._body(key)  # what has no answer at all, boto3 has asked for often enough
                with suppress(*_BROKEN_OFF):
                    return bytes(body.read())
            return bytes(self._body(key).read())

    def get_to_file(self, key: str, path: Path) -> None:
        write_whole(path, self.get(key))

    def list(self, prefix: str) -> Sequence[str]:
        return sorted((key for key, _ in self._listed(prefix)), key=str.encode)

    def list_newest_first(self, prefix: str) -> Sequence[str]:
        return [key for key, _ in sorted(self._listed(prefix), key=itemgetter(1), reverse=True)]

    def delete(self, key: str) -> None:
        with self._calling("deleted", key):
            self._client.delete_object(Bucket=self._bucket, Key=self._full(key))

    def size(self, key: str) -> int:
        with self._calling("looked up", key):
            length: int = self._client.head_object(Bucket=self._bucket, Key=self._full(key))["ContentLength"]
            return length

    def probe(self) -> None:
        probe_store(self)

    def _listed(self, prefix: str) -> Iterator[tuple[str, datetime]]:
        """Keys, and when each was written."""
        with self._calling("listed", prefix):
            pages = self._client.get_paginator("list_objects_v2").paginate(
                Bucket=self._bucket, Prefix=self._prefix + prefix
            )
            for page in pages:
                for entry in page.get("Contents", ()):
                    if not entry["Key"].endswith("/"):
                        yield entry["Key"].removeprefix(self._prefix), entry["LastModified"]

    def _body(self, key: str) -> Any:
        return self._client.get_object(Bucket=self._bucket, Key=self._full(key), ChecksumMode="ENABLED")["Body"]

    def _full(self, key: str) -> str:
        return self._prefix + checked_key(key)

    def _put(self, key: str, data: bytes, **conditions: str) -> None:
        checksum = base64.b64encode(hashlib.sha256(data).digest()).decode()
        for may_repeat in (True, False):
            try:
                with self._calling("written", key):
                    self._client.put_object(
                        Bucket=self._bucket,
                        Key=self._full(key),
                        Body=data,
                        ChecksumAlgorithm="SHA256",  # a bucket with object lock wants it named
                        ChecksumSHA256=checksum,
                        **conditions,
                    )
            except _ConflictError:  # Amazon's answer while two conditional writes overlap: ask once more
                if not may_repeat:
                    raise StoreUnreachableError(
                        f"object {self.uri_of(key)!r} not written: expected the store to decide between two writers of it, "
                        "found the conflict (409) twice; run again: nothing half-written is visible"
                    ) from None
            else:
                return

    @contextmanager
    def _calling(self, action: str, key: str) -> Iterator[None]:
        """Translates boto3's errors; `action` is what did not happen."""
        uri = self.uri_of(key)
        try:
            yield
        except ClientError as error:
            raise self._translated(error, action, uri) from error
        except FlexibleChecksumError as error:
            raise ObjectDamagedError(
                f"object {uri!r} not read: its checksum does not match its bytes ({error}); take it from a copy, or drop it"
            ) from error
        except (NoCredentialsError, PartialCredentialsError) as error:
            raise StoreAccessDeniedError(
                f"object {uri!r} not {action}: no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a profile, "
                "or the login of the Airflow connection"
            ) from error
        except BotoCoreError as error:
            raise StoreUnreachableError(
                f"object {uri!r} not {action}: {self._endpoint or 'Amazon S3'} does not answer ({error}); "
                "check the endpoint and the network"
            ) from error

    def _translated(self, error: ClientError, action: str, uri: str) -> ObjectStoreError:
        response: Any = error.response
        code = str(response.get("Error", {}).get("Code", ""))
        status = str(response.get("ResponseMetadata", {}).get("HTTPStatusCode", ""))
        said = response.get("Error", {}).get("Message") or code
        if code == "NoSuchBucket":
            return StoreUnreachableError(
                f"object {uri!r} not {action}: there is no bucket {self._bucket!r}; create it or correct the address"
            )
        if code in _MISSING_CODES:
            return missing_error(uri)
        if code in _LOST_RACE_CODES:
            return exists_error(uri)
        if code == "ConditionalRequestConflict" or (status == "409" and action == "written"):
            return _ConflictError(uri)
        if code in _DENIED_CODES or status in {"401", "403"}:
            return StoreAccessDeniedError(
                f"object {uri!r} not {action}: the store refuses these credentials ({code}: {said}); "
                "check the access key, its secret and what it may do in this bucket"
            )
        if code in {"BadDigest", "XAmzContentChecksumMismatch"}:
            return ObjectDamagedError(f"object {uri!r} not {action}: its bytes changed on the way ({said}); run again")
        if code in _TRANSIENT_CODES or status in _TRANSIENT_STATUSES:
            return StoreUnreachableError(
                f"object {uri!r} not {action}: expected an answer, found {code}: {said} again and again; check the store and "
                "run again"
            )
        if action in {"written", "deleted"}:
            return StoreUnwritableError(
                f"object {uri!r} not {action}: expected a writable bucket with room, found {code}: {said}; "
                "correct that and run again: nothing half-written is visible"
            )
        return StoreUnreachableError(f"object {uri!r} not {action}: {code}: {said}; check the store")


class _ConflictError(ObjectStoreError):
    """Two conditional writes of one key overlapped; neither is decided."""


class _Descriptions(Loader):
    """Amazon's descriptions of its services, as boto3 carries them."""

    @property
    def search_paths(self) -> list[str]:
        return list(super().search_paths)  # a copy, for each session adds a folder of its own


@cache
def _descriptions() -> _Descriptions:
    return _Descriptions()


def _session() -> boto3.session.Session:
    """A session that reads credentials anew, as some sites exchange them, and descriptions once a process: reading them is most of the cost."""
    session = botocore.session.Session()
    session.register_component("data_loader", _descriptions())
    return boto3.session.Session(botocore_session=session)
