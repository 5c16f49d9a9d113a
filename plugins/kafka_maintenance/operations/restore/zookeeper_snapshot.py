"""Writes a snapshot as a file of ZooKeeper's own, from which a server starts: zxids, versions, times and ACLs as they were.

What a file needs and a snapshot of ours does not hold is made: ZooKeeper's own tree as a new server has it, the znodes above
a chroot, and the time-out of the sessions whose ephemeral znodes are in it.
Source: docs/zookeeper-files.md; ZooKeeper 3.9 `DataTree`, `ZooDefs.Ids`.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import Manifest
from controller_core.adapters.snapshot.secrets import SECRET, SnapshotSealer, sealer_of
from controller_core.adapters.snapshot.tables import STAT_COLUMNS
from controller_core.adapters.zookeeper_files.jute import OPEN_ACL, Acl
from controller_core.adapters.zookeeper_files.snapshot_file import write_snapshot
from controller_core.adapters.zookeeper_files.tree import ROOT, Node, new_tree
from kafka_maintenance.operations.errors import BadInputError, RefusedError, listed
from kafka_maintenance.operations.restore.epochs import raised
from kafka_maintenance.operations.snapshots.catalog import read_raw

SESSION_TIMEOUT_MS: Final = 18_000
"""What Kafka 2.5 and newer ask for, `zookeeper.session.timeout.ms`."""
MISSING_ACL: Final = "the ACL of"
NOBODY: Final[Acl] = ((31, "digest", "nobody:x"),)
"""Rights of a login whose password hash is no hash: only a superuser gets at the znode."""
_EPOCH: Final = 1 << 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """What of a snapshot is written, and how.

    Attributes:
        chroot: where the tree goes; None: where it was.
        ephemerals: with ephemeral znodes and their sessions, which the server ends when nobody claims them.
        session_timeout_ms: of these sessions.
        next_epoch: named after the first zxid of the next epoch, so that clients which have seen later zxids may connect.
        epoch_bump: by how much leader epochs, the controller epoch and producer ids are raised, as a restore does.
        incomplete: also where secrets, unreadable znodes or ACLs are missing, or the snapshot is of no one moment.
    """

    chroot: str | None = None
    ephemerals: bool = True
    session_timeout_ms: int = SESSION_TIMEOUT_MS
    next_epoch: bool = False
    epoch_bump: int = 0
    incomplete: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """A file that was written, with the digest of its tree; `missing` names what the snapshot does not hold."""

    path: Path
    zxid: int
    digest: int
    znodes: int
    sessions: int
    missing: tuple[str, ...]


def export_snapshot(
    store: ObjectStore,
    manifest: Manifest,
    target: Path,
    options: ExportOptions | None = None,
    key_file: Path | None = None,
) -> Exported:
    """Writes the file.

    Args:
        store: with the snapshot.
        manifest: of the snapshot.
        target: a folder without files of a server, or a file with the name that a server expects.
        options: None: everything, where it was.
        key_file: opens the secrets of the snapshot; they stand in the file in clear.

    Raises:
        BadInputError: the target is none.
        RefusedError: the snapshot does not hold everything, and that was not allowed.
        SnapshotKeyError: a key that cannot be used.
        ObjectDamagedError: the snapshot is damaged.
        ZooKeeperFileError: the file exists.
        OSError: it cannot be written.
    """
    options = options or ExportOptions()
    sealer = sealer_of(key_file, manifest.cluster, manifest.snapshot_id)
    content = _content(read_raw(store, manifest), options, sealer)
    missing = [*content.missing, *([] if manifest.consistent else [f"one moment: {manifest.reason}"])]
    if neighbours := manifest.counts.get("neighbours"):
        missing.append(f"{neighbours} trees beside Kafka's at the root of the ensemble")
    if missing and not options.incomplete:
        raise RefusedError(
            f"snapshot {manifest.snapshot_id} not exported: expected one that holds every znode with data and ACL, of one moment; "
            f"it lacks {len(missing)}: {listed(missing)}; give --key-file for secrets, or say that a part will do (--incomplete)"
        )
    zxid = max(manifest.zxid, content.newest_zxid)
    if options.next_epoch:
        zxid = (zxid // _EPOCH + 1) * _EPOCH
    chroot = manifest.chroot if options.chroot is None else options.chroot
    path = _path(target, zxid)
    nodes = [*_above(chroot, content.nodes), *((_below(chroot, name), node) for name, node in content.nodes), *_OWN]
    digest = write_snapshot(path, zxid, nodes, dict.fromkeys(content.sessions, options.session_timeout_ms))
    return Exported(
        path=path,
        zxid=zxid,
        digest=digest,
        znodes=len(nodes),
        sessions=len(content.sessions),
        missing=tuple(missing),
    )


# ------------------------------------------------------------------------------------------------- the tree


@dataclass(frozen=True, slots=True)
class _Content:
    """Path in the snapshot and znode, parents first; what is missing; the owners of ephemeral znodes."""

    nodes: Sequence[tuple[str, Node]]
    missing: Sequence[str]
    sessions: Sequence[int]
    newest_zxid: int


def _content(raw: pa.Table, options: ExportOptions, sealer: SnapshotSealer | None) -> _Content:
    nodes: list[tuple[str, Node]] = []
    kept: set[str] = set()
    missing: list[str] = []
    sessions: set[int] = set()
    newest = 0
    acls = _Acls()
    columns = [raw[name].to_pylist() for name in ("path", "data", "acl", "left_out", "sealed", *STAT_COLUMNS)]
    for path, data, acl, left_out, sealed, *stat in zip(*columns, strict=True):
        values: dict[str, Any] = dict(zip(STAT_COLUMNS, stat, strict=True))
        owner = values["ephemeral_owner"]
        if (owner and not options.ephemerals) or (path != "/" and (path.rpartition("/")[0] or "/") not in kept):
            continue
        content = data
        if left_out == SECRET and sealer is not None and sealed is not None:
            content = sealer.open(path, sealed)
        elif left_out is not None:
            missing.append(f"{path} ({left_out})")
            continue
        known = acls.known(acl)
        if known is None:
            missing.append(f"{MISSING_ACL} {path}")
        node = _node(raised(path, content, options.epoch_bump), known or NOBODY, values)
        newest = max(newest, node.czxid, node.mzxid, node.pzxid)
        nodes.append((path, node))
        kept.add(path)
        if owner:
            sessions.add(owner)
    return _Content(nodes, missing, sorted(sessions), newest)


def _node(data: bytes | None, acl: Acl, stat: dict[str, Any]) -> Node:
    return Node(
        data,
        acl,
        stat["czxid"],
        stat["mzxid"],
        stat["ctime"],
        stat["mtime"],
        stat["version"],
        (stat["cversion"] + stat["num_children"]) // 2,  # a client is shown deletions, too; a file counts creations
        stat["aversion"],
        stat["ephemeral_owner"],
        stat["pzxid"],
    )


class _Acls:
    """ACLs of a snapshot as a file has them, each text parsed once."""

    def __init__(self) -> None:
        self._parsed: dict[str | None, Acl | None] = {None: None}

    def known(self, text: str | None) -> Acl | None:
        """None where the snapshot does not know it whole: unread, or with a digest that ZooKeeper did not show."""
        if text not in self._parsed:
            entries = tuple((perms, scheme, name) for perms, scheme, name in json.loads(text or "[]"))
            masked = any(scheme == "digest" and name.endswith(":x") for _, scheme, name in entries)
            self._parsed[text] = None if masked else entries
        return self._parsed[text]


def _plain(*, czxid: int = 0, ctime: int = 0, cversion: int = 0) -> Node:
    return Node(b"", OPEN_ACL, czxid, czxid, ctime, ctime, 0, cversion, 0, 0, czxid)


_OWN: Final = tuple((path, node) for path, node in new_tree().nodes.items() if path != ROOT)


def _above(chroot: str, nodes: Sequence[tuple[str, Node]]) -> Iterator[tuple[str, Node]]:
    """The root and what lies above the chroot; without one the snapshot has the root."""
    if not chroot:
        return
    own = nodes[0][1]
    yield ROOT, _plain(cversion=1)
    names = chroot.strip("/").split("/")
    for count in range(1, len(names)):
        yield "/" + "/".join(names[:count]), _plain(czxid=own.czxid, ctime=own.ctime, cversion=1)


def _below(chroot: str, path: str) -> str:
    return f"{chroot}{path}".rstrip("/")


# ------------------------------------------------------------------------------------------------- the file


def _path(target: Path, zxid: int) -> Path:
    """The file, whose name tells a server the zxid; it would go on from other files beside it."""
    name = f"snapshot.{zxid:x}"
    if target.is_dir():
        others = sorted(each.name for each in target.iterdir() if each.name.startswith(("snapshot.", "log.")))
        if others:
            raise BadInputError(
                f"snapshot not exported to {str(target)!r}: expected a folder without files of a server, which would go on from "
                f"them, found {listed(others)}; move them away"
            )
        return target / name
    if target.name != name:
        raise BadInputError(
            f"snapshot not exported to {str(target)!r}: expected the name {name!r}, from which a server takes the zxid, or a "
            "folder; correct it"
        )
    return target
