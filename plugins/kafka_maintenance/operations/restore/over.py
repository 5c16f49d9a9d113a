"""A whole restore over a tree that is not empty: what is missing comes back, and with `mirror` the rest becomes the snapshot's.

`fill` keeps what differs and says so. `mirror` sets what differs and removes what the snapshot does not have, each znode
listed. Ephemerals, notifications, pending requests and secrets that the snapshot does not hold are left alone.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from controller_core.adapters.snapshot.reader import Cut, ReadOptions, read_cut
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import KazooZooKeeper
from controller_core.model.words import counted
from kafka_maintenance.operations.apply.cluster_lock import LOCK_PATH
from kafka_maintenance.operations.restore.acl_steps import acl_steps
from kafka_maintenance.operations.restore.content import Content, RestoreScope, is_passing, parent_of_notice
from kafka_maintenance.operations.restore.document import Part, RestoreStep, content_sum

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
    steps: list[RestoreStep] = []
    before: dict[str, bytes] = {}
    mzxids: dict[str, int] = {}
    kept: list[str] = []
    for path, znode in wanted.items():
        there = found.znodes.get(path)
        if there is None:
            steps.append(RestoreStep(path=path, expected_mzxid=None, notice=False, **content_sum(znode.data)))
            continue
        mzxids[path] = there.decoded_stat.mzxid
        if path == "/" or not content.changes(path, there.data):
            continue
        if not scope.mirror:
            kept.append(path)
            continue
        before[path] = there.data or b""
        steps.append(RestoreStep(path=path, expected_mzxid=mzxids[path], notice=False, **content_sum(znode.data)))
    surplus = extras(found, content, ("/",))
    notes = []
    if kept:
        notes.append(f"kept, {counted(len(kept), 'znode')} with other data: {_some(kept)}")
    if scope.mirror:
        steps += removals(surplus.removable)
        before |= {path: found.znodes[path].data or b"" for path in surplus.removable}
        notes += [surplus.note] if surplus.note else []
        drifted, before_acls = acl_steps(session, content, scope, steps, mzxids, target)
        return Part([*steps, *drifted], before, before_acls, notes)
    more = [*surplus.removable, *surplus.held]
    if more:
        notes.append(f"kept, {counted(len(more), 'znode')} that the snapshot does not have: {_some(more)}")
    acl_steps(session, content, scope, steps, {}, target)  # new znodes open nothing either
    return Part(steps, before, {}, notes)


def read_target(session: KazooZooKeeper) -> Cut:
    """The tree as it stands, without a proof: every step checks its own znode again."""
    return read_cut(session.client, ReadOptions(method="plain", acls=False))


@dataclass(frozen=True, slots=True)
class Extras:
    """What stands in a target and not in the snapshot.

    Attributes:
        removable: path → mzxid, children first.
        held: paths that cannot be removed, for a child stays below.
    """

    removable: Mapping[str, int] = field(default_factory=dict)
    held: Sequence[str] = ()

    @property
    def note(self) -> str | None:
        """Which of them a mirror keeps, and why."""
        if not self.held:
            return None
        return (
            f"kept, {counted(len(self.held), 'znode')} that the snapshot does not have, for children stay below: ephemeral "
            f"ones, notifications, requests or unreadable ones: {_some(self.held)}"
        )


def extras(found: Cut, content: Content, roots: tuple[str, ...]) -> Extras:
    """The persistent znodes below `roots` that the snapshot neither holds nor leaves out."""
    known = {znode.path for znode in content.znodes} | content.left_out.keys()
    surplus: dict[str, int] = {}
    held: list[str] = []
    with_children = {_parent(path) for path in (*found.unreadable, LOCK_PATH)}
    for path in sorted(found.znodes, reverse=True):
        stat = found.znodes[path].decoded_stat
        below = any(path.startswith(root.rstrip("/") + "/") for root in roots)
        stays = not below or path in known or stat.ephemeral_owner or is_passing(path)
        if not stays and path not in with_children:
            surplus[path] = stat.mzxid
            continue
        with_children.add(_parent(path))
        if not stays:
            held.append(path)
    return Extras(surplus, held)


def _parent(path: str) -> str:
    return path.rpartition("/")[0] or "/"


def removals(surplus: Mapping[str, int], listening: Collection[str] = ()) -> list[RestoreStep]:
    """Steps that delete these znodes, with notices where brokers listen for them."""
    return [
        RestoreStep(
            path=path,
            expected_mzxid=mzxid,
            notice=parent_of_notice(path) in listening,
            delete=True,
            **content_sum(None),
        )
        for path, mzxid in surplus.items()
    ]


def _some(paths: Sequence[str]) -> str:
    # Not `first_names`: the notes are in the digest of a plan, and one that was approved with an older version has to keep it.
    more = f" … and {len(paths) - _SHOWN_MAX} more" if len(paths) > _SHOWN_MAX else ""
    return ", ".join(sorted(paths)[:_SHOWN_MAX]) + more
