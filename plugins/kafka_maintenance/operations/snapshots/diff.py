"""What changed between two snapshots, or between a snapshot and the living cluster, in Kafka's words.

Compared are the decoded tables, so a change of a stat alone (a rewritten but equal znode, a counter) is no change; with
`noise` epochs and versions are compared too. What either side could not read is not compared: nobody knows what it holds.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.decode import SnapshotIdentity, decode_tables
from controller_core.adapters.snapshot.format import raw_layer
from controller_core.adapters.snapshot.manifest import Manifest
from controller_core.adapters.snapshot.reader import Progress, ReadOptions, read_cut
from controller_core.adapters.zookeeper.session import ZooKeeperAuth, ZooKeeperTls, connect
from kafka_maintenance.operations.snapshots.catalog import opened, read_manifest, read_tables
from kafka_maintenance.operations.snapshots.take import require_kafka_tree
from kafka_maintenance.operations.snapshots.unreadable import without_hidden

_SHOWN_MAX: Final = 20
Key = tuple[Any, ...]
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two states compared: its decoded tables, and what to call it.

    `unreadable` are the paths that ZooKeeper refused; `torn` says why the side is not consistent, None if it is.
    """

    label: str
    taken_at: datetime
    zxid: int
    tables: Mapping[str, pa.Table]
    unreadable: tuple[str, ...] = ()
    torn: str | None = None


@dataclass(frozen=True, slots=True)
class Change:
    """One thing that is different. `subject` is a topic, partition, broker, config, …; values are JSON's; None: absent."""

    kind: str
    subject: str
    before: Any
    after: Any


@dataclass(frozen=True, slots=True)
class Diff:
    """All changes from `before` to `after`, grouped by kind in the order of `KINDS`.

    `not_compared` are the paths that one of both could not read, with all below them. A torn side mixes moments: some of
    its changes may be none.
    """

    before: str
    after: str
    before_zxid: int
    after_zxid: int
    changes: tuple[Change, ...]
    not_compared: tuple[str, ...] = ()
    before_torn: str | None = None
    after_torn: str | None = None


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
    "request_made": "requests made",
    "request_gone": "requests gone",
    "notification_made": "notifications made",
    "notification_gone": "notifications gone",
    "bad_znode_found": "znodes that cannot be read",
    "bad_znode_gone": "znodes that can be read again",
    "epoch_changed": "epochs and versions",
}
"""Kind of change → its heading, in the order of reports."""


def side_of_snapshot(store: ObjectStore | str, manifest: Manifest | str) -> Side:
    """A stored snapshot, decoded with today's code."""
    store = opened(store)
    manifest = read_manifest(store, manifest) if isinstance(manifest, str) else manifest
    return Side(
        manifest.snapshot_id,
        manifest.taken_at,
        manifest.zxid,
        read_tables(store, manifest),
        unreadable=manifest.unreadable,
        torn=None if manifest.consistent else manifest.reason or "its manifest does not say why",
    )


def side_of_cluster(
    zookeeper: str,
    *,
    now: datetime,
    auth: ZooKeeperAuth | None = None,
    tls: ZooKeeperTls | None = None,
    options: ReadOptions | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
) -> Side:
    """The living cluster as of one transaction; nothing is stored."""
    with connect(zookeeper, auth=auth, tls=tls) as session:
        require_kafka_tree(session, zookeeper)
        cut = read_cut(session.client, options or ReadOptions(acls=False), progress)
    raw = raw_layer(cut)
    identity = SnapshotIdentity(
        cluster="live", snapshot_id="live", taken_at=now, zxid=cut.zxid, consistent=cut.consistent
    )
    return Side(
        f"live {zookeeper}",
        now,
        cut.zxid,
        decode_tables(raw.table, identity, raw.public_configs),
        unreadable=tuple(sorted(cut.unreadable)),
        torn=cut.reason,
    )


def diff(before: Side, after: Side, *, noise: bool = False) -> Diff:
    """The changes from one side to the other; with `noise` also epochs, versions and broker epochs alone."""
    not_compared = tuple(sorted({*before.unreadable, *after.unreadable}))
    before, after = (replace(side, tables=without_hidden(side.tables, not_compared)) for side in (before, after))
    changes: list[Change] = []
    changes += _cluster_changes(before, after, noise=noise)
    changes += _broker_changes(before, after)
    topics = _topic_changes(before, after)
    changes += topics
    unsettled = {change.subject for change in topics}
    changes += _partition_changes(before, after, unsettled, noise=noise)
    changes += _keyed(before, after, "configs", _config_key, "config", lambda row: row["value"])
    changes += _presence(before, after, "requests", _request_key, "request_made", "request_gone")
    changes += _presence(before, after, "notifications", _notification_key, "notification_made", "notification_gone")
    changes += _presence(before, after, "bad_rows", lambda row: (row["path"],), "bad_znode_found", "bad_znode_gone")
    order = {kind: number for number, kind in enumerate(KINDS)}
    changes.sort(key=lambda change: order[change.kind])
    return Diff(
        before.label,
        after.label,
        before.zxid,
        after.zxid,
        tuple(changes),
        not_compared=not_compared,
        before_torn=before.torn,
        after_torn=after.torn,
    )


