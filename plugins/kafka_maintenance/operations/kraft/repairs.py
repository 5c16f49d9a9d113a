"""What can be repaired in a tree before a migration, as writes. Nothing here writes: `kraft rehearse --fix` tries them on the copy, a restore plan does
on the living cluster those that brokers accept while they run.

Source: docs/kraft.md, "Rehearsal".
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final, NamedTuple

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import Manifest
from controller_core.model.errors import MalformedZnodeError
from controller_core.model.partitions import ReplicaAssignment
from controller_core.znodes import TOPICS, decode_config, encode_topic
from kafka_maintenance.operations.errors import NothingToRestoreError
from kafka_maintenance.operations.restore.content import is_alterable
from kafka_maintenance.operations.snapshots.catalog import public_configs, read_raw
from spark_jobs.kraft import entities
from spark_jobs.kraft.tree import NOTIFICATIONS, REQUESTS, Tree, is_secret, tree_of

_UNDER_WAY: Final = "R9"


class Repair(NamedTuple):
    """One write: `data` None deletes the znode and what lies below it. `rule` is the precondition that it serves."""

    rule: str
    path: str
    data: bytes | None
    why: str


def repairs(tree: Tree) -> tuple[Repair, ...]:
    """What can be repaired without a decision about data: nothing is invented, and what is removed is named."""
    return (*_under_way(tree), *_orphan_configs(tree), *_quotas(tree))


def repairs_of(store: ObjectStore, manifest: Manifest, *, brokers_stopped: bool) -> Mapping[str, Any]:
    """The repairs of a snapshot of the store, as arguments of `RestoreScope`.

    Args:
        store: read only.
        manifest: of the snapshot.
        brokers_stopped: also what the controller holds in memory while it runs; the plan is refused where a broker is registered.

    Raises:
        NothingToRestoreError: there is nothing to correct.
    """
    tree = tree_of(read_raw(store, manifest), public_configs(store, manifest))
    found = corrections(tree, brokers_stopped=brokers_stopped)
    if not found:
        more = ", and nothing is under way" if brokers_stopped else ""
        raise NothingToRestoreError(
            f"nothing corrected: snapshot {manifest.snapshot_id} holds no config without its topic, and no quota that a migration refuses{more}"
        )
    stopped = {"requests": True, "notifications": True} if brokers_stopped else {}
    return {"corrections": found, "acls": False, **stopped}


def corrections(tree: Tree, *, brokers_stopped: bool = False) -> tuple[tuple[str, str | None], ...]:
    """The repairs that brokers accept while they run: configs without their topic removed, quotas corrected.

    Requests, notices, deletions and reassignments are among them only where no broker runs: a controller holds them in memory, and plans of
    their own end them beside it.
    """
    found: dict[str, str | None] = {}
    for each in repairs(tree):
        if not brokers_stopped and (each.rule == _UNDER_WAY or not is_alterable(each.path)):
            continue
        if each.data is not None:
            found[each.path] = each.data.decode()
        else:
            found |= dict.fromkeys([each.path, *tree.below(each.path)])
    return tuple(found.items())


def _under_way(tree: Tree) -> Iterator[Repair]:
    for name in sorted(tree.queued):
        if f"{TOPICS}/{name}" in tree:
            yield Repair(_UNDER_WAY, f"{TOPICS}/{name}", None, "its deletion is completed")
            if f"/config/topics/{name}" in tree:
                yield Repair(_UNDER_WAY, f"/config/topics/{name}", None, "it goes with its topic")
        yield Repair(_UNDER_WAY, f"/admin/delete_topics/{name}", None, "the deletion is completed")
    for path in REQUESTS:
        if path in tree:
            yield Repair(_UNDER_WAY, path, None, "the request is cancelled")
    for parent in NOTIFICATIONS:
        for name in tree.children(parent):
            yield Repair(_UNDER_WAY, f"{parent}/{name}", None, "the notice is read by nobody any more")
    for name, topic in tree.topics.items():
        if isinstance(topic, str) or name in tree.queued:
            continue
        if any(each.is_being_reassigned for each in topic.assignments.values()):
            still = {number: ReplicaAssignment(each.origin) for number, each in topic.assignments.items()}
            data = encode_topic(replace(topic, assignments=still))
            yield Repair(_UNDER_WAY, f"{TOPICS}/{name}", data, "its reassignments are cancelled")


def _orphan_configs(tree: Tree) -> Iterator[Repair]:
    for name in tree.children("/config/topics"):
        if f"{TOPICS}/{name}" not in tree:
            yield Repair("R11", f"/config/topics/{name}", None, "there is no such topic")


def _quotas(tree: Tree) -> Iterator[Repair]:
    for kind in entities.QUOTAS:
        for path in tree.below(f"/config/{kind}"):
            if is_secret(tree, path):
                continue  # its content is not at hand
            try:
                config = decode_config(tree.data(path), path=path).config
            except MalformedZnodeError:
                continue
            corrected = {key: fixed for key, value in config.items() if (fixed := _corrected(kind, key, value))}
            if corrected != dict(config):
                changed = sorted(key for key in config if corrected.get(key) != config[key])
                yield Repair("R12", path, _config(corrected), f"corrected: {', '.join(changed)}")


def _corrected(kind: str, key: str, value: str) -> str | None:
    """A quota that Kafka takes; None where it has to go: an unknown key, no number, or a rate out of its range."""
    if key in entities.SCRAM:
        return value
    if key not in entities.QUOTAS[kind] or not entities.is_number(value):
        return None
    if key not in entities.WHOLE or entities.is_whole(key, value):
        return value
    whole = str(int(float(value)))
    return whole if entities.is_whole(key, whole) else None


def _config(settings: Mapping[str, str]) -> bytes:
    return json.dumps({"version": 1, "config": dict(settings)}, separators=(",", ":")).encode()
