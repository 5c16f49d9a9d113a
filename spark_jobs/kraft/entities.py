"""R10, R12 to R16: configs of brokers, quotas, credentials, Kafka's own ACLs, delegation tokens.

Source: Kafka 3.9 `ZkConfigMigrationClient`, `ZkAclMigrationClient`, `ClientQuotaControlManager`; docs/kraft.md.
"""

import math
import re
from collections.abc import Iterator, Mapping
from typing import Final

from controller_core.adapters.snapshot.secrets import WITHHELD, is_secret_config
from controller_core.model.errors import MalformedZnodeError, UnparsedZnodeError
from controller_core.znodes import decode_acl, decode_config
from controller_core.znodes.paths import DEFAULT_ENTITY
from spark_jobs.kraft.judged import Judged, Verdict, against
from spark_jobs.kraft.tree import Tree, is_secret

_OF_CLIENTS: Final = frozenset(
    {"producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"}
)
QUOTAS: Final[Mapping[str, frozenset[str]]] = {
    "users": _OF_CLIENTS,
    "clients": _OF_CLIENTS,
    "ips": frozenset({"connection_creation_rate"}),
}
"""Znode below `/config` → the quotas that Kafka knows there."""
WHOLE: Final[Mapping[str, int]] = {
    "producer_byte_rate": 2**63 - 1,
    "consumer_byte_rate": 2**63 - 1,
    "connection_creation_rate": 2**31 - 1,
}
"""Rates that must be whole, with the greatest that Kafka takes; a negative one keeps the migration in `SYNC_KRAFT_TO_ZK` as a fraction does."""
SCRAM: Final = frozenset({"SCRAM-SHA-256", "SCRAM-SHA-512"})
_NUMBER: Final = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
_DIGITS: Final = re.compile(r"\+?[0-9]{1,19}")
_BROKER_ID: Final = re.compile(r"[+-]?[0-9]{1,10}")
_BROKEN_ESCAPE: Final = re.compile(r"%(?![0-9A-Fa-f]{2})")
_CREDENTIAL: Final = re.compile(r"salt=[^,]+,stored_key=[^,]+,server_key=[^,]+,iterations=\d+")
_ADDRESS: Final = re.compile(rf"{DEFAULT_ENTITY}|[0-9A-Za-z.:_-]+")
RESOURCES: Final[Mapping[str, int]] = {
    "Topic": 2,
    "Group": 3,
    "Cluster": 4,
    "TransactionalId": 5,
    "DelegationToken": 6,
    "User": 7,
}
"""Types of the resources of ACLs, with the code of each in a record (`ResourceType`)."""
OPERATIONS: Final[Mapping[str, int]] = {
    name: code
    for code, name in enumerate(
        (
            "all",
            "read",
            "write",
            "create",
            "delete",
            "alter",
            "describe",
            "clusteraction",
            "describeconfigs",
            "alterconfigs",
            "idempotentwrite",
            "createtokens",
            "describetokens",
        ),
        start=2,
    )
}
PERMISSIONS: Final[Mapping[str, int]] = {"deny": 2, "allow": 3}
"""Kafka reads operations and permissions in any case (`SecurityUtils`); with their codes (`AclOperation`, `AclPermissionType`)."""


def config_values(tree: Tree) -> Judged:
    """R10: every config is an object of strings, and brokers' configs belong to a number or to `<default>`."""
    return against(_bad_configs(tree))


def _bad_configs(tree: Tree) -> Iterator[str]:
    for kind in ("topics", "brokers", "users", "clients", "ips"):
        for path in tree.below(f"/config/{kind}"):
            if tree.znodes[path].why_unread:
                continue
            try:
                decode_config(tree.data(path), path=path)
            except UnparsedZnodeError:
                continue  # copied as no config (R11 names it for topics)
            except MalformedZnodeError as error:
                yield str(error)
    for name in tree.children("/config/brokers"):
        if name != DEFAULT_ENTITY and not (_BROKER_ID.fullmatch(name) and -(2**31) <= int(name) < 2**31):
            yield f"/config/brokers/{name}: neither a broker id nor {DEFAULT_ENTITY}"


def quotas(tree: Tree) -> Judged:
    """R12: quotas have known keys and numbers, names can be decoded, SCRAM stands directly under users."""
    return against(_bad_quotas(tree))


def _bad_quotas(tree: Tree) -> Iterator[str]:
    for kind in QUOTAS:
        for path in tree.below(f"/config/{kind}"):
            yield from (f"{path}: {problem}" for problem in _bad_entity(tree, kind, path))


