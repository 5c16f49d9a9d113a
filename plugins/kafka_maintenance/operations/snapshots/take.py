"""Takes one snapshot: reads the tree as of one transaction, decodes it, publishes it by its manifest.

Published in steps of which only the last is visible: the objects under a fresh prefix, the note that this run has its
snapshot (a copy of the manifest), the manifest. A process killed between any two leaves nothing visible, or a note from
which the next run with the same id finishes the job.
Source: docs/snapshots.md, "How a cut is taken" and "What is stored"; KIP-866 for the guard against KRaft.
"""

import hashlib
import secrets
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from controller_core import znodes
from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.acls import KnownAcls
from controller_core.adapters.snapshot.decode import SnapshotIdentity, decode_tables
from controller_core.adapters.snapshot.format import (
    MASKED_ACL,
    NO_PERMISSION,
    RawLayer,
    known_acls,
    raw_layer,
    raw_to_parquet,
    table_to_parquet,
)
from controller_core.adapters.snapshot.manifest import (
    MANIFEST,
    RAW,
    Manifest,
    StoredObject,
    manifest_bytes,
    new_manifest,
    parse_manifest,
    require_name,
    run_key,
    run_token,
    snapshot_prefix,
)
from controller_core.adapters.snapshot.reader import Cut, Progress, ReadOptions, read_cut
from controller_core.adapters.snapshot.secrets import Sealer
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.errors import (
    MalformedZnodeError,
    MigratingClusterError,
    NoNodeError,
    NotKafkaTreeError,
    ObjectExistsError,
    ObjectMissingError,
    ObjectStoreError,
)
from controller_core.ports.object_store import put_once
from controller_core.ports.zookeeper import ZooKeeper
from kafka_maintenance import __version__
from kafka_maintenance.operations.errors import RefusedError
from kafka_maintenance.operations.snapshots.catalog import UNUSABLE, earlier_of, read_raw

_NAMES_SHOWN = 10
_TRIES_FOR_ACLS: Final = 3
"""Snapshots whose raw layer is tried for ACLs that still stand."""


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


def take_snapshot(
    *,
    address: ClusterAddress,
    cluster: str,
    store: ObjectStore,
    run_id: str,
    now: datetime,
    options: ReadOptions | None = None,
    key_file: Path | None = None,
    progress: Callable[[Progress], None] = lambda _: None,
    timeout_s: float = 15.0,
    new_cluster_id: bool = False,
) -> SnapshotResult:
    """Stores the whole tree of a cluster, once per run id.

    Args:
        address: where the cluster's tree is, and as whom it is read.
        cluster: our name of it; letters, digits, `.`, `_`, `-`.
        store: a store, or its address.
        run_id: names the run; a second call with the same id returns the snapshot of the first.
        now: when the run asks; its UTC date is the snapshot's date.
        options: cost and certainty of the read; None for the defaults.
        key_file: keeps secrets, sealed with this key; None leaves them out.
        progress: told while the tree is read.
        timeout_s: how long to wait for a ZooKeeper server.
        new_cluster_id: the cluster was made anew under this name, with another `/cluster/id`.

    Malformed znodes are counted, never fatal. After an error nothing new is visible in the store.

    Raises:
        ZooKeeperUnreachableError: no server answers, or the connection could not be kept.
        NoNodeError, NoAuthError: the chroot does not exist, or may not be read.
        NotKafkaTreeError, MigratingClusterError: no Kafka cluster in ZooKeeper mode lives there.
        OtherClusterError: the name has snapshots of another cluster.
        ObjectStoreError: the store failed.
        SnapshotKeyError: the key cannot be used.
        ValueError: a bad cluster name.
    """
    require_name(cluster, "cluster")
    sealer = Sealer.from_file(key_file) if key_file else None
    store.probe()
    made = _made_before(store, cluster, run_id)
    if made is not None:
        return _result(made, created=False)
    with address.session(timeout_s=timeout_s) as session:
        require_kafka_tree(session, address)
        if not new_cluster_id:
            _require_same_id(store, cluster, _cluster_id(_data(session, znodes.CLUSTER_ID)), address)
        cut = read_cut(session.client, options, progress, known_acls=_acls_before(store, cluster))
    _require_no_migration(cut, address)
    raw = raw_layer(cut, sealer)
    cut = replace(cut, znodes={}, acls={})  # hundreds of MB that nobody needs any more
    draft, contents = _contents(cut, raw, cluster, run_id, now)
    manifest, created = _publish(
        store, contents, {**draft, "chroot": address.chroot, "key_id": sealer.key_id if sealer else None}
    )
    return _result(manifest, created=created)


def _result(manifest: Manifest, *, created: bool) -> SnapshotResult:
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


