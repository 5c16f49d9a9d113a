"""The ACLs of a living tree, as a restore compares and sets them: JSON `[[perms, scheme, id], …]`, as a snapshot stores them.

Source: ZooKeeper `getACL` and `setACL`, which no transaction can contain; the version they check is the stat's aversion.
"""

import json
from collections.abc import Iterable

from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError as KazooBadVersionError
from kazoo.exceptions import NoAuthError as KazooNoAuthError
from kazoo.exceptions import NoNodeError as KazooNoNodeError
from kazoo.security import ACL, Id

from controller_core.adapters.snapshot.wire import translated_errors
from controller_core.model.errors import BadVersionError

_IN_FLIGHT_MAX = 192
_TIMEOUT_S = 60.0


def live_acls(client: KazooClient, paths: Iterable[str]) -> dict[str, tuple[str, int]]:
    """Path → ACL and aversion; a path without a znode, or whose ACL may not be seen, is absent.

    Raises:
        ZooKeeperError: what the server refuses.
    """
    found: dict[str, tuple[str, int]] = {}
    wanted = list(paths)
    with translated_errors(client):
        for start in range(0, len(wanted), _IN_FLIGHT_MAX):
            group = wanted[start : start + _IN_FLIGHT_MAX]
            for path, pending in [(path, client.get_acls_async(path)) for path in group]:
                try:
                    acl, stat = pending.get(timeout=_TIMEOUT_S)
                except (KazooNoNodeError, KazooNoAuthError):
                    continue
                entries = dict.fromkeys((each.perms, each.id.scheme, each.id.id) for each in acl)
                found[path] = json.dumps(list(entries)), stat.aversion
    return found


def set_live_acl(client: KazooClient, path: str, acl: str, aversion: int) -> None:
    """Sets the ACL of a znode if its aversion is still that one.

    Args:
        client: a session with the right to set ACLs.
        path: of the znode, below the client's chroot.
        acl: as text, the form of the snapshot's table.
        aversion: the version of the ACL that it replaces.

    Raises:
        BadVersionError: it is not.
        ZooKeeperError: what else the server refuses.
    """
    with translated_errors(client, "written"):
        try:
            client.set_acls(path, [ACL(perms, Id(scheme, name)) for perms, scheme, name in json.loads(acl)], aversion)
        except KazooBadVersionError as error:
            raise BadVersionError(
                f"ACL of {path!r} not set: expected aversion {aversion}, found another; somebody else changed it: plan again"
            ) from error
