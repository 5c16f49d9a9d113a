"""Which snapshots are kept and why, and the removal of the others.

Nothing is deleted without a plan whose digest was approved; what a plan of today, or one that was begun and is not finished,
may still need is never deleted: its rollback and its proof lie in the folder of its snapshot.
Deleted is in the order that leaves nothing half-visible: the note of the run, the manifest, then the objects.
"""

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import MANIFEST, ROOT, Manifest, cluster_prefix, pin_key, run_key
from controller_core.model.errors import ObjectExistsError, ObjectMissingError
from kafka_maintenance.operations.apply.receipts import EventKind, receipt_prefix
from kafka_maintenance.operations.errors import PlanChangedError
from kafka_maintenance.operations.snapshots.catalog import list_snapshots, opened

RECENT: Final = timedelta(days=2)
ABANDONED_AFTER_DAYS: Final = 2
_DIGEST_LETTERS: Final = 12
"""Of a plan's digest, in the name of its object."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RetentionPolicy:
    """How many snapshots of each cluster are kept: the newest `last`, and the newest of each of so many periods (UTC)."""

    last: int = 7
    daily: int = 14
    weekly: int = 8
    monthly: int = 12

    def __post_init__(self) -> None:
        if min(self.last, self.daily, self.weekly, self.monthly) < 0 or self.last < 1:
            raise ValueError(
                f"retention refused: expected counts of 0 or more and `last` of 1 or more, found {asdict(self)}; correct them"
            )


@dataclass(frozen=True, slots=True)
class Kept:
    """A snapshot that stays, and each reason for it."""

    snapshot_id: str
    cluster: str
    reasons: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Dropped:
    """A snapshot that goes: all keys to delete, in order. `applied` of them are plans that have a receipt."""

    snapshot_id: str
    cluster: str
    taken_at: str
    keys: tuple[str, ...]
    applied: int = 0


@dataclass(frozen=True, slots=True)
class RetentionPlan:
    """What is kept, what is dropped, what killed runs left behind; named by its digest."""

    policy: RetentionPolicy
    kept: tuple[Kept, ...]
    dropped: tuple[Dropped, ...]
    abandoned: tuple[str, ...]
    digest: str


def plan_retention(
    store: ObjectStore | str, policy: RetentionPolicy, *, now: datetime, cluster: str | None = None
) -> RetentionPlan:
    """Decides; deletes nothing. A cluster's snapshots are judged by themselves, inconsistent ones last of a period."""
    store = opened(store)
    manifests = list_snapshots(store, cluster)
    kept: list[Kept] = []
    dropped: list[Dropped] = []
    for name in sorted({manifest.cluster for manifest in manifests}):
        own = [manifest for manifest in manifests if manifest.cluster == name]
        receipts = receipts_of(store, name)
        reasons = _reasons(own, policy, now, pins(store, name))
        for snapshot_id, plans in unfinished_plans(store, name, own, receipts).items():
            reasons.setdefault(snapshot_id, []).extend(f"plan {plan} is not finished" for plan in plans)
        for manifest in own:
            found = tuple(reasons.get(manifest.snapshot_id, ()))
            if found:
                kept.append(Kept(manifest.snapshot_id, name, found))
            else:
                dropped.append(_dropped(store, manifest, receipts))
    abandoned = tuple(_abandoned(store, manifests, now, cluster))
    return RetentionPlan(
        policy, tuple(kept), tuple(dropped), abandoned, retention_digest(policy, kept, dropped, abandoned)
    )


