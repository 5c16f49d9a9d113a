"""What changed between two snapshots, or between a snapshot and the living cluster, in Kafka's words.

Compared are the decoded tables, and every znode that no table tells of: its data, its existence and its ACL; of a secret
the transaction that wrote it last. A change of a stat alone (a rewritten but equal znode, a counter) is no change; with `noise`
epochs and versions are compared too. What either side could not read or parse is not compared: it is unknown.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Final

import pyarrow as pa

from controller_core import znodes
from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.decode import SnapshotIdentity, decode_tables
from controller_core.adapters.snapshot.format import known_acls, raw_layer
from controller_core.adapters.snapshot.manifest import Manifest
from controller_core.adapters.snapshot.reader import Progress, ReadOptions, read_cut
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.partitions import TopicPartition
from controller_core.model.words import counted
from kafka_maintenance.operations.at_once import at_once
from kafka_maintenance.operations.snapshots.catalog import (
    identity_of,
    public_configs,
    read_manifest,
    read_raw,
)
from kafka_maintenance.operations.snapshots.changes import KINDS, Change, Diff, Side
from kafka_maintenance.operations.snapshots.diff_text import shown_value
from kafka_maintenance.operations.snapshots.diff_znodes import without_equal, znode_changes
from kafka_maintenance.operations.snapshots.take import require_kafka_tree
from kafka_maintenance.operations.snapshots.unreadable import without_hidden, znode_of

Key = tuple[Any, ...]
Row = Mapping[str, Any]


def side_of_snapshot(store: ObjectStore, manifest: Manifest | str) -> Side:
    """A stored snapshot, decoded with today's code."""
    manifest = read_manifest(store, manifest) if isinstance(manifest, str) else manifest
    return side_of_raw(store, manifest, read_raw(store, manifest))


def sides_of_snapshots(store: ObjectStore, before: Manifest | str, after: Manifest | str) -> tuple[Side, Side]:
    """Two stored snapshots to compare: `diff` finds in them what it finds in the whole ones.

    What nobody wrote to in between is left out before anything is decoded, which takes nine tenths of the time; not where one of both
    snapshots has a znode that could not be parsed, for such a one is named also where it is the same.

    Raises:
        ControllerCoreError: one of them cannot be read.
    """
    manifests = [read_manifest(store, each) if isinstance(each, str) else each for each in (before, after)]
    old, new = at_once(partial(read_raw, store), manifests)
    if not any(manifest.counts["bad_rows"] for manifest in manifests):
        old, new = without_equal(old, new)
    return side_of_raw(store, manifests[0], old), side_of_raw(store, manifests[1], new)


def side_of_raw(store: ObjectStore, manifest: Manifest, raw: pa.Table) -> Side:
    """Likewise of its raw layer that was read already, or of the part of it that is to be compared."""
    return Side(
        manifest.snapshot_id,
        manifest.taken_at,
        manifest.zxid,
        raw,
        decode_tables(raw, identity_of(manifest), public_configs(store, manifest)),
        unreadable=manifest.unreadable,
        torn=None if manifest.consistent else manifest.reason or "its manifest does not say why",
    )


def side_of_cluster(
    address: ClusterAddress,
    *,
    now: datetime,
    options: ReadOptions | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
    before: Side | None = None,
) -> Side:
    """The living cluster as of one transaction; nothing is stored. ACLs that `before` knows are not read again.

    Args:
        address: of the cluster.
        now: the time of the read, UTC.
        options: of the read; None: the defaults.
        progress: told how far the read is.
        before: the other side; None: none.
    """
    with address.session() as session:
        require_kafka_tree(session, address)
        known = known_acls(before.raw, before.zxid) if before else None
        cut = read_cut(session.client, options, progress, known_acls=known)
    raw = raw_layer(cut)
    identity = SnapshotIdentity(
        cluster="live", snapshot_id="live", taken_at=now, zxid=cut.zxid, consistent=cut.consistent
    )
    return Side(
        f"live {address}",
        now,
        cut.zxid,
        raw.table,
        decode_tables(raw.table, identity, raw.public_configs),
        unreadable=tuple(sorted(cut.unreadable)),
        torn=cut.reason,
    )


