"""Which snapshots are kept and why, and the removal of the others.

Nothing is deleted without a plan whose digest was approved; what a plan of today, or one that was begun and is not finished,
may still need is never deleted: its rollback and its proof lie in the folder of its snapshot.
Deleted is in the order that leaves nothing half-visible: the plans, the note of the run, the manifest, then the objects.
"""

import hashlib
import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import (
    MANIFEST,
    RAW,
    ROOT,
    Manifest,
    dated_in_the_future,
    parse_manifest,
    run_key,
)
from controller_core.model.errors import MisplacedSnapshotError
from controller_core.model.words import counted
from controller_core.plans.plain import plain
from kafka_maintenance.operations.errors import PlanChangedError
from kafka_maintenance.operations.record.receipts import EventKind, ReceiptLog
from kafka_maintenance.operations.retention.needs import (
    DIGEST_LETTERS,
    digest_in,
    is_plan,
    receipts_of,
    rollbacks,
    unfinished_plans,
    waiting_plans,
)
from kafka_maintenance.operations.snapshots.catalog import (
    UNUSABLE,
    manifest_keys,
    read_raw,
    readable_snapshots,
)
from kafka_maintenance.operations.snapshots.compact import follow_snapshots
from kafka_maintenance.operations.snapshots.pins import pins

KIND: Final = "retain_snapshots"
RECENT: Final = timedelta(days=2)
ABANDONED_AFTER_DAYS: Final = 2


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
    """What is kept, what is dropped, what killed runs left behind; named by its digest.

    `ignored` are copies of snapshots that lie elsewhere than they say: they count for nothing, and are not touched.
    """

    policy: RetentionPolicy
    kept: tuple[Kept, ...]
    dropped: tuple[Dropped, ...]
    abandoned: tuple[str, ...]
    digest: str
    ignored: tuple[str, ...] = ()


def plan_retention(
    store: ObjectStore, policy: RetentionPolicy, *, now: datetime, cluster: str | None = None
) -> RetentionPlan:
    """Decides; deletes nothing. A cluster's snapshots are judged by themselves, inconsistent ones last of a period.

    Args:
        store: of snapshots, plans and records.
        policy: of retention.
        now: the time, UTC.
        cluster: only this one; None: all.

    Raises:
        ObjectDamagedError, ObjectMissingError, UnknownFormatError: a manifest at its own place cannot be read; `snapshots check` names all, `repair` mends some.
    """
    manifests, unusable = readable_snapshots(store, manifest_keys(store, cluster))
    for error in unusable:
        if not isinstance(error, MisplacedSnapshotError):
            raise error
    kept: list[Kept] = []
    dropped: list[Dropped] = []
    for name in sorted({manifest.cluster for manifest in manifests}):
        own = [manifest for manifest in manifests if manifest.cluster == name]
        receipts = receipts_of(store, name)
        reasons = _reasons(store, own, policy, now, pins(store, name))
        for snapshot_id, plans in unfinished_plans(store, name, own, receipts).items():
            reasons.setdefault(snapshot_id, []).extend(f"plan {plan} is not finished" for plan in plans)
        for snapshot_id, plans in waiting_plans(store, name, own, receipts).items():
            reasons.setdefault(snapshot_id, []).extend(f"plan {plan} waits at a gate" for plan in plans)
        for manifest in own:
            found = tuple(reasons.get(manifest.snapshot_id, ()))
            if not found:
                plans = rollbacks(store, manifest, receipts, now=now)
                found = tuple(f"plan {plan} may be rolled back" for plan in plans)
            if found:
                kept.append(Kept(manifest.snapshot_id, name, found))
            else:
                dropped.append(_dropped(store, manifest, receipts))
    abandoned = tuple(_abandoned(store, now, cluster))
    return RetentionPlan(
        policy,
        tuple(kept),
        tuple(dropped),
        abandoned,
        retention_digest(policy, kept, dropped, abandoned),
        tuple(str(error) for error in unusable),
    )


