"""Carries out the plan of a whole restore: the chroot, what is missing below it, then ACLs and the root.

Source: docs/restoring.md, "A part, or the whole tree".
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from controller_core import znodes
from controller_core.adapters.snapshot.live_acls import set_live_acl
from controller_core.adapters.snapshot.reader import Cut
from controller_core.adapters.snapshot.tree_writer import NewZnode, WriteOptions, raise_version, write_tree
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import KazooZooKeeper
from controller_core.model.errors import NoNodeError
from controller_core.model.words import counted
from controller_core.ports.zookeeper import ANYONE_ALL
from kafka_maintenance.operations.errors import RefusedError
from kafka_maintenance.operations.restore.acl_steps import acl_of
from kafka_maintenance.operations.restore.approved import ApprovedRestore
from kafka_maintenance.operations.restore.content import Content, RestoreScope
from kafka_maintenance.operations.restore.document import RestoreStep, content_digest, described, plan_steps
from kafka_maintenance.operations.restore.over import read_target
from kafka_maintenance.operations.restore.plan import require_login_for
from kafka_maintenance.operations.restore.whole import differences_there, missing_znodes


def apply_whole(restore: ApprovedRestore, options: WriteOptions | None) -> tuple[int, int]:
    """Writes what is missing, then what differs of what is there; how many steps it did, and how many were done already.

    `options` say how fast; None: the defaults.

    Raises:
        RefusedError: the target is not as planned, also when somebody else wrote meanwhile.
        ZooKeeperError: what the server refuses.
    """
    target, document, manifest, scope, content, begin, progress = restore
    require_login_for(content.assumed_acls, target)
    if content_digest(content) != document["content_sha256"]:
        raise RefusedError(
            f"restore to {target.zookeeper} not applied: the znodes to write are not those of the approved plan; apply with "
            "the same key file as planned, or plan again"
        )
    planned = plan_steps(document)
    made = _make_chroot(target, content, planned, begin)
    with target.session(create_chroot=False) as session:
        found = read_target(session)
        missing = missing_znodes(found, content, manifest, target)
        if len(missing) > document["step_count"] - len(planned):
            raise RefusedError(
                f"restore to {target.zookeeper} not applied: expected {document['step_count'] - len(planned)} missing znodes, as "
                f"planned, found {len(missing)}; somebody else writes there: plan again"
            )
        steps = _differences(session, found, content, scope, target, planned)
        begin()
        created = write_tree(session.client, missing, options, progress)
        for step in steps:
            if step.acl is not None:
                set_live_acl(session.client, step.path, step.acl, step.expected_aversion or 0)
            else:
                session.set(step.path, _root_of(content).data or b"", found.znodes[step.path].decoded_stat.version)
        version = document["sequence_id_version"]
        if version and session.exists(znodes.BROKER_SEQUENCE_ID) is not None:
            raise_version(session.client, znodes.BROKER_SEQUENCE_ID, version)
        found = read_target(session)
        still_missing = missing_znodes(found, content, manifest, target)
        if still_missing:
            raise RefusedError(
                f"restore to {target.zookeeper} not complete: {counted(len(still_missing), 'znode')} vanished again, such as "
                f"{still_missing[0].path!r}; somebody else writes there: stop that, apply again"
            )
        if created < len(missing):  # some were there already when they were to be created
            _differences(session, found, content, scope, target, ())
    written = made + len(missing) + len(steps)
    return written, document["step_count"] - written


def _make_chroot(
    target: ClusterAddress, content: Content, planned: Sequence[RestoreStep], begin: Callable[[], None]
) -> int:
    """Makes the chroot of a plan that found none, unless an earlier try did; how many of its steps that were."""
    try:
        with target.session(create_chroot=False):
            return 0
    except NoNodeError:
        steps = [step for step in planned if step.path == "/" and step.expected_mzxid is None]
    if not steps:
        raise RefusedError(
            f"restore to {target.zookeeper} not applied: expected the chroot, as when it was planned, found none; plan again"
        )
    begin()
    root = _root_of(content)
    above, _, name = target.chroot.rpartition("/")
    servers = target.zookeeper.partition("/")[0]
    with replace(target, zookeeper=f"{servers}{above}").session(create_chroot=True) as session:
        session.create(f"/{name}", root.data or b"", acl=acl_of(root.acl) or ANYONE_ALL)
    return len(steps)


def _differences(
    session: KazooZooKeeper,
    found: Cut,
    content: Content,
    scope: RestoreScope,
    target: ClusterAddress,
    planned: Sequence[RestoreStep],
) -> list[RestoreStep]:
    """What differs now of the znodes that are there; refuses what is not planned so."""
    data = {znode.path: znode.data or b"" for znode in content.znodes if znode.path == "/"}
    steps = described(differences_there(session, found, content, scope, target), data)
    others = [step for step in steps if step not in planned]
    if others:
        raise RefusedError(
            f"restore to {target.zookeeper} stopped: expected ACLs and the root as planned, found others at "
            f"{counted(len(others), 'znode')}, such as {others[0].path!r}; somebody else writes there: plan again"
        )
    return steps


def _root_of(content: Content) -> NewZnode:
    return next(znode for znode in content.znodes if znode.path == "/")
