"""What is different in the znodes that no decoded table tells of, in secrets, and in ZooKeeper's ACLs."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import reduce
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from controller_core import znodes
from kafka_maintenance.operations.snapshots.changes import Change, Side
from kafka_maintenance.operations.snapshots.unreadable import is_hidden

_BELOW_TOPICS: Final = f"{znodes.TOPICS}/"
_BELOW_CONFIG: Final = f"{znodes.CONFIG}/"
_DATA_SHOWN_MAX: Final = 200
_COLUMNS: Final = ("data", "acl", "left_out", "mzxid", "mtime")
_WRITTEN: Final = ("data", "czxid", "mzxid", "acl", "left_out")
"""Equal in both: not written in between. The data, too, for an ensemble that was set back issues a zxid twice."""
_TABLED: Final = (
    _BELOW_TOPICS,
    f"{znodes.BROKER_IDS}/",
    _BELOW_CONFIG,
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


def without_equal(before: pa.Table, after: pa.Table) -> tuple[pa.Table, pa.Table]:
    """The raw layers without what nobody wrote to in between and both have: the topics, the states of the others, and the configs.

    A topic's znode stays with each znode below it that is different. Of a secret the raw layer does not tell all: it stays.

    Args:
        before: columns of `raw_layer`, sorted by path.
        after: likewise.
    """
    place = pc.index_in(after["path"], value_set=before["path"]).combine_chunks()
    stays = np.zeros(before.num_rows, dtype=bool)
    stays[place.drop_null().to_numpy()] = True
    old, new = _only(before, pa.array(stays)), _only(after, place.is_valid())  # the same paths in the same order
    secret = pc.or_(pc.is_valid(old["left_out"]), pc.is_valid(new["left_out"]))
    differ = reduce(pc.or_, (_differ(old[name], new[name]) for name in _WRITTEN), secret)
    parts = (
        old["path"].filter(differ),
        before["path"].filter(pa.array(~stays)),
        after["path"].filter(place.is_null()),
    )
    paths = pa.chunked_array([chunk for part in parts for chunk in part.chunks], pa.string())
    topics = pc.replace_substring_regex(paths, f"^({_BELOW_TOPICS}[^/]*).*$", r"\1")
    wanted = pa.chunked_array([*paths.chunks, *topics.chunks], pa.string())

    def kept(raw: pa.Table) -> pa.Table:
        return raw.filter(pc.or_(pc.invert(_is_compared(raw)), pc.is_in(raw["path"], value_set=wanted)))

    return kept(before), kept(after)


def _only(raw: pa.Table, mask: pa.Array) -> pa.Table:
    """What is compared of the rows with these marks; not copied where that is all."""
    compared = raw.select(["path", *_WRITTEN])
    return compared if pc.all(mask).as_py() else compared.filter(mask)


def _is_compared(raw: pa.Table) -> pa.ChunkedArray:
    return pc.or_(pc.starts_with(raw["path"], _BELOW_TOPICS), pc.starts_with(raw["path"], _BELOW_CONFIG))


def _joined(before: pa.Table, after: pa.Table, columns: Sequence[str]) -> pa.Table:
    """Path, and `columns` and `there` of both sides with the suffixes `_old` and `_new`; null where one has no such path."""
    old, new = (raw["path"].combine_chunks() for raw in (before, after))
    in_old = pc.index_in(new, value_set=old)
    came = in_old.is_null().to_numpy(zero_copy_only=False)
    places = np.where(came, len(old) + np.cumsum(came) - 1, in_old.fill_null(0).to_numpy())
    at_new = np.full(len(old) + int(came.sum()), -1)
    at_new[places] = np.arange(len(new))
    at_old = np.where(np.arange(len(at_new)) < len(old), np.arange(len(at_new)), -1)
    found = {"path": pa.concat_arrays([old, new.filter(pa.array(came))])}
    for raw, places_in_raw, suffix in ((before, at_old, "_old"), (after, at_new, "_new")):
        at = pa.array(places_in_raw, mask=places_in_raw < 0)
        found |= {f"{name}{suffix}": raw[name].combine_chunks().take(at) for name in columns}
        found[f"there{suffix}"] = at.is_valid()
    return pa.table(found)


def _different(before: pa.Table, after: pa.Table) -> Iterator[tuple[str, _Znode | None, _Znode | None]]:
    """Path and both znodes, None for one that is absent, where data, existence, ACL or a secret's transaction differ."""
    joined = _joined(before, after, _COLUMNS)
    secret = pc.or_(pc.is_valid(joined["left_out_old"]), pc.is_valid(joined["left_out_new"]))
    of_both = {name: (joined[f"{name}_old"], joined[f"{name}_new"]) for name in (*_COLUMNS, "there")}
    rewritten = pc.and_(secret, _differ(*of_both["mzxid"]))
    mask = reduce(pc.or_, (_differ(*of_both[name]) for name in ("data", "acl", "left_out", "there")), rewritten)
    for row in joined.filter(mask).sort_by("path").to_pylist():
        old, new = (
            {name: row[f"{name}{suffix}"] for name in _COLUMNS} if row[f"there{suffix}"] else None
            for suffix in ("_old", "_new")
        )
        yield row["path"], old, new


def _differ(old: pa.ChunkedArray, new: pa.ChunkedArray) -> pa.ChunkedArray:
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
