"""The restore plan as a document: its steps, its text for the approver, its digest."""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
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
from controller_core.model.words import counted
from controller_core.plans.plain import BACKTICK, code, plain
from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.restore.content import Content, RestoreScope
from kafka_maintenance.operations.restore.validation import check_restore

PLAN_SCHEMA_VERSION: Final = 4
KIND: Final = "restore"
_DATA_SHOWN_MAX: Final = 160
_STEPS_SHOWN_MAX: Final = 100
_DONE: Final = {"create": "created", "set": "set", "delete": "deleted", "ACL": "ACLs"}
_IN_FULL: Final = frozenset({"delete", "ACL"})
"""Kinds of steps that are shown whatever their number."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RestoreStep:
    """One znode to create (`expected_mzxid` None: there must be none) or to set, if that transaction wrote it last.

    A version would not do: of a znode that was deleted and made again it is what it was. `sha256` is that of the data to
    write, which is not in the plan; `notice` says that brokers ran at planning and are to be told: applying looks again.
    With `acl` it is the ACL of an existing znode that is set, if its aversion is still `expected_aversion`. With `delete` the
    znode is removed. `before` and `after` are what the approver reads of the znode, now and then, with secrets replaced and long
    data cut; applying refuses a step whose znode or whose data from the snapshot reads otherwise.
    """

    path: str
    expected_mzxid: int | None
    size: int
    sha256: str
    notice: bool
    acl: str | None = None
    expected_aversion: int | None = None
    delete: bool = False
    before: str | None = None
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Part:
    """What a plan writes, the data and the ACLs that stand there now, and remarks on what is not written."""

    steps: list[RestoreStep]
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
        return plan_summary(self.document)

    @property
    def markdown(self) -> str:
        """What a gate shows: what the plan's steps say, in a block that nothing in it can end."""
        listing = f"{self.uri.removesuffix('.json')}.txt"
        text = self.text.replace("`", BACKTICK)
        return f"### {self.summary.capitalize()}\n\nEvery difference: {code(listing)}.\n\n```\n{text}\n```"


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
    check_restore(document, plan_uri)
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
        text="\n".join([*plan_text(document), f"digest {document['digest']}"]),
        document=document,
    )


