"""The restore plan as a document: its steps, its text for the approver, its digest."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from controller_core import znodes
from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import Manifest, cluster_prefix
from controller_core.adapters.snapshot.secrets import is_secret
from controller_core.adapters.zookeeper.address import ClusterAddress
from controller_core.model.errors import InvalidPlanError
from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.restore.content import Content, RestoreScope

PLAN_SCHEMA_VERSION: Final = 3
KIND: Final = "restore"
_DATA_SHOWN_MAX: Final = 160
_STEPS_SHOWN_MAX: Final = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One znode to create (`expected_mzxid` None: there must be none) or to set, if that transaction wrote it last.

    A version would not do: of a znode that was deleted and made again it is what it was. `sha256` is that of the data to
    write, which is not in the plan; `notice` says that brokers ran at planning and are to be told: applying looks again.
    With `acl` it is the ACL of an existing znode that is set, if its aversion is still `expected_aversion`. With `delete` the
    znode is removed.
    """

    path: str
    expected_mzxid: int | None
    size: int
    sha256: str
    notice: bool
    acl: str | None = None
    expected_aversion: int | None = None
    delete: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """What a plan writes, the data and the ACLs that stand there now, and remarks on what is not written."""

    steps: list[Step]
    before: dict[str, bytes] = field(default_factory=dict)
    before_acls: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRestore:
    """A restore plan in the store; `text` is what the approver reads."""

    uri: str
    digest: str
    step_count: int
    left_out_count: int
    text: str
    document: Mapping[str, Any]

    @property
    def summary(self) -> str:
        """One line: how much of what kind."""
        return str(self.document["summary"])

    @property
    def markdown(self) -> str:
        """What a gate shows: the differences, or the file that lists them all."""
        listing = f"{self.uri.removesuffix('.json')}.txt"
        return f"### {self.summary.capitalize()}\n\nEvery difference: `{listing}`.\n\n```\n{self.text}\n```"


