"""Checks the snapshots of a store as a whole: places, manifests, objects, notes of runs, pins; content of a sample or of all.

`repair` (next file) mends what a note or a raw layer still holds.
Source: docs/snapshots.md, "What is stored".
"""

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import (
    MANIFEST,
    ROOT,
    Manifest,
    dated_in_the_future,
    parse_manifest,
    run_key,
    snapshot_prefix,
)
from controller_core.model.errors import ObjectDamagedError, ObjectMissingError
from controller_core.model.words import counted
from kafka_maintenance.operations.at_once import at_once
from kafka_maintenance.operations.snapshots.catalog import UNUSABLE, manifest_keys, read_manifest
from kafka_maintenance.operations.snapshots.verify import Finding, verify_snapshot

_SNAPSHOT_STEPS: Final = 4  # v1/cluster=C/date=D/snap=S
_LIVE_PLANS: Final = ["live", "plans"]
"""Where in a date the plans lie that were made from the living cluster, not from a snapshot."""


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What a check says of a cluster's newest snapshot: its age in seconds, whether its cut is consistent and its content whole."""

    cluster: str
    snapshots: int
    age_s: float
    consistent: bool
    verified: bool


@dataclass(frozen=True, slots=True)
class StoreCheck:
    """What was looked at and what is wrong with it; `verified` of `snapshots` were read and decoded again."""

    findings: tuple[Finding, ...]
    clusters: tuple[ClusterState, ...]
    snapshots: int
    verified: int


def check_store(
    store: ObjectStore,
    *,
    now: datetime,
    cluster: str | None = None,
    sample: int | None = None,
    progress: Callable[[str], None] = lambda _: None,
) -> StoreCheck:
    """Looks at every key of the snapshots of a store, or of one cluster.

    Args:
        store: read only.
        now: a snapshot dated later is a finding.
        cluster: only this one.
        sample: read the content of so many snapshots of each cluster, the newest and others spread evenly over its
            history; None: of all.
        progress: told of each snapshot whose content is read.

    Raises:
        ObjectStoreError: the store cannot be listed.
    """
    found: list[Finding] = []
    manifests: list[Manifest] = []
    for key in manifest_keys(store, cluster):
        try:
            manifests.append(read_manifest(store, key))
        except UNUSABLE as error:
            found.append(Finding(store.uri_of(key), str(error)))
    manifests.sort(key=lambda each: (each.cluster, each.taken_at))
    found += [
        Finding(each.uri, f"is dated in the future: {each.taken_at.isoformat()}")
        for each in manifests
        if dated_in_the_future(each, now)
    ]
    found += _object_findings(store, manifests)
    found += _folder_findings(store, manifests, cluster)
    found += _note_findings(store, manifests, cluster)
    found += _pin_findings(store, manifests, cluster)
    chosen = _sample(manifests, sample)
    damaged: set[str] = set()
    for number, manifest in enumerate(chosen, start=1):
        progress(f"{number} of {len(chosen)}: {manifest.uri}")
        wrong = verify_snapshot(store, manifest)
        damaged |= {manifest.key} if wrong else set()
        found += wrong
    return StoreCheck(
        tuple(dict.fromkeys(found)), tuple(_states(manifests, chosen, damaged, now)), len(manifests), len(chosen)
    )


def check_text(check: StoreCheck) -> str:
    """For people: each cluster, each finding, and how much was looked at."""
    lines = [
        f"{state.cluster}: {counted(state.snapshots, 'snapshot')}, the newest {state.age_s / 3600:.1f} hours old, "
        f"{'consistent' if state.consistent else 'NOT consistent'}, {'verified' if state.verified else 'NOT whole'}"
        for state in check.clusters
    ]
    lines += [f"{finding.where}: {finding.what}" for finding in check.findings]
    lines.append(
        f"{counted(check.snapshots, 'snapshot')}, {check.verified} of them read and decoded again: "
        + ("nothing is wrong" if not check.findings else f"{len(check.findings)} things are wrong")
    )
    return "\n".join(lines)


# ------------------------------------------------------------------------------------------------- what is looked at


def _object_findings(store: ObjectStore, manifests: Sequence[Manifest]) -> Iterator[Finding]:
    """Objects that are missing or have another size."""

    def of_snapshot(manifest: Manifest) -> list[Finding]:
        wrong: list[Finding] = []
        for stored in manifest.objects:
            try:
                size = store.size(stored.key)
            except ObjectMissingError:
                wrong.append(Finding(store.uri_of(stored.key), "is missing"))
                continue
            except UNUSABLE as error:
                wrong.append(Finding(store.uri_of(stored.key), str(error)))
                continue
            if size != stored.size:
                wrong.append(Finding(store.uri_of(stored.key), f"expected {stored.size} bytes, found {size}"))
        return wrong

    for wrong in at_once(of_snapshot, manifests):
        yield from wrong


