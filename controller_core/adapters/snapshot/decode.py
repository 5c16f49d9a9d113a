"""From the raw layer to the decoded tables, at any time, with today's code.

What Kafka writes is read in bulk; a state that looks different is read one by one by the codec of `znodes`, and what cannot
be read goes to `bad_rows` with the reason. Bad data never stops a snapshot.
Source: docs/znodes.md; `tables` has the columns.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from controller_core import znodes
from controller_core.adapters.snapshot.secrets import is_secret_name
from controller_core.adapters.snapshot.tables import TABLES, TIMESTAMP
from controller_core.model.dialect import VERSION_ZNODES
from controller_core.model.errors import MalformedZnodeError
from controller_core.model.gc_pause import collector_paused
from controller_core.model.partitions import ReplicaAssignment

Row = Mapping[str, Any]

_BELOW_PARTITIONS: Final = r"^/brokers/topics/[^/]+/partitions"
_NUMBER: Final = r"(?:0|-?[1-9][0-9]{0,8})"
_STATE_DATA: Final = (
    rf'^\{{"controller_epoch":(?P<controller_epoch>{_NUMBER}),"leader":(?P<leader>{_NUMBER}),"version":1,'
    rf'(?:"leader_recovery_state":(?P<recovery>[01]),)?"leader_epoch":(?P<leader_epoch>{_NUMBER}),'
    rf'"isr":\[(?P<isr>{_NUMBER}(?:,{_NUMBER})*)\]\}}$'
)
_BROKERS: Final = pa.list_(pa.int32())
_STATES: Final = pa.schema(
    [
        ("path", pa.string()),
        ("leader", pa.int32()),
        ("leader_epoch", pa.int32()),
        ("isr", _BROKERS),
        ("controller_epoch", pa.int32()),
        ("recovery", pa.int32()),
        ("state_version", pa.int32()),
        ("state_mtime", TIMESTAMP),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotIdentity:
    """What every row carries, and what the row of `cluster` says of the cut."""

    cluster: str
    snapshot_id: str
    taken_at: datetime
    zxid: int
    consistent: bool


def decode_tables(
    raw: pa.Table, identity: SnapshotIdentity, public_configs: Mapping[str, Mapping[str, str]] | None = None
) -> dict[str, pa.Table]:
    """All tables of `tables.TABLES`, rows in the order of the paths.

    Args:
        raw: columns `tables.RAW`, sorted by path.
        identity: repeated in every row.
        public_configs: what raw leaves out of secret configs without being secret; by path.
    """
    with collector_paused():
        return _decoded_tables(raw, identity, public_configs or {})


def _decoded_tables(
    raw: pa.Table, identity: SnapshotIdentity, public_configs: Mapping[str, Mapping[str, str]]
) -> dict[str, pa.Table]:
    raw = raw.combine_chunks()
    below_partitions = pc.match_substring_regex(raw["path"], _BELOW_PARTITIONS)
    bad: dict[str, str] = {}
    # The znodes between a topic and its states are empty: 200,000 rows that say nothing.
    states = _states(raw.filter(pc.and_(below_partitions, pc.ends_with(raw["path"], "/state"))), bad)
    znode_rows = raw.filter(pc.and_(pc.invert(below_partitions), pc.is_valid(raw["czxid"]))).to_pylist()
    rows: dict[str, Row] = {row["path"]: row for row in znode_rows}
    topics = dict(_each(rows, znodes.TOPICS, _topic, bad))
    decoded: dict[str, pa.Table | Iterable[Row]] = {
        "partitions": _partitions(topics, states, rows, bad),
        "topics": [_topic_row(path, topic, rows) for path, topic in topics.items()],
        "brokers": [broker for _, broker in _each(rows, znodes.BROKER_IDS, _broker, bad)],
        "configs": list(_configs(rows, public_configs, bad)),
        "acls": list(_acls(rows, bad)),
        "requests": list(_requests(rows, bad)),
        "notifications": list(_notifications(rows, bad)),
        "cluster": [_cluster(rows, identity, bad)],
    }
    decoded["bad_rows"] = [{"path": path, "reason": reason} for path, reason in sorted(bad.items())]
    return {name: _identified(name, decoded[name], identity) for name in TABLES}


# ------------------------------------------------------------------------------------------------- partitions


def _states(raw: pa.Table, bad: dict[str, str]) -> pa.Table:
    """The state znodes as `_STATES`: in bulk what looks as Kafka writes it, the rest by the codec."""
    found = pc.extract_regex(raw["data"], pattern=_STATE_DATA)
    regular = pc.is_valid(found)
    fast, text = raw.filter(regular), found.filter(regular)

    def number(name: str) -> pa.ChunkedArray:
        return pc.struct_field(text, name).cast(pa.string()).cast(pa.int32())

    recovery = pc.struct_field(text, "recovery").cast(pa.string())
    isr = pc.split_pattern(pc.struct_field(text, "isr").cast(pa.string()), ",")
    columns = [
        fast["path"],
        number("leader"),
        number("leader_epoch"),
        isr.cast(_BROKERS),
        number("controller_epoch"),
        pc.if_else(pc.equal(recovery, "1"), 1, 0).cast(pa.int32()),
        fast["version"],
        _times(fast["mtime"]),
    ]
    slow = [
        {
            "path": row["path"],
            "leader": state.leader,
            "leader_epoch": state.leader_epoch,
            "isr": state.isr,
            "controller_epoch": state.controller_epoch,
            "recovery": int(state.recovery),
            "state_version": state.partition_epoch,
            "state_mtime": _time(row["mtime"]),
        }
        for row in raw.filter(pc.invert(regular)).to_pylist()
        if (state := _decoded(row, bad, _state)) is not None
    ]
    bulk = pa.Table.from_arrays([column.combine_chunks() for column in columns], schema=_STATES)
    return pa.concat_tables([bulk, pa.Table.from_pylist(slow, schema=_STATES)]).combine_chunks()


def _state(row: Row) -> Any:
    if row["czxid"] is None or row["left_out"]:
        raise MalformedZnodeError(
            row["path"], f"data not in the snapshot: {row['left_out'] or 'changed after the cut'}"
        )
    return znodes.decode_state(row["data"], path=row["path"], version=row["version"])


def _partitions(topics: Mapping[str, Any], states: pa.Table, rows: Mapping[str, Row], bad: dict[str, str]) -> pa.Table:
    """One row per assigned partition, with its state where there is one."""
    names: list[str] = []
    numbers: list[int] = []
    assignments: list[ReplicaAssignment] = []
    state_paths: list[str] = []
    czxids: list[int] = []
    for path, topic in topics.items():
        in_order = sorted(topic.assignments)
        names += [path.rpartition("/")[2]] * len(in_order)
        numbers += in_order
        assignments += [topic.assignments[number] for number in in_order]
        state_paths += [f"{path}/partitions/{number}/state" for number in in_order]
        czxids += [rows[path]["czxid"]] * len(in_order)
    paths = pa.array(state_paths, pa.string())
    at = pc.index_in(paths, value_set=states["path"].combine_chunks())
    stray = states["path"].filter(pc.invert(pc.is_in(states["path"], value_set=paths)))
    for path in stray.to_pylist():
        bad.setdefault(path, "state of a partition that its topic's znode does not assign; expected it there")
    state = states.take(at)
    return pa.table(
        {
            "topic": pa.array(names, pa.string()),
            "partition": pa.array(numbers, pa.int32()),
            "replicas": pa.array([each.replicas for each in assignments], _BROKERS),
            "adding": pa.array([each.adding for each in assignments], _BROKERS),
            "removing": pa.array([each.removing for each in assignments], _BROKERS),
            "preferred_leader": pa.array(
                [each.replicas[0] if each.replicas else None for each in assignments], pa.int32()
            ),
            **{name: state[name] for name in _STATES.names[1:]},
            "czxid": pa.array(czxids, pa.int64()),
        }
    )


# ------------------------------------------------------------------------------------------------- the other tables


def _topic(row: Row) -> Any:
    return znodes.decode_topic(row["data"], path=row["path"])


def _topic_row(path: str, topic: Any, rows: Mapping[str, Row]) -> Row:
    row = rows[path]
    name = path.rpartition("/")[2]
    return {
        "topic": name,
        "topic_id": topic.topic_id,
        "partition_count": len(topic.assignments),
        "json_version": topic.version,
        "znode_version": row["version"],
        "czxid": row["czxid"],
        "mzxid": row["mzxid"],
        "ctime": _time(row["ctime"]),
        "mtime": _time(row["mtime"]),
        "deletion_requested": znodes.delete_topic_path(name) in rows,
    }


def _broker(row: Row) -> Row:
    found = znodes.decode_broker(row["data"], path=row["path"], epoch=row["czxid"])
    return {
        "broker_id": found.broker.id,
        "host": found.host,
        "port": found.port,
        "rack": found.broker.rack,
        "endpoints": [f"{each.listener}://{each.host}:{each.port}" for each in found.broker.endpoints],
        "json_version": found.version,
        "broker_epoch": row["czxid"],
        "registered_at": _time(row["ctime"]),
    }


def _configs(rows: Mapping[str, Row], public: Mapping[str, Mapping[str, str]], bad: dict[str, str]) -> Iterator[Row]:
    """One row per setting. `entity_name` is what stands below `/config/<type>/`, URL-encoded for users and clients."""
    for path, row in rows.items():
        entity_type, _, name = path.removeprefix(f"{znodes.CONFIG}/").partition("/")
        if not path.startswith(f"{znodes.CONFIG}/") or entity_type == "changes" or not name:
            continue
        config = public.get(path)
        if config is None:
            config = _decoded(row, bad, _config) if not row["left_out"] else {}
        for key in sorted(config or {}):
            if not is_secret_name(
                key
            ):  # what raw holds in the clear was judged when the snapshot was taken, by the rules of then
                yield {"entity_type": entity_type, "entity_name": name, "key": key, "value": (config or {})[key]}


def _config(row: Row) -> Mapping[str, str]:
    return znodes.decode_config(row["data"], path=row["path"]).config


def _acls(rows: Mapping[str, Row], bad: dict[str, str]) -> Iterator[Row]:
    """One row per rule of Kafka's authorizer; `pattern_type` is LITERAL or, in the extended tree, in upper case, as Kafka names it."""
    for path, row in rows.items():
        match path.split("/")[1:]:
            case ["kafka-acl", resource_type, name]:
                pattern = "LITERAL"
            case ["kafka-acl-extended", pattern, resource_type, name]:
                pattern = pattern.upper()
            case _:
                continue
        for rule in _decoded(row, bad, lambda found: znodes.decode_acl(found["data"], path=found["path"])) or ():
            yield {
                "resource_type": resource_type,
                "resource_name": name,
                "pattern_type": pattern,
                "principal": rule.principal,
                "host": rule.host,
                "operation": rule.operation,
                "permission": rule.permission_type,
            }


