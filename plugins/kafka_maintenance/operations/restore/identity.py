"""Whether the target is the snapshot's cluster, told by whatever survives there.

`/cluster/id` says it; where it is gone, znodes of the snapshot that are still there (the same creation: czxid and ctime), or
topics with the same id; else a person has to say it.
"""

from collections.abc import Sequence
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from controller_core import znodes
from controller_core.adapters.snapshot.manifest import Manifest
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.errors import MalformedZnodeError, NoNodeError
from controller_core.ports.zookeeper import ZooKeeper
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
        return f"BY WORD: --cluster-id says that the target is {wanted!r}; its {znodes.CLUSTER_ID} holds {there}"
    if found is not None or scope.cluster_id is not None:
        raise RefusedError(
            f"restore of {manifest.snapshot_id} to {target.zookeeper} refused: expected Kafka cluster id {wanted!r}, found "
            f"{found or scope.cluster_id!r}; this snapshot is of another cluster. If {znodes.CLUSTER_ID} itself was overwritten, "
            f"say so: --cluster-id {wanted}"
        )
    survivors = _survivors(session, raw)
    if survivors:
        return f"{znodes.CLUSTER_ID} is gone; {survivors} znodes of the snapshot are still there (same creation, or same topic id)"
    if wanted is None:  # Kafka before 0.10.1
        return "neither the snapshot nor the target has a Kafka cluster id"
    raise RefusedError(
        f"restore of {manifest.snapshot_id} to {target.zookeeper} refused: expected Kafka cluster id {wanted!r}, found none, and "
        f"no znode of the snapshot that is still there; make sure that this is the cluster, then say so: --cluster-id {wanted}"
    )


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
