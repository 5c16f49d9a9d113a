"""Plans a restore: compares a snapshot with its target, refuses what does not fit, stores what would be written.

Source: docs/snapshots.md, "Restoring".
"""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from controller_core import znodes
from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.acls import OPEN_ACL
from controller_core.adapters.snapshot.format import MASKED_ACL
from controller_core.adapters.snapshot.live_acls import live_acls
from controller_core.adapters.snapshot.manifest import Manifest
from controller_core.adapters.snapshot.reader import Cut, ReadOptions, read_cut
from controller_core.adapters.snapshot.secrets import Sealer
from controller_core.adapters.snapshot.tree_writer import NewZnode
from controller_core.adapters.zookeeper.session import KazooZooKeeper
from controller_core.model.errors import NoNodeError, ObjectExistsError
from controller_core.ports.object_store import put_once
from controller_core.ports.zookeeper import ZnodeStat, ZooKeeper
from kafka_maintenance import __version__
from kafka_maintenance.operations.errors import BadInputError, RefusedError
from kafka_maintenance.operations.restore.content import (
    Content,
    RestoreScope,
    is_alterable,
    notice_of,
    recreated_topic,
    restorable,
    same_assignment,
    selected_configs,
    selected_paths,
    selected_topics,
)
from kafka_maintenance.operations.restore.document import (
    KIND,
    Step,
    StoredRestore,
    content_digest,
    content_sum,
    differs,
    load_restore,
    plan_digest,
    plan_document,
    plan_text,
    sequence_id,
    stored_restore,
)
from kafka_maintenance.operations.restore.rights import require_no_wider
from kafka_maintenance.operations.restore.target import Target
from kafka_maintenance.operations.snapshots.catalog import (
    keys_by_date,
    opened,
    read_manifest,
    read_raw,
    readable_snapshots,
)
from kafka_maintenance.operations.snapshots.take import require_kafka_tree

NOT_OF_ONE_MOMENT: Final = "NOT of one moment"
_SHOWN_MAX: Final = 10
_NIGHTS_MAX: Final = 100  # a server before 3.6 never gives a consistent one: nobody waits for all manifests of a decade
_LARGE_BYTES: Final = (
    1_000_000  # ZooKeeper `jute.maxbuffer`: a server takes requests of up to 1,048,575 bytes by default
)


def plan_restore(
    *,
    store: ObjectStore | str,
    manifest: Manifest | str,
    target: Target,
    scope: RestoreScope,
    key_file: Path | None = None,
) -> StoredRestore:
    """Compares the snapshot with the target and stores what a restore would write; writes nothing to ZooKeeper.

    Errors: `RefusedError` when the target does not fit (another cluster, brokers that run, a tree that is not empty) or
    nothing would change; `BadInputError` when the scope names nothing; those of `read_raw` and `connect`.
    """
    store = opened(store)
    manifest = read_manifest(store, manifest) if isinstance(manifest, str) else manifest
    raw = read_raw(store, manifest)
    content = restorable(raw, scope, Sealer.from_file(key_file) if key_file else None)
    if scope.whole:
        writes = _missing_in(target, content, manifest)
        steps = [Step(path=each.path, expected_mzxid=None, notice=False, **content_sum(each.data)) for each in writes]
        part = Part(steps)
    else:
        with target.session(create_chroot=False) as session:
            require_kafka_tree(session, target.zookeeper)
            require_same_cluster(session, manifest, target)
            part = _plan_part(session, content, scope, target)
    steps, notes = part.steps, part.notes
    if not steps:
        raise RefusedError(
            f"restore of {manifest.snapshot_id} to {target.zookeeper} not planned, nothing is to be written: "
            + ("; ".join(notes) or "everything asked for is there already")
        )
    assumed = assumed_acls(content, steps, scope)
    require_login_for(assumed, target)
    remarks = (not_of_one_moment(store, manifest), _acl_note(assumed), _opened_note(raw, scope), _size_note(steps))
    notes += [note for note in remarks if note]
    document = plan_document(manifest, target, scope, steps, content.left_out, notes)
    document["assumed_acls"] = list(assumed)
    if scope.whole:  # 400,000 steps say no more than their digest
        document |= {
            "steps": [],
            "content_sha256": content_digest(content),
            "sequence_id_version": sequence_id(raw),
        }
    after = {znode.path: znode.data or b"" for znode in content.znodes}
    document["text"] = plan_text(document, steps, part.before, after, part.before_acls)
    document |= {"digest": plan_digest(document), "code_version": __version__}
    key = f"{manifest.prefix}/plans/{KIND}-{document['digest'][:12]}.json"
    data = (json.dumps(document, sort_keys=True, ensure_ascii=False, indent=1) + "\n").encode()
    try:
        put_once(store, key, data)
    except ObjectExistsError:  # made before, perhaps by another version: verified when it is read
        return load_restore(store, store.uri_of(key))
    return stored_restore(store.uri_of(key), document)


