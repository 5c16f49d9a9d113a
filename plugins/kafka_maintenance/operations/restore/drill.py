"""The restore drill: the newest snapshot is restored into a throw-away ZooKeeper, read into a snapshot again and compared.

Untested backups cannot be relied on. Optionally real brokers are started on the restored tree and must come up with
the same topics.
"""

import json
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from controller_core.adapters.object_store.open import MemoryStore, ObjectStore
from controller_core.adapters.snapshot.acls import OPEN_ACL
from controller_core.adapters.snapshot.manifest import Manifest
from controller_core.adapters.snapshot.reader import ReadOptions
from controller_core.adapters.snapshot.secrets import Sealer
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import ZooKeeperAuth
from controller_core.model.errors import ObjectMissingError
from controller_core.model.words import counted, first_lines
from kafka_maintenance.operations.errors import listed
from kafka_maintenance.operations.restore.apply import apply_restore
from kafka_maintenance.operations.restore.content import Content, RestoreScope, restorable
from kafka_maintenance.operations.restore.drill_brokers import drill_brokers
from kafka_maintenance.operations.restore.plan import NOT_OF_ONE_MOMENT, not_of_one_moment, plan_restore
from kafka_maintenance.operations.restore.zookeeper_snapshot import MISSING_ACL, ExportOptions, export_snapshot
from kafka_maintenance.operations.snapshots.catalog import newest_snapshot, read_manifest, read_raw
from kafka_maintenance.operations.snapshots.take import take_snapshot
from kafka_maintenance.servers import Workspace, ZooKeeperServer, stop_orphans

