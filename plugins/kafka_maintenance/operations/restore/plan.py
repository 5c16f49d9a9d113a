"""Plans a restore: compares a snapshot with its target, refuses what does not fit, stores what would be written.

Source: docs/restoring.md, "A part, or the whole tree".
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.acls import OPEN_ACL
from controller_core.adapters.snapshot.manifest import Manifest, dated_in_the_future
from controller_core.adapters.snapshot.secrets import sealer_of
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.errors import ObjectExistsError
from controller_core.model.words import counted
from controller_core.ports.object_store import put_once
from controller_core.znodes.paths import CONFIG
from kafka_maintenance import __version__
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.errors import NothingToRestoreError, RefusedError
from kafka_maintenance.operations.restore.content import (
    Content,
    RestoreScope,
    is_anew,
    recreated_topic,
    restorable,
)
from kafka_maintenance.operations.restore.corrections import plan_corrections
from kafka_maintenance.operations.restore.document import (
    KIND,
    Part,
    RestoreStep,
    StoredRestore,
    content_digest,
    described,
    kind_of,
    listing_of,
    load_restore,
    plan_digest,
    plan_document,
    sequence_id,
    stored_restore,
)
from kafka_maintenance.operations.restore.identity import require_same_cluster, told_by_brokers
from kafka_maintenance.operations.restore.over import plan_over, read_target
from kafka_maintenance.operations.restore.part import brokers_of, plan_part
from kafka_maintenance.operations.restore.whole import plan_whole, require_no_brokers
from kafka_maintenance.operations.snapshots.catalog import (
    keys_by_date,
    read_manifest,
    read_raw,
    readable_snapshots,
)
from kafka_maintenance.operations.snapshots.take import require_zookeeper_mode

NOT_OF_ONE_MOMENT: Final = "NOT of one moment"
_DAYS_MAX: Final = 100  # a server before 3.6 never gives a consistent one: nobody waits for all manifests of a decade
_THROTTLE: Final = b".replication.throttled."
LARGE_BYTES: Final = (
    1_000_000  # ZooKeeper `jute.maxbuffer`: a server takes requests of up to 1,048,575 bytes by default
)


def plan_restore(
    *,
    store: ObjectStore,
    manifest: Manifest | str,
    target: ClusterAddress,
    scope: RestoreScope,
    key_file: Path | None = None,
    brokers: BrokersAsked | None = None,
) -> StoredRestore:
    """Compares the snapshot with the target and stores what a restore would write; writes nothing to ZooKeeper.

    Args:
        store: of snapshots, plans and records.
        manifest: of the snapshot.
        target: where the restore writes.
        scope: what of the snapshot is restored.
        key_file: opens sealed secrets; None: they stay out.
        brokers: say which cluster the target is, where it has lost its id; None: they are not asked.

    Raises:
        IdentityUnknownError: the brokers were asked, and do not say.
        RefusedError: the target does not fit (another cluster, brokers that run, a tree that is not empty), or nothing would change.
        BadInputError: the scope names nothing.
        ObjectStoreError, ZooKeeperError: see `read_raw` and `connect`.
    """
    manifest = read_manifest(store, manifest) if isinstance(manifest, str) else manifest
    raw = read_raw(store, manifest)
    if brokers is not None and (scope.over or not scope.whole):
        scope = told_by_brokers(target, scope, brokers)
    content = content_for(target, raw, manifest, scope, key_file)
    part = _part(target, raw, content, manifest, scope)
    data = _data_of(content, scope)
    steps, notes = described(part, data), part.notes
    if not steps:
        raise NothingToRestoreError(
            f"restore of {manifest.snapshot_id} to {target.zookeeper} not planned, nothing is to be written: "
            + ("; ".join(notes) or "everything asked for is there already"),
            notes,
        )
    assumed = assumed_acls(content, steps, scope)
    require_login_for(assumed, target)
    remarks = (
        not_of_one_moment(store, manifest),
        _epoch_note(content, steps, scope),
        _acl_note(assumed),
        _opened_note(raw, scope),
        _size_note(steps),
        _throttle_note(steps, data),
    )
    notes += [note for note in remarks if note]
    document = plan_document(manifest, target, scope, steps, content.left_out, notes)
    document["assumed_acls"] = list(assumed)
    if scope.whole:
        document |= {"content_sha256": content_digest(content), "sequence_id_version": sequence_id(raw)}
    if scope.whole and not scope.over:  # 400,000 creations say no more than their digest
        document["steps"] = [asdict(step) for step in steps if kind_of(step) != "create" or step.path == "/"]
    document |= {"digest": plan_digest(document), "code_version": __version__}
    key = f"{manifest.prefix}/plans/{KIND}-{document['digest'][:12]}.json"
    put_once(store, f"{key.removesuffix('.json')}.txt", listing_of(steps))
    written = (json.dumps(document, sort_keys=True, ensure_ascii=False, indent=1) + "\n").encode()
    try:
        put_once(store, key, written)
    except ObjectExistsError:  # made before, perhaps by another version: verified when it is read
        return load_restore(store, store.uri_of(key))
    return stored_restore(store.uri_of(key), document)


def content_for(
    target: ClusterAddress, raw: pa.Table, manifest: Manifest, scope: RestoreScope, key_file: Path | None
) -> Content:
    """What of a snapshot can be restored into a target.

    Args:
        target: where the restore writes.
        raw: of the snapshot.
        manifest: of the snapshot.
        scope: what of it is restored.
        key_file: opens sealed secrets; None: they stay out.

    Raises:
        SnapshotKeyError: a key that cannot be used.
    """
    sealer = sealer_of(key_file, manifest.cluster, manifest.snapshot_id)
    return restorable(raw, scope, sealer, root=bool(target.chroot) or not manifest.chroot)


def _data_of(content: Content, scope: RestoreScope) -> dict[str, bytes]:
    """Path → data that is written there."""
    return {
        znode.path: recreated_topic(znode.data, znode.path) if is_anew(znode.path, scope) else znode.data or b""
        for znode in content.znodes
    }


def _part(target: ClusterAddress, raw: pa.Table, content: Content, manifest: Manifest, scope: RestoreScope) -> Part:
    """What is to be written into the target, as the scope says."""
    if scope.whole and not scope.over:
        return plan_whole(target, content, manifest, scope)
    with target.session(create_chroot=False) as session:
        require_zookeeper_mode(session, target)
        known_by = require_same_cluster(session, raw, manifest, target, scope)
        if scope.whole:
            found = read_target(session)
            require_no_brokers(found, target)
            part = plan_over(session, content, scope, target, found)
        elif scope.corrections:
            part = plan_corrections(session, content, scope, brokers_run=bool(brokers_of(session)))
        else:
            part = plan_part(session, content, scope, target)
    part.notes.extend([known_by] if known_by else [])
    return part


def _epoch_note(content: Content, steps: Sequence[RestoreStep], scope: RestoreScope) -> str | None:
    raised = [step.path for step in steps if step.path in content.plain]
    if not raised:
        return None
    return (
        f"{len(raised)} epochs and blocks of producer ids are raised over those of the snapshot: epochs by {scope.epoch_bump:,}, "
        f"producer ids by {scope.epoch_bump:,} blocks of 1,000; brokers whose logs are newer accept them"
    )


def not_of_one_moment(store: ObjectStore, manifest: Manifest) -> str | None:
    """What whoever restores a torn snapshot is to know: why it is one, and which newest one is not; None when it is none."""
    if manifest.consistent:
        return None
    return f"{NOT_OF_ONE_MOMENT}: {manifest.reason}; {_newest_consistent(store, manifest.cluster)}"


def _newest_consistent(store: ObjectStore, cluster: str) -> str:
    now = datetime.now(UTC)
    by_date = keys_by_date(store, cluster)
    for day in sorted(by_date, reverse=True)[:_DAYS_MAX]:
        readable, _ = readable_snapshots(store, by_date[day])
        found = [each for each in readable if each.consistent and not dated_in_the_future(each, now)]
        if found:
            return f"the newest that is of one moment is {found[-1].snapshot_id}, of {day}"
    return f"no snapshot of the newest {_DAYS_MAX} dates is, as far as they can be read"


def assumed_acls(content: Content, steps: Sequence[RestoreStep], scope: RestoreScope) -> Sequence[str]:
    """Paths that the plan gives an ACL which the snapshot does not know whole; a znode that is only set keeps its own."""
    if scope.whole and not scope.over:
        return content.assumed_acls
    if not scope.acls:
        return ()
    created = {step.path for step in steps if kind_of(step) == "create"}
    return [path for path in content.assumed_acls if path in created]


def require_login_for(assumed: Sequence[str], target: ClusterAddress) -> None:
    """Refuses ACLs that name who restores when that is nobody: the session is anonymous."""
    if not assumed or target.auth is not None or (target.tls is not None and target.tls.certificate is not None):
        return
    raise RefusedError(
        f"restore to {target.zookeeper} refused: the snapshot does not know the whole ACL of {counted(len(assumed), 'znode')}, such as "
        f"{assumed[0]!r}; expected a login, which they are given to instead, found an anonymous session; log in as the "
        "brokers do, or leave all ACLs out (--without-acls), which opens every znode to everybody"
    )


def _acl_note(assumed: Sequence[str]) -> str | None:
    if not assumed:
        return None
    return (
        f"the snapshot does not know the whole ACL of {counted(len(assumed), 'znode')}, such as {assumed[0]}: what is missing goes to the "
        "login that restores, and to nobody else"
    )


def _opened_note(raw: pa.Table, scope: RestoreScope) -> str | None:
    """Without the ACLs of the snapshot a whole restore opens every znode: how many were not open."""
    if scope.acls or not scope.whole:
        return None
    closed = pc.sum(pc.not_equal(raw["acl"], OPEN_ACL)).as_py() or 0
    return (
        f"WITHOUT ACLs: every znode becomes open to everybody; {closed} were not, and of {raw['acl'].null_count} the snapshot "
        "does not know"
    )


def _size_note(steps: Iterable[RestoreStep]) -> str | None:
    large = [step for step in steps if step.size > LARGE_BYTES]
    if not large:
        return None
    largest = max(large, key=lambda step: step.size)
    return (
        f"{counted(len(large), 'znode')} of more than {LARGE_BYTES:,} bytes, the largest {largest.path} with {largest.size:,}: a server "
        "refuses them if its jute.maxbuffer is not raised above that (1,048,575 by default)"
    )


def _throttle_note(steps: Iterable[RestoreStep], data: Mapping[str, bytes]) -> str | None:
    """That of a reassignment which was under way at the time of the snapshot: its run has taken it back, and does not do so again."""
    writing = (step.path for step in steps if kind_of(step) in {"create", "set"} and step.path.startswith(f"{CONFIG}/"))
    throttling = [path for path in writing if _THROTTLE in data.get(path, b"")]
    if not throttling:
        return None
    return (
        f"{counted(len(throttling), 'config')}, such as {throttling[0]}, would have a replication throttle, as when the snapshot was taken; no run "
        "takes it away again: where that reassignment is over, remove *.replication.throttled.* afterwards (kafka-configs --delete-config)"
    )