def diff_text(found: Diff) -> str:
    """For people: kinds with their counts, then each change, long lists cut and counted."""
    lines = [
        f"from {found.before} (zxid {found.before_zxid:#x}){_torn_text(found.before_torn)}",
        f"to   {found.after} (zxid {found.after_zxid:#x}){_torn_text(found.after_torn)}",
    ]
    if found.not_compared:
        more = f" … and {len(found.not_compared) - _SHOWN_MAX} more" if len(found.not_compared) > _SHOWN_MAX else ""
        lines.append(
            f"not compared: {', '.join(found.not_compared[:_SHOWN_MAX])}{more} and what lies below: one side could not read "
            "it; log in as the brokers do"
        )
    if not found.changes:
        lines.append("nothing changed")
    for kind, heading in KINDS.items():
        group = [change for change in found.changes if change.kind == kind]
        if group:
            lines.append(f"{heading}: {len(group)}")
            lines += [f"  {_line(change)}" for change in group[:_SHOWN_MAX]]
            if len(group) > _SHOWN_MAX:
                lines.append(f"  … and {len(group) - _SHOWN_MAX} more")
    return "\n".join(lines)


def diff_json(found: Diff) -> dict[str, Any]:
    """For machines: all changes, and how many of each kind."""
    counts: dict[str, int] = {}
    for change in found.changes:
        counts[change.kind] = counts.get(change.kind, 0) + 1
    return {
        "before": found.before,
        "after": found.after,
        "before_zxid": found.before_zxid,
        "after_zxid": found.after_zxid,
        "before_torn": found.before_torn,
        "after_torn": found.after_torn,
        "not_compared": list(found.not_compared),
        "counts": counts,
        "changes": [asdict(change) for change in found.changes],
    }


def _torn_text(reason: str | None) -> str:
    return f", NOT consistent: {reason}" if reason else ""


def _line(change: Change) -> str:
    match (change.before, change.after):
        case (None, None):
            return change.subject
        case (None, after):
            return f"{change.subject}: {_value(after)}"
        case (before, None):
            return f"{change.subject}: was {_value(before)}"
        case (before, after):
            return f"{change.subject}: {_value(before)} → {_value(after)}"


def _value(value: Any) -> str:
    if isinstance(value, list):
        return "[" + ",".join(map(str, value)) + "]"
    return str(value)


# ------------------------------------------------------------------------------------------------- by table


def _rows(side: Side, table: str, *columns: str) -> Iterator[Row]:
    """Rows with these columns only, without the columns that every table has."""
    found = side.tables[table]
    names = columns or tuple(name for name in found.column_names if name not in {"cluster", "snapshot_id", "taken_at"})
    values = [found[name].to_pylist() for name in names]
    for row in zip(*values, strict=True):
        yield dict(zip(names, row, strict=True))


def _cluster_changes(before: Side, after: Side, *, noise: bool) -> Iterator[Change]:
    (old,), (new,) = _rows(before, "cluster"), _rows(after, "cluster")
    names = {"kafka_cluster_id": "cluster_id_changed", "controller_id": "controller_changed"}
    if noise or old["controller_id"] != new["controller_id"]:
        names["controller_epoch"] = "controller_epoch_changed"
    for column, kind in names.items():
        if old[column] != new[column]:
            yield Change(kind, column, old[column], new[column])


def _broker_changes(before: Side, after: Side) -> Iterator[Change]:
    old, new = ({row["broker_id"]: row for row in _rows(side, "brokers")} for side in (before, after))
    for broker in sorted(old.keys() | new.keys()):
        name = f"broker {broker}"
        if broker not in old:
            yield Change("broker_came", name, None, new[broker]["endpoints"])
        elif broker not in new:
            yield Change("broker_gone", name, old[broker]["endpoints"], None)
        else:
            for column in ("rack", "endpoints"):
                if old[broker][column] != new[broker][column]:
                    yield Change("broker_changed", f"{name} {column}", old[broker][column], new[broker][column])
            if old[broker]["broker_epoch"] != new[broker]["broker_epoch"]:
                yield Change(
                    "broker_restarted", name, str(old[broker]["registered_at"]), str(new[broker]["registered_at"])
                )


def _topic_changes(before: Side, after: Side) -> list[Change]:
    old, new = ({row["topic"]: row for row in _rows(side, "topics")} for side in (before, after))
    changes: list[Change] = []
    for topic in sorted(old.keys() | new.keys()):
        if topic not in old:
            changes.append(Change("topic_created", topic, None, f"{new[topic]['partition_count']} partitions"))
        elif topic not in new:
            changes.append(Change("topic_deleted", topic, f"{old[topic]['partition_count']} partitions", None))
        elif _is_another(old[topic], new[topic]):
            changes.append(Change("topic_recreated", topic, _identity(old[topic]), _identity(new[topic])))
    return changes