def _requests(rows: Mapping[str, Row], bad: dict[str, str]) -> Iterator[Row]:
    for path, row in rows.items():
        if path.rpartition("/")[0] == znodes.DELETE_TOPICS:
            yield {"kind": "delete_topics", "topic": path.rpartition("/")[2], "ctime": _time(row["ctime"])}
    reassign, elect = rows.get(znodes.REASSIGN_PARTITIONS), rows.get(znodes.PREFERRED_REPLICA_ELECTION)
    targets = _decoded(reassign, bad, lambda row: znodes.decode_reassign_partitions(row["data"], path=row["path"]))
    for partition, replicas in sorted((targets or {}).items()):
        yield {
            "kind": "reassign_partitions",
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": replicas,
            "ctime": _time((reassign or {})["ctime"]),
        }
    wanted = _decoded(elect, bad, lambda row: znodes.decode_preferred_replica_election(row["data"], path=row["path"]))
    for partition in sorted(wanted or ()):
        yield {
            "kind": "preferred_replica_election",
            "topic": partition.topic,
            "partition": partition.partition,
            "ctime": _time((elect or {})["ctime"]),
        }


def _notifications(rows: Mapping[str, Row], bad: dict[str, str]) -> Iterator[Row]:
    """One row per partition that an ISR notification names, one per other notification."""

    def isr_changes(row: Row) -> Any:
        return list(znodes.decode_isr_change_notification(row["data"], path=row["path"]))

    for path, partitions in _each(rows, znodes.ISR_CHANGE_NOTIFICATION, isr_changes, bad):
        common = {"kind": "isr_change", "name": path.rpartition("/")[2], "ctime": _time(rows[path]["ctime"])}
        for partition in partitions:
            yield {**common, "topic": partition.topic, "partition": partition.partition}
        if not partitions:
            yield common

    def log_dir(row: Row) -> Any:
        return znodes.decode_log_dir_event(row["data"], path=row["path"])

    for path, event in _each(rows, znodes.LOG_DIR_EVENT_NOTIFICATION, log_dir, bad):
        name = path.rpartition("/")[2]
        yield {"kind": "log_dir_event", "name": name, "broker": event.broker, "ctime": _time(rows[path]["ctime"])}

    def config_change(row: Row) -> Any:
        return znodes.decode_config_change(row["data"], path=row["path"])

    for path, change in _each(rows, znodes.CONFIG_CHANGES, config_change, bad):
        entity_type, _, entity = change.entity_path.partition("/")
        topic = entity if entity_type == "topics" else None
        name = path.rpartition("/")[2]
        yield {"kind": "config_change", "name": name, "topic": topic, "ctime": _time(rows[path]["ctime"])}


