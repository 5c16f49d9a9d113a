"""Plans in the store: where they lie, how they are written once, and how they are read again and checked."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec
from msgspec import structs

from controller_core.adapters.object_store.open import ObjectStore
from controller_core.adapters.snapshot.manifest import require_name
from controller_core.model.errors import InvalidPlanError, ObjectExistsError, ObjectMissingError
from controller_core.model.gc_pause import collector_paused
from controller_core.plans.document import canonical
from controller_core.plans.plan import (
    Plan,
    plan_and_digest,
    plan_and_digest_from_bytes,
    plan_digest,
    plan_to_bytes,
    rollback_plan,
)
from controller_core.plans.text import plan_markdown, plan_size, plan_summary
from controller_core.plans.validation import check_plan, plan_problems
from controller_core.ports.object_store import put_once
from kafka_maintenance import __version__
from kafka_maintenance.operations.errors import BadInputError, RefusedError

_LAYOUT_ROOT = "/v1/"
_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredPlan:
    """A plan in the store.

    `summary` is one line, `count` how many elections, moves, deletions or re-elections it asks for, `markdown` what the
    approver reads. `rollback_uri` is None where requests cannot undo the plan.
    """

    uri: str
    digest: str
    kind: str
    cluster: str
    summary: str
    count: int
    markdown: str
    rollback_uri: str | None = None


def split_uri(uri: str) -> tuple[str, str]:
    """The address of the store and the key of the object in it.

    Raises:
        BadInputError: it is no address of an object of ours.
    """
    root, found, rest = uri.rpartition(_LAYOUT_ROOT)
    if not found or not rest:
        raise BadInputError(
            f"object {uri!r} not read: expected an address such as STORE/v1/cluster=…/plans/….json; copy it from where "
            "it was printed"
        )
    return root, f"v1/{rest}"


def key_of(store: ObjectStore, uri: str) -> str:
    """The key of `uri` in `store`.

    Raises:
        BadInputError: the object lies in another store.
    """
    key = split_uri(uri)[1]
    if uri not in {store.uri_of(key), key}:
        raise BadInputError(
            f"object {uri!r} not read: the store in use is {store.uri}; name that store, or copy the object"
        )
    return key


def store_plan(store: ObjectStore, plan: Plan, folder: str, *, proof: Mapping[str, Any] | None = None) -> StoredPlan:
    """Writes the plan under `folder`, a key prefix that ends in `/`; equal plans share a key.

    A plan that is stored already stays as the version of this program that made it wrote it.

    Beside it lie its text, its rollback where there is one, and the parts of the planner's `proof` where it was planned:
    the certificate, and what it is about.

    Args:
        store: of snapshots, plans and records.
        plan: the plan.
        folder: a key prefix that ends in `/`.
        proof: of the planner; None: none.

    Raises:
        RefusedError: nobody would take the plan: it has too many steps, or a topic that Kafka would not name so.
    """
    if problems := plan_problems(plan):
        raise RefusedError(
            f"plan for {plan.cluster!r} not stored: expected one that `apply` takes, found: {problems}; plan for fewer topics, or with "
            "fewer and larger steps"
        )
    if proof is not None:
        plan = structs.replace(plan, proof=_hash(proof))
    document, digest = plan_and_digest(plan, code_version=__version__)
    stem = f"{folder}plans/{plan.kind}-{digest[:12]}"
    rollback = rollback_plan(plan, digest=digest)
    markdown = plan_markdown(plan, digest=digest)
    rollback_key = None if rollback is None else f"{stem}.rollback.json"
    if not (store.list(f"{stem}.json") and plan_digest(read_plan(store, store.uri_of(f"{stem}.json"))) == digest):
        if rollback is not None:
            put_same(store, f"{stem}.rollback.json", plan_to_bytes(rollback, code_version=__version__))
        if proof is not None:
            put_same(store, f"{stem}.certificate.json", canonical(proof["certificate"]))
            about = {name: part for name, part in proof.items() if name != "certificate"}
            put_same(store, f"{stem}.proof.json", canonical(about))
        put_same(store, f"{stem}.md", markdown.encode())
        put_same(store, f"{stem}.json", document)
    _keep_name(store, plan, digest, f"{stem}.json")
    if rollback is not None:
        _keep_name(store, rollback, plan_digest(rollback), f"{stem}.rollback.json")
    return _described(store, plan, digest, markdown, f"{stem}.json", rollback_key)


def find_plan(store: ObjectStore, *, cluster: str, kind: str, digest: str) -> StoredPlan:
    """The stored plan of that cluster, kind and digest: all that whoever asks for it has to name.

    Args:
        store: of snapshots, plans and records.
        cluster: its name.
        kind: of the plan.
        digest: of the plan, SHA-256 in hex.

    Raises:
        BadInputError: the store has no such plan.
        InvalidPlanError: what is stored under that name is another plan, or was altered.
    """
    uri = uri_of_plan(store, cluster=cluster, kind=kind, digest=digest)
    return load_plan(store, uri, kind=kind, cluster=cluster, digest=digest)


def plan_named(store: ObjectStore, *, cluster: str, kind: str, digest: str) -> Plan:
    """The plan itself; errors: see `find_plan`.

    Args:
        store: of snapshots, plans and records.
        cluster: its name.
        kind: of the plan.
        digest: of the plan, SHA-256 in hex.
    """
    return read_plan(store, find_plan(store, cluster=cluster, kind=kind, digest=digest).uri)


def uri_of_plan(store: ObjectStore, *, cluster: str, kind: str, digest: str) -> str:
    """Where the plan of that name lies; it is not read.

    Args:
        store: of snapshots, plans and records.
        cluster: its name.
        kind: of the plan.
        digest: of the plan, SHA-256 in hex.

    Raises:
        BadInputError: the store has no such plan.
        InvalidPlanError: the name leads out of the folder of the cluster.
    """
    try:
        key = store.get(_name_key(cluster, kind, require_digest(digest))).decode()
    except ObjectMissingError:
        raise BadInputError(
            f"plan not read: the store {store.uri} has no {kind} plan of {cluster!r} with digest {digest[:12]}; name another, or plan "
            "again"
        ) from None
    if not key.startswith(f"v1/cluster={cluster}/") or ".." in key or not key.endswith(".json"):
        raise InvalidPlanError(
            f"plan {digest[:12]} not read: expected one in a folder of {cluster!r}, found {key[:200]!r}; plan again"
        )
    return store.uri_of(key)


def require_digest(digest: str) -> str:
    """The digest, where it is one.

    Raises:
        BadInputError: it is not 64 hex digits.
    """
    if not _DIGEST.fullmatch(digest):
        raise BadInputError(
            f"plan not read: expected its digest, 64 hex digits, found {digest[:100]!r}; copy it in full"
        )
    return digest


def _name_key(cluster: str, kind: str, digest: str) -> str:
    return f"v1/plans/cluster={require_name(cluster, 'cluster')}/{require_name(kind, 'kind')}-{digest}"


def _keep_name(store: ObjectStore, plan: Plan, digest: str, key: str) -> None:
    """Notes where the plan lies; of equal plans in two folders the first counts, unless it was removed since."""
    name = _name_key(plan.cluster, plan.kind, digest)
    try:
        put_once(store, name, key.encode())
    except ObjectExistsError:
        if store.list(store.get(name).decode()):
            return
        store.delete(name)
        put_once(store, name, key.encode())


@collector_paused()
def read_proof(store: ObjectStore, uri: str, plan: Plan) -> Mapping[str, Any] | None:
    """The proof that the plan at `uri` names and that lies beside it; None where it names none: its targets were given.

    Raises:
        RefusedError: it is gone, or it is another one.
    """
    if plan.proof is None:
        return None
    stem = key_of(store, uri).removesuffix(".json")
    try:
        about, certificate = (store.get(f"{stem}.{part}.json") for part in ("proof", "certificate"))
        proof: dict[str, Any] = {**msgspec.json.decode(about), "certificate": msgspec.json.decode(certificate)}
        found = _sha256(b'{"certificate":' + canonical(proof["certificate"]) + b"," + about[1:])
        if found != plan.proof:  # one that is spelt in another way has its hash, too
            found = _sha256(canonical(proof))
    except (ObjectMissingError, ValueError, TypeError) as error:
        found = f"none ({error})"
        proof = {}
    if found != plan.proof:
        raise RefusedError(
            f"plan {uri} not applied: expected the planner's proof with hash {plan.proof[:12]} beside it, found {found[:200]}; plan again"
        )
    return proof


def _hash(proof: Mapping[str, Any]) -> str:
    """SHA-256 of the proof as `read_proof` finds it, where every key is text."""
    return _sha256(canonical(json.loads(canonical(dict(proof)))))


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def load_plan(
    store: ObjectStore, uri: str, *, kind: str | None = None, cluster: str | None = None, digest: str | None = None
) -> StoredPlan:
    """A stored plan, its own digest verified.

    Args:
        store: of snapshots, plans and records.
        uri: its address, or its key.
        kind: which it has to be; None: any.
        cluster: whose it has to be; None: any.
        digest: which it has to have; None: any.

    Raises:
        InvalidPlanError: no plan, an altered one, or one of another kind, cluster or digest than was asked for.
        BadInputError: no object of this store.
    """
    plan, found = plan_in(document_at(store, uri), uri, kind=kind, cluster=cluster, digest=digest)
    key = key_of(store, uri)
    rollback = key.removesuffix(".json") + ".rollback.json"
    rollback_key = rollback if plan.rollback.steps and store.list(rollback) else None
    return _described(store, plan, found, plan_markdown(plan, digest=found), key, rollback_key)


def read_plan(store: ObjectStore, uri: str) -> Plan:
    """The plan at `uri`, checked by the rules of its kind; errors: see `load_plan`."""
    return plan_in(document_at(store, uri), uri)[0]


def document_at(store: ObjectStore, uri: str) -> bytes:
    """The document at `uri`, unread.

    Raises:
        BadInputError: no object of this store.
    """
    try:
        return store.get(key_of(store, uri))
    except ObjectMissingError:
        raise BadInputError(
            f"plan {uri} not read: the store {store.uri} has no such object; list its plans, or plan again"
        ) from None


@collector_paused()
def plan_in(
    document: bytes, uri: str, *, kind: str | None = None, cluster: str | None = None, digest: str | None = None
) -> tuple[Plan, str]:
    """The plan in a stored document, checked by the rules of its kind, and its digest.

    Args:
        document: as it was stored.
        uri: where it lies, for messages.
        kind: which it has to be; None: any.
        cluster: whose it has to be; None: any.
        digest: which it has to have; None: any.

    Raises:
        InvalidPlanError: no plan, an altered one, or one of another kind, cluster or digest than was asked for.
    """
    plan, found = plan_and_digest_from_bytes(document, where=uri)
    check_plan(plan, uri)
    for what, expected, is_there in (
        ("kind", kind, plan.kind.value),
        ("cluster", cluster, plan.cluster),
        ("digest", digest, found),
    ):
        if expected not in {None, is_there}:
            raise InvalidPlanError(
                f"plan {uri} not taken: expected {what} {expected!r}, found {is_there!r}; name another plan, or plan again"
            )
    return plan, found


def _described(
    store: ObjectStore, plan: Plan, digest: str, markdown: str, key: str, rollback_key: str | None
) -> StoredPlan:
    return StoredPlan(
        uri=store.uri_of(key),
        digest=digest,
        kind=plan.kind.value,
        cluster=plan.cluster,
        summary=plan_summary(plan),
        count=plan_size(plan),
        markdown=markdown,
        rollback_uri=None if rollback_key is None else store.uri_of(rollback_key),
    )


def put_same(store: ObjectStore, key: str, data: bytes) -> None:
    """Create-only; an equal object that is there already is as good, another one is a damaged plan."""
    try:
        put_once(store, key, data)
    except ObjectExistsError:
        raise InvalidPlanError(
            f"plan {store.uri_of(key)} not stored: another document has that name; it was altered, remove it and plan again"
        ) from None
