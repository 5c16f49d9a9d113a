"""The history of a topic, a partition or any znode over all snapshots of a cluster.

It says since when each value stands, what it was before, between which two snapshots it changed, and when the znode that
holds it was last written, by its own mtime.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow.compute as pc

from controller_core import znodes
from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import Manifest, dated_in_the_future
from controller_core.model.errors import ObjectDamagedError, ObjectMissingError
from controller_core.model.partitions import TopicPartition
from controller_core.model.words import counted
from controller_core.plans.plain import plain
from kafka_maintenance.operations.errors import listed
from kafka_maintenance.operations.snapshots.catalog import (
    UNUSABLE,
    Unusable,
    manifest_keys,
    read_raw,
    read_table,
    readable_snapshots,
)
from kafka_maintenance.operations.snapshots.diff_text import NO_LEADER
from kafka_maintenance.operations.snapshots.unreadable import is_hidden, unreadable_text

ABSENT: Final = None
_TOPIC_FIELDS: Final = ("topic_id", "czxid", "partition_count", "json_version", "deletion_requested")
_PARTITION_FIELDS: Final = ("replicas", "adding", "removing", "leader", "leader_epoch", "isr", "controller_epoch")
_DIGITS_MAX: Final = len(str(2**31))
"""Of a partition's number, which is an int of Java."""
_STATE_FIELDS: Final = frozenset({"leader", "leader_epoch", "isr", "controller_epoch"})

_State: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """A value and the first snapshot of the unbroken run of snapshots that show it.

    It changed after `after`, the last snapshot that showed another value (None: there is none), taken at `after_at`. The
    znode was last written at `written_at` when it was first seen with this value; None where it was not there.
    """

    value: Any
    snapshot_id: str
    taken_at: datetime
    after: str | None = None
    after_at: datetime | None = None
    written_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Blame:
    """History of one field, newest first: `history[0]` is the present value; a None value means that it was not there."""

    field: str
    history: tuple[Seen, ...]


@dataclass(frozen=True, slots=True)
class BlameReport:
    """Histories of a subject's fields over `snapshot_count` snapshots, the oldest of which is `since`.

    `borders` are the snapshots from which on the name stands for another Kafka cluster, with both ids. `passed_over` says why each other snapshot was not used; a history knows nothing of what they show. Neither does it
    of the paths in `unreadable`, which ZooKeeper refused while a snapshot was taken.
    """

    subject: str
    cluster: str
    snapshot_count: int
    since: datetime
    blames: tuple[Blame, ...]
    passed_over: tuple[str, ...]
    unreadable: tuple[str, ...] = ()
    borders: tuple[str, ...] = ()


def blame(store: ObjectStore, cluster: str, subject: str) -> BlameReport:
    """The history of a topic with its configs (`orders`), of one partition (`orders-3`) or of a znode (`/kafka-acl/…`).

    A name that is a topic's in any snapshot is a topic, even if it ends in a number. Of a secret only the time of its last
    write is told. A snapshot that is dated in the future is passed over: it says nothing of when a value came.

    Raises:
        ObjectMissingError: there are no snapshots, or none knows the subject.
        ObjectDamagedError: none can be read.
    """
    manifests, unusable = readable_snapshots(store, manifest_keys(store, cluster))
    if not manifests and not unusable:
        raise ObjectMissingError(
            f"history of {subject!r} not found: cluster {cluster!r} has no snapshots in {store.uri!r}"
        )
    now = datetime.now(UTC)
    future = [each for each in manifests if dated_in_the_future(each, now)]
    manifests = [each for each in manifests if not dated_in_the_future(each, now)]
    states, damaged, path_of = _traced(store, manifests, subject)
    wrong = (f"snapshot {each.uri} is dated in the future: {each.taken_at.isoformat()}" for each in future)
    passed_over = (*(str(error) for error in (*unusable, *damaged)), *wrong)
    if not states:
        raise ObjectDamagedError(
            f"history of {subject!r} not found: expected a snapshot of {cluster!r} that can be read, found {len(passed_over)} "
            f"that cannot: {listed(passed_over)}"
        )
    fields = list(dict.fromkeys(name for each in reversed(states) for name in each.state))
    about = {path_of(name) for name in ("exists", "config", *fields)}
    unreadable = tuple(unreadable_text((each.manifest for each in states), about))
    if not any(each.state for each in states):
        raise ObjectMissingError(
            f"history of {subject!r} not found in {counted(len(states), 'snapshot')} of {cluster!r}: expected a topic, partition or "
            "znode of that name, found none; give a topic, TOPIC-NUMBER, or the path of a znode"
            + (f" (passed over: {listed(passed_over)})" if passed_over else "")
            + (f" ({listed(unreadable)})" if unreadable else "")
        )
    times = _Times(store)
    histories = {name: tuple(_history(states, name, path_of(name), times)) for name in fields}
    blames = tuple(Blame(name, history) for name, history in histories.items() if history)
    first = states[0].manifest.taken_at
    borders = tuple(_borders([each.manifest for each in states]))
    return BlameReport(subject, cluster, len(states), first, blames, passed_over, unreadable, borders)


