"""What a cluster has lost since a snapshot, and where ZooKeeper and the metadata log differ while both live.

Source: Kafka 3.9 metadata/src/main/resources/common/metadata/*.json for the records; docs/kraft.md, "Watch".
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, NamedTuple

from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.kraft.rehearsal.records import Record, all_records
from kafka_maintenance.servers import Workspace
from kafka_maintenance.servers.kraft_controller import dump_lines
from spark_jobs.kraft.tree import Tree

_FIRST_SEGMENT: Final = "00000000000000000000.log"

Replicas = Mapping[tuple[str, int], tuple[int, ...]]


class LogSays(NamedTuple):
    """What a copy of the quorum's metadata log holds.

    `registrations`: broker → whether it is registered as a ZooKeeper broker. `replicas` of every partition; None where the log no longer begins at its
    first record, so that not all are known.
    """

    registrations: Mapping[int, bool]
    replicas: Replicas | None


def read_log(folder: Path, kafka_version: str) -> LogSays:
    """What the segments of a metadata log say.

    Raises:
        BadInputError: there is none.
        LocalStackError: Kafka's tool cannot be run.
    """
    segments = _segments(folder)
    if not segments:
        raise BadInputError(
            f"{folder} not read: expected the segments of a metadata log (00000000000000000000.log, …), found none; name a copy of __cluster_metadata-0"
        )
    with Workspace.create_temporary() as workspace:
        records = tuple(all_records(dump_lines(workspace, kafka_version, segments)))
    whole = segments[0].name == _FIRST_SEGMENT
    return LogSays(registrations_of(records), replicas_of(records) if whole else None)


class LogReader:
    """Reads a copy of the metadata log, and again where its segments have changed since: Kafka's tool takes seconds.

    Args:
        folder: a copy of `__cluster_metadata-0`, which somebody may renew meanwhile.
        kafka_version: of the tool.

    Raises:
        BadInputError, LocalStackError: see `read_log`, when it is made as at each call.
    """

    def __init__(self, folder: Path, kafka_version: str) -> None:
        self._folder, self._kafka_version = folder, kafka_version
        self._stamp, self._says = self._stamp_now(), read_log(folder, kafka_version)

    def __call__(self) -> LogSays:
        """What the log says now."""
        stamp = self._stamp_now()
        if stamp != self._stamp:
            self._says = read_log(self._folder, self._kafka_version)
            self._stamp = stamp
        return self._says

    def _stamp_now(self) -> list[tuple[str, int, int]]:
        stats = [(path.name, path.stat()) for path in _segments(self._folder)]
        return [(name, stat.st_size, stat.st_mtime_ns) for name, stat in stats]


def registrations_of(records: Iterable[Record]) -> Mapping[int, bool]:
    """Broker → whether it is registered as a ZooKeeper broker, by its last registration."""
    found: dict[int, bool] = {}
    for kind, data in records:
        if kind == "REGISTER_BROKER":
            found[data["brokerId"]] = bool(data.get("isMigratingZkBroker"))
        elif kind == "UNREGISTER_BROKER":
            found.pop(data["brokerId"], None)
    return found


def replicas_of(records: Iterable[Record]) -> Replicas:
    """Topic and partition → replicas, as they are after the last record; an aborted transaction counts for nothing."""
    names: dict[str, str] = {}
    partitions: dict[tuple[str, int], tuple[int, ...]] = {}
    for kind, data in _committed(records):
        if kind == "TOPIC":
            names[data["topicId"]] = data["name"]
        elif kind == "REMOVE_TOPIC":
            names.pop(data["topicId"], None)
        elif kind in {"PARTITION", "PARTITION_CHANGE"} and data.get("replicas") is not None:
            partitions[data["topicId"], data["partitionId"]] = tuple(data["replicas"])
    return {(names[topic], number): replicas for (topic, number), replicas in partitions.items() if topic in names}


def lost(before: Tree, now: Tree) -> Iterator[str]:
    """Topics, partitions and replicas that the earlier tree has and the later one has not; a reassignment keeps their number."""
    for name, topic in before.topics.items():
        if isinstance(topic, str) or name in before.queued:
            continue
        there = now.topics.get(name)
        if there is None or isinstance(there, str):
            yield f"{name}: {'its znode cannot be read any more' if there else 'the topic is gone since the snapshot'}"
            continue
        for number, assignment in sorted(topic.assignments.items()):
            found = there.assignments.get(number)
            if found is None:
                yield f"{name}-{number}: the partition is gone since the snapshot"
            elif len(found.target) < len(assignment.target):
                yield f"{name}-{number}: replicas {list(assignment.target)} in the snapshot, {list(found.target)} now"


def disagreements(tree: Tree, replicas: Replicas) -> Iterator[str]:
    """Partitions of which ZooKeeper and the metadata log give different replicas, or that only one of them has."""
    there = {
        (name, number): assignment.replicas
        for name, topic in tree.topics.items()
        if not isinstance(topic, str) and name not in tree.queued
        for number, assignment in topic.assignments.items()
    }
    for name, number in sorted(there.keys() | replicas.keys()):
        in_tree, in_log = there.get((name, number)), replicas.get((name, number))
        if in_tree is None or in_log is None:
            where = "the metadata log" if in_tree is None else "ZooKeeper"
            yield f"{name}-{number}: only {where} has it; where it is new, copy the log again"
        elif tuple(in_tree) != in_log:
            yield f"{name}-{number}: replicas {list(in_tree)} in ZooKeeper, {list(in_log)} in the metadata log"


def _segments(folder: Path) -> list[Path]:
    return sorted(folder.glob(f"{'[0-9]' * 20}.log"))


def _committed(records: Iterable[Record]) -> Iterator[Record]:
    held: list[Record] | None = None
    for record in records:
        if record.type == "BEGIN_TRANSACTION":
            held = []
        elif record.type == "ABORT_TRANSACTION":
            held = None
        elif record.type == "END_TRANSACTION":
            yield from held or ()
            held = None
        elif held is not None:
            held.append(record)
        else:
            yield record
