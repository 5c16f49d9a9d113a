"""Brings a snapshot back: plan, look at the difference, approve its digest, apply.

A whole tree goes into an empty ZooKeeper whose brokers are stopped; a part (configs, ACLs, topics anew) into a living one,
with the notices that make the brokers read it. Applying checks every assumption again, writes in transactions, and can be
repeated after a kill: what is there already is not written twice.
Source: snapshot-design §3; zookeeper-layout §12, §20, §21.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from controller_core import znodes
from controller_core.adapters.object_store import ObjectStore
from controller_core.adapters.snapshot_reader import Cut, ReadOptions, read_cut
from controller_core.adapters.snapshot_secrets import Sealer, is_secret
from controller_core.adapters.snapshot_writer import NewZnode, WriteOptions, raise_version, set_root, write_tree
from controller_core.adapters.zookeeper import KazooZooKeeper, ZooKeeperAuth, ZooKeeperTls, connect
from controller_core.errors import BadVersionError, InvalidPlanError, NodeExistsError, NoNodeError, ObjectExistsError
from controller_core.ports import Acl, Check, Create, Operation, Set, ZooKeeper
from kafka_maintenance.operations.cluster_lock import Holder, cluster_lock
from kafka_maintenance.operations.errors import BadInputError, PlanChangedError, RefusedError
from kafka_maintenance.operations.restore_content import (
    Content,
    RestoreScope,
    is_alterable,
    notice_of,
    recreated_topic,
    restorable,
    selected_configs,
    selected_paths,
    selected_topics,
)
from kafka_maintenance.operations.snapshot import require_kafka_tree
from kafka_maintenance.operations.snapshot_manifest import ROOT, Manifest
from kafka_maintenance.operations.snapshots import opened, read_manifest, read_raw

PLAN_SCHEMA_VERSION: Final = 1
KIND: Final = "restore"
TRANSACTION_BYTES_MAX: Final = 400_000
TRANSACTION_STEPS_MAX: Final = 50
_SHOWN_MAX: Final = 10
_DATA_SHOWN_MAX: Final = 160
_STEPS_SHOWN_MAX: Final = 100
_LOCK_WAIT_S: Final = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One znode to create (`expected_version` None: there must be none) or to set, if it has that version.

    `sha256` is that of the data to write, which is not in the plan; `notice` says that brokers are told.
    """

    path: str
    expected_version: int | None
    size: int
    sha256: str
    notice: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRestore:
    """A restore plan in the store; `text` is what the approver reads."""

    uri: str
    digest: str
    step_count: int
    left_out_count: int
    text: str
    document: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreReceipt:
    """What an application did: znodes written now, znodes that were right already, what was left out, the record's URI."""

    written: int
    already_there: int
    left_out: Mapping[str, str]
    uri: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """The ZooKeeper to restore into."""

    zookeeper: str
    auth: ZooKeeperAuth | None = None
    tls: ZooKeeperTls | None = None
    timeout_s: float = 15.0

    @contextmanager
    def session(self, *, create_chroot: bool) -> Iterator[KazooZooKeeper]:
        """A session for the length of a `with` block."""
        with connect(
            self.zookeeper, auth=self.auth, tls=self.tls, timeout_s=self.timeout_s, create_chroot=create_chroot
        ) as session:
            yield session


# ------------------------------------------------------------------------------------------------- planning


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
    notes: list[str] = []
    before: dict[str, bytes] = {}
    if scope.whole:
        writes = _missing_in(target, content, manifest)
        steps = [Step(path=each.path, expected_version=None, notice=False, **_sum(each.data)) for each in writes]
    else:
        with target.session(create_chroot=False) as session:
            require_kafka_tree(session, target.zookeeper)
            require_same_cluster(session, manifest, target)
            steps, before, notes = _plan_part(session, content, scope)
    if not steps:
        raise RefusedError(
            f"restore of {manifest.snapshot_id} to {target.zookeeper} not planned: everything asked for is there already; "
            + ("; ".join(notes) or "nothing is to do")
        )
    document = _document(manifest, target, scope, steps, content.left_out, notes)
    if scope.whole:  # 400,000 steps say no more than their digest
        document |= {"steps": [], "content_sha256": _content_digest(content), "sequence_id_version": _sequence_id(raw)}
    after = {znode.path: znode.data or b"" for znode in content.znodes}
    document["text"] = _text(document, steps, before, after)
    document["digest"] = _digest(document)
    key = f"{manifest.prefix}/plans/{KIND}-{document['digest'][:12]}.json"
    data = (json.dumps(document, sort_keys=True, ensure_ascii=False, indent=1) + "\n").encode()
    try:
        store.put_new(key, data)
    except ObjectExistsError:
        if store.get(key) != data:
            raise InvalidPlanError(
                f"plan {store.uri_of(key)!r} not stored: another document has that name; it was altered, remove it"
            ) from None
    return _stored(store.uri_of(key), document)


