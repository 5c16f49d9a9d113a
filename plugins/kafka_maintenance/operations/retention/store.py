"""A retention plan in the store: written once, approved by its digest, carried out, and finished by a second run.

`snapshot_retention` decides; this keeps its decision until a person has answered, and removes exactly that.
"""

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, Final

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import ROOT, require_name, snapshot_prefix
from controller_core.model.errors import InvalidPlanError, ObjectExistsError, ObjectMissingError
from controller_core.model.words import counted
from controller_core.plans.plain import code
from kafka_maintenance import __version__
from kafka_maintenance.operations.errors import BadInputError, PlanChangedError, listed
from kafka_maintenance.operations.plans.store import key_of, require_digest
from kafka_maintenance.operations.record.receipts import EventKind, ReceiptLog
from kafka_maintenance.operations.retention.plan import (
    KIND,
    Dropped,
    Kept,
    RetentionPlan,
    RetentionPolicy,
    delete_objects,
    months_of_dropped,
    plan_retention,
    retention_digest,
    retention_text,
)
from kafka_maintenance.operations.snapshots.catalog import manifest_keys, readable_snapshots
from kafka_maintenance.operations.snapshots.compact import follow_snapshots

FORMAT_VERSION: Final = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredRetention:
    """A retention plan of one cluster in the store; `count` snapshots go. `markdown` is what the approver reads."""

    uri: str
    digest: str
    cluster: str
    summary: str
    count: int
    markdown: str
    plan: RetentionPlan
    kind: str = KIND


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionReceipt:
    """What a plan's application removed; `already_applied` when an earlier run had done it all."""

    uri: str
    digest: str
    approver: str
    removed: tuple[str, ...]
    already_applied: bool


def store_retention(store: ObjectStore, plan: RetentionPlan, cluster: str) -> StoredRetention | None:
    """Writes the plan of one cluster, once; None when nothing is to be removed.

    Raises:
        InvalidPlanError: another document has the plan's name.
        ObjectStoreError: the store failed.
    """
    if not plan.dropped and not plan.abandoned:
        return None
    key = _key(cluster, plan.digest)
    content = json.dumps(_document(plan, cluster, __version__), sort_keys=True, ensure_ascii=False).encode()
    try:
        store.put_new(key, content)
    except ObjectExistsError:  # reasons and times of the same decision may read otherwise: the first text stays
        return load_retention(store, store.uri_of(key), cluster=cluster)
    return _described(store.uri_of(key), cluster, plan)


def load_retention(store: ObjectStore, uri: str, *, cluster: str) -> StoredRetention:
    """The stored plan at `uri`, its digest checked against its content.

    Raises:
        BadInputError: there is none in this store.
        InvalidPlanError: it was altered, or is of another cluster.
    """
    key = key_of(store, uri)
    try:
        plan, owner = _parsed(store.get(key))
    except ObjectMissingError:
        raise BadInputError(f"retention plan {uri!r} not read: the store has no such object; plan again") from None
    except (ValueError, KeyError, TypeError) as error:
        raise InvalidPlanError(f"retention plan {uri!r} not read: it is damaged ({error}); plan again") from error
    found = retention_digest(plan.policy, plan.kept, plan.dropped, plan.abandoned)
    if found != plan.digest:
        raise InvalidPlanError(
            f"retention plan {uri!r} not taken: its digest says {plan.digest[:12]}, its content {found[:12]}; it was "
            "altered, plan again"
        )
    if owner != cluster or any(dropped.cluster != cluster for dropped in plan.dropped):
        raise InvalidPlanError(
            f"retention plan {uri!r} not taken: expected one of cluster {cluster!r}, found {owner!r}; name another plan"
        )
    return _described(uri, cluster, plan)


def find_retention(store: ObjectStore, *, cluster: str, digest: str) -> StoredRetention:
    """The stored retention plan of that cluster and digest; errors: see `load_retention`."""
    key = _key(require_name(cluster, "cluster"), require_digest(digest))
    found = load_retention(store, store.uri_of(key), cluster=cluster)
    if found.digest != digest:
        raise InvalidPlanError(
            f"retention plan {found.uri!r} not taken: expected digest {digest[:12]}, found {found.digest[:12]}; plan again"
        )
    return found


