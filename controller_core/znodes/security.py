"""ACLs, delegation tokens and what is left of the old consumers.

Source: Kafka 3.9 `AclEntry`, `ExtendedAclChangeEvent`, `DelegationTokenManagerZk`,
`ConsumerOffset`; Kafka 0.10.2 `ZkUtils`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from controller_core.model.errors import MalformedZnodeError
from controller_core.znodes.json_text import LONG_MAX, LONG_MIN, Fields, decimal, encode_object, parse_object
from controller_core.znodes.key_order import ScalaVersion, immutable_map_order

_ACL_VERSION = 1
TOKEN_VERSION_REQUESTER = 3


class AclEntry(NamedTuple):
    """One rule, by Kafka's names: `User:alice`, `Allow`, `Read`, `*`."""

    principal: str
    permission_type: str
    operation: str
    host: str


class AclChange(NamedTuple):
    """Which resource's rules changed; `pattern_type` is LITERAL in the old tree, which has no such field."""

    resource_type: str
    name: str
    pattern_type: str = "LITERAL"


@dataclass(frozen=True, slots=True, kw_only=True)
class DelegationToken:
    """A token without its secret; times are milliseconds since 1970-01-01 UTC."""

    token_id: str
    owner: str
    renewers: tuple[str, ...]
    issue_timestamp: int
    max_timestamp: int
    expiry_timestamp: int
    token_requester: str | None = None
    version: int = TOKEN_VERSION_REQUESTER


def decode_acl(data: bytes | None, *, path: str) -> tuple[AclEntry, ...]:
    """The rules of a resource; no data is none.

    Raises:
        MalformedZnodeError: no JSON, a version other than 1, a field missing or mistyped.
    """
    if not data:
        return ()
    document = parse_object(data, path)
    document.integer("version", low=_ACL_VERSION, high=_ACL_VERSION)
    return tuple(
        AclEntry(entry.text("principal"), entry.text("permissionType"), entry.text("operation"), entry.text("host"))
        for entry in document.objects("acls")
    )


def encode_acl(entries: Sequence[AclEntry]) -> bytes:
    """The rules, in the order given."""
    names = ("principal", "permissionType", "operation", "host")
    return encode_object(
        [("version", _ACL_VERSION), ("acls", [dict(zip(names, entry, strict=True)) for entry in entries])]
    )


def decode_acl_change(data: bytes | None, *, path: str) -> AclChange:
    """A notice in `/kafka-acl-changes`: `<ResourceType>:<name>` as text."""
    resource_type, separator, name = _plain(data, path).partition(":")
    if not separator:
        raise MalformedZnodeError(path, f"offset 0: expected <ResourceType>:<name>, found {resource_type[:80]!r}")
    return AclChange(resource_type, name)


def encode_acl_change(change: AclChange) -> bytes:
    """The notice as text."""
    return f"{change.resource_type}:{change.name}".encode()


def decode_extended_acl_change(data: bytes | None, *, path: str) -> AclChange:
    """A notice in `/kafka-acl-extended-changes`; unknown fields are errors, as is a newer version."""
    document = parse_object(data, path)
    document.integer("version", low=0, high=_ACL_VERSION)
    unknown = sorted(document.values.keys() - {"version", "resourceType", "name", "patternType"})
    if unknown:
        what = f"field {unknown[0]!r}: expected only version, resourceType, name and patternType"
        raise MalformedZnodeError(path, what)
    return AclChange(document.text("resourceType"), document.text("name"), document.text("patternType"))


def encode_extended_acl_change(change: AclChange) -> bytes:
    """The notice as JSON."""
    named = [("resourceType", change.resource_type), ("name", change.name), ("patternType", change.pattern_type)]
    return encode_object([("version", _ACL_VERSION), *named])


def decode_delegation_token(data: bytes | None, *, path: str) -> DelegationToken:
    """A token's public part.

    Raises:
        MalformedZnodeError: no JSON, a field missing or mistyped.
    """
    document = parse_object(data, path)
    return DelegationToken(
        token_id=document.text("tokenId"),
        owner=document.text("owner"),
        renewers=document.texts("renewers"),
        issue_timestamp=_milliseconds(document, "issueTimestamp"),
        max_timestamp=_milliseconds(document, "maxTimestamp"),
        expiry_timestamp=_milliseconds(document, "expiryTimestamp"),
        token_requester=document.text_or_none("tokenRequester"),
        version=document.integer("version", low=1),
    )


def encode_delegation_token(token: DelegationToken, *, scala: ScalaVersion = ScalaVersion.V2_13) -> bytes:
    """The token's public part, keys in the order of the writer's Scala."""
    values: dict[str, object] = {"version": token.version, "owner": token.owner}
    if token.token_requester is not None:
        values["tokenRequester"] = token.token_requester
    values |= {
        "renewers": token.renewers, "issueTimestamp": token.issue_timestamp, "maxTimestamp": token.max_timestamp,
        "expiryTimestamp": token.expiry_timestamp, "tokenId": token.token_id,
    }  # fmt: skip
    return encode_object([(key, values[key]) for key in immutable_map_order(list(values), scala)])


def decode_token_change(data: bytes | None, *, path: str) -> str:
    """A notice in `/delegation_token/token_changes`: the token's id."""
    return _plain(data, path)


def decode_consumer_offset(data: bytes | None, *, path: str) -> int:
    """An offset that an old consumer committed, decimal text."""
    return decimal(path, "offset 0", _plain(data, path), low=LONG_MIN, high=LONG_MAX)


def decode_consumer_owner(data: bytes | None, *, path: str) -> str:
    """The consumer thread that owns a partition."""
    return _plain(data, path)


def _milliseconds(document: Fields, name: str) -> int:
    return document.integer(name, low=LONG_MIN, high=LONG_MAX)


def _plain(data: bytes | None, path: str) -> str:
    try:
        text = (data or b"").decode()
    except UnicodeDecodeError as error:
        raise MalformedZnodeError(path, f"offset {error.start}: expected UTF-8 text, found {error.reason}") from None
    if not text:
        raise MalformedZnodeError(path, "offset 0: expected text, found no data")
    return text