_SHOWN_MAX: Final = 20
_LOGIN: Final = ZooKeeperAuth(scheme="sasl", username="drill", password="drill")  # noqa: S106 -- of a throw-away server
"""May do everything, whatever the ACLs say: those of a snapshot name logins whose passwords nobody knows here."""
_CHROOT: Final = "/drill"
_STATS: Final = ("czxid", "mzxid", "ctime", "mtime", "version", "aversion", "pzxid")
_HEAP_MB: Final = 512
_ZNODES_PER_HEAP_MB: Final = 400
"""2,040,006 znodes start in 5,000 MB (`python -m tests.benchmarks.bench_zookeeper_files`)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrillReport:
    """How a drill went; `passed` when nothing differs and, with brokers, every topic has its leaders again.

    `acls_compared` ACLs were restored and compared; `acls_unknown` are those that the snapshot does not know whole.

    `notes` are what restoring this snapshot in earnest would bring: that it is of no one moment, what its ACLs lack.
    """

    cluster: str
    snapshot: str
    digest: str
    restored: int
    left_out: Mapping[str, int]
    differences: tuple[str, ...]
    acls_compared: int
    acls_unknown: int
    brokers: str | None
    consistent: bool
    notes: tuple[str, ...]
    passed: bool


def restore_drill(
    *,
    store: ObjectStore,
    cluster: str | None = None,
    manifest: Manifest | str | None = None,
    now: datetime,
    kafka_version: str | None = None,
    key_file: Path | None = None,
    workspace: Workspace | None = None,
    by_transactions: bool = False,
) -> DrillReport:
    """Starts a ZooKeeper from the given snapshot, or from the newest of a cluster, reads it again and compares znode by znode.

    Args:
        store: read only.
        cluster: whose newest snapshot; not with `manifest`.
        manifest: which snapshot.
        now: for the records.
        kafka_version: also start brokers of this version line on the restored tree; None: no brokers.
        key_file: brings secrets back, too.
        workspace: where the servers keep data and logs; None for a temporary folder.
        by_transactions: the way of `restore --whole`, which gives other zxids, versions and times. Otherwise the ZooKeeper starts from a file of
            its own, as `export` writes it, and these are compared, too.

    Raises:
        SnapshotKeyError: a key that cannot be used.
        ObjectMissingError: there is no snapshot.
        VersionRefusedError: brokers of this version cannot be started.
        RefusedError: brokers of the snapshot's ids cannot be started.
        LocalStackError: no server starts.
    """
    # A key that cannot be used is refused before anything is started.
    sealer = Sealer.from_file(key_file) if key_file else None
    stop_orphans()  # the servers of a drill that was killed would run on for ever
    chosen = _chosen(store, cluster, manifest)
    raw = read_raw(store, chosen)
    brokers = None if kafka_version is None else drill_brokers(raw, kafka_version)
    auth = _LOGIN if set(raw["acl"].unique().to_pylist()) != {OPEN_ACL} else None
    torn = not_of_one_moment(store, chosen)  # the scratch store has no other snapshot to name
    scope = RestoreScope(whole=True, acls=_acls_can_be_set(raw))
    scratch = _copy_of(store, chosen)
    with ExitStack() as stack:
        server = _server(workspace, auth, raw.num_rows)
        stack.callback(server.stop)
        target = ClusterAddress(f"{server.hosts}{_CHROOT}", auth=auth)
        if by_transactions:
            server.start()
            brought = _by_transactions(target, scratch, chosen, now=now, scope=scope, key_file=key_file)
        else:
            brought = _from_file(server, scratch, chosen, raw, key_file=key_file)
        again = _taken_again(target, scratch, chosen.cluster, now=now, scope=scope, key_file=key_file)
        found = read_raw(scratch, again)
        wanted, restored = (
            restorable(each, scope, sealer.of(of.cluster, of.snapshot_id) if sealer else None)
            for each, of in ((raw, chosen), (found, again))
        )
        differences = compare_contents(wanted, restored, acls=scope.acls)
        if not by_transactions:
            differences += [*_other_stats(raw, found), *_other_digest(server)]
        came_up = None
        if brokers is not None:
            came_up, missing = brokers.come_up(server, _CHROOT, auth)
            differences += missing
    return DrillReport(
        cluster=chosen.cluster,
        snapshot=chosen.uri,
        digest=chosen.digest,
        restored=brought.count,
        left_out=brought.left_out,
        differences=tuple(differences),
        acls_compared=len(wanted.znodes) - brought.acls_unknown if scope.acls else 0,
        acls_unknown=brought.acls_unknown,
        brokers=came_up,
        consistent=chosen.consistent,
        notes=_notes(torn, brought.notes),
        passed=not differences,
    )


@dataclass(frozen=True, slots=True)
class _Brought:
    """What came into the throw-away ZooKeeper, and what did not; reason → how many znodes."""

    count: int
    left_out: Mapping[str, int]
    acls_unknown: int
    notes: tuple[str, ...] = ()


def _by_transactions(
    target: ClusterAddress,
    scratch: ObjectStore,
    chosen: Manifest,
    *,
    now: datetime,
    scope: RestoreScope,
    key_file: Path | None,
) -> _Brought:
    plan = plan_restore(store=scratch, manifest=chosen.key, target=target, scope=scope, key_file=key_file)
    receipt = apply_restore(
        store=scratch,
        plan_uri=plan.uri,
        approved_digest=plan.digest,
        approver="restore drill",
        target=target,
        now=now,
        key_file=key_file,
    )
    document = plan.document
    unknown = len(document["assumed_acls"])
    acls = sum(step["acl"] is not None for step in document["steps"])
    return _Brought(receipt.written - acls, dict(document["left_out"]), unknown, tuple(document["notes"]))


def _from_file(
    server: ZooKeeperServer,
    scratch: ObjectStore,
    chosen: Manifest,
    raw: pa.Table,
    *,
    key_file: Path | None,
) -> _Brought:
    """Writes the file where the server looks for it, and starts the server."""
    folder = server.workspace.folder / server.name / "version-2"
    folder.mkdir(parents=True)
    options = ExportOptions(chroot=_CHROOT, ephemerals=False, incomplete=True)
    exported = export_snapshot(scratch, chosen, folder, options, key_file)
    server.start()
    ephemerals = pc.sum(pc.not_equal(pc.fill_null(raw["ephemeral_owner"], 0), 0)).as_py() or 0
    unknown = [each.removeprefix(MISSING_ACL).strip() for each in exported.missing if each.startswith(MISSING_ACL)]
    left_out = {"ephemeral": ephemerals, "not in the snapshot": len(exported.missing) - len(unknown)}
    note = f"the whole ACL of {counted(len(unknown), 'znode')} is not in the snapshot: {listed(unknown)}; a restore gives what is missing to its own login"
    return _Brought(
        exported.znodes,
        {reason: count for reason, count in left_out.items() if count},
        len(unknown),
        (note,) if unknown else (),
    )


def _other_stats(before: pa.Table, after: pa.Table) -> list[str]:
    """Znodes whose zxids, versions or times are others than in the snapshot; numbers of children differ by what was left out."""
    columns = ("path", *_STATS)
    found, wanted = (
        {path: stat for path, *stat in zip(*(table[name].to_pylist() for name in columns), strict=True)}
        for table in (after, before)
    )
    return [
        f"{path} has {name} {there}, expected {expected}"
        for path, stat in wanted.items()
        for name, expected, there in zip(_STATS, stat, found.get(path, stat), strict=True)
        if expected != there
    ]


def _other_digest(server: ZooKeeperServer) -> list[str]:
    """What the server says of the digest in the file; one that cannot tell is older than 3.6."""
    facts = dict(line.partition("\t")[::2] for line in server.command("mntr").splitlines())
    count = facts.get("zk_digest_mismatches_count", "0")
    return [] if count == "0" else [f"the server computed {count} other digests than the file has"]


def _taken_again(
    target: ClusterAddress,
    scratch: ObjectStore,
    cluster: str,
    *,
    now: datetime,
    scope: RestoreScope,
    key_file: Path | None,
) -> Manifest:
    options = ReadOptions(acls=scope.acls)
    taken = take_snapshot(
        address=target,
        cluster=cluster,
        store=scratch,
        run_id="restore-drill",
        now=now,
        options=options,
        key_file=key_file,
    )
    return taken.manifest


def _notes(torn: str | None, of_plan: Iterable[str]) -> tuple[str, ...]:
    """What the plan notes; that the snapshot is of no one moment is said once, with the snapshots of the real store."""
    return (*([torn] if torn else []), *(note for note in of_plan if not note.startswith(NOT_OF_ONE_MOMENT)))


def _copy_of(store: ObjectStore, chosen: Manifest) -> MemoryStore:
    """The snapshot in a store of its own, so that a drill writes nothing to the real one."""
    scratch = MemoryStore("drill")
    for stored in chosen.objects:
        scratch.put(stored.key, store.get(stored.key))
    scratch.put(chosen.key, store.get(chosen.key))
    return scratch


def compare_contents(before: Content, after: Content, *, acls: bool) -> list[str]:
    """What a restore lost, added or changed: path by path, data and, with `acls`, ACLs; what is left out on purpose is no difference.

    Nor is an ACL that `before` does not know whole.
    """
    wanted = {znode.path: znode for znode in before.znodes}
    assumed = frozenset(before.assumed_acls)
    found = {znode.path: znode for znode in after.znodes}
    differences = [f"{path} is missing" for path in sorted(wanted.keys() - found.keys())]
    differences += [f"{path} was not in the snapshot" for path in sorted(found.keys() - wanted.keys())]
    for path in sorted(wanted.keys() & found.keys()):
        if wanted[path].data != found[path].data and not (
            path == "/" and not wanted[path].data and not found[path].data
        ):
            differences.append(f"{path} has other data")
        if acls and path not in assumed and wanted[path].acl != found[path].acl:
            differences.append(f"{path} has another ACL")
    return differences


def drill_text(report: DrillReport) -> str:
    """For people."""
    lines = [
        f"restore drill of {report.cluster}: {'passed' if report.passed else 'FAILED'}",
        f"snapshot {report.snapshot}",
        f"{counted(report.restored, 'znode')} restored and read again, "
        + (
            f"{report.acls_compared} ACLs compared, {report.acls_unknown} unknown to the snapshot"
            if report.acls_compared or report.acls_unknown
            else "ACLs not compared: they name logins that a throw-away server lacks"
        ),
    ]
    lines += [f"left out: {count} {reason}" for reason, count in report.left_out.items()]
    lines += [f"note: {note}" for note in report.notes]
    if report.brokers:
        lines.append(report.brokers)
    lines += first_lines(report.differences, _SHOWN_MAX, text=lambda each: f"difference: {each}")
    return "\n".join(lines)


def drill_json(report: DrillReport) -> dict[str, Any]:
    """For machines."""
    return asdict(report)


def _chosen(store: ObjectStore, cluster: str | None, manifest: Manifest | str | None) -> Manifest:
    if isinstance(manifest, Manifest):
        return manifest
    if manifest is not None:
        return read_manifest(store, manifest)
    found = newest_snapshot(store, cluster) if cluster else None
    if found is None:
        raise ObjectMissingError(
            f"restore drill of {cluster!r} not started: there is no snapshot in {store.uri!r}; take one"
        )
    return found


def _server(workspace: Workspace | None, auth: ZooKeeperAuth | None, znode_count: int) -> ZooKeeperServer:
    """A ZooKeeper to throw away, to which `auth` is the superuser; without it nobody logs in."""
    heap_mb = _HEAP_MB + znode_count // _ZNODES_PER_HEAP_MB
    if auth is None:
        return ZooKeeperServer(workspace, name="drill-zookeeper", heap_mb=heap_mb)
    return ZooKeeperServer(
        workspace,
        name="drill-zookeeper",
        users={auth.username: auth.password},
        heap_mb=heap_mb,
        config={"superUser": auth.username},  # zoo.cfg becomes the system property zookeeper.superUser
    )


def _schemes(raw: pa.Table) -> dict[str, set[str]]:
    schemes: dict[str, set[str]] = {}
    for text in set(raw["acl"].unique().to_pylist()) - {None}:
        for _, scheme, name in json.loads(text):
            schemes.setdefault(scheme, set()).add(name)
    return schemes


def _acls_can_be_set(raw: pa.Table) -> bool:
    return set(_schemes(raw)) <= {"world", "sasl", "ip", "digest"}
