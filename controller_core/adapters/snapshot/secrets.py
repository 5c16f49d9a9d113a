"""What may not reach the store in the clear, and how it can be kept encrypted.

SCRAM credentials stand in `/config/users/…` beside quotas, passwords (encrypted by the brokers, but with a key that the
brokers' files hold) in `/config/brokers/…`, tokens in `/delegation_token/tokens/…`.
Source: Kafka 3.9 `ScramCredentialUtils`, `DynamicBrokerConfig`.
"""

import base64
import binascii
import hashlib
import re
import secrets
from contextlib import suppress
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from controller_core.model.errors import MalformedZnodeError, SnapshotKeyError
from controller_core.znodes import DELEGATION_TOKENS, decode_config

SECRET: Final = "secret"  # noqa: S105 -- a label
KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_SECRET_KEY: Final = re.compile(r"(?i)^scram-|password|secret|jaas|credential|token|keystore\.key$|private")
_TREES: Final = (f"{DELEGATION_TOKENS}/", "/config/")
_STRICT_TREES: Final = ("/config/users/", "/config/brokers/")


def is_secret_config(key: str) -> bool:
    """Whether the value of a config of this name is a secret."""
    return _SECRET_KEY.search(key) is not None


def is_secret(path: str, data: bytes | None) -> bool:
    """Whether this znode's data must not be stored in the clear.

    Every delegation token is one; a config is one if it has a secret key, or, for users and brokers, if it cannot be read.
    """
    if not data or not path.startswith(_TREES):
        return False
    if path.startswith(_TREES[0]):
        return True
    try:
        config = decode_config(data, path=path).config
    except MalformedZnodeError:
        return path.startswith(_STRICT_TREES)
    return any(is_secret_config(key) for key in config)


def public_config(path: str, data: bytes | None) -> dict[str, str]:
    """The settings of a secret config that are none: quotas of users, for example; nothing when it cannot be read."""
    if not data or not path.startswith(_TREES[1]):
        return {}
    try:
        config = decode_config(data, path=path).config
    except MalformedZnodeError:
        return {}
    return {key: value for key, value in config.items() if not is_secret_config(key)}


class Sealer:
    """Encrypts secrets for the store (AES-256-GCM, a fresh nonce each, the znode's path authenticated with it).

    The first key seals; the others only open what was sealed before the key was changed.
    """

    def __init__(self, *keys: bytes) -> None:
        wrong = [len(key) for key in keys if len(key) != KEY_BYTES]
        if wrong or not keys:
            raise SnapshotKeyError(
                f"key not used: expected {KEY_BYTES} bytes, found {wrong[0] if wrong else 'none'}; make one with `{_MAKE_A_KEY}`"
            )
        self._ciphers = [AESGCM(key) for key in keys]
        self.key_id = hashlib.sha256(b"kafka-maintenance snapshot key\0" + keys[0]).hexdigest()[:16]

    @classmethod
    def from_file(cls, path: Path) -> "Sealer":
        """The keys in a file, one a line: 32 bytes as base64 (44 characters). The first one seals, all of them open."""
        try:
            lines = path.read_bytes().split() or [b""]
            return cls(*(base64.b64decode(line, altchars=b"-_", validate=True) for line in lines))
        except binascii.Error as error:
            raise SnapshotKeyError(
                f"key file {str(path)!r} not used: expected {KEY_BYTES} bytes as base64, found something else ({error}); "
                f"make one with `{_MAKE_A_KEY}`"
            ) from error
        except OSError as error:
            raise SnapshotKeyError(f"key file {str(path)!r} not read: {error.strerror}; correct the path") from error

    def seal(self, path: str, data: bytes) -> bytes:
        """Nonce and encrypted data."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._ciphers[0].encrypt(nonce, data, path.encode())

    def open(self, path: str, sealed: bytes) -> bytes:
        """The data; `SnapshotKeyError` when none is the key, or the bytes were changed or moved to another path."""
        for cipher in self._ciphers:
            with suppress(InvalidTag):
                return cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], path.encode())
        raise SnapshotKeyError(
            f"secret of {path!r} not opened: it was sealed with none of {len(self._ciphers)} keys, the first of which is "
            f"{self.key_id!r}, or damaged; the manifest's `key_id` tells which key"
        )


_MAKE_A_KEY: Final = "head -c 32 /dev/urandom | base64 > snapshot.key"
