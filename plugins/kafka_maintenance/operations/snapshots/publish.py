"""Publishes a tree as a snapshot, once per run, whoever read it.

In steps of which only the last is visible: the objects under a fresh prefix, the note that this run has its snapshot (a copy
of the manifest), the manifest. A process killed between any two leaves nothing visible, or a note from which the next run with
the same id finishes the job.
Source: docs/snapshots.md, "What is stored".
"""

import hashlib
import secrets
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from controller_core import znodes
from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.cut import Cut
from controller_core.adapters.snapshot.decode import SnapshotIdentity, decode_tables
from controller_core.adapters.snapshot.format import MASKED_ACL, RawLayer, raw_to_parquet
from controller_core.adapters.snapshot.manifest import (
    MANIFEST,
    RAW,
    Manifest,
    StoredObject,
    manifest_bytes,
    new_manifest,
    parse_manifest,
    run_key,
    run_token,
    snapshot_prefix,
)
from controller_core.adapters.snapshot.parquet import table_to_parquet
from controller_core.adapters.snapshot.tables import NO_PERMISSION
from controller_core.model.errors import (
    MalformedZnodeError,
    MigratingClusterError,
    ObjectExistsError,
    ObjectMissingError,
    ObjectStoreError,
)
from controller_core.ports.object_store import put_once
from kafka_maintenance import __version__
from kafka_maintenance.operations.errors import RefusedError
from kafka_maintenance.operations.snapshots.catalog import earlier_of


class OtherClusterError(RefusedError):
    """The name has snapshots of another Kafka cluster; nothing was stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnapshotResult:
    """A published snapshot; `created` is False when this run had made it before."""

    manifest_uri: str
    digest: str
    consistent: bool
    zxid: int
    counts: Mapping[str, int]
    created: bool
    manifest: Manifest


def publish_snapshot(
    store: ObjectStore,
    cut: Cut,
    raw: RawLayer,
    *,
    identity: SnapshotIdentity,
    run_id: str,
    chroot: str,
    key_id: str | None,
) -> SnapshotResult:
    """Stores a tree as a snapshot of a run that has none.

    Args:
        store: where to.
        cut: how the tree was read; its znodes and ACLs are not needed any more.
        raw: the tree.
        identity: of `new_identity`, to which the secrets in `raw` are bound.
        run_id: names the run.
        chroot: where in ZooKeeper it lives.
        key_id: of the key that sealed the secrets in `raw`; None: it holds none.

    Raises:
        ObjectStoreError: the store failed; nothing new is visible in it.
    """
    draft, contents = _contents(cut, raw, identity, run_id)
    manifest, created = _publish(store, contents, {**draft, "chroot": chroot, "key_id": key_id})
    return result_of(manifest, created=created)


def new_identity(cut: Cut, cluster: str, run_id: str, taken_at: datetime) -> SnapshotIdentity:
    """What the snapshot of a cut will be called.

    Its prefix is fresh: what a killed run left behind is never mixed with what this one writes.

    Args:
        cut: the tree.
        cluster: our name of its cluster.
        run_id: names the run.
        taken_at: the snapshot's time; its UTC date is the snapshot's.
    """
    return SnapshotIdentity(
        cluster=cluster,
        snapshot_id=f"{cut.zxid:016x}-{run_token(run_id)}-{secrets.token_hex(3)}",
        taken_at=taken_at.astimezone(UTC),
        zxid=cut.zxid,
        consistent=cut.consistent,
    )


def result_of(manifest: Manifest, *, created: bool) -> SnapshotResult:
    """What a caller hears of a published snapshot."""
    return SnapshotResult(
        manifest_uri=manifest.uri,
        digest=manifest.digest,
        consistent=manifest.consistent,
        zxid=manifest.zxid,
        counts=manifest.counts,
        created=created,
        manifest=manifest,
    )


# ------------------------------------------------------------------------------------------------- refusals


def require_same_id(store: ObjectStore, cluster: str, found: str | None, place: object) -> None:
    """Refuses a tree of another cluster than the one whose snapshots have this name; one without an id is no other one.

    Args:
        store: with the earlier snapshots.
        cluster: the name.
        found: id of the Kafka cluster in the tree.
        place: where the tree was read, for the message.

    Raises:
        OtherClusterError: it is another one; names both ids.
    """
    before = next((each for each in earlier_of(store, cluster) if each.kafka_cluster_id is not None), None)
    if before is None or found in (None, before.kafka_cluster_id):
        return
    raise OtherClusterError(
        f"snapshot of {place} as {cluster!r} refused: expected Kafka cluster id {before.kafka_cluster_id!r}, as on "
        f"{before.date}, found {found!r}; correct host, chroot or name. If the cluster was made anew, say so: --new-cluster-id"
    )


def cluster_id_of(data: bytes | None) -> str | None:
    """The id in the data of `/cluster/id`; None where there is none that can be read."""
    try:
        return znodes.decode_cluster_id(data) if data else None
    except MalformedZnodeError:
        return None


def migrating(place: object, found: str) -> MigratingClusterError:
    """The refusal to write to a cluster that moves to KRaft; what was found says so."""
    return MigratingClusterError(
        f"{place} refused: expected a cluster in ZooKeeper mode, but it moves to KRaft ({found}); what is written to ZooKeeper is "
        "ignored, reverted, or lost. Nothing is written until a way back has ended with /migration and the claimed /controller deleted, and never again once "
        "the quorum is finalised"
    )


# ------------------------------------------------------------------------------------------------- content


def _contents(
    cut: Cut, raw: RawLayer, identity: SnapshotIdentity, run_id: str
) -> tuple[dict[str, Any], dict[str, tuple[bytes, int]]]:
    """The manifest's fields, and object name → (bytes, rows). Nothing secret is in either."""
    tables: dict[str, pa.Table] = decode_tables(raw.table, identity, raw.public_configs)
    contents = {RAW: (raw_to_parquet(raw.table), raw.table.num_rows)}
    contents |= {name: (table_to_parquet(table), table.num_rows) for name, table in tables.items()}
    ephemerals = pc.sum(pc.not_equal(pc.fill_null(raw.table["ephemeral_owner"], 0), 0)).as_py() or 0
    fields = {
        "cluster": identity.cluster,
        "kafka_cluster_id": tables["cluster"]["kafka_cluster_id"][0].as_py(),
        "date": identity.taken_at.date().isoformat(),
        "snapshot_id": identity.snapshot_id,
        "run_id": run_id,
        "taken_at": identity.taken_at,
        "zxid": cut.zxid,
        "consistent": cut.consistent,
        "reason": cut.reason,
        "unresolved": cut.unresolved,
        "rounds": cut.rounds,
        "method": cut.method,
        "zookeeper_version": cut.server_version,
        "secured": cut.secured,
        "acls": _acls(raw.table, cut.acls_carried),
        "counts": {
            "znodes": raw.table.num_rows,
            "ephemerals": ephemerals,
            "secrets": len(raw.redacted),
            "unreadable": len(cut.unreadable),
            "neighbours": len(cut.neighbours),
            **{name: table.num_rows for name, table in tables.items()},
        },
        "redacted": raw.redacted,
        "unreadable": tuple(sorted(cut.unreadable)),
        "code_version": __version__,
    }
    return fields, contents