def _cluster(rows: Mapping[str, Row], identity: SnapshotIdentity, bad: dict[str, str]) -> Row:
    epoch = rows.get(znodes.CONTROLLER_EPOCH)
    controller = _decoded(rows.get(znodes.CONTROLLER), bad, lambda row: znodes.decode_controller(row["data"]))
    migration = rows.get(znodes.MIGRATION)
    isr_changes = rows.get(znodes.ISR_CHANGE_NOTIFICATION)
    return {
        "kafka_cluster_id": _decoded(
            rows.get(znodes.CLUSTER_ID), bad, lambda row: znodes.decode_cluster_id(row["data"])
        ),
        "controller_id": controller.broker_id if controller else None,
        "controller_epoch": _decoded(epoch, bad, lambda row: znodes.decode_controller_epoch(row["data"])),
        "controller_epoch_version": epoch["version"] if epoch else None,
        "controller_json_version": controller.version if controller else None,
        "kraft_controller_epoch": controller.kraft_controller_epoch if controller else None,
        "migration": (migration["data"] or b"").decode("utf-8", "replace") if migration else None,
        "zxid": identity.zxid,
        "consistent": identity.consistent,
        "isr_change_cversion": isr_changes["cversion"] if isr_changes else None,
        "version_znodes": [path for path in VERSION_ZNODES if path in rows],
    }


