"""What is different in the znodes that no decoded table tells of, in secrets, and in ZooKeeper's ACLs."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from controller_core import znodes
from kafka_maintenance.operations.snapshots.changes import Change, Side
from kafka_maintenance.operations.snapshots.unreadable import is_hidden

_BELOW_TOPICS: Final = f"{znodes.TOPICS}/"
_DATA_SHOWN_MAX: Final = 200
_COLUMNS: Final = ("data", "acl", "left_out", "mzxid", "mtime")
_WRITTEN: Final = ("data", "czxid", "mzxid", "acl", "left_out")
"""Equal in both: not written in between. The data, too, for an ensemble that was set back issues a zxid twice."""
_TABLED: Final = (
    _BELOW_TOPICS,
    f"{znodes.BROKER_IDS}/",
    f"{znodes.CONFIG}/",
    f"{znodes.ISR_CHANGE_NOTIFICATION}/",
    f"{znodes.LOG_DIR_EVENT_NOTIFICATION}/",
    f"{znodes.DELETE_TOPICS}/",
    "/kafka-acl/",
    "/kafka-acl-extended/",
    znodes.CLUSTER_ID,
    znodes.CONTROLLER,  # and its epoch
    znodes.REASSIGN_PARTITIONS,
    znodes.PREFERRED_REPLICA_ELECTION,
)
"""Where a znode with other data and no change in a table differs in epochs, timestamps or spelling alone."""
_WITH_ALL_BELOW: Final = (
    "topic_created",
    "topic_deleted",
    "topic_recreated",
    "partitions_added",
    "partitions_removed",
)


@dataclass(frozen=True, slots=True)
class ZnodeChanges:
    """The changes; how many znodes differ in what only `noise` shows; how many ACLs one of both sides does not know."""

    changes: list[Change]
    noise_count: int
    acls_unknown: int


def znode_changes(
    before: Side,
    after: Side,
    told: Sequence[Change],
    *,
    unreadable: Collection[str],
    malformed: Collection[str],
    noise: bool,
) -> ZnodeChanges:
    """Every difference of the raw layers that `told` does not name.

    Args:
        before: one side.
        after: the other one.
        told: the changes found in the decoded tables.
        unreadable: paths that one side could not read; not compared, as all below them.
        malformed: paths that hold what cannot be parsed; their bytes are compared.
        noise: also znodes whose data are spelt otherwise and mean the same.
    """
    named = {change.path for change in told}
    named |= {znodes.config_path("topics", change.subject) for change in told if change.kind.startswith("topic_")}
    trees = {change.path for change in told if change.path is not None and change.kind in _WITH_ALL_BELOW}
    changes: list[Change] = []
    noise_count = unknown = 0
    for path, old, new in _different(before.raw, after.raw):
        if is_hidden(path, unreadable):
            continue
        if old is not None and new is not None and old["acl"] != new["acl"]:
            if old["acl"] is None or new["acl"] is None:
                unknown += 1
            else:
                changes.append(Change("zookeeper_acl_changed", path, old["acl"], new["acl"]))
        if path in named or is_hidden(path, trees):
            continue
        change = _change(path, old, new)
        if change is None:
            continue
        if change.kind == "znode_changed" and path.startswith(_TABLED) and path not in malformed:
            noise_count += 1
            if not noise:
                continue
        changes.append(change)
    return ZnodeChanges(changes, noise_count, unknown)


_Znode = Mapping[str, Any]


def without_equal_topics(before: pa.Table, after: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The raw layers without the topics that were not written in between, if both sides have every znode of them: nothing of these can differ.

    Args:
        before: columns of `raw_layer`.
        after: likewise.
    """
    old, new = (raw.filter(pc.starts_with(raw["path"], _BELOW_TOPICS)) for raw in (before, after))
    joined = _joined(old, new, _WRITTEN)
    differ = reduce(pc.or_, (_differ(joined, name) for name in (*_WRITTEN, "there")))
    topics = _topics(joined["path"].filter(differ)).unique()

    def kept(raw: pa.Table) -> pa.Table:
        elsewhere = pc.invert(pc.starts_with(raw["path"], _BELOW_TOPICS))
        return raw.filter(pc.or_(elsewhere, pc.is_in(_topics(raw["path"]), value_set=topics)))

    return kept(before), kept(after)


def _topics(paths: pa.ChunkedArray) -> pa.ChunkedArray:
    """The topic of each path below `/brokers/topics`; another path stays as it is."""
    return pc.replace_substring_regex(paths, f"^{_BELOW_TOPICS}([^/]*).*$", r"\1")


def _joined(before: pa.Table, after: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Path, and `columns` and `there` of both sides with the suffixes `_old` and `_new`; null where one has no such path."""
    sides = []
    for raw, suffix in ((before, "_old"), (after, "_new")):
        table = raw.select(["path", *columns]).append_column("there", pa.repeat(pa.scalar(value=True), raw.num_rows))
        sides.append(table.rename_columns(["path", *(f"{name}{suffix}" for name in (*columns, "there"))]))
    return sides[0].join(sides[1], keys="path", join_type="full outer", use_threads=False)


def _different(before: pa.Table, after: pa.Table) -> Iterator[tuple[str, _Znode | None, _Znode | None]]:
    """Path and both znodes, None for one that is absent, where data, existence, ACL or a secret's transaction differ."""
    joined = _joined(before, after, _COLUMNS)
    secret = pc.or_(pc.is_valid(joined["left_out_old"]), pc.is_valid(joined["left_out_new"]))
    rewritten = pc.and_(secret, _differ(joined, "mzxid"))
    mask = reduce(pc.or_, (_differ(joined, name) for name in ("data", "acl", "left_out", "there")), rewritten)
    for row in joined.filter(mask).sort_by("path").to_pylist():
        old, new = (
            {name: row[f"{name}{suffix}"] for name in _COLUMNS} if row[f"there{suffix}"] else None
            for suffix in ("_old", "_new")
        )
        yield row["path"], old, new


def _differ(joined: pa.Table, name: str) -> pa.ChunkedArray:
    old, new = joined[f"{name}_old"], joined[f"{name}_new"]
    either_null = pc.not_equal(pc.is_null(old), pc.is_null(new))
    return pc.or_(either_null, pc.fill_null(pc.not_equal(old, new), fill_value=False))


def _change(path: str, old: _Znode | None, new: _Znode | None) -> Change | None:
    match old, new:
        case None, dict():
            return Change("znode_created", path, None, _shown(new))
        case dict(), None:
            return Change("znode_deleted", path, _shown(old), None)
        case dict(), dict():
            if old["left_out"] or new["left_out"]:
                written = old["mzxid"] != new["mzxid"] or old["left_out"] != new["left_out"]
                return Change("secret_changed", path, None, f"changed at {_time(new['mtime'])}") if written else None
            if (old["data"] or b"") != (new["data"] or b""):
                return Change("znode_changed", path, _shown(old), _shown(new))
    return None


def _shown(znode: _Znode) -> str:
    if znode["left_out"]:
        return f"({znode['left_out']})"
    text = (znode["data"] or b"").decode("utf-8", "backslashreplace")
    return text if len(text) <= _DATA_SHOWN_MAX else f"{text[:_DATA_SHOWN_MAX]}… ({len(znode['data'])} bytes)"


def _time(milliseconds: int | None) -> str:
    if milliseconds is None:
        return "an unknown time"
    return datetime.fromtimestamp(milliseconds / 1000, tz=UTC).isoformat(sep=" ", timespec="seconds")
