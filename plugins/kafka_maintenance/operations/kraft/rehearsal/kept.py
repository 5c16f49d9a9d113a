"""What rehearsals found, kept in the store: the run-book takes counts and times from the newest one of its cluster.

A rehearsal lies at `v1/rehearsals/cluster=C/TIME.json`, as `kraft rehearse --json` prints it; secrets are in none.
"""

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import ROOT, require_name
from controller_core.model.errors import ObjectDamagedError
from controller_core.ports.object_store import put_once
from kafka_maintenance.operations.errors import BadInputError
from kafka_maintenance.operations.kraft.rehearsal.report import Rehearsal, rehearsal_json

_FIELDS: Final = ("digest", "passed", "kafka_version", "as_it_is", "repaired")
_OTHERWISE: Final = (ValueError, LookupError, TypeError, AttributeError, RecursionError)
"""What a document raises that is no rehearsal."""


def keep_rehearsal(store: ObjectStore, rehearsal: Rehearsal, now: datetime) -> str:
    """Stores what was found; its address."""
    moment = now.astimezone(UTC).strftime("%Y%m%dT%H%M%S%fZ")
    key = f"{_prefix(rehearsal.certificate.cluster)}{moment}.json"
    put_once(store, key, json.dumps(rehearsal_json(rehearsal), sort_keys=True).encode())
    return store.uri_of(key)


def newest_rehearsal(store: ObjectStore, cluster: str) -> Mapping[str, Any] | None:
    """The newest rehearsal of a cluster, of whichever snapshot; None where there is none.

    Raises:
        ObjectDamagedError: it cannot be read.
    """
    keys = list(store.list(_prefix(cluster)))  # in order, and the time is a part of them
    if not keys:
        return None
    try:
        return _checked(json.loads(store.get(keys[-1])))
    except _OTHERWISE as error:
        raise ObjectDamagedError(
            f"rehearsal {store.uri_of(keys[-1])!r} not read: expected what `kraft rehearse` stores, found {error!r}; remove the object and rehearse again"
        ) from error


def rehearsal_of(document: Mapping[str, Any], where: str) -> Mapping[str, Any]:
    """A rehearsal in a document that a person names; `where` it stands is for messages.

    Raises:
        BadInputError: it is none.
    """
    missing = [name for name in _FIELDS if name not in document]
    if missing:
        raise BadInputError(
            f"rehearsal {where} not read: expected the output of `kraft rehearse --json`, found none of its fields {', '.join(missing)}; name that file"
        )
    try:
        return _checked(document)
    except _OTHERWISE as error:
        raise BadInputError(
            f"rehearsal {where} not read: expected the output of `kraft rehearse --json`, found it changed ({error!r}); name an unchanged file"
        ) from error


def _checked(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """What the run-book takes of a rehearsal. Errors: `_OTHERWISE`."""
    run = document["repaired"] or document["as_it_is"]
    return {
        "digest": str(document["digest"]),
        "passed": document["passed"] is True,
        "kafka_version": str(document["kafka_version"]),
        "as_it_is": {
            "records": {str(kind): int(count) for kind, count in run["records"].items()},
            "cost": {"migrated_s": float(run["cost"]["migrated_s"])},
        },
        "repaired": None,
    }


def _prefix(cluster: str) -> str:
    return f"{ROOT}/rehearsals/cluster={require_name(cluster, 'cluster')}/"