def apply_stored_retention(
    *,
    store: ObjectStore,
    plan_uri: str,
    cluster: str,
    approved_digest: str,
    approver: str,
    now: datetime,
    run_id: str,
    comment: str | None = None,
    approval: Mapping[str, Any] | None = None,
    permit: Callable[[], object] = lambda: None,
    progress: Callable[[str], None] = lambda _: None,
) -> RetentionReceipt:
    """Removes what the approved plan names, if today's policy still would; a second run removes what is left.

    A snapshot that was pinned since, or that the policy keeps today, refuses the whole plan. New snapshots do not. What is
    deleted is found by the ids of the snapshots: the plan's own list of keys is not used.
    The receipt is written before the first deletion, with the approver's comment and what is to go, and after the last one,
    with what went.

    Args:
        store: of snapshots, plans and records.
        plan_uri: address of the stored plan.
        cluster: its name.
        approved_digest: what the approver saw, SHA-256 in hex.
        approver: who approved it.
        now: the time for the record, UTC.
        run_id: for the record.
        comment: of that person.
        approval: who asked and answered, and what was shown, for the record.
        permit: raises where the approval does not count any more; called right before the first deletion.
        progress: told of each one.

    Raises:
        PlanChangedError: another digest, or a snapshot that is to stay; also see `load_retention`.
        ClusterBusyError: another run applies the plan.
        ObjectStoreError: the store failed; a second call goes on.
    """
    plan = load_retention(store, plan_uri, cluster=cluster).plan
    if plan.digest != approved_digest:
        raise PlanChangedError(
            f"retention plan {plan_uri} not applied: approved digest {approved_digest}, stored digest "
            f"{plan.digest[:12]}; plan again, ask again"
        )
    receipt = ReceiptLog(store, cluster=cluster, digest=plan.digest, run=run_id, approver=approver, now=now)
    removed = tuple(dropped.snapshot_id for dropped in plan.dropped)
    if receipt.has(EventKind.DONE):
        return _receipt(receipt, plan, approver, removed, already_applied=True)
    store.probe()
    today = plan_retention(store, plan.policy, now=now, cluster=cluster)
    reasons = {kept.snapshot_id: kept.reasons for kept in today.kept}
    to_stay = [f"{name}: {', '.join(reasons[name])}" for name in removed if name in reasons]
    if to_stay:
        receipt.append(EventKind.REFUSED, reasons=to_stay)
        raise PlanChangedError(
            f"retention plan {plan_uri} not applied: expected {counted(len(removed), 'snapshot')} that nothing keeps, found kept "
            f"{listed(to_stay)}; nothing was removed: plan again, ask again"
        )
    keys = _keys_to_delete(store, plan, today, cluster)
    permit()
    receipt.append(
        EventKind.STARTED, kind=KIND, removed=list(removed), objects=keys, comment=comment, approval=approval
    )
    if not receipt.has(EventKind.INTENDED):
        receipt.append(EventKind.INTENDED)
    gone = delete_objects(store, keys, set(plan.abandoned), progress)
    follow_snapshots(store, cluster, months_of_dropped(plan, cluster))
    receipt.append(EventKind.DONE, removed=list(removed), objects=gone)
    return _receipt(receipt, plan, approver, removed, already_applied=False)


