"""The history of a topic or a partition over all snapshots of a cluster: since when each value stands, and what it was."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

import pyarrow.compute as pc

from controller_core.adapters.object_store import ObjectStore
from controller_core.errors import ObjectMissingError
from controller_core.model import TopicPartition
from kafka_maintenance.operations.snapshot_manifest import Manifest
from kafka_maintenance.operations.snapshots import list_snapshots, opened, read_table

ABSENT: Final = None
_TOPIC_FIELDS: Final = ("topic_id", "czxid", "partition_count", "json_version", "deletion_requested")
_PARTITION_FIELDS: Final = ("replicas", "adding", "removing", "leader", "leader_epoch", "isr", "controller_epoch")


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
    """Histories of a subject's fields over `snapshot_count` snapshots, the oldest of which is `since`."""

    subject: str
    cluster: str
    snapshot_count: int
    since: datetime
    blames: tuple[Blame, ...]


def blame(store: ObjectStore | str, cluster: str, subject: str) -> BlameReport:
    """The history of a topic with its configs (`orders`) or of one partition (`orders-3`).

    A name that is a topic's in any snapshot is a topic, even if it ends in a number.
    Errors: `ObjectMissingError` when there are no snapshots, or none knows the subject.
    """
    store = opened(store)
    manifests = list_snapshots(store, cluster)
    if not manifests:
        raise ObjectMissingError(
            f"history of {subject!r} not found: cluster {cluster!r} has no snapshots in {store.uri!r}"
        )
    states = [(manifest, _topic_state(store, manifest, subject)) for manifest in manifests]
    if not any(state for _, state in states):
        partition = _as_partition(subject)
        if partition is not None:
            states = [(manifest, _partition_state(store, manifest, partition)) for manifest in manifests]
    if not any(state for _, state in states):
        raise ObjectMissingError(
            f"history of {subject!r} not found: none of the {len(manifests)} snapshots of {cluster!r} knows such a topic or "
            "partition; give a topic, or TOPIC-NUMBER"
        )
    fields = list(dict.fromkeys(name for _, state in reversed(states) for name in state))
    blames = tuple(Blame(name, tuple(_history(states, name))) for name in fields)
    return BlameReport(subject, cluster, len(manifests), manifests[0].taken_at, blames)


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
    return "\n".join(lines)


def blame_json(report: BlameReport) -> dict[str, Any]:
    """For machines."""
    document = asdict(report)
    document["since"] = report.since.isoformat()
    for each in document["blames"]:
        for seen in each["history"]:
            seen["taken_at"] = seen["taken_at"].isoformat()
    return document


def _history(states: Sequence[tuple[Manifest, Mapping[str, Any]]], name: str) -> Iterator[Seen]:
    runs: list[Seen] = []
    for manifest, state in states:
        value = state.get(name, ABSENT)
        if not runs or runs[-1].value != value:
            runs.append(Seen(value, manifest.snapshot_id, manifest.taken_at))
    return reversed(runs)


def _topic_state(store: ObjectStore, manifest: Manifest, topic: str) -> dict[str, Any]:
    table = read_table(store, manifest, "topics")
    rows = table.filter(pc.equal(table["topic"], topic)).to_pylist()
    if not rows:
        return {}
    state: dict[str, Any] = {"exists": True, **{name: rows[0][name] for name in _TOPIC_FIELDS}}
    configs = read_table(store, manifest, "configs")
    own = pc.and_(pc.equal(configs["entity_type"], "topics"), pc.equal(configs["entity_name"], topic))
    state |= {f"config {row['key']}": row["value"] for row in configs.filter(own).to_pylist()}
    partitions = read_table(store, manifest, "partitions")
    for row in partitions.filter(pc.equal(partitions["topic"], topic)).to_pylist():
        state[f"replicas of {row['partition']}"] = row["replicas"]
        state[f"leader of {row['partition']}"] = row["leader"]
        state[f"isr of {row['partition']}"] = row["isr"]
    return state


def _partition_state(store: ObjectStore, manifest: Manifest, partition: TopicPartition) -> dict[str, Any]:
    table = read_table(store, manifest, "partitions")
    own = pc.and_(pc.equal(table["topic"], partition.topic), pc.equal(table["partition"], partition.partition))
    rows = table.filter(own).to_pylist()
    return {name: rows[0][name] for name in _PARTITION_FIELDS} if rows else {}


def _as_partition(subject: str) -> TopicPartition | None:
    topic, _, number = subject.rpartition("-")
    return TopicPartition(topic, int(number)) if topic and number.isdecimal() else None


def _shown(value: Any) -> str:
    return "(not there)" if value is None else str(value)


def _day(moment: datetime) -> str:
    return moment.isoformat(sep=" ", timespec="minutes")