def load_restore(store: ObjectStore | str, plan_uri: str) -> StoredRestore:
    """A stored plan, its digest verified; `InvalidPlanError` when it was altered or is none."""
    store = opened(store)
    content = store.get(plan_uri.removeprefix(f"{store.uri}/"))
    try:
        document = json.loads(content)
        claimed = document["digest"]
        found = _digest(document)
        readable = document["kind"] == KIND and document["schema_version"] == PLAN_SCHEMA_VERSION
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidPlanError(f"plan {plan_uri!r} not read: it is no restore plan ({error}); plan again") from error
    if found != claimed or not readable:
        raise InvalidPlanError(
            f"plan {plan_uri!r} not read: expected a restore plan with digest {claimed[:12]}, found {found[:12]}; it was "
            "altered, or is of another kind: plan again"
        )
    return _stored(plan_uri, document)


def _stored(uri: str, document: Mapping[str, Any]) -> StoredRestore:
    return StoredRestore(
        uri=uri,
        digest=document["digest"],
        step_count=document["step_count"],
        left_out_count=document["left_out_count"],
        text="\n".join([*document["text"], f"digest {document['digest']}"]),
        document=document,
    )


def _missing_in(target: Target, content: Content, manifest: Manifest) -> list[NewZnode]:
    try:
        with target.session(create_chroot=False) as session:
            return _plan_whole(session, content, manifest, target)
    except NoNodeError:  # the chroot itself is still to be made
        return [znode for znode in content.znodes if znode.path != "/"]


def _plan_whole(session: KazooZooKeeper, content: Content, manifest: Manifest, target: Target) -> list[NewZnode]:
    """What is still missing of the tree; refuses a target that holds anything else."""
    found = read_cut(session.client, ReadOptions(method="plain", acls="never"))
    _require_no_brokers(found, target)
    wanted = {znode.path: znode for znode in content.znodes if znode.path != "/"}
    foreign = sorted(path for path in found.znodes if path not in wanted and path != "/")
    if foreign:
        raise RefusedError(
            f"restore of {manifest.snapshot_id} to {target.zookeeper} refused: expected an empty tree, or what an earlier try "
            f"of this restore left, found {len(foreign)} other znodes, such as {foreign[0]!r}; choose an empty chroot"
        )
    others = [
        path for path, znode in found.znodes.items() if path in wanted and _differs(znode.data, wanted[path].data)
    ]
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


def _plan_part(
    session: KazooZooKeeper, content: Content, scope: RestoreScope
) -> tuple[list[Step], dict[str, bytes], list[str]]:
    """Steps, the data before them, and remarks on what was asked for and is not among them."""
    wanted = {znode.path: znode.data or b"" for znode in content.znodes}
    notes: list[str] = []
    selected = dict.fromkeys([*selected_configs(wanted, scope), *selected_paths(wanted, scope)])
    missing_secret = [path for path in content.left_out if path in _asked_for(content.left_out, scope)]
    notes += [f"{path} is left out: {content.left_out[path]}" for path in missing_secret]
    brokers_run = bool(session.children(znodes.BROKER_IDS))
    refused = [path for path in selected if brokers_run and wanted[path] and not is_alterable(path)]
    if refused:
        raise RefusedError(
            f"restore refused: {len(refused)} znodes, such as {refused[0]!r}, may not change under running brokers, which hold "
            "them in memory; stop all brokers, or restore configs and ACLs only"
        )
    topics, remarks = _topics_anew(session, wanted, scope)
    notes += remarks
    if not selected and not topics and not missing_secret and not remarks:
        raise BadInputError(
            "restore not planned: the snapshot holds nothing of what was asked for; check names and patterns"
        )
    writes = {**{path: wanted[path] for path in selected}, **topics}
    there = dict(zip(writes, session.get_many(list(writes)), strict=True))
    steps: list[Step] = []
    before: dict[str, bytes] = {}
    for path, data in writes.items():
        found = there[path]
        if found is not None and not _differs(found[0], data):
            continue
        if found is not None:
            before[path] = found[0]
        notice = brokers_run and path not in topics and notice_of(path) is not None
        version = None if found is None else found[1].version
        steps.append(Step(path=path, expected_version=version, notice=notice, **_sum(data)))
    return steps, before, notes


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
            if _differs(session.get(path)[0], wanted[path]):
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


