"""Copies snapshots to a second store, each byte checked on the way and again where it arrived.

Objects first, the manifest last, as when a snapshot is taken: what a killed copy left is invisible, and the next one goes on
from there. Everything is written by create-only puts and nothing is deleted, so an append-only or locked bucket will do.
"""

from collections.abc import Callable, Collection
from contextlib import suppress
from dataclasses import dataclass

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import (
    RAW,
    ROOT,
    Manifest,
    changed_manifest,
    cluster_prefix,
    manifest_bytes,
    pin_key,
    run_key,
)
from controller_core.model.errors import ObjectExistsError, ObjectMissingError
from controller_core.ports.object_store import put_once
from kafka_maintenance.operations.errors import RefusedError
from kafka_maintenance.operations.snapshots.catalog import (
    UNUSABLE,
    checked_object,
    manifest_keys,
    read_manifest,
    readable_snapshots,
)


@dataclass(frozen=True, slots=True)
class Copied:
    """What a copy did: snapshots copied now, those that were there, and why each other one was not copied."""

    copied: tuple[str, ...]
    already_there: int
    passed_over: tuple[str, ...]


def copy_snapshots(
    source: ObjectStore,
    target: ObjectStore,
    *,
    cluster: str | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> Copied:
    """Copies every snapshot that the target lacks, or of which it lacks an object, with its pin and the note of its run.

    Args:
        source: read only.
        target: another store; nothing in it is changed or deleted.
        cluster: only this one.
        progress: told of each snapshot copied.

    Returns:
        What was copied; a snapshot that is damaged in one of the stores, or another one in the target, is passed over and named.

    Raises:
        RefusedError: both are one store, or one lies among the objects of the other.
        ObjectStoreError: a store failed; run again, it goes on where it stopped.
    """
    if source.uri == target.uri:
        raise RefusedError(
            f"snapshots of {source.uri} not copied: expected another store as target, found the same one"
        )
    if _is_among_objects(target, source) or _is_among_objects(source, target):
        raise RefusedError(
            f"snapshots of {source.uri} not copied: expected a target beside it, found {target.uri}, one of which lies among the objects of the "
            "other; name the folder or the prefix that holds v1/, and another one as target"
        )
    target.probe()
    manifests, unusable = readable_snapshots(source, manifest_keys(source, cluster))
    passed_over = [str(error) for error in unusable]
    copied: list[str] = []
    already_there = 0
    there = set(target.list(f"{ROOT}/cluster=" if cluster is None else cluster_prefix(cluster)))
    for manifest in manifests:
        try:
            if _is_there(target, manifest, there):
                already_there += 1
                continue
            _copy(source, target, manifest)
        except (*UNUSABLE, ObjectExistsError) as error:
            passed_over.append(str(error))
            continue
        copied.append(manifest.snapshot_id)
        progress(f"copied {manifest.snapshot_id} of {manifest.cluster} ({len(copied)})")
    return Copied(tuple(copied), already_there, tuple(passed_over))


def _is_among_objects(store: ObjectStore, other: ObjectStore) -> bool:
    return f"{store.uri}/".startswith(f"{other.uri}/{ROOT}/")


def _is_there(target: ObjectStore, manifest: Manifest, there: Collection[str]) -> bool:
    """Whether the target, which has these keys, shows this very snapshot with all its objects, repaired in one of the stores or not.

    One of the same name with another content is an error that names it.
    """
    if manifest.key not in there:
        return False
    found = read_manifest(target, manifest.key)
    if _was_repaired(found, manifest) and all(stored.key in there for stored in found.objects):
        return True
    if found.digest != manifest.digest:
        raise ObjectExistsError(
            f"snapshot {manifest.uri} not copied: expected nothing at {target.uri_of(manifest.key)}, or the same digest "
            f"{manifest.digest[:12]}, found {found.digest[:12]}; check both stores, keep the one that is whole"
        )
    return all(stored.key in there for stored in manifest.objects)


def _was_repaired(one: Manifest, other: Manifest) -> bool:
    """Whether both are of the same raw layer, from which the tables of one were made again."""
    again = changed_manifest(one, objects=other.objects, counts=other.counts)
    return again.digest == other.digest and one.object(RAW) == other.object(RAW)


def _copy(source: ObjectStore, target: ObjectStore, manifest: Manifest) -> None:
    for stored in manifest.objects:
        content = checked_object(source, stored)
        with suppress(ObjectExistsError):  # what lies there is checked like what was written
            target.put_new(stored.key, content)
        checked_object(target, stored)
    for key in (pin_key(manifest.cluster, manifest.snapshot_id), run_key(manifest.cluster, manifest.run_id)):
        try:
            put_once(target, key, source.get(key))
        except (ObjectMissingError, ObjectExistsError):  # no pin, no note; or the target has its own
            continue
    put_once(target, manifest.key, manifest_bytes(manifest))
