"""What a snapshot could not read is unknown, not gone: the paths that ZooKeeper refused, and all below them.

Source: docs/snapshots.md, "How a cut is taken"; docs/znodes.md for where each row of a table comes from.
"""

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, Final

import pyarrow as pa

from controller_core import znodes
from controller_core.adapters.snapshot.manifest import Manifest
from controller_core.model.partitions import TopicPartition
from controller_core.model.words import first_lines

_SHOWN_MAX: Final = 10
_REQUESTS: Final[Mapping[str, str]] = {
    "reassign_partitions": znodes.REASSIGN_PARTITIONS,
    "preferred_replica_election": znodes.PREFERRED_REPLICA_ELECTION,
}
_NOTIFICATIONS: Final[Mapping[str, str]] = {
    "isr_change": znodes.ISR_CHANGE_NOTIFICATION,
    "log_dir_event": znodes.LOG_DIR_EVENT_NOTIFICATION,
    "config_change": znodes.CONFIG_CHANGES,
}


def _acl_path(pattern: str, resource_type: str, name: str) -> str:
    tree = "/kafka-acl" if pattern == "LITERAL" else f"/kafka-acl-extended/{pattern.lower()}"
    return f"{tree}/{resource_type}/{name}"


_ROWS: Final[Mapping[str, tuple[tuple[str, ...], Callable[..., str]]]] = {
    "partitions": (("topic",), lambda topic: f"{znodes.TOPICS}/{topic}"),
    "topics": (("topic",), lambda topic: f"{znodes.TOPICS}/{topic}"),
    "brokers": (("broker_id",), lambda broker: f"{znodes.BROKER_IDS}/{broker}"),
    "configs": (("entity_type", "entity_name"), lambda kind, name: f"{znodes.CONFIG}/{kind}/{name}"),
    "acls": (("pattern_type", "resource_type", "resource_name"), _acl_path),
    "requests": (("kind", "topic"), lambda kind, topic: _REQUESTS.get(kind, f"{znodes.DELETE_TOPICS}/{topic}")),
    "notifications": (("kind", "name"), lambda kind, name: f"{_NOTIFICATIONS[kind]}/{name}"),
    "bad_rows": (("path",), lambda path: path),
}
"""Table → the columns that tell which znode a row comes from, and that znode's path."""
_CLUSTER: Final[Mapping[str, str]] = {
    "kafka_cluster_id": znodes.CLUSTER_ID,
    "controller_id": znodes.CONTROLLER,
    "controller_epoch": znodes.CONTROLLER_EPOCH,
}
_STATE_COLUMNS: Final = (
    "leader",
    "leader_epoch",
    "isr",
    "controller_epoch",
    "recovery",
    "state_version",
    "state_mtime",
)


def znode_of(table: str, row: Mapping[str, Any]) -> str:
    """The path of the znode that a row of a decoded table comes from."""
    columns, path_of = _ROWS[table]
    return path_of(*(row[column] for column in columns))


def is_hidden(path: str, unreadable: Collection[str]) -> bool:
    """Whether the path is one of those that could not be read, or lies below one."""
    while path and unreadable:
        if path in unreadable:
            return True
        path = path.rpartition("/")[0]
    return False


def without_hidden(tables: Mapping[str, pa.Table], unreadable: Collection[str]) -> Mapping[str, pa.Table]:
    """The decoded tables without the rows that come from hidden znodes; single values of such are null.

    Two sides that are treated alike, each with what either of both could not read, can be compared.
    """
    hidden = frozenset(unreadable)
    if not hidden:
        return tables
    shown = {name: _shown_rows(name, table, hidden) for name, table in tables.items()}
    shown["partitions"] = _without_hidden_states(shown["partitions"], hidden)
    for column, path in _CLUSTER.items():
        if is_hidden(path, hidden):
            shown["cluster"] = _with_nulls(shown["cluster"], column, [None])
    return shown


def unreadable_text(manifests: Iterable[Manifest], about: Collection[str] | None = None) -> list[str]:
    """For people: each path that could not be read, and in how many of these snapshots.

    With `about` only those that hide one of these paths.
    """
    there = list(manifests)
    counts = Counter(path for manifest in there for path in manifest.unreadable)
    if about is not None:
        counts = Counter({path: counts[path] for path in counts if any(is_hidden(each, {path}) for each in about)})
    lines = [
        f"{path} could not be read in {count} of {len(there)} snapshots: what it held then is unknown, not gone"
        for path, count in sorted(counts.items())
    ]
    return list(first_lines(lines, _SHOWN_MAX))


def _shown_rows(name: str, table: pa.Table, hidden: frozenset[str]) -> pa.Table:
    if name not in _ROWS:
        return table
    columns, path_of = _ROWS[name]
    values = zip(*(table[column].to_pylist() for column in columns), strict=True)
    return table.filter(pa.array([not is_hidden(path_of(*row), hidden) for row in values], pa.bool_()))


def _without_hidden_states(table: pa.Table, hidden: frozenset[str]) -> pa.Table:
    """A topic may be readable and the states below it not."""
    partitions = zip(table["topic"].to_pylist(), table["partition"].to_pylist(), strict=True)
    paths = (znodes.state_path(TopicPartition(topic, number)) for topic, number in partitions)
    rows = [None if is_hidden(path, hidden) else row for row, path in enumerate(paths)]
    for column in _STATE_COLUMNS:
        table = _with_nulls(table, column, rows)
    return table


def _with_nulls(table: pa.Table, column: str, rows: list[Any]) -> pa.Table:
    """`column` taken from these rows, null where there is none."""
    at = table.schema.get_field_index(column)
    return table.set_column(at, table.schema.field(at), table[column].take(pa.array(rows, pa.int64())))
