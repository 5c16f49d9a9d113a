"""Whether a restore would give everybody more than the target gives them now.

Source: ZooKeeper's permission bits (read 1, write 2, create 4, delete 8, admin 16) and its identity `world:anyone`.
"""

import json
from collections.abc import Iterable, Mapping

from kafka_maintenance.operations.errors import RefusedError


def rights_of_everybody(acl: str) -> int:
    """The permission bits that an ACL in JSON gives to `world:anyone`."""
    rights = 0
    for perms, scheme, _ in json.loads(acl):
        if scheme == "world":
            rights |= perms
    return rights


def require_no_wider(
    acls: Iterable[tuple[str, str]], present: Mapping[str, str], zookeeper: str, *, kept: bool
) -> None:
    """Refuses ACLs that open what is closed now.

    Args:
        acls: (path, ACL) to set or to create.
        present: path → ACL that stands there now, in the target.
        zookeeper: the target, for the message.
        kept: without ACLs a restore of this kind keeps those of the target.

    Raises:
        RefusedError: an ACL gives everybody a right that the znode, or for a new one the nearest znode above it, does not.
    """
    wider = []
    for path, acl in acls:
        above = path
        while above not in present and above != "/":
            above = above.rpartition("/")[0] or "/"
        if above in present and rights_of_everybody(acl) & ~rights_of_everybody(present[above]):
            wider.append((path, acl, above, present[above]))
    if wider:
        path, acl, above, found = wider[0]
        keep = "keep the ACLs of the target (--without-acls), or " if kept else ""
        raise RefusedError(
            f"restore to {zookeeper} refused: {len(wider)} ACLs of the snapshot give everybody more rights than the target does "
            f"now, such as {path!r} with {acl}, where {above!r} has {found}; {keep}say that "
            "they are to be opened (--widen-acls)"
        )