def load_restore(store: ObjectStore, plan_uri: str) -> StoredRestore:
    """A stored plan, its digest verified; `InvalidPlanError` when it was altered or is none."""
    content = store.get(plan_uri.removeprefix(f"{store.uri}/"))
    try:
        document = json.loads(content)
        claimed = document["digest"]
        found = plan_digest(document)
        kind, version = document["kind"], document["schema_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidPlanError(f"plan {plan_uri!r} not read: it is no restore plan ({error}); plan again") from error
    if found != claimed or kind != KIND:
        raise InvalidPlanError(
            f"plan {plan_uri!r} not read: expected a restore plan with digest {claimed[:12]}, found {kind} with {found[:12]}; "
            "it was altered, or is of another kind: plan again"
        )
    if version != PLAN_SCHEMA_VERSION:
        raise InvalidPlanError(
            f"plan {plan_uri!r} not read: expected a restore plan of schema version {PLAN_SCHEMA_VERSION}, found {version} "
            f"(made by kafka-maintenance {document.get('code_version', '0.1')}); plan again"
        )
    return stored_restore(plan_uri, document)


def find_restore(store: ObjectStore, *, cluster: str, digest: str) -> StoredRestore:
    """The stored restore plan of that cluster and digest; it lies beside its snapshot.

    Raises:
        BadInputError: there is none.
        InvalidPlanError: what lies there is none, or was altered.
    """
    name = f"/plans/{KIND}-{digest[:12]}.json"
    for key in store.list(cluster_prefix(cluster)):
        if key.endswith(name):
            found = load_restore(store, store.uri_of(key))
            if found.digest == digest and found.document["cluster"] == cluster:
                return found
    raise BadInputError(
        f"restore plan {digest[:12]} of {cluster!r} not found in {store.uri}: expected one beside a snapshot; plan again"
    )


def stored_restore(uri: str, document: Mapping[str, Any]) -> StoredRestore:
    """The plan in a document that is known to be one."""
    return StoredRestore(
        uri=uri,
        digest=document["digest"],
        step_count=document["step_count"],
        left_out_count=document["left_out_count"],
        text="\n".join([*document["text"], f"digest {document['digest']}"]),
        document=document,
    )


def plan_document(
    manifest: Manifest,
    target: ClusterAddress,
    scope: RestoreScope,
    steps: Sequence[Step],
    left_out: Mapping[str, str],
    notes: Sequence[str],
) -> dict[str, Any]:
    """The document without text and digest.

    Args:
        manifest: of the snapshot.
        target: where the restore writes.
        scope: what of the snapshot is restored.
        steps: of the restore.
        left_out: path → why it stays out.
        notes: for the approver.
    """
    reasons: dict[str, int] = {}
    for reason in left_out.values():
        short = "lies below a znode that is left out" if reason.startswith("lies below") else reason
        reasons[short] = reasons.get(short, 0) + 1
    return {
        "schema_version": PLAN_SCHEMA_VERSION,
        "kind": KIND,
        "cluster": manifest.cluster,
        "summary": _summary(steps, scope, manifest),
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


def _summary(steps: Sequence[Step], scope: RestoreScope, manifest: Manifest) -> str:
    counts = [sum(kind_of(step) == name for step in steps) for name in ("create", "set", "delete", "ACL")]
    created, changed, deleted, acls = counts
    return (
        f"{_what(scope)}, {created} created, {changed} set, {deleted} deleted, {acls} ACLs, from {manifest.snapshot_id} of "
        f"{manifest.date}"
    )


def _what(scope: RestoreScope) -> str:
    if scope.corrections:
        return "correct znodes"
    return "restore the whole tree" if scope.whole else "restore a part"


def scope_of(document: Mapping[str, Any]) -> RestoreScope:
    """The scope as a plan holds it."""
    found: dict[str, Any] = {
        name: tuple(tuple(each) if isinstance(each, list) else each for each in value)
        if isinstance(value := document[name], list)
        else value
        for name in RestoreScope.__dataclass_fields__
        if name in document  # a plan that was stored before the field came
    }
    return RestoreScope(**found)


def content_digest(content: Content) -> str:
    """SHA-256 of everything that a whole restore writes: paths, data and ACLs."""
    running = hashlib.sha256()
    for znode in content.znodes:
        for part in (znode.path.encode(), znode.data or b"", (znode.acl or "").encode()):
            running.update(len(part).to_bytes(8, "big"))
            running.update(part)
    return running.hexdigest()


def sequence_id(raw: pa.Table) -> int:
    """The version of `/brokers/seqid`, from which brokers without an id take theirs; 0 when there is none."""
    found = raw.filter(pc.equal(raw["path"], znodes.BROKER_SEQUENCE_ID))["version"].to_pylist()
    return (found or [0])[0] or 0


def plan_steps(document: Mapping[str, Any]) -> list[Step]:
    """The steps of a plan."""
    return [Step(**step) for step in document["steps"]]


def plan_digest(document: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical document without its digest, and without the version of the program that made it."""
    bare = {name: value for name, value in document.items() if name not in {"digest", "code_version"}}
    canonical = json.dumps(bare, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def plan_text(
    document: Mapping[str, Any],
    steps: Sequence[Step],
    before: Mapping[str, bytes],
    after: Mapping[str, bytes],
    before_acls: Mapping[str, str],
) -> list[str]:
    """What the approver reads, by lines: the difference, znode by znode where that is few; never a secret.

    Args:
        document: of the plan.
        steps: of the restore.
        before: path → data now.
        after: path → data afterwards.
        before_acls: path → ACL as JSON text, now.
    """
    what = _what(scope_of(document["scope"]))
    counts = {name: sum(kind_of(step) == name for step in steps) for name in ("create", "set", "delete", "ACL")}
    lines = [
        f"{what} of {document['cluster']} from {document['snapshot']['manifest']}",
        f"into {document['zookeeper']} (Kafka cluster id {document['kafka_cluster_id']})",
        f"{len(steps) - counts['ACL']} znodes: {counts['create']} created, {counts['set']} set, {counts['delete']} deleted",
        f"{sum(step.size for step in steps):,} bytes; {counts['ACL']} ACLs set",
    ]
    shown = differences(steps, before, after, before_acls)
    if len(steps) <= _STEPS_SHOWN_MAX:
        lines += shown
    elif document["steps"]:
        lines.append("every difference stands in the file of this plan's name that ends in .txt, beside the plan")
    lines += [f"left out: {count} {reason}" for reason, count in document["left_out"].items()]
    return lines + [f"note: {note}" for note in document["notes"]]


def kind_of(step: Step) -> str:
    """What a step does: create, set, delete or ACL."""
    if step.delete:
        return "delete"
    if step.acl is not None:
        return "ACL"
    return "create" if step.expected_mzxid is None else "set"


def differences(
    steps: Sequence[Step], before: Mapping[str, bytes], after: Mapping[str, bytes], before_acls: Mapping[str, str]
) -> list[str]:
    """Every step with what stands there now and what will, by lines; never a secret.

    Args:
        steps: of the restore.
        before: path → data now.
        after: path → data afterwards.
        before_acls: path → ACL as JSON text, now.
    """
    lines: list[str] = []
    for step in steps:
        lines.append(f"  {kind_of(step):6} {step.path}")
        if step.acl is not None:
            lines += [f"    - {before_acls.get(step.path)}", f"    + {step.acl}"]
            continue
        if step.path in before:
            lines.append(f"    - {_shown(step.path, before[step.path])}")
        if step.size:
            lines.append(f"    + {_shown(step.path, after[step.path])}")
    return lines


def _shown(path: str, data: bytes) -> str:
    if is_secret(path, data):
        return "(secret)"
    text = data.decode("utf-8", "backslashreplace")
    return text if len(text) <= _DATA_SHOWN_MAX else f"{text[:_DATA_SHOWN_MAX]}… ({len(data)} bytes)"


def content_sum(data: bytes | None) -> dict[str, Any]:
    """Size and SHA-256 of data, as a step holds them."""
    return {"size": len(data or b""), "sha256": hashlib.sha256(data or b"").hexdigest()}


def differs(one: bytes | None, other: bytes | None) -> bool:
    """Null and empty data are the same to every reader of Kafka's."""
    return (one or b"") != (other or b"")


def iso_time(moment: datetime) -> str:
    """UTC, to the second."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")