def blame_text(report: BlameReport) -> str:
    """For people: each field's present value, since when, and what it was before."""
    lines = [
        f"{report.subject} in {report.cluster}, {counted(report.snapshot_count, 'snapshot')} since {_day(report.since)}"
    ]
    for each in report.blames:
        now, *before = each.history
        lines.append(f"{each.field} = {_shown(each.field, now.value)}  ({_since(now)})")
        lines += [f"    before: {_shown(each.field, seen.value)}  ({_since(seen)})" for seen in before]
    lines += report.borders
    lines += [f"passed over: {reason}" for reason in report.passed_over]
    lines += report.unreadable
    return "\n".join(lines)


def blame_json(report: BlameReport) -> dict[str, Any]:
    """For machines."""
    document = asdict(report)
    document["since"] = report.since.isoformat()
    for each in document["blames"]:
        for seen in each["history"]:
            for name in ("taken_at", "after_at", "written_at"):
                seen[name] = seen[name].isoformat() if seen[name] else None
    return document


@dataclass(frozen=True, slots=True)
class _Read:
    """What a snapshot says of the subject, and the paths that hold what cannot be parsed."""

    manifest: Manifest
    state: _State
    malformed: frozenset[str]


class _Traced(NamedTuple):
    """The states of a subject, why the other snapshots cannot be read, and field → the znode that it comes from."""

    states: list[_Read]
    damaged: list[Unusable]
    path_of: Callable[[str], str]


def _traced(store: ObjectStore, manifests: Sequence[Manifest], subject: str) -> _Traced:
    """A znode where the subject is a path; else a topic, and where no snapshot has one of that name, a partition."""
    if subject.startswith("/"):
        found = _states(store, manifests, lambda manifest: _znode_state(store, manifest, subject))
        return _Traced(*found, lambda _: subject)
    found = _states(store, manifests, lambda manifest: _topic_state(store, manifest, subject))
    partition = _as_partition(subject)
    if partition is None or any(each.state for each in found[0]):
        return _Traced(*found, partial(_path_in_topic, subject))
    found = _states(store, manifests, lambda manifest: _partition_state(store, manifest, partition))
    return _Traced(*found, partial(_path_of_partition, partition))


def _states(
    store: ObjectStore, manifests: Iterable[Manifest], state_of: Callable[[Manifest], _State]
) -> tuple[list[_Read], list[Unusable]]:
    """Each snapshot with its state, in their order; and why the others cannot be read."""
    states: list[_Read] = []
    damaged: list[Unusable] = []
    for manifest in manifests:
        try:
            malformed = read_table(store, manifest, "bad_rows")["path"].to_pylist()
            states.append(_Read(manifest, state_of(manifest), frozenset(malformed)))
        except UNUSABLE as error:
            damaged.append(error)
    return states, damaged