# ------------------------------------------------------------------------------------------------- helpers


def _each(
    rows: Mapping[str, Row], parent: str, decode: Callable[[Row], Any], bad: dict[str, str]
) -> Iterator[tuple[str, Any]]:
    """(path, value) of each readable child of `parent`."""
    for path, row in rows.items():
        if path.startswith(parent) and path.rpartition("/")[0] == parent:
            value = _decoded(row, bad, decode)
            if value is not None:
                yield path, value


def _decoded(row: Row | None, bad: dict[str, str], decode: Callable[[Row], Any]) -> Any:
    """The value; None for no znode, for one whose data was left out, and for a malformed one, which is noted."""
    if row is None:
        return None
    try:
        return decode(row)
    except MalformedZnodeError as error:
        bad[row["path"]] = error.what
        return None


def _identified(name: str, content: pa.Table | Iterable[Row], identity: SnapshotIdentity) -> pa.Table:
    """The rows as the table `name`, with cluster, snapshot and time in front."""
    schema = TABLES[name]
    own = pa.schema([column for column in schema if column.name not in {"cluster", "snapshot_id", "taken_at"}])
    table = content if isinstance(content, pa.Table) else pa.Table.from_pylist(list(content), schema=own)
    common: Sequence[tuple[Any, pa.DataType]] = (
        (identity.cluster, pa.string()),
        (identity.snapshot_id, pa.string()),
        (identity.taken_at, TIMESTAMP),
    )
    columns = [pa.repeat(pa.scalar(value, kind), table.num_rows) for value, kind in common]
    return pa.Table.from_arrays([*columns, *(table[column.name].cast(column.type) for column in own)], schema=schema)


def _times(milliseconds: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.multiply(milliseconds, 1000).cast(TIMESTAMP)


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds // 1000, tz=UTC).replace(microsecond=milliseconds % 1000 * 1000)
