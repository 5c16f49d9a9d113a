"""What may not reach the store in the clear, and how it can be kept encrypted.

SCRAM credentials stand in `/config/users/…` beside quotas, passwords (encrypted by the brokers, but with a key that the
brokers' files hold) in `/config/brokers/…`, tokens in `/delegation_token/tokens/…`. Where credentials may stand, what is not known to be
none counts as one.
Source: Kafka 3.9 `ScramCredentialUtils`, `DynamicBrokerConfig`, `QuotaConfigs`.
"""

import base64
import binascii
import hashlib
import re
import secrets
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from controller_core.model.errors import MalformedZnodeError, SnapshotKeyError
from controller_core.znodes import DELEGATION_TOKENS, decode_config

SECRET: Final = "secret"  # noqa: S105 -- a label
WITHHELD: Final = "…"
"""The value of a setting of a user or client that is taken for a secret: its name is shown, for a migration fails at names that Kafka does not know."""
KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_SECRET_KEY: Final = re.compile(r"(?i)^scram-|password|secret|jaas|credential|token|keystore\.key$|private")
_TREES: Final = (f"{DELEGATION_TOKENS}/", "/config/")
_SCRAM: Final = frozenset(["SCRAM-SHA-256", "SCRAM-SHA-512"])
_NAMES_TOLD: Final = ("users", "clients")
_STRICT_TYPES: Final = ("users", "brokers", "clients")
_STRICT_TREES: Final = tuple(f"/config/{each}/" for each in _STRICT_TYPES)
_QUOTA: Final = re.compile(r"[a-z_]+_(rate|percentage)")
"""A quota by its name, one that no version of Kafka knows too: a migration to KRaft fails at those, so they have to be seen."""
_BROKER_SETTINGS: Final = frozenset(
    [
        "advertised.listeners",
        "background.threads",
        "compression.gzip.level",
        "compression.lz4.level",
        "compression.type",
        "compression.zstd.level",
        "connection.failed.authentication.delay.ms",
        "connections.max.reauth.ms",
        "follower.replication.throttled.rate",
        "leader.replication.throttled.rate",
        "listener.security.protocol.map",
        "listeners",
        "log.cleaner.backoff.ms",
        "log.cleaner.dedupe.buffer.size",
        "log.cleaner.delete.retention.ms",
        "log.cleaner.io.buffer.load.factor",
        "log.cleaner.io.buffer.size",
        "log.cleaner.io.max.bytes.per.second",
        "log.cleaner.max.compaction.lag.ms",
        "log.cleaner.min.cleanable.ratio",
        "log.cleaner.min.compaction.lag.ms",
        "log.cleaner.threads",
        "log.cleanup.policy",
        "log.flush.interval.messages",
        "log.flush.interval.ms",
        "log.index.interval.bytes",
        "log.index.size.max.bytes",
        "log.local.retention.bytes",
        "log.local.retention.ms",
        "log.message.downconversion.enable",
        "log.message.format.version",
        "log.message.timestamp.after.max.ms",
        "log.message.timestamp.before.max.ms",
        "log.message.timestamp.difference.max.ms",
        "log.message.timestamp.type",
        "log.preallocate",
        "log.retention.bytes",
        "log.retention.hours",
        "log.retention.minutes",
        "log.retention.ms",
        "log.roll.hours",
        "log.roll.jitter.hours",
        "log.roll.jitter.ms",
        "log.roll.ms",
        "log.segment.bytes",
        "log.segment.delete.delay.ms",
        "max.connection.creation.rate",
        "max.connections",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "message.max.bytes",
        "metric.reporters",
        "min.insync.replicas",
        "num.io.threads",
        "num.network.threads",
        "num.recovery.threads.per.data.dir",
        "num.replica.fetchers",
        "principal.builder.class",
        "producer.id.expiration.ms",
        "remote.fetch.max.wait.ms",
        "remote.log.index.file.cache.total.size.bytes",
        "remote.log.manager.copier.thread.pool.size",
        "remote.log.manager.copy.max.bytes.per.second",
        "remote.log.manager.expiration.thread.pool.size",
        "remote.log.manager.fetch.max.bytes.per.second",
        "remote.log.reader.threads",
        "replica.alter.log.dirs.io.max.bytes.per.second",
        "sasl.enabled.mechanisms",
        "sasl.kerberos.kinit.cmd",
        "sasl.kerberos.min.time.before.relogin",
        "sasl.kerberos.principal.to.local.rules",
        "sasl.kerberos.service.name",
        "sasl.kerberos.ticket.renew.jitter",
        "sasl.kerberos.ticket.renew.window.factor",
        "sasl.login.refresh.buffer.seconds",
        "sasl.login.refresh.min.period.seconds",
        "sasl.login.refresh.window.factor",
        "sasl.login.refresh.window.jitter",
        "sasl.mechanism.inter.broker.protocol",
        "ssl.cipher.suites",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.endpoint.identification.algorithm",
        "ssl.engine.factory.class",
        "ssl.keymanager.algorithm",
        "ssl.keystore.location",
        "ssl.keystore.type",
        "ssl.protocol",
        "ssl.provider",
        "ssl.secure.random.implementation",
        "ssl.trustmanager.algorithm",
        "ssl.truststore.location",
        "ssl.truststore.type",
        "transaction.partition.verification.enable",
        "unclean.leader.election.enable",
    ]
)
"""Dynamic configs of brokers that are no secrets, without the prefix of a listener."""
_LISTENER: Final = re.compile(r"listener\.name\.[^.]+\.")