def _acls(raw: pa.Table, carried: int) -> dict[str, Any]:
    """What the manifest says of the ACLs; of a znode that may not be read `unreadable` says all."""
    readable = raw.filter(pc.not_equal(pc.fill_null(raw["left_out"], ""), NO_PERMISSION))
    unread = pc.is_null(readable["acl"])
    masked = pc.fill_null(pc.match_substring_regex(readable["acl"], MASKED_ACL), fill_value=False)
    return {
        "read": readable.num_rows - carried - (pc.sum(unread).as_py() or 0),
        "carried": carried,
        "unread": readable.filter(unread)["path"].to_pylist(),
        "masked": readable.filter(masked)["path"].to_pylist(),
    }


# ------------------------------------------------------------------------------------------------- publishing


def _publish(
    store: ObjectStore, contents: Mapping[str, tuple[bytes, int]], fields: dict[str, Any]
) -> tuple[Manifest, bool]:
    """Writes objects, note and manifest; the winner's manifest, and whether that is ours."""
    prefix = snapshot_prefix(fields["cluster"], fields["taken_at"], fields["snapshot_id"])
    objects: list[StoredObject] = []
    for name, (content, rows) in contents.items():
        stored = StoredObject(f"{prefix}/{name}.parquet", len(content), hashlib.sha256(content).hexdigest(), rows)
        put_once(store, stored.key, content)
        objects.append(stored)
    key = f"{prefix}/{MANIFEST}"
    manifest = new_manifest(uri=store.uri_of(key), prefix=prefix, objects=tuple(objects), **fields)
    try:
        store.put_new(run_key(manifest.cluster, manifest.run_id), manifest_bytes(manifest))
    except ObjectExistsError:  # another process of the same run was faster
        winner = made_before(store, manifest.cluster, manifest.run_id)
        if winner is not None and winner.prefix != prefix:
            for stored in objects:
                with suppress(ObjectStoreError):  # invisible anyway: retention sweeps what stays
                    store.delete(stored.key)
            return winner, False
        if winner is None:
            _replace_note(store, manifest)
    _show(store, manifest)
    return manifest, True


def made_before(store: ObjectStore, cluster: str, run_id: str) -> Manifest | None:
    """The snapshot of this run, if there is one; published now if its process died before it could.

    A note whose objects are gone (deleted by hand) is none.
    """
    try:
        content = store.get(run_key(cluster, run_id))
    except ObjectMissingError:
        return None
    noted = parse_manifest(content, store.uri_of(run_key(cluster, run_id)), "")
    if noted.cluster != cluster:  # copied with another cluster's folder
        return None
    prefix = snapshot_prefix(noted.cluster, noted.taken_at, noted.snapshot_id)
    key = f"{prefix}/{MANIFEST}"
    manifest = parse_manifest(content, store.uri_of(key), key)
    try:
        if any(store.size(stored.key) != stored.size for stored in manifest.objects):
            return None
    except ObjectMissingError:
        return None
    _show(store, manifest)
    return manifest


def _show(store: ObjectStore, manifest: Manifest) -> None:
    put_once(store, manifest.key, manifest_bytes(manifest))


def _replace_note(store: ObjectStore, manifest: Manifest) -> None:
    """The note points to a snapshot that is gone: it becomes ours."""
    store.put(run_key(manifest.cluster, manifest.run_id), manifest_bytes(manifest))