def require_kafka_tree(zookeeper: ZooKeeper, address: ClusterAddress) -> None:
    """Refuses, before much is read, what is not a ZooKeeper-mode cluster of Kafka's."""
    if zookeeper.exists(znodes.TOPICS) is None or zookeeper.exists(znodes.BROKER_IDS) is None:
        names = zookeeper.children("/")
        homes = [
            name for name in names[: _NAMES_SHOWN * 10] if zookeeper.exists(f"/{name}{znodes.BROKER_IDS}") is not None
        ]
        hint = f"did you mean the chroot {', '.join(f'/{name}' for name in homes)}?" if homes else "correct the chroot"
        shown = ", ".join(names[:_NAMES_SHOWN]) or "nothing"
        raise NotKafkaTreeError(
            f"{address} refused: expected Kafka's /brokers/topics and /brokers/ids below the chroot, found {shown} "
            f"({len(names)} znodes); {hint}"
        )
    require_zookeeper_mode(zookeeper, address)


def require_zookeeper_mode(zookeeper: ZooKeeper, address: ClusterAddress) -> None:
    """Refuses a cluster that KRaft rules or is about to; a tree in which znodes of Kafka's are missing is none."""
    migration = _data(zookeeper, znodes.MIGRATION)
    if migration is not None:
        raise _migrating(address, f"/migration holds {migration.decode('utf-8', 'replace')[:200]}")
    try:
        data, stat = zookeeper.get(znodes.CONTROLLER)
        controller = znodes.decode_controller(data)
    except (NoNodeError, MalformedZnodeError):  # no controller at the moment, or one that brokers cannot read either
        return
    if not stat.ephemeral_owner or controller.is_kraft:
        raise _migrating(address, f"/controller is held by KRaft node {controller.broker_id}")


def _require_same_id(store: ObjectStore, cluster: str, found: str | None, address: ClusterAddress) -> None:
    """Refuses a tree of another cluster than the one whose snapshots have this name; one without an id is no other one."""
    before = next((each for each in earlier_of(store, cluster) if each.kafka_cluster_id is not None), None)
    if before is None or found in (None, before.kafka_cluster_id):
        return
    raise OtherClusterError(
        f"snapshot of {address} as {cluster!r} refused: expected Kafka cluster id {before.kafka_cluster_id!r}, as on "
        f"{before.date}, found {found!r}; correct host, chroot or name. If the cluster was made anew, say so: --new-cluster-id"
    )


def _cluster_id(data: bytes | None) -> str | None:
    try:
        return znodes.decode_cluster_id(data) if data else None
    except MalformedZnodeError:
        return None


def _acls_before(store: ObjectStore, cluster: str) -> KnownAcls:
    """The ACLs that the newest snapshot of the cluster knows whose raw layer can be read."""
    for manifest in islice(earlier_of(store, cluster), _TRIES_FOR_ACLS):
        with suppress(*UNUSABLE):
            return known_acls(read_raw(store, manifest))
    return {}


def _data(zookeeper: ZooKeeper, path: str) -> bytes | None:
    try:
        return zookeeper.get(path)[0]
    except NoNodeError:
        return None


def _require_no_migration(cut: Cut, address: ClusterAddress) -> None:
    if znodes.MIGRATION in cut.znodes:
        raise _migrating(address, "/migration appeared while the tree was read")


def _migrating(address: ClusterAddress, found: str) -> MigratingClusterError:
    return MigratingClusterError(
        f"{address} refused: expected a cluster that ZooKeeper rules, but it moves to KRaft ({found}); "
        "finish or roll back the migration, and use Kafka's own metadata log from then on"
    )


# ------------------------------------------------------------------------------------------------- content


def _contents(
    cut: Cut, raw: RawLayer, cluster: str, run_id: str, now: datetime
) -> tuple[dict[str, Any], dict[str, tuple[bytes, int]]]:
    """The manifest's fields, and object name → (bytes, rows). Nothing secret is in either."""
    # The suffix makes the prefix fresh: what a killed run left behind is never mixed with what this one writes.
    snapshot_id = f"{cut.zxid:016x}-{run_token(run_id)}-{secrets.token_hex(3)}"
    identity = SnapshotIdentity(
        cluster=cluster, snapshot_id=snapshot_id, taken_at=now.astimezone(UTC), zxid=cut.zxid, consistent=cut.consistent
    )
    tables: dict[str, pa.Table] = decode_tables(raw.table, identity, raw.public_configs)
    contents = {RAW: (raw_to_parquet(raw.table), raw.table.num_rows)}
    contents |= {name: (table_to_parquet(table), table.num_rows) for name, table in tables.items()}
    ephemerals = pc.sum(pc.not_equal(pc.fill_null(raw.table["ephemeral_owner"], 0), 0)).as_py() or 0
    fields = {
        "cluster": cluster,
        "kafka_cluster_id": tables["cluster"]["kafka_cluster_id"][0].as_py(),
        "date": identity.taken_at.date().isoformat(),
        "snapshot_id": snapshot_id,
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
        winner = _made_before(store, manifest.cluster, manifest.run_id)
        if winner is not None and winner.prefix != prefix:
            for stored in objects:
                with suppress(ObjectStoreError):  # invisible anyway: retention sweeps what stays
                    store.delete(stored.key)
            return winner, False
        if winner is None:
            _replace_note(store, manifest)
    _show(store, manifest)
    return manifest, True


def _made_before(store: ObjectStore, cluster: str, run_id: str) -> Manifest | None:
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