# ------------------------------------------------------------------------------------------------- applying


def apply_restore(
    *,
    store: ObjectStore | str,
    plan_uri: str,
    approved_digest: str,
    approver: str,
    target: Target,
    now: datetime,
    run_id: str = "command",
    key_file: Path | None = None,
    write_options: WriteOptions | None = None,
    progress: Callable[[int], None] = lambda _: None,
) -> RestoreReceipt:
    """Carries out a stored plan whose digest was approved; safe to repeat until it says that it is done.

    Errors: `PlanChangedError` when the stored plan is not the approved one; `RefusedError` when the target is not as
    planned; `RestoreConflictError` when somebody else wrote meanwhile; those of ZooKeeper and of the store.
    """
    store = opened(store)
    plan = load_restore(store, plan_uri)
    if plan.digest != approved_digest:
        raise PlanChangedError(
            f"plan {plan_uri} not applied: approved digest {approved_digest[:12]}, stored digest {plan.digest[:12]}; look at "
            "the plan again, approve again"
        )
    document = plan.document
    if document["zookeeper"] != target.zookeeper:
        raise RefusedError(
            f"plan {plan_uri} not applied: it was made for {document['zookeeper']}, not for {target.zookeeper}; plan again"
        )
    manifest = read_manifest(store, document["snapshot"]["manifest"])
    if manifest.digest != document["snapshot"]["digest"]:
        raise PlanChangedError(f"plan {plan_uri} not applied: its snapshot {manifest.uri} was changed; plan again")
    scope = scope_of(document["scope"])
    content = restorable(read_raw(store, manifest), scope, Sealer.from_file(key_file) if key_file else None)
    receipts = f"{ROOT}/receipts/cluster={manifest.cluster}/{plan.digest}"
    record = {"plan": plan_uri, "digest": plan.digest, "approver": approver, "run": run_id, "at": _iso(now)}
    _note(store, f"{receipts}/0000-started.json", record)
    if scope.whole:
        written, there = _apply_whole(target, content, document, manifest, write_options, progress)
    else:
        holder = Holder(plan=plan.digest, run=run_id, approver=approver, since=_iso(now))
        written, there = _apply_part(target, content, document, manifest, scope, holder, progress)
    done = {**record, "written": written, "already_there": there, "left_out": len(content.left_out)}
    _note(store, f"{receipts}/9999-done.json", done)
    return RestoreReceipt(
        written=written,
        already_there=there,
        left_out=content.left_out,
        uri=store.uri_of(f"{receipts}/9999-done.json"),
    )


def _apply_whole(
    target: Target,
    content: Content,
    document: Mapping[str, Any],
    manifest: Manifest,
    options: WriteOptions | None,
    progress: Callable[[int], None],
) -> tuple[int, int]:
    with target.session(create_chroot=True) as session:
        missing = _plan_whole(session, content, manifest, target)
        if _content_digest(content) != document["content_sha256"]:
            raise RefusedError(
                f"restore to {target.zookeeper} not applied: the znodes to write are not those of the approved plan; apply with "
                "the same key file as planned, or plan again"
            )
        write_tree(session.client, missing, options, progress)
        root = next((znode for znode in content.znodes if znode.path == "/"), None)
        if root is not None:
            set_root(session.client, root.data, root.acl)
        version = document["sequence_id_version"]
        if version and session.exists(znodes.BROKER_SEQUENCE_ID) is not None:
            raise_version(session.client, znodes.BROKER_SEQUENCE_ID, version)
        still_missing = _plan_whole(session, content, manifest, target)
        if still_missing:
            raise RefusedError(
                f"restore to {target.zookeeper} not complete: {len(still_missing)} znodes vanished again, such as "
                f"{still_missing[0].path!r}; somebody else writes there: stop that, apply again"
            )
    return len(missing), document["step_count"] - len(missing)