def plan_document(
    manifest: Manifest,
    target: ClusterAddress,
    scope: RestoreScope,
    steps: Sequence[RestoreStep],
    left_out: Mapping[str, str],
    notes: Sequence[str],
) -> dict[str, Any]:
    """The document without its digest; text and summary are made of it, whenever somebody reads it.

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
        "kafka_cluster_id": manifest.kafka_cluster_id,
        "zookeeper": target.zookeeper,
        "snapshot": {
            "manifest": manifest.uri,
            "digest": manifest.digest,
            "id": manifest.snapshot_id,
            "date": str(manifest.date),
        },
        "scope": asdict(scope),
        "step_count": len(steps),
        "steps": [asdict(step) for step in steps],
        "left_out_count": len(left_out),
        "left_out": reasons,
        "notes": list(notes),
    }


def plan_summary(document: Mapping[str, Any]) -> str:
    """One line: how much of what kind, and from when."""
    counts = _counts(document)
    made = ", ".join(f"{counts[name]} {word}" for name, word in _DONE.items())
    return plain(f"{_what(document)}, {made}, from {document['snapshot']['id']} of {document['snapshot']['date']}")


def _what(document: Mapping[str, Any]) -> str:
    if document["scope"]["corrections"]:
        return "correct znodes"
    return "restore the whole tree" if document["scope"]["whole"] else "restore a part"


def _counts(document: Mapping[str, Any]) -> dict[str, int]:
    """How many steps of each kind; a plan of a whole restore into an empty tree does not list what is created below the root."""
    kinds = [kind_of(step) for step in plan_steps(document)]
    kinds += ["create"] * (document["step_count"] - len(kinds))
    return {name: kinds.count(name) for name in _DONE}


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


def plan_steps(document: Mapping[str, Any]) -> list[RestoreStep]:
    """The steps of a plan."""
    return [RestoreStep(**step) for step in document["steps"]]


def plan_digest(document: Mapping[str, Any]) -> str:
    """SHA-256 of the canonical document without its digest, and without the version of the program that made it."""
    bare = {name: value for name, value in document.items() if name not in {"digest", "code_version"}}
    canonical = json.dumps(bare, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()


def plan_text(document: Mapping[str, Any]) -> list[str]:
    """What the approver reads, by lines: the difference, znode by znode where that is few; never a secret.

    What is deleted, and what gets another ACL, is always listed in full.
    """
    steps, counts = plan_steps(document), _counts(document)
    written = f"{sum(step.size for step in steps):,} bytes; " if len(steps) == document["step_count"] else ""
    lines = [
        f"{_what(document)} of {document['cluster']} from {document['snapshot']['manifest']}",
        f"into {document['zookeeper']} (Kafka cluster id {document['kafka_cluster_id']})",
        f"{counted(sum(counts.values()) - counts['ACL'], 'znode')}: {counts['create']} created, {counts['set']} set, {counts['delete']} deleted",
        *([f"{written}{counts['ACL']} ACLs set"] if steps else []),
    ]
    shown = (
        steps
        if len(steps) <= _STEPS_SHOWN_MAX
        else [step for step in steps if kind_of(step) in _IN_FULL or step.path == "/"]
    )
    lines += differences(shown)
    if len(shown) < len(steps):
        digest = hashlib.sha256(listing_of(steps)).hexdigest()
        lines.append(
            f"not shown: {counts['create']} created and {counts['set']} set; every difference stands in the file of this plan's name that "
            f"ends in .txt, beside the plan, with SHA-256 {digest}"
        )
    lines += [f"left out: {count} {reason}" for reason, count in document["left_out"].items()]
    return [plain(line) for line in lines + [f"note: {note}" for note in document["notes"]]]


def kind_of(step: RestoreStep) -> str:
    """What a step does: create, set, delete or ACL."""
    if step.delete:
        return "delete"
    if step.acl is not None:
        return "ACL"
    return "create" if step.expected_mzxid is None else "set"


def listing_of(steps: Sequence[RestoreStep]) -> bytes:
    """The file with every difference that lies beside a plan."""
    return "".join(f"{plain(line)}\n" for line in differences(steps)).encode()


def differences(steps: Sequence[RestoreStep]) -> list[str]:
    """Every step with what stands there now and what will, by lines; never a secret."""
    lines: list[str] = []
    for step in steps:
        lines.append(f"  {kind_of(step):6} {step.path}")
        if step.before is not None:
            lines.append(f"    - {step.before}")
        if step.after is not None:
            lines.append(f"    + {step.after}")
    return lines


def described(part: Part, after: Mapping[str, bytes]) -> list[RestoreStep]:
    """The steps of a part with what the approver reads of each; `after` is path → data afterwards."""
    return [
        replace(step, before=part.before_acls.get(step.path), after=step.acl)
        if step.acl is not None
        else replace(step, before=shown_data(step.path, part.before.get(step.path)), after=_after(step, after))
        for step in part.steps
    ]


def _after(step: RestoreStep, after: Mapping[str, bytes]) -> str | None:
    return shown_data(step.path, after[step.path]) if step.size else None


def shown_data(path: str, data: bytes | None) -> str | None:
    """Data of a znode as the approver reads it; None where there is no znode."""
    if data is None:
        return None
    if is_secret(path, data):
        return "(secret)"
    text = data.decode("utf-8", "backslashreplace")
    return plain(text if len(text) <= _DATA_SHOWN_MAX else f"{text[:_DATA_SHOWN_MAX]}… ({len(data)} bytes)")


def content_sum(data: bytes | None) -> dict[str, Any]:
    """Size and SHA-256 of data, as a step holds them."""
    return {"size": len(data or b""), "sha256": hashlib.sha256(data or b"").hexdigest()}


def differs(one: bytes | None, other: bytes | None) -> bool:
    """Null and empty data are the same to every reader of Kafka's."""
    return (one or b"") != (other or b"")


def iso_time(moment: datetime) -> str:
    """UTC, to the second."""
    return moment.astimezone(UTC).isoformat(timespec="seconds")