def diff(before: Side, after: Side, *, noise: bool = False) -> Diff:
    """The changes from one side to the other; with `noise` also epochs, versions and broker epochs alone."""
    malformed = {row["path"] for side in (before, after) for row in _rows(side, "bad_rows")}
    unreadable = {*before.unreadable, *after.unreadable}
    not_compared = tuple(sorted(unreadable | malformed))
    before, after = (replace(side, tables=_comparable(side, unreadable, malformed)) for side in (before, after))
    changes: list[Change] = []
    changes += _cluster_changes(before, after, noise=noise)
    changes += _broker_changes(before, after)
    topics = _topic_changes(before, after)
    changes += topics
    unsettled = {change.subject for change in topics}
    changes += _partition_changes(before, after, unsettled, noise=noise)
    changes += _config_changes(before, after)
    changes += _presence(before, after, "acls", _acl_key, "acl_added", "acl_removed", partial(znode_of, "acls"))
    changes += _presence(
        before, after, "requests", _request_key, "request_made", "request_gone", partial(znode_of, "requests")
    )
    changes += _presence(
        before,
        after,
        "notifications",
        _notification_key,
        "notification_made",
        "notification_gone",
        partial(znode_of, "notifications"),
    )
    changes += _presence(
        before,
        after,
        "bad_rows",
        lambda row: (row["path"],),
        "bad_znode_found",
        "bad_znode_gone",
        lambda row: row["path"],
    )
    others = znode_changes(before, after, changes, unreadable=unreadable, malformed=malformed, noise=noise)
    changes += others.changes
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
        noise_count=others.noise_count,
        acls_unknown=others.acls_unknown,
    )


def _comparable(side: Side, unreadable: Collection[str], malformed: Collection[str]) -> Mapping[str, pa.Table]:
    """The tables without what one of both sides could not read or parse; which those are stays."""
    shown = without_hidden(side.tables, {*unreadable, *malformed})
    return {**shown, "bad_rows": without_hidden(side.tables, unreadable)["bad_rows"]}


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
    names = {
        "kafka_cluster_id": ("cluster_id_changed", znodes.CLUSTER_ID),
        "controller_id": ("controller_changed", znodes.CONTROLLER),
    }
    if noise or old["controller_id"] != new["controller_id"]:
        names["controller_epoch"] = ("controller_epoch_changed", znodes.CONTROLLER_EPOCH)
    for column, (kind, path) in names.items():
        if old[column] != new[column]:
            yield Change(kind, column, old[column], new[column], path)


def _broker_changes(before: Side, after: Side) -> Iterator[Change]:
    old, new = ({row["broker_id"]: row for row in _rows(side, "brokers")} for side in (before, after))
    for broker in sorted(old.keys() | new.keys()):
        name, path = f"broker {broker}", znodes.broker_path(broker)
        if broker not in old:
            yield Change("broker_came", name, None, new[broker]["endpoints"], path)
        elif broker not in new:
            yield Change("broker_gone", name, old[broker]["endpoints"], None, path)
        else:
            for column in ("rack", "endpoints"):
                if old[broker][column] != new[broker][column]:
                    yield Change("broker_changed", f"{name} {column}", old[broker][column], new[broker][column], path)
            if old[broker]["broker_epoch"] != new[broker]["broker_epoch"]:
                yield Change(
                    "broker_restarted",
                    name,
                    str(old[broker]["registered_at"]),
                    str(new[broker]["registered_at"]),
                    path,
                )


def _topic_changes(before: Side, after: Side) -> list[Change]:
    old, new = ({row["topic"]: row for row in _rows(side, "topics")} for side in (before, after))
    changes: list[Change] = []
    for topic in sorted(old.keys() | new.keys()):
        path = znodes.topic_path(topic)
        if topic not in old:
            changes.append(
                Change("topic_created", topic, None, counted(new[topic]["partition_count"], "partition"), path)
            )
        elif topic not in new:
            changes.append(
                Change("topic_deleted", topic, counted(old[topic]["partition_count"], "partition"), None, path)
            )
        elif _is_another(old[topic], new[topic]):
            changes.append(Change("topic_recreated", topic, _identity(old[topic]), _identity(new[topic]), path))
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
    for key in sorted(key for key in old.keys() | new.keys() if old.get(key) != new.get(key)):
        if key[0] in skipped:
            continue
        partition = TopicPartition(*key)
        if key not in old:
            yield Change("partitions_added", str(partition), None, new[key][0], znodes.partition_path(partition))
        elif key not in new:
            yield Change("partitions_removed", str(partition), old[key][0], None, znodes.partition_path(partition))
        else:
            yield from _partition_change(partition, old[key], new[key])


