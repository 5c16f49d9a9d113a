"""What a restore plan must be that was read from a store: whoever can write there can write any document with a right digest.

The schema is closed; steps must lie in the plan's own scope, and be of kinds that the scope allows.
Source: docs/restoring.md, "A part, or the whole tree".
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from jsonschema import Draft202012Validator

from controller_core.model.errors import InvalidPlanError
from controller_core.model.words import counted
from kafka_maintenance.operations.apply.cluster_lock import LOCK_PATH
from kafka_maintenance.operations.restore.content import (
    RestoreScope,
    is_passing,
    scope_of,
    selected_configs,
    selected_paths,
    selected_topics,
)

PATH_LENGTH_MAX: Final = 10_000
_TEXT: Final = {"type": "string"}
_TRUTH: Final = {"type": "boolean"}
_COUNT: Final = {"type": "integer", "minimum": 0}
_HASH: Final = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
_TEXTS: Final = {"type": "array", "items": _TEXT}
_MAYBE: Final = {"type": ["string", "null"]}
_MAYBE_COUNT: Final = {"type": ["integer", "null"], "minimum": 0}


def _closed(properties: Mapping[str, Any], *, optional: Sequence[str] = ()) -> dict[str, Any]:
    required = [name for name in properties if name not in optional]
    return {"type": "object", "additionalProperties": False, "required": required, "properties": dict(properties)}


_STEP: Final = _closed(
    {
        "path": {"type": "string", "pattern": "^/", "maxLength": PATH_LENGTH_MAX},
        "expected_mzxid": _MAYBE_COUNT,
        "size": _COUNT,
        "sha256": _HASH,
        "notice": _TRUTH,
        "acl": _MAYBE,
        "expected_aversion": _MAYBE_COUNT,
        "delete": _TRUTH,
        "before": _MAYBE,
        "after": _MAYBE,
    }
)
_SCOPE: Final = _closed(
    {
        **dict.fromkeys(
            ("whole", "fill", "mirror", "recreate", "requests", "notifications", "acls", "widen_acls"), _TRUTH
        ),
        **dict.fromkeys(("topics", "configs", "paths"), _TEXTS),
        "epoch_bump": _COUNT,
        **dict.fromkeys(("cluster_id", "told_by"), _MAYBE),
        "corrections": {
            "type": "array",
            "items": {"type": "array", "prefixItems": [_TEXT, _MAYBE], "minItems": 2, "maxItems": 2},
        },
    }
)
_SCHEMA: Final = _closed(
    {
        "schema_version": {"type": "integer"},
        "kind": _TEXT,
        "code_version": _TEXT,
        "digest": _HASH,
        "cluster": _TEXT,
        "kafka_cluster_id": _MAYBE,
        "zookeeper": _TEXT,
        "snapshot": _closed(dict.fromkeys(("manifest", "digest", "id", "date"), _TEXT)),
        "scope": _SCOPE,
        "step_count": _COUNT,
        "steps": {"type": "array", "items": _STEP},
        "left_out_count": _COUNT,
        "left_out": {"type": "object", "additionalProperties": _COUNT},
        "notes": _TEXTS,
        "assumed_acls": _TEXTS,
        "content_sha256": _HASH,
        "sequence_id_version": {"type": "integer"},
    },
    optional=("content_sha256", "sequence_id_version"),
)


def check_restore(document: Mapping[str, Any], where: str) -> None:
    """Refuses a restore plan that the planner of this version does not make.

    Args:
        document: as it was read.
        where: its address, for the message.

    Raises:
        InvalidPlanError: a field that is unknown, missing or of another kind, a step outside the scope, or one that it does not allow.
    """
    found = next(_problems(document), None)
    if found is not None:
        raise InvalidPlanError(
            f"plan {where!r} not taken: expected what a restore is planned as, found: {found}; plan again"
        )


def _problems(document: Mapping[str, Any]) -> Iterator[str]:
    for error in Draft202012Validator(_SCHEMA).iter_errors(document):
        yield f"{'.'.join(map(str, error.path)) or 'the document'}: {error.message[:300]}"
        return
    try:
        scope = scope_of(document["scope"])
    except ValueError as error:
        yield str(error)
        return
    yield from _whole_problems(document, scope)
    paths = {step["path"] for step in document["steps"]}
    allowed = _allowed(paths, scope)
    for step in document["steps"]:
        for problem in _step_problems(step, scope, allowed):
            yield f"{problem} of {step['path'][:200]!r}"
    kinds = Counter((step["path"], step["acl"] is not None) for step in document["steps"])
    yield from (f"two steps for {path[:200]!r}" for (path, _), count in kinds.items() if count > 1)


def _whole_problems(document: Mapping[str, Any], scope: RestoreScope) -> Iterator[str]:
    """Into an empty tree everything of the snapshot goes, and its digest says what is created; any other plan lists its steps."""
    count, listed = document["step_count"], len(document["steps"])
    into_empty = scope.whole and not scope.over
    if not count or count < listed or (0 < listed < count and not into_empty):
        yield f"step_count {count} beside {counted(listed, 'step')}"
    if not listed and not into_empty:
        yield f"0 steps in a plan of {'the whole tree' if scope.whole else 'a part'}"
    if into_empty and any(step["acl"] is None and step["path"] != "/" for step in document["steps"]):
        yield "a step for data below the root, which the digest of the content stands for"
    if ("content_sha256" in document) != scope.whole or ("sequence_id_version" in document) != scope.whole:
        yield "content_sha256 and sequence_id_version, which belong to a plan of the whole tree"


def _step_problems(step: Mapping[str, Any], scope: RestoreScope, allowed: frozenset[str]) -> Iterator[str]:
    path, corrections = step["path"], dict(scope.corrections)
    if path != "/" and any(part in {"", ".", ".."} for part in path.split("/")[1:]):
        yield "a path that is none"
    if path.startswith(LOCK_PATH):
        yield "our own lock"
    if step["delete"]:
        wanted = scope.mirror or (path in corrections and corrections[path] is None)
        if not wanted or step["acl"] is not None or step["expected_mzxid"] is None or step["after"] is not None:
            yield "a deletion that nobody asked for"
        if (is_passing(path) and path not in corrections) or (scope.paths and not selected_paths([path], scope)):
            yield "a deletion outside the scope"
    elif step["acl"] is not None:
        of_new_chroot = path == "/" and scope.whole and not scope.over
        lacks_znode = step["expected_mzxid"] is None and not of_new_chroot
        if not scope.acls or lacks_znode or step["after"] != step["acl"]:
            yield "an ACL that the scope leaves alone"
    elif (step["expected_mzxid"] is None) != (step["before"] is None) or (step["size"] == 0) != (step["after"] is None):
        yield "a text that does not belong to its step"
    if path not in allowed:
        yield "a step outside the scope"


def _allowed(paths: set[str], scope: RestoreScope) -> frozenset[str]:
    """What the scope names of the paths, and their parents: those that are gone are brought back with them."""
    if scope.whole:
        return frozenset(paths)
    corrected = {path for path, _ in scope.corrections}
    named = {
        *corrected,
        *selected_configs(paths, scope),
        *selected_paths(paths, scope),
        *selected_topics(paths, scope),
        LOCK_PATH,
    }
    parents = {path[: at or 1] for path in named for at, letter in enumerate(path) if letter == "/"}
    return frozenset(paths & (named | parents))
