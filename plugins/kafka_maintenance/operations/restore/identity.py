"""Whether the target is the snapshot's cluster, told by whatever survives there.

`/cluster/id` says it; where it is gone, znodes of the snapshot that are still there (the same creation: czxid and ctime), or
topics with the same id, or the answer of the brokers that are registered there; else a person has to say it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from controller_core import znodes
from controller_core.adapters.snapshot.manifest import Manifest
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.errors import MalformedZnodeError, NoNodeError
from controller_core.model.words import counted
from controller_core.ports.zookeeper import ZooKeeper
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.cluster.identity_asked import identity_asked
from kafka_maintenance.operations.errors import RefusedError
from kafka_maintenance.operations.restore.content import RestoreScope

_LOOKED_AT_MAX: Final = 5000
"""Znodes of the snapshot that are looked for in the target."""


def require_same_cluster(
    session: ZooKeeper, raw: pa.Table, manifest: Manifest, target: ClusterAddress, scope: RestoreScope
) -> str | None:
    """How the target is known to be the snapshot's cluster, as a sentence for the approver; None where its id says so.

    Args:
        session: of the target.
        raw: znodes of the snapshot.
        manifest: of the snapshot.
        target: where the restore writes.
        scope: what of the snapshot is restored.

    Raises:
        RefusedError: it is another cluster, or nothing that survives says which one it is; names the way out.
    """
    wanted, found = manifest.kafka_cluster_id, _cluster_id(session)
    if found is not None and found == wanted:
        return None
    if scope.cluster_id is not None and scope.cluster_id == wanted:
        there = "none" if found is None else repr(found)
        if scope.told_by is not None:
            return f"BY THE BROKERS: those at {scope.told_by} are of {wanted!r}; the target's {znodes.CLUSTER_ID} holds {there}"
        return f"BY WORD: --cluster-id says that the target is {wanted!r}; its {znodes.CLUSTER_ID} holds {there}"
    if found is not None or scope.cluster_id is not None:
        raise RefusedError(
            f"restore of {manifest.snapshot_id} to {target.zookeeper} refused: expected Kafka cluster id {wanted!r}, found "
            f"{found or scope.cluster_id!r}; this snapshot is of another cluster. If {znodes.CLUSTER_ID} itself was overwritten, "
            f"say so: --cluster-id {wanted}"
        )
    survivors = _survivors(session, raw)
    if survivors:
        return f"{znodes.CLUSTER_ID} is gone; still there: {counted(survivors, 'znode')} of the snapshot (same creation, or same topic id)"
    if wanted is None:  # Kafka before 0.10.1
        return "neither the snapshot nor the target has a Kafka cluster id"
    raise RefusedError(
        f"restore of {manifest.snapshot_id} to {target.zookeeper} refused: expected Kafka cluster id {wanted!r}, found none, and "
        f"no znode of the snapshot that is still there; make sure that this is the cluster, then say so: --cluster-id {wanted}"
    )


def told_by_brokers(target: ClusterAddress, scope: RestoreScope, brokers: BrokersAsked) -> RestoreScope:
    """The scope with the brokers' answer, where the target has lost its id; as it is, where nobody needs to be asked.

    Args:
        target: where the restore writes.
        scope: of the restore.
        brokers: of the cluster; they hold its id from their start on.

    Raises:
        RefusedError: other brokers are registered in the target than the ones that answered.
        IdentityUnknownError: they do not say.
    """
    if scope.cluster_id is not None:
        return scope
    with target.session(create_chroot=False) as session:
        if _cluster_id(session) is not None:
            return scope
        registered = _registered(session)
    answer = identity_asked(brokers)
    strangers = registered - answer.broker_ids
    if strangers:
        raise RefusedError(
            f"restore to {target.zookeeper} refused: expected the brokers at {brokers.bootstrap_servers} to be those registered "
            f"there, found {sorted(answer.broker_ids)}, and {sorted(strangers)} registered; ask the brokers of this ZooKeeper"
        )
    return replace(scope, cluster_id=answer.cluster_id, told_by=brokers.bootstrap_servers)


def _registered(session: ZooKeeper) -> frozenset[int]:
    try:
        return frozenset(int(name) for name in session.children(znodes.BROKER_IDS) if name.isdecimal())
    except NoNodeError:
        return frozenset()


def _cluster_id(session: ZooKeeper) -> str | None:
    try:
        return znodes.decode_cluster_id(session.get(znodes.CLUSTER_ID)[0])
    except (NoNodeError, MalformedZnodeError):
        return None


def _survivors(session: ZooKeeper, raw: pa.Table) -> int:
    """How many of the snapshot's first persistent znodes are there: made in the same transaction, or topics of the same id."""
    own = raw.filter(pc.and_(pc.greater(pc.fill_null(raw["czxid"], 0), 0), pc.equal(raw["ephemeral_owner"], 0)))
    rows = own.select(["path", "czxid", "ctime", "data"]).slice(0, _LOOKED_AT_MAX).to_pylist()
    found = session.get_many([row["path"] for row in rows])
    count = 0
    for row, there in zip(rows, found, strict=True):
        if there is not None:
            data, stat = there
            same = (stat.czxid, stat.ctime) == (row["czxid"], row["ctime"])
            count += same or _same_topic(row["path"], row["data"], data)
    return count


def _same_topic(path: str, wanted: bytes | None, found: bytes) -> bool:
    if path.rpartition("/")[0] != znodes.TOPICS:
        return False
    try:
        ids: Sequence[str | None] = [znodes.decode_topic(data, path=path).topic_id for data in (wanted, found)]
    except MalformedZnodeError:
        return False
    return ids[0] is not None and ids[0] == ids[1]
