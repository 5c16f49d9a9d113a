"""The two sides of a comparison, and what is different between them."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import pyarrow as pa


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two states compared: its raw layer, its decoded tables, and what to call it.

    `unreadable` are the paths that ZooKeeper refused; `torn` says why the side is not consistent, None if it is.
    """

    label: str
    taken_at: datetime
    zxid: int
    raw: pa.Table
    tables: Mapping[str, pa.Table]
    unreadable: tuple[str, ...] = ()
    torn: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is different. `subject` is a topic, partition, broker, config, …; values are JSON's; None: absent.

    `path` is the znode that holds it; None for a subject that is a path itself.
    """

    kind: str
    subject: str
    before: Any
    after: Any
    path: str | None = None


@dataclass(frozen=True, slots=True)
class Diff:
    """All changes from `before` to `after`, grouped by kind in the order of `KINDS`.

    `not_compared` are the paths that one of both could not read, or that hold data which cannot be parsed, with all below
    them. A torn side mixes moments: some of its changes may be none. `noise_count` znodes have other data that no change
    tells: epochs, timestamps, the order of fields. `acls_unknown` znodes have an ACL that one of both does not know.
    """

    before: str
    after: str
    before_zxid: int
    after_zxid: int
    changes: tuple[Change, ...]
    not_compared: tuple[str, ...] = ()
    before_torn: str | None = None
    after_torn: str | None = None
    noise_count: int = 0
    acls_unknown: int = 0


KINDS: Final[Mapping[str, str]] = {
    "cluster_id_changed": "is another cluster",
    "controller_changed": "controller",
    "controller_epoch_changed": "controller epoch",
    "broker_came": "brokers came",
    "broker_gone": "brokers gone",
    "broker_restarted": "brokers restarted",
    "broker_changed": "brokers changed",
    "topic_created": "topics created",
    "topic_deleted": "topics deleted",
    "topic_recreated": "topics recreated",
    "partitions_added": "partitions added",
    "partitions_removed": "partitions removed",
    "replicas_moved": "replicas moved",
    "reassignment_changed": "reassignments begun or ended",
    "leader_changed": "leaders changed",
    "isr_shrunk": "ISR shrunk",
    "isr_grown": "ISR grown",
    "isr_changed": "ISR members replaced",
    "config_added": "configs added",
    "config_removed": "configs removed",
    "config_changed": "configs changed",
    "acl_added": "Kafka ACLs added",
    "acl_removed": "Kafka ACLs removed",
    "secret_changed": "znodes with secrets written",
    "request_made": "requests made",
    "request_gone": "requests gone",
    "notification_made": "notifications made",
    "notification_gone": "notifications gone",
    "bad_znode_found": "znodes that cannot be read",
    "bad_znode_gone": "znodes that can be read again",
    "znode_created": "other znodes created",
    "znode_deleted": "other znodes deleted",
    "znode_changed": "other znodes changed",
    "zookeeper_acl_changed": "ZooKeeper ACLs changed",
    "epoch_changed": "epochs and versions",
}
"""Kind of change → its heading, in the order of reports."""
