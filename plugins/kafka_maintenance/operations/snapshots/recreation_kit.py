"""What is needed to make a deleted topic again: its assignment, its configs, the commands. Its data is gone for good."""

import json
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import Manifest
from controller_core.model.errors import ObjectMissingError
from kafka_maintenance.operations.snapshots.catalog import decoded_tables


@dataclass(frozen=True, slots=True)
class RecreationKit:
    """One topic as it was.

    `assignment` is the reassignment tool's JSON; `commands` are for Kafka's own tools, with BOOTSTRAP to be replaced by a
    broker's address; `notes` say what cannot come back.
    """

    topic: str
    snapshot_id: str
    assignment: dict[str, Any]
    configs: dict[str, str]
    commands: tuple[str, ...]
    notes: tuple[str, ...]

    def files(self) -> dict[str, str]:
        """File name → content, for a folder."""
        return {
            f"{self.topic}.assignment.json": json.dumps(self.assignment, indent=1) + "\n",
            f"{self.topic}.configs.json": json.dumps(self.configs, indent=1, sort_keys=True) + "\n",
            f"{self.topic}.sh": "\n".join(
                [
                    "#!/bin/sh -e",
                    *(f"# {note}" for note in self.notes),
                    ': "${BOOTSTRAP:?host:port of a broker}"',
                    *self.commands,
                ]
            )
            + "\n",
        }


def recreation_kits(store: ObjectStore, manifest: Manifest, topics: Sequence[str]) -> list[RecreationKit]:
    """The kits of all topics of a snapshot that match one of the patterns; `ObjectMissingError` when none does."""
    tables = decoded_tables(store, manifest)
    ids = {row["topic"]: row["topic_id"] for row in tables["topics"].to_pylist()}
    chosen = [topic for topic in ids if any(fnmatchcase(topic, pattern) for pattern in topics)]
    if not chosen:
        raise ObjectMissingError(
            f"recreation kit not made: snapshot {manifest.snapshot_id} knows no topic like {', '.join(topics)}; name another "
            "snapshot, or look for the topic with `blame`"
        )
    replicas: dict[str, dict[int, list[int]]] = {topic: {} for topic in chosen}
    for row in tables["partitions"].to_pylist():
        if row["topic"] in replicas:
            going = set(row["removing"])
            replicas[row["topic"]][row["partition"]] = [each for each in row["replicas"] if each not in going]
    configs: dict[str, dict[str, str]] = {topic: {} for topic in chosen}
    for row in tables["configs"].to_pylist():
        if row["entity_type"] == "topics" and row["entity_name"] in configs:
            configs[row["entity_name"]][row["key"]] = row["value"]
    return [_kit(topic, manifest, replicas[topic], configs[topic], ids[topic]) for topic in chosen]


def _kit(
    topic: str, manifest: Manifest, replicas: dict[int, list[int]], configs: dict[str, str], topic_id: str | None
) -> RecreationKit:
    in_order = sorted(replicas)
    assignment = {
        "version": 1,
        "partitions": [{"topic": topic, "partition": number, "replicas": replicas[number]} for number in in_order],
    }
    spelled = ",".join(":".join(map(str, replicas[number])) for number in in_order)
    settings = "".join(f" --config {shlex.quote(f'{key}={value}')}" for key, value in sorted(configs.items()))
    name = shlex.quote(topic)
    commands = (
        f'kafka-topics.sh --bootstrap-server "$BOOTSTRAP" --create --topic {name} --replica-assignment {spelled}{settings}',
        f'kafka-topics.sh --bootstrap-server "$BOOTSTRAP" --describe --topic {name}',
    )
    notes = [f"topic {topic} as of snapshot {manifest.snapshot_id}; its messages and offsets are gone"]
    if topic_id is not None:
        notes.append(f"its id was {topic_id}; the new topic gets another one")
    if in_order != list(range(len(in_order))):
        notes.append(f"its partitions were {in_order}, not 0 to {len(in_order) - 1}: the command numbers them anew")
    return RecreationKit(topic, manifest.snapshot_id, assignment, configs, commands, tuple(notes))