def _apply_part(
    target: Target,
    content: Content,
    document: Mapping[str, Any],
    manifest: Manifest,
    scope: RestoreScope,
    holder: Holder,
    progress: Callable[[int], None],
) -> tuple[int, int]:
    originals = {znode.path: znode for znode in content.znodes}
    written = there = 0
    with target.session(create_chroot=False) as session:
        require_kafka_tree(session, target.zookeeper)
        require_same_cluster(session, manifest, target)
        with cluster_lock(session, holder, wait_s=_LOCK_WAIT_S) as fence:
            guards = [fence, *_cluster_guard(session)]
            batch: list[Operation] = []
            size = count = 0
            for step in _steps(document):
                operations = _operations(session, step, originals, scope)
                if not operations:
                    there += 1
                    continue
                if batch and (size + step.size > TRANSACTION_BYTES_MAX or count >= TRANSACTION_STEPS_MAX):
                    _commit(session, guards, batch)
                    written += count
                    progress(written)
                    batch, size, count = [], 0, 0
                batch += operations
                size, count = size + step.size, count + 1
            if batch:
                _commit(session, guards, batch)
                written += count
                progress(written)
    return written, there


def _operations(
    session: ZooKeeper, step: Step, originals: Mapping[str, NewZnode], scope: RestoreScope
) -> list[Operation]:
    """What carries out a step; nothing when it is done already. The znode and its notice are one transaction."""
    original = originals.get(step.path)
    anew = original is not None and _is_topic(step.path) and scope.recreate
    data = (recreated_topic(original.data, step.path) if anew else original.data or b"") if original else b""
    if original is None or _sum(data)["sha256"] != step.sha256:
        raise RefusedError(
            f"restore not applied: {step.path!r} is not in the snapshot with the planned content; apply with the same key "
            "file as planned, or plan again"
        )
    try:
        found, stat = session.get(step.path)
    except NoNodeError:
        found, stat = None, None
    if found is not None and not _differs(found, data):
        return []
    if (stat.version if stat else None) != step.expected_version:
        raise RefusedError(
            f"restore not applied at {step.path!r}: expected version {step.expected_version}, found "
            f"{stat.version if stat else None}; the cluster changed since the plan: plan again"
        )
    acl = _acl(original.acl)
    operations: list[Operation] = []
    if stat is None:
        operations.append(Create(path=step.path, data=data, acl=acl))
    else:
        operations.append(Set(path=step.path, data=data, version=stat.version))
    notice = notice_of(step.path) if step.notice else None
    if notice is not None:
        operations.append(Create(path=notice[0], data=notice[1], sequential=True))
    return operations


def _commit(session: ZooKeeper, guards: Sequence[Check], batch: Sequence[Operation]) -> None:
    try:
        session.multi([*guards, *batch])
    except (BadVersionError, NodeExistsError, NoNodeError) as error:
        raise RefusedError(
            f"restore stopped: {error}; the cluster changed while it was applied. What was written stays and is right; plan "
            "again for the rest"
        ) from error


def _cluster_guard(session: ZooKeeper) -> list[Check]:
    """Every transaction fails if the tree below us becomes another cluster's."""
    stat = session.exists(znodes.CLUSTER_ID)
    return [] if stat is None else [Check(path=znodes.CLUSTER_ID, version=stat.version)]


def _is_topic(path: str) -> bool:
    return path.rpartition("/")[0] == znodes.TOPICS


def _acl(text: str | None) -> tuple[Acl, ...] | None:
    return None if text is None else tuple(Acl(*entry) for entry in json.loads(text))


# ------------------------------------------------------------------------------------------------- the document