def apply_retention(
    store: ObjectStore,
    policy: RetentionPolicy,
    approved_digest: str,
    *,
    now: datetime,
    approver: str,
    cluster: str | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> RetentionPlan:
    """Deletes what the approved plan drops. What a killed deletion left is invisible, and swept by a later plan.

    A receipt per cluster names who approved and every object: before the first is deleted what is to go, after the last what
    went.

    Args:
        store: of snapshots, plans and records.
        policy: of retention.
        approved_digest: what the approver saw, SHA-256 in hex.
        now: the time, UTC.
        approver: who approved it.
        cluster: only this one; None: all.
        progress: told of each one.

    Raises:
        PlanChangedError: the plan made now is not the approved one: new snapshots, a pin, or a half-done deletion.
    """
    plan = plan_retention(store, policy, now=now, cluster=cluster)
    if plan.digest != approved_digest:
        raise PlanChangedError(
            f"retention of {store.uri} not applied: approved digest {approved_digest}, today's plan is {plan.digest}; "
            "look at the new plan, approve that"
        )
    removals = _removals(plan)
    logs = {
        name: ReceiptLog(store, cluster=name, digest=plan.digest, run="command", approver=approver, now=now)
        for name in removals
    }
    for name, keys in removals.items():
        logs[name].append(EventKind.STARTED, kind=KIND, objects=keys)
    for name, keys in removals.items():
        gone = delete_objects(store, keys, set(plan.abandoned), progress)
        follow_snapshots(store, name, months_of_dropped(plan, name))
        logs[name].append(EventKind.DONE, objects=gone)
    return plan


def delete_objects(
    store: ObjectStore, keys: Iterable[str], abandoned: Collection[str], progress: Callable[[str], None]
) -> list[str]:
    """Deletes these objects in their order; the keys of those that went.

    A copy that was killed goes on with the objects that it left, however old their date: an abandoned one whose folder has a
    manifest by now stays.

    Args:
        store: of snapshots, plans and records.
        keys: what is to go.
        abandoned: which of them killed runs left.
        progress: told of each one that went.

    Raises:
        ObjectStoreError: the store failed.
    """
    gone: list[str] = []
    for key in keys:
        if key in abandoned and store.list(f"{_folder_of(key)}/{MANIFEST}"):
            continue
        store.delete(key)
        progress(key)
        gone.append(key)
    return gone


def months_of_dropped(plan: RetentionPlan, cluster: str) -> set[str]:
    """The months, YYYY-MM, of which snapshots of the cluster go: their compact history changes with them."""
    times = [datetime.fromisoformat(dropped.taken_at) for dropped in plan.dropped if dropped.cluster == cluster]
    return {f"{taken_at.astimezone(UTC):%Y-%m}" for taken_at in times}


def _removals(plan: RetentionPlan) -> dict[str, list[str]]:
    """Cluster → all keys to delete, in order."""
    found: dict[str, list[str]] = {}
    for dropped in plan.dropped:
        found.setdefault(dropped.cluster, []).extend(dropped.keys)
    for key in plan.abandoned:
        found.setdefault(key.partition("/cluster=")[2].partition("/")[0], []).append(key)
    return found


def retention_text(plan: RetentionPlan) -> str:
    """For people: each snapshot with why it is kept, and what goes."""
    lines = [f"keep {len(plan.kept)}"]
    lines += [f"  {kept.cluster} {kept.snapshot_id}: {', '.join(kept.reasons)}" for kept in plan.kept]
    lines.append(f"remove {len(plan.dropped)}")
    lines += [
        f"  {gone.cluster} {gone.snapshot_id} of {gone.taken_at}: {counted(len(gone.keys), 'object')}"
        + (f", {gone.applied} of them plans that were applied" if gone.applied else "")
        for gone in plan.dropped
    ]
    if plan.abandoned:
        lines.append(f"sweep {counted(len(plan.abandoned), 'object')} that killed runs left")
    lines += [f"ignored: {reason}" for reason in plan.ignored]
    lines.append(f"digest {plan.digest}")
    return "\n".join(map(plain, lines))


def retention_json(plan: RetentionPlan) -> dict[str, Any]:
    """For machines."""
    return asdict(plan)


# ------------------------------------------------------------------------------------------------- decisions


def _reasons(
    store: ObjectStore,
    manifests: Sequence[Manifest],
    policy: RetentionPolicy,
    now: datetime,
    pinned: Mapping[str, str],
) -> dict[str, list[str]]:
    """Snapshot id → why it is kept; `manifests` are one cluster's, oldest first.

    One dated in the future is kept, and counts for nothing. The newest consistent one is one whose raw layer can be read.
    """
    reasons: dict[str, list[str]] = {}
    future = [manifest for manifest in manifests if dated_in_the_future(manifest, now)]
    for manifest in future:
        reasons[manifest.snapshot_id] = [f"dated in the future, {manifest.taken_at:%Y-%m-%d}: counts for nothing"]
    newest_first = [manifest for manifest in reversed(manifests) if manifest not in future]
    for manifest in [*future, *newest_first]:
        if manifest.snapshot_id in pinned:
            reasons.setdefault(manifest.snapshot_id, []).append(f"pinned: {pinned[manifest.snapshot_id]}")
        if manifest not in future and now - manifest.taken_at < RECENT:
            reasons.setdefault(manifest.snapshot_id, []).append("recent: its plans may still be at work")
    for number, manifest in enumerate(newest_first[: policy.last], start=1):
        reasons.setdefault(manifest.snapshot_id, []).append(f"last {number} of {policy.last}")
    last_whole = next((each for each in newest_first if each.consistent and _raw_can_be_read(store, each)), None)
    if last_whole is not None:
        reasons.setdefault(last_whole.snapshot_id, []).append("newest consistent one")
    for label, count, period in (
        ("daily", policy.daily, "%Y-%m-%d"),
        ("weekly", policy.weekly, "%G-W%V"),
        ("monthly", policy.monthly, "%Y-%m"),
    ):
        for name, manifest in _newest_of_periods(newest_first, period, count).items():
            reasons.setdefault(manifest.snapshot_id, []).append(f"{label} {name}")
    return reasons


def _newest_of_periods(newest_first: Sequence[Manifest], period: str, count: int) -> dict[str, Manifest]:
    """Name of each of the last `count` periods that have a snapshot → its newest consistent one, else its newest."""
    chosen: dict[str, Manifest] = {}
    for manifest in newest_first:
        name = manifest.taken_at.astimezone(UTC).strftime(period)
        best = chosen.get(name)
        if best is None and len(chosen) >= count:
            break
        if best is None or (manifest.consistent and not best.consistent):
            chosen[name] = manifest
    return chosen


def _raw_can_be_read(store: ObjectStore, manifest: Manifest) -> bool:
    with suppress(*UNUSABLE):
        read_raw(store, manifest)
        return True
    return False


def _own_note(store: ObjectStore, manifest: Manifest) -> tuple[str, ...]:
    """Key of the note of the snapshot's run, if it names this snapshot and not a later one of the same run."""
    key = run_key(manifest.cluster, manifest.run_id)
    with suppress(*UNUSABLE):
        if parse_manifest(store.get(key), key, "").snapshot_id == manifest.snapshot_id:
            return (key,)
    return ()


def _dropped(store: ObjectStore, manifest: Manifest, receipts: Iterable[str]) -> Dropped:
    key = manifest.key
    rest = [other for other in store.list(f"{manifest.prefix}/") if other != key]
    plans = [other for other in rest if "/plans/" in other]  # first: beside no manifest they would keep the folder
    keys = (*plans, *_own_note(store, manifest), key, *(other for other in rest if other not in plans))
    begun = {digest[:DIGEST_LETTERS] for digest in receipts}
    applied = sum(is_plan(other) and digest_in(other) in begun for other in rest)
    taken_at = manifest.taken_at.isoformat(timespec="seconds")
    return Dropped(manifest.snapshot_id, manifest.cluster, taken_at, keys, applied)


def _abandoned(store: ObjectStore, now: datetime, cluster: str | None) -> Iterable[str]:
    """Objects in snapshot folders without a manifest, of dates so old that no run can still be taking them.

    A folder whose snapshot is pinned, holds plans, or has its raw layer and the note of its run stays: its manifest was lost, and
    `snapshots repair` brings it back. A note without a raw layer brings nothing back, and goes with what is left.
    """
    youngest = (now.astimezone(UTC) - timedelta(days=ABANDONED_AFTER_DAYS)).date().isoformat()
    folders: dict[str, list[str]] = {}
    for key in store.list(f"{ROOT}/cluster=" if cluster is None else f"{ROOT}/cluster={cluster}/"):
        steps = key.split("/")
        if len(steps) > 4 and steps[3].startswith("snap="):  # noqa: PLR2004 -- v1/c/d/s/object
            folders.setdefault(_folder_of(key), []).append(key)
    without = {
        folder: keys
        for folder, keys in folders.items()
        if f"{folder}/{MANIFEST}" not in keys
        and not any("/plans/" in key for key in keys)
        and folder.split("/")[2].removeprefix("date=") < youngest
    }
    owners = {folder.split("/")[1].removeprefix("cluster=") for folder in without}
    notes, pinned = {name: _notes(store, name) for name in owners}, {name: pins(store, name) for name in owners}
    for folder, keys in without.items():
        _, owner, _, snapshot = (step.partition("=")[2] for step in folder.split("/"))
        note = notes[owner].get(snapshot)
        if snapshot not in pinned[owner] and (note is None or f"{folder}/{RAW}.parquet" not in keys):
            yield from [*filter(None, [note]), *keys]


def _folder_of(key: str) -> str:
    """The folder of the snapshot that an object belongs to."""
    return "/".join(key.split("/")[:4])


def _notes(store: ObjectStore, cluster: str) -> dict[str, str]:
    """Id of each snapshot that the note of a run names → key of that note."""
    found: dict[str, str] = {}
    for key in store.list(f"{ROOT}/runs/cluster={cluster}/"):
        with suppress(*UNUSABLE):
            found[parse_manifest(store.get(key), key, "").snapshot_id] = key
    return found


def retention_digest(
    policy: RetentionPolicy, kept: Sequence[Kept], dropped: Sequence[Dropped], abandoned: Sequence[str]
) -> str:
    """SHA-256 of a decision: the policy, what is kept, and every key that is deleted. Reasons and counts are for people.

    Args:
        policy: of retention.
        kept: snapshots, with the reason.
        dropped: snapshots, with their keys.
        abandoned: keys of snapshots that were never finished.
    """
    document = [
        asdict(policy),
        [each.snapshot_id for each in kept],
        [{name: getattr(each, name) for name in ("snapshot_id", "cluster", "taken_at", "keys")} for each in dropped],
        list(abandoned),
    ]
    canonical = json.dumps(document, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()
