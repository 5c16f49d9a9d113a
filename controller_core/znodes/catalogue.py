"""Which decoder reads which path: the whole layout as one table.

Source: Kafka 3.9 `ZkData` (`PersistentZkPaths`, `SecureRootPaths`); docs/znodes.md.
"""

import re
from collections.abc import Callable
from typing import NamedTuple

from controller_core.model.errors import MalformedZnodeError
from controller_core.znodes import admin, brokers, configs, controller, partitions, security

Decoder = Callable[[bytes, str, int, int], object]
"""Data, path, znode version and czxid → the value."""


class ZnodeKind(NamedTuple):
    """One row of the layout: `name` is the path with placeholders."""

    name: str
    pattern: re.Pattern[str]
    decode: Decoder


def kind_of(path: str) -> ZnodeKind | None:
    """The row of the layout that `path` belongs to; None for a parent without data, or a path that is not Kafka's."""
    return next((kind for kind in ZNODE_KINDS if kind.pattern.fullmatch(path)), None)


def decode_znode(data: bytes, *, path: str, version: int = 0, czxid: int = -1) -> object:
    """The value of any znode of the layout.

    Args:
        data: its content.
        path: decides which decoder is used.
        version: the znode's version; becomes the partition epoch of a state.
        czxid: becomes the epoch of a broker.

    Returns:
        The value its decoder returns; None for a znode that holds no value.

    Raises:
        MalformedZnodeError: the data is not what Kafka keeps there.
    """
    kind = kind_of(path)
    return None if kind is None else kind.decode(data, path, version, czxid)


def _kind(name: str, decode: Decoder) -> ZnodeKind:
    pattern = re.sub(r"<\w+>", "[^/]+", name).replace("NNNNNNNNNN", "-?[0-9]+")
    return ZnodeKind(name, re.compile(pattern), decode)


def _requested_topic(path: str) -> str:
    """The topic; whatever data there is, Kafka does not look at it."""
    return path.rpartition("/")[2]


def _sequence_id(data: bytes, path: str, version: int) -> int:
    """The last generated broker id is in the znode's version, without the reserved ones."""
    if data:
        raise MalformedZnodeError(path, f"offset 0: expected no data, found {data[:80]!r}")
    return version


ZNODE_KINDS: tuple[ZnodeKind, ...] = (
    _kind("/brokers/topics/<t>/partitions/<p>/state", lambda d, p, v, _: partitions.decode_state(d, path=p, version=v)),
    _kind("/brokers/topics/<t>", lambda d, p, _v, _c: partitions.decode_topic(d, path=p)),
    _kind("/brokers/ids/<id>", lambda d, p, _, c: brokers.decode_broker(d, path=p, epoch=c)),
    _kind("/brokers/seqid", lambda d, p, v, _: _sequence_id(d, p, v)),
    _kind("/controller", lambda d, p, _v, _c: controller.decode_controller(d, path=p)),
    _kind("/controller_epoch", lambda d, p, _v, _c: controller.decode_controller_epoch(d, path=p)),
    _kind("/cluster/id", lambda d, p, _v, _c: controller.decode_cluster_id(d, path=p)),
    _kind("/latest_producer_id_block", lambda d, p, _v, _c: controller.decode_producer_id_block(d, path=p)),
    _kind("/feature", lambda d, p, _v, _c: controller.decode_feature(d, path=p)),
    _kind("/migration", lambda d, p, _v, _c: controller.decode_migration(d, path=p)),
    _kind("/admin/reassign_partitions", lambda d, p, _v, _c: admin.decode_reassign_partitions(d, path=p)),
    _kind("/admin/preferred_replica_election", lambda d, p, _v, _c: admin.decode_preferred_replica_election(d, path=p)),
    _kind("/admin/delete_topics/<t>", lambda _d, p, _v, _c: _requested_topic(p)),
    _kind(
        "/isr_change_notification/isr_change_NNNNNNNNNN",
        lambda d, p, _v, _c: admin.decode_isr_change_notification(d, path=p),
    ),
    _kind(
        "/log_dir_event_notification/log_dir_event_NNNNNNNNNN",
        lambda d, p, _v, _c: admin.decode_log_dir_event(d, path=p),
    ),
    _kind("/config/users/<u>/clients/<c>", lambda d, p, _v, _c: configs.decode_config(d, path=p)),
    _kind("/config/changes/config_change_NNNNNNNNNN", lambda d, p, _v, _c: configs.decode_config_change(d, path=p)),
    *(
        _kind(f"/config/{entity_type}/<e>", lambda d, p, _v, _c: configs.decode_config(d, path=p))
        for entity_type in ("topics", "clients", "users", "brokers", "ips")
    ),
    _kind("/kafka-acl/<type>/<name>", lambda d, p, _v, _c: security.decode_acl(d, path=p)),
    _kind("/kafka-acl-changes/acl_changes_NNNNNNNNNN", lambda d, p, _v, _c: security.decode_acl_change(d, path=p)),
    _kind("/kafka-acl-extended/<pattern>/<type>/<name>", lambda d, p, _v, _c: security.decode_acl(d, path=p)),
    _kind(
        "/kafka-acl-extended-changes/acl_changes_NNNNNNNNNN",
        lambda d, p, _v, _c: security.decode_extended_acl_change(d, path=p),
    ),
    _kind("/delegation_token/tokens/<t>", lambda d, p, _v, _c: security.decode_delegation_token(d, path=p)),
    _kind(
        "/delegation_token/token_changes/token_change_NNNNNNNNNN",
        lambda d, p, _v, _c: security.decode_token_change(d, path=p),
    ),
    _kind("/consumers/<g>/offsets/<t>/<p>", lambda d, p, _v, _c: security.decode_consumer_offset(d, path=p)),
    _kind("/consumers/<g>/owners/<t>/<p>", lambda d, p, _v, _c: security.decode_consumer_owner(d, path=p)),
)
"""Every znode of the layout that holds a value."""
