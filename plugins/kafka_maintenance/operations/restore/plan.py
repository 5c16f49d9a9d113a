"""Plans a restore: compares a snapshot with its target, refuses what does not fit, stores what would be written.

Source: docs/snapshots.md, "Restoring".
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from controller_core import znodes
from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.acls import OPEN_ACL
from controller_core.adapters.snapshot.manifest import Manifest, dated_in_the_future
from controller_core.adapters.snapshot.secrets import sealer_of
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.adapters.zookeeper.session import KazooZooKeeper
from controller_core.model.errors import NoNodeError, ObjectExistsError
from controller_core.model.words import counted
from controller_core.ports.object_store import put_once
from controller_core.ports.zookeeper import ZnodeStat, ZooKeeper
from kafka_maintenance import __version__
from kafka_maintenance.operations.apply.cluster_lock import LOCK_PATH
from kafka_maintenance.operations.cluster.brokers_asked import BrokersAsked
from kafka_maintenance.operations.errors import BadInputError, NothingToRestoreError, RefusedError
from kafka_maintenance.operations.restore.acl_steps import acl_steps, parents_of
from kafka_maintenance.operations.restore.content import (
    Content,
    RestoreScope,
    is_alterable,
    is_anew,
    notice_of,
    parent_of_notice,
    recreated_topic,
    restorable,
    same_assignment,
    selected_configs,
    selected_paths,
    selected_topics,
)
from kafka_maintenance.operations.restore.corrections import plan_corrections
from kafka_maintenance.operations.restore.document import (
    KIND,
    Part,
    Step,
    StoredRestore,
    content_digest,
    content_sum,
    described,
    differs,
    kind_of,
    listing_of,
    load_restore,
    plan_digest,
    plan_document,
    sequence_id,
    stored_restore,
)
from kafka_maintenance.operations.restore.identity import require_same_cluster, told_by_brokers
from kafka_maintenance.operations.restore.over import Extras, extras, plan_over, read_target, removals
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
_LARGE_BYTES: Final = (
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
        ObjectStoreError, ZooKeeperError: as of `read_raw` and `connect`.
    """
    manifest = read_manifest(store, manifest) if isinstance(manifest, str) else manifest
    raw = read_raw(store, manifest)
    if brokers is not None and (scope.over or not scope.whole):
        scope = told_by_brokers(target, scope, brokers)
    content = content_for(target, raw, manifest, scope, key_file)
    part = _part(target, raw, content, manifest, scope)
    steps, notes = described(part, _data_of(content, scope)), part.notes
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
    data = (json.dumps(document, sort_keys=True, ensure_ascii=False, indent=1) + "\n").encode()
    try:
        put_once(store, key, data)
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
            part = _plan_part(session, content, scope, target)
    part.notes.extend([known_by] if known_by else [])
    return part


def _epoch_note(content: Content, steps: Sequence[Step], scope: RestoreScope) -> str | None:
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


def assumed_acls(content: Content, steps: Sequence[Step], scope: RestoreScope) -> Sequence[str]:
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


def _size_note(steps: Iterable[Step]) -> str | None:
    large = [step for step in steps if step.size > _LARGE_BYTES]
    if not large:
        return None
    largest = max(large, key=lambda step: step.size)
    return (
        f"{counted(len(large), 'znode')} of more than {_LARGE_BYTES:,} bytes, the largest {largest.path} with {largest.size:,}: a server "
        "refuses them if its jute.maxbuffer is not raised above that (1,048,575 by default)"
    )


