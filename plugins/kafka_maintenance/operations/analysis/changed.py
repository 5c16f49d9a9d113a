"""What is different since the snapshot before in all that the results of an analysis do not tell: rights, secrets, configs, every other znode.

Topics and partitions have results of their own, and most znodes: their rows are left out before anything is decoded, unless their
ACLs may differ.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from controller_core import znodes
from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import Manifest
from kafka_maintenance.operations.at_once import at_once
from kafka_maintenance.operations.snapshots.catalog import UNUSABLE, read_raw
from kafka_maintenance.operations.snapshots.changes import KINDS, Change
from kafka_maintenance.operations.snapshots.diff import diff, side_of_raw
from kafka_maintenance.operations.snapshots.diff_text import diff_lines

_TOPICS: Final = f"{znodes.TOPICS}/"
_OF_RESULTS: Final = frozenset(
    kind
    for kind in KINDS
    if kind.startswith(("topic_", "partitions_", "replicas_", "reassignment_", "leader_", "isr_"))
) | {"notification_made", "notification_gone"}
"""Kinds of change that the results count."""


def changed_since(
    store: ObjectStore, earlier: Iterable[Manifest], chosen: Iterable[Manifest]
) -> dict[str, dict[str, Any]]:
    """Cluster → `counts` (heading → how many) and `lines` for people, against its newest earlier snapshot.

    Args:
        store: where the snapshots are.
        earlier: of the dates before.
        chosen: of the date, one per cluster; one without an earlier snapshot has no entry.
    """
    newest = {manifest.cluster: manifest for manifest in sorted(earlier, key=lambda one: one.taken_at)}
    pairs = [(newest[manifest.cluster], manifest) for manifest in chosen if manifest.cluster in newest]
    told = at_once(lambda pair: _told(store, *pair), pairs)
    return {after.cluster: found for (_, after), found in zip(pairs, told, strict=True)}


def _told(store: ObjectStore, before: Manifest, after: Manifest) -> dict[str, Any]:
    try:
        raws = _beside_topics(read_raw(store, before), read_raw(store, after))
        found = diff(*(side_of_raw(store, each, raw) for each, raw in zip((before, after), raws, strict=True)))
    except UNUSABLE as error:
        return {"counts": {}, "lines": [f"not compared with {before.snapshot_id}: {error}"]}
    changes = tuple(change for change in found.changes if not _is_told(change))
    counts = Counter(KINDS[change.kind] for change in changes)
    return {"counts": dict(counts), "lines": diff_lines(replace(found, changes=changes, noise_count=0))}


def _is_told(change: Change) -> bool:
    """Whether the results tell it: a znode of a topic is theirs, its ACL is not."""
    of_topic = change.subject.startswith(_TOPICS) and change.kind != "zookeeper_acl_changed"
    return of_topic or change.kind in _OF_RESULTS


def _beside_topics(*raws: pa.Table) -> list[pa.Table]:
    """The raw layers without the znodes of topics, where all of these have one ACL; as they are, where an ACL may differ."""
    masks = [pc.starts_with(raw["path"], _TOPICS) for raw in raws]
    acls = {
        text for raw, mask in zip(raws, masks, strict=True) for text in raw["acl"].filter(mask).unique().to_pylist()
    }
    return [raw.filter(pc.invert(mask)) if len(acls) <= 1 else raw for raw, mask in zip(raws, masks, strict=True)]
