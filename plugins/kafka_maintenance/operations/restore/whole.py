"""A whole tree into an empty ZooKeeper: what is missing of it, and what differs of the little that is there: its root, and what an earlier try left.

Source: docs/restoring.md, "A part, or the whole tree".
"""

from collections.abc import Sequence
from typing import Final

from controller_core import znodes
from controller_core.adapters.snapshot.manifest import Manifest
from controller_core.adapters.snapshot.reader import Cut
from controller_core.adapters.snapshot.tree_writer import NewZnode
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import KazooZooKeeper
from controller_core.model.errors import NoNodeError
from controller_core.model.words import counted
from kafka_maintenance.operations.errors import RefusedError
from kafka_maintenance.operations.restore.acl_steps import acl_steps
from kafka_maintenance.operations.restore.content import Content, RestoreScope
from kafka_maintenance.operations.restore.document import Part, RestoreStep, content_sum, differs
from kafka_maintenance.operations.restore.over import read_target

_SHOWN_MAX: Final = 10


def plan_whole(target: ClusterAddress, content: Content, manifest: Manifest, scope: RestoreScope) -> Part:
    """The steps of a whole restore into an empty tree, or into a chroot that is still to be made.

    Args:
        target: where the restore writes.
        content: what can be restored.
        manifest: of the snapshot.
        scope: what of the snapshot is restored.

    Raises:
        RefusedError: the target holds anything else, or an ACL would give everybody more rights than now.
    """
    try:
        with target.session(create_chroot=False) as session:
            found = read_target(session)
            created = [_creation(znode) for znode in missing_znodes(found, content, manifest, target)]
            rest = differences_there(session, found, content, scope, target, created)
            return Part([*created, *rest.steps], rest.before, rest.before_acls)
    except NoNodeError:
        acls = [
            RestoreStep(path=znode.path, expected_mzxid=None, notice=False, acl=znode.acl, **content_sum(None))
            for znode in content.znodes
            if znode.path == "/" and znode.acl is not None
        ]
        return Part([*(_creation(znode) for znode in content.znodes), *acls])


def missing_znodes(found: Cut, content: Content, manifest: Manifest, target: ClusterAddress) -> list[NewZnode]:
    """What is still missing of the tree; refuses a target that holds anything else.

    Args:
        found: the tree that stands in the target.
        content: what can be restored.
        manifest: of the snapshot.
        target: where the restore writes.

    Raises:
        RefusedError: the target holds anything else.
    """
    require_no_brokers(found, target)
    wanted = {znode.path: znode for znode in content.znodes if znode.path != "/"}
    foreign = sorted(path for path in found.znodes if path not in wanted and path != "/")
    if foreign:
        raise RefusedError(
            f"restore of {manifest.snapshot_id} to {target.zookeeper} refused: expected an empty tree, or what an earlier try "
            f"of this restore left, found {counted(len(foreign), 'other znode')}, such as {foreign[0]!r}; choose an empty chroot"
        )
    others = [path for path, znode in found.znodes.items() if path in wanted and differs(znode.data, wanted[path].data)]
    if others:
        raise RefusedError(
            f"restore of {manifest.snapshot_id} to {target.zookeeper} refused: {counted(len(others), 'znode', 'hold')} other data, such as "
            f"{min(others)!r}; choose an empty chroot"
        )
    return [znode for path, znode in wanted.items() if path not in found.znodes]


def differences_there(
    session: KazooZooKeeper,
    found: Cut,
    content: Content,
    scope: RestoreScope,
    target: ClusterAddress,
    created: Sequence[RestoreStep] = (),
) -> Part:
    """The steps for what is there: ACLs that are others than the snapshot's, then the data of the root, which change no mzxid of the former.

    Args:
        session: of the target.
        found: the tree that stands there.
        content: what can be restored.
        scope: what of the snapshot is restored.
        target: where the restore writes.
        created: the steps for what is missing; they may open nothing either.

    Raises:
        RefusedError: an ACL would give everybody more rights than now.
    """
    wanted = {znode.path: znode for znode in content.znodes}
    mzxids = {path: found.znodes[path].decoded_stat.mzxid for path in wanted if path in found.znodes}
    steps, before_acls = acl_steps(session, content, scope, created, mzxids, target)
    before: dict[str, bytes] = {}
    if "/" in mzxids and differs(found.znodes["/"].data, wanted["/"].data):
        before["/"] = found.znodes["/"].data or b""
        steps.append(RestoreStep(path="/", expected_mzxid=mzxids["/"], notice=False, **content_sum(wanted["/"].data)))
    return Part(steps, before, before_acls)


def require_no_brokers(found: Cut, target: ClusterAddress) -> None:
    """Refuses a whole restore under running brokers."""
    brokers = sorted(path.rpartition("/")[2] for path in found.znodes if path.startswith(f"{znodes.BROKER_IDS}/"))
    if brokers:
        raise RefusedError(
            f"restore to {target.zookeeper} refused: brokers {', '.join(brokers[:_SHOWN_MAX])} run on it, and would go on with "
            "versions and epochs of before; stop all brokers, or restore a part only"
        )


def _creation(znode: NewZnode) -> RestoreStep:
    return RestoreStep(path=znode.path, expected_mzxid=None, notice=False, **content_sum(znode.data))
