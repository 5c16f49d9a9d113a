"""What keeps a snapshot beside the policy: plans that are begun, wait for an answer, were approved, or may be rolled back.

A plan, its rollback and its proof lie in the folder of the snapshot that it was made from.
"""

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import ROOT, Manifest, cluster_prefix
from controller_core.model.errors import ObjectMissingError
from kafka_maintenance.operations.at_once import at_once
from kafka_maintenance.operations.record.receipts import EventKind, in_order, receipt_prefix

DIGEST_LETTERS: Final = 12
"""Of a plan's digest, in the name of its object."""
ROLLBACK_KEPT: Final = timedelta(days=14)
"""How long the rollback of a plan that was carried out is kept."""
_APPROVE: Final = "Approve"
_ASKED: Final = "-asked.json"
_WITHDRAWN: Final = "-withdrawn.json"
_DECIDED: Final = "-decided-"


def receipts_of(store: ObjectStore, cluster: str) -> dict[str, tuple[str, ...]]:
    """Digest of each plan that was ever begun on a cluster → keys of its receipt, in order. One listing; nothing is read."""
    root = receipt_prefix(cluster, "").removesuffix("/")
    found: dict[str, list[str]] = {}
    for key in in_order(store.list(root)):
        found.setdefault(key.removeprefix(root).partition("/")[0], []).append(key)
    return {digest: tuple(keys) for digest, keys in found.items()}


def unfinished_plans(
    store: ObjectStore, cluster: str, manifests: Iterable[Manifest], receipts: Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    """Snapshot id → plans in its folder that were begun and not carried out to the end: a second run goes on with them.

    Args:
        store: where the plans are.
        cluster: whose.
        manifests: its snapshots.
        receipts: see `receipts_of`.

    The name of a plan bears its digest. That of a rollback bears the digest of what it undoes: its receipt is read.
    """
    unsettled = {digest[:DIGEST_LETTERS]: keys for digest, keys in receipts.items() if not _is_settled(keys)}
    if not unsettled:
        return {}
    plans = {key for key in store.list(cluster_prefix(cluster)) if is_plan(key) and digest_in(key) in unsettled}
    without_plan = unsettled.keys() - {digest_in(key) for key in plans}
    plans |= {_plan_named_by(store, unsettled[digest][0]) for digest in without_plan}
    snapshots = {manifest.prefix: manifest.snapshot_id for manifest in manifests}
    found: dict[str, list[str]] = {}
    for key in sorted(plans):
        folder, _, name = key.partition("/plans/")
        if folder in snapshots:
            found.setdefault(snapshots[folder], []).append(name.removesuffix(".json"))
    return found


def _is_settled(keys: Sequence[str]) -> bool:
    """Whether a receipt ends with the plan carried out, over, or refused before anything was asked of Kafka."""
    events = [key.removesuffix(".json").rpartition("-")[2] for key in keys]
    refused = events[-1] == EventKind.REFUSED and EventKind.INTENDED not in events
    return EventKind.DONE in events or EventKind.OVER in events or refused


def is_plan(key: str) -> bool:
    """Whether the key is that of a plan, not of what lies beside it."""
    return "/plans/" in key and key.endswith(".json")


def digest_in(key: str) -> str:
    """The beginning of its digest, as the key of a plan says it; something else for what lies beside a plan."""
    return key.removesuffix(".json").rpartition("-")[2]


def _plan_named_by(store: ObjectStore, key: str) -> str:
    """Key of the plan that the first event of a receipt names; empty when it names none."""
    try:
        event = json.loads(store.get(key))
        uri = str(event.get("detail", event)["plan"])
    except (ValueError, KeyError, TypeError, AttributeError, ObjectMissingError):
        return ""
    return uri[uri.rfind(f"{ROOT}/cluster=") :]


def waiting_plans(
    store: ObjectStore, cluster: str, manifests: Iterable[Manifest], receipts: Mapping[str, Sequence[str]]
) -> dict[str, list[str]]:
    """Snapshot id → plans in its folder that a gate has shown and nobody has answered, or that were approved and not begun.

    Args:
        store: of snapshots, plans and records.
        cluster: its name.
        manifests: of the cluster's snapshots.
        receipts: plan digest → keys of its record.
    """
    wanted = _asked_or_approved(store, cluster, {digest[:DIGEST_LETTERS] for digest in receipts})
    if not wanted:
        return {}
    snapshots = {manifest.prefix: manifest.snapshot_id for manifest in manifests}
    found: dict[str, list[str]] = {}
    for key in store.list(cluster_prefix(cluster)):
        folder, _, name = key.partition("/plans/")
        if is_plan(key) and digest_in(key) in wanted and folder in snapshots:
            found.setdefault(snapshots[folder], []).append(name.removesuffix(".json"))
    return found


def _asked_or_approved(store: ObjectStore, cluster: str, begun: Collection[str]) -> set[str]:
    """How the digests of the plans begin that gates have shown, without those begun or answered by anything but Approve.

    There is a question for each gate that ever asked: each is read once, several at a time, and the answers of those in doubt.
    """
    keys = store.list(f"{ROOT}/approvals/cluster={cluster}/")
    questions = {key.removesuffix(_ASKED) for key in keys if key.endswith(_ASKED)}
    questions -= {key.removesuffix(_WITHDRAWN) for key in keys if key.endswith(_WITHDRAWN)}
    answers: dict[str, list[str]] = {}
    for key in keys:
        answers.setdefault(key.rpartition(_DECIDED)[0], []).append(key)

    def waits(question: str) -> str | None:
        digest = str(_document(store, f"{question}{_ASKED}").get("digest"))[:DIGEST_LETTERS]
        if digest in begun:
            return None
        given = (_document(store, key).get("options") or () for key in answers.get(question, ()))
        return digest if all(list(options) == [_APPROVE] for options in given) else None

    return {digest for digest in at_once(waits, sorted(questions)) if digest is not None}


def rollbacks(
    store: ObjectStore, manifest: Manifest, receipts: Mapping[str, Sequence[str]], *, now: datetime
) -> list[str]:
    """Plans in the folder of a snapshot that were carried out so lately that their rollback may be wanted.

    Args:
        store: of snapshots, plans and records.
        manifest: of the snapshot.
        receipts: plan digest → keys of its record.
        now: the time, UTC.
    """
    begun = {digest[:DIGEST_LETTERS]: keys for digest, keys in receipts.items()}
    found: list[str] = []
    for key in store.list(f"{manifest.prefix}/plans/"):
        if is_plan(key) and begun.get(digest_in(key), ("",))[-1].endswith(f"-{EventKind.DONE}.json"):
            at = _document(store, begun[digest_in(key)][-1]).get("at")
            if at is None or now - datetime.fromisoformat(str(at)) < ROLLBACK_KEPT:
                found.append(key.rpartition("/")[2].removesuffix(".json"))
    return found


def _document(store: ObjectStore, key: str) -> Mapping[str, Any]:
    """The JSON object in a record; empty when there is none that can be read, which then keeps what it is about."""
    try:
        found = json.loads(store.get(key))
    except (ValueError, ObjectMissingError):
        return {}
    return found if isinstance(found, dict) else {}