def _bad_entity(tree: Tree, kind: str, path: str) -> Iterator[str]:
    name, settings = path.rpartition("/")[2], _settings(tree, path)
    is_user = kind == "users" and path.count("/") == 3  # noqa: PLR2004 - /config/users/<user>
    if _BROKEN_ESCAPE.search(name):
        yield f"{name!r} cannot be URL-decoded"
    if kind == "ips" and not _ADDRESS.fullmatch(name):
        yield f"{name!r} is no address; the migration writes it again under another name"
    for key, value in sorted(settings.items()):
        problem = _bad_credential(key, value, is_user=is_user) if key in SCRAM else _bad_quota(kind, key, value)
        if problem is not None:
            yield problem
    if is_secret(tree, path) and not is_user and WITHHELD not in settings.values():
        yield "credentials stand elsewhere than directly under a user"


def _bad_credential(key: str, value: str, *, is_user: bool) -> str | None:
    if not is_user:
        return f"{key} stands elsewhere than directly under a user"
    return None if _CREDENTIAL.fullmatch(value) else f"{key} is no credential"


def _bad_quota(kind: str, key: str, value: str) -> str | None:
    if key not in QUOTAS[kind]:
        return f"{key} is no quota of {kind}"
    if not is_number(value):
        return f"{key}={value!r} is no number"
    if key in WHOLE and not is_whole(key, value):
        return f"{key}={value!r} is no whole number in digits, from 0 to {WHOLE[key]}"
    return None


def is_number(value: str) -> bool:
    """Whether Kafka reads the value of a quota as a finite number."""
    return bool(_NUMBER.fullmatch(value)) and math.isfinite(float(value))


def is_whole(key: str, value: str) -> bool:
    """Whether Kafka takes the value of a rate of `WHOLE`: its ZooKeeper-mode broker does not start with `1e6` or `5.0` (`QuotaConfigHandler`)."""
    return bool(_DIGITS.fullmatch(value)) and int(value) <= WHOLE[key]


def passwords(tree: Tree) -> Judged:
    """R13: whether dynamic configs of brokers hold passwords; the snapshot says that, never which."""
    found = [
        f"/config/brokers/{name}: holds passwords"
        for name in tree.children("/config/brokers")
        if is_secret(tree, f"/config/brokers/{name}")
        or any(is_secret_config("brokers", key) for key in _settings(tree, f"/config/brokers/{name}"))
    ]
    return against(found, Verdict.DECIDE)


def acls(tree: Tree) -> Judged:
    """R14: Kafka's own ACLs have version 1, principals `Type:name`, known resources, operations and permissions."""
    return against(_bad_acls(tree))


def _bad_acls(tree: Tree) -> Iterator[str]:
    for path, kind in _acl_paths(tree):
        if kind not in RESOURCES:
            yield f"{path}: {kind} is no type of a resource"
        if tree.znodes[path].why_unread:
            continue
        if not tree.data(path):
            yield f"{path}: empty; the migration deletes it"
            continue
        try:
            entries = decode_acl(tree.data(path), path=path)
        except MalformedZnodeError as error:
            yield str(error)
            continue
        if not entries:
            yield f"{path}: no rule; the migration deletes it"
        for entry in entries:
            if ":" not in entry.principal:
                yield f"{path}: principal {entry.principal!r} is not Type:name"
            if entry.operation.lower() not in OPERATIONS or entry.permission_type.lower() not in PERMISSIONS:
                yield f"{path}: {entry.permission_type} {entry.operation} is unknown"


def authorizer(tree: Tree) -> Judged:
    """R15: where there are ACLs, an authorizer for KRaft has to be chosen."""
    count = len(list(_acl_paths(tree)))
    if not count:
        return Judged(Verdict.ASK, ("server.properties: authorizer.class.name is not set",))
    return Judged(Verdict.DECIDE, (f"/kafka-acl, /kafka-acl-extended: {count} resources have ACLs",))


def tokens(tree: Tree) -> Judged:
    """R16: delegation tokens need the brokers' secret key on the quorum."""
    count = len(tree.children("/delegation_token/tokens"))
    return against([f"/delegation_token/tokens: {count} tokens"] if count else [], Verdict.DECIDE)


def _settings(tree: Tree, path: str) -> Mapping[str, str]:
    if is_secret(tree, path):
        return tree.public_configs.get(path, {})
    try:
        return decode_config(tree.data(path), path=path).config
    except MalformedZnodeError:
        return {}  # R10 names it


def _acl_paths(tree: Tree) -> Iterator[tuple[str, str]]:
    """Path and type of each resource with ACLs."""
    for root, depth in (("/kafka-acl", 3), ("/kafka-acl-extended", 4)):
        for path in tree.below(root):
            parts = path.split("/")
            if len(parts) == depth + 1:
                yield path, parts[-2]