def apply_retention(
    store: ObjectStore | str,
    policy: RetentionPolicy,
    approved_digest: str,
    *,
    now: datetime,
    cluster: str | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> RetentionPlan:
    """Deletes what the approved plan drops. What a killed deletion left is invisible, and swept by a later plan.

    Errors: `PlanChangedError` when the plan made now is not the approved one: new snapshots, a pin, or a half-done deletion.
    """
    store = opened(store)
    plan = plan_retention(store, policy, now=now, cluster=cluster)
    if plan.digest != approved_digest:
        raise PlanChangedError(
            f"retention of {store.uri} not applied: approved digest {approved_digest[:12]}, today's plan is {plan.digest[:12]}; "
            "look at the new plan, approve that"
        )
    for dropped in plan.dropped:
        for key in dropped.keys:
            store.delete(key)
            progress(key)
    for key in plan.abandoned:
        store.delete(key)
        progress(key)
    return plan


def retention_text(plan: RetentionPlan) -> str:
    """For people: each snapshot with why it is kept, and what goes."""
    lines = [f"keep {len(plan.kept)}"]
    lines += [f"  {kept.cluster} {kept.snapshot_id}: {', '.join(kept.reasons)}" for kept in plan.kept]
    lines.append(f"remove {len(plan.dropped)}")
    lines += [
        f"  {gone.cluster} {gone.snapshot_id} of {gone.taken_at}: {len(gone.keys)} objects"
        + (f", {gone.applied} of them plans that were applied" if gone.applied else "")
        for gone in plan.dropped
    ]
    if plan.abandoned:
        lines.append(f"sweep {len(plan.abandoned)} objects that killed runs left")
    lines.append(f"digest {plan.digest}")
    return "\n".join(lines)


def retention_json(plan: RetentionPlan) -> dict[str, Any]:
    """For machines."""
    return asdict(plan)


# ------------------------------------------------------------------------------------------------- pins


def pin(store: ObjectStore | str, manifest: Manifest, *, reason: str, now: datetime) -> None:
    """Keeps a snapshot until it is unpinned; a pin that is there stays as it is."""
    record = {"reason": reason, "at": now.astimezone(UTC).isoformat(timespec="seconds")}
    try:
        opened(store).put_new(
            pin_key(manifest.cluster, manifest.snapshot_id), json.dumps(record, sort_keys=True).encode()
        )
    except ObjectExistsError:
        return


def unpin(store: ObjectStore | str, manifest: Manifest) -> None:
    """Lets retention judge the snapshot again."""
    opened(store).delete(pin_key(manifest.cluster, manifest.snapshot_id))


def pins(store: ObjectStore | str, cluster: str) -> dict[str, str]:
    """Snapshot id → why it is pinned."""
    store = opened(store)
    found: dict[str, str] = {}
    for key in store.list(pin_key(cluster, "").removesuffix(".json")):
        try:
            reason = json.loads(store.get(key))["reason"]
        except (ValueError, KeyError, TypeError, ObjectMissingError):
            reason = "unreadable pin"
        found[key.rpartition("/")[2].removesuffix(".json")] = str(reason)
    return found


# ------------------------------------------------------------------------------------------------- plans


def receipts_of(store: ObjectStore, cluster: str) -> dict[str, tuple[str, ...]]:
    """Digest of each plan that was ever begun on a cluster → keys of its receipt, in order. One listing; nothing is read."""
    root = receipt_prefix(cluster, "").removesuffix("/")
    found: dict[str, list[str]] = {}
    for key in store.list(root):
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
        receipts: as of `receipts_of`.

    The name of a plan bears its digest. That of a rollback bears the digest of what it undoes: its receipt is read.
    """
    unsettled = {digest[:_DIGEST_LETTERS]: keys for digest, keys in receipts.items() if not _is_settled(keys)}
    if not unsettled:
        return {}
    plans = {key for key in store.list(cluster_prefix(cluster)) if _is_plan(key) and _digest_in(key) in unsettled}
    without_plan = unsettled.keys() - {_digest_in(key) for key in plans}
    plans |= {_plan_named_by(store, unsettled[digest][0]) for digest in without_plan}
    snapshots = {manifest.prefix: manifest.snapshot_id for manifest in manifests}
    found: dict[str, list[str]] = {}
    for key in sorted(plans):
        folder, _, name = key.partition("/plans/")
        if folder in snapshots:
            found.setdefault(snapshots[folder], []).append(name.removesuffix(".json"))
    return found


def _is_settled(keys: Sequence[str]) -> bool:
    """Whether a receipt ends with the plan carried out, or refused before anything was asked of Kafka."""
    events = [key.removesuffix(".json").rpartition("-")[2] for key in keys]
    return EventKind.DONE in events or (events[-1] == EventKind.REFUSED and EventKind.INTENDED not in events)


def _is_plan(key: str) -> bool:
    return "/plans/" in key and key.endswith(".json")


def _digest_in(key: str) -> str:
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


# ------------------------------------------------------------------------------------------------- decisions


def _reasons(
    manifests: Sequence[Manifest], policy: RetentionPolicy, now: datetime, pinned: Mapping[str, str]
) -> dict[str, list[str]]:
    """Snapshot id → why it is kept; `manifests` are one cluster's, oldest first."""
    reasons: dict[str, list[str]] = {}
    newest_first = list(reversed(manifests))
    for manifest in newest_first:
        if manifest.snapshot_id in pinned:
            reasons.setdefault(manifest.snapshot_id, []).append(f"pinned: {pinned[manifest.snapshot_id]}")
        if now - manifest.taken_at < RECENT:
            reasons.setdefault(manifest.snapshot_id, []).append("recent: its plans may still be at work")
    for number, manifest in enumerate(newest_first[: policy.last], start=1):
        reasons.setdefault(manifest.snapshot_id, []).append(f"last {number} of {policy.last}")
    last_whole = next((manifest for manifest in newest_first if manifest.consistent), None)
    if last_whole is not None:
        reasons.setdefault(last_whole.snapshot_id, []).append("newest consistent one")
    for label, count, period in (
        ("daily", policy.daily, "%Y-%m-%d"),
        ("weekly", policy.weekly, "%G-W%V"),
        ("monthly", policy.monthly, "%Y-%m"),
    ):
        chosen: dict[str, Manifest] = {}
        for manifest in newest_first:
            name = manifest.taken_at.astimezone(UTC).strftime(period)
            best = chosen.get(name)
            if best is None and len(chosen) >= count:
                break
            if best is None or (manifest.consistent and not best.consistent):
                chosen[name] = manifest
        for name, manifest in chosen.items():
            reasons.setdefault(manifest.snapshot_id, []).append(f"{label} {name}")
    return reasons


def _dropped(store: ObjectStore, manifest: Manifest, receipts: Iterable[str]) -> Dropped:
    key = manifest.key
    rest = [other for other in store.list(f"{manifest.prefix}/") if other != key]
    keys = (run_key(manifest.cluster, manifest.run_id), key, *rest)
    begun = {digest[:_DIGEST_LETTERS] for digest in receipts}
    applied = sum(_is_plan(other) and _digest_in(other) in begun for other in rest)
    taken_at = manifest.taken_at.isoformat(timespec="seconds")
    return Dropped(manifest.snapshot_id, manifest.cluster, taken_at, keys, applied)


def _abandoned(store: ObjectStore, manifests: Iterable[Manifest], now: datetime, cluster: str | None) -> Iterable[str]:
    """Objects in snapshot folders without a manifest, of dates so old that no run can still be writing them."""
    published = {manifest.prefix for manifest in manifests}
    youngest = (now.astimezone(UTC) - timedelta(days=ABANDONED_AFTER_DAYS)).date().isoformat()
    prefix = f"{ROOT}/cluster=" if cluster is None else f"{ROOT}/cluster={cluster}/"
    for key in store.list(prefix):
        steps = key.split("/")
        if len(steps) > 4 and steps[3].startswith("snap=") and not key.endswith(f"/{MANIFEST}"):  # noqa: PLR2004 -- v1/c/d/s/object
            folder = "/".join(steps[:4])
            if folder not in published and steps[2].removeprefix("date=") < youngest:
                yield key


def retention_digest(
    policy: RetentionPolicy, kept: Sequence[Kept], dropped: Sequence[Dropped], abandoned: Sequence[str]
) -> str:
    """SHA-256 of a decision: the policy, what is kept, and every key that is deleted. Reasons and counts are for people."""
    document = [
        asdict(policy),
        [each.snapshot_id for each in kept],
        [{name: getattr(each, name) for name in ("snapshot_id", "cluster", "taken_at", "keys")} for each in dropped],
        list(abandoned),
    ]
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