class _Times:
    """When a znode was last written, as a snapshot's raw layer says; each layer is kept once it was read."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store
        self._layers: dict[str, Any] = {}

    def written_at(self, manifest: Manifest, path: str) -> datetime | None:
        if manifest.key not in self._layers:
            try:
                self._layers[manifest.key] = read_raw(self._store, manifest).select(["path", "mtime"])
            except UNUSABLE:
                self._layers[manifest.key] = None
        layer = self._layers[manifest.key]
        found = [] if layer is None else layer.filter(pc.equal(layer["path"], path))["mtime"].to_pylist()
        return datetime.fromtimestamp(found[0] / 1000, tz=UTC) if found and found[0] is not None else None


def _history(states: Sequence[_Read], name: str, path: str, times: _Times) -> Iterator[Seen]:
    """The values of a field that the znode at `path` holds, over the snapshots that could read it, newest first."""
    runs: list[Seen] = []
    before: Manifest | None = None
    for read in states:
        value, manifest = read.state.get(name, ABSENT), read.manifest
        if is_hidden(path, manifest.unreadable) or (value is ABSENT and is_hidden(path, read.malformed)):
            continue  # unknown, not gone
        if not runs or runs[-1].value != value:
            after, after_at = (before.snapshot_id, before.taken_at) if before else (None, None)
            written_at = times.written_at(manifest, path)
            runs.append(Seen(value, manifest.snapshot_id, manifest.taken_at, after, after_at, written_at))
        before = manifest
    return reversed(runs)


def _borders(manifests: Sequence[Manifest]) -> Iterator[str]:
    known = [each for each in manifests if each.kafka_cluster_id is not None]
    for old, new in pairwise(known):
        if old.kafka_cluster_id != new.kafka_cluster_id:
            yield (
                f"border: {new.snapshot_id} of {_day(new.taken_at)} is of Kafka cluster {new.kafka_cluster_id}, those before "
                f"are of {old.kafka_cluster_id}"
            )


def _znode_state(store: ObjectStore, manifest: Manifest, path: str) -> _State:
    raw = read_raw(store, manifest)
    rows = raw.filter(pc.equal(raw["path"], path)).to_pylist()
    if not rows:
        return {}
    (row,) = rows
    secret = row["left_out"] is not None
    held = {"last write": f"zxid {row['mzxid']:#x}"} if secret and row["mzxid"] is not None else {}
    data = {} if secret else {"data": (row["data"] or b"").decode("utf-8", "backslashreplace")}
    return {"exists": True, **data, **held, "acl": row["acl"]}


def _topic_state(store: ObjectStore, manifest: Manifest, topic: str) -> _State:
    table = read_table(store, manifest, "topics")
    rows = table.filter(pc.equal(table["topic"], topic)).to_pylist()
    if not rows:
        return {}
    state: _State = {"exists": True, **{name: rows[0][name] for name in _TOPIC_FIELDS}}
    configs = read_table(store, manifest, "configs")
    own = pc.and_(pc.equal(configs["entity_type"], "topics"), pc.equal(configs["entity_name"], topic))
    state |= {f"config {row['key']}": row["value"] for row in configs.filter(own).to_pylist()}
    partitions = read_table(store, manifest, "partitions")
    for row in partitions.filter(pc.equal(partitions["topic"], topic)).to_pylist():
        state[f"replicas of {row['partition']}"] = row["replicas"]
        state[f"leader of {row['partition']}"] = row["leader"]
        state[f"isr of {row['partition']}"] = row["isr"]
    return state


def _partition_state(store: ObjectStore, manifest: Manifest, partition: TopicPartition) -> _State:
    table = read_table(store, manifest, "partitions")
    own = pc.and_(pc.equal(table["topic"], partition.topic), pc.equal(table["partition"], partition.partition))
    rows = table.filter(own).to_pylist()
    return {name: rows[0][name] for name in _PARTITION_FIELDS} if rows else {}


def _path_in_topic(topic: str, name: str) -> str:
    """The znode that a field of a topic comes from."""
    what, _, number = name.partition(" of ")
    if name.partition(" ")[0] == "config":
        return znodes.config_path("topics", topic)
    if what in _STATE_FIELDS:
        return znodes.state_path(TopicPartition(topic, int(number)))
    return znodes.delete_topic_path(topic) if name == "deletion_requested" else znodes.topic_path(topic)


def _path_of_partition(partition: TopicPartition, name: str) -> str:
    """The znode that a field of a partition comes from."""
    return znodes.state_path(partition) if name in _STATE_FIELDS else znodes.topic_path(partition.topic)


def _as_partition(subject: str) -> TopicPartition | None:
    topic, _, number = subject.rpartition("-")
    is_number = number.isdecimal() and len(number) <= _DIGITS_MAX
    return TopicPartition(topic, int(number)) if topic and is_number else None


def _shown(field: str, value: Any) -> str:
    if field.partition(" ")[0] == "leader" and value == NO_LEADER:
        return "no leader"
    return "(not there)" if value is None else plain(str(value))


def _since(seen: Seen) -> str:
    """Between which snapshots the value came, and when its znode was written."""
    written = (
        ""
        if seen.written_at is None
        else f", znode last written {seen.written_at.isoformat(sep=' ', timespec='seconds')}"
    )
    if seen.after is None or seen.after_at is None:
        return f"as long as snapshots go back{written}"
    return f"changed between {seen.after} of {_day(seen.after_at)} and {seen.snapshot_id} of {_day(seen.taken_at)}{written}"


def _day(moment: datetime) -> str:
    return moment.isoformat(sep=" ", timespec="minutes")