def _document(
    manifest: Manifest,
    target: Target,
    scope: RestoreScope,
    steps: Sequence[Step],
    left_out: Mapping[str, str],
    notes: Sequence[str],
) -> dict[str, Any]:
    reasons: dict[str, int] = {}
    for reason in left_out.values():
        short = "lies below a znode that is left out" if reason.startswith("lies below") else reason
        reasons[short] = reasons.get(short, 0) + 1
    return {
        "schema_version": PLAN_SCHEMA_VERSION,
        "kind": KIND,
        "cluster": manifest.cluster,
        "kafka_cluster_id": manifest.kafka_cluster_id,
        "zookeeper": target.zookeeper,
        "snapshot": {"manifest": manifest.uri, "digest": manifest.digest},
        "scope": asdict(scope),
        "step_count": len(steps),
        "steps": [asdict(step) for step in steps],
        "left_out_count": len(left_out),
        "left_out": reasons,
        "notes": list(notes),
    }


def scope_of(document: Mapping[str, Any]) -> RestoreScope:
    """The scope as a plan holds it."""
    texts = {name: tuple(document[name]) for name in ("topics", "configs", "paths")}
    flags = {name: bool(document[name]) for name in ("whole", "recreate", "requests", "notifications", "acls")}
    return RestoreScope(
        topics=texts["topics"],
        configs=texts["configs"],
        paths=texts["paths"],
        whole=flags["whole"],
        recreate=flags["recreate"],
        requests=flags["requests"],
        notifications=flags["notifications"],
        acls=flags["acls"],
    )


def _content_digest(content: Content) -> str:
    running = hashlib.sha256()
    for znode in content.znodes:
        for part in (znode.path.encode(), znode.data or b"", (znode.acl or "").encode()):
            running.update(len(part).to_bytes(8, "big"))
            running.update(part)
    return running.hexdigest()


def _sequence_id(raw: pa.Table) -> int:
    """The version of `/brokers/seqid`, from which brokers without an id take theirs; 0 when there is none."""
    found = raw.filter(pc.equal(raw["path"], znodes.BROKER_SEQUENCE_ID))["version"].to_pylist()
    return (found or [0])[0] or 0


def _steps(document: Mapping[str, Any]) -> list[Step]:
    return [Step(**step) for step in document["steps"]]


def _digest(document: Mapping[str, Any]) -> str:
    bare = {name: value for name, value in document.items() if name != "digest"}
    canonical = json.dumps(bare, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def _text(
    document: Mapping[str, Any], steps: Sequence[Step], before: Mapping[str, bytes], after: Mapping[str, bytes]
) -> list[str]:
    """What the approver reads, by lines: the difference, znode by znode where that is few; never a secret."""
    what = "the whole tree" if document["scope"]["whole"] else "a part"
    sets = sum(step.expected_version is not None for step in steps)
    lines = [
        f"restore {what} of {document['cluster']} from {document['snapshot']['manifest']}",
        f"into {document['zookeeper']} (Kafka cluster id {document['kafka_cluster_id']})",
        f"{len(steps)} znodes: {len(steps) - sets} created, {sets} set; {sum(step.size for step in steps):,} bytes",
    ]
    if len(steps) <= _STEPS_SHOWN_MAX:
        for step in steps:
            lines.append(f"  {'create' if step.expected_version is None else 'set   '} {step.path}")
            if step.path in before:
                lines.append(f"    - {_shown(step.path, before[step.path])}")
            if step.size:
                lines.append(f"    + {_shown(step.path, after[step.path])}")
    lines += [f"left out: {count} {reason}" for reason, count in document["left_out"].items()]
    return lines + [f"note: {note}" for note in document["notes"]]


def _shown(path: str, data: bytes) -> str:
    if is_secret(path, data):
        return "(secret)"
    text = data.decode("utf-8", "backslashreplace")
    return text if len(text) <= _DATA_SHOWN_MAX else f"{text[:_DATA_SHOWN_MAX]}… ({len(data)} bytes)"


def _sum(data: bytes | None) -> dict[str, Any]:
    return {"size": len(data or b""), "sha256": hashlib.sha256(data or b"").hexdigest()}


def _differs(one: bytes | None, other: bytes | None) -> bool:
    """Null and empty data are the same to every reader of Kafka's."""
    return (one or b"") != (other or b"")


def _iso(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="seconds")


def _note(store: ObjectStore, key: str, record: Mapping[str, Any]) -> None:
    try:
        store.put_new(key, (json.dumps(record, sort_keys=True, indent=1) + "\n").encode())
    except ObjectExistsError:
        return  # a repeated application: the first record stands
