"""Takes one snapshot: reads the tree as of one transaction and has it published.

Source: docs/snapshots.md, "How a cut is taken"; KIP-866 for the guard against KRaft.
"""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Final

from controller_core import znodes
from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.acls import KnownAcls
from controller_core.adapters.snapshot.format import known_acls, raw_layer
from controller_core.adapters.snapshot.manifest import require_name
from controller_core.adapters.snapshot.reader import Progress, ReadOptions, read_cut
from controller_core.adapters.snapshot.secrets import Sealer
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.errors import (
    MalformedZnodeError,
    NoAuthError,
    NoNodeError,
    NotKafkaTreeError,
)
from controller_core.model.words import counted
from controller_core.ports.zookeeper import ZooKeeper
from kafka_maintenance.operations.snapshots.catalog import UNUSABLE, earlier_of, read_raw
from kafka_maintenance.operations.snapshots.publish import (
    SnapshotResult,
    cluster_id_of,
    made_before,
    migrating,
    new_identity,
    publish_snapshot,
    require_same_id,
    result_of,
)

_NAMES_SHOWN = 10
_TRIES_FOR_ACLS: Final = 3
"""Snapshots whose raw layer is tried for ACLs that still stand."""


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
        NotKafkaTreeError: no Kafka cluster lives there.
        OtherClusterError: the name has snapshots of another cluster.
        ObjectStoreError: the store failed.
        SnapshotKeyError: the key cannot be used.
        ValueError: a bad cluster name.
    """
    require_name(cluster, "cluster")
    sealer = Sealer.from_file(key_file) if key_file else None
    store.probe()
    made = made_before(store, cluster, run_id)
    if made is not None:
        return result_of(made, created=False)
    with address.session(timeout_s=timeout_s) as session:
        require_kafka_tree(session, address)
        if not new_cluster_id:
            require_same_id(store, cluster, cluster_id_of(_data(session, znodes.CLUSTER_ID)), address)
        cut = read_cut(session.client, options, progress, known_acls=_acls_before(store, cluster))
    identity = new_identity(cut, cluster, run_id, now)
    raw = raw_layer(cut, sealer.of(cluster, identity.snapshot_id) if sealer else None)
    cut = replace(cut, znodes={}, acls={})  # hundreds of MB that nobody needs any more
    return publish_snapshot(
        store,
        cut,
        raw,
        identity=identity,
        run_id=run_id,
        chroot=address.chroot,
        key_id=sealer.key_id if sealer else None,
    )


# ------------------------------------------------------------------------------------------------- refusals


def require_kafka_tree(zookeeper: ZooKeeper, address: ClusterAddress) -> None:
    """Refuses, before much is read, what is no tree of Kafka's; one that migrates to KRaft is read like any other."""
    if zookeeper.exists(znodes.TOPICS) is None or zookeeper.exists(znodes.BROKER_IDS) is None:
        names = zookeeper.children("/")
        homes = [name for name in names[: _NAMES_SHOWN * 10] if _may_be_kafkas(zookeeper, name)]
        hint = f"did you mean the chroot {', '.join(f'/{name}' for name in homes)}?" if homes else "correct the chroot"
        shown = ", ".join(names[:_NAMES_SHOWN]) or "nothing"
        raise NotKafkaTreeError(
            f"{address} refused: expected Kafka's /brokers/topics and /brokers/ids below the chroot, found {shown} "
            f"({counted(len(names), 'znode')}); {hint}"
        )


def _may_be_kafkas(zookeeper: ZooKeeper, name: str) -> bool:
    """Whether a znode at the root has a child `brokers` as Kafka's chroot has; what lies below that may be closed to this session."""
    try:
        return zookeeper.exists(f"/{name}{znodes.BROKER_IDS}") is not None
    except NoAuthError:
        return True


def require_zookeeper_mode(zookeeper: ZooKeeper, address: ClusterAddress) -> None:
    """Refuses to write to a cluster whose controller is KRaft's or is about to be; a tree in which znodes of Kafka's are missing is none."""
    migration = _data(zookeeper, znodes.MIGRATION)
    if migration is not None:
        raise migrating(address, f"/migration holds {migration.decode('utf-8', 'replace')[:200]}")
    try:
        data, stat = zookeeper.get(znodes.CONTROLLER)
        controller = znodes.decode_controller(data)
    except (NoNodeError, MalformedZnodeError):  # no controller at the moment, or one that brokers cannot read either
        return
    if not stat.ephemeral_owner or controller.is_kraft:
        raise migrating(address, f"/controller is held by KRaft node {controller.broker_id}")


def _acls_before(store: ObjectStore, cluster: str) -> KnownAcls | None:
    """The ACLs that the newest snapshot of the cluster knows whose raw layer can be read."""
    for manifest in islice(earlier_of(store, cluster), _TRIES_FOR_ACLS):
        with suppress(*UNUSABLE):
            return known_acls(read_raw(store, manifest), manifest.zxid)
    return None


def _data(zookeeper: ZooKeeper, path: str) -> bytes | None:
    try:
        return zookeeper.get(path)[0]
    except NoNodeError:
        return None
