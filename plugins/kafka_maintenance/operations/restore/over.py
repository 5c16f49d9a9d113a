"""A whole restore over a tree that is not empty: what is missing comes back, and with `mirror` the rest becomes the snapshot's.

`fill` keeps what differs and says so. `mirror` sets what differs and removes what the snapshot does not have, each znode
listed. Ephemerals, notifications, pending requests and secrets that the snapshot does not hold are left alone.
"""

from collections.abc import Collection, Mapping
from typing import Final

from controller_core.adapters.snapshot.reader import Cut, ReadOptions, read_cut
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import KazooZooKeeper
from controller_core.model.words import counted
from kafka_maintenance.operations.restore.acl_steps import acl_steps
from kafka_maintenance.operations.restore.content import Content, RestoreScope, is_passing, parent_of_notice
from kafka_maintenance.operations.restore.document import Part, Step, content_sum

_SHOWN_MAX: Final = 20


def plan_over(
    session: KazooZooKeeper, content: Content, scope: RestoreScope, target: ClusterAddress, found: Cut
) -> Part:
    """The steps of a whole restore over the tree `found`.

    Args:
        session: of the target.
        content: what can be restored.
        scope: what of the snapshot is restored.
        target: where the restore writes.
        found: the tree that stands there.
    """
    wanted = {znode.path: znode for znode in content.znodes}
    steps: list[Step] = []
    before: dict[str, bytes] = {}
    mzxids: dict[str, int] = {}
    kept: list[str] = []
    for path, znode in wanted.items():
        there = found.znodes.get(path)
        if there is None:
            steps.append(Step(path=path, expected_mzxid=None, notice=False, **content_sum(znode.data)))
            continue
        mzxids[path] = there.decoded_stat.mzxid
        if path == "/" or not content.changes(path, there.data):
            continue
        if not scope.mirror:
            kept.append(path)
            continue
        before[path] = there.data or b""
        steps.append(Step(path=path, expected_mzxid=mzxids[path], notice=False, **content_sum(znode.data)))
    surplus = extras(found, content, ("/",))
    notes = []
    if kept:
        notes.append(f"kept, {counted(len(kept), 'znode')} with other data: {_some(kept)}")
    if scope.mirror:
        steps += removals(surplus)
        before |= {path: found.znodes[path].data or b"" for path in surplus}
        drifted, before_acls = acl_steps(session, content, scope, steps, mzxids, target)
        return Part([*steps, *drifted], before, before_acls, notes)
    if surplus:
        notes.append(f"kept, {counted(len(surplus), 'znode')} that the snapshot does not have: {_some(list(surplus))}")
    acl_steps(session, content, scope, steps, {}, target)  # new znodes open nothing either
    return Part(steps, before, {}, notes)


def read_target(session: KazooZooKeeper) -> Cut:
    """The tree as it stands, without a proof: every step checks its own znode again."""
    return read_cut(session.client, ReadOptions(method="plain", acls=False))


def extras(found: Cut, content: Content, roots: tuple[str, ...]) -> Mapping[str, int]:
    """Path → mzxid of the persistent znodes below `roots` that the snapshot neither holds nor leaves out; children first."""
    known = {znode.path for znode in content.znodes} | content.left_out.keys()
    surplus: dict[str, int] = {}
    for path in sorted(found.znodes, reverse=True):
        stat = found.znodes[path].decoded_stat
        below = any(path.startswith(root.rstrip("/") + "/") for root in roots)
        if not below or path in known or stat.ephemeral_owner or is_passing(path):
            continue
        surplus[path] = stat.mzxid
    return surplus


def removals(surplus: Mapping[str, int], listening: Collection[str] = ()) -> list[Step]:
    """Steps that delete these znodes, with notices where brokers listen for them."""
    return [
        Step(
            path=path,
            expected_mzxid=mzxid,
            notice=parent_of_notice(path) in listening,
            delete=True,
            **content_sum(None),
        )
        for path, mzxid in surplus.items()
    ]


def _some(paths: list[str]) -> str:
    more = f" … and {len(paths) - _SHOWN_MAX} more" if len(paths) > _SHOWN_MAX else ""
    return ", ".join(sorted(paths)[:_SHOWN_MAX]) + more