def not_of_one_moment(store: ObjectStore, manifest: Manifest) -> str | None:
    """What whoever restores a torn snapshot is to know: why it is one, and which newest one is not; None when it is none."""
    if manifest.consistent:
        return None
    return f"{NOT_OF_ONE_MOMENT}: {manifest.reason}; {_newest_consistent(store, manifest.cluster)}"


def _newest_consistent(store: ObjectStore, cluster: str) -> str:
    by_date = keys_by_date(store, cluster)
    for day in sorted(by_date, reverse=True)[:_NIGHTS_MAX]:
        found = [each for each in readable_snapshots(store, by_date[day])[0] if each.consistent]
        if found:
            return f"the newest that is of one moment is {found[-1].snapshot_id}, of {day}"
    return f"no snapshot of the newest {_NIGHTS_MAX} nights is, as far as they can be read"


def assumed_acls(content: Content, steps: Sequence[Step], scope: RestoreScope) -> Sequence[str]:
    """Paths that the plan gives an ACL which the snapshot does not know whole; a znode that is only set keeps its own."""
    if scope.whole:
        return content.assumed_acls
    if not scope.acls:
        return ()
    created = {step.path for step in steps if step.expected_mzxid is None}
    return [path for path in content.assumed_acls if path in created]


def require_login_for(assumed: Sequence[str], target: Target) -> None:
    """Refuses ACLs that name who restores when that is nobody: the session is anonymous."""
    if not assumed or target.auth is not None or (target.tls is not None and target.tls.certificate is not None):
        return
    raise RefusedError(
        f"restore to {target.zookeeper} refused: the snapshot does not know the whole ACL of {len(assumed)} znodes, such as "
        f"{assumed[0]!r}; expected a login, which they are given to instead, found an anonymous session; log in as the "
        "brokers do, or leave all ACLs out (--without-acls), which opens every znode to everybody"
    )


def _acl_note(assumed: Sequence[str]) -> str | None:
    if not assumed:
        return None
    return (
        f"the snapshot does not know the whole ACL of {len(assumed)} znodes, such as {assumed[0]}: what is missing goes to the "
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
        f"{len(large)} znodes hold more than {_LARGE_BYTES:,} bytes, the largest {largest.path} with {largest.size:,}: a server "
        "refuses them if its jute.maxbuffer is not raised above that (1,048,575 by default)"
    )


def _missing_in(target: Target, content: Content, manifest: Manifest) -> list[NewZnode]:
    try:
        with target.session(create_chroot=False) as session:
            return missing_znodes(session, content, manifest, target)
    except NoNodeError:  # the chroot itself is still to be made
        return [znode for znode in content.znodes if znode.path != "/"]


def missing_znodes(session: KazooZooKeeper, content: Content, manifest: Manifest, target: Target) -> list[NewZnode]:
    """What is still missing of the tree; refuses a target that holds anything else."""
    found = read_cut(session.client, ReadOptions(method="plain", acls=False))
    _require_no_brokers(found, target)
    wanted = {znode.path: znode for znode in content.znodes if znode.path != "/"}
    foreign = sorted(path for path in found.znodes if path not in wanted and path != "/")
    if foreign:
        raise RefusedError(
            f"restore of {manifest.snapshot_id} to {target.zookeeper} refused: expected an empty tree, or what an earlier try "
            f"of this restore left, found {len(foreign)} other znodes, such as {foreign[0]!r}; choose an empty chroot"
        )
    others = [path for path, znode in found.znodes.items() if path in wanted and differs(znode.data, wanted[path].data)]
    if others:
        raise RefusedError(
            f"restore of {manifest.snapshot_id} to {target.zookeeper} refused: {len(others)} znodes hold other data, such as "
            f"{min(others)!r}; choose an empty chroot"
        )
    return [znode for path, znode in wanted.items() if path not in found.znodes]


def _require_no_brokers(found: Cut, target: Target) -> None:
    brokers = sorted(path.rpartition("/")[2] for path in found.znodes if path.startswith(f"{znodes.BROKER_IDS}/"))
    if brokers:
        raise RefusedError(
            f"restore to {target.zookeeper} refused: brokers {', '.join(brokers[:_SHOWN_MAX])} run on it, and would go on with "
            "versions and epochs of before; stop all brokers, or restore a part only"
        )


def require_same_cluster(session: ZooKeeper, manifest: Manifest, target: Target) -> None:
    """Refuses to write one cluster's metadata into another one."""
    try:
        found = znodes.decode_cluster_id(session.get(znodes.CLUSTER_ID)[0])
    except NoNodeError:
        found = None  # Kafka before 0.10.1
    if found != manifest.kafka_cluster_id:
        raise RefusedError(
            f"restore of {manifest.snapshot_id} to {target.zookeeper} refused: expected Kafka cluster id "
            f"{manifest.kafka_cluster_id!r}, found {found!r}; this snapshot is of another cluster"
        )