def is_secret_name(key: str) -> bool:
    """Whether a config of this name is a secret, wherever it stands."""
    return _SECRET_KEY.search(key) is not None


def is_secret_config(entity_type: str, key: str) -> bool:
    """Whether the value of a config of this name must be kept as a secret.

    Args:
        entity_type: `topics`, `brokers`, `users`, `clients` or `ips`, as below `/config`; of brokers, users and clients every setting is
            one that is not known to be none.
        key: its name.
    """
    if entity_type == "brokers":
        return _LISTENER.sub("", key, count=1) not in _BROKER_SETTINGS
    if entity_type in _STRICT_TYPES:
        return _QUOTA.fullmatch(key) is None
    return is_secret_name(key)


def is_secret(path: str, data: bytes | None) -> bool:
    """Whether this znode's data must not be stored in the clear.

    Every delegation token is one; a config is one if it has a secret key, or, for users, clients and brokers, if it cannot be read.
    """
    if not data or not path.startswith(_TREES):
        return False
    if path.startswith(_TREES[0]):
        return True
    try:
        config = decode_config(data, path=path).config
    except MalformedZnodeError:
        return path.startswith(_STRICT_TREES)
    return any(is_secret_config(_entity_type(path), key) for key in config)


def public_config(path: str, data: bytes | None) -> dict[str, str]:
    """The settings of a secret config that are none: quotas of users, for example; nothing when it cannot be read.

    Of users and clients every name is shown but those of credentials that Kafka itself writes there, with the value `WITHHELD`.
    """
    if not data or not path.startswith(_TREES[1]):
        return {}
    try:
        config = decode_config(data, path=path).config
    except MalformedZnodeError:
        return {}
    kind = _entity_type(path)
    return {
        key: WITHHELD if is_secret_config(kind, key) else value
        for key, value in config.items()
        if not is_secret_config(kind, key) or (kind in _NAMES_TOLD and key not in _SCRAM)
    }


def _entity_type(path: str) -> str:
    return path.split("/")[2]


class Sealer:
    """The keys that encrypt secrets for the store (AES-256-GCM, a fresh nonce each); `of` gives those of one snapshot.

    The first key seals; the others only open what was sealed before the key was changed.
    """

    def __init__(self, *keys: bytes, source: str = "key") -> None:
        wrong = [len(key) for key in keys if len(key) != KEY_BYTES]
        if wrong or not keys:
            raise SnapshotKeyError(
                f"{source} not used: expected {KEY_BYTES} bytes, found {wrong[0] if wrong else 'none'}; make one with `{_MAKE_A_KEY}`"
            )
        self._ciphers = [AESGCM(key) for key in keys]
        self.key_id = hashlib.sha256(b"kafka-maintenance snapshot key\0" + keys[0]).hexdigest()[:16]

    @classmethod
    def from_file(cls, path: Path) -> "Sealer":
        """The keys in a file, one a line: 32 bytes as base64 (44 characters). The first one seals, all of them open."""
        try:
            lines = path.read_bytes().split() or [b""]
            keys = [base64.b64decode(line, altchars=b"-_", validate=True) for line in lines]
            return cls(*keys, source=f"key file {str(path)!r}")
        except binascii.Error as error:
            raise SnapshotKeyError(
                f"key file {str(path)!r} not used: expected {KEY_BYTES} bytes as base64, found something else ({error}); "
                f"make one with `{_MAKE_A_KEY}`"
            ) from error
        except OSError as error:
            raise SnapshotKeyError(f"key file {str(path)!r} not read: {error.strerror}; correct the path") from error

    def of(self, cluster: str, snapshot_id: str) -> "SnapshotSealer":
        """What seals and opens the secrets of that snapshot, and of no other one."""
        return SnapshotSealer(self._ciphers, f"{cluster}\0{snapshot_id}\0", self.key_id)


class SnapshotSealer:
    """Seals and opens the secrets of one snapshot; made by `Sealer.of`.

    Cluster, snapshot and path are authenticated with the data: a value that somebody moves to another place is opened nowhere. One that
    0.1 sealed is bound to its path alone.
    """

    def __init__(self, ciphers: Sequence[AESGCM], bound_to: str, key_id: str) -> None:
        self._ciphers = ciphers
        self._bound_to = bound_to
        self._key_id = key_id

    def seal(self, path: str, data: bytes) -> bytes:
        """Nonce and encrypted data."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._ciphers[0].encrypt(nonce, data, f"{self._bound_to}{path}".encode())

    def open(self, path: str, sealed: bytes) -> bytes:
        """The data; `SnapshotKeyError` when none is the key, or the bytes were changed or moved here from another place."""
        for cipher in self._ciphers:
            for place in (f"{self._bound_to}{path}", path):
                with suppress(InvalidTag, ValueError):  # ValueError: too few bytes for a nonce
                    return cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], place.encode())
        raise SnapshotKeyError(
            f"secret of {path!r} not opened: it was sealed with none of {len(self._ciphers)} keys, the first of which is "
            f"{self._key_id!r}, or damaged, or moved here from another snapshot; the manifest's `key_id` tells which key"
        )


def sealer_of(key_file: Path | None, cluster: str, snapshot_id: str) -> SnapshotSealer | None:
    """What opens the secrets of that snapshot; None without a key file. Raises SnapshotKeyError for a file that holds no keys."""
    return Sealer.from_file(key_file).of(cluster, snapshot_id) if key_file else None


_MAKE_A_KEY: Final = "head -c 32 /dev/urandom | base64 > snapshot.key"
