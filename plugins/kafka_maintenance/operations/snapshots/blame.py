"""The history of a topic or a partition over all snapshots of a cluster: since when each value stands, and what it was."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from functools import partial
from typing import Any, Final, TypeAlias

import pyarrow.compute as pc

from controller_core import znodes
from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import Manifest
from controller_core.model.errors import ObjectDamagedError, ObjectMissingError
from controller_core.model.partitions import TopicPartition
from kafka_maintenance.operations.errors import listed
from kafka_maintenance.operations.snapshots.catalog import (
    UNUSABLE,
    Unusable,
    manifest_keys,
    opened,
    read_table,
    readable_snapshots,
)
from kafka_maintenance.operations.snapshots.unreadable import is_hidden, unreadable_text

ABSENT: Final = None
_TOPIC_FIELDS: Final = ("topic_id", "czxid", "partition_count", "json_version", "deletion_requested")
_PARTITION_FIELDS: Final = ("replicas", "adding", "removing", "leader", "leader_epoch", "isr", "controller_epoch")
_STATE_FIELDS: Final = frozenset({"leader", "leader_epoch", "isr", "controller_epoch"})

_State: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Seen:
    """A value and the first snapshot of the unbroken run of snapshots that show it."""

    value: Any
    snapshot_id: str
    taken_at: datetime


@dataclass(frozen=True, slots=True)
class Blame:
    """History of one field, newest first: `history[0]` is the present value; a None value means that it was not there."""

    field: str
    history: tuple[Seen, ...]


@dataclass(frozen=True, slots=True)
class BlameReport:
    """Histories of a subject's fields over `snapshot_count` snapshots, the oldest of which is `since`.

    `passed_over` says why each other snapshot could not be read; a history knows nothing of what they show. Neither does it
    of the paths in `unreadable`, which ZooKeeper refused while a snapshot was taken.
    """

    subject: str
    cluster: str
    snapshot_count: int
    since: datetime
    blames: tuple[Blame, ...]
    passed_over: tuple[str, ...]
    unreadable: tuple[str, ...] = ()


def blame(store: ObjectStore | str, cluster: str, subject: str) -> BlameReport:
    """The history of a topic with its configs (`orders`) or of one partition (`orders-3`).

    A name that is a topic's in any snapshot is a topic, even if it ends in a number.
    Errors: `ObjectMissingError` when there are no snapshots, or none knows the subject; `ObjectDamagedError` when none can be
    read.
    """
    store = opened(store)
    manifests, unusable = readable_snapshots(store, manifest_keys(store, cluster))
    if not manifests and not unusable:
        raise ObjectMissingError(
            f"history of {subject!r} not found: cluster {cluster!r} has no snapshots in {store.uri!r}"
        )
    states, damaged = _states(manifests, lambda manifest: _topic_state(store, manifest, subject))
    path_of: Callable[[str], str] = partial(_path_in_topic, subject)
    partition = _as_partition(subject)
    if partition is not None and not any(state for _, state in states):
        states, damaged = _states(manifests, lambda manifest: _partition_state(store, manifest, partition))
        path_of = partial(_path_of_partition, partition)
    passed_over = tuple(str(error) for error in (*unusable, *damaged))
    if not states:
        raise ObjectDamagedError(
            f"history of {subject!r} not found: expected a snapshot of {cluster!r} that can be read, found {len(passed_over)} "
            f"that cannot: {listed(passed_over)}"
        )
    fields = list(dict.fromkeys(name for _, state in reversed(states) for name in state))
    about = {path_of(name) for name in ("exists", "config", *fields)}
    unreadable = tuple(unreadable_text((manifest for manifest, _ in states), about))
    if not any(state for _, state in states):
        raise ObjectMissingError(
            f"history of {subject!r} not found: none of the {len(states)} snapshots of {cluster!r} knows such a topic or "
            "partition; give a topic, or TOPIC-NUMBER"
            + (f" (passed over: {listed(passed_over)})" if passed_over else "")
            + (f" ({listed(unreadable)})" if unreadable else "")
        )
    histories = {name: tuple(_history(states, name, path_of(name))) for name in fields}
    blames = tuple(Blame(name, history) for name, history in histories.items() if history)
    return BlameReport(subject, cluster, len(states), states[0][0].taken_at, blames, passed_over, unreadable)


def blame_text(report: BlameReport) -> str:
    """For people: each field's present value, since when, and what it was before."""
    lines = [f"{report.subject} in {report.cluster}, {report.snapshot_count} snapshots since {_day(report.since)}"]
    for each in report.blames:
        now, *before = each.history
        since = (
            "as long as snapshots go back" if not before else f"first seen {_day(now.taken_at)} in {now.snapshot_id}"
        )
        lines.append(f"{each.field} = {_shown(now.value)}  ({since})")
        lines += [f"    before: {_shown(seen.value)}  (from {_day(seen.taken_at)})" for seen in before]
    lines += [f"passed over: {reason}" for reason in report.passed_over]
    lines += report.unreadable
    return "\n".join(lines)


def blame_json(report: BlameReport) -> dict[str, Any]:
    """For machines."""
    document = asdict(report)
    document["since"] = report.since.isoformat()
    for each in document["blames"]:
        for seen in each["history"]:
            seen["taken_at"] = seen["taken_at"].isoformat()
    return document


def _states(
    manifests: Iterable[Manifest], state_of: Callable[[Manifest], _State]
) -> tuple[list[tuple[Manifest, _State]], list[Unusable]]:
    """Each snapshot with its state, in their order; and why the others cannot be read."""
    states: list[tuple[Manifest, _State]] = []
    damaged: list[Unusable] = []
    for manifest in manifests:
        try:
            states.append((manifest, state_of(manifest)))
        except UNUSABLE as error:
            damaged.append(error)
    return states, damaged


def _history(states: Sequence[tuple[Manifest, _State]], name: str, path: str) -> Iterator[Seen]:
    """The values of a field that the znode at `path` holds, over the snapshots that could read it."""
    runs: list[Seen] = []
    for manifest, state in states:
        if is_hidden(path, manifest.unreadable):
            continue
        value = state.get(name, ABSENT)
        if not runs or runs[-1].value != value:
            runs.append(Seen(value, manifest.snapshot_id, manifest.taken_at))
    return reversed(runs)


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
    return TopicPartition(topic, int(number)) if topic and number.isdecimal() else None


def _shown(value: Any) -> str:
    return "(not there)" if value is None else str(value)


def _day(moment: datetime) -> str:
    return moment.isoformat(sep=" ", timespec="minutes")
