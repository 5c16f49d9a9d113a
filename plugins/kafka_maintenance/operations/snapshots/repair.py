"""Mends the snapshots of a store from what it still holds twice: a manifest from its run's note, tables from the raw layer.

Nothing is deleted, and no raw layer is touched: it is the only source of a restore, and cannot be made again.
"""

import hashlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.decode import decode_tables
from controller_core.adapters.snapshot.manifest import (
    MANIFEST,
    RAW,
    ROOT,
    Manifest,
    StoredObject,
    changed_manifest,
    manifest_bytes,
    run_key,
)
from controller_core.adapters.snapshot.parquet import table_to_parquet
from controller_core.model.errors import ControllerCoreError, MisplacedSnapshotError
from kafka_maintenance.operations.snapshots.catalog import (
    UNUSABLE,
    checked_object,
    identity_of,
    manifest_keys,
    public_configs,
    read_manifest,
    read_raw,
    readable_snapshots,
)
from kafka_maintenance.operations.snapshots.check import note_of
from kafka_maintenance.operations.snapshots.verify import verify_snapshot


@dataclass(frozen=True, slots=True)
class Repair:
    """One thing that can be mended: which object is written, and from what."""

    where: str
    what: str
    key: str
    content: bytes


def plan_repairs(store: ObjectStore, cluster: str | None = None) -> list[Repair]:
    """What can be mended, in the order in which it is written; nothing is written.

    A manifest that is lost or damaged comes from the note of its run, if all its objects are whole. Tables that are lost,
    damaged or other than raw are decoded from raw again; their manifest is written anew then, so plans that were made from
    the snapshot have to be made again. A note that is lost comes from its manifest.
    """
    manifests, _ = readable_snapshots(store, manifest_keys(store, cluster))
    known = {manifest.key for manifest in manifests}
    repairs = list(_lost_manifests(store, known, cluster))
    for manifest in manifests:
        repairs += _tables(store, manifest) or _note(store, manifest)
    return repairs


def carry_out(store: ObjectStore, repairs: list[Repair]) -> None:
    """Writes what was planned; to be checked afterwards."""
    for repair in repairs:
        store.put(repair.key, repair.content)


def _lost_manifests(store: ObjectStore, known: set[str], cluster: str | None) -> Iterator[Repair]:
    for key in store.list(f"{ROOT}/runs/cluster=" if cluster is None else f"{ROOT}/runs/cluster={cluster}/"):
        with suppress(*UNUSABLE):
            note = note_of(store, key)
            if note.key in known or _is_misplaced(store, note.key):
                continue
            for stored in note.objects:
                checked_object(store, stored)
            yield Repair(note.uri, f"the manifest comes back from the note {key}", note.key, manifest_bytes(note))


def _is_misplaced(store: ObjectStore, key: str) -> bool:
    """Whether another snapshot's manifest lies there: that is for a person to move away."""
    try:
        read_manifest(store, key)
    except MisplacedSnapshotError:
        return True
    except ControllerCoreError:
        return False
    return False


def _tables(store: ObjectStore, manifest: Manifest) -> list[Repair]:
    """The tables decoded again, the manifest and the note that name them; nothing where all is whole, or raw is not."""
    if not verify_snapshot(store, manifest):
        return []
    try:
        raw = read_raw(store, manifest)
    except UNUSABLE:
        return []
    try:
        public = public_configs(store, manifest)
    except UNUSABLE:  # settings beside secrets were in the table `configs` alone
        public = {}
    repairs: list[Repair] = []
    objects: list[StoredObject] = [manifest.object(RAW)]
    for name, table in decode_tables(raw, identity_of(manifest), public).items():
        content = table_to_parquet(table)
        key = f"{manifest.prefix}/{name}.parquet"
        made = StoredObject(key, len(content), hashlib.sha256(content).hexdigest(), table.num_rows)
        objects.append(made)
        repairs.append(Repair(store.uri_of(key), "the table is decoded from raw again", key, content))
    counts = {**manifest.counts, **{stored.table: stored.rows for stored in objects[1:]}, "znodes": raw.num_rows}
    anew = changed_manifest(manifest, objects=tuple(objects), counts=counts)
    content = manifest_bytes(anew)
    note = run_key(manifest.cluster, manifest.run_id)
    return [
        *repairs,
        Repair(store.uri_of(note), "the note of the run names the tables made again", note, content),
        Repair(manifest.uri, "the manifest names the tables made again", f"{manifest.prefix}/{MANIFEST}", content),
    ]


def _note(store: ObjectStore, manifest: Manifest) -> list[Repair]:
    key = run_key(manifest.cluster, manifest.run_id)
    with suppress(*UNUSABLE):
        note = note_of(store, key)
        if note.digest == manifest.digest or note.snapshot_id != manifest.snapshot_id:  # or a later snapshot of the run
            return []
    return [
        Repair(store.uri_of(key), "the note of the run is a copy of the manifest again", key, manifest_bytes(manifest))
    ]