def _folder_findings(store: ObjectStore, manifests: Sequence[Manifest], cluster: str | None) -> Iterator[Finding]:
    """Folders without a manifest, and objects that no manifest names."""
    known = {manifest.prefix: {stored.key for stored in manifest.objects} | {manifest.key} for manifest in manifests}
    lost: dict[str, int] = {}
    keys = store.list(f"{ROOT}/cluster=" if cluster is None else f"{ROOT}/cluster={cluster}/")
    named = {key.rpartition("/")[0] for key in keys if key.endswith(f"/{MANIFEST}")}
    for key in keys:
        steps = key.split("/")
        if steps[3:5] == _LIVE_PLANS:
            continue
        folder = "/".join(steps[:_SNAPSHOT_STEPS])
        if len(steps) <= _SNAPSHOT_STEPS or not steps[3].startswith("snap="):
            yield Finding(store.uri_of(key), "lies where no snapshot has an object")
        elif folder not in named:
            lost[folder] = lost.get(folder, 0) + 1
        elif folder in known and key not in known[folder] and steps[_SNAPSHOT_STEPS] != "plans":
            yield Finding(store.uri_of(key), "is named by no manifest")
    for folder, count in lost.items():
        yield Finding(
            store.uri_of(folder),
            f"{counted(count, 'object')} without a manifest: of a killed run, or the manifest is lost",
        )


def _note_findings(store: ObjectStore, manifests: Sequence[Manifest], cluster: str | None) -> Iterator[Finding]:
    """Notes of runs that cannot be read, lie elsewhere, name no snapshot, or differ from it; snapshots without a note."""
    by_key = {manifest.key: manifest for manifest in manifests}
    noted: set[str] = set()
    for key in store.list(f"{ROOT}/runs/cluster=" if cluster is None else f"{ROOT}/runs/cluster={cluster}/"):
        uri = store.uri_of(key)
        try:
            note = note_of(store, key)
        except UNUSABLE as error:
            yield Finding(uri, f"note of a run: {error}")
            continue
        noted.add(note.key)
        if note.key not in by_key:
            yield Finding(uri, f"names the snapshot {note.snapshot_id}, which cannot be read")
        elif by_key[note.key].digest != note.digest:
            yield Finding(uri, f"differs from the manifest of {note.snapshot_id}")
    for manifest in manifests:
        if manifest.key not in noted:
            yield Finding(
                manifest.uri, "no note of its run names it: a second call of the run would take another snapshot"
            )


def note_of(store: ObjectStore, key: str) -> Manifest:
    """The manifest that the note of a run holds, with the place where it belongs; `UNUSABLE` when it cannot be one."""
    content = store.get(key)
    noted = parse_manifest(content, store.uri_of(key), "")
    if run_key(noted.cluster, noted.run_id) != key:
        raise ObjectDamagedError(
            f"note {store.uri_of(key)!r} not read: expected it at {run_key(noted.cluster, noted.run_id)!r}, as it says; it was "
            "copied or moved"
        )
    place = f"{snapshot_prefix(noted.cluster, noted.taken_at, noted.snapshot_id)}/{MANIFEST}"
    return parse_manifest(content, store.uri_of(place), place)


def _pin_findings(store: ObjectStore, manifests: Sequence[Manifest], cluster: str | None) -> Iterator[Finding]:
    """Pins that cannot be read, or whose snapshot is not there."""
    there = {(manifest.cluster, manifest.snapshot_id) for manifest in manifests}
    for key in store.list(f"{ROOT}/pins/cluster=" if cluster is None else f"{ROOT}/pins/cluster={cluster}/"):
        owner, name = key.split("/")[2].removeprefix("cluster="), key.rpartition("/")[2].removesuffix(".json")
        try:
            _ = json.loads(store.get(key))["reason"]
        except (ValueError, KeyError, TypeError, *UNUSABLE):
            yield Finding(store.uri_of(key), "is no pin that can be read; it keeps its snapshot all the same")
        if (owner, name) not in there:
            yield Finding(store.uri_of(key), f"pins the snapshot {name}, which cannot be read")


def _sample(manifests: Sequence[Manifest], count: int | None) -> list[Manifest]:
    """Of each cluster the newest and others spread evenly over its history, `count` in all; every one without a count."""
    if count is None:
        return list(manifests)
    chosen: list[Manifest] = []
    for name in sorted({manifest.cluster for manifest in manifests}):
        own = [manifest for manifest in manifests if manifest.cluster == name]
        steps = min(count, len(own))
        chosen += [own[-1 - number * len(own) // steps] for number in range(steps)]
    return chosen


def _states(
    manifests: Sequence[Manifest], chosen: Sequence[Manifest], damaged: set[str], now: datetime
) -> Iterator[ClusterState]:
    verified = {manifest.key for manifest in chosen} - damaged
    for name in sorted({manifest.cluster for manifest in manifests}):
        own = [each for each in manifests if each.cluster == name and not dated_in_the_future(each, now)]
        if own:
            newest = own[-1]
            age_s = (now - newest.taken_at).total_seconds()
            yield ClusterState(name, len(own), age_s, newest.consistent, newest.key in verified)


def check_json(check: StoreCheck) -> dict[str, Any]:
    """For machines."""
    return {
        "findings": [[each.where, each.what] for each in check.findings],
        "clusters": [{name: getattr(state, name) for name in ClusterState.__slots__} for state in check.clusters],
        "snapshots": check.snapshots,
        "verified": check.verified,
    }
