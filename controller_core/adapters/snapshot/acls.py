"""The ACLs of a tree, where the cluster is secured: one pass of its own, for no event tells of them.

Source: snapshot-design §3; zookeeper-layout §0.3.
"""

import json
from collections import deque
from collections.abc import Collection, Iterable, Iterator
from itertools import islice
from typing import Any, Final

from kazoo.exceptions import NoAuthError as KazooNoAuthError
from kazoo.exceptions import NoNodeError as KazooNoNodeError

from controller_core.adapters.snapshot.cut import Cut, ReadOptions, Znode
from controller_core.adapters.snapshot.wire import CONNECTION_ERRORS, Teller, Wire

_OPEN_ACL: Final = '[[31, "world", "anyone"]]'


def read_acls(wire: Wire, cut: Cut, options: ReadOptions, told: Teller) -> tuple[dict[str, str], bool]:
    """ACLs of all znodes where the cluster is secured. Not part of the cut: ZooKeeper has no event for them.

    As the session sees them: one that could not be read is absent, and without the right to change it a digest entry
    `user:hash` is shown as `user:x`. Both are kept as they came; a restore takes both for unknown.
    """
    if options.acls == "never":
        return {}, bool(cut.unreadable)
    secured = bool(cut.unreadable)
    if options.acls == "auto" and not secured:
        looked_at = _acls_of(wire, _sample(cut.znodes), options, None)
        secured = any(acl != _OPEN_ACL for acl in looked_at.values())
        if not secured:
            return {}, False
    told.begin("acls", expected=len(cut.znodes))
    acls = _acls_of(wire, cut.znodes, options, told)
    return acls, secured or any(acl != _OPEN_ACL for acl in acls.values())


def _sample(znodes: dict[str, Znode]) -> list[str]:
    """Paths whose ACLs tell whether the cluster is secured: the top of the tree and a few of everything."""
    top = [path for path in znodes if path.count("/") <= 2]  # noqa: PLR2004 -- /brokers/topics
    return [*top[:200], *islice(znodes, 0, None, max(1, len(znodes) // 50))]


def _acls_of(wire: Wire, paths: Collection[str], options: ReadOptions, told: Teller | None) -> dict[str, str]:
    for _ in range(options.attempts_max - 1):
        try:
            return _acls_in_one_go(wire, paths, options, told)
        except CONNECTION_ERRORS:
            wire.wait_until_connected()
    return _acls_in_one_go(wire, paths, options, told)


def _acls_in_one_go(wire: Wire, paths: Iterable[str], options: ReadOptions, told: Teller | None) -> dict[str, str]:
    found: dict[str, str] = {}
    texts: dict[tuple[Any, ...], str] = {}
    in_flight: deque[tuple[str, Any]] = deque()
    ahead: Iterator[str] = iter(paths)
    while True:
        for path in islice(ahead, max(options.window * 64 - len(in_flight), 0)):
            in_flight.append((path, wire.client.get_acls_async(path)))
        if not in_flight:
            return found
        path, pending = in_flight.popleft()
        try:
            acl, _ = wire.result(pending)
        except (KazooNoNodeError, KazooNoAuthError):  # gone since the cut, or not ours to see: unknown
            continue
        entries = tuple((entry.perms, entry.id.scheme, entry.id.id) for entry in acl)
        found[path] = texts.setdefault(entries, json.dumps(entries))
        if told and not len(found) % 1000:
            told.tell(len(found))
