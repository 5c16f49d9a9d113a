"""Pins: snapshots that no retention removes, each with who set it and why; setting and removing one stays on record."""

import json
from collections.abc import Mapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import ROOT, Manifest, pin_key
from controller_core.model.errors import ObjectExistsError, ObjectMissingError
from controller_core.plans.plain import plain
from controller_core.ports.object_store import put_once

PIN_EVENTS: Final = f"{ROOT}/pin-events/cluster="


def pin(store: ObjectStore, manifest: Manifest, *, reason: str, by: str, now: datetime) -> None:
    """Keeps a snapshot until it is unpinned; a pin that is there stays as it is. Who sets it, and why, is recorded first.

    Args:
        store: of snapshots, plans and records.
        manifest: of the snapshot.
        reason: in that person's words.
        by: who asks.
        now: the time, UTC.
    """
    key, record = pin_key(manifest.cluster, manifest.snapshot_id), _record(reason, by, now)
    if store.list(key):
        return
    put_once(store, _event_key(manifest, now, "pinned"), record)
    with suppress(ObjectExistsError):  # of another who asks at the same time, or of a put whose answer was lost
        store.put_new(key, record)


def unpin(store: ObjectStore, manifest: Manifest, *, reason: str, by: str, now: datetime) -> None:
    """Lets retention judge the snapshot again; who removed the pin, and why, is recorded first.

    Args:
        store: of snapshots, plans and records.
        manifest: of the snapshot.
        reason: in that person's words.
        by: who asks.
        now: the time, UTC.
    """
    put_once(store, _event_key(manifest, now, "unpinned"), _record(reason, by, now))
    store.delete(pin_key(manifest.cluster, manifest.snapshot_id))


def pins(store: ObjectStore, cluster: str) -> dict[str, str]:
    """Snapshot id → why it is pinned, and by whom; one that cannot be read is a pin, too."""
    found: dict[str, str] = {}
    for key in store.list(pin_key(cluster, "").removesuffix(".json")):
        found[key.rpartition("/")[2].removesuffix(".json")] = _why(store, key)
    return found


def _why(store: ObjectStore, key: str) -> str:
    try:
        record: Mapping[str, str] = json.loads(store.get(key))
        return plain(f"{record['reason']} ({record['by']})" if "by" in record else str(record["reason"]))
    except (ValueError, KeyError, TypeError, ObjectMissingError):
        return "unreadable pin"


def _record(reason: str, by: str, now: datetime) -> bytes:
    record = {"reason": reason, "by": by, "at": now.astimezone(UTC).isoformat(timespec="seconds")}
    return json.dumps(record, sort_keys=True, ensure_ascii=False).encode()


def _event_key(manifest: Manifest, now: datetime, what: str) -> str:
    moment = now.astimezone(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    return f"{PIN_EVENTS}{manifest.cluster}/{manifest.snapshot_id}/{moment}-{what}.json"