def _keys_to_delete(store: ObjectStore, plan: RetentionPlan, today: RetentionPlan, cluster: str) -> list[str]:
    """Every key of the snapshots that the plan names, found by their ids today, and of objects that killed runs left.

    Without its manifest a snapshot was removed in part: its run's note went first, and may be another snapshot's by now.
    """
    own = (f"{ROOT}/cluster={cluster}/", f"{ROOT}/runs/cluster={cluster}/")
    named = [key for dropped in plan.dropped for key in dropped.keys]
    foreign = [key for key in (*named, *plan.abandoned) if not key.startswith(own)]
    if foreign:
        raise InvalidPlanError(
            f"retention plan of {cluster!r} not applied: expected objects of that cluster only, found {listed(foreign)}; "
            "nothing was removed: plan again"
        )
    keys_today = {dropped.snapshot_id: dropped.keys for dropped in today.dropped}
    keys = [
        key for dropped in plan.dropped for key in keys_today.get(dropped.snapshot_id) or store.list(_folder(dropped))
    ]
    still = set(today.abandoned)
    return keys + [key for key in plan.abandoned if key in still]


def still_there(store: ObjectStore, plan: RetentionPlan, cluster: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """(removed snapshots that are still listed, kept ones that are not); both empty when the plan was carried out."""
    found = {manifest.snapshot_id for manifest in readable_snapshots(store, manifest_keys(store, cluster))[0]}
    gone = tuple(dropped.snapshot_id for dropped in plan.dropped if dropped.snapshot_id in found)
    return gone, tuple(kept.snapshot_id for kept in plan.kept if kept.snapshot_id not in found)


def _folder(dropped: Dropped) -> str:
    """Where the objects of a snapshot are, by its names alone."""
    day = datetime.fromisoformat(dropped.taken_at)
    return f"{snapshot_prefix(dropped.cluster, day, require_name(dropped.snapshot_id, 'snapshot'))}/"


def _key(cluster: str, digest: str) -> str:
    return f"{ROOT}/retention/cluster={cluster}/{digest[:12]}.json"


def _document(plan: RetentionPlan, cluster: str, code_version: str | None) -> dict[str, Any]:
    return {"format_version": FORMAT_VERSION, "cluster": cluster, "code_version": code_version, **asdict(plan)}


def _parsed(content: bytes) -> tuple[RetentionPlan, str]:
    document: Mapping[str, Any] = {"code_version": None, "ignored": [], **json.loads(content)}  # 0.1 kept neither
    if document["format_version"] != FORMAT_VERSION:
        raise ValueError(f"expected format version {FORMAT_VERSION}, found {document['format_version']!r}")
    plan = RetentionPlan(
        RetentionPolicy(**document["policy"]),
        tuple(Kept(row["snapshot_id"], row["cluster"], tuple(row["reasons"])) for row in document["kept"]),
        tuple(
            Dropped(row["snapshot_id"], row["cluster"], row["taken_at"], tuple(row["keys"]), row["applied"])
            for row in document["dropped"]
        ),
        tuple(document["abandoned"]),
        document["digest"],
        tuple(document["ignored"]),
    )
    cluster = str(document["cluster"])
    version = None if document["code_version"] is None else str(document["code_version"])
    if json.loads(json.dumps(_document(plan, cluster, version))) != document:
        raise ValueError("expected the fields of a retention plan and no others")
    return plan, cluster


def _described(uri: str, cluster: str, plan: RetentionPlan) -> StoredRetention:
    count = len(plan.dropped)
    summary = f"remove {count} of {counted(count + len(plan.kept), 'snapshot')}"
    applied = sum(dropped.applied for dropped in plan.dropped)
    if applied:
        summary += f", with {counted(applied, 'applied plan')}"
    if plan.abandoned:
        summary += f", sweep {counted(len(plan.abandoned), 'object')} that killed runs left"
    markdown = (
        f"### {summary.capitalize()} of {code(cluster)}\n\nRemoved snapshots do not come back. No cluster is written to.\n\n"
        f"```\n{retention_text(plan)}\n```"
    )
    return StoredRetention(
        uri=uri, digest=plan.digest, cluster=cluster, summary=summary, count=count, markdown=markdown, plan=plan
    )


def _receipt(
    receipt: ReceiptLog, plan: RetentionPlan, approver: str, removed: tuple[str, ...], *, already_applied: bool
) -> RetentionReceipt:
    return RetentionReceipt(
        uri=receipt.uri, digest=plan.digest, approver=approver, removed=removed, already_applied=already_applied
    )
