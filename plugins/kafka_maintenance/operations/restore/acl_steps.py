"""The steps of a restore that set ACLs, and the refusal to open what is closed."""

import json
import re
from collections.abc import Mapping, Sequence

from controller_core.adapters.snapshot.format import MASKED_ACL
from controller_core.adapters.snapshot.live_acls import live_acls
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import KazooZooKeeper
from controller_core.ports.zookeeper import Acl
from kafka_maintenance.operations.restore.content import Content, RestoreScope
from kafka_maintenance.operations.restore.document import RestoreStep, content_sum, kind_of
from kafka_maintenance.operations.restore.rights import require_no_wider


def acl_steps(
    session: KazooZooKeeper,
    content: Content,
    scope: RestoreScope,
    steps: Sequence[RestoreStep],
    mzxids: Mapping[str, int],
    target: ClusterAddress,
) -> tuple[list[RestoreStep], dict[str, str]]:
    """Steps for ACLs that are others than the snapshot's, and those that stand now; refuses to give everybody more rights.

    An ACL that the snapshot does not know whole is no difference.

    Args:
        session: of the target.
        content: what can be restored.
        scope: what of the snapshot is restored.
        steps: those for data, which come first.
        mzxids: path → mzxid of what stands now.
        target: where the restore writes.

    Raises:
        RefusedError: an ACL would give everybody more rights than now.
    """
    if not scope.acls:
        return [], {}
    wanted = content.acls
    created = {step.path for step in steps if kind_of(step) == "create"}
    above = {parent for path in created for parent in parents_of(path)} - created
    live = live_acls(session.client, sorted({*mzxids, *above}))
    shown = {
        path: acl for path, (acl, _) in live.items() if not re.search(MASKED_ACL, acl)
    }  # others cannot be compared
    drifted = {path: wanted[path] for path in mzxids if path in shown and wanted.get(path, shown[path]) != shown[path]}
    if not scope.widen_acls:
        new = [(each.path, each.acl) for each in content.znodes if each.path in created and each.acl is not None]
        present = {path: acl for path, (acl, _) in live.items()}
        require_no_wider([*new, *drifted.items()], present, target.zookeeper, kept=scope.over or not scope.whole)
    found = [
        RestoreStep(
            path=path,
            expected_mzxid=mzxids[path],
            notice=False,
            acl=acl,
            expected_aversion=live[path][1],
            **content_sum(None),
        )
        for path, acl in drifted.items()
    ]
    return found, {path: live[path][0] for path in drifted}


def parents_of(path: str) -> list[str]:
    """All znodes above a path, the root included."""
    steps = path.split("/")[:-1]
    return ["/".join(steps[: number + 1]) or "/" for number in range(len(steps))]


def acl_of(text: str | None) -> tuple[Acl, ...] | None:
    """The ACL in JSON; None: none is given."""
    return None if text is None else tuple(Acl(*entry) for entry in json.loads(text))
