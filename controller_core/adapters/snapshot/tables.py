"""The columns of a snapshot: the raw layer, from which everything is rebuilt, and the decoded tables.

Every row of every table begins with `cluster`, `snapshot_id` and `taken_at`. Numbers are Kafka's own widths, times are UTC
with microseconds, absent values are null. `spark_jobs/schemas.py` derives Spark's schemas from these.
Source: docs/snapshots.md, "Tables"; docs/znodes.md for the meaning of the columns.
"""

from collections.abc import Mapping
from typing import Final

import pyarrow as pa

TIMESTAMP: Final = pa.timestamp("us", tz="UTC")
_BROKERS: Final = pa.list_(pa.int32())


_SINCE: Final = b"since"


def _field(name: str, kind: pa.DataType, *, nullable: bool = False, since: str | None = None) -> pa.Field:
    """A column; `since` is the date of the commit that added it: snapshots taken by older versions lack it."""
    return pa.field(name, kind, nullable=nullable, metadata=None if since is None else {_SINCE: since})


_COMMON: Final = (_field("cluster", pa.string()), _field("snapshot_id", pa.string()), _field("taken_at", TIMESTAMP))


def _table(*columns: pa.Field) -> pa.Schema:
    return pa.schema([*_COMMON, *columns])


PARTITIONS: Final = _table(
    _field("topic", pa.string()),
    _field("partition", pa.int32()),
    _field("replicas", _BROKERS),
    _field("adding", _BROKERS),
    _field("removing", _BROKERS),
    _field("preferred_leader", pa.int32(), nullable=True),
    _field("leader", pa.int32(), nullable=True),
    _field("leader_epoch", pa.int32(), nullable=True),
    _field("isr", _BROKERS, nullable=True),
    _field("controller_epoch", pa.int32(), nullable=True),
    _field("recovery", pa.int32(), nullable=True),
    _field("state_version", pa.int32(), nullable=True),
    _field("state_mtime", TIMESTAMP, nullable=True),
    _field("czxid", pa.int64()),
)
TOPICS: Final = _table(
    _field("topic", pa.string()),
    _field("topic_id", pa.string(), nullable=True),
    _field("partition_count", pa.int32()),
    _field("json_version", pa.int32(), nullable=True),
    _field("znode_version", pa.int32()),
    _field("czxid", pa.int64()),
    _field("mzxid", pa.int64()),
    _field("ctime", TIMESTAMP),
    _field("mtime", TIMESTAMP),
    _field("deletion_requested", pa.bool_()),
)
BROKERS: Final = _table(
    _field("broker_id", pa.int32()),
    _field("host", pa.string(), nullable=True),
    _field("port", pa.int32(), nullable=True),
    _field("rack", pa.string(), nullable=True),
    _field("endpoints", pa.list_(pa.string())),
    _field("json_version", pa.int32()),
    _field("broker_epoch", pa.int64()),
    _field("registered_at", TIMESTAMP),
)
CONFIGS: Final = _table(
    _field("entity_type", pa.string()),
    _field("entity_name", pa.string()),
    _field("key", pa.string()),
    _field("value", pa.string()),
)
ACLS: Final = _table(
    _field("resource_type", pa.string()),
    _field("resource_name", pa.string()),
    _field("pattern_type", pa.string()),
    _field("principal", pa.string()),
    _field("host", pa.string()),
    _field("operation", pa.string()),
    _field("permission", pa.string()),
)
REQUESTS: Final = _table(
    _field("kind", pa.string()),
    _field("topic", pa.string()),
    _field("partition", pa.int32(), nullable=True),
    _field("replicas", _BROKERS, nullable=True),
    _field("ctime", TIMESTAMP),
)
NOTIFICATIONS: Final = _table(
    _field("kind", pa.string()),
    _field("name", pa.string()),
    _field("topic", pa.string(), nullable=True),
    _field("partition", pa.int32(), nullable=True),
    _field("broker", pa.int32(), nullable=True),
    _field("ctime", TIMESTAMP),
)
CLUSTER: Final = _table(
    _field("kafka_cluster_id", pa.string(), nullable=True),
    _field("controller_id", pa.int32(), nullable=True),
    _field("controller_epoch", pa.int32(), nullable=True),
    _field("controller_epoch_version", pa.int32(), nullable=True),
    _field("controller_json_version", pa.int32(), nullable=True),
    _field("kraft_controller_epoch", pa.int32(), nullable=True),
    _field("migration", pa.string(), nullable=True),
    _field("zxid", pa.int64()),
    _field("consistent", pa.bool_()),
    _field("isr_change_cversion", pa.int32(), nullable=True),
    _field("version_znodes", pa.list_(pa.string()), nullable=True, since="2026-11-23"),
)
LATER_TABLES: Final = frozenset({"acls"})
"""Tables that snapshots taken before release 0.2 do not have stored; they are decoded from raw."""
BAD_ROWS: Final = _table(_field("path", pa.string()), _field("reason", pa.string()))

TABLES: Final[Mapping[str, pa.Schema]] = {
    "partitions": PARTITIONS,
    "topics": TOPICS,
    "brokers": BROKERS,
    "configs": CONFIGS,
    "acls": ACLS,
    "requests": REQUESTS,
    "notifications": NOTIFICATIONS,
    "cluster": CLUSTER,
    "bad_rows": BAD_ROWS,
}


def came_later(field: pa.Field) -> bool:
    """Whether snapshots may lack the column, because a later version of this program added it: it is null there."""
    return _SINCE in (field.metadata or {})


def with_later_columns(table: pa.Table, name: str) -> pa.Table:
    """`table`, as it was stored under `name`, with nulls in the columns that came later."""
    for field in TABLES[name]:
        if came_later(field) and field.name not in table.column_names:
            table = table.append_column(field, pa.nulls(table.num_rows, field.type))
    return table


STAT_COLUMNS: Final = (
    "czxid",
    "mzxid",
    "ctime",
    "mtime",
    "version",
    "cversion",
    "aversion",
    "ephemeral_owner",
    "data_length",
    "num_children",
    "pzxid",
)
_STAT_32: Final = frozenset({"version", "cversion", "aversion", "data_length", "num_children"})

ZNODES: Final = _table(
    _field("path", pa.string()),
    _field("data", pa.string(), nullable=True),
    *(
        _field(
            name,
            TIMESTAMP if name in {"ctime", "mtime"} else pa.int32() if name in _STAT_32 else pa.int64(),
            nullable=True,
        )
        for name in STAT_COLUMNS
    ),
    _field("acl", pa.string(), nullable=True),
    _field("left_out", pa.string(), nullable=True),
)
"""Every znode, for questions; made from raw, never stored."""

NO_PERMISSION: Final = "no permission"
"""Why the data of a znode is left out that the session may not read."""
RAW: Final = pa.schema(
    [
        _field("path", pa.string()),
        _field("data", pa.binary(), nullable=True),  # null: no data (as Java writes it), redacted, or not readable
        # Stat as ZooKeeper sent it: zxids and ephemeral_owner as numbers, times in ms since 1970. Null where a znode is
        # not readable and changed after the cut.
        *(_field(name, pa.int32() if name in _STAT_32 else pa.int64(), nullable=True) for name in STAT_COLUMNS),
        _field("acl", pa.string(), nullable=True),  # JSON [[perms, scheme, id], …]; null: unknown
        _field("left_out", pa.string(), nullable=True),  # why `data` is not here: "secret" or "no permission"
        _field("sealed", pa.binary(), nullable=True),  # a secret's data, encrypted
    ]
)