def _is_another(old: Row, new: Row) -> bool:
    """The same name stands for another topic: another id, or, where one of both has none, another creation."""
    if old["topic_id"] is not None and new["topic_id"] is not None:
        return bool(old["topic_id"] != new["topic_id"])
    return bool(old["czxid"] != new["czxid"])


def _identity(row: Row) -> str:
    return f"id {row['topic_id'] or '-'}, created at zxid {row['czxid']:#x}"


_PARTITION_COLUMNS: Final = ("replicas", "adding", "removing", "leader", "isr")
_NOISE_COLUMNS: Final = ("leader_epoch", "controller_epoch", "state_version")


def _partition_changes(before: Side, after: Side, left_alone: Iterable[str], *, noise: bool) -> Iterator[Change]:
    """Changes of partitions whose topic is the same on both sides."""
    columns = (*_PARTITION_COLUMNS, *(_NOISE_COLUMNS if noise else ()))
    old, new = (_partitions(side, columns) for side in (before, after))
    skipped = frozenset(left_alone)
    for key in sorted(old.keys() | new.keys()):
        if key[0] in skipped or old.get(key) == new.get(key):
            continue
        name = f"{key[0]}-{key[1]}"
        if key not in old:
            yield Change("partitions_added", name, None, new[key][0])
        elif key not in new:
            yield Change("partitions_removed", name, old[key][0], None)
        else:
            yield from _partition_change(name, old[key], new[key])


def _partitions(side: Side, columns: tuple[str, ...]) -> dict[Key, Key]:
    table = side.tables["partitions"]
    keys = zip(table["topic"].to_pylist(), table["partition"].to_pylist(), strict=True)
    values = zip(*(table[name].to_pylist() for name in columns), strict=True)
    return dict(zip(keys, values, strict=True))


def _partition_change(name: str, old: Key, new: Key) -> Iterator[Change]:
    (old_replicas, old_adding, old_removing, old_leader, old_isr, *old_noise) = old
    (new_replicas, new_adding, new_removing, new_leader, new_isr, *new_noise) = new
    if old_replicas != new_replicas:
        yield Change("replicas_moved", name, old_replicas, new_replicas)
    if (old_adding, old_removing) != (new_adding, new_removing):
        yield Change("reassignment_changed", name, _moving(old_adding, old_removing), _moving(new_adding, new_removing))
    if old_leader != new_leader:
        yield Change("leader_changed", name, old_leader, new_leader)
    lost, won = set(old_isr or ()) - set(new_isr or ()), set(new_isr or ()) - set(old_isr or ())
    if lost or won:
        kind = "isr_changed" if lost and won else "isr_shrunk" if lost else "isr_grown"
        yield Change(kind, name, old_isr, new_isr)
    if old_noise != new_noise:
        names = _NOISE_COLUMNS
        yield Change(
            "epoch_changed", name, dict(zip(names, old_noise, strict=True)), dict(zip(names, new_noise, strict=True))
        )


def _moving(adding: list[int], removing: list[int]) -> str | None:
    return f"adding {_value(adding)}, removing {_value(removing)}" if adding or removing else "none"


def _keyed(
    before: Side, after: Side, table: str, key: Callable[[Row], Key], what: str, value: Callable[[Row], Any]
) -> Iterator[Change]:
    old, new = ({key(row): value(row) for row in _rows(side, table)} for side in (before, after))
    for each in sorted(old.keys() | new.keys()):
        name = "/".join(each[:-1]) + f" {each[-1]}"
        if each not in old:
            yield Change(f"{what}_added", name, None, new[each])
        elif each not in new:
            yield Change(f"{what}_removed", name, old[each], None)
        elif old[each] != new[each]:
            yield Change(f"{what}_changed", name, old[each], new[each])


def _presence(
    before: Side, after: Side, table: str, key: Callable[[Row], Key], made: str, gone: str
) -> Iterator[Change]:
    old, new = ({key(row) for row in _rows(side, table)} for side in (before, after))
    for each in sorted(new - old):
        yield Change(made, " ".join(each), None, None)
    for each in sorted(old - new):
        yield Change(gone, " ".join(each), None, None)


def _config_key(row: Row) -> Key:
    return row["entity_type"], row["entity_name"], row["key"]


def _request_key(row: Row) -> Key:
    partition = "" if row["partition"] is None else f"-{row['partition']}"
    target = "" if row["replicas"] is None else f" to {_value(row['replicas'])}"
    return row["kind"], f"{row['topic']}{partition}{target}"


def _notification_key(row: Row) -> Key:
    named = "" if row["topic"] is None else row["topic"]
    partition = "" if row["partition"] is None else f"-{row['partition']}"
    return row["kind"], row["name"], f"{named}{partition}"