def _partitions(side: Side, columns: tuple[str, ...]) -> dict[Key, Key]:
    table = side.tables["partitions"]
    keys = zip(table["topic"].to_pylist(), table["partition"].to_pylist(), strict=True)
    values = zip(*(table[name].to_pylist() for name in columns), strict=True)
    return dict(zip(keys, values, strict=True))


def _partition_change(partition: TopicPartition, old: Key, new: Key) -> Iterator[Change]:
    name, topic, state = str(partition), znodes.topic_path(partition.topic), znodes.state_path(partition)
    (old_replicas, old_adding, old_removing, old_leader, old_isr, *old_noise) = old
    (new_replicas, new_adding, new_removing, new_leader, new_isr, *new_noise) = new
    if old_replicas != new_replicas:
        yield Change("replicas_moved", name, old_replicas, new_replicas, topic)
    if (old_adding, old_removing) != (new_adding, new_removing):
        ended, begun = _moving(old_adding, old_removing), _moving(new_adding, new_removing)
        yield Change("reassignment_changed", name, ended, begun, topic)
    if old_leader != new_leader:
        yield Change("leader_changed", name, old_leader, new_leader, state)
    lost, won = set(old_isr or ()) - set(new_isr or ()), set(new_isr or ()) - set(old_isr or ())
    if lost or won:
        kind = "isr_changed" if lost and won else "isr_shrunk" if lost else "isr_grown"
        yield Change(kind, name, old_isr, new_isr, state)
    if old_noise != new_noise:
        names = _NOISE_COLUMNS
        old_values, new_values = (dict(zip(names, noise, strict=True)) for noise in (old_noise, new_noise))
        yield Change("epoch_changed", name, old_values, new_values, state)


def _moving(adding: list[int], removing: list[int]) -> str | None:
    return f"adding {shown_value(adding)}, removing {shown_value(removing)}" if adding or removing else "none"


def _config_changes(before: Side, after: Side) -> Iterator[Change]:
    old, new = ({_config_key(row): row["value"] for row in _rows(side, "configs")} for side in (before, after))
    for key in sorted(old.keys() | new.keys()):
        entity_type, entity, setting = key
        name, path = f"{entity_type}/{entity} {setting}", znodes.config_path(entity_type, entity)
        if key not in old:
            yield Change("config_added", name, None, new[key], path)
        elif key not in new:
            yield Change("config_removed", name, old[key], None, path)
        elif old[key] != new[key]:
            yield Change("config_changed", name, old[key], new[key], path)


def _presence(
    before: Side,
    after: Side,
    table: str,
    key: Callable[[Row], Key],
    made: str,
    gone: str,
    path_of: Callable[[Row], str],
) -> Iterator[Change]:
    old, new = ({key(row): path_of(row) for row in _rows(side, table)} for side in (before, after))
    for each in sorted(new.keys() - old.keys()):
        yield Change(made, " ".join(each), None, None, new[each])
    for each in sorted(old.keys() - new.keys()):
        yield Change(gone, " ".join(each), None, None, old[each])


def _config_key(row: Row) -> Key:
    return row["entity_type"], row["entity_name"], row["key"]


def _acl_key(row: Row) -> Key:
    resource = f"{row['resource_type']} {row['resource_name']} ({row['pattern_type']}):"
    return resource, row["principal"], row["permission"], row["operation"], f"from {row['host']}"


def _request_key(row: Row) -> Key:
    partition = "" if row["partition"] is None else f"-{row['partition']}"
    target = "" if row["replicas"] is None else f" to {shown_value(row['replicas'])}"
    return row["kind"], f"{row['topic']}{partition}{target}"


def _notification_key(row: Row) -> Key:
    named = "" if row["topic"] is None else row["topic"]
    partition = "" if row["partition"] is None else f"-{row['partition']}"
    return row["kind"], row["name"], f"{named}{partition}"