def _plan_part(session: KazooZooKeeper, content: Content, scope: RestoreScope, target: ClusterAddress) -> Part:
    """The steps of a restore that is not whole."""
    wanted = {znode.path: znode.data or b"" for znode in content.znodes}
    notes: list[str] = []
    selected = dict.fromkeys([*selected_configs(wanted, scope), *selected_paths(wanted, scope)])
    missing_secret = [path for path in content.left_out if path in _asked_for(content.left_out, scope)]
    notes += [f"{path} is left out: {content.left_out[path]}" for path in missing_secret]
    brokers_run = bool(brokers_of(session))
    topics, remarks = _topics_anew(session, wanted, scope)
    notes += remarks
    for path in _configs_of_gone_topics(session, wanted, scope, topics):
        selected.pop(path, None)
    if not selected and not topics and not missing_secret and not remarks:
        raise BadInputError(
            "restore not planned: the snapshot holds nothing of what was asked for; check names and patterns"
        )
    more = _extras(session, content, scope, brokers_run=brokers_run)
    surplus = more.removable
    notes += [more.note] if more.note else []
    notices = [told[0] for path in (*selected, *surplus) if brokers_run and (told := notice_of(path)) is not None]
    heard = {parent for prefix in notices for parent in parents_of(prefix)}
    above = {
        parent for path in (*selected, *topics, *notices, LOCK_PATH) for parent in parents_of(path) if parent in wanted
    }
    missing = [path for path in sorted(above - selected.keys()) if session.exists(path) is None]
    chosen = {**{path: wanted[path] for path in (*missing, *selected)}, **topics}
    first = sorted(chosen, key=lambda path: (path not in heard, path))  # a notice wants its parent to be there
    writes = {path: chosen[path] for path in first}
    there = dict(zip(writes, session.get_many(list(writes)), strict=True))
    refused = [
        path
        for path in selected
        if brokers_run and wanted[path] and not is_alterable(path) and _changes(content, path, there[path], topics)
    ]
    if refused:
        raise RefusedError(
            f"restore refused: {counted(len(refused), 'znode')}, such as {refused[0]!r}, may not change under running brokers, which hold "
            "them in memory; stop all brokers, or restore configs and ACLs only"
        )
    listening = {each for each in heard if each in wanted or session.exists(each) is not None}
    steps: list[Step] = []
    before: dict[str, bytes] = {}
    for path, data in writes.items():
        found = there[path]
        if not _changes(content, path, found, topics):
            continue
        if found is not None:
            before[path] = found[0]
        notice = path not in topics and parent_of_notice(path) in listening
        mzxid = None if found is None else found[1].mzxid
        steps.append(Step(path=path, expected_mzxid=mzxid, notice=notice, **content_sum(data)))
    before |= {path: found[0] for path, found in zip(surplus, session.get_many(list(surplus)), strict=True) if found}
    secrets = [path for path in missing_secret if path in content.acls]
    there |= dict(zip(secrets, session.get_many(secrets), strict=True))
    mzxids = {path: found[1].mzxid for path, found in there.items() if found is not None}
    drifted, before_acls = acl_steps(session, content, scope, steps, mzxids, target)
    return Part([*steps, *removals(surplus, listening), *drifted], before, before_acls, notes)


def _extras(session: KazooZooKeeper, content: Content, scope: RestoreScope, *, brokers_run: bool) -> Extras:
    """What a mirror of paths removes; refuses what may not go under running brokers."""
    if not scope.mirror:
        return Extras()
    found = extras(read_target(session), content, scope.paths)
    refused = sorted(path for path in found.removable if brokers_run and not is_alterable(path))
    if refused:
        raise RefusedError(
            f"restore refused: {counted(len(refused), 'znode')}, such as {refused[0]!r}, may not be removed under running brokers; stop all "
            "brokers, or leave --mirror out"
        )
    return found


def brokers_of(session: ZooKeeper) -> list[str]:
    """Ids of the registered brokers; none where `/brokers/ids` itself is gone."""
    try:
        return session.children(znodes.BROKER_IDS)
    except NoNodeError:
        return []


def _changes(content: Content, path: str, found: tuple[bytes, ZnodeStat] | None, anew: Mapping[str, bytes]) -> bool:
    if found is None:
        return True
    return differs(found[0], anew[path]) if path in anew else content.changes(path, found[0])


def _configs_of_gone_topics(
    session: ZooKeeper, wanted: Mapping[str, bytes], scope: RestoreScope, anew: Mapping[str, bytes]
) -> list[str]:
    """Configs that nobody would read, unless they are asked for by their own name."""
    topics = [path for path in selected_topics(wanted, scope) if path not in anew and session.exists(path) is None]
    configs = {znodes.config_path("topics", path.rpartition("/")[2]) for path in topics}
    asked_for = set(selected_configs(configs, replace(scope, topics=()))) if scope.configs else set()
    return sorted(configs - asked_for)


def _asked_for(paths: Iterable[str], scope: RestoreScope) -> set[str]:
    listed = list(paths)
    return {*selected_configs(listed, scope), *selected_paths(listed, scope)}


def _topics_anew(
    session: ZooKeeper, wanted: Mapping[str, bytes], scope: RestoreScope
) -> tuple[dict[str, bytes], list[str]]:
    """Assignments of deleted topics, and remarks on those that are not touched."""
    anew: dict[str, bytes] = {}
    remarks: list[str] = []
    live = {int(name) for name in brokers_of(session)}
    for path in selected_topics(wanted, scope):
        topic = path.rpartition("/")[2]
        if session.exists(path) is not None:
            found = session.get(path)[0]
            if differs(found, wanted[path]) and not same_assignment(found, wanted[path], path):
                remarks.append(
                    f"{topic}: its assignment differs and is not touched; move replicas with reassign_partitions"
                )
            continue
        if not scope.recreate:
            remarks.append(
                f"{topic}: was deleted, its data is gone; ask for it anew (empty), or take the recreation kit"
            )
            continue
        data = recreated_topic(wanted[path], path)
        needed = {
            broker for each in znodes.decode_topic(data, path=path).assignments.values() for broker in each.replicas
        }
        if needed - live:
            remarks.append(
                f"{topic}: not made anew, brokers {sorted(needed - live)} do not run; take the recreation kit"
            )
            continue
        anew[path] = data
    return anew, remarks