@dataclass(frozen=True, slots=True)
class Part:
    """What a plan writes, the data and the ACLs that stand there now, and remarks on what is not written."""

    steps: list[Step]
    before: dict[str, bytes] = field(default_factory=dict)
    before_acls: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def _plan_part(session: KazooZooKeeper, content: Content, scope: RestoreScope, target: Target) -> Part:
    """The steps of a restore that is not whole."""
    wanted = {znode.path: znode.data or b"" for znode in content.znodes}
    notes: list[str] = []
    selected = dict.fromkeys([*selected_configs(wanted, scope), *selected_paths(wanted, scope)])
    missing_secret = [path for path in content.left_out if path in _asked_for(content.left_out, scope)]
    notes += [f"{path} is left out: {content.left_out[path]}" for path in missing_secret]
    brokers_run = bool(session.children(znodes.BROKER_IDS))
    topics, remarks = _topics_anew(session, wanted, scope)
    notes += remarks
    for path in _configs_of_gone_topics(session, wanted, scope, topics):
        selected.pop(path, None)
    if not selected and not topics and not missing_secret and not remarks:
        raise BadInputError(
            "restore not planned: the snapshot holds nothing of what was asked for; check names and patterns"
        )
    writes = {**{path: wanted[path] for path in selected}, **topics}
    there = dict(zip(writes, session.get_many(list(writes)), strict=True))
    refused = [
        path
        for path in selected
        if brokers_run and wanted[path] and not is_alterable(path) and _changes(there[path], wanted[path])
    ]
    if refused:
        raise RefusedError(
            f"restore refused: {len(refused)} znodes, such as {refused[0]!r}, may not change under running brokers, which hold "
            "them in memory; stop all brokers, or restore configs and ACLs only"
        )
    steps: list[Step] = []
    before: dict[str, bytes] = {}
    for path, data in writes.items():
        found = there[path]
        if not _changes(found, data):
            continue
        if found is not None:
            before[path] = found[0]
        notice = brokers_run and path not in topics and notice_of(path) is not None
        mzxid = None if found is None else found[1].mzxid
        steps.append(Step(path=path, expected_mzxid=mzxid, notice=notice, **content_sum(data)))
    secrets = [path for path in missing_secret if path in content.acls]
    there |= dict(zip(secrets, session.get_many(secrets), strict=True))
    mzxids = {path: found[1].mzxid for path, found in there.items() if found is not None}
    acl_steps, before_acls = _acl_steps(session, content, scope, steps, mzxids, target)
    return Part([*steps, *acl_steps], before, before_acls, notes)


def _changes(found: tuple[bytes, ZnodeStat] | None, data: bytes) -> bool:
    return found is None or differs(found[0], data)


def _acl_steps(
    session: KazooZooKeeper,
    content: Content,
    scope: RestoreScope,
    steps: Sequence[Step],
    mzxids: Mapping[str, int],
    target: Target,
) -> tuple[list[Step], dict[str, str]]:
    """Steps for ACLs that are others than the snapshot's, and those that stand now; refuses to give everybody more rights.

    An ACL that the snapshot does not know whole is no difference.
    """
    wanted = content.acls
    if not wanted:
        return [], {}
    created = {step.path for step in steps if step.expected_mzxid is None}
    above = {parent for path in created for parent in _parents(path)}
    live = live_acls(session.client, sorted({*mzxids, *above}))
    shown = {
        path: acl for path, (acl, _) in live.items() if not re.search(MASKED_ACL, acl)
    }  # others cannot be compared
    drifted = {path: wanted[path] for path in mzxids if path in shown and wanted.get(path, shown[path]) != shown[path]}
    if not scope.widen_acls:
        new = [(path, wanted[path]) for path in sorted(created & wanted.keys())]
        require_no_wider([*new, *drifted.items()], {path: acl for path, (acl, _) in live.items()}, target.zookeeper)
    acl_steps = [
        Step(
            path=path,
            expected_mzxid=mzxids[path],
            notice=False,
            acl=acl,
            expected_aversion=live[path][1],
            **content_sum(None),
        )
        for path, acl in drifted.items()
    ]
    return acl_steps, {path: live[path][0] for path in drifted}


def _parents(path: str) -> list[str]:
    """All znodes above a path, the root included."""
    steps = path.split("/")[:-1]
    return ["/".join(steps[: number + 1]) or "/" for number in range(len(steps))]


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
    live = {int(name) for name in session.children(znodes.BROKER_IDS)}
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
