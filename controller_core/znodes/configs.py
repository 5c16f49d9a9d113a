"""`/config/…`: overrides of topics, brokers, clients, users and IPs, and the notices of their changes.

Source: Kafka 3.9 `ConfigEntityZNode`, `ConfigEntityChangeNotificationZNode`, `DynamicConfigManager`.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from urllib.parse import quote, unquote

from controller_core.model.errors import MalformedZnodeError
from controller_core.znodes.json_text import encode_object, parse_object
from controller_core.znodes.key_order import properties_order

CHANGE_VERSION_TYPE_AND_NAME, CHANGE_VERSION_PATH = 1, 2
POSITIVE = r"^[\x00-\x20]*\+?([0-9]{1,10})[\x00-\x20]*$"
"""What Kafka reads as a positive integer setting: Java's `trim` and `Integer.parseInt`. Spark SQL reads settings by this pattern, too."""
_INTEGER_MAX = 2**31 - 1
_VERSION = 1


@dataclass(frozen=True, slots=True)
class ConfigZnode:
    """Overrides of one entity, all values text; `extra` holds unknown fields as (name, JSON text)."""

    config: Mapping[str, str]
    extra: tuple[tuple[str, str], ...] = field(default=())


@dataclass(frozen=True, slots=True)
class ConfigChange:
    """Notice that the overrides at `/config/<entity_path>` changed; `version` 1 was written up to Kafka 0.10.0."""

    entity_path: str
    version: int = CHANGE_VERSION_PATH


def decode_config(data: bytes | None, *, path: str) -> ConfigZnode:
    """Overrides; no data, or no `config`, is none.

    Raises:
        UnparsedZnodeError: no JSON; Kafka goes on without overrides.
        MalformedZnodeError: `config` is no object of strings; Kafka throws.
    """
    if not data:
        return ConfigZnode({})
    document = parse_object(data, path)
    extra = document.unknown_fields(("version", "config"))
    if not document.has("config"):
        return ConfigZnode({}, extra)
    config = document.child("config")
    return ConfigZnode({name: config.text(name) for name in config.values}, extra)


def positive_setting(text: str) -> int | None:
    """A setting that has to be an integer of at least 1, such as min.insync.replicas; None for what Kafka refuses."""
    found = re.match(POSITIVE, text)
    number = int(found[1]) if found else 0
    return number if 1 <= number <= _INTEGER_MAX else None


def encode_config(znode: ConfigZnode) -> bytes:
    """Overrides, keys in the order of the `Properties` that Kafka holds them in (Java 9 and later)."""
    config = {name: znode.config[name] for name in properties_order(znode.config)}
    return encode_object([("version", _VERSION), ("config", config)], znode.extra)


def decode_config_change(data: bytes | None, *, path: str) -> ConfigChange:
    """What changed.

    Raises:
        MalformedZnodeError: no JSON, an unknown version, or the fields of that version are missing; Kafka throws.
    """
    document = parse_object(data, path)
    version = document.integer("version", low=CHANGE_VERSION_TYPE_AND_NAME, high=CHANGE_VERSION_PATH)
    if version == CHANGE_VERSION_TYPE_AND_NAME:
        return ConfigChange(f"{document.text('entity_type')}/{document.text('entity_name')}", version)
    entity_path = document.text("entity_path")
    if "/" not in entity_path.strip("/"):
        raise MalformedZnodeError(path, f"field 'entity_path': expected <type>/<name>, found {entity_path[:80]!r}")
    return ConfigChange(entity_path, version)


def encode_config_change(change: ConfigChange) -> bytes:
    """The notice, in its version."""
    if change.version == CHANGE_VERSION_TYPE_AND_NAME:
        entity_type, _, entity_name = change.entity_path.partition("/")
        named = [("entity_type", entity_type), ("entity_name", entity_name)]
        return encode_object([("version", change.version), *named])
    return encode_object([("version", change.version), ("entity_path", change.entity_path)])


def sanitized(name: str) -> str:
    """A user or client id as it stands in a path: URL-encoded, as Kafka's `Sanitizer` does."""
    return quote(name, safe="-._").replace("~", "%7E")


def desanitized(name: str) -> str:
    """The user or client id that a path stands for."""
    return unquote(name)
